"""Pictures with a drawing of their own: number lines, gradients over the ranges of formats, tokens and their ids."""
from __future__ import annotations

import math
from typing import Any, Iterable

from ..text import count, number, numeric
from .axes import extent, power
from .select import NoPicture, name_of
from .spec import MOST_PANELS, Frame, Rows
from .style import COLOURS, DASHES, INK

FEW = 2      # formats on a number line
HIGH = 1.0   # where the linear number line ends
FAR = 30     # binades beyond the gradients that are still shown
LARGEST = 1e15  # number that a drawing of its own takes
NORMAL, SUBNORMAL = COLOURS[0], COLOURS[1]


def groups(rows: Rows, *columns: str) -> dict[tuple[str, ...], Rows]:
    """Rows by their values of the columns, in the table's order."""
    found: dict[tuple[str, ...], Rows] = {}
    for row in rows:
        found.setdefault(tuple(name_of(row[c]) for c in columns), []).append(row)
    return found


def check(values: Iterable[float], most: float, what: str) -> None:
    if not all(abs(v) <= most for v in values):  # nor NaN
        raise NoPicture(f"{what} beyond {number(most)} are not drawn")


def rows_of_names(axes: Any, names: list[str]) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(False, axis="y")


NUMBER_LINE_MARKS = (("normal number", {"color": NORMAL, "linewidth": 1.6}), ("subnormal number", {"color": SUBNORMAL, "linewidth": 1.6}), ("0", {"color": INK, "linewidth": 1.6}))


def number_lines(rows: Rows, limits: Rows) -> list[Frame]:
    """A stroke for every number of two formats: the same between powers of two, twice as far apart in the next ones."""
    numbers = {name: [v for row in some if (v := numeric(row["value"])) is not None and math.isfinite(v)] for (name,), some in groups(rows, "format").items()}
    names = [name for name in numbers if len(numbers[name]) > 1][:FEW]
    if not names:
        raise NoPicture("no format of at most 8 bits is among the report's formats")
    normal = {name_of(row["format"]): numeric(row["min_normal"]) or 0.0 for row in limits}
    few = {name: sum(0 < v < normal.get(name, 0.0) for v in numbers[name]) for name in names}

    def strokes(axes: Any, place: Any) -> None:
        for i, name in enumerate(names):
            least = normal.get(name, 0.0)
            for colour, some in ((NORMAL, [v for v in numbers[name] if v >= least and v > 0]), (SUBNORMAL, [v for v in numbers[name] if 0 < v < least]), (INK, [v for v in numbers[name] if v == 0])):
                axes.vlines([at for v in some if (at := place(v)) is not None], i - 0.32, i + 0.32, color=colour, linewidth=0.8)
        rows_of_names(axes, names)

    def linear(axes: Any) -> None:
        strokes(axes, lambda v: v if v <= HIGH else None)
        axes.set_xlim(-0.02, HIGH + 0.02)
        axes.set_xlabel("number")

    def logarithmic(axes: Any) -> None:
        along = extent([v for name in names for v in numbers[name]], "log2")
        strokes(axes, along.place)
        along.apply(axes.xaxis, axes.set_xlim)
        axes.set_xlabel("number, by powers of two")

    inside = "; ".join(f"{name} has {count(sum(v <= HIGH for v in numbers[name]))}, {count(few[name])} of them subnormal" for name in names)
    ends = "; ".join(f"{name} from {number(min(v for v in numbers[name] if v > 0))} to {number(max(numbers[name]))}, subnormal below {number(normal.get(name, 0.0))}" for name in names)
    return [Frame(f"from 0 to {number(HIGH)}", f"Number line with a stroke for each number from 0 to {number(HIGH)}: {inside}, densest near 0.", linear, (4.0, 1.5)),
            Frame("all of them", f"The same by powers of two: {ends}. 0 stands apart.", logarithmic, (4.0, 1.5), notes=("0 is no power of two: it stands beyond the break",))]


