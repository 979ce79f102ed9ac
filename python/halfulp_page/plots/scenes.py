"""Pictures with a drawing of their own: number lines, gradients over the ranges of formats, waterfalls, messages."""
from __future__ import annotations

import math
from typing import Any, Iterable

from ..text import count, number, numeric
from .axes import extent
from .select import NoPicture, name_of
from .spec import MOST_PANELS, Frame, Rows
from .style import COLOURS, GRID, INK, PAPER

FEW = 2      # formats on a number line
HIGH = 1.0   # where the linear number line ends
FAR = 30     # binades beyond the gradients that are still shown
MOST_RANKS = 64
LARGEST = 1e15  # number that a drawing of its own takes
ROOM = 7     # binades that a format's name takes


def _groups(rows: Rows, *columns: str) -> dict[tuple[str, ...], Rows]:
    """Rows by their values of the columns, in the table's order."""
    found: dict[tuple[str, ...], Rows] = {}
    for row in rows:
        found.setdefault(tuple(name_of(row[c]) for c in columns), []).append(row)
    return found


def _check(values: Iterable[float], most: float, what: str) -> None:
    if not all(abs(v) <= most for v in values):  # nor NaN
        raise NoPicture(f"{what} beyond {number(most)} are not drawn")


def _rows_of_names(axes: Any, names: list[str]) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(False, axis="y")


def number_lines(rows: Rows) -> list[Frame]:
    """A stroke for every number of two formats: the same between powers of two, twice as far apart in the next ones."""
    numbers = {name: [v for row in some if (v := numeric(row["value"])) is not None and math.isfinite(v)] for (name,), some in _groups(rows, "format").items()}
    names = [name for name in numbers if len(numbers[name]) > 1][:FEW]
    if not names:
        raise NoPicture("no format of at most 8 bits is among the report's formats")

    def linear(axes: Any) -> None:
        for i, name in enumerate(names):
            axes.vlines([v for v in numbers[name] if v <= HIGH], i - 0.32, i + 0.32, color=COLOURS[i], linewidth=0.8)
        axes.set_xlim(-0.02, HIGH + 0.02)
        axes.set_xlabel("number")
        _rows_of_names(axes, names)

    def logarithmic(axes: Any) -> None:
        along = extent([v for name in names for v in numbers[name]], "log2")
        for i, name in enumerate(names):
            axes.vlines([along.place(v) for v in numbers[name]], i - 0.32, i + 0.32, color=COLOURS[i], linewidth=0.8)
        along.apply(axes.xaxis, axes.set_xlim)
        axes.set_xlabel("number, by powers of two")
        _rows_of_names(axes, names)

    inside = "; ".join(f"{name} has {count(sum(v <= HIGH for v in numbers[name]))}" for name in names)
    ends = "; ".join(f"{name} from {number(min(v for v in numbers[name] if v > 0))} to {number(max(numbers[name]))}" for name in names)
    return [Frame(f"from 0 to {number(HIGH)}", f"Number line with a stroke for each number from 0 to {number(HIGH)}: {inside}, densest near 0.", linear, (4.0, 1.5)),
            Frame("all of them", f"The same by powers of two: {ends}.", logarithmic, (4.0, 1.5))]


def gradients_over_ranges(histogram: Rows, limits: Rows, best: Rows) -> list[Frame]:
    """How many gradients have which magnitude, over what formats hold; the arrow is the loss scale of the first."""
    spans = [(name_of(row["format"]), *(math.log2(v) for c in ("min_subnormal", "min_normal", "max_finite") if (v := numeric(row[c])))) for row in limits]
    spans = [span for span in spans if len(span) == 4]
    if not spans:
        raise NoPicture("the report has no format with a range")
    _check((end for span in spans for end in span[1:]), LARGEST, "limits of formats")
    frames = []
    for (source,), rows in list(_groups(histogram, "source").items())[:MOST_PANELS]:
        counts = {int(row["binade"]): float(row["values"]) for row in rows}
        _check([*counts, *(c for c in counts.values())], LARGEST, "binades and their counts")
        total, peak = sum(counts.values()) or 1.0, max(counts, key=lambda b: counts[b])
        scale = next((numeric(row["best_k"]) for row in best if name_of(row["source"]) == source and name_of(row["format"]) == spans[0][0]), None)

        def draw(axes: Any, counts: dict[int, float] = counts, total: float = total, peak: int = peak, scale: float | None = scale) -> None:
            axes.bar(list(counts), [c / total for c in counts.values()], width=1.0, align="edge", color=COLOURS[0], edgecolor="none")
            top = max(counts.values()) / total
            step = 0.13 * top
            low, high = _window(counts, spans)
            for i, (name, least, normal, most) in enumerate(spans):
                y = -(i + 1) * step
                axes.plot([least, normal], [y, y], color=COLOURS[1], linewidth=1.4, linestyle=(0, (1, 1)))
                axes.plot([normal, most], [y, y], color=COLOURS[1], linewidth=3.5, solid_capstyle="butt")
                axes.annotate(name, (min(most, high - ROOM), y), xytext=(3, 0), textcoords="offset points", va="center", fontsize=8, bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 1.0})
            if scale:
                axes.annotate("", (peak + 0.5 + scale, 1.06 * top), (peak + 0.5, 1.06 * top), arrowprops={"arrowstyle": "->", "color": INK, "shrinkA": 0, "shrinkB": 0}, annotation_clip=False)
                axes.annotate(f"loss scale 2^{scale:.0f}", (peak + 0.5 + scale / 2, 1.09 * top), ha="center", fontsize=8)
            axes.axhline(0, color=INK, linewidth=0.8)
            axes.set_ylim(-(len(spans) + 0.8) * step, 1.25 * top)
            axes.set_yticks([])
            axes.set_xlim(low, high)
            axes.set_xlabel("log2 of the magnitude")

        ranges = "; ".join(f"{name} holds 2^{normal:.0f} to 2^{most:.0f}, subnormal from 2^{least:.0f}" for name, least, normal, most in spans)
        words = f"Histogram of gradients by binade, most of them at 2^{peak}, over the ranges of formats: {ranges}."
        frames.append(Frame(source, words + (f" A loss scale of 2^{scale:.0f} moves them to the right into {spans[0][0]}." if scale else ""), draw, (4.0, 3.1)))
    return frames


