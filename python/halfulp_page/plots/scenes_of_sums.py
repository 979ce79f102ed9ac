"""Pictures with a drawing of their own: waterfalls, a block beside its outlier, messages of collectives."""
from __future__ import annotations

import math
import re
from typing import Any

from ..text import count, number, numeric
from .axes import extent
from .scenes import LARGEST, check, groups, rows_of_names
from .select import NoPicture, absent_note, name_of
from .spec import MOST_PANELS, Frame, Rows
from .style import COLOURS, DASHES, GRID, INK, PAPER

MOST_RANKS = 64
ADDS, CANCELS, TOTAL = COLOURS[1], COLOURS[0], COLOURS[2]
WATERFALL_MARKS = tuple((name, {"facecolor": colour, "edgecolor": "none"}) for name, colour in (("adds to the error", ADDS), ("cancels", CANCELS), ("total", TOTAL)))
SUMS = ("unit", "accumulation")  # sources that are the accumulator's
MAGNIFIED = 0.2   # of the axis: a shorter total is also drawn magnified


def waterfalls(sources: Rows) -> list[Frame]:
    """Parts of the error of a product, signed so that they add up to it: to the left end to end, to the right each by
    powers of ten, with its number. One scale for all formats, on either side."""
    configurations = groups(sources, "formats", "accumulator")
    first = next(iter(configurations), ("", ""))[1]
    chosen = [key for key in configurations if key[1] == first][:MOST_PANELS - 1]
    if where := _matters_most(configurations, first):
        chosen.insert(1, where)
    parts: dict[tuple[str, ...], list[tuple[str, float]]] = {}
    for key in chosen:
        rows = configurations[key]
        total = next((numeric(row["error"]) for row in rows if row["source"] == "total"), None)
        shares = [(name_of(row["source"]), numeric(row["share"])) for row in rows if row["source"] != "total"]
        if total is not None and all(share is not None for _, share in shares):
            parts[key] = [(name, total * (share or 0.0)) for name, share in shares]
    if not parts:
        raise NoPicture("the table sources has no shares")
    check((v for some in parts.values() for _, v in some), LARGEST, "errors")
    most = max(max(sum(v for _, v in some[:i + 1]) for i in range(len(some))) for some in parts.values()) or 1.0
    sizes = extent([abs(v) for some in parts.values() for _, v in some if v] + [most], "log")
    frames = []
    for (formats, accumulator), some in parts.items():
        total = sum(v for _, v in some)
        is_short = 0 < total < MAGNIFIED * most

        def draw(left: Any, right: Any, some: list[tuple[str, float]] = some, total: float = total, is_short: bool = is_short) -> None:
            _end_to_end(left, some, most)
            if is_short:
                inset = left.inset_axes((0.3, 0, 0.7, 1), facecolor=PAPER, sharey=left)
                _end_to_end(inset, some, max(sum(v for _, v in some[:i + 1]) for i in range(len(some))))
                inset.tick_params(labelleft=False, left=False)
                inset.xaxis.tick_top()
                inset.set_title("magnified", fontsize=8)
            _by_tens(right, [*some, ("total", total)], sizes)
            left.figure.supxlabel("contribution to the total error", fontsize=9)
            left.set_xlabel("one after another", fontsize=8)
            right.set_xlabel("by powers of ten", fontsize=8)
            right.tick_params(axis="y", length=0)
            rows_of_names(left, [name for name, _ in some] + ["total"])

        words = ", ".join(f"{name} {number(float(f'{value:.2g}'))}" for name, value in some)
        said = f"Waterfall of the error of a product with {formats}, summed in {accumulator}: {words}; in all {number(float(f'{total:.2g}'))}."
        title = formats if accumulator == first else f"{formats} on {accumulator}"
        notes: tuple[str, ...] = ("magnified: a waterfall that is short on the common scale, with a scale of its own",) if is_short else ()
        own = max(((numeric(row["error"]) or 0.0, name_of(row["source"])) for row in configurations[formats, accumulator] if row["source"] in SUMS), default=None)
        if own and accumulator != first:
            notes += (f"the accumulator matters most here: by itself, {own[1]} has an error of {number(float(f'{own[0]:.2g}'))}",)
        frames.append(Frame(title, said, draw, (4.0, 2.5), axes=(1, 1), notes=notes))
    return frames


