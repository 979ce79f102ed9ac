"""Output arrays and types of results: those that cannot hold the answer are refused, never filled with another one."""
import numpy as np
import pytest

import halfulp
from conftest import same
from numpy.lib.stride_tricks import as_strided as windows

X = np.float32([0.1, -300, 1000])
Q = halfulp.quantize(X, "e4m3")


def outputs_of(shape):
    """quantize() into arrays of that shape, and quantize() to a block format."""
    x = np.ones(shape, np.float32)
    return lambda out: halfulp.quantize(x, "e4m3", out=out), lambda out: halfulp.quantize(x, "mxfp4", out=out)


@pytest.mark.parametrize("out", [windows(np.zeros(1, np.float32), (3,), (0,)), windows(np.zeros(8, np.float32), (4, 3), (4, 4)),
                                 windows(np.zeros(8, np.float32), (5,), (2,)), windows(np.zeros(9, np.float32)[2:], (3, 2), (-4, 4))],
                         ids=["one element", "windows", "half steps", "backwards"])
def test_elements_that_share_memory(out):
    for write in outputs_of(out.shape):
        with pytest.raises(ValueError, match="^out: elements share memory"):
            write(out)


def test_views_share_no_memory():
    base = np.zeros((6, 8, 10), np.float32)
    for view in (base.T, base[::2, ::-3, 1::4], base[:, None, 3], base[:0], base[2, 3, 4:5].reshape(()), np.broadcast_to(base[0, 0, 0], (1, 1)).copy()):
        for write in outputs_of(view.shape):
            assert write(view) is view


@pytest.mark.parametrize("name, format", [("float8_e5m2fnuz", "e5m2"), ("float8_e4m3fnuz", "e4m3"), ("float8_e4m3fnuz", "e2m3"), ("float8_e4m3fn", "e3m2ieee"), ("float8_e4m3", "e3m3fnuz"), ("float4_e2m1fn", "e2m1")])
def test_types_hold_infinity_nan_and_negative_zero(name, format):
    """The type holds every value of the format, or is refused."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    if not hasattr(ml_dtypes, name):
        pytest.skip(f"ml_dtypes has no {name}")
    dtype, f = np.dtype(getattr(ml_dtypes, name)), halfulp.Format(format)
    codes = np.arange(2**f.bits, dtype=np.uint8)
    try:
        values = halfulp.decode(codes, f, dtype=dtype)
    except TypeError as why:
        assert str(why).startswith(f"dtype: {name} does not hold")
        with pytest.raises(TypeError, match="out: "):
            halfulp.quantize(X, f, out=np.zeros(3, dtype))
        return
    same(values.astype(np.float32), halfulp.decode(codes, f))


@pytest.mark.parametrize("format", ["e11m3", "e9m3"])
def test_float32_is_refused_where_results_are_larger(format):
    x = np.float32([3.4028235e38])
    assert halfulp.quantize(x, format) == 2.0**128
    for keywords in ({"dtype": np.float32}, {"out": x.copy()}):
        with pytest.raises(TypeError, match="float32 does not hold"):
            halfulp.quantize(x, format, **keywords)
    assert halfulp.quantize(x, "fp64", dtype=np.float32) == x


@pytest.mark.parametrize("dtype", ["garbage", 5, object(), "complex64", np.int8, "torch.float32"], ids=lambda x: str(x)[:12])
def test_types_that_are_none(dtype):
    for call in (lambda: halfulp.quantize(X, "e4m3", dtype=dtype), lambda: halfulp.decode([1], "e4m3", dtype=dtype)):
        with pytest.raises(TypeError, match="^dtype: "):
            call()


def test_torch_tensors_without_memory_of_their_own():
    torch = pytest.importorskip("torch")
    for out in (torch._neg_view(torch.zeros(3)), torch.zeros(3, dtype=torch.complex64).conj().imag):
        assert out.is_neg()
        with pytest.raises(ValueError, match="^out: .*negation"):
            halfulp.quantize(X, "e4m3", out=out)


def test_torch_learns_of_writes():
    torch = pytest.importorskip("torch")
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    z = (y * y).sum()
    for format in ("e4m3", "mxfp4"):
        version, out = y._version, y.detach()
        assert halfulp.quantize(X, format, out=out) is out and y._version > version
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()
    with torch.inference_mode():
        out = torch.zeros(3)
        same(halfulp.quantize(X, "e4m3", out=out).numpy(), Q)


def test_torch_types():
    torch = pytest.importorskip("torch")
    for name, format in (("bfloat16", "bf16"), ("float8_e4m3fn", "e4m3"), ("float16", "fp16"), ("float32", "fp32")):
        same(np.asarray(halfulp.quantize(X, getattr(torch, name)), np.float32), halfulp.quantize(X, format))
    assert halfulp.quantize(X, "e4m3", dtype=torch.float16).dtype == np.float16
    for wrong in (torch.int8, torch.complex64):
        with pytest.raises(TypeError, match="format: "):
            halfulp.quantize(X, wrong)
        with pytest.raises(TypeError, match="dtype: "):
            halfulp.quantize(X, "e4m3", dtype=wrong)
    for wrong in (torch.Tensor, torch.zeros(2, dtype=torch.complex64)):
        with pytest.raises(TypeError, match="x: "):
            halfulp.quantize(wrong, "e4m3")
