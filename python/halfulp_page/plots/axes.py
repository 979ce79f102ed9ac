"""Axes: where they begin and end, ticks at powers, and places for 0 and infinity on logarithmic axes.

Logarithms are taken here. matplotlib gets places, so it draws the smallest and the largest double like any other.
"""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Iterable, Sequence

from ..text import number
from .style import INK

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_MOST = 1e300  # for linear axes, whose ends are subtracted
SMALL = 7  # the exponent of the largest power of two that is written out
LONGEST = 9  # letters of a tick of a linear axis
BYTES = ((1e12, " TB"), (1e9, " GB"), (1e6, " MB"), (1e3, " kB"))


def power(exponent: int, base: int) -> str:
    """2 and 3 as 2³."""
    return f"{base}{str(exponent).translate(_RAISED)}"


@dataclass(frozen=True)
class Extent:
    """An axis. `low` and `high` are places, which are logarithms on a logarithmic axis. Zeros and infinities are drawn
    outside the numbers there."""
    base: int  # of logarithms; 0: linear
    low: float
    high: float
    zero_at: float | None = None
    infinity_at: float | None = None
    breaks: tuple[float, ...] = ()  # between the numbers and 0 or infinity
    linear_to: float = 0.0  # of a linear axis that is logarithmic beyond this on both sides of 0; 0: linear
    is_limited: bool = False  # values beyond it are drawn at its ends

    def place(self, value: float) -> float | None:
        """Where a value is drawn; None where it cannot be."""
        if self.is_limited:
            return min(max(value, self.low), self.high)
        if math.isinf(value):
            return self.infinity_at if value > 0 else None
        if self.linear_to:
            return _signed(value, self.linear_to)
        if not self.base:
            return min(max(value, -_MOST), _MOST)
        return math.log(value, self.base) if value > 0 else self.zero_at if value == 0 else None

    def apply(self, axis: Any, set_limits: Any, most: int = 7, unit: str = "") -> None:
        """Sets an axis' ends and ticks, of powers at most so many. Ticks of a linear axis in bytes say kB, MB or GB."""
        from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter, MaxNLocator
        set_limits(self.low, self.high)
        if self.linear_to:
            ticks = self._signed_ticks(most)
            axis.set_major_locator(FixedLocator([at for at, _ in ticks]))
            axis.set_major_formatter(FixedFormatter([text for _, text in ticks]))
            return
        if not self.base:
            locator = MaxNLocator(6, steps=[1, 2, 5, 10])
            ticks = [at for at in locator.tick_values(self.low, self.high) if self.low <= at <= self.high]
            names = _names_of_bytes(ticks) if unit == "byte" else _names(ticks)
            axis.set_major_locator(locator)
            axis.set_major_formatter(FuncFormatter(lambda v, _: names.get(v) or number(float(f"{v:.12g}"))))
            for at in self.breaks:
                self._break(axis, at)
            return
        ticks = self._ticks(most)
        axis.set_major_locator(FixedLocator([at for at, _ in ticks]))
        axis.set_major_formatter(FixedFormatter([text for _, text in ticks]))
        for at in self.breaks:
            self._break(axis, at)

    def _break(self, axis: Any, at: float) -> None:
        """Two strokes across the axis: what is beyond has no place on its scale."""
        axes, is_x, apart = axis.axes, axis.axis_name == "x", 0.006 * (self.high - self.low)
        along, on_it = (at - apart, at + apart), (0, 0)
        stroke = [(-0.4, -1), (0.4, 1)] if is_x else [(-1, -0.4), (1, 0.4)]
        axes.plot(*((along, on_it) if is_x else (on_it, along)), transform=axes.get_xaxis_transform() if is_x else axes.get_yaxis_transform(),
                  marker=stroke, markersize=7, markeredgewidth=0.8, color=INK, linestyle="none", clip_on=False)

    def _ticks(self, most: int) -> list[tuple[float, str]]:
        """At most so many powers of the base between the ends, on a short decimal axis also twos and fives; 0 and
        infinity."""
        first = math.ceil(self.low - 1e-9 if self.zero_at is None else self.zero_at + self._room)
        last = math.floor(self.high + 1e-9 if self.infinity_at is None else self.infinity_at - self._room)
        step = max(1, math.ceil((last - first + 1) / most))
        plain = self.base == 2 and 0 <= first and last <= SMALL
        exponents = [e for e in range(first, last + 1) if e % step == 0]
        ticks = [(float(e), str(2 ** e) if plain else power(e, self.base)) for e in exponents]
        if last - first < 2 and self.base == 10:
            between = [(e + math.log10(m), number(float(f"{m}e{e}"))) for e in range(first - 1, last + 1) for m in (1, 2, 5)]
            ticks = [(at, text) for at, text in between if first - 1 < at <= last + 1 and self.low <= at <= self.high]
        bare = len(ticks) < 2 and self.zero_at is None and self.infinity_at is None  # of what lies within one power
        if bare and max(abs(self.low), abs(self.high)) * math.log10(self.base) < 300:
            from matplotlib.ticker import MaxNLocator
            low, high = self.base ** self.low, self.base ** self.high
            even = MaxNLocator(3, min_n_ticks=2, steps=[1, 2, 5, 10]).tick_values(low, high)
            names = _names([v for v in even if low <= v <= high])
            ticks = [(math.log(v, self.base), text) for v, text in names.items()]
        return ticks + [(at, text) for at, text in ((self.zero_at, "0"), (self.infinity_at, "∞")) if at is not None]

    def _signed_ticks(self, most: int) -> list[tuple[float, str]]:
        """0, the ends of the linear part, and powers of ten beyond, on both sides."""
        found = [0.0]
        step = 1 + int((self.high - self.low) / most)
        for sign, end in ((1, self.high), (-1, self.low)):
            found += [sign * self.linear_to * 10.0 ** e for e in range(0, 300, step) if sign * (_signed(sign * self.linear_to * 10.0 ** e, self.linear_to) - end) <= 0]
        return [(_signed(v, self.linear_to), number(float(f"{v:.6g}")).replace("-", "−", 1)) for v in sorted(found)]

    @property
    def _room(self) -> float:
        """The places between 0, or infinity, and the next power."""
        return (self.high - self.low) * 0.07