def _matters_most(configurations: dict[tuple[str, ...], Rows], first: str) -> tuple[str, ...] | None:
    """The formats on a unit other than the first whose sums have the largest error, if larger than on the first."""
    def error(key: tuple[str, ...]) -> float:
        return max((v for row in configurations.get(key, []) if row["source"] in SUMS and (v := numeric(row["error"])) is not None and math.isfinite(v)), default=0.0)

    found = max((key for key in configurations if key[1] != first), key=error, default=None)
    return found if found and error(found) > error((found[0], first)) else None


def _end_to_end(axes: Any, some: list[tuple[str, float]], most: float) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator
    at = 0.0
    for i, (_, value) in enumerate(some):
        axes.barh(i, value, left=at, height=0.7, color=ADDS if value > 0 else CANCELS, edgecolor="none")
        axes.plot([at + value] * 2, [i, i + 1], color=INK, alpha=0.5, linewidth=0.8, linestyle=DASHES[1])
        at += value
    axes.barh(len(some), at, height=0.7, color=TOTAL, edgecolor="none")
    axes.set_xlim(min(0.0, -0.03 * most), 1.08 * most)
    axes.xaxis.set_major_locator(MaxNLocator(3, min_n_ticks=4))
    axes.tick_params(axis="x", labelsize=8)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: number(float(f"{v:.12g}"))))
    axes.grid(False, axis="y")


def _by_tens(axes: Any, some: list[tuple[str, float]], sizes: Any) -> None:
    """A bar for the size of each part, and its number."""
    room = 0.6 * (sizes.high - sizes.low)
    for i, (name, value) in enumerate(some):
        end = sizes.place(abs(value)) if value else None
        if end is not None:
            axes.barh(i, end - sizes.low, left=sizes.low, height=0.7, color=TOTAL if name == "total" else ADDS if value > 0 else CANCELS, edgecolor="none")
        axes.annotate(f"{'−' if value < 0 else ''}{number(float(f'{abs(value):.2g}'))}", (sizes.low if end is None else end, i), xytext=(2, 0), textcoords="offset points", va="center", fontsize=8)
    sizes.apply(axes.xaxis, axes.set_xlim, 3)
    axes.set_xlim(sizes.low, sizes.high + room)
    axes.tick_params(axis="x", labelsize=8)
    axes.grid(False, axis="y")


BLOCKS = ("int8", "mxfp4", "nvfp4", "e4m3-tensor", "fp8-1x128", "mxfp8e4m3")  # formats whose blocks are drawn, those first that lose values
FAR_OUT = 8  # medians: a value farther from 0 is an outlier
MOST_ARROWS = 4
BEFORE = {"color": COLOURS[0], "marker": "o", "markersize": 7, "fillstyle": "none", "markeredgewidth": 1.2, "linestyle": "none"}
AFTER = {"color": COLOURS[1], "marker": "s", "markersize": 4.5, "markeredgewidth": 0, "linestyle": "none"}
BORDER = {"color": INK, "linewidth": 1.0, "linestyle": DASHES[1]}
BORDER_NAME = "border between blocks"
BLOCK_MARKS = (("before", BEFORE), ("after", AFTER), (BORDER_NAME, BORDER))


