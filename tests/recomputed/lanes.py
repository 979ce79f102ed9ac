"""Many computations side by side: along the last axis of every array each lane has its own format and rounding mode.

An exact result is given as the sum of two doubles, which holds sums and products of numbers of up to 24 bits.
"""
from __future__ import annotations

from typing import Any

import naive
import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
NEAREST = ("nearest-even", "nearest-away", "nearest-to-zero")
DIRECTED = ("toward-zero", "toward-positive", "toward-negative", "to-odd")


def two_sum(a: Any, b: Any) -> tuple[Doubles, Doubles]:
    """a + b, exactly, as a double and what it lost (Knuth)."""
    high = a + b
    back = high - a
    return high, (a - (high - back)) + (b - back)


class Lanes:
    """Arithmetic of lanes. Overflow is IEEE 754's (NaN and the largest value in formats without Inf), or always NaN."""

    def __init__(self, formats: list[str], modes: list[str], random_bits: Any = 32, overflow: str = "ieee") -> None:
        self.fraction_bits = np.array([naive.FORMATS[name][1] for name in formats])
        self.least = np.array([1 - naive.FORMATS[name][2] for name in formats])
        self.largest = np.array([naive.largest(name) for name in formats])
        beyond = [{"ieee": np.inf, "fn": np.nan}.get(naive.FORMATS[name][3], naive.largest(name)) for name in formats]
        self.beyond, self.inward = np.array(beyond), self.largest
        if overflow == "nan":
            self.beyond = self.inward = np.full(len(formats), np.nan)
        self.mode = {mode: np.array([m == mode for m in modes]) for mode in (*NEAREST, *DIRECTED, "stochastic")}
        self.used = {mode for mode in self.mode if self.mode[mode].any()}
        self.random_bits = np.broadcast_to(np.asarray(random_bits), len(formats))
        self.randoms = np.ldexp(1.0, self.random_bits)  # how many random numbers there are

    def rounded(self, high: Any, low: Any = 0.0, random: Any = 0) -> Doubles:
        """high + low, |low| at most half a unit in the last place of high, rounded; `random` for stochastic lanes."""
        high = np.asarray(high, np.float64)
        size, rest, negative = np.abs(high), np.copysign(1.0, high) * low, high < 0
        significand, exponent = np.frexp(size)
        exponent = exponent - 1 - ((significand == 0.5) & (rest < 0))  # just below a power of two
        exponent = np.maximum(exponent, self.least) - self.fraction_bits
        quotient, rest = np.ldexp(size, -exponent), np.ldexp(rest, -exponent)
        whole = np.floor(quotient)
        share = quotient - whole  # of the way to the next number, with `rest`
        below = (share == 0) & (rest < 0)
        whole, share = whole - below, share + below
        away = self._away(negative, whole, share, rest, np.asarray(random, np.uint64))
        result = np.ldexp(whole + away, exponent)
        over = (result > self.largest) & np.isfinite(high)
        if over.any():
            inward = self.mode["toward-zero"] | self.mode["to-odd"] | self.mode["toward-negative"] & ~negative
            inward = inward | self.mode["toward-positive"] & negative
            result = np.where(over, np.where(inward, self.inward, self.beyond), result)
        rounded: Doubles = np.where(np.isfinite(high), np.copysign(result, high), high)
        return rounded

    def _away(self, negative: Any, whole: Doubles, share: Doubles, rest: Any, random: Any) -> Any:
        """Whether a magnitude between whole and whole + 1 becomes the latter."""
        away = np.zeros(share.shape, bool)
        even = whole.astype(np.int64) & 1 == 0
        if self.used & set(NEAREST):
            half = (share - 0.5) + rest
            tie = self.mode["nearest-even"] & ~even | self.mode["nearest-away"]
            nearest = self.mode["nearest-even"] | self.mode["nearest-away"] | self.mode["nearest-to-zero"]
            away |= nearest & (half > 0) | tie & (half == 0)
        if self.used & set(DIRECTED):
            up = self.mode["toward-positive"] & ~negative | self.mode["toward-negative"] & negative
            away |= (up | self.mode["to-odd"] & even) & (share + rest > 0)
        if "stochastic" in self.used:
            # The share's leading bits, as many as there are random ones, plus these: does it reach 1?
            leading = share * self.randoms
            cut = np.floor(leading)
            cut -= (leading == cut) & (rest < 0)
            drawn = (random & (self.randoms - 1).astype(np.uint64)).astype(np.float64)
            away |= self.mode["stochastic"] & (cut + drawn >= self.randoms)
        return away

    def add(self, a: Any, b: Any, random: Any = 0) -> Doubles:
        return self.rounded(*two_sum(a, b), random)

    def multiply(self, a: Any, b: Any, random: Any = 0) -> Doubles:
        return self.rounded(a * b, 0.0, random)

    def fused(self, a: Any, b: Any, c: Any, random: Any = 0) -> Doubles:
        """a * b + c, rounded once."""
        return self.rounded(*two_sum(a * b, c), random)
