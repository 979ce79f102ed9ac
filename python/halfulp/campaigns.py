"""A campaign on many machines: Dask's distributed scheduler gives the trials that a store lacks to workers.

Everything that is done is in the store. So a worker may die, hang or join late, and the scheduler may restart: what is then missing
is asked for again, and two workers that compute the same trial write the same record.
"""
from __future__ import annotations

import argparse
import asyncio
import concurrent.futures
import contextlib
import importlib.util
import json
import logging
import os
import secrets
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Mapping, NoReturn, Sequence, Tuple

from . import _command, _core

FAILURES = 3  # of one trial, before the campaign gives up
LOSSES = 20  # of the connection one after the other, without a trial between them
PIECE_SECONDS = 30.0  # what a worker gets at a time, once it is known how long trials of a point take
LEAST_SECONDS = 4.0  # the same towards the end, when workers share what is left
MOST_AROUND = 1.0  # seconds of a piece at most that count as starting it, rather than as its trials
PATIENCE = 30.0  # seconds without a worker's heartbeat, after which others get its trials
RECONNECT = 300.0  # seconds in which a scheduler that went away, or a first worker, may come
# Dask's profiler and its clocks of milliseconds take some percent of the cores that trials are computed on.
QUIET = {"distributed.worker.profile.enabled": False, "distributed.admin.tick.interval": "1s", "distributed.admin.system-monitor.interval": "10s"}

Note = Callable[[str], None]
Waiting = Tuple[int, str, str]  # a trial's point, key and label
MARKER = "halfulp-store.json"


class CampaignFailed(RuntimeError):
    """The campaign cannot go on: a trial failed three times, no worker came, or the store cannot be written. One line."""


class _Lost(Exception):
    """The connection to the scheduler, or what it carried."""


def program() -> str:
    """What two machines compare: trials of other revisions are not used."""
    return _command.text(["--version"]).splitlines()[0]


def file_of_key(key: str) -> str:
    """Where a store keeps the record of "training-1/9dfe...": report/trial_store.hpp."""
    kind, digest = key.split("/")
    return f"{kind}/{digest[:2]}/{digest[2:]}.trial"


def records_of(store: str | os.PathLike[str], without: Sequence[str] = ()) -> dict[str, bytes]:
    """The files of a store by their paths in it: what says that it is one, and its records but those of some keys."""
    folder, left_out = Path(store), {file_of_key(key) for key in without}
    files = [*folder.glob(MARKER), *sorted(folder.glob("*/??/*.trial"))]
    names = [file.relative_to(folder).as_posix() for file in files]
    return {name: (folder / name).read_bytes() for name in names if name not in left_out}


def keep_records(store: str | os.PathLike[str], records: Mapping[str, bytes], again: Sequence[str] = ()) -> None:
    """Writes records that a store lacks, each whole, and those of the keys `again` also where they are there."""
    replaced = {file_of_key(key) for key in again}
    for name, content in sorted(records.items(), key=lambda one: one[0] != MARKER):
        file = Path(store, name)
        if name not in replaced and file.exists():
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_name(f".{file.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")  # as the program names them: `halfulp store --prune` knows them
        unfinished.write_bytes(content)
        os.replace(unfinished, file)


def compute(experiment: str, config: Mapping[str, Any], keys: Sequence[str], store: str | None, backend: str, expected: str,
            base: Mapping[str, bytes] | None = None) -> dict[str, Any]:
    """On a worker: computes trials into the store or, without one, on top of the records `base`, and returns what is new."""
    mine = program()
    if mine != expected:
        return {"program": mine, "host": socket.gethostname()}
    start = time.monotonic()
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="halfulp-trials-")) if store is None else store
        asked = {file_of_key(key) for key in keys}
        if store is None:
            keep_records(folder, {name: content for name, content in (base or {}).items() if name not in asked})
        file = stack.enter_context(_command.file_of(config, "config"))
        _command.text(["trial", "--store=" + str(folder), "--config=" + file, "--backend=" + backend, "--threads=1", "--quiet", "--", experiment, *keys])
        new = {} if store is not None else {name: content for name, content in records_of(folder).items() if name in asked or name not in (base or {})}
    return {"seconds": time.monotonic() - start, "host": socket.gethostname(), "records": new}


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _dask() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise ValueError(f"a cluster needs Dask: pip install 'halfulp[cluster]' ({error})") from None
    return distributed


