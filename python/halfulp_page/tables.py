"""A report's tables for the page, and the differences between two reports' tables."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Sequence

from .text import Cell, cell, plain


@dataclass(frozen=True)
class Column:
    name: str
    unit: str
    description: str
    is_number: bool

    @property
    def heading(self) -> str:
        return self.name.replace("_", " ")


@dataclass(frozen=True)
class Table:
    name: str
    title: str
    columns: list[Column]
    rows: list[list[Cell]]  # the first `limit` of them
    total: int


def table_of(name: str, table: Mapping[str, Any], limit: int) -> Table:
    """A table with at most `limit` rows; 0: all. Drops cells without a column and leaves columns without a cell
    empty."""
    rows = table.get("rows") or []
    shown = [[cell(value) for value in _fitted(row, len(table["columns"]))] for row in (rows[:limit] if limit else rows)]
    columns = [Column(plain(c.get("name")), plain(c.get("unit", "")), plain(c.get("description", "")), _numbers(shown, i)) for i, c in enumerate(table["columns"])]
    return Table(name, plain(table.get("title", name)), columns, shown, len(rows))


def _fitted(row: Sequence[Any], width: int) -> list[Any]:
    return [*row[:width], *[None] * (width - len(row))]


def _numbers(rows: Sequence[Sequence[Cell]], i: int) -> bool:
    kinds = {row[i].kind for row in rows} - {"none"}
    return kinds == {"number"}


@dataclass(frozen=True)
class Pair:
    """A cell of two reports' tables."""
    first: Cell
    second: Cell

    @property
    def differs(self) -> bool:
        return self.first != self.second


@dataclass(frozen=True)
class Difference:
    """The differences between two reports' tables, with rows matched by their first `keys` columns."""
    name: str
    title: str
    columns: list[Column]
    rows: list[list[Pair]]  # rows that differ, the first `limit`
    differing: int
    compared: int
    only_first: int
    only_second: int
    other_columns: str  # why rows cannot be compared; empty if they can be

    @property
    def is_same(self) -> bool:
        return not (self.differing or self.only_first or self.only_second or self.other_columns)


def difference(name: str, first: Mapping[str, Any] | None, second: Mapping[str, Any] | None, limit: int) -> Difference:
    """Rows are matched by the fewest leading columns that identify all rows of each table, so that tables of different
    sizes can be compared."""
    table = first or second or {}
    width = len(table["columns"])
    columns = table_of(name, table, limit).columns
    why = ""
    if first is None or second is None:
        why = f"only in {'the first' if second is None else 'the second'} report"
    elif [c.get("name") for c in first["columns"]] != [c.get("name") for c in second["columns"]]:
        why = "the columns are others"
    if why or first is None or second is None:
        return Difference(name, plain(table.get("title", name)), columns, [], 0, 0, 0, 0, why)
    a, b = ([_fitted(row, width) for row in t.get("rows") or []] for t in (first, second))
    keys = next((n for n in range(1, width) if _distinct(a, n) and _distinct(b, n)), 0)
    in_b = {_key(row, keys, i): row for i, row in enumerate(b)}
    matched = [(row, in_b[key]) for i, row in enumerate(a) if (key := _key(row, keys, i)) in in_b]
    pairs = [[Pair(cell(x), cell(y)) for x, y in zip(row, other)] for row, other in matched if row != other]
    return Difference(name, plain(first.get("title", name)), columns, pairs[:limit] if limit else pairs, len(pairs), len(matched), len(a) - len(matched), len(b) - len(matched), "")


def _key(row: Sequence[Any], keys: int, number: int) -> str:
    """A row's key: its first cells, or its place where these do not identify rows."""
    return repr(row[:keys]) if keys else str(number)


def _distinct(rows: Sequence[Sequence[Any]], keys: int) -> bool:
    return len({_key(row, keys, 0) for row in rows}) == len(rows)
