"""Draws charts with matplotlib: a small picture per panel, so that panels fit side by side, or in a column on a
phone."""
from __future__ import annotations

import functools
import math
import textwrap
from collections import Counter
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Mapping, Sequence

from ..text import number
from .axes import Extent, extent, power
from .select import Chart, Panel, Point, Series, described, rows_in
from .spec import Frame, Plot
from .style import DASHES, EXACT, INK, ON_LIGHT, PAPER, bar_style, drawing, heat, line_style, text_width
from .svg import inline_svg

WIDTH, HEIGHT = 4.0, 2.7     # inches, which CSS stretches to the column's width
SLIDE = 6.3                  # inches: the width of a panel in a file of its own
LEAST_ROW = 0.15             # where rows are many there
SPLIT = 6                    # rows that stay in one column
ROW, AROUND = 0.205, 0.75    # the height of a row, and of the margins above and below all rows
MARKER = 0.07                # between the markers of a row
NUMBERED = 40                # rows of a heat map with numbers in its cells
THIN_ROW, FLAT_ROW = 0.19, 0.125  # their height, and that of more rows
NAME_LETTERS, CELL_LETTERS, EXACT_WORD = 8.0, 7.0, "exact"  # points: the height of letters beside cells and in them
HEAT_STEPS = 6               # from one colour of a heat map's legend to the last
STRIP = 0.15                 # the height of a format's range under lines
NEAR = 20                    # how far beyond lines such a range's ends are still shown, in binades
LONGEST_NAME, LONGEST_END = 26, 18
SAMPLE = 40                  # points: the line of a legend, of two periods of the longest dashes
NAME_ON_TOP = 13             # points: for the names of guides that leave the axes there
LINE, UNDER = 1.6, 2.6        # points: a line's width, and how much wider one is for each that runs over it
PALE, BAND = 0.4, 0.18        # opacities
RIBBON, MIXED = "ribbon", "ribbon in part"  # of marks: lines that others run over, always or in some panels


@dataclass(frozen=True)
class Drawing:
    """A panel as it is drawn."""
    id: str
    title: str
    svg: str
    key: str  # its part of a file's name
    notes: Sequence[str]
    legend: list[tuple[str, str]]  # of what this panel has
    has_ribbon: bool
    wide: Callable[[float, float], str] | None  # draws it for a file of its own, at least and at most so many inches high
    saved: str = ""  # that file; once it is drawn, `wide` is None


def panels(chart: Chart, prefix: str, of: str, beside: Sequence[Chart] = ()) -> list[Drawing]:
    """Each panel of the picture `of`. `beside`: charts shown next to this one, with the same axes."""
    with drawing():
        drawn = []
        for i, panel in enumerate(chart.panels):
            along, values = _extents(chart, panel, beside)
            title = of + (f": {panel.title}" if panel.title else "")

            def svg(figure: Any, name: str = f"{prefix}-{i}", title: str = title, panel: Panel = panel) -> str:
                return inline_svg(figure, name, title, described(panel, chart))

            def wide(least: float, most: float, panel: Panel = panel, along: Extent = along, values: Extent = values, svg: Any = svg) -> str:
                with drawing():
                    return str(svg(_draw(chart, panel, along, values, (SLIDE, least, most))))

            drawn.append(Drawing(f"{prefix}-{i}", panel.title, svg(_draw(chart, panel, along, values)), panel.title, panel.notes, _legend([panel], chart, f"{prefix}-{i}"),
                                 chart.plot.kind == "lines" and any(_covers(panel)), wide))
        return drawn


def frames(drawn: Sequence[Frame], prefix: str, of: str, entries: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Drawing]:
    """The same of a scene, whose legend has these entries."""
    with drawing():
        found = []
        for i, frame in enumerate(drawn):
            title = of + (f": {frame.title}" if frame.title else "")

            def svg(width: float, height: float, frame: Frame = frame, title: str = title, name: str = f"{prefix}-{i}") -> str:
                figure = _figure(width, height)
                frame.draw(*figure.subplots(1, len(frame.axes), sharey=True, squeeze=False, width_ratios=frame.axes)[0])
                return inline_svg(figure, name, title, frame.description)

            def wide(least: float, most: float, svg: Any = svg) -> str:
                with drawing():
                    return str(svg(SLIDE, least))

            found.append(Drawing(f"{prefix}-{i}", frame.title, svg(*frame.size), frame.file or frame.title, frame.notes,
                                 marks([entry for entry in entries if entry[0] not in frame.without], f"{prefix}-{i}"), False, wide))
        return found


