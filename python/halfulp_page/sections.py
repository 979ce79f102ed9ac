"""One experiment's section: what the template shows of a report, or of two side by side."""
from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any, Mapping, Sequence

from .backends import Backend, backends_of
from .claims import Beside, Claim, beside, claims_of, counts
from .inputs import Source
from .plots import Picture, pictures
from .tables import Difference, Table, difference, table_of
from .text import plain, shell_word

LABELS = ("A", "B")


@dataclass(frozen=True)
class About:
    """What is known about an experiment without its report: `halfulp list --json`."""
    question: str = ""
    retells: bool = False  # its claims are about other experiments' claims


@dataclass(frozen=True)
class Side:
    """A section's report."""
    label: str  # A or B; empty if the section has only one
    file: str   # its name, with the folder where both have the same name
    title: str
    finding: str  # empty if the report has none
    status: str
    counts: dict[str, int]
    claims: list[Claim]
    backends: list[Backend]
    environment: list[tuple[str, str]]
    config: list[tuple[str, str]]
    command: str
    program: str

    @property
    def again(self) -> str:
        """The report's file as typed in a shell."""
        return shlex.quote(self.file)

    @property
    def input(self) -> str:
        """The user's own input data, if the experiment got any."""
        return dict(self.config).get("input", "")


@dataclass(frozen=True)
class Section:
    id: str
    name: str
    about: About
    sides: list[Side]
    pictures: list[Picture]
    tables: list[Table]                  # of one report
    differences: list[Difference]        # of two
    beside: list[Beside]
    changed_config: list[tuple[str, str, str]]
    changed_environment: list[tuple[str, str, str]]

    @property
    def is_pair(self) -> bool:
        return len(self.sides) == 2

    @property
    def title(self) -> str:
        return self.sides[0].title

    @property
    def same_results(self) -> bool:
        return all(d.is_same for d in self.differences)


def section(sources: Sequence[Source], about: About, limit: int) -> Section:
    reports = [source.report for source in sources]
    labels = LABELS if len(sources) == 2 else ("",)
    names = [source.name for source in sources]
    if len(set(names)) < len(names):
        names = [source.file for source in sources]
    sides = [_side(*side) for side in zip(sources, names, labels)]
    name = sources[0].experiment
    tables = [r["results"] for r in reports]
    pair = len(sources) == 2
    return Section(f"e-{name}", name, about, sides, pictures(name, tables, [r["config"] for r in reports], labels), [] if pair else [table_of(n, t, limit) for n, t in tables[0].items()],
                   [difference(n, tables[0].get(n), tables[1].get(n), limit) for n in dict.fromkeys([*tables[0], *tables[1]])] if pair else [],
                   beside(sides[0].claims, sides[1].claims) if pair else [],
                   _changed(sides[0].config, sides[1].config) if pair else [], _changed(sides[0].environment, sides[1].environment) if pair else [])


def _side(source: Source, file: str, label: str) -> Side:
    r = source.report
    return Side(label, file, str(r["title"]), str(r.get("finding") or ""), str(r["status"]), counts([r]), claims_of(r), backends_of(r), environment(r["environment"]),
                [(str(name), plain(value)) for name, value in r["config"].items()], command(r), program(r))


# Kinds of report that commands of their own make, with the parameters that are words of the command line.
_COMMANDS: dict[str, tuple[str, tuple[str, ...]]] = {"checkpoint": ("inspect", ("checkpoint",)), "checkpoint_choice": ("choose", ("checkpoint",)),
                                                     "checkpoint_quantized": ("quantize", ("checkpoint",)), "checkpoint_difference": ("diff", ("checkpoint", "against"))}


def program(report: Mapping[str, Any]) -> str:
    """The command of that kind of report."""
    return "halfulp " + (_COMMANDS[report["experiment"]][0] if report["experiment"] in _COMMANDS else f"run {report['experiment']}")


def command(report: Mapping[str, Any]) -> str:
    """The command that makes the report's results again on any machine: every parameter as it was."""
    words = _COMMANDS.get(report["experiment"], ("", ()))[1]
    settings = [f"--set {shlex.quote(f'{name}={shell_word(value)}')}" for name, value in report["config"].items() if value != "" and name not in words]
    return " \\\n  ".join([" ".join([program(report), *(shlex.quote(str(report["config"][name])) for name in words if name in report["config"])]), *settings])


def environment(entries: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Without the backends, which have a table of their own."""
    rows = [(name.replace("_", " "), plain(value)) for name, value in entries.items() if name not in ("backends", "dirty")]
    if entries.get("dirty"):
        rows = [(n, f"{v}, and changes that are not in it" if n == "revision" else v) for n, v in rows]
    return rows


def _changed(first: Sequence[tuple[str, str]], second: Sequence[tuple[str, str]]) -> list[tuple[str, str, str]]:
    a, b = dict(first), dict(second)
    return [(name, a.get(name, ""), b.get(name, "")) for name in dict.fromkeys([*a, *b]) if a.get(name) != b.get(name)]
