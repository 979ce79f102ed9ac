"""Several processes draw, and none outlives the one that asked it."""
from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock
from pathlib import Path

import made_reports as made

from halfulp_page import Source, render_folder
from halfulp_page.processes import shared_out


SLEEPING = """
import runpy, signal, time
from halfulp_page import page, processes
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has commands in the background ignore it
def drawn(*_): time.sleep(3600)
page.section = drawn
processes.processors = lambda: 3
runpy.run_module("halfulp_page", run_name="__main__")
"""


def process_or_nothing(answer):
    """Dies in a process of shared_out()."""
    if multiprocessing.parent_process():
        os.kill(os.getpid(), signal.SIGKILL)
    return answer


def living(group):
    """Processes of a group, without those that only wait for their parents to notice their end."""
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, of = file.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[:3]
            found += [file.parent.name] if int(of) == group and state != "Z" else []
    return found


class Processes(unittest.TestCase):
    """Several processes draw."""

    def test_they_draw_the_page_that_one_draws(self):
        sources = [Source(f"{report['experiment']}.json", report) for report in made.golden() if report["experiment"] in ("finetune", "grad_scaler", "quantization")]
        self.assertEqual(len(sources), 3)
        self.assertEqual(render_folder(sources, jobs=2), render_folder(sources))

    def test_answers_are_in_order_and_errors_arrive(self):
        self.assertEqual(shared_out(pow, [(i, 2) for i in range(20)], 3), [i * i for i in range(20)])
        self.assertNotIn(os.getpid(), shared_out(os.getpid, [(), ()], 2))
        self.assertEqual(shared_out(os.getpid, [(), ()], 1), [os.getpid()] * 2)
        other = multiprocessing.Process(target=time.sleep, args=(3600,))
        other.start()
        with self.assertRaises(ZeroDivisionError):
            shared_out(pow, [(2, 1), (0, -1), (2, 3)], 2)
        self.assertEqual(multiprocessing.active_children(), [other])
        other.kill()
        other.join()

    def test_without_others_this_process_works_alone(self):
        self.assertEqual(shared_out(process_or_nothing, [(i,) for i in range(4)], 2), [0, 1, 2, 3])
        for name in ("os.fork", "multiprocessing.synchronize.SemLock.__init__"):
            with unittest.mock.patch(name, side_effect=OSError("none left")):
                self.assertEqual(shared_out(os.getpid, [(), ()], 2), [os.getpid()] * 2, name)
        self.assertEqual(multiprocessing.active_children(), [])

    @unittest.skipUnless(os.path.exists("/proc/self/task"), "processes are counted as Linux tells them")
    def test_none_outlives_the_one_that_ends(self):
        with tempfile.TemporaryDirectory() as folder:
            for i, report in enumerate(made.golden()[:4]):
                Path(folder, f"{i}.json").write_text(json.dumps(report), encoding="utf-8")
            words = [sys.executable, "-c", SLEEPING, folder, "--out", f"{folder}/index.html"]
            for number, status in ((signal.SIGTERM, 130), (signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)):
                with subprocess.Popen(words, env={**os.environ, "PYTHONPATH": str(made.ROOT / "python")}, stderr=subprocess.PIPE, start_new_session=True) as program, contextlib.ExitStack() as at_the_end:
                    at_the_end.callback(lambda group=program.pid: [os.kill(int(process), signal.SIGKILL) for process in living(group)])
                    while program.poll() is None and len(living(program.pid)) < 4:
                        time.sleep(0.05)
                    self.assertIsNone(program.poll())
                    (os.killpg if number == signal.SIGINT else os.kill)(program.pid, number)
                    self.assertEqual(program.communicate(timeout=60)[1], b"")
                    self.assertEqual(program.returncode, status)
                    until = time.monotonic() + 60
                    while living(program.pid) and time.monotonic() < until:
                        time.sleep(0.05)
                    self.assertEqual(living(program.pid), [])
            self.assertEqual([f for f in os.listdir(folder) if not f.endswith(".json")], [])


if __name__ == "__main__":
    unittest.main()
