#!/usr/bin/env python3
"""Plants bugs, one at a time, in a copy of the sources, and sees that the test named beside each one fails.

The bugs are those of bugs/*.py, a list for each room. Bugs of C++ are built anew, which takes most of the time; those
of Python run with what is built.
"""

from __future__ import annotations

import argparse
import datetime
import fcntl
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]

# Enough of a test to catch what it is there for.
FILTER = {
    "small_formats": "*/e4m3:*/e5m2:*/e2m1",
    "half_formats": "*/bf16:Exponential.*:Logarithm.*",
    "block_oracle": "*/e4m3_1x32_*:*/int8*:*/e2m1_1x16*",
}

CPU = pathlib.Path("/proc/cpuinfo").read_text() if os.path.exists("/proc/cpuinfo") else ""
AVX512 = "avx512dq" in CPU
NEEDS = {  # by a part of a bug's title
    "AVX-512: ": AVX512,
    "AVX512-FP16: ": "avx512_fp16" in CPU,
    "AVX2: ": not AVX512,
    "without embedded rounding": not AVX512,
}

# Vector kernels take most of the time to compile. Tests of these have code without vectors and this CPU's best; all
# others do without vectors.
ARRAYS = {"array", "array_half", "array_short", "array_stochastic", "array_paths", "array_contract"}
ARRAY_TESTS = ARRAYS | {"block", "block_dot", "products", "rounder"}
WITHOUT = {
    True: "HWY_SSSE3|HWY_SSE4" + ("|HWY_AVX2" if AVX512 else ""),
    False: "HWY_SSSE3|HWY_SSE4|HWY_AVX2|HWY_AVX3|HWY_AVX3_DL",
}


class Bug(NamedTuple):
    """One line of a list: names select tests of Python within their file."""

    title: str
    file: str
    right: str
    wrong: str
    test: str
    names: str = ""


def lists() -> dict[str, list[Bug]]:
    """The bugs by room: the names of the files in bugs/, and `page`, a second list of package.py."""
    found: dict[str, list[Bug]] = {}
    for path in sorted((HERE / "bugs").glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"bugs_{path.stem}", path)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found[path.stem] = [Bug(*bug) for bug in module.BUGS]
        if hasattr(module, "PAGE_BUGS"):
            found["page"] = [Bug(*bug) for bug in module.PAGE_BUGS]
    return found


def places(right: str, text: str) -> list[re.Match[str]]:
    """Where a text stands in a source, however its lines are broken: blanks match any blanks, and any may stand beside a sign."""
    tokens = re.findall(r"\w+|[^\w\s]", right)
    between = [r"\s+" if a[-1:].isalnum() and b[:1].isalnum() else r"\s*" for a, b in zip(tokens, tokens[1:])]
    pattern = "".join(re.escape(token) + gap for token, gap in zip(tokens, between + [""]))
    return list(re.finditer(r"(?<!\w)" * tokens[0][0].isalnum() + pattern, text))


class Room:
    """Copies sources, and says whether a test passes on them."""

    folder = ROOT  # what a bug's file is relative to

    def __init__(self, work: pathlib.Path, log: Any, options: argparse.Namespace) -> None:
        self.work, self.log, self.source = work, log, work / "source"

    def run(self, *command: Any, seconds: float | None = None, **more: Any) -> bool:
        try:
            return (
                subprocess.run(command, stdout=self.log, stderr=subprocess.STDOUT, timeout=seconds, **more).returncode
                == 0
            )
        except subprocess.TimeoutExpired:
            return False

    @staticmethod
    def find(bug: Bug, text: str) -> list[tuple[int, int]]:
        return [match.span() for match in places(bug.right, text)]

    def prepare(self) -> str | None:
        """What stands in the way, if anything does."""
        return None

    def make(self, bug: Bug) -> bool:
        return True

    def passes(self, bug: Bug) -> bool:
        raise NotImplementedError


