"""10-model: what would your own model lose in FP8, and where?"""
from __future__ import annotations

import math
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import halfulp

from .judging import exercise, need, number, text

LAYERS = [f"blocks.{i}.{name}" for i in range(2) for name in ("norm1", "norm2", "qkv", "out", "up", "down")] + ["token", "place", "norm", "head"]


@exercise("model-1")
def _(answer: Any) -> str:
    need(isinstance(answer, Mapping) and len(answer) == 1, "The answer is a dict of one pattern of module names, and what holds for these.")
    (pattern, change), = answer.items()
    meant = [layer for layer in LAYERS if fnmatchcase(layer, text(pattern, "blocks.0.*"))]
    need("head" in meant, f"{pattern!r} is the name of {', '.join(meant) or 'none of the layers'}. What is the last linear layer called in Letters?")
    need(meant == ["head"], f"{pattern!r} means {', '.join(meant)}: too many.")
    format = change if not isinstance(change, Mapping) else change.get("operands")
    need(isinstance(format, (str, halfulp.Format)) and halfulp.Format(format) == halfulp.Format("bf16"), "Which format is it to have?")
    return "All other layers go on as the policy says."


@exercise("model-2")
def _(answer: Any) -> str:
    name = text(answer, "hopper.mma.fp16.fp32")
    unit = halfulp.units(name)
    need(isinstance(unit, Mapping), f"{name} is the name of several units, or of none.")
    need(unit["name"].startswith("hopper.wgmma."), f"{name} is no wgmma of Hopper's.")
    need(unit["a"] == unit["b"] == "e4m3", f"{name} multiplies {unit['a']} by {unit['b']}.")
    need(unit["accumulator"] == "fp32", f"{name} has sums in {unit['accumulator']}.")
    return 'With {"accumulate": ...} in a rule, every sum of the model is cut as that unit cuts it.'


@exercise("model-3")
def _(answer: Any) -> str:
    decibels = number(answer)
    exact = 20 - 10 * math.log10(0.2)
    need(abs(decibels - exact) < 0.06, f"{decibels:g} dB would be an error of {10 ** ((20 - decibels) / 10):.2f} of what it was, by squares. How much is left?")
    return f"A fifth of the squares is left: 20 + {exact - 20:.2f} dB."
