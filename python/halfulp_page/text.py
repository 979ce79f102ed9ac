"""Cells of reports as people read them: numbers, code words, nested values."""
from __future__ import annotations

import json
import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
NOTHING = "–"
LONG = 90  # a cell with more characters folds


def count(n: int) -> str:
    """1234567 as 1,234,567."""
    return f"{n:,}"


def counted(n: int, noun: str, plural: str | None = None) -> str:
    """2 and "claim" as "2 claims"."""
    return f"{count(n)} {noun if n == 1 else plural or noun + 's'}"


def sentence(text: str) -> str:
    """Makes the first letter a capital and changes nothing else."""
    return text[:1].upper() + text[1:]


def number(value: int | float) -> str:
    """A number with six significant digits; an integer in full, with groups from 10,000 on."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if abs(value) < 1e15 and value == int(value):
        return str(int(value)) if abs(value) < 10000 else f"{int(value):,}"
    exact = Decimal(value) if isinstance(value, int) else value  # an integer may exceed every float
    return f"{exact:.6g}".lower().replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def numeric(value: Any) -> float | None:
    """A cell's number in a picture, NaN and infinities too; None for text, empty cells and booleans."""
    if isinstance(value, dict):
        value = value.get("value")
    if isinstance(value, str):
        return NON_FINITE.get(value)
    try:
        return float(value) if is_number(value) else None
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def plain(value: Any) -> str:
    """Any value of a report in one line: {"fp16": 2} as "fp16: 2", lists with commas, code words after their values."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "true" if value else "false"
    if is_number(value):
        return number(value)
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        if set(value) == {"code", "value"}:
            return f"{plain(value['value'])} ({value['code']})"
        return "; ".join(f"{name}: {_nested(part)}" for name, part in value.items())
    if isinstance(value, list):
        return ", ".join(_nested(part) for part in value)
    return str(value)


def _nested(value: Any) -> str:
    text = plain(value)
    return f"({text})" if isinstance(value, list) or isinstance(value, dict) and set(value) != {"code", "value"} else text


def shell_word(value: Any) -> str:
    """A parameter's value as typed after --set NAME=."""
    if isinstance(value, list):
        return ",".join(shell_word(part) for part in value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else json.dumps(value)


@dataclass(frozen=True)
class Cell:
    """A table's cell on the page: its text, its alignment, and the part before the fold if it is long."""
    text: str
    kind: str  # "number", "text" or "none"

    @property
    def is_long(self) -> bool:
        return len(self.text) > LONG

    @property
    def head(self) -> str:
        part = self.text[:LONG - 30]
        return (part[:part.rfind(" ")] if part.rfind(" ") > 20 else part).rstrip() + " …"


def cell(value: Any) -> Cell:
    if value is None:
        return Cell(NOTHING, "none")
    return Cell(plain(value), "number" if numeric(value) is not None else "text")