class Engine:
    """The connection to a cluster."""

    def __init__(self, scheduler: str | None, workers: int | None, slurm: Mapping[str, Any] | None, note: Note) -> None:
        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # a lost connection is told in one line, not in tracebacks
        self.dask, self._scheduler, self._note, self._cluster, self.queued = _dask(), scheduler, note, None, slurm is not None
        if slurm is not None:
            try:
                from dask_jobqueue import SLURMCluster
            except ImportError as error:
                raise ValueError(f"slurm: needs dask-jobqueue: pip install 'halfulp[cluster]' ({error})") from None
            self._cluster = SLURMCluster(**{"cores": 1, "processes": 1, "memory": "2GB", **slurm})
            self._cluster.adapt(minimum=0, maximum_jobs=workers or 1)  # jobs that reach their walltime are replaced
        elif scheduler is None:
            import dask

            with dask.config.set(QUIET):
                self._cluster = self.dask.LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0")
        self.client = self._connect(10)
        if slurm is None and scheduler is None:
            with contextlib.suppress(Exception):
                self.client.run(_ignore_interrupts)  # Ctrl-C is this process's
        if importlib.util.find_spec("bokeh"):
            note(f"dashboard: {self.client.dashboard_link}")

    def _connect(self, seconds: float) -> Any:
        try:
            return self.dask.Client(self._cluster if self._cluster is not None else self._scheduler, timeout=seconds)
        except (OSError, ValueError, TimeoutError) as error:
            raise ValueError(f"scheduler: nothing answers at {self._scheduler}; accepted: the address that `dask scheduler` prints ({type(error).__name__})") from None

    def reconnect(self) -> None:
        """After the connection was lost: waits for the scheduler."""
        if self.client.status == "running":  # Dask was faster
            self._note("what was given away is lost; the scheduler answers again")
            return
        if self._scheduler is None:
            raise CampaignFailed("the cluster's own scheduler is gone; what is done is in the store")
        self._note("the scheduler does not answer; waiting for it")
        with contextlib.suppress(Exception):
            self.client.close(timeout=2)
        end = time.monotonic() + RECONNECT
        while True:
            try:
                self.client = self._connect(10)
                self._note("the scheduler answers again")
                return
            except ValueError as error:
                if time.monotonic() > end:
                    raise CampaignFailed(str(error)) from None
                time.sleep(2)

    def heartbeats(self) -> dict[str, float]:
        """When the scheduler last heard of each worker, by its own clock."""
        try:
            info = self.client.scheduler_info(n_workers=-1)
        except TypeError:  # earlier versions tell of all
            info = self.client.scheduler_info()
        return {address: worker["last_seen"] for address, worker in info["workers"].items()}

    def close(self) -> None:
        for close in ([self.client.close] if hasattr(self, "client") else []) + ([self._cluster.close] if self._cluster is not None else []):
            with contextlib.suppress(Exception):
                close(timeout=10)


