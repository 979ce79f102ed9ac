"""Pictures with a drawing of their own: the formats of a checkpoint by their bits and what they keep."""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Sequence

from ..text import number, numeric
from .axes import Extent, extent
from .scenes import LARGEST, check
from .select import NoPicture, name_of
from .spec import Frame, Rows
from .style import COLOURS, text_width

MOST_FORMATS = 24
CLOSE = 100.0  # dB: what is kept better stands above the axis, or it would flatten all else
WHOLE = {"color": COLOURS[0], "marker": "o", "markersize": 6, "markeredgewidth": 0, "linestyle": "none"}
WORST = {"color": COLOURS[1], "marker": "v", "markersize": 5.5, "markeredgewidth": 0, "linestyle": "none"}
WORST_NAME = "its worst tensor"
FORMAT_MARKS = (("whole checkpoint", WHOLE), (WORST_NAME, WORST))
# In points:
LETTERS, LONGEST = 8.0, 85.0  # the height of a name's letters, and its length
APART, ABOVE = 10.0, 6.0      # from one dot to the next, from a dot to its name
AROUND = (45.0, 55.0)         # what axes, ticks and labels take of the width and of the height


@dataclass
class _Dot:
    name: str
    bits: float
    sqnr: float  # infinity: exact
    worst: float | None
    worst_tensor: str

    @property
    def label(self) -> str:
        most = next((n for n in range(len(self.name[:40]), 0, -1) if text_width(self.name[:n], LETTERS) <= LONGEST), 1)
        name = self.name if most == len(self.name) else self.name[:most - 1] + "…"
        return f"{name}, exact" if self.sqnr == math.inf else f"{name}, {self.sqnr:.3g} dB" if self.sqnr > CLOSE else name


def bits_and_quality(formats: Rows) -> list[Frame]:
    """A named dot for each format, with a mark for its worst tensor below. Every dot has a column to itself, and names are
    upright, so that they never meet."""
    dots, absent = [], []
    for row in formats:
        bits, sqnr, worst = (numeric(row[c]) for c in ("bits", "sqnr", "worst_sqnr"))
        if row["sqnr"] is None and all(numeric(row[c]) == 0 for c in ("relative_error", "not_finite") if c in row):
            sqnr = math.inf
        if bits is None or sqnr is None or not 0 < bits < math.inf or not sqnr > -math.inf:
            absent.append(name_of(row["format"]))
        else:
            dots.append(_Dot(name_of(row["format"]), bits, sqnr, worst if worst is not None and math.isfinite(worst) else None, name_of(row["worst_tensor"])))
    notes: tuple[str, ...] = (f"without a number: {', '.join(absent)}",) if absent else ()
    if len(dots) > MOST_FORMATS:
        notes += (f"the first {MOST_FORMATS} of {len(dots)} formats; the table has all",)
        dots = dots[:MOST_FORMATS]
    if not dots:
        raise NoPicture("no format has a number of bits and an SQNR")
    check((v for d in dots for v in (d.bits, d.worst or 0.0, d.sqnr if d.sqnr < math.inf else 0.0)), LARGEST, "bits and decibels")
    dots.sort(key=lambda d: d.bits)
    along, values, edge = extent([d.bits for d in dots], "log2", margin=0.08), *_values(dots)
    bits_at = [math.log2(d.bits) for d in dots]
    if edge is not None:
        notes += (f"above the break: exact, or more than {number(CLOSE)} dB",)
    if any(b - a < 0.04 * (along.high - along.low) for a, b in zip(bits_at, bits_at[1:])):
        notes += ("dots of about the same bits stand beside each other",)

    def draw(axes: Any) -> None:
        from matplotlib.ticker import MaxNLocator
        width, height = (max(points * 72 - around, 72.0) for points, around in zip(axes.figure.get_size_inches(), AROUND))
        unit = (along.high - along.low) / width
        places = [along.low + at * unit for at in spread([(at - along.low) / unit for at in bits_at], APART, APART, width)]
        tops = [_place(d.sqnr, values) for d in dots]
        # The axis ends where the tallest name does.
        part = min([1.0, *((1 - (ABOVE + text_width(d.label, LETTERS)) / height) / share for d, top in zip(dots, tops) if (share := (top - values.low) / (values.high - values.low)) > 0)])
        along.apply(axes.xaxis, axes.set_xlim)
        if ticks := range(math.ceil(along.low), math.floor(along.high) + 1, max(1, round((along.high - along.low) / 8))):
            axes.set_xticks(ticks, [number(2.0 ** tick) for tick in ticks])
        values.apply(axes.yaxis, axes.set_ylim)
        end = values.high if edge is None else edge
        axes.set_yticks([tick for tick in MaxNLocator(6, steps=[1, 2, 5, 10]).tick_values(values.low, end) if values.low <= tick <= end])
        axes.set_ylim(values.low, values.low + (values.high - values.low) / max(part, 0.25))
        for d, x, top in zip(dots, places, tops):
            if d.worst is not None and _has_worse(d, values):
                axes.plot([x, x], [_place(d.worst, values), top], color=COLOURS[1], linewidth=1)
                axes.plot([x], [_place(d.worst, values)], clip_on=False, **WORST)
            axes.plot([x], [top], clip_on=False, **WHOLE)
            axes.annotate(d.label, (x, top), xytext=(0, ABOVE), textcoords="offset points", rotation=90, ha="center", va="bottom", fontsize=LETTERS, annotation_clip=False)
        axes.set_xlabel("bits of an element, with its share of scales")
        axes.set_title("SQNR (dB)")

    words = "; ".join(f"{d.name}, {number(float(f'{d.bits:.4g}'))} bits: {_decibels(d.sqnr)}" + (f", worst tensor {_decibels(d.worst)} ({d.worst_tensor})" if d.worst is not None else "") for d in dots)
    return [Frame("", f"Dots of formats, bits of an element against SQNR: {words}.", draw, (4.0, 3.3), notes=notes, without=() if any(_has_worse(d, values) for d in dots) else (WORST_NAME,))]