def legend(chart: Chart, prefix: str) -> list[tuple[str, str]]:
    """The name of each series that is drawn somewhere, with a small picture of its line, marker or hatch."""
    return _legend(chart.panels, chart, prefix)


def _legend(panels: Sequence[Panel], chart: Chart, prefix: str) -> list[tuple[str, str]]:
    """Lines that others run over look as they do in these panels."""
    there = {s.style for panel in panels for s in panel.series}
    if chart.plot.kind == "stacked":
        return marks([(name, bar_style(i)) for i, name in enumerate(chart.names) if i in there], prefix)
    if chart.plot.kind == "heatmap":
        return marks(_heat_legend(panels, chart), prefix)
    covers: dict[int, list[int]] = {}
    for panel in panels:
        for series, above in zip(panel.series, _covers(panel) if chart.plot.kind == "lines" else []):
            covers.setdefault(series.style, []).append(above)

    def kind(i: int) -> dict[str, Any]:
        above = covers.get(i, [0])
        return {(RIBBON if all(above) else MIXED): max(above)} if any(above) else {}

    entries = [(name, {**_marks(i, chart), **kind(i)}) for i, name in enumerate(chart.names) if i in there]
    banded = {s.style for panel in panels for s in panel.series if any(p.low is not None and p.high is not None for p in s.points)}
    if chart.plot.band and banded:
        colour = line_style(next(iter(banded)))["color"] if len(banded) == 1 else INK
        entries.append((chart.plot.band, {"facecolor": colour, "edgecolor": "none", "alpha": BAND}))
    if chart.plot.ranges:
        entries += RANGES
    return marks(entries, prefix)


RANGES = [("normal numbers of a format", {"color": INK, "linewidth": 3.5, "solid_capstyle": "butt"}), ("its subnormal numbers", {"color": INK, "linewidth": 1.4, "linestyle": DASHES[2]})]


def _heat_legend(panels: Sequence[Panel], chart: Chart) -> list[tuple[str, Mapping[str, Any]]]:
    """Colours between the ends, and that of exact cells."""
    values = [p.value for panel in panels for s in panel.series for p in s.points]
    low, high = _heat_ends(chart.plot)
    found: list[tuple[str, Mapping[str, Any]]] = []
    for i in range(HEAT_STEPS + 1 if any(map(math.isfinite, values)) else 0):
        beyond = " or less" if i == 0 and min(values) < low else " or more" if i == HEAT_STEPS and any(high < v < math.inf for v in values) else ""
        found.append((f"{number(float(f'{low + (high - low) * i / HEAT_STEPS:.6g}'))}{beyond}", {"facecolor": heat(i / HEAT_STEPS)[0], "edgecolor": "none"}))
    return found + ([("exact: nothing lost", {"facecolor": EXACT, "edgecolor": "none"})] if math.inf in values else [])


def _heat_ends(plot: Plot) -> tuple[float, float]:
    return plot.value_limits or (0.0, 1.0)


def marks(entries: Iterable[tuple[str, Mapping[str, Any]]], prefix: str) -> list[tuple[str, str]]:
    """Names with small pictures of bars, which have a facecolor, or of lines."""
    return [(name, _mark(tuple(sorted(style.items()))).replace("@-", f"{prefix}-k{i}-")) for i, (name, style) in enumerate(entries)]


