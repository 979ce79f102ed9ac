"""1-formats: which numbers are there?"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

import halfulp

from .judging import exercise, integer, need, number, text


@exercise("formats-1")
def _(answer: Any) -> str:
    n = integer(answer, 1, 10**6)
    need(halfulp.quantize(n, "bf16") != n, f"{n} is a BF16 number: halfulp.quantize({n}, 'bf16') returns it.")
    smaller = np.arange(1, n)
    need(np.array_equal(halfulp.quantize(smaller, "bf16"), smaller), "BF16 does not have it, but some smaller integer is missing too. Where does the spacing grow from 1 to 2?")
    return f"From {n - 1} on the spacing is 2: BF16 has 8 significant bits, and {n} needs 9."


@exercise("formats-2")
def _(answer: Any) -> str:
    f = answer if isinstance(answer, halfulp.Format) else halfulp.Format(text(answer, "e5m2"))
    need(f.bits == 8, f"{f.name} has {f.bits} bits, not 8.")
    need(f.is_signed, f"{f.name} has no sign.")
    need(f.max >= 1000, f"{f.name} ends at {f.max:g}. If the fraction needs its bits, which number in the description moves the whole range?")
    values = np.float64(halfulp.decode(np.arange(2**8), f))
    between = np.sort(values[(values >= 1) & (values <= 2)])
    need(between.size and between[0] == 1, f"{f.name} does not have the number 1: the range has been moved too far.")
    need(np.diff(between).max(initial=1 if between.size == 1 else 0) <= 1 / 8,
         f"The spacing of {f.name} above 1 is {between[1] - 1 if between.size > 1 else 'more than 1'}. How many fraction bits does 1/8 take?")
    return f"{f.name} reaches {f.max:g}; the price is paid at the other end, where its smallest number is {f.smallest_subnormal} (E4M3 as the OCP has it: {2**-9})."


@exercise("formats-3")
def _(answer: Any) -> str:
    x = number(answer)
    rounded = halfulp.quantize(x, "e4m3")
    need(rounded == 448, f"{x} becomes {rounded}, not 448.")
    need(halfulp.quantize(math.nextafter(x, math.inf), "e4m3") != 448,
         "It becomes 448, and so do numbers a little larger. What would the next E4M3 number be if the format did not end, and where is the midpoint?")
    return "It is the midpoint of 448 and the 480 that E4M3 does not have; the tie goes to the even significand, 448. Whatever is larger is NaN."
