"""What the modules beside this file say about the columns of a report, and how it is held against the report.

Every column that holds a number is recomputed by a module named after the experiment, or given by the configuration, or
named there with the reason why no second route exists. A column that the module does not name is an error; so is one
that it names and the report lacks. What recomputes a column does not see it: the rows that it is handed lack the
columns it answers for.
"""
from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True)
class Near:
    """A number that is known up to rounding errors of the two routes."""

    value: float
    relative: float = 1e-9
    absolute: float = 0.0

    def accepts(self, cell: Any) -> bool:
        value = number(cell)
        if value is None or not math.isfinite(value) or not math.isfinite(self.value):
            return value is not None and (value == self.value or (math.isnan(value) and math.isnan(self.value)))
        return abs(value - self.value) <= self.absolute + self.relative * abs(self.value)


def number(cell: Any) -> float | None:
    """A cell as a number: reports write infinities and NaNs as text, and code words with their values."""
    if isinstance(cell, dict):
        return number(cell.get("value"))
    if isinstance(cell, bool) or cell is None:
        return None
    if isinstance(cell, str):
        return {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}.get(cell)
    return float(cell)


def real(cell: Any) -> float:
    """A cell that holds a number."""
    value = number(cell)
    if value is None:
        raise ValueError(f"{cell} is no number")
    return value


def agrees(expected: Any, cell: Any) -> bool:
    if isinstance(expected, Near):
        return expected.accepts(cell)
    if expected is None or isinstance(expected, (str, bool)):
        return bool(cell == expected)
    value = number(cell)
    return value is not None and (value == float(expected) or (math.isnan(value) and math.isnan(float(expected))))


class Report:
    """A report with rows as dictionaries."""

    def __init__(self, text: dict[str, Any]) -> None:
        self.experiment: str = text["experiment"]
        self.config: dict[str, Any] = text["config"]
        self.columns = {name: [c["name"] for c in t["columns"]] for name, t in text["results"].items()}
        self.tables: dict[str, list[Row]] = {
            name: [dict(zip(self.columns[name], row)) for row in t["rows"]] for name, t in text["results"].items()}

    def numeric(self, table: str, column: str) -> bool:
        return any(number(row[column]) is not None for row in self.tables[table])


@dataclass(frozen=True)
class Check:
    table: str
    columns: tuple[str, ...]
    route: str
    rows: int | None
    function: Callable[[Report, Row], Row | None]


@dataclass
class Columns:
    """What one module says of the columns of one experiment's report."""

    checks: list[Check] = field(default_factory=list)
    givens: dict[str, set[str]] = field(default_factory=dict)
    reasons: dict[tuple[str, str], str] = field(default_factory=dict)

    def recompute(self, table: str, columns: str, route: str, rows: int | None = None) -> Callable[..., Any]:
        """function(report, row) -> {column: number or Near} for columns ("a b c") of a table.

        `route` says in a few words how, for the documentation. rows: as many, drawn at random; None: all. The row lacks
        these columns. A function may leave a column out of its answer, or return None for a row of which it says
        nothing, but not for every row.
        """

        def keep(function: Callable[[Report, Row], Row | None]) -> Callable[[Report, Row], Row | None]:
            self.checks.append(Check(table, tuple(columns.split()), route, rows, function))
            return function

        return keep

    def given(self, table: str, columns: str) -> None:
        """Columns that repeat the configuration or number the rows: what the other columns are about."""
        self.givens.setdefault(table, set()).update(columns.split())

    def without(self, table: str, columns: str, reason: str) -> None:
        """Columns that no second route recomputes, and why."""
        for column in columns.split():
            self.reasons[table, column] = reason


def differences(report: Report, check: Check) -> Iterable[str]:
    """One line for each cell that differs, one if nothing was compared, one for a tolerance that accepts anything."""
    rows = report.tables.get(check.table, [])  # a table that is not there is reported by unaccounted()
    if check.rows is not None and len(rows) > check.rows:
        rows = random.Random(len(rows)).sample(rows, len(rows))
    compared, answered = dict.fromkeys(check.columns, 0), 0
    for row in rows:
        if check.rows is not None and answered >= check.rows and all(compared.values()):
            break
        shown = {name: cell for name, cell in row.items() if name not in check.columns}
        try:
            expected = check.function(report, shown)
        except KeyError as missing:
            yield f"{report.experiment}, {check.table}.{' '.join(check.columns)}: the report lacks {missing}"
            return
        answered += expected is not None
        for column, value in (expected or {}).items():
            compared[column] += 1
            if column not in row:
                continue  # unaccounted() says so
            if not agrees(value, row[column]):
                yield f"{report.experiment}, {check.table}.{column} of {shown}: {row[column]}, recomputed {value}"
            cell = number(row[column])
            if cell and math.isfinite(cell) and agrees(value, cell * 1.02):
                yield f"{report.experiment}, {check.table}.{column} of {shown}: 2 % more than {cell} would pass too"
    for column, count in compared.items():
        if rows and not count and column in rows[0] and report.numeric(check.table, column):
            yield f"{report.experiment}, {check.table}.{column}: no row was recomputed"


def unaccounted(report: Report, columns: Columns) -> Iterable[str]:
    named: dict[str, list[str]] = {}
    for check in columns.checks:
        named.setdefault(check.table, []).extend(check.columns)
    for table, names in columns.givens.items():
        named.setdefault(table, []).extend(names)
    for table, name in columns.reasons:
        named.setdefault(table, []).append(name)
    for table in {**report.columns, **named}:
        have, said = report.columns.get(table, []), named.get(table, [])
        for name in said:
            if name not in have:
                yield f"{report.experiment}, {table}.{name}: named, and the report has no such column"
            if said.count(name) > 1 and not sum(name in c.columns for c in columns.checks if c.table == table) > 1:
                yield f"{report.experiment}, {table}.{name}: named twice"
        for name in have:
            if name not in said and report.numeric(table, name):
                yield f"{report.experiment}, {table}.{name}: holds numbers, and nothing says how to recompute them"


def listing(report: Report, columns: Columns) -> Iterable[str]:
    """Rows of the documentation's table."""
    for table in report.columns:
        routes: dict[str, list[str]] = {}
        for check in columns.checks:
            if check.table == table:
                rows = "every row" if check.rows is None else f"{check.rows} rows"
                routes.setdefault(f"{check.route}; {rows}", []).extend(f"`{c}`" for c in check.columns)
        for (named, column), reason in columns.reasons.items():
            if named == table:
                routes.setdefault(f"**none**: {reason}", []).append(f"`{column}`")
        for route, names in routes.items():
            yield f"| {report.experiment} | {table} | {', '.join(dict.fromkeys(names))} | {route} |"