class Cpp(Room):
    def prepare(self) -> str | None:
        files = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split("\n")
        for name in files:
            if (ROOT / name).is_file() and (
                not (self.source / name).exists() or (self.source / name).read_bytes() != (ROOT / name).read_bytes()
            ):
                (self.source / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, self.source / name)
        return None

    def build(self, test: str) -> pathlib.Path:
        return self.work / ("vectors" if test in ARRAY_TESTS else "scalars")

    @staticmethod
    def program(test: str) -> str:
        if test == "faults":
            return "halfulp_faults"
        folder = next((ROOT / "tests").glob(f"**/{test}_test.cpp")).parent.relative_to(ROOT / "tests")
        return "_".join(folder.parts) + "_tests"

    def make(self, bug: Bug) -> bool:
        folder = self.build(bug.test)
        # A static assertion of a neighbour in the same program would stop the build before the named test can fail.
        flags = "-O1 '-Dstatic_assert(...)=static_assert(true)'"
        configured = (folder / "build.ninja").exists() or self.run(
            "cmake",
            "-S",
            self.source,
            "-B",
            folder,
            "-G",
            "Ninja",
            "-DCMAKE_BUILD_TYPE=Release",
            f"-DCMAKE_CXX_FLAGS_RELEASE={flags}",
            "-DHALFULP_CUDA=OFF",
            f"-DHALFULP_WITHOUT_VECTORS={WITHOUT[bug.test in ARRAY_TESTS]}",
            f"-DCMAKE_PREFIX_PATH={ROOT}/build/headers/usr",
        )
        programs = [self.program(bug.test), *(["halfulp_program"] if bug.test == "faults" else [])]
        return configured and self.run("cmake", "--build", folder, "--parallel", "2", "--target", *programs)

    def passes(self, bug: Bug) -> bool:
        if bug.test == "faults":
            (library,) = (self.build(bug.test) / "tests" / "faults").glob("*halfulp_faults.so")
            return self.run(
                ROOT / "tests/with_python.sh",
                "json",
                ROOT / "tests/faults/inject.py",
                self.build(bug.test) / "bin" / "halfulp",
                library,
                "--only",
                bug.names,
                "--most",
                "4",
                seconds=900,
            )
        # A bug may make a loop endless. Without bugs none of these takes a tenth of this.
        return self.run(
            self.build(bug.test) / "tests" / self.program(bug.test),
            bug.test,
            f"--gtest_filter={FILTER.get(bug.test, '*')}",
            "--gtest_fail_fast",
            seconds=600,
        )


class Package(Room):
    """The package halfulp: a copy, beside the extension module that is built."""

    folder = ROOT / "python" / "halfulp"
    tests = "test_"

    def __init__(self, work: pathlib.Path, log: Any, options: argparse.Namespace) -> None:
        super().__init__(work, log, options)
        self.python, self.built = options.python, options.package.resolve() / "halfulp"
        self.source = work / type(self).__name__ / "halfulp"

    @staticmethod
    def find(bug: Bug, text: str) -> list[tuple[int, int]]:  # indentation counts
        return [(match.start(), match.end()) for match in re.finditer(re.escape(bug.right), text)]

    def prepare(self) -> str | None:
        if not list(self.built.glob("_core*")):
            return f"no _core* in {self.built}: ./run build makes it"
        shutil.rmtree(self.source, ignore_errors=True)
        shutil.copytree(self.folder, self.source, ignore=shutil.ignore_patterns("__pycache__"))
        for built in self.built.iterdir():
            if not (self.source / built.name).exists() and built.name != "__pycache__":
                (self.source / built.name).symlink_to(built)
        return None

    def passes(self, bug: Bug) -> bool:
        environment = {**os.environ, "PYTHONPATH": str(self.source.parent), "PYTHONDONTWRITEBYTECODE": "1"}
        return self.run(
            self.python,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
            "--rootdir",
            ROOT / "python",
            ROOT / f"python/tests/{self.tests}{bug.test}.py",
            "-k",
            bug.names,
            env=environment,
            seconds=900,
        )


class Torch(Package):
    tests = "with_torch/test_torch_"

    def __init__(self, work: pathlib.Path, log: Any, options: argparse.Namespace) -> None:
        super().__init__(work, log, options)
        self.python = options.torch_python


class Page(Room):
    """The page of reports, which scripts draw."""

    def prepare(self) -> str | None:
        for name in ("python", "tests/page", "tests/golden", "tests/with_python.sh", "report/schema"):
            if (ROOT / name).is_dir():
                shutil.copytree(
                    ROOT / name, self.source / name, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
                )
            elif (ROOT / name).exists():
                shutil.copy(ROOT / name, self.source / name)
        return (
            None if self.run("python3", "-c", "import matplotlib, jinja2") else "no Python with matplotlib and Jinja2"
        )

    def passes(self, bug: Bug) -> bool:
        return self.run(
            self.source / "tests/with_python.sh",
            "matplotlib,jinja2",
            "-m",
            "unittest",
            bug.test,
            "-k",
            bug.names,
            cwd=self.source / "tests/page",
            seconds=600,
        )


KINDS: dict[str, type[Room]] = {"package": Package, "halfulp_torch": Torch, "page": Page}  # all others: Cpp


def lost(bugs: dict[str, list[Bug]]) -> Iterator[str]:
    """What keeps a list from being planted."""
    titles = [bug.title for room in bugs.values() for bug in room]
    yield from sorted(f"two bugs have the title: {title}" for title in set(titles) if titles.count(title) > 1)
    for name, room in bugs.items():
        kind = KINDS.get(name, Cpp)
        for bug in room:
            found = len(kind.find(bug, (kind.folder / bug.file).read_text()))
            if found != 1:
                yield f"{bug.file} should hold once, not {found} times: {bug.right.strip()}"


