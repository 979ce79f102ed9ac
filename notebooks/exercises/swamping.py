"""3-swamping: why does the weight not move?"""
from __future__ import annotations

from typing import Any

import halfulp

from .judging import exercise, integer, need, number, power_of_two, several


@exercise("swamping-1")
def _(answer: Any) -> str:
    n = power_of_two(answer)
    need(2 <= n <= 2.0**40, "The answer is larger than 1, and not that large.")
    after = halfulp.add(1, 1 / n, "bf16")
    need(after == 1, f"1 + 1/{n:g} is {after} in BF16: the update arrives.")
    need(halfulp.add(1, 2 / n, "bf16") != 1, f"1 + 1/{n:g} is lost, but larger updates are lost already.")
    return f"1/{n:g} is half the spacing above 1: a tie, and 1 is the even neighbour."


@exercise("swamping-2")
def _(answer: Any) -> str:
    m = integer(answer, 1, 40)
    need(halfulp.add(1, 2.0**-14, f"e8m{m}") != 1, f"With {m} fraction bits the update is still lost.")
    need(halfulp.add(1, 2.0**-14, f"e8m{m - 1}") == 1, f"{m} fraction bits are enough, and so are fewer.")
    return "With as many fraction bits the update is a whole step of the format; with one less it is half a step, and the tie goes back to 1."


@exercise("swamping-3")
def _(answer: Any) -> str:
    pair = several(answer, "a pair, (w, u)")
    need(len(pair) == 2, "The answer is a pair, (w, u).")
    w, u = (number(x) for x in pair)
    for name, x in (("w", w), ("u", u)):
        need(halfulp.quantize(x, "fp16") == x, f"{name} = {x} is no FP16 number.")
    need(u != 0, "u must not be zero.")
    once = halfulp.add(w, u, "fp16")
    twice = halfulp.add(once, u, "fp16")
    need(twice == w, f"(w + u) + u is {twice}: something arrives.")
    need(halfulp.add(w, halfulp.add(u, u, "fp16"), "fp16") != w, "w + (u + u) is lost as well: u is too small.")
    return "Together the two updates are large enough. That is what gradient accumulation and master weights live on."
