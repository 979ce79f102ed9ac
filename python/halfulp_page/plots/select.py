"""Selects from a table, by a description, what is drawn: panels, series, points. Draws nothing."""
from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, Mapping, Sequence

from ..text import counted, numeric, plain
from .spec import MOST_CELLS, MOST_PANELS, MOST_ROWS, MOST_SERIES, Plot


NO_NAME = "(no name)"
NOWHERE = (None, "")  # cells that name no panel
A_NUMBER = re.compile(r"[\d.,e+-]*\d[\d.,e+-]*")
SIGNED = ("linear", "symlog")  # scales that have places for negative numbers


def name_of(value: Any) -> str:
    """The name of a row, a series or a panel."""
    return "none" if value is None else plain(value) or NO_NAME


class NoPicture(Exception):
    """Why there is no picture, in words."""


@dataclass(frozen=True)
class Point:
    along: float  # the number, or the number of the row
    value: float
    low: float | None = None
    high: float | None = None


@dataclass
class Series:
    name: str
    style: int
    points: list[Point] = field(default_factory=list)


@dataclass
class Panel:
    title: str
    series: list[Series]
    guides: list[tuple[str, list[Point]]] = field(default_factory=list)  # by name
    notes: list[str] = field(default_factory=list)  # what is left out of it, and why
    end: float | None = None  # where its lines end, if before those of other panels and the description says why


@dataclass
class Chart:
    plot: Plot
    panels: list[Panel]
    names: list[str]       # of all series; a series' place chooses its style
    rows: list[str]        # for dots and stacked bars
    along_label: str
    value_label: str
    selected: list[str]    # "rounding nearest-even": what of the table is drawn
    notes: list[str]       # what is left out, and why, of all panels
    unit: str = ""         # of all values, if it is one


def chart(plot: Plot, results: Mapping[str, Any]) -> Chart:
    """Raises NoPicture where the report lacks what it needs."""
    table = _table(results, plot.table)
    columns = {str(c.get("name")): i for i, c in enumerate(table["columns"])}
    needed = [plot.along, *plot.values, *(c for c in (plot.series, plot.panels, plot.over) if c), *plot.guides]
    if missing := [name for name in needed if name not in columns]:
        raise NoPicture(f"the table {plot.table} has no column {', '.join(dict.fromkeys(missing))}")
    rows = rows_of(results, plot.table)
    rows, selected = _where(plot, rows)
    rows, absent = _only(plot, rows)
    if plot.added:
        rows, without = _added(plot, rows)
        absent += without
    if plot.against:
        rows, plot = _compared(plot, rows)
        selected.append(f"difference from {plot.against[1]}, mean over {plot.over}s" if plot.against else "")
    return _Builder(plot, rows, selected, absent, {str(c.get("name")): plain(c.get("unit", "")) for c in table["columns"]}).build()