def blocks(values: Rows, granularity: Rows) -> list[Frame]:
    """Values of a row before and after, on an axis for all but the outliers, which are arrows with their numbers."""
    by = {name: rows for (name,), rows in groups(values, "format").items()}
    chosen = [name for name in BLOCKS if name in by] or list(by)[:len(BLOCKS)]
    absent = [name for name in BLOCKS if name not in by]
    shared = {name_of(row["format"]): name_of(row["scale_for"]) for row in granularity}
    points = {name: [(float(row["index"]), numeric(row["value"]), numeric(row["stored"])) for row in by[name]] for name in chosen}
    sizes = sorted(abs(value) for some in points.values() for _, value, _ in some if value is not None and math.isfinite(value))
    check([*sizes, *(at for some in points.values() for at, _, _ in some)], LARGEST, "values")
    near = [v for v in sizes if v <= FAR_OUT * sizes[len(sizes) // 2]] if sizes else []
    high = 1.05 * max(near, default=0.0) or 1.0
    beyond = [value for some in points.values() for _, value, _ in some if value is not None and abs(value) > high]
    bottom, top = (1.3 * end if any(value * end > 0 for value in beyond) else end for end in (-high, high))  # with room for arrows
    frames = []
    for name in chosen:
        length = int(found[1]) if (found := re.fullmatch(r"1x(\d+)", shared.get(name, ""))) else 0
        some = points[name]
        scale = f"one scale for {length} values" if length else f"one scale for the {shared.get(name, 'whole')}"
        out = [(at, value, stored) for at, value, stored in some if value is not None and abs(value) > high]

        def draw(axes: Any, some: Any = some, out: Any = out, length: int = length) -> None:
            from matplotlib.ticker import MaxNLocator
            for column, style in ((1, BEFORE), (2, AFTER)):
                there = [(p[0], p[column]) for p in some if p[column] is not None and abs(p[column]) <= high]
                if there:
                    axes.plot(*zip(*there), **style)
            width = max(at for at, _, _ in some) + 1
            for border in range(length, int(width), length) if length else ():
                axes.axvline(border - 0.5, **BORDER)
            for at, value, stored in out[:MOST_ARROWS]:
                end = top if value > 0 else bottom
                axes.annotate("", (at, end), (at, 0.7 * end), arrowprops={"arrowstyle": "->", "color": COLOURS[0], "shrinkA": 0, "shrinkB": 0, "linewidth": 1.6})
                axes.annotate(f"{_brief(value)} → {_brief(stored)}", (at, 0.9 * end), xytext=(5, 0), textcoords="offset points", va="center", fontsize=8)
            axes.axhline(0, color=INK, linewidth=0.8)
            axes.set_xlim(-1, width)
            axes.set_ylim(bottom, top)
            axes.set_yticks([tick for tick in MaxNLocator(5).tick_values(-high, high) if abs(tick) <= high])
            axes.set_xticks(range(0, int(width) + 1, 8))
            axes.set_xlabel("place in the row")
            axes.set_title("value")

        zeros = sum(1 for _, value, stored in some if value and stored == 0)
        words = f"{count(len(some))} values before and after {name}, {scale}: {count(zeros)} became 0."
        notes: tuple[str, ...] = ((absent_note("format", absent),) if absent else ()) + ((f"in {name} {count(zeros)} of {count(len(some))} values fell to 0",) if zeros else ())
        borders = length and any(at >= length for at, _, _ in some)
        frames.append(Frame(f"{name}, {scale}", words + "".join(f" At {number(at)} the outlier {_brief(value)} became {_brief(stored)}." for at, value, stored in out[:MOST_ARROWS]), draw,
                            notes=notes, file=name, without=() if borders else (BORDER_NAME,)))
    return frames


def _brief(value: float | None) -> str:
    """Four digits of a number."""
    return "NaN" if value is None else number(float(f"{value:.4g}")).replace("-", "−", 1) if math.isfinite(value) else number(value)


SHOWN = ("ring", "tree", "node-tree", "one-shot")


def message_courses(messages: Rows) -> list[Frame]:
    """Ranks from left to right, rounds from top to bottom: a ring is a long stair, a tree halves the ranks."""
    by = {name: rows for (name,), rows in groups(messages, "algorithm").items()}
    chosen = [name for name in SHOWN if name in by] or list(by)[:len(SHOWN)]
    if not chosen:
        raise NoPicture("the report has no messages")
    absent = [name for name in SHOWN if name not in by]
    check((float(row[place]) for name in chosen for row in by[name] for place in ("ranks", "round", "from", "to")), MOST_RANKS, "ranks and rounds")
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
        frames.append(Frame(name, f"{count(len(rows))} messages among {name_of(rows[0]['ranks'])} ranks in {count(rounds)} round{'' if rounds == 1 else 's'}; rank {name_of(rows[-1]['to'])} has the sum.", draw,
                            notes=(absent_note("algorithm", absent),) if absent else ()))
    return frames
