#!/usr/bin/env python3
"""Each command's memory stays within what docs/reference/limits.md states.

usage: test_limits.py PROGRAM [--show]     (--show: what was measured, too)

A row of that page has a command and "A MiB", or "A MiB + B times the file". Here each command is given files of two
sizes, where there is a file, and the largest memory that the kernel saw of it must be below. Exit status: 0 all are,
1 one is not, or a row and a command have no partner.
"""

from __future__ import annotations

import array
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "reference" / "limits.md"
MIB = 1 << 20
ROW = re.compile(
    r"^\| `(?P<command>[^`]+)` \|.*\| (?P<fixed>\d+) MiB(?: \+ (?P<times>[\d.]+) times the (?:file|line))? \|", re.M
)
SMALL = """import os, resource, sys
status = os.spawnv(os.P_WAIT, sys.argv[1], sys.argv[1:])
print(status, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)"""


class Bench:
    def __init__(self, program: str, folder: pathlib.Path) -> None:
        self.program, self.folder = program, folder
        rng = random.Random(1)
        self.numbers = array.array("f", (rng.gauss(0, 1) for _ in range(MIB // 4))).tobytes()

    def matrix(self, mib: int) -> pathlib.Path:
        """An array of fp32 of so many MiB."""
        return self.npy(self.folder / f"array{mib}.npy", mib)

    def npy(self, path: pathlib.Path, mib: int) -> pathlib.Path:
        """A .npy file whose every 256 rows of 1024 numbers are the same."""
        if not path.exists():
            header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({256 * mib}, 1024), }}".ljust(117) + "\n"
            with open(path, "wb") as file:
                file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
                for _ in range(mib):
                    file.write(self.numbers)
        return path

    def model(self, mib: int) -> pathlib.Path:
        """A checkpoint of four tensors that together have so many MiB."""
        path = self.folder / f"model{mib}"
        if not path.exists():
            path.mkdir()
            for i in range(4):
                self.npy(path / f"{i}.npy", mib // 4)
        return path

    def report(self, mib: int) -> pathlib.Path:
        """A report of about so many MiB: an experiment's, with its rows many times."""
        path = self.folder / f"report{mib}.json"
        if not path.exists():
            made = ["run", "underflow", "--quiet", "--backend", "emulated", "--out", path]
            subprocess.run([self.program, *made], check=True)
            one = json.loads(path.read_text())
            table = max(one["results"].values(), key=lambda table: len(json.dumps(table["rows"])))
            table["rows"] *= max(1, mib * MIB // len(json.dumps(table["rows"])))
            path.write_text(json.dumps(one))
        return path

    def peak(self, words: list[object], text: bytes | None) -> float:
        """The largest memory of a command, in MiB."""
        (self.folder / "in").write_bytes(text or b"")
        # The kernel counts what a process had before it became another program, so a small one starts it.
        with open(self.folder / "in", "rb") as given:
            ran = subprocess.run(
                [sys.executable, "-I", "-S", "-c", SMALL, self.program, *map(str, words)],
                stdin=given,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                cwd=self.folder,
            )
        status, kib = map(int, ran.stderr.splitlines()[-1].split())
        if status == 3:  # such as a CPU without F16C
            print(f"{words[0]}: {ran.stderr.splitlines()[0]}")
        elif status not in (0, 1):
            raise SystemExit(f"{' '.join(map(str, words))}: status {status}: {ran.stderr}")
        return kib / 1024


def commands(b: Bench) -> dict[str, list[tuple[list[object], bytes | None, float]]]:
    """By the page's names: words, standard input, MiB of the file or input."""

    def each(sizes: tuple[int, ...], words) -> list[tuple[list[object], bytes | None, float]]:
        return [(words(size), None, size) for size in sizes]

    def quantized(*words: str) -> list[tuple[list[object], bytes | None, float]]:
        return each(two, lambda n: ["quantize", b.matrix(n), *words, "--out", "x.npy"])

    def surveyed(command: str, *words: object) -> list[tuple[list[object], bytes | None, float]]:
        return each(two, lambda n: [command, b.model(n), *words, "--quiet"])

    two = (8, 32)
    line = b"3C00 " * 800_000 + b"| " + b"3C00 " * 800_000 + b"| 0000\n"
    return {
        "quantize ARRAY": quantized("--format", "e4m3"),
        "quantize ARRAY --format nvfp4": quantized("--format", "nvfp4"),
        "quantize ARRAY --format e4m3-tensor": quantized("--format", "e4m3-tensor"),
        "quantize CHECKPOINT": surveyed("quantize", "--format", "e4m3-row", "--out", "x.safetensors"),
        "inspect CHECKPOINT": surveyed("inspect", "--formats", "e4m3,nvfp4", "--out", "x.json"),
        "choose CHECKPOINT": surveyed("choose", "--bits", 6, "--mix", "mix.json", "--out", "x.json"),
        "eval": [(["eval", "--format", "fp16", "add"], b"3C00 3C00\n" * (MIB * n // 10), n) for n in (1, 4)],
        "mma": [(["mma", "--unit", "hopper.wgmma.fp16.fp32"], line, len(line) / MIB)],
        "verify": [
            (["verify", *words, "--quiet"], None, 0)
            for words in (
                ["add", "--format", "fp16", "--against", "oracle", "--sample", 1 << 18],
                ["convert", "--format", "fp32", "--to", "fp16", "--against", "x86", "--sample", 1 << 25],
            )
        ],
        "sample": [(["sample", "--shape", f"{n * 256},1024", "--out", "x.npy"], None, n) for n in (2, 8)],
        "run EXPERIMENT": [
            (["run", name, "--quiet", "--out", "x.json"], None, 0)
            for name in ("swamping", "underflow", "scaling", "accumulation")
        ],
        "show": each((1, 8), lambda n: ["show", b.report(n)]),
        "validate": each((1, 8), lambda n: ["validate", b.report(n)]),
        "diff": each((1, 8), lambda n: ["diff", b.report(n), b.report(n)]),
    }


def main() -> int:
    program, show = str(pathlib.Path(sys.argv[1]).resolve()), "--show" in sys.argv[2:]
    stated = {row["command"]: (float(row["fixed"]), float(row["times"] or 0)) for row in ROW.finditer(PAGE.read_text())}
    if hasattr(os, "sched_setaffinity"):  # buffers of more threads are not counted
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="halfulp-limits-") as folder:
        bench = Bench(program, pathlib.Path(folder))
        ours = commands(bench)
        for name in sorted(set(stated) ^ set(ours)):
            wrong += 1
            print(f"{name}: {'no command here' if name in stated else 'not on the page'}")
        for name, cases in ours.items():
            for words, text, size in cases:
                peak = bench.peak(words, text)
                fixed, times = stated.get(name, (0, 0))
                if show or peak > fixed + times * size:
                    print(f"{name}: {peak:.1f} MiB for {size:.1f}; stated: {fixed:.0f} + {times} times")
                wrong += peak > fixed + times * size
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
