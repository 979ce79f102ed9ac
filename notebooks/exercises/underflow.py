"""2-underflow: where do small gradients go?"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

import halfulp

from .judging import exercise, integer, need, number, power_of_two


@exercise("underflow-1")
def _(answer: Any) -> str:
    x = number(answer)
    need(x > 0, "The answer is positive.")
    rounded = halfulp.quantize(x, "fp16")
    need(rounded == 0, f"{x} becomes {rounded}, which is not zero.")
    need(halfulp.quantize(math.nextafter(x, 1), "fp16") > 0, "It becomes zero, but a slightly larger number does too. Which one is half way to the smallest subnormal number?")
    return "Half of the smallest subnormal number is a tie between it and zero, and zero is even."


def gradients() -> Any:
    """The gradients of an exercise: 4,096 magnitudes, spread over many binades."""
    return np.exp2(np.random.default_rng(2018).uniform(-38, -2, 4096)).astype(np.float32)


@exercise("underflow-2")
def _(answer: Any) -> str:
    scale = power_of_two(answer)
    rounded = halfulp.quantize(gradients() * np.float64(scale), "fp16")
    infinite, zero = int(np.isinf(rounded).sum()), int((rounded == 0).sum())
    need(infinite == 0, f"{infinite:,} gradients become infinite: too much.")
    need(zero == 0, f"{zero:,} gradients become zero: not enough.")
    return f"All {rounded.size:,} gradients survive. GradScaler finds such a scale by trial: it doubles until something overflows."


@exercise("underflow-3")
def _(answer: Any) -> str:
    k = integer(answer, -30, 0)
    need(halfulp.quantize(10.0**k, "fp16") > 0, f"1e{k} is zero in FP16, and v + eps can be zero.")
    need(halfulp.quantize(10.0**(k - 1), "fp16") == 0, f"1e{k} survives, and so does a smaller power of ten.")
    return f"1e{k} is a subnormal number of FP16; 1e{k - 1} is zero. Adam's default, 1e-8, lies below."
