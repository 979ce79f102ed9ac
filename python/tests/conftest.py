"""Shared by the tests: all floats in steps, and the formats that ml_dtypes has too."""
import numpy as np
import pytest

import halfulp

SHARED = ("bf16", "e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz", "e4m3b11fnuz", "e4m3ieee", "e3m4", "e3m2", "e2m3", "e2m1", "e8m0")


SHELL_ONLY = {"completion", "man"}  # they write scripts and pages for users of a shell


def commands():
    """The commands of the command line, except those only for a shell."""
    offered = halfulp._command.call(["completion", "words", "--", ""])[1]
    names = {line.split("\t")[0] for line in offered.splitlines()}
    assert len(names) >= 20 and SHELL_ONLY <= names
    return sorted(names - SHELL_ONLY)


def same(a, b):
    """Whether values are equal, with NaN equal to NaN and zeros of the same sign."""
    a, b = np.asarray(a), np.asarray(b)
    assert a.shape == b.shape
    nan = np.isnan(a)
    assert np.array_equal(nan, np.isnan(b))
    assert np.array_equal(a[~nan], b[~nan])
    assert np.array_equal(np.signbit(a[~nan]), np.signbit(b[~nan]))


@pytest.fixture(scope="session")
def floats():
    """Every 1,021st of the 2^32 floats, signalling NaNs and subnormals included."""
    return np.arange(0, 1 << 32, 1021, dtype=np.uint64).astype(np.uint32).view(np.float32)


@pytest.fixture(params=SHARED)
def shared(request):
    """(Format, dtype of ml_dtypes)"""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    f = halfulp.Format(request.param)
    if not hasattr(ml_dtypes, f.dtype_name):
        pytest.skip(f"ml_dtypes {ml_dtypes.__version__} has no {f.dtype_name}")
    return f, np.dtype(getattr(ml_dtypes, f.dtype_name))