def try_room(room: Room, bugs: list[Bug], tell: Callable[[Bug, str, float], None]) -> str | None:
    trouble = room.prepare()
    if trouble or not bugs:
        return trouble
    for bug in {(bug.test, bug.names): bug for bug in bugs}.values():
        if not room.make(bug) or not room.passes(bug):
            return f"{bug.test} {bug.names} fails, or holds no test, without any bug"
    for bug in bugs:
        began = time.monotonic()
        if any(part in bug.title and not there for part, there in NEEDS.items()):
            tell(bug, "skipped", 0)
            continue
        path = room.source / bug.file
        text = path.read_text()
        ((begin, end),) = room.find(bug, text)
        path.write_text(text[:begin] + bug.wrong + text[end:])
        try:
            outcome = "does not compile" if not room.make(bug) else "missed" if room.passes(bug) else "caught"
        finally:
            path.write_text(text)
        tell(bug, outcome, time.monotonic() - began)
    return None


def keep(path: pathlib.Path, title: str, result: dict[str, str]) -> None:
    """Puts a result into a file, which other runs may do at the same time."""
    with open(path, "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        results = json.loads(file.read() or "{}")
        results[title] = result
        file.seek(0)
        file.truncate()
        lines = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in sorted(results.items()))
        file.write("{\n" + ",\n".join(lines) + "\n}\n")


def main() -> int:
    known = lists()
    parser = argparse.ArgumentParser(
        description="Plants bugs, one at a time, in a copy of the sources, and sees that the test named beside each one fails.",
        epilog="Exit status: 0 every bug was caught, 1 one was not, 2 the sources no longer hold the text that a bug replaces.",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="build nothing; see that the sources hold the text of each bug exactly once",
    )
    parser.add_argument("--rooms", default=",".join(known), help=f"which lists, by commas (default: {','.join(known)})")
    parser.add_argument("--only", default="", metavar="WORD", help="only bugs whose titles contain it")
    parser.add_argument(
        "--work",
        type=pathlib.Path,
        default=ROOT / "build" / "mutants",
        help="folder for a copy of the sources and its builds (default: build/mutants)",
    )
    parser.add_argument(
        "--package",
        type=pathlib.Path,
        default=ROOT / "build" / "release" / "python",
        help="the built package (default: build/release/python)",
    )
    parser.add_argument(
        "--python",
        default=ROOT / "build" / "python-venv" / "bin" / "python",
        help="a Python with pytest (default: build/python-venv's)",
    )
    parser.add_argument(
        "--torch-python",
        default=os.environ.get("HALFULP_TORCH_PYTHON", ROOT / "build" / "torch-venv" / "bin" / "python"),
        help="a Python with torch too (default: HALFULP_TORCH_PYTHON, or build/torch-venv's)",
    )
    parser.add_argument(
        "--results", type=pathlib.Path, help="a file of results to bring up to date, such as tests/mutants/results.json"
    )
    arguments = parser.parse_args()
    if unknown := set(arguments.rooms.split(",")) - set(known):
        parser.error(f"--rooms: {', '.join(sorted(unknown))}; accepted: {', '.join(known)}")
    rooms = list(dict.fromkeys(arguments.rooms.split(",")))
    if not any(arguments.only in bug.title for name in rooms for bug in known[name]):
        parser.error(f"--only {arguments.only}: in the title of no bug of these rooms")
    troubles = list(lost(known))
    for trouble in troubles:
        print(f"mutants: {trouble}", file=sys.stderr)
    if troubles or arguments.check:
        return 2 if troubles else 0

    work = arguments.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    revision = subprocess.run(["git", "describe", "--always"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    changed = subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True).stdout
    if any("tests/mutants/results.json" not in line for line in changed.splitlines()):  # those are what this writes
        revision += "-dirty"
    cpu = re.search(r"model name\s*: (.*)", CPU)
    outcomes: list[str] = []
    status = 0
    with open(work / "log.txt", "w") as log:
        for name in rooms:
            bugs = [bug for bug in known[name] if arguments.only in bug.title]

            def tell(bug: Bug, outcome: str, seconds: float) -> None:
                outcomes.append(outcome)
                print(
                    f"{outcome if outcome in ('caught', 'skipped') else outcome.upper()}  {bug.title} ({bug.test}, {seconds:.0f} s)",
                    flush=True,
                )
                if arguments.results and outcome != "skipped":
                    keep(
                        arguments.results,
                        bug.title,
                        {
                            "outcome": outcome,
                            "test": bug.test,
                            "date": datetime.date.today().isoformat(),
                            "revision": revision,
                            "cpu": cpu[1] if cpu else "unknown",
                        },
                    )

            if trouble := try_room(KINDS.get(name, Cpp)(work, log, arguments), bugs, tell):
                print(f"mutants: {name}: {trouble}; see {log.name}", file=sys.stderr)
                status = 1
    count = {outcome: outcomes.count(outcome) for outcome in ("caught", "missed", "does not compile", "skipped")}
    print(f"{len(outcomes)} bugs: " + ", ".join(f"{n} {outcome}" for outcome, n in count.items()))
    return 1 if status or len(outcomes) != count["caught"] + count["skipped"] else 0


if __name__ == "__main__":
    sys.exit(main())