class Round:
    """The trials that are missing now: one stage of every point."""

    def __init__(self, listed: Mapping[str, Any], store: str, shared: bool, backend: str, engine: Engine, note: Note, failures: dict[str, int]) -> None:
        self.points, self.experiment = listed["points"], listed["experiment"]
        self.waiting: dict[int, list[Waiting]] = {}  # by point
        self.alone: list[Waiting] = []  # what failed, or failed together with others
        for one in listed["missing"]:
            self.waiting.setdefault(one["point"], []).append((one["point"], one["key"], one["label"]))
        self.total, self.done = len(listed["missing"]), set[str]()
        self.store, self.shared, self.backend, self.engine, self.note, self.failures = store, shared, backend, engine, note, failures
        self.mine = program()
        self.seconds: dict[int, float] = {}  # of one trial of a point, as it was so far
        self.around = MOST_AROUND  # the seconds that a piece of no trials would take, as far as is known
        self.running: dict[Any, list[Waiting]] = {}
        self.begun, self.told, self.looked = 0.0, 0.0, 0.0
        self.silent = set[str]()  # workers without a heartbeat, which get nothing
        self.base: Any = None

    def left(self) -> int:
        return len(self.alone) + sum(map(len, self.waiting.values()))

    def threads(self) -> int:
        return sum(self.engine.client.nthreads().values())

    def piece(self) -> list[Waiting]:
        """The next trials for one worker, all of one point. The first piece of all is one trial, which shows how long they
        take; a point that is new gives a shorter piece, as its own may take longer than those of others."""
        if self.alone:
            return [self.alone.pop(0)]
        point, queue = next(iter(self.waiting.items()))
        known = [self.seconds[point]] if point in self.seconds else [2 * max(self.seconds.values())] if self.seconds else []
        each = max(*known, 1e-4) if known else 0.0
        size = 1
        if known:
            share = self.left() // (4 * max(1, self.threads()))  # towards the end smaller ones
            size = max(1, min(int(PIECE_SECONDS / each), max(share, int(LEAST_SECONDS / each))))
        taken, self.waiting[point] = queue[:size], queue[size:]
        if not self.waiting[point]:
            del self.waiting[point]
        return taken

    def submit(self, piece: list[Waiting]) -> None:
        others = [address for address in self.engine.client.nthreads() if address not in self.silent] if self.silent else []
        future = self.engine.client.submit(compute, self.experiment, self.points[piece[0][0]]["config"], [key for _, key, _ in piece],
                                           self.store if self.shared else None, self.backend, self.mine, self.base, pure=False, workers=others or None)
        self.running[future] = piece

    def wait_for_a_worker(self) -> None:
        end, told = time.monotonic() + RECONNECT, 0.0
        while not self.threads():
            if time.monotonic() > end and not self.engine.queued:  # jobs may wait in their queue for days
                raise CampaignFailed(f"no worker for {RECONNECT:.0f} s; accepted: some that are connected to the scheduler (dask worker ADDRESS)")
            if time.monotonic() - told > 60:
                self.note("no worker is there; waiting for one")
                told = time.monotonic()
            time.sleep(0.5)

    def run(self) -> None:
        """Throws _Lost where the connection or what it carried is gone."""
        try:
            self._run()
        except (OSError, TimeoutError, concurrent.futures.CancelledError, asyncio.CancelledError) as error:
            raise _Lost(str(error)) from None

    def _run(self) -> None:
        dask = self.engine.dask
        self.wait_for_a_worker()
        if not self.shared:
            missing = [key for queue in self.waiting.values() for _, key, _ in queue]
            self.base = self.engine.client.scatter([records_of(self.store, missing)])[0]  # in a list: scatter() takes a dict apart
        self.begun = time.monotonic()
        while self.left() or self.running:
            self.wait_for_a_worker()
            while self.left() and len(self.running) < 2 * max(1, self.threads()):
                self.submit(self.piece())
            with contextlib.suppress(dask.TimeoutError):
                dask.wait(list(self.running), timeout=1, return_when="FIRST_COMPLETED")
            for future in [one for one in self.running if one.done()]:
                self.finish(future, self.running.pop(future))
            self.look_for_silent_workers()
            self.say()

    def finish(self, future: Any, piece: list[Waiting]) -> None:
        if future.status == "cancelled":
            raise _Lost("the scheduler forgot a task")
        if future.status == "error":
            return self.failed(future.exception(), piece)
        try:
            answer = future.result(timeout=PATIENCE)
        except self.engine.dask.TimeoutError:  # it lies with a worker that has frozen since
            self.note(f"a worker does not hand over the answer to {piece[0][2]}; others are asked")
            return self.submit(piece)
        if "program" in answer:
            raise ValueError(f"worker on {answer['host']}: {answer['program']}; this is {self.mine}; accepted: workers of the same revision")
        keys = [key for _, key, _ in piece]
        if self.shared and not Path(self.store, file_of_key(keys[0])).exists():
            raise CampaignFailed(f"the worker on {answer['host']} computed {piece[0][2]}, and {self.store} does not have it; accepted: a folder that all workers see, or shared=False (--unshared)")
        try:
            keep_records(self.store, answer["records"], keys)
        except OSError as error:
            raise CampaignFailed(f"{self.store}: a record cannot be written: {error.strerror or error}") from None
        point, each = piece[0][0], answer["seconds"]
        self.around = min(self.around, each)
        if len(piece) > 1:  # of a single trial it is not known how much was starting the piece
            each = (each - self.around) / len(piece)
        self.seconds[point] = 0.7 * self.seconds[point] + 0.3 * each if point in self.seconds else each
        self.done |= set(keys)

    def failed(self, error: BaseException, piece: list[Waiting]) -> None:
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        if type(error).__name__ == "KilledWorker":
            text = "the workers that computed it died"
        if len(piece) > 1:  # perhaps only one of them failed: each is tried again by itself
            self.note(f"{len(piece)} trials failed together, and are tried alone: {text}")
        else:
            _, key, label = piece[0]
            self.failures[key] = self.failures.get(key, 0) + 1
            if self.failures[key] >= FAILURES:
                raise CampaignFailed(f"trial {label} ({key}) failed {FAILURES} times: {text}")
            self.note(f"trial {label} failed, and is tried again: {text}")
        self.alone += piece

    def look_for_silent_workers(self) -> None:
        """A frozen worker keeps its connection, but has no heartbeat: others get its trials too. A busy one has."""
        now = time.monotonic()
        if now - self.looked < PATIENCE / 4:
            return
        self.looked, seen = now, self.engine.heartbeats()
        newest = max(seen.values(), default=0.0)
        silent = {address for address, last in seen.items() if newest - last > PATIENCE}
        if not set(seen) - silent:
            return
        for address in sorted(silent - self.silent):
            self.note(f"worker {address} has been silent for {PATIENCE:.0f} s; its trials go to others")
        new, self.silent = silent - self.silent, silent
        if not new:
            return
        processing = self.engine.client.processing()
        for future in [one for one in self.running if any(one.key in processing.get(address, ()) for address in new)]:
            self.submit(self.running.pop(future))
            future.release()

    def say(self) -> None:
        now = time.monotonic()
        if now - self.told < 10 or not self.done:
            return
        self.told = now
        left = (now - self.begun) / len(self.done) * (self.total - len(self.done))
        self.note(f"{len(self.done)} of {self.total} trials, about {left:.0f} s left")


