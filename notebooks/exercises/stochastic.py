"""7-stochastic: can rounding at random be more accurate?"""
from __future__ import annotations

from typing import Any

import numpy as np

import halfulp

from .judging import exercise, integer, need, number


@exercise("stochastic-1")
def _(answer: Any) -> str:
    p = number(answer)
    need(0 <= p <= 1, "A probability lies between 0 and 1.")
    up = next(mode for mode in halfulp.explain("0.1", "e4m3")["modes"] if mode["rounding"] == "stochastic" and mode["value"] > 0.1)
    numerator, denominator = (int(part) for part in up["probability"].split("/"))
    need(abs(p - numerator / denominator) < 0.005, "How long is the way from the lower number to 0.1, as a part of the way to the upper one?")
    return "0.1 lies that part of the way up."


@exercise("stochastic-2")
def _(answer: Any) -> str:
    r = integer(answer, 1, 32)
    x = np.full(100_000, 1 + 0.01 * halfulp.Format("bf16").eps)
    up = [bool((halfulp.quantize(x, "bf16", rounding="stochastic", random_bits=bits) > 1).any()) for bits in (r, max(r - 1, 1))]
    need(up[0], f"With {r} random bits it never arrived in 100,000 trials: what do {r} bits see of 0.01?")
    need(not up[1], f"With {r} random bits it arrives sometimes, and with fewer, too.")
    return "The first bit of 0.01 that is not zero is that far behind the point: 0.01 lies between 2^-7 and 2^-6."


@exercise("stochastic-3")
def _(answer: Any) -> str:
    x = number(answer)
    need(1 < x < 2, "The answer lies between 1 and 2.")
    need(halfulp.quantize(x, "bf16") != x, "BF16 has this number.")
    drawn = halfulp.quantize(np.full(100_000, x), "bf16", rounding="stochastic", random_bits=4)
    need((drawn < x).all(), f"It went up {int((drawn > x).sum()):,} times in 100,000. How small a part of an ulp do 4 bits not see?")
    return "It is less than 1/16 ulp above a BF16 number, and of that 4 bits see nothing."
