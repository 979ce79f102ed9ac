"""Shapes, strides, types, outputs: each gives the answer of the contiguous float32 array."""
import sys

import numpy as np
import pytest

import halfulp
from conftest import same
from halfulp import _arrays

X = np.random.default_rng(1).standard_normal((6, 8, 10)).astype(np.float32)
Q = halfulp.quantize(X, "e4m3")

VIEWS = {"transposed": lambda x: x.T, "stepped": lambda x: x[::2, ::-3, 1::4], "reversed": lambda x: x[::-1], "empty": lambda x: x[:0], "one": lambda x: x[2, 3, 4],
         "fortran": np.asfortranarray, "broadcast": lambda x: np.broadcast_to(x[0, 0], (4, 3, 10)), "no axes": lambda x: x[1, 1, 1:2].reshape(()), "ellipsis": lambda x: x[..., None]}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("swap", [False, True], ids=["native", "swapped"])
def test_strides(view, swap):
    x = X.astype(X.dtype.newbyteorder()) if swap else X
    same(halfulp.quantize(view(x), "e4m3"), view(Q))
    same(halfulp.decode(halfulp.encode(view(x), "e4m3"), "e4m3"), view(Q))


def test_memory_that_is_not_aligned():
    raw = np.zeros(X.size * 4 + 1, np.uint8)[1:].view(np.float32)
    raw[:] = X.ravel()
    assert not raw.flags.aligned
    same(halfulp.quantize(raw, "e4m3"), Q.ravel())
    out = np.zeros(X.size * 4 + 1, np.uint8)[1:].view(np.float32)
    same(halfulp.quantize(X.ravel(), "e4m3", out=out), Q.ravel())


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, np.float16, np.float64])
def test_types(dtype):
    x = np.arange(100).astype(dtype)
    q = halfulp.quantize(x, "e4m3")
    assert np.array_equal(q.astype(np.float64), halfulp.quantize(np.arange(100, dtype=np.float32), "e4m3"))
    assert q.dtype == {np.float16: np.float16, np.float64: np.float64}.get(dtype, np.float32 if np.dtype(dtype).itemsize < 4 else np.float64)


def test_types_of_results():
    assert halfulp.quantize(np.float16([1]), "bf16").dtype == np.float32  # fp16 does not hold bf16
    assert halfulp.quantize(np.float32([3e38]), "e11m2").dtype == np.float64
    assert halfulp.quantize(np.float32([3.4e38]), "e11m2")[0] == 2.0**128
    assert isinstance(halfulp.quantize(0.1, "e4m3"), np.float64) and halfulp.quantize([], "e4m3").shape == (0,)
    assert halfulp.encode([1, 2], "fp64").dtype == np.uint64 and halfulp.encode([1, 2], "tf32").dtype == np.uint32
    assert halfulp.quantize([1, 2.0**-20], "e4m3", dtype=np.float16).dtype == np.float16


def test_out():
    out = np.empty_like(X)
    assert halfulp.quantize(X, "e4m3", out=out) is out
    same(out, Q)
    x = X.copy()
    assert halfulp.quantize(x, "e4m3", out=x) is x  # in place
    same(x, Q)
    strided = np.zeros((6, 8, 20), np.float32)
    halfulp.quantize(X, "e4m3", out=strided[..., ::2])
    same(strided[..., ::2], Q)
    assert not strided[..., 1::2].any()
    shifted = np.concatenate([np.zeros(1, np.float32), X.ravel()])
    halfulp.quantize(shifted[1:], "e4m3", out=shifted[:-1])  # overlapping
    same(shifted[:-1], Q.ravel())
    half = np.empty(X.shape, np.float16)
    halfulp.quantize(X, "e4m3", out=half)
    same(half.astype(np.float32), Q)


def test_ml_dtypes(shared):
    f, dtype = shared
    codes = np.arange(2**f.bits, dtype=f"u{dtype.itemsize}").view(dtype)
    with np.errstate(all="ignore"):
        same(halfulp.quantize(codes, f, dtype=np.float32), codes.astype(np.float32))
        same(halfulp.quantize(codes[::-3], "fp32"), codes[::-3].astype(np.float32))
        if f.has_nan:
            finite = codes.astype(np.float32)
            same(halfulp.quantize(finite, dtype, dtype=dtype).astype(np.float32), finite)


def test_torch():
    torch = pytest.importorskip("torch")
    t = torch.from_numpy(X.copy())
    same(halfulp.quantize(t, "e4m3"), Q)
    same(halfulp.quantize(t.mT, "e4m3"), np.swapaxes(Q, -1, -2))
    out = torch.empty_like(t)
    halfulp.quantize(t, "e4m3", out=out)
    same(out.numpy(), Q)
    pytest.importorskip("ml_dtypes")
    for name, ours in (("bfloat16", "bf16"), ("float8_e4m3fn", "e4m3"), ("float8_e5m2", "e5m2"), ("float16", "fp16")):
        narrow = t.detach().to(getattr(torch, name))
        same(np.asarray(halfulp.quantize(narrow, "fp32"), np.float32), narrow.float().numpy())
        same(halfulp.quantize(t, ours), narrow.float().numpy())


def test_dlpack():
    class Wrapped:
        def __dlpack__(self, **options):
            return X.__dlpack__()

        def __dlpack_device__(self):
            return X.__dlpack_device__()

    same(halfulp.quantize(Wrapped(), "e4m3"), Q)


