"""The only way to the command line: takes arguments, returns what it prints, and turns its exit status into an
exception."""
from __future__ import annotations

import contextlib
import decimal
import fractions
import json
import os
import tempfile
import threading
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence

import numpy as np

from . import _core
from ._arrays import as_format, is_torch


class BackendMissing(RuntimeError):
    """The requested device is missing; the command line's exit status 3."""


class Text(str):
    """A command's text, with its exit status: 1 where something fails or differs, else 0. Notebooks show the text
    itself."""
    status: int = 0

    def __repr__(self) -> str:
        return str(self)


class Object(dict[str, Any]):
    """A command's JSON object, with its exit status."""
    status: int = 0


class Objects(list[Any]):
    """A command's JSON array, with its exit status."""
    status: int = 0


def call(arguments: Sequence[str], input: str = "") -> tuple[int, str]:
    """Runs `halfulp ARGUMENTS...` in this process: exit status 0 or 1, and standard output. Other statuses are exceptions with the line
    that the program would print: 2 ValueError, 3 BackendMissing, 130 KeyboardInterrupt, 70 RuntimeError."""
    for given in (*arguments, input):
        try:
            given.encode("utf-8")
        except UnicodeEncodeError:
            raise ValueError(f"{given!a}: a lone surrogate; accepted: what UTF-8 can write") from None
    main = threading.current_thread() is threading.main_thread()
    status, output, error, interrupted = _core.command(list(arguments), input, main)
    message = " ".join(line.removeprefix("halfulp: ") for line in error.decode(errors="replace").splitlines())
    message = message.removesuffix("; options stand before --")  # advice for somebody who types a line
    if interrupted or status == 130:
        raise KeyboardInterrupt(message or "interrupted")
    if status == 2:
        raise ValueError(message)
    if status == 3:
        raise BackendMissing(message)
    if status not in (0, 1):
        raise RuntimeError(message)
    return status, output.decode(errors="replace")


def text(arguments: Sequence[str], input: str = "") -> Text:
    status, output = call(arguments, input)
    result = Text(output)
    result.status = status
    return result


def parsed(arguments: Sequence[str], input: str = "") -> Any:
    """The JSON that a command prints; objects and arrays carry the status."""
    status, output = call(arguments, input)
    value = json.loads(output)
    result = Object(value) if isinstance(value, dict) else Objects(value)
    result.status = status
    return result


def answer(arguments: Sequence[str], as_text: bool) -> Any:
    """A command's answer: its JSON as dicts and lists, or its text for people."""
    return text(arguments) if as_text else parsed([arguments[0], "--json", *arguments[1:]])


def word(value: Any, argument: str) -> str:
    """A value as typed text."""
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value) if isinstance(os.fspath(value), str) else os.fsdecode(value)
    if isinstance(value, (list, tuple)) or (hasattr(value, "tolist") and getattr(value, "ndim", 0) == 1):
        return ",".join(word(v, argument) for v in value)
    if isinstance(value, int):
        try:
            return int.__repr__(value)
        except ValueError:  # Python's limit on digits
            raise ValueError(f"{argument}: an integer of {value.bit_length()} bits; accepted: shorter ones") from None
    if isinstance(value, float):
        return float.__repr__(value)
    if isinstance(value, (fractions.Fraction, decimal.Decimal)):
        return str(value)
    if isinstance(value, (np.dtype, type)) or is_torch(value, "dtype"):
        return as_format(value, argument).name
    if isinstance(value, (_core.Format, _core.BlockFormat, _core.ProductModel)):
        return str(value)
    raise TypeError(f"{argument}: {value!r}; accepted: text, a number, a path, or a list of them")


def options(**given: Any) -> list[str]:
    """--name=value for every argument except None and False; --name for True; for a Rounding, its differences from the
    defaults. Underscores in names become dashes. ValueError for empty text (the option would take the next word) and
    for options of the program itself."""
    words: list[str] = []
    for name, value in given.items():
        option = "--" + name.strip("_").replace("_", "-")
        if option in ("--help", "--json", "--version"):
            raise ValueError(f"{name}: no argument of a function; as_text=True gives the text instead of the JSON")
        if isinstance(value, _core.Rounding):
            words += options(**_parts(value, name, given))
        elif value is True:
            words.append(option)
        elif value is not None and value is not False:
            said = word(value, name)
            if not said:
                raise ValueError(f"{name}: empty; accepted: a value, or nothing at all")
            words.append(f"{option}={said}")
    return words


def _parts(rounding: _core.Rounding, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """A Rounding as options of the command line: its mode as the option that it was given for, and all that differs
    from the defaults."""
    usual = _core.Rounding()
    rules = ("overflow", "flush_inputs", "flush_outputs", "tininess", "nan", "int_overflow", "exact", "stochastic_variant", "random_bits")
    differing = {rule: getattr(rounding, rule) for rule in rules if getattr(rounding, rule) != getattr(usual, rule)}
    for rule in rules:
        if given.get(rule) not in (None, False):
            raise ValueError(f"{rule}: a Rounding says it already; accepted beside the name of a mode")
    return {name: rounding.mode, **differing}


def path(value: Any, argument: str) -> str:
    """A file's name. Refuses "-", which the command line takes for standard input."""
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"{argument}: {type(value).__name__}; accepted: a file's name")
    name = os.fsdecode(value)
    if not name:
        raise ValueError(f"{argument}: empty; accepted: a file's name")
    if name == "-":
        raise ValueError(f"{argument}: '-' is the command line's standard input; accepted here: a file's name")
    return name if not name.startswith("-") else "./" + name


def writable(value: Any, argument: str, folder: bool) -> str:
    """The name of a file or folder that can be written, checked before an experiment computes for an hour. It is a
    folder with `folder`, and where it ends in / or is one."""
    name = path(value, argument)
    if "\0" in name:
        raise ValueError(f"{argument}: a file's name with a NUL character")
    if folder or name.endswith("/") or os.path.isdir(name):
        place = os.path.abspath(name)
        while not os.path.exists(place):  # the rest will be made
            place = os.path.dirname(place)
        if not os.path.isdir(place):
            raise ValueError(f"{argument}: {place} is no folder")
    elif os.path.exists(name) and not os.path.isfile(name):  # a pipe, a terminal
        place = name
    else:
        place = os.path.dirname(name) or "."
        if not os.path.isdir(place):
            raise ValueError(f"{argument}: {place} is no folder that is there")
    if not os.access(place, os.W_OK):
        raise ValueError(f"{argument}: {place} cannot be written")
    return name


@contextlib.contextmanager
def file_of(value: Any, argument: str) -> Iterator[str]:
    """The name of a file with that JSON: the given file, or a temporary one for an object."""
    if not isinstance(value, Mapping):
        yield path(value, argument)
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{argument}.json"
        try:
            file.write_text(json.dumps(value, allow_nan=False), encoding="utf-8")
        except RecursionError:
            raise ValueError(f"{argument}: nested too deeply; accepted: what JSON can hold") from None
        except (TypeError, ValueError) as why:
            raise TypeError(f"{argument}: {why}; accepted: what JSON can hold") from None
        try:
            yield str(file)
        except ValueError as why:
            raise ValueError(str(why).replace(str(file), argument)) from None
