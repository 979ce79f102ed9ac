"""Random calls give a right answer or an exception that a user can read. HALFULP_FUZZ is their number (default
1500)."""
import os

import numpy as np

import halfulp

FORMATS = ("fp16", "bf16", "e4m3", "e5m2", "e2m1", "e8m0", "e6m9", "tf32", "fp32", "fp64", "p3109k8p3", "e4m3fnuz", "e1m0", "e11m52", "e2m1b-3", "e5m3b40", "mxfp4", "nvfp4", "int8", "xyz")
DTYPES = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", ">f4", ">i2", "?", "c8", "O", "M8[s]", "U3")
SHAPES = ((), (0,), (1,), (7,), (3, 4), (2, 0, 5), (2, 3, 4), (1, 1, 1, 33), (64, 64))
OPERATIONS = [(function, operands) for function, name, operands, _ in halfulp._core.operations() if name != "convert"]


class Draw:
    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def one(self, values):
        return values[self.random.integers(len(values))]

    def array(self, shape=None):
        dtype, shape = np.dtype(self.one(DTYPES)), self.one(SHAPES) if shape is None else shape
        count = int(np.prod(shape))
        if dtype.kind in "OMUc?":
            x = np.arange(count).astype(dtype).reshape(shape)
        else:
            x = self.random.integers(0, 256, count * dtype.itemsize, dtype=np.uint8).view(dtype).reshape(shape)
        way = self.random.integers(6)
        if way == 0:
            return x.T
        if way == 1 and x.ndim:
            return np.repeat(x, 2, axis=-1)[..., ::-2]
        if way == 2 and x.ndim:
            return np.broadcast_to(x, (2,) + x.shape)
        if way == 3:
            x.flags.writeable = False
        return x

    def rounding(self):
        return self.one(("nearest-even", "stochastic", "to-odd", "toward-zero", "toward-negative", "odd", halfulp.Rounding("nearest-away", flush_outputs=True, flush_inputs=True)))


def calls(draw):
    x, f = draw.array(), draw.one(FORMATS)
    same_shape = [draw.array(x.shape) for _ in range(2)]
    options = {"rounding": draw.rounding(), "seed": int(draw.random.integers(-1, 100))}
    yield lambda: halfulp.quantize(x, f, **options)
    yield lambda: halfulp.quantize(x, f, out=same_shape[0], **options)
    yield lambda: halfulp.quantize(x, f, dtype=draw.one(("f2", "f4", "f8", "i4", "O")), **options)
    yield lambda: halfulp.quantize(x, f, out=x, **options)
    yield lambda: halfulp.decode(halfulp.encode(x, f, **options), f)
    yield lambda: halfulp.decode(x, f)
    yield lambda: halfulp.convert(x, draw.one(FORMATS + ("i32", "u64", "i16")), f, codes=bool(draw.random.integers(2)), flags=bool(draw.random.integers(2)), **options)
    name, arity = draw.one(OPERATIONS)
    yield lambda: getattr(halfulp, name)(*([x] + same_shape)[:arity], f, codes=bool(draw.random.integers(2)), flags=bool(draw.random.integers(2)), **options)
    yield lambda: halfulp.gemm(x, same_shape[0].T, model=draw.one(FORMATS + ("hopper.mma.fp16.fp32", "mul=fp16,acc=fp32", "blackwell.tcgen05.nvfp4.fp32")), codes=bool(draw.random.integers(2)))
    yield lambda: halfulp.quantize_blocks(x, f, rounding=options["rounding"], seed=options["seed"], axis=draw.one((None, 0, 1, -1, 5))).values()
    yield lambda: halfulp.cast(x, draw.one(("ml_dtypes", "x86", "pytorch", "onnx", "y")), f, draw.one((None, "fp32", "fp16", "bf16", "e4m3")), codes=bool(draw.random.integers(2)))


def test_random_calls():
    done = refused = 0
    with np.errstate(all="ignore"):
        for seed in range(int(os.environ.get("HALFULP_FUZZ", "1500")) // 11 + 1):
            for call in calls(Draw(seed)):
                try:
                    call()
                    done += 1
                except (TypeError, ValueError, MemoryError) as why:
                    assert str(why) and "incompatible function arguments" not in str(why) and "another type was expected" not in str(why), (seed, why)
                    refused += 1
    assert done > refused / 20
