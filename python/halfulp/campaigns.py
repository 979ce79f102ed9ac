"""A campaign on many machines: Dask's distributed scheduler gives the trials that a store lacks to workers.

Everything that is done is in the store. So a worker may die, hang or join late, and the scheduler may restart: what is then missing
is asked for again, and two workers that compute the same trial write the same record.
"""
from __future__ import annotations

import argparse
import asyncio
import concurrent.futures
import contextlib
import json
import logging
import os
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence, Tuple

from . import _command, _core

FAILURES = 3  # of one trial, before the campaign gives up
PIECE_SECONDS = 20.0  # what a worker gets at a time, once it is known how long trials take
PATIENCE = 60.0  # seconds without an answer beyond what a piece should take, after which another worker gets it too
RECONNECT = 300.0  # seconds in which a scheduler that went away may come back

Note = Callable[[str], None]
Waiting = Tuple[int, str, str]  # a trial's point, key and label


class CampaignFailed(RuntimeError):
    """A trial failed three times; what it said."""


def program() -> str:
    """What two machines compare: trials of other revisions are not used."""
    return _command.text(["--version"]).splitlines()[0]


def records_of(store: str | os.PathLike[str]) -> dict[str, bytes]:
    """The files of a store by their paths in it: what says that it is one, and its records."""
    folder = Path(store)
    files = [*folder.glob("halfulp-store.json"), *sorted(folder.glob("*/??/*.trial"))]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def keep_records(store: str | os.PathLike[str], records: Mapping[str, bytes]) -> None:
    """Writes records that a store lacks, each whole."""
    for name, content in records.items():
        file = Path(store, name)
        if file.exists():
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor, unfinished = tempfile.mkstemp(dir=file.parent)
        with os.fdopen(descriptor, "wb") as out:
            out.write(content)
        os.chmod(unfinished, 0o644)
        os.replace(unfinished, file)


def compute(experiment: str, config: Mapping[str, Any], keys: Sequence[str], store: str | None, backend: str, expected: str,
            base: Mapping[str, bytes] | None = None) -> dict[str, Any]:
    """On a worker: computes trials into the store or, without one, on top of the records `base`, and returns new records."""
    mine = program()
    if mine != expected:
        return {"program": mine, "host": socket.gethostname()}
    start = time.monotonic()
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="halfulp-trials-")) if store is None else store
        keep_records(folder, base or {})
        file = stack.enter_context(_command.file_of(config, "config"))
        _command.text(["trial", "--store=" + str(folder), "--config=" + file, "--backend=" + backend, "--threads=1", "--quiet", "--", experiment, *keys])
        new = {} if store is not None else {name: content for name, content in records_of(folder).items() if name not in (base or {})}
    return {"seconds": time.monotonic() - start, "host": socket.gethostname(), "records": new}


def _dask() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise ValueError(f"a cluster needs Dask: pip install 'halfulp[cluster]' ({error})") from None
    return distributed


class Engine:
    """The connection to a cluster. `started`: whether it is this process's own."""

    def __init__(self, scheduler: str | None, workers: int | None, slurm: Mapping[str, Any] | None, note: Note) -> None:
        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # a lost connection is told in one line, not in tracebacks
        self._dask, self._scheduler, self._note, self._cluster = _dask(), scheduler, note, None
        if slurm is not None:
            try:
                from dask_jobqueue import SLURMCluster
            except ImportError as error:
                raise ValueError(f"slurm: needs dask-jobqueue: pip install dask-jobqueue ({error})") from None
            self._cluster = SLURMCluster(**{"cores": 1, "processes": 1, "memory": "2GB", **slurm})
            self._cluster.scale(jobs=workers or 1)
        elif scheduler is None:
            self._cluster = self._dask.LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0")
        self.client = self._connect(10)
        note(f"dashboard: {self.client.dashboard_link}")

    def _connect(self, seconds: float) -> Any:
        try:
            return self._dask.Client(self._cluster if self._cluster is not None else self._scheduler, timeout=seconds)
        except (OSError, ValueError, TimeoutError) as error:
            raise ValueError(f"scheduler: nothing answers at {self._scheduler}; accepted: the address that `dask scheduler` prints ({type(error).__name__})") from None

    def reconnect(self) -> None:
        """After the scheduler went away: waits for it."""
        self._note("the scheduler does not answer; waiting for it")
        with contextlib.suppress(Exception):
            self.client.close(timeout=2)
        end = time.monotonic() + RECONNECT
        while True:
            try:
                self.client = self._connect(10)
                self._note("the scheduler answers again")
                return
            except ValueError:
                if time.monotonic() > end:
                    raise
                time.sleep(2)

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self.client.close(timeout=5)
        if self._cluster is not None:
            with contextlib.suppress(Exception):
                self._cluster.close(timeout=10)