def check_cluster(scheduler: Any, workers: Any, slurm: Any) -> None:
    """Refuses what cannot be a cluster, before anything starts."""
    if scheduler is not None and (not isinstance(scheduler, str) or not scheduler.strip()):
        raise ValueError(f"scheduler: {scheduler!r}; accepted: an address such as tcp://head:8786")
    if workers is not None and (not isinstance(workers, int) or isinstance(workers, bool) or not 1 <= workers <= 100_000):
        raise ValueError(f"workers: {workers!r}; accepted: a whole number from 1 to 100000")
    if slurm is not None and not isinstance(slurm, Mapping):
        raise ValueError(f"slurm: {slurm!r}; accepted: options of dask_jobqueue.SLURMCluster, such as {{\"queue\": \"short\"}}")
    if scheduler is not None and (workers is not None or slurm is not None):
        raise ValueError("scheduler: it has workers of its own; accepted: without workers and slurm")


def run_on_cluster(specification: str, store: str, arguments: Sequence[str], *, backend: str, scheduler: str | None, workers: int | None,
                   slurm: Mapping[str, Any] | None, shared: bool, note: Note) -> None:
    """Fills the store with every trial of the campaign. arguments: further options of `halfulp campaign`."""
    check_cluster(scheduler, workers, slurm)
    store = os.path.abspath(store)  # workers run in other folders
    failures: dict[str, int] = {}
    listed = _listed(specification, store, arguments)
    if not listed["missing"]:
        return
    engine, losses = Engine(scheduler, workers, slurm, note), 0
    try:
        while listed["missing"]:
            round_ = Round(listed, store, shared, backend, engine, note, failures)
            try:
                round_.run()
                losses = 0
            except _Lost as lost:
                losses = 0 if round_.done else losses + 1
                if losses > LOSSES:
                    raise CampaignFailed(f"the cluster lost what it was given {losses} times: {lost}") from None
                engine.reconnect()
            listed = _listed(specification, store, arguments)
    finally:
        engine.close()


