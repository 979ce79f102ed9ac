"""How an answer is judged. Each exercise has a judge, a function that returns the sentence for a right answer and
raises Hint for a wrong one. halfulp computes the right answer there; it is never written down."""
from __future__ import annotations

import decimal
import math
import numbers
from collections.abc import Callable
from typing import Any

import numpy as np

Judge = Callable[[Any], str]


class Hint(Exception):
    """What to say about a wrong answer."""


_judges: dict[str, Judge] = {}


def exercise(name: str) -> Callable[[Judge], Judge]:
    """Registers a function as the judge of an exercise."""
    def keep(function: Judge) -> Judge:
        _judges[name] = function
        return function
    return keep


def names() -> list[str]:
    return list(_judges)


def judge(name: str, answer: Any) -> tuple[str, str]:
    """("unanswered" | "right" | "hint", what to say)"""
    if name not in _judges:
        raise ValueError(f"name: no exercise {name!r}; accepted: {', '.join(_judges)}")
    if answer is ...:
        return "unanswered", "not answered yet: write your answer instead of the three dots, and run the cell again"
    try:
        return "right", _judges[name](answer)
    except Hint as hint:
        return "hint", str(hint)
    except (TypeError, ValueError) as why:  # halfulp's own message, about an unknown format for example
        return "hint", f"This cannot be judged: {why}"


def check(name: str, answer: Any) -> None:
    """Prints the judge's answer."""
    verdict, text = judge(name, answer)
    print(f"{name}: " + {"unanswered": "", "right": "right. ", "hint": "not yet. "}[verdict] + text)


def need(holds: Any, hint: str) -> None:
    if not holds:
        raise Hint(hint)


def number(answer: Any) -> float:
    """One number of any type: Python's, NumPy's, a Fraction or Decimal, an array of no dimensions."""
    if isinstance(answer, np.ndarray) and answer.ndim == 0:
        answer = answer.item()
    need(not isinstance(answer, str), "The answer is a number, without quotes.")
    need(isinstance(answer, (numbers.Real, decimal.Decimal)) and not isinstance(answer, (bool, np.bool_)), "The answer is one number.")
    try:
        value = float(answer)
    except OverflowError:
        value = math.inf
    need(math.isfinite(value), "The answer is a finite number.")
    return value


def integer(answer: Any, least: int, most: int) -> int:
    value = number(answer)
    need(value == int(value) and least <= value <= most, f"The answer is an integer from {least} to {most:,}.")
    return int(value)


def power_of_two(answer: Any) -> float:
    value = number(answer)
    need(value > 0 and math.frexp(value)[0] == 0.5, "The answer is a power of two.")
    return value


def several(answer: Any, what: str = "a list") -> list[Any]:
    """The elements of a list, tuple, set, range or array."""
    need(isinstance(answer, (list, tuple, set, range)) or isinstance(answer, np.ndarray) and answer.ndim == 1, f"The answer is {what}.")
    return list(answer)


def text(answer: Any, example: str) -> str:
    need(isinstance(answer, str), f'The answer is a text, in quotes, such as "{example}".')
    return str(answer)
