"""The one route to the command line: arguments in, what it printed out, its exit status as an exception."""
from __future__ import annotations

import contextlib
import json
import os
import tempfile
import threading
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence

from . import _core


class BackendMissing(RuntimeError):
    """The device that was asked for is not here; the command line's exit status 3."""


class Text(str):
    """What a command prints, with its exit status: 1 where something fails or differs, else 0. Notebooks show the text itself."""
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
    main = threading.current_thread() is threading.main_thread()
    status, output, error, interrupted = _core.command(list(arguments), input, main)
    message = " ".join(line.removeprefix("halfulp: ") for line in error.decode(errors="replace").splitlines())
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
    """What a command says: its JSON as dicts and lists, or the text for people."""
    return text(arguments) if as_text else parsed([arguments[0], "--json", *arguments[1:]])


def word(value: Any, argument: str) -> str:
    """A value as one types it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value) if isinstance(os.fspath(value), str) else os.fsdecode(value)
    if isinstance(value, (list, tuple)) or (hasattr(value, "tolist") and getattr(value, "ndim", 0) == 1):
        return ",".join(word(v, argument) for v in value)
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (_core.Format, _core.BlockFormat, _core.ProductModel)):
        return str(value)
    raise TypeError(f"{argument}: {value!r}; accepted: text, a number, a path, or a list of them")


def options(**given: Any) -> list[str]:
    """--name=value of every argument that is not None or False; --name of True. Names take dashes for underscores."""
    words: list[str] = []
    for name, value in given.items():
        option = "--" + name.strip("_").replace("_", "-")
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            words.append(f"{option}={word(value, name)}")
    return words


def path(value: Any, argument: str) -> str:
    """A file's name: "-", which is standard input to the command line, is refused."""
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"{argument}: {type(value).__name__}; accepted: a file's name")
    name = os.fsdecode(value)
    if name == "-":
        raise ValueError(f"{argument}: '-' is the command line's standard input; accepted here: a file's name")
    return name if not name.startswith("-") else "./" + name


@contextlib.contextmanager
def file_of(value: Any, argument: str) -> Iterator[str]:
    """The name of a file with that JSON: the file itself, or a temporary one of an object."""
    if not isinstance(value, Mapping):
        yield path(value, argument)
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{argument}.json"
        try:
            file.write_text(json.dumps(value, allow_nan=False), encoding="utf-8")
        except (TypeError, ValueError) as why:
            raise TypeError(f"{argument}: {why}; accepted: what JSON can hold") from None
        try:
            yield str(file)
        except ValueError as why:
            raise ValueError(str(why).replace(str(file), argument)) from None
