"""Bad input raises an exception that names the argument."""
import datetime

import numpy as np
import pytest

import halfulp

READ_ONLY = np.zeros(3, np.float32)
READ_ONLY.flags.writeable = False
X = np.ones(3, np.float32)


@pytest.mark.parametrize("x", [np.array([object()]), np.array(["a"]), np.array([1j]), np.array([True]), np.array(["2020-01-01"], "M8[D]"), np.longdouble([1]), None, object(),
                               [[1], [1, 2]], np.ma.masked_array([1.0], [True]), np.zeros(2, "V4"), np.zeros(2, [("a", "f4")]), b"12", {1: 2}, datetime.date(2020, 1, 1), [10**30]],
                         ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("function", [lambda x: halfulp.quantize(x, "e4m3"), lambda x: halfulp.encode(x, "e4m3"), lambda x: halfulp.decode(x, "e4m3"), lambda x: halfulp.add(x, x, "e4m3"),
                                      lambda x: halfulp.gemm(x, x), lambda x: halfulp.dot(x, x), lambda x: halfulp.quantize_blocks(x, "mxfp4"),
                                      lambda x: halfulp.cast(x, "ml_dtypes", "e4m3", "fp32")])
def test_no_numbers(function, x):
    with pytest.raises((TypeError, ValueError), match="^(x|a|codes)[ :]"):
        function(x)


@pytest.mark.parametrize("call, error, message", [
    (lambda: halfulp.quantize(X, "e4m4m4"), ValueError, "e4m4m4"), (lambda: halfulp.quantize(X, "mxfp5"), ValueError, "mxfp"), (lambda: halfulp.quantize(X, 3), TypeError, "format"),
    (lambda: halfulp.quantize(X, None), TypeError, "format"), (lambda: halfulp.quantize(X, np.int8), TypeError, "format"),
    (lambda: halfulp.quantize(X, "e4m3", rounding="up"), ValueError, "rounding mode"), (lambda: halfulp.quantize(X, "e4m3", rounding=1), TypeError, "rounding"),
    (lambda: halfulp.quantize(X, "e4m3", overflow="inf"), ValueError, "overflow"), (lambda: halfulp.quantize(X, "e4m3", overflow=1), TypeError, "overflow"),
    (lambda: halfulp.quantize(X, "e4m3", rounding=halfulp.Rounding(), overflow="ieee"), ValueError, "overflow"),
    (lambda: halfulp.quantize(X, "e4m3", seed=-1), ValueError, "seed"), (lambda: halfulp.quantize(X, "e4m3", seed=2**64), ValueError, "seed"),
    (lambda: halfulp.quantize(X, "e4m3", seed=1.5), TypeError, "seed"), (lambda: halfulp.quantize(X, "e4m3", random_bits=0), ValueError, "random_bits"),
    (lambda: halfulp.quantize(X, "e4m3", out=READ_ONLY), ValueError, "out: the array is read-only"), (lambda: halfulp.quantize(X, "e4m3", out=np.zeros(4, np.float32)), ValueError, "out: shape"),
    (lambda: halfulp.quantize(X, "e4m3", out=[0, 0, 0]), TypeError, "out"), (lambda: halfulp.quantize(X, "e4m3", out=np.zeros(3, np.int32)), TypeError, "out"),
    (lambda: halfulp.quantize(X, "bf16", out=np.zeros(3, np.float16)), TypeError, "out"), (lambda: halfulp.quantize(X, "bf16", dtype=np.float16), TypeError, "dtype"),
    (lambda: halfulp.quantize(X, "e4m3", dtype=np.int8), TypeError, "dtype"), (lambda: halfulp.quantize(X, "e4m3", axis=0), TypeError, "axis"),
    (lambda: halfulp.quantize(X, "e4m3", codes="x"), TypeError, "codes"), (lambda: halfulp.quantize(X, "mxfp4", tally=True), TypeError, "tally"),
    (lambda: halfulp.quantize(X, "mxfp4", axis=1), ValueError, "axis"), (lambda: halfulp.quantize(X, "fp8-128x128", axis=0), ValueError, "axis"),
    (lambda: halfulp.quantize(X, "mxfp4", out=READ_ONLY), ValueError, "out"), (lambda: halfulp.quantize_blocks(X, "mxfp4", amax=np.nan), ValueError, "amax"),
    (lambda: halfulp.quantize_blocks(X, "e4m3"), ValueError, "e4m3"), (lambda: halfulp.encode(X, "mxfp4"), ValueError, "mxfp4"),
    (lambda: halfulp.encode(X, halfulp.BlockFormat("mxfp4")), TypeError, "block format"),
    (lambda: halfulp.decode([256], "e4m3"), ValueError, "codes: 256"), (lambda: halfulp.decode([-1], "e4m3"), ValueError, "codes: -1"), (lambda: halfulp.decode([16], "e2m1"), ValueError, "codes: 16"),
    (lambda: halfulp.decode([1.5], "e4m3"), TypeError, "codes"), (lambda: halfulp.decode(np.uint8([1]), "bf16", dtype=np.float16), TypeError, "dtype"),
    (lambda: halfulp.add(X, X), (TypeError, type(None)), ""), (lambda: halfulp.add([1], [2]), (TypeError, type(None)), ""),
    (lambda: halfulp.add(X, np.ones(2), "fp16"), ValueError, r"a \(3,\), b \(2,\)"), (lambda: halfulp.add(X, X, "fp16", codes=True), TypeError, "a: "),
    (lambda: halfulp.add(X, X, "e8m0"), ValueError, "e8m0"), (lambda: halfulp.add(X, X, "fp16", rouding="x"), TypeError, "rouding"),
    (lambda: halfulp.convert(X, "i16"), ValueError, "i16"), (lambda: halfulp.gemm(X, X), ValueError, "a: shape"), (lambda: halfulp.gemm(np.ones((2, 3)), np.ones((2, 3))), ValueError, "columns"),
    (lambda: halfulp.gemm(np.ones((2, 3)), np.ones((3, 2)), np.ones((3, 3))), ValueError, "c: shape"), (lambda: halfulp.gemm(np.ones((2, 3)), np.ones((3, 2)), model="fp17"), ValueError, "fp17"),
    (lambda: halfulp.gemm(np.ones((2, 3)), np.ones((3, 2)), model=4), TypeError, "model"), (lambda: halfulp.gemm(np.ones((2, 3)), np.ones((3, 2)), scale_a=[[1]]), ValueError, "scale_a"),
    (lambda: halfulp.mma("fp16", [[1]], [[1]]), ValueError, "unit"), (lambda: halfulp.mma("hopper.mma.fp16.fp32"), ValueError, "lines"), (lambda: halfulp.mma({"k": 3}, [[1]], [[1]]), ValueError, "unit"),
    (lambda: halfulp.mma("blackwell.tcgen05.nvfp4.fp32", np.ones((1, 64)), np.ones((64, 1))), ValueError, "scale"),
    (lambda: halfulp.dot([1, 2], [1]), ValueError, "elements"), (lambda: halfulp.dot([[1]], [1]), ValueError, "a: shape"), (lambda: halfulp.cast(X, "ml_dtype", "e4m3"), ValueError, "ml_dtypes"),
    (lambda: halfulp.cast(X, "ml_dtypes", "fp64"), ValueError, "fp64"), (lambda: halfulp.cast(X, "x86", "e4m3"), ValueError, "x86"), (lambda: halfulp.cast(np.arange(3), "x86", "fp16"), TypeError, "from_"),
    (lambda: halfulp.cast(np.float16([1]), "x86", "fp16", "fp32"), TypeError, "x: dtype")])
def test_named(call, error, message):
    if isinstance(error, tuple):  # fp32 operands imply their format; lists of integers do not
        try:
            call()
        except TypeError as why:
            assert "format" in str(why)
        return
    with pytest.raises(error, match=message):
        call()


def test_huge_arrays_are_no_crash():
    huge = np.broadcast_to(np.float32(1), (1 << 24, 1 << 24))
    for call in (lambda: halfulp.quantize(huge, "e4m3"), lambda: halfulp.encode(huge, "e4m3"), lambda: halfulp.quantize_blocks(huge, "mxfp4"), lambda: halfulp.add(huge, huge, "fp16")):
        with pytest.raises((MemoryError, ValueError)):
            call()


def test_torch_on_other_devices():
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match="x: a tensor on meta"):
        halfulp.quantize(torch.ones(3, device="meta"), "e4m3")
    with pytest.raises(TypeError, match="x: "):
        halfulp.quantize(torch.ones(3, 3).to_sparse(), "e4m3")
    with pytest.raises(ValueError, match="out: a tensor that requires"):
        halfulp.quantize(X, "e4m3", out=torch.zeros(3, requires_grad=True))