class Round:
    """The trials that are missing now: one stage of every point."""

    def __init__(self, listed: Mapping[str, Any], store: str, shared: bool, backend: str, engine: Engine, note: Note, failures: dict[str, int]) -> None:
        self.points, self.experiment, self.there = listed["points"], listed["experiment"], listed["there"]
        self.waiting: dict[int, list[Waiting]] = {}  # by point
        self.alone: list[Waiting] = []  # what failed, or failed together with others
        for one in listed["missing"]:
            self.waiting.setdefault(one["point"], []).append((one["point"], one["key"], one["label"]))
        self.total, self.done = len(listed["missing"]), set[str]()
        self.store, self.shared, self.backend, self.engine, self.note, self.failures = store, shared, backend, engine, note, failures
        self.mine, self.seconds = program(), None  # seconds: of one trial, as it was so far
        self.running: dict[Any, tuple[list[Waiting], float]] = {}
        self.begun, self.told = time.monotonic(), 0.0
        self.silent = set[str]()  # workers that get nothing more
        self.base: Any = None

    def left(self) -> int:
        return len(self.alone) + sum(map(len, self.waiting.values()))

    def piece(self) -> list[Waiting]:
        """The next trials for one worker, all of one point."""
        if self.alone:
            return [self.alone.pop(0)]
        size = 1 if self.seconds is None else max(1, int(PIECE_SECONDS / max(self.seconds, 1e-3)))
        size = min(size, max(1, self.left() // (4 * max(1, self.threads()))))  # towards the end smaller ones
        point, queue = next(iter(self.waiting.items()))
        taken, self.waiting[point] = queue[:size], queue[size:]
        if not self.waiting[point]:
            del self.waiting[point]
        return taken

    def threads(self) -> int:
        return sum(self.engine.client.nthreads().values())

    def wait_for_a_worker(self) -> None:
        end, told = time.monotonic() + RECONNECT, False
        while not self.threads():
            if time.monotonic() > end:
                raise CampaignFailed(f"no worker for {RECONNECT:.0f} s; accepted: some that are connected to the scheduler (dask worker ADDRESS)")
            if not told:
                self.note("no worker is there; waiting for one")
            told = True
            time.sleep(0.5)

    def submit(self, piece: list[Waiting]) -> None:
        others = [address for address in self.engine.client.nthreads() if address not in self.silent] if self.silent else []
        future = self.engine.client.submit(compute, self.experiment, self.points[piece[0][0]]["config"], [key for _, key, _ in piece],
                                           self.store if self.shared else None, self.backend, self.mine, self.base, pure=False, workers=others or None)
        self.running[future] = (piece, time.monotonic())

    def run(self) -> None:
        dask: Any = _dask()
        self.wait_for_a_worker()
        if not self.shared:
            self.base = self.engine.client.scatter([records_of(self.store)])[0]  # a dict alone would be scattered by members
        while self.left() or self.running:
            if not self.running:
                self.wait_for_a_worker()
            while self.left() and len(self.running) < 2 * max(1, self.threads()):
                self.submit(self.piece())
            with contextlib.suppress(dask.TimeoutError):
                dask.wait(list(self.running), timeout=1, return_when="FIRST_COMPLETED")
            for future in [one for one in self.running if one.done()]:
                self.finish(future, self.running.pop(future)[0])
            self.look_for_silent_workers()
            self.say()

    def finish(self, future: Any, piece: list[Waiting]) -> None:
        if future.status == "cancelled":
            raise ConnectionError("the scheduler forgot a task")
        if future.status == "error":
            return self.failed(future.exception(), piece)
        answer = future.result()
        if "program" in answer:
            raise ValueError(f"worker on {answer['host']}: {answer['program']}; this is {self.mine}; accepted: workers of the same revision")
        keep_records(self.store, answer["records"])
        each = answer["seconds"] / len(piece)
        self.seconds = each if self.seconds is None else 0.7 * self.seconds + 0.3 * each
        self.done |= {key for _, key, _ in piece}

    def failed(self, error: BaseException, piece: list[Waiting]) -> None:
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        if type(error).__name__ == "KilledWorker":
            text = "the workers that computed it died"
        if len(piece) > 1:  # which one it was shows when each is alone
            self.note(f"{len(piece)} trials failed together, and are tried alone: {text}")
        else:
            _, key, label = piece[0]
            self.failures[key] = self.failures.get(key, 0) + 1
            if self.failures[key] >= FAILURES:
                raise CampaignFailed(f"trial {label} ({key}) failed {FAILURES} times: {text}")
            self.note(f"trial {label} failed, and is tried again: {text}")
        self.alone += piece

    def look_for_silent_workers(self) -> None:
        """A worker that is frozen keeps its connection: after a while another one gets its piece too."""
        now = time.monotonic()
        slow = [(future, piece) for future, (piece, began) in self.running.items()
                if now - began > PATIENCE + 8 * (self.seconds or PATIENCE) * len(piece)]
        if not slow:
            return
        processing = self.engine.client.processing()
        for future, piece in slow:
            silent = {address for address, keys in processing.items() if future.key in keys}
            if not set(processing) - silent - self.silent:  # nobody else is there
                continue
            if silent - self.silent:
                self.note(f"worker {', '.join(sorted(silent))} has been silent for long; its trials go to others")
            self.silent |= silent
            self.running.pop(future)
            self.submit(piece)
            future.release()

    def say(self) -> None:
        now = time.monotonic()
        if now - self.told < 10 or not self.done:
            return
        self.told = now
        left = (now - self.begun) / len(self.done) * (self.total - len(self.done))
        self.note(f"{len(self.done)} of {self.total} trials, about {left:.0f} s left")


def run_on_cluster(specification: str, store: str, arguments: Sequence[str], *, backend: str, scheduler: str | None, workers: int | None,
                   slurm: Mapping[str, Any] | None, shared: bool, note: Note) -> None:
    """Fills the store with every trial of the campaign. arguments: further options of `halfulp campaign`."""
    failures: dict[str, int] = {}
    listed = _listed(specification, store, arguments)
    if not listed["missing"]:
        return
    engine = Engine(scheduler, workers, slurm, note)
    try:
        while listed["missing"]:
            round_ = Round(listed, store, shared, backend, engine, note, failures)
            try:
                round_.run()
            except (OSError, TimeoutError, concurrent.futures.CancelledError, asyncio.CancelledError):  # the connection, or what it carried
                if scheduler is None:
                    raise
                engine.reconnect()
            before, listed = {one["key"] for one in listed["missing"]}, _listed(specification, store, arguments)
            if round_.done and {one["key"] for one in listed["missing"]} >= before:
                raise CampaignFailed(f"workers computed {len(round_.done)} trials, and {store} has none of them; accepted: a folder that all workers see, or shared=False (--unshared)")
    finally:
        engine.close()


def _listed(specification: str, store: str, arguments: Sequence[str]) -> dict[str, Any]:
    listed: dict[str, Any] = _command.parsed(["campaign", "--json", "--list", "--store=" + store, *arguments, "--", specification])
    return listed


def say(line: str) -> None:
    print("campaign: " + line, file=sys.stderr, flush=True)


def wanted(arguments: Sequence[str]) -> bool:
    """Whether a command line of `halfulp campaign` asks for a cluster."""
    return any(word.split("=")[0] in ("--scheduler", "--workers", "--slurm") for word in arguments)


def main(arguments: Sequence[str]) -> int:
    """`python3 -m halfulp campaign FILE --store DIR --scheduler ADDRESS`: the trials on a cluster, then the report here."""
    parser = argparse.ArgumentParser(prog="halfulp campaign", add_help=False, allow_abbrev=False)
    parser.add_argument("specification")
    parser.add_argument("--store", required=True)
    parser.add_argument("--backend", default="emulated")
    parser.add_argument("--scheduler")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--slurm", type=json.loads, help="options of dask_jobqueue.SLURMCluster, as JSON")
    parser.add_argument("--unshared", action="store_true", help="workers do not see the store's folder: records come back by the engine")
    parser.add_argument("--max-points")
    own, rest = parser.parse_known_args(list(arguments))
    points = [] if own.max_points is None else ["--max-points=" + own.max_points]
    try:
        if own.specification == "-":
            raise ValueError("standard input is read once; accepted for a cluster: a file")
        run_on_cluster(own.specification, own.store, ["--backend=" + own.backend, *points], backend=own.backend, scheduler=own.scheduler,
                       workers=own.workers, slurm=own.slurm, shared=not own.unshared, note=say)
    except (ValueError, CampaignFailed) as error:
        print("halfulp: " + str(error), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("halfulp: interrupted; what is done is in the store", file=sys.stderr)
        return 130
    return int(_core.program(["campaign", "--store=" + own.store, "--backend=" + own.backend, *points, *rest, own.specification]))
