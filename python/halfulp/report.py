"""An experiment's report as a Python object."""
from __future__ import annotations

import contextlib
import json
import os
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Mapping

from ._command import Text, file_of, options, path, text, word

if TYPE_CHECKING:
    import pandas

_NUMBERS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


class Report(dict[str, Any]):
    """A report: the members of report/schema.json as a dict, with shortcuts to them.

    report["results"][TABLE] has columns (name, unit, description) and rows; report.frame(TABLE) is that table for pandas.
    """

    @property
    def status(self) -> str:
        """"pass", or "fail" if a claim fails or a comparison with a device differs."""
        return str(self["status"])

    @property
    def claims(self) -> list[dict[str, Any]]:
        """The claims, each with id, statement, source, expected, tolerance, measured, verdict, reason, independence."""
        claims: list[dict[str, Any]] = self["claims"]
        return claims

    @property
    def config(self) -> dict[str, Any]:
        """Every parameter and its value: enough to run the experiment again."""
        config: dict[str, Any] = self["config"]
        return config

    @property
    def names(self) -> list[str]:
        """The names of the tables."""
        return list(self["results"])

    @property
    def tables(self) -> dict[str, pandas.DataFrame]:
        """All tables as DataFrames, by name."""
        return {name: self.frame(name) for name in self.names}

    def columns(self, table: str) -> list[dict[str, str]]:
        """The name, unit and description of each column of a table."""
        columns: list[dict[str, str]] = self._table(table)["columns"]
        return columns

    def rows(self, table: str) -> list[dict[str, Any]]:
        """A table's rows as dicts by column: numbers (NaN and infinities too), text, None for an empty cell. A value of
        an emulated format comes as a number, with its code word under the column's name plus _code."""
        return [_row(self.columns(table), cells) for cells in self._table(table)["rows"]]

    def frame(self, table: str) -> pandas.DataFrame:
        """A table as a pandas.DataFrame. Its attrs hold the columns' units and descriptions. Raises ValueError for an
        unknown name and ImportError without pandas."""
        rows = self.rows(table)
        try:
            import pandas
        except ImportError as why:
            raise ImportError("frame() needs the package pandas; rows() does not") from why
        frame = pandas.DataFrame(rows)
        frame.attrs = {"title": self._table(table)["title"], "units": {c["name"]: c["unit"] for c in self.columns(table)},
                       "descriptions": {c["name"]: c["description"] for c in self.columns(table)}}
        return frame

    def show(self, table: str | None = None, **selected: Any) -> Text:
        """A table, or the list of tables, as text: `halfulp show` with its options columns, where, csv."""
        return show(self, table, **selected)

    def save(self, file: str | os.PathLike[str]) -> None:
        """Writes the report as JSON that `halfulp` reads. An existing file is replaced only once the new one is
        whole."""
        content = (json.dumps(self, indent=2) + "\n").encode()
        target = os.path.realpath(file)
        if os.path.exists(target) and not os.path.isfile(target):  # a pipe, a terminal
            Path(target).write_bytes(content)
            return
        part = f"{target}.{os.getpid()}-{threading.get_ident()}.part"
        try:
            Path(part).write_bytes(content)
            if os.path.exists(target):
                shutil.copymode(target, part)
            os.replace(part, target)
        except BaseException as why:
            with contextlib.suppress(OSError):
                os.unlink(part)
            if isinstance(why, OSError) and why.filename == part:  # the caller knows no such file
                raise type(why)(why.errno, why.strerror, os.fspath(file)) from None
            raise

    def _table(self, name: str) -> dict[str, Any]:
        if name == "claims" and name not in self["results"]:
            keys = list(dict.fromkeys(key for claim in self.claims for key in claim))
            return {"title": "Claims, and what was measured", "columns": [{"name": key, "unit": "", "description": ""} for key in keys],
                    "rows": [[_cell(claim.get(key)) for key in keys] for claim in self.claims]}
        if name not in self["results"]:
            raise ValueError(f"unknown table {name!r}; accepted: {', '.join(self.names)}")
        table: dict[str, Any] = self["results"][name]
        return table

    def __repr__(self) -> str:
        if not {"experiment", "status", "claims", "results"} <= self.keys():
            return f"Report({dict.__repr__(self)})"
        verdicts = [claim["verdict"] for claim in self.claims]
        counts = ", ".join(f"{verdicts.count(v)} {v}" for v in ("pass", "fail", "differs", "skipped") if v in verdicts)
        return f"<Report of {self['experiment']}: {self.status}; claims: {counts}; tables: {', '.join(self.names)}>"


def _row(columns: list[dict[str, str]], cells: list[Any]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for column, cell in zip(columns, cells):
        name = column["name"]
        if isinstance(cell, dict):
            row[name], row[name + "_code"] = _number(cell["value"]), cell["code"]
        else:
            row[name] = _number(cell)
    return row


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, (dict, list)) else value


def _number(cell: Any) -> Any:
    return _NUMBERS.get(cell, cell) if isinstance(cell, str) else cell


def load_report(file: str | os.PathLike[str]) -> Report:
    """Reads a report from a file. Raises ValueError if the file holds no valid report."""
    name = path(file, "file")
    answer = text(["validate", name])
    if answer.status:
        raise ValueError(answer.splitlines()[0])
    return Report(json.loads(Path(name).read_text(encoding="utf-8")))


def show(report: Any, table: str | None = None, *, columns: Any = None, where: Mapping[str, Any] | None = None, csv: bool = False) -> Text:
    """A report's table as text, or the list of its tables. columns: shows only these. where: shows only rows whose
    columns have these values, {"policy": "amp-fp16"}. csv=True: comma-separated values with numbers in full."""
    if where is not None and not isinstance(where, Mapping):
        raise TypeError(f"where: {type(where).__name__}; accepted: a dict of columns and what they read")
    with file_of(report, "report") as file:
        rows = [f"--where={word(column, 'where')}={word(value, 'where')}" for column, value in (where or {}).items()]
        return text(["show", *options(columns=columns, csv=csv), *rows, "--", file, *([] if table is None else [word(table, "table")])])