def _listed(specification: str, store: str, arguments: Sequence[str]) -> dict[str, Any]:
    listed: dict[str, Any] = _command.parsed(["campaign", "--json", "--list", "--store=" + store, *arguments, "--", specification])
    return listed


def say(line: str) -> None:
    print("campaign: " + line, file=sys.stderr, flush=True)


CLUSTER = ("--scheduler", "--workers", "--slurm", "--unshared")


def wanted(arguments: Sequence[str]) -> bool:
    """Whether a command line of `halfulp campaign` asks for a cluster."""
    words = [word.split("=")[0] for word in arguments]
    return any(word in CLUSTER for word in words) and not any(word in ("--help", "-h") for word in words)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(f"campaign: {message}; see halfulp campaign --help")


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text}: no JSON") from None


def main(arguments: Sequence[str]) -> int:
    """`python3 -m halfulp campaign FILE --store DIR --scheduler ADDRESS`: the trials on a cluster, then the report here."""
    parser = _Parser(prog="halfulp campaign", add_help=False, allow_abbrev=False)
    parser.add_argument("specification", metavar="FILE")
    for name in ("--store", "--out", "--backend", "--scheduler", "--max-points", "--threads"):
        parser.add_argument(name, required=name == "--store")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--slurm", type=_json)
    for name in ("--unshared", "--quiet", "--verbose", "--list", "--dry-run", "--json"):
        parser.add_argument(name, action="store_true")
    try:
        own = parser.parse_args(list(arguments))
        if own.specification == "-":
            raise ValueError("standard input is read once; accepted for a cluster: a file")
        if own.list or own.dry_run or own.json:
            raise ValueError("--list, --dry-run and --json compute nothing on a cluster; accepted: without --scheduler, --workers, --slurm and --unshared")
        if own.unshared and own.scheduler is None and own.workers is None and own.slurm is None:
            raise ValueError("--unshared: without a cluster; accepted: with --scheduler, --workers or --slurm")
        if own.out not in (None, "-"):
            _command.writable(own.out, "--out", False)
            if os.path.exists(own.out) and os.path.samefile(own.out, own.specification):
                raise ValueError(f"--out: {own.out} is the specification; accepted: another file")
        given = [f"--{name}={value}" for name, value in (("backend", own.backend), ("max-points", own.max_points)) if value is not None]
        threads = [] if own.threads is None else ["--threads=" + own.threads]
        run_on_cluster(own.specification, own.store, [*given, *threads], backend=own.backend or "emulated", scheduler=own.scheduler,
                       workers=own.workers, slurm=own.slurm, shared=not own.unshared, note=(lambda line: None) if own.quiet else say)
    except (TypeError, ValueError) as error:
        return _ended(2, str(error))
    except _command.BackendMissing as error:
        return _ended(3, str(error))
    except RuntimeError as error:
        return _ended(2 if isinstance(error, CampaignFailed) else 70, str(error))
    except KeyboardInterrupt:
        return _ended(130, "interrupted; what is done is in the store")
    last = [*threads, *(["--out=" + own.out] if own.out is not None else []), *(["--quiet"] if own.quiet else []), *(["--verbose"] if own.verbose else [])]
    return int(_core.program(["campaign", "--store=" + own.store, *given, *last, "--", own.specification]))


def _ended(status: int, line: str) -> int:
    print("halfulp: " + line, file=sys.stderr)
    return status
