"""Reports from files and folders. Refuses in one line what is not a report."""
from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping, Sequence


class BadInput(Exception):
    """One line: what is wrong, where, and what is accepted."""


@dataclass(frozen=True)
class Source:
    """A report and the name of its file."""
    file: str
    report: Mapping[str, Any]

    @property
    def experiment(self) -> str:
        return str(self.report["experiment"])

    @property
    def name(self) -> str:
        """The file's name without its folder, which means nothing on another machine."""
        return os.path.basename(self.file)


_UNPRINTABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # characters that XML 1.0 does not allow
_MEMBERS = {"experiment": str, "title": str, "status": str, "config": dict, "environment": dict, "claims": list, "results": dict, "comparisons": list}


def looks_like_report(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(name), kind) for name, kind in _MEMBERS.items())


def _printable(value: Any) -> Any:
    """The same text with a replacement for every character that HTML and SVG cannot hold."""
    if isinstance(value, str):
        return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, list):
        return [_printable(v) for v in value]
    if isinstance(value, dict):
        return {_printable(k): _printable(v) for k, v in value.items()}
    return value


def read(path: str) -> Source:
    """Reads one file. Raises BadInput if it is not a report. `halfulp validate` says more about it, and `halfulp page`
    validates first."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            value = _printable(json.load(file))
    except OSError as why:
        raise BadInput(f"{path}: {why.strerror}") from None
    except (ValueError, RecursionError) as why:
        raise BadInput(f"{path}: no JSON: {why}") from None
    if not looks_like_report(value):
        raise BadInput(f"{path}: no report; accepted: what halfulp run wrote, halfulp validate says what is missing")
    return Source(path, value)


def read_all(paths: Sequence[str]) -> list[Source]:
    """Files, and every *.json in a folder that is a report, sorted by name."""
    sources: list[Source] = []
    for path in paths:
        if not os.path.isdir(path):
            sources.append(read(path))
            continue
        found = [source for file in sorted(Path(path).glob("*.json")) if (source := _report_in(str(file)))]
        if not found:
            raise BadInput(f"{path}: no report in this folder; accepted: reports as *.json")
        sources += found
    return sources


def _report_in(file: str) -> Source | None:
    """Whether a folder's file is a report. The folder may hold other JSON too."""
    try:
        return read(file)
    except BadInput:
        return None


def grouped(sources: Sequence[Source], order: Sequence[str]) -> list[list[Source]]:
    """Reports by experiment, one or two each, in the order of `order`, then others. Raises BadInput for three of one
    experiment."""
    by_name: dict[str, list[Source]] = {}
    for source in sources:
        by_name.setdefault(source.experiment, []).append(source)
    for name, group in by_name.items():
        if len(group) > 2:
            raise BadInput(f"{group[2].file}: the third report of {name}; accepted: one, or two to compare")
    names = [name for name in order if name in by_name] + [name for name in by_name if name not in order]
    return [by_name[name] for name in names]
