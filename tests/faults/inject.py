#!/usr/bin/env python3
"""Lets calls of the C library fail, one at a time, in every command that writes, and looks at what is left.

usage: inject.py PROGRAM LIBRARY [--most N] [--only WORD]

PROGRAM is halfulp, LIBRARY the one that preloaded.cpp makes. Each command runs once to count its calls of each
function; then once more for every call that fails (--most: for at most N of each function, evenly spread). Whatever
failed, the command must end by itself, with status 0, 2 or 70, one line of error unless it is 0, and files that are all
as before, or all as without the failure. A process that is killed instead may leave a temporary file; a further run
must not mind it. Exit status: 0 all that, 1 not.
"""
import argparse
import concurrent.futures
import dataclasses
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

EXHAUSTIVE = bool(os.environ.get("HALFULP_EXHAUSTIVE"))
EARLIER = b"what was there before\n"
# Failures that must not show: the command succeeds, with the same files.
HARMLESS = {"short_write", "interrupted_write", "fchmod", "clock"}
# Also tried: all calls from some moment on fail. (If no file can be renamed any more, nothing can be taken back.)
LASTING = ["write", "pwrite", "open", "malloc", "thread", "clock"]


@dataclasses.dataclass
class Command:
    """Words with {in} and {out}, the folders of its inputs and of what it writes."""
    name: str
    words: str
    files: tuple = ()  # in {out}; earlier ones are put there before every other run
    stores: tuple = ()  # folders of records in {out}: each record is whole or absent
    text: str = ""  # of standard input
    extra: tuple = ()  # what may be left of a command that fails: it keeps its work there
    slow: bool = False  # only in the exhaustive run, with few faults
    first: tuple = ()  # of `files`: those that are kept where a later one cannot be written
    system_calls: bool = False  # also killed at its system calls, where strace is installed
    needs: str = ""  # a module of Python


SMALL = "underflow --set count=300"
TRIALS = ("position_ids --set formats=bf16 --set lengths=256 --set rope_dim=16 --set alibi_heads=1 --set score_pairs=16"
          " --set pixels=8 --set patch=4")
TRAINING = ("training --set networks=mlp --set policies=bf16-sr --set steps=2 --set seeds=1 --set width=8"
            " --set test_examples=16 --set train_examples=64 --set intervals=2")
COMMANDS = [
    Command("run", f"run {SMALL} --quiet --backend emulated --out {{out}}/report.json", ("report.json",),
            system_calls=True),
    Command("run with a store", f"run {TRIALS} --quiet --backend emulated --store {{out}}/store"
            " --out {out}/report.json", ("report.json",), ("store",)),
    Command("run with checkpoints", f"run {TRAINING} --quiet --backend emulated --set checkpoints={{out}}/checkpoints"
            " --out {out}/report.json", ("report.json",), extra=("checkpoints",)),
    Command("trial", f"trial {TRIALS} --quiet --backend emulated --store {{out}}/store", (), ("store",)),
    Command("campaign", "campaign {in}/sweep.json --quiet --store {out}/store --out {out}/report.json",
            ("report.json",), ("store",)),
    Command("quantize an array", "quantize {in}/array.npy --format nvfp4 --out {out}/values.npy --codes {out}/codes.npy"
            " --scales {out}/scales.npy", ("values.npy", "codes.npy", "scales.npy")),
    Command("quantize to standard output", "quantize {in}/array.npy --format e4m3 --json"),
    Command("quantize a checkpoint", "quantize {in}/model --format e4m3-row --quiet --threads 2"
            " --out {out}/new.safetensors --report {out}/report.json", ("new.safetensors", "report.json"),
            first=("new.safetensors",)),
    Command("inspect", "inspect {in}/model --formats e4m3 --quiet --backend emulated --out {out}/report.json",
            ("report.json",)),
    Command("choose", "choose {in}/model --bits 6 --quiet --backend emulated --mix {out}/mix.json"
            " --out {out}/report.json", ("mix.json", "report.json")),
    Command("sample", "sample --shape 64,64 --out {out}/sample.npy", ("sample.npy",)),
    Command("record", "record --backend rehearsal --quick --quiet --out {out}/recording", extra=("recording",),
            slow=True),
    Command("verify", "verify add --format e4m3 --against oracle --quiet --json --ledger {out}/ledger.json",
            extra=("ledger.json",)),
    Command("verify with a state", "verify mul --format e5m2 --against oracle --round all --quiet --json"
            " --state {out}/state", extra=("state",)),
    Command("recommend", "recommend --tensors {in}/model --quiet --backend emulated --out {out}/report.json",
            ("report.json",)),
    Command("eval", "eval --format fp16 add", text="3C00 3C00\n0001 7BFF\n"),
    Command("calc", "calc 0.1+0.2"),
    Command("show", "show {in}/report.json"),
    Command("probe", "probe --backend emulated:hopper.wgmma.e4m3.fp32 --json"),
    Command("page", f"page {{in}}/report.json --python {sys.executable} --out {{out}}/page.html", ("page.html",),
            slow=True, needs="matplotlib"),
    Command("ledger", "ledger {in}/ledger.json"),
    Command("man", "man --out {out}/man", extra=("man",)),
]