def _as_power(value: float) -> str:
    return f"{value:.4g}".replace("e+0", "e").replace("e+", "e")


def _names(ticks: Sequence[float]) -> dict[float, str]:
    """What ticks are called: as short as they are still told apart. Powers of ten take the place of many digits."""
    names = {v: number(float(f"{v:.12g}")) for v in ticks}
    if any(len(name) > LONGEST for name in names.values()):
        names = {v: _as_power(v) if abs(v) >= 1000 else names[v] for v in ticks}
    return names if len(set(names.values())) == len(names) else {v: f"{v:.12g}" for v in ticks}


def _names_of_bytes(ticks: Sequence[float]) -> dict[float, str]:
    """In the largest unit in which the last tick is at least 1."""
    largest = max(map(abs, ticks), default=0.0)
    size, unit = next(((size, unit) for size, unit in BYTES if largest >= size), (1.0, ""))
    names = _names([v / size for v in ticks])
    return {v: names[v / size] + (unit if v else "") for v in ticks}


def _signed(value: float, linear_to: float) -> float:
    """A place that is linear up to `linear_to` on both sides of 0, and logarithmic beyond: a decade there is as long as
    that part on one side."""
    size = min(abs(value), _MOST) / linear_to
    return math.copysign(size if size <= 1 else 1 + math.log10(size), value)


def extent(values: Iterable[float], scale: str, from_zero: bool = False, limits: tuple[float, float] | None = None, margin: float = 0.04, linear_to: float = 0.0) -> Extent:
    """An axis that holds all of the values. With `limits`, an axis with these ends if some value lies outside them."""
    values = list(values)
    finite = [v for v in values if math.isfinite(v)]
    if limits and any(not limits[0] <= v <= limits[1] for v in values):
        return Extent(0, *limits, is_limited=True)
    if scale == "symlog":
        places = [_signed(v, linear_to) for v in finite] or [0.0, 1.0]
        infinity_at = max(places) + 0.5 if math.inf in values else None
        low, high = min(*places, 0.0), infinity_at or max(*places, 0.0)
        pad = max((high - low) * margin, 0.08)
        return Extent(0, low - pad, high + pad, infinity_at=infinity_at, linear_to=linear_to)
    if scale == "linear":
        low, high = (min(max(v, -_MOST), _MOST) for v in (min(finite, default=0.0), max(finite, default=1.0)))
        low = min(low, 0.0) if from_zero else low
        pad = (high - low) * margin if high - low > 1 / _MOST else abs(high) * margin or 1.0
        infinity_at = high + 3 * pad if math.inf in values else None
        return Extent(0, low if from_zero and low == 0 else low - pad, (infinity_at or high) + pad, infinity_at=infinity_at)
    base = 2 if scale == "log2" else 10
    places = [math.log(v, base) for v in finite if v > 0] or [0.0, 1.0]
    low, high = min(places), max(places)
    gap = max((high - low) * 0.12, 0.5)
    zero_at = low - gap if 0 in values else None
    infinity_at = high + gap if math.inf in values else None
    breaks = tuple(at for at, there in ((low - gap / 2, zero_at), (high + gap / 2, infinity_at)) if there is not None)
    low, high = low if zero_at is None else zero_at, high if infinity_at is None else infinity_at
    pad = max((high - low) * margin, 0.08)
    return Extent(base, low - pad, high + pad, zero_at, infinity_at, breaks)
