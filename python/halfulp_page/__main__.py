"""python3 -m halfulp_page REPORT... --out FILE. Exit status 0; 2 for bad input, 3 where matplotlib or jinja2 is missing, with one line."""
from __future__ import annotations

import argparse
import importlib.util
import json
import os
import signal
import sys
import tempfile
from typing import Any, NoReturn, Sequence

from .inputs import BadInput, read_all
from .page import ROWS, render, render_folder
from .processes import processors
from .sections import About

NEEDED = ("matplotlib", "jinja2")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadInput(message)


def arguments(given: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(prog="halfulp_page", description="Reports of halfulp as one HTML page. Two reports of the same experiment stand beside each other.",
                     epilog="Example: python3 -m halfulp_page reports/ --out reports/index.html")
    parser.add_argument("reports", nargs="+", metavar="REPORT", help="reports, or folders of them")
    parser.add_argument("--out", required=True, metavar="FILE|DIR", help="the page, or a folder of pages with every picture as a file; - is standard output")
    parser.add_argument("--folder", action="store_true", help="with --out -: a folder's files, as a JSON object of their names and texts")
    parser.add_argument("--title", default="", help="its title")
    parser.add_argument("--rows", type=int, default=ROWS, metavar="N", help=f"most rows of a table, 0 for all (default {ROWS})")
    parser.add_argument("--about", metavar="FILE", help="questions and order of experiments, as `halfulp list --json` prints them; - is standard input")
    result = parser.parse_args(given)
    if result.rows < 0:
        raise BadInput(f"--rows {result.rows}: accepted: 0 (all) and above")
    return result


def about_of(file: str | None) -> dict[str, About]:
    if file is None:
        return {}
    try:
        if file == "-":
            entries = json.load(sys.stdin)
        else:
            with open(file, encoding="utf-8") as stream:
                entries = json.load(stream)
        return {str(e["name"]): About(str(e.get("question", "")), bool(e.get("retells", False))) for e in entries}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as why:
        raise BadInput(f"--about {file}: {why}; accepted: what `halfulp list --json` prints") from None


def write(path: str, text: str) -> None:
    """Writes the whole file or none: writes a temporary file in the same folder, then renames it."""
    if path == "-":
        sys.stdout.buffer.write(text.encode(errors="replace"))  # names of files need not be UTF-8
        return
    target = os.path.realpath(path)
    try:
        handle, part = tempfile.mkstemp(prefix=os.path.basename(target) + ".", suffix=".part", dir=os.path.dirname(target))
        try:
            with os.fdopen(handle, "w", encoding="utf-8", errors="replace", newline="\n") as file:
                file.write(text)
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(part, 0o666 & ~mask)
            os.replace(part, target)
        except BaseException:
            os.unlink(part)
            raise
    except OSError as why:
        raise BadInput(f"{path}: {why.strerror}") from None


def write_all(folder: str, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = os.path.join(folder, name)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
        except OSError as why:
            raise BadInput(f"{path}: {why.strerror}") from None
        write(path, text)


def main(given: Sequence[str] | None = None) -> int:
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    try:
        options = arguments(sys.argv[1:] if given is None else given)
        if missing:
            print(f"halfulp_page: {' and '.join(missing)} missing; apt-get install {' '.join('python3-' + name for name in missing)}, or pip install {' '.join(missing)}", file=sys.stderr)
            return 3
        shown: dict[str, Any] = {"title": options.title, "about": about_of(options.about), "rows": options.rows, "jobs": processors()}
        if options.folder and options.out == "-":
            write("-", json.dumps(render_folder(read_all(options.reports), **shown), ensure_ascii=False))
        elif options.folder or options.out.endswith("/") or os.path.isdir(options.out):
            write_all(options.out, render_folder(read_all(options.reports), **shown))
        else:
            write(options.out, render(read_all(options.reports), **shown))
    except BadInput as why:
        print(f"halfulp_page: {' '.join(str(why).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: processes that draw end, too
    sys.exit(main())
