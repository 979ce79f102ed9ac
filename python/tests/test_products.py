"""Dot products, products of matrices, block formats and casts."""
import numpy as np
import pytest

import halfulp
from conftest import same

R = np.random.default_rng(1)


def in_order(a, b):
    """Rounds each product and sum to float16, in order."""
    d = np.empty((a.shape[0], b.shape[1]), np.float16)
    for i in range(d.shape[0]):
        for j in range(d.shape[1]):
            s = None
            for x, y in zip(a[i], b[:, j]):
                s = x * y if s is None else s + x * y
            d[i, j] = s
    return d


@pytest.mark.parametrize("strided", [False, True])
def test_fp16_in_order_is_numpy_one_by_one(strided):
    a, b = R.standard_normal((7, 33)).astype(np.float16), R.standard_normal((33, 5)).astype(np.float16)
    if strided:
        a, b = np.asfortranarray(a), np.repeat(b, 2, axis=1)[:, ::2]
    same(halfulp.gemm(a, b, model="fp16"), in_order(a, b).astype(np.float32))
    assert halfulp.dot(a[0], b[:, 0], model="fp16") == in_order(a, b)[0, 0]
    c = R.standard_normal((7, 5)).astype(np.float16)
    same(halfulp.gemm(a, b, c, model="fp16"), (in_order(a, b) + c).astype(np.float32))


def test_values_and_codes_agree():
    a, b = R.standard_normal((9, 64)), R.standard_normal((64, 6))
    for model in ("fp16", "mul=fp16,acc=fp32,order=blocked:16", "e4m3,acc=fp32", "hopper.mma.fp16.fp32", "hopper.wgmma.e4m3.fp32", "fp16,round=stochastic,seed=3"):
        m = halfulp.ProductModel(model)
        codes = halfulp.gemm(halfulp.encode(a, m.a), halfulp.encode(b, m.b), model=m, codes=True)
        same(halfulp.decode(codes, m.result), halfulp.gemm(a, b, model=model))


def test_units_and_their_descriptions():
    a, b = R.standard_normal((16, 32)), R.standard_normal((32, 8))
    name = "hopper.mma.fp16.fp32"
    expected = halfulp.mma(name, a, b)
    same(halfulp.gemm(a, b, model=name), expected)
    described = dict(halfulp.units(name), name="mine")
    same(halfulp.mma(described, a, b), expected)
    described["alignment_bits"] = 10
    assert not np.array_equal(halfulp.mma(described, a, b), expected)
    lines = [" ".join(f"{c:X}" for c in halfulp.encode(row, "fp16")) + " | " + " ".join(f"{c:X}" for c in halfulp.encode(b[:, 0], "fp16")) + " | 0" for row in a]
    words = [int(line, 16) for line in halfulp.mma(name, lines=lines).split()]
    same(halfulp.decode(words, "fp32"), expected[:, 0])
    with pytest.raises(ValueError, match="unit: Out of range float.*accepted: a unit's description"):
        halfulp.mma(dict(described, alignment_bits=float("nan")), a, b)
    with pytest.raises(TypeError, match="unit: .*accepted: a unit's description"):
        halfulp.mma(dict(described, name={1}), a, b)


def test_tf32_words_and_scales():
    same(halfulp.mma("ampere.mma.tf32.fp32", [[1.5, 2]], [[4], [0.5]]), np.float32([[7]]))
    unit = next(u for u in halfulp.units() if u.get("scale") or u.get("scale_block"))
    m = halfulp.ProductModel(unit["name"])
    k = 2 * m.scale_block
    ones, scales = np.ones((1, k)), np.ones((1, 2))
    assert halfulp.mma(unit["name"], ones, ones.T, scale_a=scales, scale_b=scales.T)[0, 0] == k
    assert halfulp.mma(unit["name"], ones, ones.T, scale_a=2 * scales, scale_b=scales.T)[0, 0] == 2 * k


def test_empty_products():
    assert halfulp.gemm(np.ones((2, 0)), np.ones((0, 3)), model="fp16").tolist() == [[0] * 3] * 2
    assert halfulp.gemm(np.ones((0, 2)), np.ones((2, 3)), model="fp16").shape == (0, 3)
    assert halfulp.dot([], [], 5, model="fp16") == 5