def _window(counts: dict[int, float], spans: list[tuple[str, float, float, float]]) -> tuple[float, float]:
    """Of log2: all gradients and formats, but for the ends of formats that reach far beyond."""
    low, high = min(counts), max(counts) + 1
    low, high = low - FAR, high + FAR
    ends = [s[1] for s in spans if s[1] > low], [s[3] for s in spans if s[3] < high]
    return min([*ends[0], min(counts)]) - 2, max([*ends[1], max(counts) + 1]) + ROOM + 2


def waterfalls(sources: Rows) -> list[Frame]:
    """Parts of the error of a product, signed so that they add up to it, on one scale."""
    configurations = _groups(sources, "formats", "accumulator")
    first = next(iter(configurations), ("", ""))[1]
    chosen = {formats: rows for (formats, accumulator), rows in configurations.items() if accumulator == first}
    parts: dict[str, list[tuple[str, float]]] = {}
    for formats, rows in list(chosen.items())[:MOST_PANELS]:
        total = next((numeric(row["error"]) for row in rows if row["source"] == "total"), None)
        shares = [(name_of(row["source"]), numeric(row["share"])) for row in rows if row["source"] != "total"]
        if total is not None and all(share is not None for _, share in shares):
            parts[formats] = [(name, total * (share or 0.0)) for name, share in shares]
    if not parts:
        raise NoPicture("the table sources has no shares")
    _check((v for some in parts.values() for _, v in some), LARGEST, "errors")
    most = max(max(sum(v for _, v in some[:i + 1]) for i in range(len(some))) for some in parts.values()) or 1.0
    frames = []
    for formats, some in parts.items():
        def draw(axes: Any, some: list[tuple[str, float]] = some) -> None:
            at = 0.0
            for i, (_, value) in enumerate(some):
                axes.barh(i, value, left=at, height=0.7, color=COLOURS[1 if value > 0 else 0], edgecolor="none")
                axes.plot([at + value] * 2, [i, i + 1], color=INK, linewidth=0.7)
                at += value
            axes.barh(len(some), at, height=0.7, color=COLOURS[2], edgecolor="none")
            axes.set_xlim(min(0.0, -0.03 * most), 1.08 * most)
            axes.set_xlabel("error / norm of the product")
            _rows_of_names(axes, [name for name, _ in some] + ["total"])

        words = ", ".join(f"{name} {number(float(f'{value:.2g}'))}" for name, value in some)
        frames.append(Frame(formats, f"Waterfall of the error of a product with {formats}, summed in {first}: {words}; in all {number(float(f'{sum(v for _, v in some):.2g}'))}.", draw, (4.0, 2.0)))
    return frames


SHOWN = ("ring", "tree", "node-tree", "one-shot")


def message_courses(messages: Rows) -> list[Frame]:
    """Ranks from left to right, rounds from top to bottom: a ring is a long stair, a tree halves the ranks."""
    by = {name: rows for (name,), rows in _groups(messages, "algorithm").items()}
    chosen = [name for name in SHOWN if name in by] or list(by)[:len(SHOWN)]
    if not chosen:
        raise NoPicture("the report has no messages")
    _check((float(row[place]) for name in chosen for row in by[name] for place in ("ranks", "round", "from", "to")), MOST_RANKS, "ranks and rounds")
    last = max(int(row["round"]) for name in chosen for row in by[name])
    frames = []
    for name in chosen:
        rows = by[name]

        def draw(axes: Any, rows: Rows = rows) -> None:
            ranks = int(rows[0]["ranks"])
            for rank in range(ranks):
                axes.plot([rank, rank], [0, last], color=GRID, linewidth=0.8)
            for row in rows:
                start, end, at = int(row["from"]), int(row["to"]), int(row["round"])
                axes.annotate("", (end, at), (start, at - 1), arrowprops={"arrowstyle": "->", "color": COLOURS[0], "shrinkA": 0, "shrinkB": 0, "linewidth": 1.2})
            axes.plot([int(rows[-1]["to"])], [max(int(row["round"]) for row in rows)], marker="o", markersize=6, color=COLOURS[1], linestyle="none")
            axes.set_xlim(-0.7, ranks - 0.3)
            axes.set_ylim(last + 0.7, -0.5)
            axes.grid(False)
            axes.set_xticks(range(0, ranks, max(1, ranks // 8)))
            axes.set_yticks(range(0, last + 1, max(1, math.ceil(last / 6))))
            axes.set_xlabel("rank")
            axes.set_title("round")

        rounds = max(int(row["round"]) for row in rows)
        frames.append(Frame(name, f"{count(len(rows))} messages among {name_of(rows[0]['ranks'])} ranks in {count(rounds)} round{'' if rounds == 1 else 's'}; rank {name_of(rows[-1]['to'])} has the sum.", draw))
    return frames
