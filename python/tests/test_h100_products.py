"""PyTorch's products on an H100, bit for bit.

h100_products.npz: what PyTorch 2.11.0 (CUDA 13.0, driver 580.159.04) gave on an NVIDIA H100 80GB HBM3 on 2026-11-27 for normally
distributed numbers; some rows and columns of products of 64 x 64 results. torch.mm(..., out_dtype=torch.float32) of fp16, bf16 and
(allow_tf32) fp32; torch._scaled_mm of FP8 with scales of 1. Operands are code words, for tf32 floats.
"""
import pathlib

import numpy as np
import pytest

import halfulp

DATA = np.load(pathlib.Path(__file__).with_name("h100_products.npz"))


def product(unit, a, b, slice_of_k):
    """Sums over slices of k, each by the unit from 0, added in FP32 in their order."""
    k = a.shape[1]
    parts = [halfulp.gemm(a[:, i:i + slice_of_k], b[i:i + slice_of_k], model=unit) for i in range(0, k, slice_of_k)]
    total = np.asarray(parts[0], np.float32)
    for part in parts[1:]:
        total = total + np.asarray(part, np.float32)
    return total


CASES = [
    ("fp16_2048", "fp16_2048", "fp16", "fp16", "hopper.wgmma.fp16.fp32", 2048),  # all of k in one accumulator
    ("bf16_2048", "bf16_2048", "bf16", "bf16", "hopper.wgmma.bf16.fp32", 2048),
    ("fp16_4096", "fp16_4096", "fp16", "fp16", "hopper.wgmma.fp16.fp32", 1408),  # split-K: 22, 22 and 20 tiles of 64
    ("e4m3_fast_4096", "e4m3_fast_4096", "e4m3", "e4m3", "hopper.wgmma.e4m3.fp32", 4096),  # use_fast_accum=True
    ("e4m3_fast_4096", "e4m3_slow_4096", "e4m3", "e4m3", "hopper.wgmma.e4m3.fp32", 128),  # promoted to FP32
    ("e4m3_e5m2_slow_1024", "e4m3_e5m2_slow_1024", "e4m3", "e5m2", "hopper.wgmma.e4m3-e5m2.fp32", 128),
    ("tf32_256", "tf32_256", None, None, "hopper.wgmma.tf32.fp32", 32),
]


@pytest.mark.parametrize("operands, result, a, b, unit, slice_of_k", CASES, ids=[case[1] for case in CASES])
def test_torch_on_an_h100_gave_these_bits(operands, result, a, b, unit, slice_of_k):
    x, y = DATA[operands + "_a"], DATA[operands + "_b"]
    if a:
        x, y = halfulp.decode(x, a), halfulp.decode(y, b)
    theirs = DATA[result + "_d"]
    assert theirs.size >= 16
    assert np.array_equal(product(unit, x, y, slice_of_k).view(np.uint32), theirs)
    other = unit.replace("wgmma", "mma") if "e" in result.split("_")[0] else unit.replace("hopper.wgmma", "ampere.mma")
    assert not np.array_equal(product(other, x, y, slice_of_k).view(np.uint32), theirs)  # the data can tell units apart
