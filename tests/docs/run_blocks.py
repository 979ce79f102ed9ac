#!/usr/bin/env python3
"""Runs every command and block of code of the documentation, and follows its links.

  run_blocks.py --build build/release [--reports FOLDER] [--python PYTHON] [--compiler c++] [--only WORD] [--update]

Every fenced block names its language, which says how it is tested:

  sh       run by bash -e; its exit status is 0
  console  each line "$ COMMAND" is run; its output, errors included, is shown below it. A line "..." stands for any lines, three dots in a
           line for any characters
  python   run by a Python that has the package halfulp (skipped where it was not built)
  cpp      compiled, not run
  json     written to a file that a command further down the page takes
  cmake    a copy of a file that a test builds
  yaml     not run, and says why
  text     not run

A page's blocks run in one scratch folder, in their order, with the programs on PATH and links: build/release/bin, build/release/python,
build/python-venv, docs, evidence, experiments, notebooks, report, tests, training. Comments just before a block, a line each, steer that:

  <!-- not run: WHY -->      not run
  <!-- slow: WHY -->         run where HALFULP_EXHAUSTIVE is set, or where it shows but reports that --reports has
  <!-- needs: MODULE -->     skipped where Python has no such module; fashion-mnist: where the images are not installed; x86: elsewhere
  <!-- file: NAME -->        written to this file, which a later block names
  <!-- copy of: PATH -->     the same lines stand in this file of the repository, which a test compiles: not compiled here

--update writes what commands say now into the pages, with the gaps where they were ("@5" below a new command: its first five lines, then a
gap). Check that this is what you mean.
"""
import argparse
import concurrent.futures
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time

import pages

ROOT = pathlib.Path(__file__).resolve().parents[2]
LANGUAGES = {"sh", "console", "python", "cpp", "json", "cmake", "yaml", "text"}
LINKED = ["docs", "evidence", "experiments", "notebooks", "report", "tests", "training"]
IMAGES = pathlib.Path("/usr/share/datasets/fashion-mnist")
DEFAULT_RUN = re.compile(r"halfulp run (\w+) --quiet --out ([\w.-]+)")
SHOW = re.compile(r"halfulp show ([\w.-]+) ")
LIMIT = 600  # seconds, of a block that should take a few


class Failed(Exception):
    """What is wrong with a block."""


class Skipped(Exception):
    """Why a block is not run here."""


def pattern(line):
    return ".*".join(re.escape(part) for part in line.split("..."))


def matches(shown, said):
    """Whether the lines said match those shown, in which "..." marks gaps."""
    text = "".join(r"(?:.*\n)*?" if line.strip() == "..." else pattern(line) + r"\n" for line in shown)
    return re.fullmatch(text, "".join(line + "\n" for line in said)) is not None


def updated(shown, said):
    """The lines said, cut like those shown: as many before the first gap, as many after the last."""
    if len(shown) == 1 and shown[0].startswith("@"):
        shown = [None] * int(shown[0][1:]) + ["..."]
    gaps = [i for i, line in enumerate(shown) if line is not None and line.strip() == "..."]
    if not gaps or len(shown) - len(gaps) >= len(said):
        return said
    head, tail = gaps[0], len(shown) - gaps[-1] - 1
    old, new = shown[:head] + ["..."] + shown[gaps[-1] + 1:], said[:head] + ["..."] + said[len(said) - tail:] * (tail > 0)
    return [a if a is not None and re.fullmatch(pattern(a), b) else b for a, b in zip(old, new)]


def commands(block):
    """A console block as [command, lines shown]."""
    found = []
    for line in block.text.rstrip("\n").split("\n"):
        if line.startswith("$ "):
            found.append([line[2:], []])
        elif found and found[-1][0].endswith("\\") and not found[-1][1]:
            found[-1][0] += "\n" + line
        elif found:
            found[-1][1].append(line.rstrip())
        else:
            raise Failed("begins with output: a console block begins with \"$ COMMAND\"")
    return found


