"""6-units: one product, three GPUs, three answers."""
from __future__ import annotations

from typing import Any

import numpy as np

import halfulp

from .judging import exercise, integer, need, text

FIRST_EXAMPLE = ([[-8192, -0.5, -0.25, -0.125]], [[1024], [1], [1], [1]], [[8388608]])
_NAMES = ("volta", "ampere", "hopper")


@exercise("units-1")
def _(answer: Any) -> str:
    bits = integer(answer, 1, 60)
    hopper = halfulp.units("hopper.mma.fp16.fp32")
    got = [float(halfulp.mma(hopper | {"alignment_bits": n}, *FIRST_EXAMPLE)[0, 0]) for n in (bits, bits - 1)]
    need(got[0] == -0.875, f"With {bits} alignment bits D is {got[0]}.")
    need(got[1] != -0.875, f"{bits} bits are enough, and so are fewer.")
    return "The last place is as many binades below 2^23 as there are bits, and 0.125 needs the place 2^-3."


@exercise("units-2")
def _(answer: Any) -> str:
    need(isinstance(answer, (tuple, list)) and len(answer) == 3, "The answer is three lists, (a, b, c).")
    a, b, c = (np.asarray(x, np.float64) for x in answer)
    need(c.shape == (1, 1) and abs(c[0, 0]) <= 1024, "C is one number of at most 1024 in magnitude, as [[c]].")
    need(halfulp.quantize(c[0, 0], "fp32") == c[0, 0], "C is no FP32 number.")
    need(a.ndim == 2 and a.shape[0] == 1 and b.shape == (a.shape[1], 1) and 1 <= a.shape[1] <= 4, "A is one row of up to four numbers, as [[…]], and B one column of as many, as [[…], […]].")
    for name, x in (("A", a), ("B", b)):
        need(np.isfinite(x).all() and np.array_equal(halfulp.quantize(x, "fp16"), x), f"{name} has numbers that FP16 does not have, or infinite ones.")
    ampere, hopper = (float(halfulp.mma(f"{name}.mma.fp16.fp32", a, b, c)[0, 0]) for name in ("ampere", "hopper"))
    need(ampere != hopper, f"Both give {ampere}. What is the largest term, how far below it does each unit cut, and which bits lie between?")
    return f"Ampere gives {ampere}, Hopper {hopper}: they cut at different places below the largest term."


def mystery(a: Any, b: Any, c: Any) -> Any:
    """A B + C by one of three matrix units."""
    return halfulp.mma(_NAMES[2002 % 3] + ".mma.fp16.fp32", a, b, c)


@exercise("units-3")
def _(answer: Any) -> str:
    given = [name for name in _NAMES if name in text(answer, "volta").lower()]
    need(len(given) == 1, "The answer is the name of one unit of the first table.")
    differs = float(mystery(*FIRST_EXAMPLE)[0, 0]) != float(halfulp.mma(given[0] + ".mma.fp16.fp32", *FIRST_EXAMPLE)[0, 0])
    need(not differs, "There are operands on which that unit answers otherwise; the first example is a good question.")
    return "It answers the first example as that unit alone does."
