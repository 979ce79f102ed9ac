"""Verdicts: their words, symbols and counts. The claims of one report, or of two side by side."""
from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Iterable, Mapping, Sequence

from .text import NOTHING, Cell, cell, plain


@dataclass(frozen=True)
class Verdict:
    name: str    # in reports, and the CSS class
    word: str    # in tables
    symbol: str  # next to the word, so that colour is never the only sign
    what: str    # in the legend


VERDICTS = {v.name: v for v in (
    Verdict("pass", "held", "✓", "the measurement confirms it"),
    Verdict("fail", "failed", "✗", "it follows from format or model, and does not come out"),
    Verdict("differs", "differs", "≠", "a published or expected figure that the measurement does not reproduce"),
    Verdict("skipped", "skipped", "○", "not decided: this configuration or machine cannot test it, there was nothing to repair, or the difference is in doubt"))}


def verdict(name: Any) -> Verdict:
    return VERDICTS.get(str(name)) or Verdict("skipped", str(name), "?", "")


@dataclass(frozen=True)
class Claim:
    id: str
    verdict: Verdict
    statement: str
    source: str
    expected: Cell
    tolerance: str
    measured: Cell
    independence: str
    reason: str


def claims_of(report: Mapping[str, Any]) -> list[Claim]:
    """A report's claims, the failed ones first."""
    order = ["fail", "differs", "skipped", "pass"]
    claims = [Claim(plain(c.get("id")), verdict(c.get("verdict")), plain(c.get("statement")), plain(c.get("source")), cell(c.get("expected")), plain(c.get("tolerance")),
                    cell(c.get("measured")), plain(c.get("independence")), "" if c.get("reason") is None else plain(c["reason"]))
              for c in report["claims"] if isinstance(c, Mapping)]
    return sorted(claims, key=lambda c: order.index(c.verdict.name) if c.verdict.name in order else 0)


def counts(reports: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """The number of claims with each verdict, for all four verdicts."""
    found = Counter(str(c.get("verdict")) for report in reports for c in report["claims"] if isinstance(c, Mapping))
    return {name: found[name] for name in VERDICTS}


@dataclass(frozen=True)
class Beside:
    """A claim of two reports; None where a report lacks it."""
    id: str
    statement: str
    first: Claim | None
    second: Claim | None

    @property
    def differs(self) -> bool:
        return self.first is None or self.second is None or (self.first.verdict, self.first.measured, self.first.expected) != (
            self.second.verdict, self.second.measured, self.second.expected)


def beside(first: Sequence[Claim], second: Sequence[Claim]) -> list[Beside]:
    """Claims by id, those that differ first."""
    a, b = {c.id: c for c in first}, {c.id: c for c in second}
    rows = [Beside(id, (a.get(id) or b[id]).statement, a.get(id), b.get(id)) for id in dict.fromkeys([*a, *b])]
    return sorted(rows, key=lambda row: not row.differs)


__all__ = ["NOTHING", "VERDICTS", "Beside", "Claim", "Verdict", "beside", "claims_of", "counts", "verdict"]