def test_gfloat():
    gfloat = pytest.importorskip("gfloat")
    from gfloat.formats import format_info_ocp_e4m3, format_info_ocp_e5m2
    x = np.random.default_rng(2).integers(0, 1 << 32, 2000, dtype=np.uint32).view(np.float32)
    x = x[~np.isnan(x)].astype(np.float64)
    for f, info in (("e4m3", format_info_ocp_e4m3), ("e5m2", format_info_ocp_e5m2)):
        for mode, theirs in (("nearest-even", gfloat.RoundMode.TiesToEven), ("toward-zero", gfloat.RoundMode.TowardZero), ("toward-positive", gfloat.RoundMode.TowardPositive)):
            for saturate in (True, False):
                expected = [gfloat.round_float(info, v, theirs, sat=saturate) for v in x]
                same(halfulp.quantize(x, f, rounding=mode, overflow="saturate" if saturate else "ieee"), np.array(expected))


@pytest.mark.parametrize("format", ["fp64", "e8m40", "e11m30", "e4m3", "fp16"])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4", "u8"])
def test_byte_orders_are_the_same_numbers(dtype, format):
    values = np.array([1, 3, 100, 1001] if dtype[0] in "iu" else [0.1, 1 / 3, -7.25, 1000], dtype)
    native, swapped = halfulp.quantize(values, format), halfulp.quantize(values.astype(">" + dtype), format)
    assert native.dtype == swapped.dtype and swapped.dtype.isnative
    np.testing.assert_array_equal(native, swapped)
    np.testing.assert_array_equal(halfulp.encode(values, format), halfulp.encode(values.astype(">" + dtype), format))


def test_text_of_a_class_without_hash():
    class Text(str):
        __hash__ = None

    assert halfulp.quantize(0.3, Text("e4m3"), rounding=Text("toward-zero"), overflow=Text("saturate")) == 0.28125


def test_commands_leave_the_limit_of_open_files():
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(before[0], 256), before[1]))
    try:
        halfulp.formats()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (min(before[0], 256), before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_package_that_is_missing_is_looked_for_once(monkeypatch):
    asked = []

    class Nowhere:
        def find_spec(self, name, path=None, target=None):
            if name == "ml_dtypes":
                asked.append(name)
                raise ModuleNotFoundError(name)

    monkeypatch.delitem(sys.modules, "ml_dtypes", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Nowhere(), *sys.meta_path])
    _arrays._ml_dtypes.cache_clear()
    try:
        for _ in range(3):
            assert halfulp.add(1.0, 2.0, "e4m3", flags=True) == (3, 0)
        assert asked == ["ml_dtypes"]
    finally:
        _arrays._ml_dtypes.cache_clear()


def test_lists_of_long_code_words_are_integers():
    words = [0x3ff0000000000000, 0xbff0000000000000]
    assert halfulp.decode(words, "fp64").tolist() == [1, -1]
    assert halfulp.add(words, words, "fp64", codes=True).tolist() == [0x4000000000000000, 0xc000000000000000]
    one = halfulp.gemm([words], [[words[0]], [words[1]]], model="fp64", codes=True)
    assert one.tolist() == [[0x4000000000000000]]
    for mixed in ([2**63, 0.5], [2**63, -1], [2**64, 1], [1.0, 2]):
        with pytest.raises((TypeError, ValueError), match="codes"):
            halfulp.decode(mixed, "fp64")


@pytest.mark.parametrize("order", "<>")
def test_results_in_either_byte_order(order):
    for kind, name in (("f2", "fp16"), ("f4", "fp32"), ("f8", "fp64")):
        dtype = np.dtype(order + kind)
        out = np.empty(3, dtype)
        assert halfulp.quantize([1.0, 2.0, -0.5], name, dtype=dtype).tolist() == [1, 2, -0.5]
        halfulp.quantize([1.0, 2.0, -0.5], name, out=out)
        assert out.tolist() == [1, 2, -0.5]
        words = halfulp.encode([1.0, 2.0, -0.5], name)
        decoded = halfulp.decode(words, name, dtype=dtype)
        assert decoded.dtype == dtype and decoded.tolist() == [1, 2, -0.5]
        halfulp.decode(words, name, out=out[::-1])
        assert out.tolist() == [-0.5, 2, 1]


def test_decoded_values_are_copies_with_canonical_nan():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    codes = np.array([0x38, 0x40, 0xff], np.uint8)
    values = halfulp.decode(codes, "e4m3", dtype=ml_dtypes.float8_e4m3fn)
    assert values.view(np.uint8).tolist() == [0x38, 0x40, 0x7f]
    values[0] = 0
    assert codes[0] == 0x38
    assert halfulp.decode([0x7e01, 0x7c01, 0xfe00], "fp16", dtype=np.float16).view(np.uint16).tolist() == [0x7e00] * 3
    out = np.empty(3, np.float16)
    halfulp.decode([0x3c00, 0x7c00, 0x8000], "fp16", out=out)
    assert out.view(np.uint16).tolist() == [0x3c00, 0x7c00, 0x8000]
    with pytest.raises(TypeError, match="^out: float16"):
        halfulp.decode([0x3c00], "bf16", out=np.empty(1, np.float16))