def _decibels(value: float) -> str:
    return "exact" if value == math.inf else f"{number(float(f'{value:.4g}'))} dB"


def _values(dots: Sequence[_Dot]) -> tuple[Extent, float | None]:
    """The axis of decibels, and where its numbers end if something stands above them."""
    all_of_them = [v for d in dots for v in (d.sqnr, d.worst) if v is not None]
    near = [v for v in all_of_them if v <= CLOSE]
    values = extent(near or [0.0, CLOSE], "linear", margin=0.08)
    if len(near) == len(all_of_them):
        return values, None
    step = 0.1 * (values.high - values.low)
    return Extent(0, values.low, values.high + 2 * step, infinity_at=values.high + step, breaks=(values.high,)), values.high


def _place(value: float, values: Extent) -> float:
    """Above the break, where there is one, what is more than CLOSE."""
    return values.infinity_at if values.infinity_at is not None and value > CLOSE else value


def _has_worse(d: _Dot, values: Extent) -> bool:
    """Whether the worst tensor has a place of its own."""
    return d.worst is not None and _place(d.worst, values) < _place(d.sqnr, values)


def spread(places: Sequence[float], apart: float, low: float, high: float) -> list[float]:
    """Ascending places between two ends, moved as little as they need to be so far apart: blocks around the mean of
    what they stand for."""
    def first(block: Sequence[float]) -> float:
        return max(min(sum(block) / len(block) - (len(block) - 1) / 2 * apart, high - (len(block) - 1) * apart), low)

    blocks: list[list[float]] = []
    for place in places:
        blocks.append([place])
        while len(blocks) > 1 and first(blocks[-1]) < first(blocks[-2]) + apart * len(blocks[-2]):
            last = blocks.pop()
            blocks[-1] += last
    return [first(block) + i * apart for block in blocks for i in range(len(block))]