def mx_by_hand(x, most, emax, f):
    """OCP MX 1.0, 6.3, on rows of 32."""
    blocks = x.reshape(-1, 32)
    exponent = np.floor(np.log2(np.abs(blocks).max(axis=1, keepdims=True))) - emax
    return (halfulp.quantize(np.clip(blocks / 2.0**exponent, -most, most), f) * 2.0**exponent).reshape(x.shape).astype(np.float32)


@pytest.mark.parametrize("name, element", [("mxfp8e4m3", "e4m3"), ("mxfp8e5m2", "e5m2"), ("mxfp6e2m3", "e2m3"), ("mxfp4", "e2m1")])
def test_mx_formats_by_their_definition(name, element):
    x = R.standard_normal((5, 4, 64)).astype(np.float32) * 10
    f = halfulp.Format(element)
    expected = mx_by_hand(x, f.max, f.emax, f)
    same(halfulp.quantize(x, name), expected)
    b = halfulp.quantize_blocks(x, name)
    same(b.values(), expected)
    assert b.codes.shape == x.shape and b.scales.shape == (20, 2) and b.scale_values.shape == (20, 2)
    same(halfulp.quantize(x[:, :, ::-1], name), mx_by_hand(np.ascontiguousarray(x[:, :, ::-1]), f.max, f.emax, f))
    along = np.moveaxis(x, -1, 1)  # blocks along another axis are those of the transposed array
    same(halfulp.quantize(along, name, axis=1), np.moveaxis(expected, -1, 1))
    same(halfulp.quantize_blocks(along, name, axis=1).values(), np.moveaxis(expected, -1, 1))


@pytest.mark.parametrize("name", ["nvfp4", "fp8-128x128", "int8", "uint4affine/1x32/fp32", "e4m3/tensor/fp32", "e4m3/column/fp32", "nvfp4/divide", "e4m3/4x8/e8m0/rceil"])
@pytest.mark.parametrize("shape", [(3, 40, 20), (17,), (), (0, 4), (2, 2, 3, 5)])
def test_blocks_are_those_of_the_command(name, shape, tmp_path):
    x = (R.standard_normal(shape) * 3).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    try:
        halfulp.quantize(tmp_path / "x.npy", name, out=tmp_path / "v.npy", codes=tmp_path / "c.npy", scales=tmp_path / "s.npy")
    except ValueError:
        with pytest.raises(ValueError):
            halfulp.quantize_blocks(x, name)
        return
    b = halfulp.quantize_blocks(x, name)
    same(halfulp.quantize(x, name), np.load(tmp_path / "v.npy"))
    same(b.values(), np.load(tmp_path / "v.npy"))
    assert np.array_equal(b.codes, np.load(tmp_path / "c.npy")) and np.array_equal(b.scales.ravel(), np.load(tmp_path / "s.npy").ravel())


def test_amax_and_nan_in_blocks():
    assert np.isnan(halfulp.quantize([1, np.nan, 3], "mxfp4")).all()
    assert halfulp.quantize_blocks([1.0, 100.0], "mxfp8e4m3", amax=1.0).values().tolist() == [1, halfulp.quantize_blocks([1.0, 100.0], "mxfp8e4m3", amax=1.0).scale_values[0, 0] * 448]


@pytest.mark.parametrize("profile, to", [("ml_dtypes", "e4m3"), ("ml_dtypes", "e5m2"), ("ml_dtypes", "bf16"), ("ml_dtypes", "e2m1")])
def test_casts_are_the_library(profile, to, floats):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = np.dtype(getattr(ml_dtypes, halfulp.Format(to).dtype_name))
    with np.errstate(all="ignore"):
        theirs = floats.astype(dtype)
    assert np.array_equal(halfulp.cast(floats, profile, to, codes=True), theirs.view(f"u{dtype.itemsize}"))


def test_casts_of_codes_and_numbers():
    assert halfulp.cast(1.0, "x86", "fp16") == 1
    assert halfulp.cast([0x3C00], "ml_dtypes", "e4m3", "fp16", codes=True).tolist() == [0x38]
    assert halfulp.cast(np.float16([1, 2]), "ml_dtypes", "e4m3").tolist() == [1, 2]