def content(path):
    """What must be the same in two runs: all of a file; of a report all but where and when it was made."""
    data = path.read_bytes()
    if path.suffix != ".json" or data == EARLIER:
        return data
    value = json.loads(data)
    value.pop("environment", None)
    return json.dumps(value).replace(str(path.parent), "{out}")


class Bench:
    """Runs a command in a folder of its own."""

    def __init__(self, program, library, folder):
        self.program, self.library, self.folder = program, library, folder

    def words(self, command, out):
        return [self.program] + [word.replace("{in}", str(self.folder / "in")).replace("{out}", str(out))
                                 for word in command.words.split()]

    def run(self, command, out, fault=None, counts=None):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("HALFULP_FAULT")}
        if fault or counts:
            environment["LD_PRELOAD"] = self.library
        words = self.words(command, out)
        if fault and fault.startswith("system_call:"):
            killed = "inject=all:signal=KILL:when=" + fault.partition(":")[2]
            words = ["strace", "--follow-forks", "--output=/dev/null", "-e", killed, *words]
            environment.pop("LD_PRELOAD")
        elif fault:
            environment["HALFULP_FAULT"] = fault
        if counts:
            environment["HALFULP_FAULT_COUNTS"] = str(counts)
        return subprocess.run(words, input=command.text, capture_output=True, text=True, timeout=120,
                              env=environment, cwd=self.folder)

    def reference(self, command):
        """What the command writes when nothing fails, and how often it calls what."""
        out = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        counts = self.folder / "counts"
        result = self.run(command, out, counts=counts)
        if result.returncode != 0:
            raise SystemExit(f"{command.name}: status {result.returncode} without a fault: {result.stderr}")
        calls = {name: int(count) for name, count in (line.split() for line in counts.read_text().splitlines())}
        files = {name: content(out / name) for name in command.files}
        if command.system_calls and not shutil.which("strace"):
            print(f"{command.name}: not killed at its system calls, there is no strace")
        elif command.system_calls:
            log = self.folder / "strace"
            subprocess.run(["strace", "--follow-forks", f"--output={log}", *self.words(command, out)], check=True,
                           stdout=subprocess.DEVNULL, cwd=self.folder)
            calls["system_call"] = len(log.read_text().splitlines())
        shutil.rmtree(out)
        return result.stdout.replace(str(out), "{out}"), files, calls

    def problem(self, command, expected, fault, has_earlier):
        """Why what a fault left is wrong; empty if it is not."""
        out = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        try:
            if has_earlier:
                for name in command.files:
                    (out / name).write_bytes(EARLIER)
            result = self.run(command, out, fault)
            return self.judged(command, expected, fault, has_earlier, out, result)
        except subprocess.TimeoutExpired:
            return "does not end"
        finally:
            shutil.rmtree(out, ignore_errors=True)

    def judged(self, command, expected, fault, has_earlier, out, result):
        kind = fault.partition(":")[0]
        killed = kind in ("kill", "system_call")
        status = result.returncode
        # strace counts the calls of each thread on its own.
        if status not in ((-9, 0) if kind == "system_call" else (-9,) if killed else (0, 2, 70)):
            return f"status {status}: {result.stderr[-300:]}"
        if kind in HARMLESS and status != 0:
            return f"status {status}: {result.stderr[-300:]}"
        if status in (2, 70) and (result.stderr.count("\n") != 1 or not result.stderr.startswith("halfulp: ")):
            return f"status {status} with the error {result.stderr!r}"
        if status == 70 and "internal error" in result.stderr:
            return f"an internal error: {result.stderr!r}"
        if status == 0 and result.stdout.replace(str(out), "{out}") != expected[0] and not command.extra:
            return "status 0, and another answer on standard output"
        new, before = [], []
        for name, wanted in expected[1].items():
            path = out / name
            try:
                new.append(path.exists() and content(path) == wanted)
            except ValueError:
                new.append(False)
            is_there = path.exists()
            before.append(path.read_bytes() == EARLIER if has_earlier and is_there else has_earlier == is_there)
        if status == 0 and not all(new):
            return "status 0, and not every file is new"
        # A kill may come between two renames.
        some = killed or [name for name, n in zip(command.files, new) if n] == list(command.first)
        if not all(n or b for n, b in zip(new, before)) or not (all(new) or all(before) or some):
            return f"new are {new}, as before {before}, status {status}: {result.stderr}"
        allowed = set(command.files) | set(command.stores) | set(command.extra)
        # An empty lock file locks nothing once its process is gone.
        left = {path.name for path in out.iterdir() if not path.name.endswith(".lock")} - allowed
        if left and not killed and kind != "unlink":
            return f"left behind: {sorted(left)}, status {status}"
        for store in command.stores:
            if (out / store).exists() and any((out / store).iterdir()) and not killed:
                check = subprocess.run([self.program, "store", out / store, "--check"], capture_output=True, text=True)
                if check.returncode != 0:
                    return f"status {status}, and the store: {check.stdout}{check.stderr}"
        if killed or command.stores or command.extra:
            again = self.run(command, out)
            is_there = "record" in command.words and (out / "recording").exists()
            if again.returncode != 0 and not (is_there and again.returncode == 2):
                return f"status {status}; a further run has {again.returncode}: {again.stderr[-300:]}"
            for name, wanted in expected[1].items():
                if content(out / name) != wanted:
                    return f"status {status}; a further run gives another {name}"
        return ""


