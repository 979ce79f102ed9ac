"""Work that several processes share."""
from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from concurrent.futures import ProcessPoolExecutor
from typing import Any, Callable, Sequence, TypeVar

Answer = TypeVar("Answer")


def processors() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def shared_out(work: Callable[..., Answer], arguments: Sequence[tuple[Any, ...]], jobs: int) -> list[Answer]:
    """work(*a) of each, in their order, by at most so many processes; by this one alone where the system has no
    semaphores to share. Both `work` and its answers are pickled. A process that dies ends it all: BrokenProcessPool."""
    jobs = min(jobs, len(arguments))
    try:
        pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("fork" if sys.platform == "linux" else None), _end_at_once) if jobs > 1 else None
    except (ImportError, NotImplementedError, OSError):
        pool = None
    if pool is None:
        return [work(*a) for a in arguments]
    with pool:
        try:
            return list(pool.map(work, *zip(*arguments)))
        except BaseException:
            for process in multiprocessing.active_children():  # which would finish what they have begun
                process.terminate()
            raise


def _end_at_once() -> None:
    """Ctrl-C reaches every process; one of them says what it has to say."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