def _table(results: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = results.get(name)
    if not isinstance(table, Mapping):
        raise NoPicture(f"this report has no table {name}")
    return table


def rows_of(results: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """A table's rows, cells by the names of their columns. Raises NoPicture where it is missing or empty."""
    table = _table(results, name)
    columns = {str(c.get("name")): i for i, c in enumerate(table["columns"])}
    rows = [{column: row[i] if i < len(row) else None for column, i in columns.items()} for row in table["rows"]]
    if not rows:
        raise NoPicture(f"the table {name} is empty")
    return rows


def _where(plot: Plot, rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    """Rows with the preferred value of each column, or with its first where none has it. A column that the table lacks selects nothing."""
    selected = []
    for column, wanted in plot.where.items():
        if column not in rows[0]:
            continue
        values = list(dict.fromkeys(name_of(row[column]) for row in rows))
        value = name_of(wanted) if name_of(wanted) in values else values[0]
        rows = [row for row in rows if name_of(row[column]) == value]
        if len(values) > 1:
            selected.append(f"{column.replace('_', ' ')} {value}")
    return rows, selected


def _only(plot: Plot, rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows of the chosen series, in their order, and which of these are not there. All rows where none is."""
    if not plot.only or not plot.series:
        return rows, []
    there = {name_of(row[plot.series]) for row in rows}
    absent = [name for name in plot.only if name not in there]
    notes = [*([absent_note(plot.series, absent)] if absent else []), *_chosen_note(plot, there)]
    return [row for name in plot.only for row in rows if name_of(row[plot.series]) == name] or rows, notes


def _chosen_note(plot: Plot, there: set[str]) -> list[str]:
    """How many series are drawn, if not all. The reference, from which others differ, is none of them."""
    reference = {plot.against[1]} if plot.against else set()
    of_all, chosen = there - reference, (there - reference).intersection(plot.only)
    if not chosen or chosen == of_all:
        return []
    beside = f" beside {', '.join(reference)}" if reference else ""
    series = (plot.series or "").replace("_", " ")
    return [f"{len(chosen)} of {len(of_all)} values of {series}{beside}; the table has all"]


def absent_note(column: str, names: Sequence[str]) -> str:
    return f"not in this report: {column.replace('_', ' ')} {', '.join(names)}"


LOW, HIGH = "least of the differences", "largest of the differences"


def _compared(plot: Plot, rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], Plot]:
    """Rows of mean differences from the reference, paired by `over`, with their ends."""
    column, reference = plot.against or ("", "")
    (value,) = plot.values
    shared = [c for c in (plot.along, plot.panels, plot.over) if c]
    base = {tuple(name_of(row[c]) for c in shared): numeric(row[value]) for row in rows if name_of(row[column]) == reference}
    found: dict[tuple[str, ...], list[float]] = {}
    first: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in rows:
        at, own = base.get(tuple(name_of(row[c]) for c in shared)), numeric(row[value])
        if name_of(row[column]) == reference or at is None or own is None or not math.isfinite(own - at):
            continue
        key = tuple(name_of(row[c]) for c in (plot.series or column, plot.along, *([plot.panels] if plot.panels else [])))
        found.setdefault(key, []).append(own - at)
        first.setdefault(key, row)
    if not found:
        raise NoPicture(f"the table {plot.table} has no {column} {reference} to compare with")
    return [{**first[key], value: sum(d) / len(d), LOW: min(d), HIGH: max(d)} for key, d in found.items()], replace(plot, whiskers=(LOW, HIGH))


def _added(plot: Plot, rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    """Rows of shares: what rows with the same place add up to, of all that their series has. And what has no place."""
    (value,) = plot.values
    sums: dict[str, dict[Any, float]] = {}
    first: dict[tuple[str, Any], dict[str, Any]] = {}
    for row in rows:
        name, at, own = name_of(row[plot.series or ""]), numeric(row[plot.along]), numeric(row[value])
        if own is None or not math.isfinite(own) or (at is None and row[plot.along] is not None):
            continue
        places = sums.setdefault(name, {})
        places[at] = places.get(at, 0.0) + own
        first.setdefault((name, at), row)
    totals = {name: sum(places.values()) for name, places in sums.items()}
    unplaced = [(places[None] / totals[name], name) for name, places in sums.items() if None in places and totals[name] > 0]
    if unplaced and not any(set(places) - {None} for places in sums.values()):
        raise NoPicture(f"the table {plot.table} has nothing but {plot.added}")
    notes = [f"{plot.added} are not drawn: at most {plain(float(f'{100 * share:.2g}'))} % ({name})" for share, name in sorted(unplaced)[-1:]]
    return [{**first[name, at], value: own / totals[name]} for name, places in sums.items() for at, own in places.items() if at is not None and 0 < totals[name] < math.inf], notes


def in_order(names: Sequence[str]) -> list[str]:
    """Names that differ in a number alone by this number, where the first of them stands."""
    stems: dict[str, int] = {}

    def key(name: str) -> tuple[int, list[tuple[int, str]]]:
        numbers = [digits.lstrip("0") for digits in re.findall("[0-9]+", name)]
        return stems.setdefault(re.sub("[0-9]+", "#", name), len(stems)), [(len(n), n) for n in numbers]

    return [name for _, name in sorted((key(name), name) for name in names)]


class _Builder:
    def __init__(self, plot: Plot, rows: list[dict[str, Any]], selected: list[str], notes: list[str], units: Mapping[str, str]) -> None:
        self.plot, self.rows, self.selected, self.notes, self.units = plot, rows, selected, notes, units
        self.empty: dict[str, list[str]] = {}          # cells without a number: the series of a panel
        self.seen: set[tuple[str, str, float]] = set()  # panels, series and places that have a point
        self.left: dict[str, Counter[str]] = {}        # of a panel: what has no point, by the reason
        self.by_value = plot.series is None            # each column of values is a series
        self.value_panels = plot.series is not None and plot.panels is None and len(plot.values) > 1

    def build(self) -> Chart:
        plot = self.plot
        names = [self._words(v) for v in plot.values] if self.by_value else self._distinct(plot.series or "", MOST_SERIES)
        panels = self._panel_names()
        categories = [] if plot.kind == "lines" else self._worst(MOST_CELLS) if plot.kind == "heatmap" else self._distinct(plot.along, MOST_ROWS)
        built = {title: Panel(title, [Series(name, i) for i, name in enumerate(names)]) for title in panels}
        for row in self.rows:
            for value in plot.values:
                for title in self._titles(row, value, panels):
                    self._add(row, value, title, built, names, categories)
        for title, panel in built.items():
            panel.guides = [(self._words(guide), self._guide(guide, title)) for guide in plot.guides]
        return self._chart(list(built.values()), names, categories)

    def _panel_names(self) -> list[str]:
        plot = self.plot
        if self.value_panels:
            return [self._words(v) for v in plot.values]
        if not plot.panels:
            return [""]
        named = [row for row in self.rows if row[plot.panels] not in NOWHERE] if plot.everywhere else []
        return self._distinct(plot.panels, MOST_PANELS, named or self.rows)

    def _titles(self, row: Mapping[str, Any], value: str, panels: Sequence[str]) -> Sequence[str]:
        """The panels of a row's value."""
        if self.plot.everywhere and row[self.plot.panels or ""] in NOWHERE:
            return panels
        return [self._words(value) if self.value_panels else name_of(row[self.plot.panels]) if self.plot.panels else ""]

    def _add(self, row: Mapping[str, Any], value: str, title: str, built: Mapping[str, Panel], names: Sequence[str],
             categories: list[str]) -> None:
        """A value's point, or why there is none."""
        plot = self.plot
        name = self._words(value) if self.by_value else name_of(row[plot.series or ""])
        at = self._place(row[plot.along], categories)
        if title not in built or name not in names or at is None:
            return
        left = self.left.setdefault(title, Counter())
        y = self._value(row, value)
        if y is None:
            self.empty.setdefault(title, []).append(name)
        elif math.isnan(y):
            left["NaN"] += 1
        elif (title, name, at) in self.seen:
            left["again"] += 1
        else:
            self.seen.add((title, name, at))
            limits = None if plot.kind == "heatmap" else plot.value_limits
            left["beyond"] += limits is not None and not limits[0] <= y <= limits[1]
            low, high = (numeric(row.get(c)) for c in plot.whiskers) if plot.whiskers else (None, None)
            built[title].series[names.index(name)].points.append(Point(at, y, low, high))

    def _chart(self, panels: list[Panel], names: list[str], categories: list[str]) -> Chart:
        plot = self.plot
        for panel in panels:
            panel.series = [s for s in panel.series if s.points]
            for series in panel.series:
                series.points.sort(key=lambda p: p.along)
        panels = self._uneven([panel for panel in panels if panel.series])
        self._mark_ends(panels)
        if not any((math.isfinite(p.value) or plot.exact and p.value > 0) and (p.value >= 0 or plot.value_scale in SIGNED) for panel in panels for s in panel.series for p in s.points):
            raise NoPicture(f"the table {plot.table} has no finite number that can be drawn" + (f" for {', '.join(self.selected)}" if self.selected else ""))
        for panel in panels:
            panel.notes += self._left_out(panel, self.left.get(panel.title, Counter()))
        if gone := {title: names for title, names in self.empty.items() if title not in {panel.title for panel in panels}}:
            self.notes.append(self._empty_note(gone))
        if plot.value_scale == "symlog":
            self.notes.append(f"the axis of values is linear up to ±{plain(plot.linear_to)} and logarithmic beyond")
        for panel in panels:
            panel.title = self._panel_title(panel.title)
        value_label = plot.value_label or (self._words(plot.values[0]) if len(plot.values) == 1 else "")
        units = set() if plot.added else {self.units.get(v, "") for v in plot.values}
        along = self._with_unit(plot.along_label or self._words(plot.along), {self.units.get(plot.along, "")})
        return Chart(plot, panels, names, [self._row_name(name) for name in categories], along,
                     self._with_unit(value_label, units), self.selected, self.notes,
                     next(iter(units)) if len(units) == 1 else "")

    def _uneven(self, panels: list[Panel]) -> list[Panel]:
        """The panels that show something, if the others are to be left out."""
        if not self.plot.uneven:
            return panels
        values = {panel.title: {p.value for s in panel.series for p in s.points} for panel in panels}
        even = {title: plain(next(iter(of))) for title, of in values.items() if len(of) == 1}
        if even:
            constant = (f"{title} ({value} everywhere)" for title, value in even.items())
            self.notes.append("not drawn: " + ", ".join(constant))
        if even and len(even) == len(panels):
            raise NoPicture("; ".join(self.notes))
        return [panel for panel in panels if panel.title not in even]

    def _mark_ends(self, panels: Sequence[Panel]) -> None:
        """Says why the lines of a panel end before those of others."""
        lasts = [max(p.along for s in panel.series for p in s.points) for panel in panels] if self.plot.ends else []
        for panel, last in zip(panels, lasts):
            if last < max(lasts):
                panel.end = last
                panel.notes.append(f"at {self._words(self.plot.along)} {plain(last)} {panel.title} ends: {self.plot.ends}")

    def _left_out(self, panel: Panel, left: Counter[str]) -> list[str]:
        """What of its rows a panel does not show."""
        notes = []
        if unseen := sum(p.value == -math.inf or p.value < 0 and self.plot.value_scale not in SIGNED for s in panel.series for p in s.points):
            notes.append(f"{counted(unseen, 'value')} not drawn: no place on this axis")
        if panel.title in self.empty:
            notes.append(self._empty_note({"": self.empty[panel.title]}))
        if left["NaN"]:
            notes.append(f"{counted(left['NaN'], 'value')} not drawn: NaN")
        if left["beyond"]:
            notes.append(f"{counted(left['beyond'], 'value')} beyond the axis, drawn at its end")
        if left["again"]:
            notes.append(f"{counted(left['again'], 'row')} with the same place left out: the first is drawn")
        return notes

    def _row_name(self, name: str) -> str:
        """A number has its unit; nothing says what it stands for."""
        unit = self.units.get(self.plot.along, "")
        if name == NO_NAME:
            return self.plot.unnamed_row or name
        if unit in ("", "1") or not A_NUMBER.fullmatch(name):
            return name
        return f"{name} {unit}" + ("s" if name != "1" else "")

    def _panel_title(self, title: str) -> str:
        """A number alone, or nothing, says what of."""
        if not self.plot.panels or not title:
            return title
        word = self.plot.panel_label or self._words(self.plot.panels)
        if title == NO_NAME:
            return self.plot.unnamed or f"no {word}"
        return f"{word} {title}" if A_NUMBER.fullmatch(title) else title

    def _empty_note(self, empty: Mapping[str, Sequence[str]]) -> str:
        """How many cells have no number, whose they are, and why."""
        number = sum(len(names) for names in empty.values())
        whose = "; ".join(f"{title + ': ' if title else ''}{', '.join(dict.fromkeys(names))}" for title, names in empty.items())
        return f"{counted(number, 'cell')} without a number left out ({whose})" + (f": {self.plot.empty}" if self.plot.empty else "")

    def _guide(self, guide: str, title: str) -> list[Point]:
        """The same for all series: of each place, the first row of the panel that has it."""
        points: dict[float, Point] = {}
        for row in self.rows:
            at, value = self._place(row[self.plot.along], []), numeric(row[guide])
            if at is not None and value is not None and math.isfinite(value) and title in ("", name_of(row[self.plot.panels or self.plot.along])):
                points.setdefault(at, Point(at, value))
        return sorted(points.values(), key=lambda p: p.along)

    def _place(self, value: Any, categories: list[str]) -> float | None:
        if self.plot.kind != "lines":
            return float(categories.index(name_of(value))) if name_of(value) in categories else None
        at = numeric(value)
        usable = at is not None and math.isfinite(at) and (self.plot.along_scale == "linear" or at > 0)
        return at if usable else None

    def _value(self, row: Mapping[str, Any], column: str) -> float | None:
        """A cell's number; infinity where the cell is empty because nothing was lost."""
        value = numeric(row[column])
        is_exact = self.plot.exact and row[column] is None and all(numeric(row[c]) == 0 for c in self.plot.exact if c in row)
        return math.inf if is_exact else value

    def _worst(self, most: int) -> list[str]:
        """The rows of a heat map: if they are too many, those whose mean colour is lowest."""
        (value,), (low, high) = self.plot.values, self.plot.value_limits or (-math.inf, math.inf)
        found: dict[str, list[float]] = {}
        for row in self.rows:
            own = self._value(row, value)
            found.setdefault(name_of(row[self.plot.along]), []).extend([] if own is None or math.isnan(own) else [min(max(own, low), high)])
        means = {name: sum(values) / len(values) if values else math.inf for name, values in found.items()}
        if len(means) > most:
            self.notes.append(f"the {most} of {len(means)} {self._words(self.plot.along)}s that lose most; the table has all")
        return in_order(sorted(means, key=lambda name: means[name])[:most] if len(means) > most else list(means))

    def _distinct(self, column: str, most: int, rows: Sequence[Mapping[str, Any]] | None = None) -> list[str]:
        values = list(dict.fromkeys(name_of(row[column]) for row in rows or self.rows))
        if len(values) > most:
            self.notes.append(f"the first {most} of {len(values)} values of {self._words(column)}; the table has all")
        return values[:most]

    def _words(self, column: str) -> str:
        return column.replace("_", " ")

    @staticmethod
    def _with_unit(label: str, units: set[str]) -> str:
        unit = next(iter(units)) if len(units) == 1 else ""
        says_it = {unit.lower(), unit.lower() + "s"} & set(label.lower().split()) or label.endswith(")")
        return label if unit in ("", "1") or not label or says_it else f"{label} ({unit})"


def described(panel: Panel, chart: Chart) -> str:
    """A panel in words, made from its points, for readers who cannot see it."""
    plot = chart.plot
    if plot.kind == "heatmap":
        rows, columns = (counted(n, (word or "column").replace("_", " ")) for n, word in ((len(rows_in(panel)), plot.along), (len(panel.series), plot.series)))
        kind = f"Heat map of {chart.value_label or 'values'}: {rows} in {columns}."
        return " ".join([kind, *(_cells(series, chart) for series in panel.series)])
    if plot.kind == "lines":
        kind = f"Line chart of {chart.value_label or 'values'} against {chart.along_label}."
    else:
        kind = f"{'Stacked bars' if plot.kind == 'stacked' else 'Dot plot'} of {chart.value_label or 'values'} for each {plot.along.replace('_', ' ')}."
    below = f" Below, the ranges of formats: {', '.join(f'{name} from {plain(normal)} to {plain(most)}, subnormal from {plain(least)}' for name, least, normal, most in plot.ranges)}." if plot.ranges else ""
    return " ".join([kind, *(_course(series, chart) for series in panel.series)]) + below


def rows_in(panel: Panel) -> list[float]:
    """The rows that a panel draws."""
    return sorted({p.along for s in panel.series for p in s.points})


def _cells(series: Series, chart: Chart) -> str:
    """A column of a heat map: how many cells are exact, and the ends of the others."""
    found = sorted((p.value, p.along) for p in series.points if math.isfinite(p.value))
    exact = sum(p.value == math.inf for p in series.points)
    said = [f"exact in {exact} of {counted(len(series.points), 'row')}"] if exact else []
    ends = (("least ", found[0]), ("most ", found[-1])) if len(found) > 1 else (("", found[0]),) if found else ()
    said += [f"{word}{plain(float(f'{value:.4g}'))} at {chart.rows[int(along)]}" for word, (value, along) in ends]
    return f"{series.name}: {', '.join(said)}."


def _course(series: Series, chart: Chart) -> str:
    points: Sequence[Point] = series.points

    def place(p: Point) -> str:
        return chart.rows[int(p.along)] if chart.rows else plain(p.along)

    least, most = min(points, key=lambda p: p.value), max(points, key=lambda p: p.value)
    if len(points) == 1 or least.value == most.value:
        return f"{series.name}: {plain(least.value)} at {place(points[0])}" + (f" to {place(points[-1])}." if len(points) > 1 else ".")
    if chart.rows:
        return f"{series.name}: least {plain(least.value)} at {place(least)}, most {plain(most.value)} at {place(most)}."
    ends = f"{series.name}: from {plain(points[0].value)} at {place(points[0])} to {plain(points[-1].value)} at {place(points[-1])}"
    return ends + ("." if most in (points[0], points[-1]) else f", most {plain(most.value)} at {place(most)}.")
