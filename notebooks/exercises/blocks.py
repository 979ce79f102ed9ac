"""8-blocks: what does one outlier do to its neighbours?"""
from __future__ import annotations

from typing import Any

import numpy as np

import halfulp

from .judging import exercise, need, power_of_two, text


@exercise("blocks-1")
def _(answer: Any) -> str:
    scale = power_of_two(answer)
    need(scale == halfulp.quantize_blocks([0.5, 7, 30, 12], "mxfp8e4m3").scale_values[0, 0],
         f"Divided by {scale:g}, the largest element is {30 / scale:g}. Which binade is it in, and by how many must it move to be in the last one of E4M3?")
    return "30 is in the binade of 2^4; divided by the scale it is in that of 2^8."


@exercise("blocks-2")
def _(answer: Any) -> str:
    m = power_of_two(answer)
    need(1 <= m <= 2.0**100, "The answer is at least 1, and not that large.")
    one, before = (halfulp.quantize([1.0, outlier], "mxfp4")[0] for outlier in (m, m / 2))
    need(one == 0, f"With an outlier of {m:g} a one becomes {one:g}.")
    need(before != 0, "The ones are zero, but a smaller outlier does it too.")
    return "The scale is 4 then: 1/4 is half of 0.5, the smallest number of E2M1, and the tie goes to zero."


@exercise("blocks-3")
def _(answer: Any) -> str:
    f = answer if isinstance(answer, halfulp.BlockFormat) else halfulp.BlockFormat(text(answer, "e2m1/1x32/e8m0"))
    need(f.bits_per_element <= 4.5, f"{f.name} takes {f.bits_per_element:.3f} bits an element.")
    x = np.random.default_rng(1).standard_normal((128, 1024)).astype(np.float32)
    error = np.linalg.norm(halfulp.quantize(x, f) - x) / np.linalg.norm(x)
    need(error < 0.1, f"The relative error is {error:.1%}. What may be smaller than 32, and what may have fraction bits?")
    return f"{f.bits_per_element:g} bits an element, and an error of {error:.1%}."
