"""Where each value of a format begins, as a real number, and how many numbers of a source lie before that.

Rounding is monotone, so what rounds to the k-th value of a format or a greater one is all above a real number, its
border (a middle, or a value, by the mode), with or without the border itself. By way of another format the border is
that of the first value there above it. Between both borders of a value every number of the source differs.
"""
from __future__ import annotations

import functools
from typing import Any, NamedTuple

import naive
import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Places = NDArray[np.uint64]
INTEGERS = {"i32": 32, "i64": 64}


class Borders(NamedTuple):
    """Of ascending values: numbers above `points` reach them, those on a point if it is `closed`."""

    points: Doubles
    closed: NDArray[np.bool_]


def borders_of(below: Doubles, above: Doubles, odd: Any, outside: Any, mode: str, negative: bool) -> Borders:
    """Borders between neighbours below and above; odd: the lower one's code; outside: the upper one overflowed."""
    if mode.startswith("nearest"):
        return Borders((below + above) / 2, odd | (mode == "nearest-away"))
    from_below = {"toward-zero": np.zeros(below.shape, bool), "toward-positive": np.full(below.shape, not negative),
                  "to-odd": ~odd}[mode]
    points = np.where(from_below, below, above)
    never = outside & (mode != "toward-positive" or negative)  # these modes stay at the largest value
    return Borders(np.where(never, np.inf, points), ~from_below)


def target_borders(name: str, mode: str, negative: bool, saturating: bool = False) -> Borders:
    """Of all values of a format from the second on, and of what overflow becomes."""
    values = naive.values(name)
    ladder = np.append(values, 2 * values[-1] - values[-2])
    outside = np.arange(1, len(ladder)) == len(values)
    found = borders_of(ladder[:-1], ladder[1:], np.arange(len(values)) % 2 == 1, outside, mode, negative)
    if saturating or naive.FORMATS[name][3] == "finite":
        return Borders(np.where(outside, np.inf, found.points), found.closed)
    return found


def before(name: str, borders: Borders, mode: str, negative: bool) -> Borders:
    """The borders of the first values of a format that lie above the given ones."""
    finite = np.isfinite(borders.points)
    points = np.where(finite, borders.points, 0)
    if name == "fp32":
        below, above, _ = naive.neighbours(points, name)
        first = np.where((below == points) & borders.closed, below, above)
        lower = np.nextafter(first.astype(np.float32), np.float32(0)).astype(np.float64)
        lower = np.where(first == 2.0**128, naive.largest(name), lower)
        odd, outside = lower.astype(np.float32).view(np.uint32) % 2 == 1, first == 2.0**128
    else:
        values = naive.values(name)
        ladder = np.append(values, 2 * values[-1] - values[-2])
        index = np.where(borders.closed, np.searchsorted(values, points), np.searchsorted(values, points, "right"))
        index = np.where(finite, index, 1)
        first, lower, odd, outside = ladder[index], ladder[index - 1], index % 2 == 0, index == len(values)
    found = borders_of(lower, first, odd, outside, mode, negative)
    return Borders(np.where(finite, found.points, np.inf), found.closed)


def size(source: str, negative: bool) -> int:
    """How many finite numbers of one sign a source has, zero among them."""
    if source in INTEGERS:
        return 2 ** (INTEGERS[source] - 1) + negative
    if source == "fp64":
        return 2047 << 52
    return 255 << 23 if source == "fp32" else len(naive.values(source))


def places(source: str, borders: Borders, negative: bool = False) -> Places:
    """How many magnitudes of the source lie before each border."""
    points, opened = borders.points, (~borders.closed).astype(np.uint64)
    if source in INTEGERS:
        most = np.uint64(size(source, negative))
        whole = np.where(borders.closed, np.ceil(points), np.floor(points))
        return np.minimum(np.minimum(whole, 1.5 * 2.0**63).astype(np.uint64) + opened, most)
    if source == "fp64":
        count = points.view(np.uint64) + opened
    elif source == "fp32":
        below = naive.neighbours(points, source)[0].astype(np.float32)
        count = below.view(np.uint32).astype(np.uint64) + ((below < points) | ~borders.closed)
    else:
        values = naive.values(source)
        count = np.where(borders.closed, np.searchsorted(values, points), np.searchsorted(values, points, "right"))
    return np.minimum(count.astype(np.uint64), np.uint64(size(source, negative)))


def power_place(source: str, exponent: int, negative: bool = False) -> int:
    """How many magnitudes of the source lie below 2^exponent."""
    return int(places(source, Borders(np.array([2.0**exponent]), np.array([True])), negative)[0])


def magnitude(source: str, place: int) -> tuple[float, int]:
    """The number at a place, and its code."""
    if source in INTEGERS:
        return float(place), place
    if source == "fp64":
        return float(np.uint64(place).view(np.float64)), place
    return float(np.uint32(place).view(np.float32) if source == "fp32" else naive.values(source)[place]), place


class Differing(NamedTuple):
    """Of one sign, for every border: places first to end differ there, none twice; normal: those of normal results."""

    first: Places
    end: Places
    normal: tuple[int, int]

    def within(self, begin: int, end: int) -> int:
        last = np.minimum(self.end, np.uint64(end))
        return int((last - np.minimum(np.maximum(self.first, np.uint64(begin)), last)).sum())


@functools.cache
def differing(chain: str, way: str, last: str, negative: bool, saturating: bool = False,
              flushed: bool = False) -> Differing:
    """flushed: what is tiny in fp32, rounded with its 24 bits, is zero there."""
    source, *via, target = chain.split(">")
    direct = target_borders(target, last, negative, saturating)
    chained = direct
    for name in reversed(via):
        chained = before(name, chained, way, negative)
    if flushed:
        tiny = 2.0**-126 - 2.0**-151
        chained = Borders(np.maximum(chained.points, tiny), chained.closed | (chained.points < tiny))
    here, there = places(source, direct, negative), places(source, chained, negative)
    ends = np.maximum(here, there)
    seen = np.append(np.uint64(0), np.maximum.accumulate(ends)[:-1])
    first = np.minimum(np.maximum(np.minimum(here, there), seen), ends)
    smallest = int(np.searchsorted(naive.values(target), naive.smallest_normal(target)))
    beyond = power_place(source, int(np.floor(np.log2(naive.largest(target)))) + 1, negative)
    return Differing(first, ends, (int(here[smallest - 1]), min(int(here[-1]), beyond)))
