"""Formats against the constants of NumPy and ml_dtypes."""
import pickle

import numpy as np
import pytest

import halfulp
from halfulp import BlockFormat, Format, ProductModel, Rounding


@pytest.mark.parametrize("name", ["fp16", "fp32", "fp64"])
def test_fields_are_those_of_numpy(name):
    f = Format(name)
    info = np.finfo(f.dtype_name)
    assert (f.bits, f.max, f.min, f.eps, f.smallest_normal, f.smallest_subnormal) == (
        info.bits, info.max, info.min, info.eps, info.smallest_normal, info.smallest_subnormal)
    assert (f.fraction_bits, f.exponent_bits, f.emin, f.precision) == (info.nmant, info.iexp, info.minexp, info.nmant + 1)


def test_fields_are_those_of_ml_dtypes(shared):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    f, dtype = shared
    info = ml_dtypes.finfo(dtype)
    assert (f.bits, f.max, f.eps, f.smallest_normal, f.fraction_bits) == (info.bits, info.max, info.eps, info.smallest_normal, info.nmant)
    assert f.smallest_subnormal == info.smallest_subnormal


def test_names_that_mean_the_same_are_equal():
    assert Format("e4m3") == Format("Float8E4M3FN") == Format("float8_e4m3fn") == Format("E4M3FN") != Format("float8_e4m3")
    assert len({Format("bf16"), Format("bfloat16"), Format("e8m7")}) == 1
    assert BlockFormat("mxfp4") == BlockFormat(BlockFormat("mxfp4").description) != BlockFormat("mxfp4/rceil")
    assert (Format("e5m3") == 3) is False
    assert repr(Format("half")) == "Format('fp16')" and str(Format("e6m9")) == "e6m9"


def test_names_elsewhere():
    assert (Format("e4m3").llvm_name, Format("e4m3").dtype_name) == ("Float8E4M3FN", "float8_e4m3fn")
    assert (Format("bf16").llvm_name, Format("fp16").llvm_name, Format("e5m3").llvm_name) == ("BFloat", "IEEEhalf", None)


@pytest.mark.parametrize("value", [Format("e4m3b11fnuz"), BlockFormat("nvfp4"), BlockFormat("e4m3/1x64/e8m0/rceil")])
def test_formats_pickle(value):
    assert pickle.loads(pickle.dumps(value)) == value


def test_roundings():
    assert Rounding("to-odd", nan="x86" if False else "cuda") == Rounding("to-odd", nan="cuda") != Rounding("to-odd")
    assert repr(Rounding("stochastic", random_bits=8)) == "Rounding('stochastic', random_bits=8)"
    assert len({Rounding(), Rounding("nearest-even")}) == 1


@pytest.mark.parametrize("make, message", [
    (lambda: Format("fp17"), "did you mean fp16"), (lambda: Format(""), "format"), (lambda: Format("e99m3"), "e99m3"),
    (lambda: BlockFormat("mxfp5"), "mxfp"), (lambda: Rounding("to-od"), "to-odd"), (lambda: Rounding(overflow="satur"), "saturate"),
    (lambda: Rounding(random_bits=33), "random_bits"), (lambda: ProductModel("hopper.mma.fp16.fp33"), "hopper.mma.fp16.fp32"),
    (lambda: Format("e4m3").value(256), "256"), (lambda: Format("x" * 100000), "format"), (lambda: Format("fp16\0"), "format")])
def test_unknown_words_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_all_of_the_catalogue_are_formats():
    for row in halfulp.formats():
        f = Format(row["name"])
        assert (f.emax, f.emin, f.max) == (row["emax"], row["emin"], row["max"]["value"])