MADE_UP = ("log-normal", "normal", "student-t", "log-uniform")  # sources that are distributions
SCALED = {"color": INK, "linewidth": 1.6, "linestyle": DASHES[1]}
VANISHING = {"facecolor": COLOURS[1], "edgecolor": "none", "alpha": 0.15}
SCALED_NAME, VANISHING_NAME = "with the loss scale", "becomes zero"
RANGE_MARKS = (("gradients", {"facecolor": COLOURS[0], "edgecolor": "none"}), (SCALED_NAME, SCALED), (VANISHING_NAME, VANISHING), ("range of a format", {"color": COLOURS[1], "linewidth": 3.5, "solid_capstyle": "butt"}),
               ("its subnormal numbers", {"color": COLOURS[1], "linewidth": 1.4, "linestyle": DASHES[2]}))


def gradients_over_ranges(histogram: Rows, limits: Rows, best: Rows) -> list[Frame]:
    """How many gradients have which magnitude, over what formats hold; the arrow is the best loss scale for the first."""
    spans = [(name_of(row["format"]), *(math.log2(v) for c in ("min_subnormal", "min_normal", "max_finite") if (v := numeric(row[c])))) for row in limits]
    spans = [span for span in spans if len(span) == 4]
    if not spans:
        raise NoPicture("the report has no format with a range")
    check((end for span in spans for end in span[1:]), LARGEST, "limits of formats")
    frames = []
    for (source,), rows in list(groups(histogram, "source").items())[:MOST_PANELS]:
        counts = {int(row["binade"]): float(row["values"]) for row in rows}
        check([*counts, *(c for c in counts.values())], LARGEST, "binades and their counts")
        total, peak = sum(counts.values()) or 1.0, max(counts, key=lambda b: counts[b])
        own = next((row for row in best if name_of(row["source"]) == source and name_of(row["format"]) == spans[0][0]), {})
        scale, before, after = (numeric(own.get(c)) for c in ("best_k", "zero_unscaled", "zero_at_best"))
        lost = "" if before is None or after is None else f"{number(float(f'{100 * before:.2g}'))} % lost → {number(float(f'{100 * after:.2g}'))} %"
        zero = next((math.log2(v) for row in limits if name_of(row["format"]) == spans[0][0] and (v := numeric(row.get("largest_zero"))) and 0 < v < math.inf), None)

        def draw(axes: Any, counts: dict[int, float] = counts, total: float = total, peak: int = peak, scale: float | None = scale, lost: str = lost, zero: float | None = zero) -> None:
            axes.bar(list(counts), [c / total for c in counts.values()], width=1.0, align="edge", color=COLOURS[0], edgecolor="none")
            top = max(counts.values()) / total
            step = 0.13 * top
            low, high = _window(counts, spans, scale or 0.0)
            for i, (name, least, normal, most) in enumerate(spans):
                y = -(i + 1) * step
                axes.plot([least, normal], [y, y], color=COLOURS[1], linewidth=1.4, linestyle=DASHES[2])
                axes.plot([normal, most], [y, y], color=COLOURS[1], linewidth=3.5, solid_capstyle="butt")
                axes.annotate(name, (high, y), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8, annotation_clip=False)
            if zero is not None:
                axes.axvspan(low, zero, zorder=0, **VANISHING)
                axes.annotate(f"0 in {spans[0][0]}", (low, 0.8 * top), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8)
            if scale:
                ends = sorted(counts)
                steps = [ends[0], *(b + 1 for b in range(ends[0], ends[-1] + 1))]
                heights = [counts.get(b, 0.0) / total for b in range(ends[0], ends[-1] + 1)]
                axes.stairs(heights, [b + scale for b in steps], baseline=None, **SCALED)
                axes.annotate("", (peak + 0.5 + scale, 1.06 * top), (peak + 0.5, 1.06 * top), arrowprops={"arrowstyle": "->", "color": INK, "shrinkA": 0, "shrinkB": 0}, annotation_clip=False)
                axes.annotate(f"best loss scale for {spans[0][0]}: {power(int(scale), 2)}", (peak + 0.5 + scale / 2, (1.24 if lost else 1.11) * top), ha="center", fontsize=8)
            if lost:
                axes.annotate(lost, (peak + 0.5 + (scale or 0.0) / 2, 1.11 * top), ha="center", fontsize=8)
            axes.axhline(0, color=INK, linewidth=0.8)
            axes.set_ylim(-(len(spans) + 0.8) * step, (1.42 if lost else 1.28) * top)
            axes.set_yticks(*_ticks(top))
            axes.set_xlim(low, high)
            axes.set_xlabel("log2 of the magnitude")
            axes.set_title("share of gradients in a binade")

        ranges = "; ".join(f"{name} holds 2^{normal:.0f} to 2^{most:.0f}, subnormal from 2^{least:.0f}" for name, least, normal, most in spans)
        words = f"Histogram of gradients by binade, most of them at 2^{peak}, over the ranges of formats: {ranges}."
        words += f" The best loss scale for {spans[0][0]}, 2^{scale:.0f}, moves them to the right{': ' + lost if lost else ''}." if scale else ""
        without = (() if scale else (SCALED_NAME,)) + (() if zero is not None else (VANISHING_NAME,))
        frames.append(Frame(f"{source} gradients (made up)" if source in MADE_UP else source, words, draw, (4.0, 3.1), file=source, without=without))
    return frames


