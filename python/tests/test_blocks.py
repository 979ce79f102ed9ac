"""Blocks made by hand and empty Blocks: their fields fit together, or an exception names the one that does not."""
import dataclasses

import numpy as np
import pytest

import halfulp
from conftest import same

X = np.random.default_rng(5).standard_normal((3, 64)).astype(np.float32)
B = halfulp.quantize_blocks(X, "mxfp4")
N = halfulp.quantize_blocks(X, "nvfp4")
AFFINE = halfulp.quantize_blocks(X, "uint4-g32" if "uint4-g32" in {row["name"] for row in halfulp.formats(blocks=True)} else next(
    row["name"] for row in halfulp.formats(blocks=True) if halfulp.BlockFormat(row["name"]).is_affine))


@pytest.mark.parametrize("blocks, field, value, error", [
    (B, "codes", B.codes.astype(np.int64), TypeError), (B, "codes", B.codes.astype(np.float32), TypeError), (B, "codes", B.codes + np.uint8(16), ValueError), (B, "codes", None, TypeError),
    (B, "scales", B.scales.T, ValueError), (B, "scales", B.scales[:, :1], ValueError), (B, "scales", B.scales.astype(np.float32), TypeError), (B, "scales", B.scales.astype(np.int64) - 1000, ValueError),
    (B, "scales", B.scales.astype(np.int64) + 2**32, ValueError), (B, "scales", None, TypeError), (B, "zeros", np.zeros(B.scales.shape, np.int16), ValueError),
    (B, "tensor_scale", 2.0, ValueError), (N, "tensor_scale", "1", TypeError), (N, "tensor_scale", None, TypeError), (N, "tensor_scale", -1.0, ValueError),
    (AFFINE, "zeros", None, ValueError), (AFFINE, "zeros", None if AFFINE.zeros is None else AFFINE.zeros.T, ValueError), (AFFINE, "zeros", None if AFFINE.zeros is None else AFFINE.zeros.astype(np.float32), TypeError),
    (B, "axis", 5, ValueError), (B, "format", "e4m3", ValueError)])
def test_fields_by_hand(blocks, field, value, error):
    with pytest.raises(error, match=f"^{field}:" if field != "format" else "e4m3"):
        dataclasses.replace(blocks, **{field: value}).values()


def test_fields_by_hand_that_fit():
    for b in (B, N, AFFINE):
        same(dataclasses.replace(b, scales=b.scales.astype(np.int64), codes=np.asfortranarray(b.codes), tensor_scale=np.float32(b.tensor_scale)).values(), b.values())
    same(halfulp.Blocks("mxfp4", B.codes, B.scales, None, 1).values(), B.values())
    zero = halfulp.quantize_blocks(np.zeros(16), "nvfp4")
    assert not zero.values().any()


def test_a_tensor_has_one_scale():
    """However many matrices its axis makes of it."""
    x = np.stack([X, 1000 * X, X / 1000])  # 3 x 3 x 64
    middle, last = halfulp.quantize_blocks(x, "nvfp4", axis=1), halfulp.quantize_blocks(x, "nvfp4")
    assert middle.tensor_scale == last.tensor_scale == halfulp.quantize_blocks(x.reshape(-1, 64), "nvfp4").tensor_scale
    given = halfulp.quantize_blocks(x, "nvfp4", axis=1, amax=float(np.abs(x).max()))
    same(middle.values(), given.values())


@pytest.mark.parametrize("shape", [(0,), (0, 32), (32, 0), (0, 4, 4), (3, 0, 4), (4, 4, 0), (2, 0, 0)])
@pytest.mark.parametrize("format", ["mxfp4", "nvfp4", "e4m3/4x4/e8m0", "fp8-128x128"])
def test_blocks_of_nothing(shape, format):
    for axis in (None, *(range(len(shape)) if halfulp.BlockFormat(format).rows == 1 else ())):
        b = halfulp.quantize_blocks(np.zeros(shape), format, axis=axis)
        assert b.codes.shape == b.values().shape == halfulp.quantize(np.zeros(shape), format, axis=axis).shape == shape


@pytest.mark.parametrize("amax, error", [("1", TypeError), ([1.0], TypeError), (True, TypeError), (object(), TypeError), (1j, TypeError), (1e39, ValueError), (10**400, ValueError),
                                         (-1, ValueError), (np.inf, ValueError), (np.nan, ValueError)], ids=lambda x: str(x)[:12])
def test_largest_magnitudes_that_are_none(amax, error):
    with pytest.raises(error, match="^amax: "):
        halfulp.quantize_blocks(X, "mxfp4", amax=amax)


BLOCKS = ["mxfp8e4m3", "mxfp4", "nvfp4", "int8", "int4", "e4m3-tensor", "int8-affine", "e4m3/1x32/e8m0/rceil"]


@pytest.mark.parametrize("format", BLOCKS)
def test_a_file_of_doubles_is_an_array_of_doubles(format, tmp_path):
    x = np.random.default_rng(3).normal(size=(4, 64)) * 10.0 ** np.arange(-2, 2)[:, None]
    np.save(tmp_path / "x.npy", x)
    for axis in None, 0:
        wanted = halfulp.quantize_blocks(x, format, axis=axis if "tensor" not in format else None)
        files = {name: str(tmp_path / f"{name}.npy") for name in ("out", "codes", "scales")}
        halfulp.quantize(tmp_path / "x.npy", format, axis=axis if "tensor" not in format else None, **files)
        same(np.load(files["codes"]), wanted.codes)
        same(np.load(files["scales"]), wanted.scales)
        same(np.load(files["out"]).astype(np.float32), wanted.values())
