"""5-accumulation: why is the sum of 70,000 ones 256?"""
from __future__ import annotations

from typing import Any

import numpy as np

import halfulp

from .judging import Hint, exercise, need, number, several, text


@exercise("accumulation-1")
def _(answer: Any) -> str:
    total = number(answer)
    ones = np.ones(10**6, np.float32)
    need(total == float(halfulp.dot(ones, ones, model="e4m3")),
         f"How many ones does {total:g} take, and what is {total:g} + 1 in E4M3?" if 0 < total <= 448 else "That is no sum of ones in E4M3, which ends at 448.")
    return f"{total:g} + 1 is a tie, and goes back to {total:g}: the rest of the million is lost."


def terms() -> Any:
    """The terms of an exercise: 8,192 numbers that are uniform in (0, 1)."""
    return np.random.default_rng(2002).random(8192).astype(np.float32)


@exercise("accumulation-2")
def _(answer: Any) -> str:
    model = text(answer, "in=bf16,acc=bf16,order=blocked:16")
    said = dict(item.split("=", 1) if "=" in item else ("acc", item) for item in model.split(","))
    need("acc" in said and "promote" not in said and all(said.get(stage, "bf16") == "bf16" for stage in ("in", "b", "mul", "acc", "out")),
         "Everything is to be BF16: in=bf16,acc=bf16, and no other format.")
    need(said.get("round", "nearest-even") == "nearest-even", "To nearest, please: only the order and the compensation may change.")
    x, ones = terms(), np.ones(8192, np.float32)
    exact = halfulp.dot(x, ones, model="fp64")
    error, sequential = (abs(float(halfulp.dot(x, ones, model=m)) - exact) / exact for m in (model, "bf16"))
    if error >= 0.01:
        raise Hint(f"The relative error is {error:.1%}. " + ("Neumaier collects what is lost in a second BF16 sum, which stagnates like the first." if said.get("comp") == "neumaier"
                                                            else "Which order lets numbers of equal size meet, or what keeps what an addition loses?"))
    return f"The relative error is {error:.2%}; one after the other it is {sequential:.0%}."


@exercise("accumulation-3")
def _(answer: Any) -> str:
    given = [number(x) for x in several(answer)]
    need(sorted(given) == [1, 1, 1, 1, 2048], "These are not the numbers of the exercise.")
    total = halfulp.dot(given, np.ones(5), model="fp16")
    need(total == 2052, f"This order gives {total:g}. Where must the ones be to grow together?")
    if given[-1] == 2048:
        return "From small to large: the ones meet each other before they meet 2048. (For numbers of one sign it is the better order; it is no guarantee.)"
    return "The result is exact, but not every step: a tie that went up made good for one that went down. Which order needs no luck?"
