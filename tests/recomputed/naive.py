"""Number formats the naive way: a list of all values, and rounding by looking for the neighbours in it.

Nothing of halfulp is used. Formats have at most 19 bits; FP32 is NumPy's float32, FP64 a Python float.
"""
from __future__ import annotations

import functools
import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]

# name: (exponent bits, fraction bits, bias, what the top codes are)
# ieee: the top exponent is Inf and NaN; fn: only the all-ones code is NaN; finite: every code is a number; fnuz: so is
# every code here, NaN takes the place of -0; p3109: the all-ones code is Inf.
FORMATS = {"fp16": (5, 10, 15, "ieee"), "bf16": (8, 7, 127, "ieee"), "tf32": (8, 10, 127, "ieee"),
           "e5m2": (5, 2, 15, "ieee"), "e4m3": (4, 3, 7, "fn"), "e3m2": (3, 2, 3, "finite"),
           "e2m3": (2, 3, 1, "finite"), "e2m1": (2, 1, 1, "finite"), "fp32": (8, 23, 127, "ieee"),
           "e3m4": (3, 4, 3, "ieee"), "e4m3ieee": (4, 3, 7, "ieee"), "e4m3fnuz": (4, 3, 8, "fnuz"),
           "e5m2fnuz": (5, 2, 16, "fnuz"), "e4m3b11fnuz": (4, 3, 11, "fnuz"), "p3109k8p3": (5, 2, 16, "p3109"),
           "p3109k8p4": (4, 3, 8, "p3109"), "e5m3": (5, 3, 15, "ieee")}


@functools.cache
def values(name: str) -> Doubles:
    """All finite values from 0 up, ascending: the value of code 0, 1, 2, ..."""
    exponent_bits, fraction_bits, bias, top = FORMATS[name]
    if fraction_bits > 10:
        raise ValueError(f"{name} has too many values to list")
    codes = np.arange(2 ** (exponent_bits + fraction_bits), dtype=np.int64)
    exponents, fractions = codes >> fraction_bits, codes & (2**fraction_bits - 1)
    normal = exponents > 0
    significands = fractions + np.where(normal, 2**fraction_bits, 0)
    all_values = np.ldexp(significands.astype(np.float64), np.where(normal, exponents, 1) - bias - fraction_bits)
    return all_values[: {"ieee": (2**exponent_bits - 1) << fraction_bits, "fn": -1, "p3109": -1, "finite": len(codes),
                       "fnuz": len(codes)}[top]]


def largest(name: str) -> float:
    return float(np.finfo(np.float32).max) if name == "fp32" else float(values(name)[-1])


def smallest_normal(name: str) -> float:
    return math.ldexp(1.0, 1 - FORMATS[name][2])


def precision(name: str) -> int:
    """Bits of a normal significand, the hidden one among them."""
    return FORMATS[name][1] + 1


@functools.cache
def values_and_next(name: str) -> Doubles:
    """All finite values from 0 up, and the one that the format would have next."""
    return np.append(values(name), 2 * values(name)[-1] - values(name)[-2])


def neighbours(size: Doubles, name: str) -> tuple[Doubles, Doubles, NDArray[np.bool_]]:
    """The values at or below and above sizes (not negative), and whether the lower one's code is odd.

    Above the largest value lies the one that the format would have next.
    """
    if name == "fp32":
        with np.errstate(over="ignore"):
            below = size.astype(np.float32)
            below = np.where(below > size, np.nextafter(below, np.float32(0)), below)
            above = np.nextafter(below, np.float32(np.inf)).astype(np.float64)
        return below.astype(np.float64), np.where(np.isinf(above), 2.0**128, above), (below.view(np.uint32) & 1) == 1
    steps = values_and_next(name)
    low = np.clip(np.searchsorted(steps, size, side="right") - 1, 0, len(steps) - 2)
    return steps[low], steps[low + 1], low % 2 == 1


def rounded(x: float | Doubles, name: str, mode: str = "nearest-even") -> Doubles:
    """x (any shape) in a format: nearest-even, nearest-away, toward-zero, upward or downward, overflow as IEEE 754.

    Beyond the largest value lies Infinity; a format without one has NaN (fn) or the largest value (finite) there.
    """
    x = np.asarray(x, np.float64)
    size = np.abs(x)
    below, above, odd = neighbours(size, name)
    if mode == "nearest-even":
        up = (size - below > above - size) | ((size - below == above - size) & odd)
    elif mode == "nearest-away":
        up = size - below >= above - size
    elif mode in ("toward-zero", "upward", "downward"):
        up = np.signbit(x) == (mode == "downward") if mode != "toward-zero" else np.zeros(x.shape, bool)
    else:
        raise ValueError(f"mode {mode}")
    result = np.where(up & (size > below), above, below)
    beyond = {"ieee": np.inf, "p3109": np.inf, "fn": np.nan, "fnuz": np.nan, "finite": largest(name)}[FORMATS[name][3]]
    result = np.where((result > largest(name)) | np.isinf(size), beyond, result)
    return np.copysign(np.where(np.isnan(x), np.nan, result), x)


def exact(x: float) -> Fraction:
    return Fraction(float(x))
