"""4-positions: which tokens share a position?"""
from __future__ import annotations

from typing import Any

import numpy as np

import halfulp

from .judging import exercise, integer, need, several


@exercise("positions-1")
def _(answer: Any) -> str:
    n = integer(answer, 0, 10**6)
    ids = halfulp.quantize(np.arange(n + 1), "fp16")
    need(np.unique(ids[:n]).size == n, f"Some token before {n} shares its id already.")
    need(np.unique(ids).size == n, f"Token {n} has an id of its own, and so have all before it.")
    return f"FP16 has 11 significant bits: the integers up to {n - 1} are exact, and {n} is rounded to it."


@exercise("positions-2")
def _(answer: Any) -> str:
    ids = halfulp.quantize(np.arange(2048), "bf16")
    truth = set(np.flatnonzero(ids == 1000).tolist())
    given = {integer(x, 0, 2047) for x in several(answer)}
    need(given - truth == set(), f"Token {min(given - truth, default=0)} has the id {ids[min(given - truth, default=0)]:g}.")
    need(truth - given == set(), "All of these have it, but there are more. What is the spacing there, and where do the ties go?" if given else "There are some. 1000 is one of them.")
    return "The spacing is 4 there. Both ties belong to 1000, whose significand is even, so five tokens meet; its neighbours 996 and 1004 have three each."


@exercise("positions-3")
def _(answer: Any) -> str:
    m = integer(answer, 1, 40)
    positions = np.arange(32768)
    distinct = [np.unique(halfulp.quantize(positions, f"e8m{bits}")).size for bits in (m, m - 1)]
    need(distinct[0] == 32768, f"With {m} fraction bits {distinct[0]:,} positions are left.")
    need(distinct[1] < 32768, f"{m} fraction bits keep all positions, and so do fewer.")
    return f"With p = {m + 1} significant bits, integers are exact up to 2^{m + 1} = {2**(m + 1):,}."