class Runner:
    def __init__(self, options):
        self.options = options
        self.programs = options.build / "bin"
        self.without_python = None
        try:
            self.call([options.python, "-c", "import halfulp"], pathlib.Path.cwd())
        except (Failed, OSError):
            self.without_python = "the Python package was not built"

    def environment(self):
        search = [str(self.programs), str(pathlib.Path(self.options.python).parent)] if "/" in self.options.python else [str(self.programs)]
        return {**os.environ, "PATH": ":".join([*search, os.environ["PATH"]]), "PYTHONPATH": str(self.options.build / "python"),
                "NO_COLOR": "1", "COLUMNS": "80", "MPLBACKEND": "Agg", "PYTHONDONTWRITEBYTECODE": "1"}

    def call(self, command, folder, seconds=LIMIT, accepted=(0,)):
        """Its output and errors together. Raises Failed if it does not end, or ends with another exit status."""
        try:
            done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  env=self.environment(), timeout=seconds, errors="replace")
        except subprocess.TimeoutExpired:
            raise Failed(f"did not end in {seconds} s") from None
        if done.returncode not in accepted:
            raise Failed(f"exit status {done.returncode}:\n{done.stdout}")
        return done.stdout

    def folder(self, where):
        (where / "build" / "release").mkdir(parents=True)
        (where / "build" / "release" / "bin").symlink_to(self.programs)
        if not self.without_python:
            (where / "build" / "release" / "python").symlink_to(self.options.build / "python")
            (where / "build" / "python-venv").symlink_to(pathlib.Path(self.options.python).parents[1])
        for name in LINKED:
            (where / name).symlink_to(ROOT / name)

    def made(self, command):
        """The report that a command would make, if it is one of those at hand, and the file's name."""
        run = DEFAULT_RUN.fullmatch(command)
        report = self.options.reports / f"{run.group(1)}.json" if run and self.options.reports else None
        return (report, run.group(2)) if report and report.exists() else None

    def is_fast(self, block, folder):
        """Whether a slow block only shows reports that are at hand."""
        if block.language != "console" or not self.options.reports:
            return False
        there = {file.name for file in folder.iterdir()}
        for command, _ in commands(block):
            if made := self.made(command):
                there.add(made[1])
            elif not (shows := SHOW.match(command)) or shows.group(1) not in there:
                return False
        return True

    def console(self, block, folder, seconds):
        lines = []
        for command, shown in commands(block):
            if made := self.made(command):
                shutil.copy(made[0], folder / made[1])
            refused = bool(shown) and shown[0].startswith("halfulp: ")  # a block that shows the answer to a mistake
            accepted = (0, 1, 2) if refused else (0, 1)
            output = self.call(["bash", "-c", ":" if made else command], folder, seconds, accepted)
            said = [line.rstrip() for line in output.split("\n")]
            while said and not said[-1]:
                said.pop()
            lines += ["$ " + command] + (shown if matches(shown, said) else updated(shown, said))
            if not self.options.update and not matches(shown, said):
                raise Failed(f"$ {command}\nshown:\n" + "\n".join(shown) + "\nsaid:\n" + "\n".join(said))
        return "\n".join(lines) + "\n"

    def run(self, block, folder, later):
        """The text that the block should have. Raises Failed or Skipped."""
        steering, language = block.steering, block.language
        if language not in LANGUAGES:
            raise Failed(f"its language is {language or 'not named'}; known: " + ", ".join(sorted(LANGUAGES)))
        if "copy of" in steering:
            if block.text not in (ROOT / steering["copy of"]).read_text(encoding="utf-8"):
                raise Failed(f"is no copy of lines of {steering['copy of']}")
            if language != "json":
                return None
        if "file" in steering:
            (folder / steering["file"]).write_text(block.text, encoding="utf-8")
            if not any(steering["file"] in other.text for other in later):
                raise Failed(f"no block after it takes {steering['file']}")
            return None
        if "not run" in steering:
            raise Skipped(steering["not run"])
        wanted = "HALFULP_EXHAUSTIVE" in os.environ or self.options.slow
        if "slow" in steering and not wanted and not self.is_fast(block, folder):
            raise Skipped(steering["slow"] + " (the exhaustive tests run it)")
        if self.without_python and (language == "python" or "build/python-venv" in block.text):
            raise Skipped(self.without_python)
        self.require(steering.get("needs"), folder)
        seconds = 3600 if "slow" in steering else LIMIT
        if language == "sh":
            self.call(["bash", "-euo", "pipefail", "-c", block.text], folder, seconds)
        elif language == "console":
            return self.console(block, folder, seconds)
        elif language == "python":
            (folder / "block.py").write_text(block.text, encoding="utf-8")
            self.call([self.options.python, "block.py"], folder)
        elif language == "cpp":
            (folder / "block.cpp").write_text(block.text, encoding="utf-8")
            self.call([self.options.compiler, "-std=c++20", "-Wall", "-Wextra", "-fsyntax-only", "-I", str(self.options.build / "include"),
                       "-isystem", "/usr/include/eigen3", "block.cpp"], folder)
        else:
            raise Failed(f"a {language} block has <!-- not run: WHY -->" + (", <!-- file: NAME -->" if language == "json" else "") + " or <!-- copy of: PATH --> before it")
        return None

    def require(self, need, folder):
        """Raises Skipped where a block's needs are missing."""
        if need == "fashion-mnist":
            if not IMAGES.exists():
                raise Skipped("dataset-fashion-mnist is not installed")
        elif need == "x86":
            if platform.machine() not in ("x86_64", "AMD64"):
                raise Skipped("this is no x86")
        elif need:
            try:
                self.call([self.options.python, "-c", f"import {need}"], folder)
            except (Failed, OSError):
                raise Skipped(f"Python has no {need} here") from None

    def page(self, page):
        """[(block, its outcome, why)] of a page, in order."""
        blocks, results, texts = pages.blocks_of(ROOT, page), [], []
        with tempfile.TemporaryDirectory(prefix="halfulp-docs-") as name:
            folder = pathlib.Path(name)
            self.folder(folder)
            for i, block in enumerate(blocks):
                begin = time.monotonic()
                try:
                    texts.append(self.run(block, folder, blocks[i + 1:]))
                    results.append((block, "ran", f"{time.monotonic() - begin:.1f} s"))
                except Skipped as why:
                    texts.append(None)
                    results.append((block, "not run", str(why)))
                except Failed as why:
                    texts.append(None)
                    results.append((block, "failed", str(why)))
        if self.options.update:
            lines = (ROOT / page).read_text(encoding="utf-8").split("\n")
            for block, text in reversed(list(zip(blocks, texts))):
                if text is not None:
                    lines[block.line:block.end - 1] = text.rstrip("\n").split("\n")
            (ROOT / page).write_text("\n".join(lines), encoding="utf-8")
        return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=lambda text: pathlib.Path(text).resolve(), required=True)
    venv = ROOT / "build" / "python-venv" / "bin" / "python"  # of ./run test
    parser.add_argument("--python", default=str(venv) if venv.exists() else sys.executable)
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--reports", type=lambda text: pathlib.Path(text).resolve(),
                        help="a folder of reports at defaults, instead of `halfulp run NAME --quiet --out FILE`")
    parser.add_argument("--only", default="", help="pages whose path contains this")
    parser.add_argument("--slow", action="store_true", help="slow blocks too")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--verbose", action="store_true", help="how long each block took, and every one that was not run")
    options = parser.parse_args()
    if not shutil.which("bash"):
        print("skipped: no bash")
        return 0
    runner = Runner(options)
    chosen = [page for page in pages.all_pages(ROOT) if options.only in str(page)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = [result for page in pool.map(runner.page, chosen) for result in page]
    reasons = {}
    for block, outcome, why in results:
        if outcome == "failed":
            print(f"{block.place}: {block.language} block: {why}\n")
        elif outcome == "not run":
            reasons.setdefault(why, []).append(block.place)
        elif options.verbose:
            print(f"{block.place}: {why}")
    problems = pages.broken_links(ROOT)
    for problem in problems:
        print(problem)
    count = {outcome: sum(1 for _, o, _ in results if o == outcome) for outcome in ("ran", "not run", "failed")}
    for why, places in sorted(reasons.items()):
        print(f"not run, {len(places)}: {why}" + (": " + ", ".join(places) if options.verbose else ""))
    print(f"{len(results)} blocks of {len(chosen)} pages: {count['ran']} ran, {count['not run']} not run, {count['failed']} failed; "
          f"{len(problems)} broken links (links to other sites are not followed)")
    return 1 if count["failed"] or problems else 0


if __name__ == "__main__":
    sys.exit(main())