@functools.lru_cache(maxsize=None)  # a page has the same few dozen in all its legends
def _mark(properties: tuple[tuple[str, Any], ...]) -> str:
    """One such picture, whose ids begin with @-."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle
    style = dict(properties)
    with drawing():
        if "facecolor" in style:
            figure = _figure(0.42, 0.15)
            figure.add_artist(Rectangle((0.02, 0.06), 0.96, 0.88, **style))
        elif style.get("linestyle") == "none":
            figure = _figure(0.2, 0.15)
            figure.add_artist(Line2D([0.5], [0.5], **style))
        else:
            figure = _figure(SAMPLE / 72, 0.15)
            line = {name: value for name, value in style.items() if name not in (RIBBON, MIXED)}
            dash = _dash_middle(line.get("linestyle", "-"), line.get("linewidth", LINE)) / SAMPLE
            above = style.get(RIBBON, style.get(MIXED, 0))
            if above:
                figure.add_artist(Line2D([0, 1 if RIBBON in style else 0.5], [0.5] * 2, **{**line, **_ribbon(above), "marker": ""}))
            if not above or MIXED in style:
                figure.add_artist(Line2D([0.5 if above else 0, 1], [0.5] * 2, **{**line, "marker": ""}))
            figure.add_artist(Line2D([0.25 if MIXED in style else 0.5 if above else dash], [0.5], **{**line, "linestyle": "none"}))
        return inline_svg(figure, "@", "", "")


def _dash_middle(dashes: Any, width: float) -> float:
    """Points from a line's start to the middle of the dash that is nearest to a sample's middle."""
    if not isinstance(dashes, tuple):
        return SAMPLE / 2
    period, first = float(sum(dashes[1])) * width, float(dashes[1][0]) * width
    return round((SAMPLE / 2 - first / 2) / period) * period + first / 2


def _ribbon(above: int) -> dict[str, Any]:
    """How a line is drawn that others run over: so many."""
    return {"linewidth": LINE + UNDER * min(above, 2), "linestyle": DASHES[0], "alpha": PALE}


def _figure(width: float, height: float) -> Any:
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
    figure = Figure(figsize=(width, height))
    FigureCanvasSVG(figure)
    return figure


def _marks(i: int, chart: Chart) -> dict[str, Any]:
    style = line_style(i)
    return {**style, "linestyle": "none"} if chart.plot.kind == "dots" else style


def _extents(chart: Chart, panel: Panel, beside: Sequence[Chart]) -> tuple[Extent, Extent]:
    plot = chart.plot
    everywhere = [p for c in (chart, *beside) for p in c.panels]
    alike = everywhere if plot.same_values else [p for p in everywhere if p.title == panel.title]
    along_alike = everywhere if plot.same_along else [p for p in everywhere if p.title == panel.title]
    places = [pt.along for p in along_alike for s in p.series for pt in s.points]
    near = [end for _, *ends in plot.ranges for end in ends if min(places) - NEAR <= end <= max(places) + NEAR]
    along = extent(places + near, plot.along_scale)
    if plot.kind == "heatmap":  # which has no axis of values
        return along, along
    if plot.kind == "stacked":
        totals = [sum(pt.value for s in p.series for pt in s.points if pt.along == row) for p in alike for row in range(len(chart.rows))]
        return along, extent([0.0, *totals], "linear", from_zero=True)
    values = [v for p in alike for s in p.series for pt in s.points for v in (pt.value, pt.low, pt.high) if v is not None]
    if values and plot.value_scale in ("log", "log2"):  # guides may leave the axis, and do not stretch it
        values += [pt.value for p in alike for _, guide in p.guides for pt in guide if min(values) <= pt.value <= max(values)]
    return along, extent(values, plot.value_scale, limits=plot.value_limits, linear_to=plot.linear_to)


def _draw(chart: Chart, panel: Panel, along: Extent, values: Extent, slide: tuple[float, float, float] | None = None) -> Any:
    """With `slide`, for a file of its own: its width, its least and its largest height."""
    rows = rows_in(panel) if chart.rows else []
    columns = 1
    if chart.plot.kind == "heatmap":
        return _heat_map(chart, panel, rows, slide)
    width, height = WIDTH, AROUND + _row_height(chart, panel) * len(rows) if chart.rows else HEIGHT
    if slide:
        width, least, most = slide
        columns = 2 if chart.rows and len(rows) > SPLIT and AROUND + max(LEAST_ROW, 0.8 * _row_height(chart, panel)) * len(rows) > most else 1
        height = min(max(AROUND + _row_height(chart, panel) * -(-len(rows) // columns), least), most) if chart.rows else least
    figure = _figure(width, height)
    if chart.rows:
        each = -(-len(rows) // columns)
        for axes, some in zip(figure.subplots(1, columns, squeeze=False)[0], (rows[i:i + each] for i in range(0, len(rows), each))):
            _rows(axes, chart, panel, values, some, 4 if columns > 1 else 7)
        return figure
    if chart.plot.ranges:
        strip = STRIP * len(chart.plot.ranges)
        if not slide:
            figure.set_figheight(height + strip)
        axes, below = figure.subplots(2, 1, sharex=True, height_ratios=(height - AROUND, strip))
        _ranges(below, chart.plot, along)
    else:
        axes = below = figure.add_subplot()
    on_top = [_guide(axes, name, points, along, values) for name, points in panel.guides]
    for series, above in zip(panel.series, _covers(panel)):
        _line(axes, series, chart, along, values, above)
    if panel.end is not None and (x := along.place(panel.end)) is not None:
        _end(axes, x, chart.plot.ends)
    if chart.plot.against:
        axes.axhline(0, color=INK, linewidth=0.8)
    along.apply(axes.xaxis, axes.set_xlim)
    values.apply(axes.yaxis, axes.set_ylim, unit=chart.unit)
    below.set_xlabel(chart.along_label)
    axes.set_title(chart.value_label, pad=NAME_ON_TOP if any(on_top) else None)
    return figure


def _rows(axes: Any, chart: Chart, panel: Panel, values: Extent, rows: Sequence[float], most: int) -> None:
    """The rows of a panel, or of its column; at most so many powers as ticks."""
    place = {row: i for i, row in enumerate(rows)}
    if chart.plot.kind == "dots":
        _dots(axes, panel, chart, values, place)
    else:
        _stack(axes, panel, values, place)
    values.apply(axes.xaxis, axes.set_xlim, most, chart.unit)
    axes.set_yticks(range(len(rows)), [_short(chart.rows[int(row)]) for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(chart.value_label)


def _ranges(axes: Any, plot: Plot, along: Extent) -> None:
    """A format's normal and subnormal numbers on a row for each."""
    for i, (_, *ends) in enumerate(plot.ranges):
        least, normal, most = (min(max(end, along.low), along.high) for end in ends)
        axes.plot([least, normal], [i, i], **RANGES[1][1])
        axes.plot([normal, most], [i, i], **RANGES[0][1])
    axes.set_yticks(range(len(plot.ranges)), [name for name, *_ in plot.ranges], fontsize=8)
    axes.set_ylim(len(plot.ranges) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(False, axis="y")
    axes.spines["left"].set_visible(False)


def _heat_map(chart: Chart, panel: Panel, rows: Sequence[float], slide: tuple[float, float, float] | None) -> Any:
    """In one column, or in two where a slide is not high enough for one."""
    names = _brief([chart.rows[int(row)] for row in rows])
    heads = _brief([series.name for series in panel.series])
    letters = NAME_LETTERS if len(rows) <= NUMBERED else CELL_LETTERS
    label = max(text_width(name, letters) for name in names) / 72 + 0.15
    longest = max(text_width(name, NAME_LETTERS) for name in heads) / 72

    def cell(width: float, columns: int) -> float:
        return max((width / columns - label) / len(heads), 0.05)

    columns, width = 1, WIDTH
    each = THIN_ROW if len(rows) <= NUMBERED else FLAT_ROW
    if slide:
        width, least, most = slide
        columns = 2 if len(rows) > SPLIT and each * len(rows) > most - AROUND else 1
    is_level = longest + 0.05 < cell(width, columns)
    head = 0.35 if is_level else 0.3 + longest * math.sqrt(0.5)
    height = head + each * -(-len(rows) // columns)
    if slide:
        height = min(max(height, min(least, head + 0.4 * -(-len(rows) // columns))), most)
    figure = _figure(width, height)
    part = -(-len(rows) // columns)
    for axes, i in zip(figure.subplots(1, columns, squeeze=False)[0], range(0, len(rows), part)):
        place = {row: n for n, row in enumerate(rows[i:i + part])}
        _heat_cells(axes, chart.plot, panel, place, 72 * cell(width, columns) if len(rows) <= NUMBERED else 0.0)
        axes.set_yticks(range(len(place)), names[i:i + part], fontsize=min(letters, 72 * (height - head) / part))
        axes.set_ylim(part - 0.5, -0.5)
        axes.set_xticks(range(len(heads)), heads, fontsize=NAME_LETTERS, **({} if is_level else {"rotation": 45, "ha": "left", "va": "bottom", "rotation_mode": "anchor"}))
        axes.set_xlim(-0.5, len(heads) - 0.5)
        axes.xaxis.tick_top()
        axes.tick_params(length=0, pad=2)
        axes.grid(False)
        for spine in axes.spines.values():
            spine.set_visible(False)
    return figure


def _heat_cells(axes: Any, plot: Plot, panel: Panel, place: Mapping[float, int], width: float) -> None:
    """With numbers as far as cells of so many points have room for them."""
    from matplotlib.collections import PolyCollection
    low, high = _heat_ends(plot)
    cells, colours, texts = [], [], []
    for x, series in enumerate(panel.series):
        for point in series.points:
            if point.along in place and point.value > -math.inf:
                y = place[point.along]
                colour, ink = (EXACT, ON_LIGHT) if point.value == math.inf else heat((min(max(point.value, low), high) - low) / (high - low))
                cells.append([(x - 0.5, y - 0.5), (x + 0.5, y - 0.5), (x + 0.5, y + 0.5), (x - 0.5, y + 0.5)])
                colours.append(colour)
                texts.append((x, y, point.value, ink))
    axes.add_collection(PolyCollection(cells, facecolors=colours, edgecolors=PAPER, linewidths=0.6))

    def fits(words: list[str]) -> bool:
        return all(text_width(word, CELL_LETTERS) + 1 <= width for word in words)

    digits = next((n for n in (1, 0) if fits(sorted({_rounded(v, n) for *_, v, _ in texts if abs(v) < 99.95}))), None)
    for x, y, value, ink in texts:
        word = EXACT_WORD if value == math.inf else "" if digits is None else _rounded(value, digits)
        if word and fits([word]):
            axes.text(x, y, word, ha="center", va="center_baseline", fontsize=CELL_LETTERS, color=ink)


def _rounded(value: float, digits: int) -> str:
    """Whole from 100 on."""
    return f"{value:.{digits if abs(value) < 99.95 else 0}f}".replace("-", "−") if abs(value) < 1e5 else f"{value:.0e}".replace("e+", "e").replace("-", "−")


def _row_height(chart: Chart, panel: Panel) -> float:
    """The room for the markers of the fullest row."""
    if chart.plot.kind != "dots":
        return ROW
    fullest = Counter(p.along for s in panel.series for p in s.points).most_common(1)
    return max(ROW, MARKER * (fullest[0][1] + 1))


def _covers(panel: Panel) -> list[int]:
    """For each line, how many later ones run over it: over half of its pieces, or more."""
    courses = [{p.along: p.value for p in series.points} for series in panel.series]

    def covered(course: dict[float, float], other: dict[float, float]) -> bool:
        same = [other.get(at) == value for at, value in course.items()]
        return len(same) > 1 and 2 * sum(a and b for a, b in zip(same, same[1:])) >= len(same) - 1

    return [sum(covered(course, other) for other in courses[i + 1:]) for i, course in enumerate(courses)]


def _line(axes: Any, series: Series, chart: Chart, along: Extent, values: Extent, above: int) -> None:
    """Draws a line, wider and paler if others run over it, so that it is seen on both sides of them."""
    places = [(x, y) for p in series.points if (x := along.place(p.along)) is not None and (y := values.place(p.value)) is not None]
    if not places:
        return
    every = max(1, len(places) // 8)
    band = [(x, low, high) for p in series.points if p.low is not None and p.high is not None and (x := along.place(p.along)) is not None
            and (low := values.place(p.low)) is not None and (high := values.place(p.high)) is not None]
    if band:
        axes.fill_between(*zip(*band), color=line_style(series.style)["color"], alpha=BAND, linewidth=0, step="post" if chart.plot.steps else None)
    wider = _ribbon(above) if above else {}
    style = line_style(series.style)
    stairs = "steps-post" if chart.plot.steps else "default"
    axes.plot(*zip(*places), drawstyle=stairs, clip_on=False, **{**style, **wider, "marker": ""})
    axes.plot(*zip(*places), clip_on=False, markevery=(series.style % every, every), **{**style, "linestyle": "none"})


def _guide(axes: Any, name: str, points: Sequence[Point], along: Extent, values: Extent) -> bool:
    """A dotted line with its name at its end, outside the axes. Whether that is on top of them."""
    places = [(x, y) for p in points if (x := along.place(p.along)) is not None and (y := values.place(p.value)) is not None]
    inside = [(x, y) for x, y in places if values.low <= y <= values.high]
    if not inside:
        return False
    axes.plot(*zip(*places), color=INK, linewidth=0.8, linestyle=DASHES[6])
    leaves = next(((x + (right - x) * (values.high - y) / (above - y)) for (x, y), (right, above) in zip(places, places[1:]) if y <= values.high < above), None)
    at, offset, sides = (inside[-1], (3, 0), ("left", "center")) if leaves is None else ((leaves, values.high), (0, 1), ("center", "bottom"))
    axes.annotate(name.replace("sqrt ", "√") + _unit(name, points), at, xytext=offset, textcoords="offset points", ha=sides[0], va=sides[1], fontsize=8, annotation_clip=False)
    return leaves is not None


def _unit(name: str, points: Sequence[Point]) -> str:
    """What u is in a guide that is n u, or (n - 1) u."""
    last = points[-1]
    if name != "n u" or last.along <= 1 or not 0 < last.value < math.inf:
        return ""
    exponents = [math.log2(last.value / n) for n in (last.along, last.along - 1)]
    whole = next((round(e) for e in exponents if abs(e - round(e)) < 1e-6), None)
    return "" if whole is None else f", u = {power(whole, 2)}: unit roundoff"


def _end(axes: Any, x: float, why: str) -> None:
    """Why nothing follows, right of where the lines end."""
    axes.axvline(x, color=INK, linewidth=0.8, linestyle=DASHES[2])
    axes.annotate("\n".join(textwrap.wrap(why, 14)), (x, 0.04), xycoords=("data", "axes fraction"), xytext=(4, 0), textcoords="offset points", fontsize=8, va="bottom")


def _dots(axes: Any, panel: Panel, chart: Chart, values: Extent, place: dict[float, int]) -> None:
    """Draws the markers of a row below each other, so that equal values stay visible."""
    height = _row_height(chart, panel)
    for row, i in place.items():
        there = [(s, p) for s in panel.series for p in s.points if p.along == row and values.place(p.value) is not None]
        for n, (series, point) in enumerate(there):
            y = i + (n - (len(there) - 1) / 2) * min(0.2, MARKER / height)
            style = _marks(series.style, chart)
            low, high = (values.place(v) if v is not None else None for v in (point.low, point.high))
            if low is not None and high is not None:
                axes.plot([low, high], [y, y], color=style["color"], linewidth=1, linestyle=DASHES[0])
            axes.plot([values.place(point.value)], [y], clip_on=False, **style)


def _stack(axes: Any, panel: Panel, values: Extent, place: dict[float, int]) -> None:
    left = dict.fromkeys(place, 0.0)
    for series in panel.series:
        for point in series.points:
            if point.along in place and 0 < point.value < float("inf") and left[point.along] < values.high:
                axes.barh(place[point.along], min(point.value, values.high), left=left[point.along], height=0.7, **bar_style(series.style))
                left[point.along] += point.value


def _brief(names: Sequence[str]) -> list[str]:
    """Long names without their beginnings, or without their middles where they differ in these alone: layers differ at
    their ends."""
    def end(name: str) -> str:
        tail = name[1 - LONGEST_END:]
        return name if len(name) <= LONGEST_END else "…" + (tail[tail.index(".") + 1:] if "." in tail[:LONGEST_END // 2] else tail)

    brief = [end(name) for name in names]
    return brief if len(set(brief)) == len(brief) else [name if len(name) <= LONGEST_NAME else f"{name[:10]}…{name[11 - LONGEST_NAME:]}" for name in names]


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[:LONGEST_NAME - 1].rstrip() + "…"
