"""Work that several processes share."""
from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, Callable, Iterator, Sequence, TypeVar

Answer = TypeVar("Answer")

_TOLD_TO_END = {signal.SIGINT, signal.SIGTERM}
MOST = 8  # more gain nothing: one report of the demo takes a seventh of the time of all, and one process draws it


def processors() -> int:
    """How many processes are worth it here."""
    return min(MOST, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def shared_out(work: Callable[..., Answer], arguments: Sequence[tuple[Any, ...]], jobs: int) -> list[Answer]:
    """work(*a) of each, in their order, by at most so many processes; by this one alone where the system gives no
    others, or ends one (for want of memory, say). Both `work` and its answers are pickled."""
    jobs = min(jobs, len(arguments))
    answers = _by_others(work, arguments, jobs) if jobs > 1 and not multiprocessing.current_process().daemon else None
    return [work(*a) for a in arguments] if answers is None else answers


def _by_others(work: Callable[..., Answer], arguments: Sequence[tuple[Any, ...]], jobs: int) -> list[Answer] | None:
    before = set(multiprocessing.active_children())
    try:
        from concurrent.futures.process import BrokenProcessPool, ProcessPoolExecutor
        folder = tempfile.TemporaryDirectory()
        context = multiprocessing.get_context("fork" if sys.platform == "linux" else None)
        pool = ProcessPoolExecutor(jobs, context, _begin, (work, arguments, folder.name))
    except (ImportError, NotImplementedError, OSError):  # no semaphores
        return None
    with folder, pool, contextlib.ExitStack() as unless_done:
        unless_done.callback(_end, before)
        try:
            with _undisturbed():
                futures = [pool.submit(_answer, i) for i in range(len(arguments))]
        except (OSError, BrokenProcessPool):  # no more processes, or one has ended already
            return None
        try:
            answers = [pickle.loads(Path(future.result()).read_bytes()) for future in futures]
        except BrokenProcessPool:
            return None
        unless_done.pop_all()
        return answers


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Holds signals back. During a fork one would be lost: Python ignores exceptions in what it runs then."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _TOLD_TO_END)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end(before: set[Any]) -> None:
    """Ends the processes that have begun since; otherwise they would finish what they draw. (SIGTERM might be lost on
    one that has just begun.)"""
    for process in set(multiprocessing.active_children()) - before:
        process.kill()


_given: list[Any] = []  # of these processes: the work, its arguments, a folder for answers


def _answer(i: int) -> str:
    """Writes an answer to a file and gives its name, which goes through the queue in one piece. A process that is
    killed while it sends a longer message leaves its receiver waiting forever."""
    work, arguments, folder = _given
    file = Path(folder, str(i))
    file.write_bytes(pickle.dumps(work(*arguments[i])))
    return str(file)


def _begin(*given: Any) -> None:
    """Prepares a process. It ignores Ctrl-C: the process that it works for ends it. It ends by itself if that one was
    killed."""
    _given[:] = given
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _TOLD_TO_END)
    threading.Thread(target=_end_with, args=(multiprocessing.parent_process(),), daemon=True).start()


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)
