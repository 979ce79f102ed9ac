"""Pictures of experiments. gradients.py, sums.py, trainings.py and networks.py say what is drawn of which table;
scenes.py draws what these descriptions cannot say."""
from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any, Mapping, Sequence

from ..text import plain, sentence
from . import draw, gradients, networks, sums, trainings
from .saved import standalone
from .select import Chart, NoPicture, chart, rows_of
from .spec import Plot, Scene

PLOTS: Mapping[str, Sequence[Plot | Scene]] = {**gradients.PLOTS, **sums.PLOTS, **trainings.PLOTS, **networks.PLOTS}


@dataclass(frozen=True)
class Drawn:
    """One report's part of a picture."""
    label: str                        # which report; empty if there is one
    panels: list[draw.Drawing]
    selected: list[str]
    notes: list[str]                  # on all panels
    why_not: str                      # why there is no picture; empty if there is one
    files: list[str] = field(default_factory=list)  # names of the panels' files, without an ending

    def said(self, table: str, panel: draw.Drawing | None = None) -> str:
        """What of the table is drawn, and what is not, in sentences: of all panels, or of one."""
        selected = f"Drawn of the table {table}: {', '.join(self.selected)}. " if self.selected else ""
        pale = RIBBONS if (panel.has_ribbon if panel else any(p.has_ribbon for p in self.panels)) else ""
        return (selected + _sentence([*self.notes, *(self.own(panel) if panel else self.own(self.panels[0]) if len(self.panels) == 1 else [])]) + pale).strip()

    def own(self, panel: draw.Drawing) -> list[str]:
        """Notes on one panel alone."""
        return [note for note in panel.notes if note not in self.notes]

    def below(self, panel: draw.Drawing) -> str:
        """The same in sentences, where the panel is one of several."""
        return _sentence(self.own(panel)).strip() if len(self.panels) > 1 else ""


RIBBONS = "A pale wide line: another runs over it, with the same values. "


def _sentence(notes: Sequence[str]) -> str:
    return f"{sentence('; '.join(notes))}. " if notes else ""


@dataclass(frozen=True)
class Picture:
    experiment: str
    title: str
    table: str
    reading: str
    series: str  # the column whose values the legend lists; empty if it lists columns
    legend: list[tuple[str, str]]
    parts: list[Drawn]
    first: bool  # it stands on the overview of a folder

    def save(self, part: Drawn) -> None:
        """Draws the part's panels as files of their own, too, with all that the page has around them."""
        part.panels[:] = [replace(panel, saved=self._file(part, panel), wide=None) for panel in part.panels]

    def _file(self, part: Drawn, panel: draw.Drawing) -> str:
        assert panel.wide
        name = ", ".join(word for word in (panel.title, f"report {part.label}" if part.label else "") if word)
        source = f"halfulp, experiment {self.experiment}, table {self.table}."
        return standalone(panel.wide, self.title, name, panel.legend if self.legend else [], self.series, " ".join(word for word in (self.reading, part.said(self.table, panel), source) if word))


@dataclass(frozen=True)
class _Reports:
    """The reports of an experiment, one or two, as pictures need them."""
    experiment: str
    results: Sequence[Mapping[str, Any]]
    configs: Sequence[Mapping[str, Any]]
    labels: Sequence[str]

    def title(self, of: str) -> str:
        """A title with parameters of the reports in place of their {names}; one that no report has is `all`."""
        def value(name: str) -> str:
            return " and ".join(dict.fromkeys(plain(config[name]) for config in self.configs if name in config)) or "all"
        return re.sub(r"{(\w+)}", lambda m: value(m[1]), of)


def pictures(experiment: str, results: Sequence[Mapping[str, Any]], configs: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> list[Picture]:
    """An experiment's pictures, of one report or of two with the same axes. They can be pickled."""
    reports = _Reports(experiment, results, configs, labels)
    found: list[Picture] = []
    used: set[str] = set()
    for i, plot in enumerate(PLOTS.get(experiment, ())):
        prefix = f"p-{experiment}-{i}"
        found.append(_scene(plot, reports, prefix) if isinstance(plot, Scene) else _picture(plot, reports, prefix))
        for part in found[-1].parts:
            part.files.extend(_file_name(used, experiment, plot.file or found[-1].table, panel.key, part.label) for panel in part.panels)
            found[-1].save(part)
    return found


def _file_name(used: set[str], *words: str) -> str:
    """Words as a name that every file system takes, and that no other has, not even in capitals."""
    cut = (re.sub(r"[^a-z0-9._]+", "-", word.lower()).strip("-.")[:60] for word in words)
    name = "-".join(word for word in cut if word)
    name = next(n for i in range(len(used) + 1) if (n := f"{name}-{i + 1}" if i else name) not in used)
    used.add(name)
    return name


def _scene(scene: Scene, reports: _Reports, prefix: str) -> Picture:
    parts = []
    shown: list[tuple[str, Mapping[str, Any]]] = []
    title = reports.title(scene.title)
    for i, (tables, label) in enumerate(zip(reports.results, reports.labels)):
        try:
            frames = scene.frames(*(rows_of(tables, name) for name in scene.tables))
            notes = [note for note in dict.fromkeys(note for frame in frames for note in frame.notes) if all(note in frame.notes for frame in frames)]
            entries = [entry for entry in scene.legend if any(entry[0] not in frame.without for frame in frames)]
            shown += [entry for entry in entries if entry not in shown]
            parts.append(Drawn(label, draw.frames(frames, f"{prefix}-{i}", title, entries), [], notes, ""))
        except NoPicture as why:
            parts.append(Drawn(label, [], [], [], str(why)))
        except (KeyError, IndexError, TypeError, ValueError, OverflowError):  # a table of another program or revision
            parts.append(Drawn(label, [], [], [], f"the table{'' if len(scene.tables) == 1 else 's'} {', '.join(scene.tables)} cannot be drawn"))
    legend = draw.marks(shown, prefix) if any(part.panels for part in parts) else []
    return Picture(reports.experiment, title, scene.tables[0], scene.reading, "", legend, parts, scene.first)


def _picture(plot: Plot, reports: _Reports, prefix: str) -> Picture:
    charts: list[Chart | NoPicture] = []
    title = reports.title(plot.title)
    for tables in reports.results:
        try:
            charts.append(chart(plot, tables))
        except NoPicture as why:
            charts.append(why)
    there = [c for c in charts if isinstance(c, Chart)]
    _same_styles(there)
    parts = [Drawn(label, draw.panels(c, f"{prefix}-{i}", title, there), c.selected, c.notes, "") if isinstance(c, Chart) else Drawn(label, [], [], [], str(c))
             for i, (c, label) in enumerate(zip(charts, reports.labels))]
    legend = draw.legend(there[0], prefix) if there else []
    if len(there) == 2:
        legend += [entry for entry in draw.legend(there[1], f"{prefix}-b") if entry[0] not in dict(legend)]
    return Picture(reports.experiment, title, plot.table, plot.reading, there[0].value_label if plot.kind == "heatmap" and there else (plot.series or "").replace("_", " "), legend if len(legend) > 1 or plot.series else [], parts, plot.first)


def _same_styles(charts: Sequence[Chart]) -> None:
    """A series of two reports looks the same in both."""
    names = list(dict.fromkeys(name for c in charts for name in c.names))
    for c in charts:
        for panel in c.panels:
            for series in panel.series:
                series.style = names.index(series.name)
        c.names = names