def faults(calls, most):
    """(fault, number) for the calls of a command: each, or at most so many of each function."""
    for kind, count in calls.items():
        if count == 0:
            continue
        some = min(count, most)
        for n in [1 + (count - 1) * i // max(some - 1, 1) for i in range(some)]:
            yield f"{kind}:{n}", n
            if kind in LASTING:
                yield f"{kind}:{n}+", n


def make_inputs(program, folder):
    (folder / "in" / "model").mkdir(parents=True)
    for path, shape in [("array.npy", "24,32"), ("model/first.npy", "32,64"), ("model/second.npy", "64,16")]:
        subprocess.run([program, "sample", "--shape", shape, "--out", folder / "in" / path], check=True,
                       stdout=subprocess.DEVNULL)
    subprocess.run([program, "run", *SMALL.split(), "--quiet", "--backend", "emulated",
                    "--out", folder / "in" / "report.json"], check=True)
    subprocess.run([program, "verify", "add", "--format", "e4m3", "--against", "oracle", "--quiet",
                    "--ledger", folder / "in" / "ledger.json"], check=True, stdout=subprocess.DEVNULL)
    (folder / "in" / "sweep.json").write_text(json.dumps({"experiment": "underflow", "grid": {"count": [200, 300]}}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("library")
    parser.add_argument("--most", type=int, default=60 if EXHAUSTIVE else 2)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    for file in (options.program, options.library):
        if not pathlib.Path(file).is_file():
            parser.error(f"{file}: no such file")
    if options.most < 1:
        parser.error(f"--most is {options.most}; accepted: 1 and more")
    if not any(options.only in command.name for command in COMMANDS):
        names = ", ".join(command.name for command in COMMANDS)
        parser.error(f"--only {options.only}: in the name of no command; accepted: a part of {names}")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="halfulp-faults-"))
    failed = injected = 0
    try:
        options.program = str(pathlib.Path(options.program).resolve())
        bench = Bench(options.program, str(pathlib.Path(options.library).resolve()), folder)
        make_inputs(options.program, folder)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for command in COMMANDS:
                if options.only not in command.name or (command.slow and not EXHAUSTIVE):
                    continue
                if command.needs and not importlib.util.find_spec(command.needs):
                    print(f"{command.name}: skipped, this Python has no {command.needs}")
                    continue
                expected = bench.reference(command)
                chosen = list(faults(expected[2], min(options.most, 2) if command.slow else options.most))
                problems = pool.map(lambda f, c=command, e=expected: bench.problem(c, e, f[0], f[1] % 2 == 0), chosen)
                wrong = 0
                for (fault, _), problem in zip(chosen, problems):
                    injected += 1
                    if problem:
                        wrong += 1
                        print(f"{command.name}, {fault}: {problem}", flush=True)
                failed += wrong
                print(f"{command.name}: {len(chosen)} faults, {wrong} survived badly", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{injected} faults injected, {failed} survived badly")
    return 1 if failed or not injected else 0


if __name__ == "__main__":
    sys.exit(main())