def _window(counts: dict[int, float], spans: list[tuple[str, float, float, float]], scale: float) -> tuple[float, float]:
    """Of log2: all gradients, without and with a scale, and formats, but for the ends of formats that reach far beyond."""
    low, high = min(counts), max(counts) + 1 + max(scale, 0.0)
    low, high = low - FAR, high + FAR
    ends = [s[1] for s in spans if s[1] > low], [s[3] for s in spans if s[3] < high]
    return min([*ends[0], min(counts)]) - 2, max([*ends[1], max(counts) + 1 + max(scale, 0.0)]) + 2


def _ticks(top: float) -> tuple[list[float], list[str]]:
    """Of shares from 0 to the largest: three at most, in percent."""
    step = next(s for s in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5) if top / s < 3.5)
    places = [i * step for i in range(int(top / step) + 1)]
    return places, [f"{round(100 * place)} %" for place in places]


IDEAL, CLASH = {"color": INK, "linewidth": 0.8, "linestyle": DASHES[6]}, {"color": COLOURS[1], "marker": "o", "markersize": 7, "fillstyle": "none", "markeredgewidth": 1.4, "linestyle": "none"}
ID_MARKS = (("id in the format", {"color": COLOURS[0]}), ("ideal: every token has its own id", IDEAL), ("first clash", CLASH))


def token_ids(ids: Rows) -> list[Frame]:
    """A stair for each format beside the line that it should be; the first two tokens with one id are marked."""
    frames = []
    for (name,), rows in list(groups(ids, "format").items())[:MOST_PANELS]:
        stair = [(float(row["token"]), v) for row in rows if (v := numeric(row["id"])) is not None and math.isfinite(v)]
        if not stair:
            continue
        check((end for pair in stair for end in pair), LARGEST, "tokens and ids")
        clash = next((pair for pair in zip(stair, stair[1:]) if pair[0][1] == pair[1][1]), None)
        said = f"tokens {number(clash[0][0])} and {number(clash[1][0])}\nshare the id {number(clash[0][1])}" if clash else ""

        def draw(axes: Any, stair: list[tuple[float, float]] = stair, clash: Any = clash, said: str = said) -> None:
            tokens = [token for token, _ in stair]
            axes.plot(tokens, tokens, **IDEAL)
            axes.plot(*zip(*stair), drawstyle="steps-post", color=COLOURS[0])
            if clash:
                axes.plot(*zip(*clash), **CLASH)
                axes.annotate(said, clash[1], xytext=(0.97, 0.06), textcoords="axes fraction", ha="right", fontsize=8,
                              arrowprops={"arrowstyle": "->", "color": INK, "shrinkA": 2, "shrinkB": 5})
            for axis, set_limits in ((axes.xaxis, axes.set_xlim), (axes.yaxis, axes.set_ylim)):
                extent([*tokens, *(v for _, v in stair)], "linear").apply(axis, set_limits)
            axes.set_xlabel("token")
            axes.set_title("position id")

        words = f"Stair of position ids of tokens {number(stair[0][0])} to {number(stair[-1][0])} beside the ideal line, on which every token has its own id."
        frames.append(Frame(name, words + (f" First clash: {' '.join(said.split())}." if said else " No two tokens share an id."), draw))
    if not frames:
        raise NoPicture("the table ids has no finite id")
    return frames
