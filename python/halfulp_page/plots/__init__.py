"""Pictures of experiments. gradients.py, sums.py, trainings.py and networks.py say what is drawn of which table;
scenes.py draws what these descriptions cannot say."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Sequence

from . import draw, gradients, networks, sums, trainings
from .select import Chart, NoPicture, chart, rows_of
from .spec import Plot, Scene

PLOTS: Mapping[str, Sequence[Plot | Scene]] = {**gradients.PLOTS, **sums.PLOTS, **trainings.PLOTS, **networks.PLOTS}


@dataclass(frozen=True)
class Drawn:
    """One report's part of a picture."""
    label: str                        # which report; empty if there is one
    panels: list[draw.Drawing]
    selected: list[str]
    notes: list[str]
    why_not: str                      # why there is no picture; empty if there is one


@dataclass(frozen=True)
class Picture:
    title: str
    table: str
    reading: str
    series: str  # the column whose values the legend lists; empty if it lists columns
    legend: list[tuple[str, str]]
    parts: list[Drawn]
    first: bool  # it stands on the overview of a folder


def pictures(experiment: str, results: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> list[Picture]:
    """An experiment's pictures, of one report or of two with the same axes."""
    return [(_scene if isinstance(plot, Scene) else _picture)(plot, results, labels, f"p-{experiment}-{i}")  # type: ignore[operator]
            for i, plot in enumerate(PLOTS.get(experiment, ()))]


def _scene(scene: Scene, results: Sequence[Mapping[str, Any]], labels: Sequence[str], prefix: str) -> Picture:
    parts = []
    for i, (tables, label) in enumerate(zip(results, labels)):
        try:
            frames = scene.frames(*(rows_of(tables, name) for name in scene.tables))
            parts.append(Drawn(label, draw.frames(frames, f"{prefix}-{i}", scene.title), [], [], ""))
        except NoPicture as why:
            parts.append(Drawn(label, [], [], [], str(why)))
        except (KeyError, IndexError, TypeError, ValueError, OverflowError):  # a table of another program or revision
            parts.append(Drawn(label, [], [], [], f"the table{'' if len(scene.tables) == 1 else 's'} {', '.join(scene.tables)} cannot be drawn"))
    return Picture(scene.title, scene.tables[0], scene.reading, "", [], parts, scene.first)


def _picture(plot: Plot, results: Sequence[Mapping[str, Any]], labels: Sequence[str], prefix: str) -> Picture:
    charts: list[Chart | NoPicture] = []
    for tables in results:
        try:
            charts.append(chart(plot, tables))
        except NoPicture as why:
            charts.append(why)
    there = [c for c in charts if isinstance(c, Chart)]
    _same_styles(there)
    parts = [Drawn(label, draw.panels(c, f"{prefix}-{i}", there), c.selected, c.notes, "") if isinstance(c, Chart) else Drawn(label, [], [], [], str(c))
             for i, (c, label) in enumerate(zip(charts, labels))]
    legend = draw.legend(there[0], prefix) if there else []
    if len(there) == 2:
        legend += [entry for entry in draw.legend(there[1], f"{prefix}-b") if entry[0] not in dict(legend)]
    return Picture(plot.title, plot.table, plot.reading, (plot.series or "").replace("_", " "), legend if len(legend) > 1 or plot.series else [], parts, plot.first)


def _same_styles(charts: Sequence[Chart]) -> None:
    """A series of two reports looks the same in both."""
    names = list(dict.fromkeys(name for c in charts for name in c.names))
    for c in charts:
        for panel in c.panels:
            for series in panel.series:
                series.style = names.index(series.name)
        c.names = names
