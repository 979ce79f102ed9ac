"""A campaign on a cluster of processes that are killed, frozen and started again."""
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import halfulp
from halfulp import campaigns

pytest.importorskip("distributed")

SWEEP = {"experiment": "training", "settings": {"networks": "mlp", "steps": 100, "seeds": 3, "train_examples": 64, "test_examples": 64, "batch": 16,
                                                  "learning_rates": [0.001], "weight_formats": "bf16"},
         "grid": {"policies": ["amp-bf16", "bf16-sr"], "lr": [0.001, 0.01]}}


class Cluster:
    """A scheduler and workers, each a process."""

    def __init__(self, folder, workers):
        self.file, self.folder, self.workers = folder / "scheduler.json", folder, []
        self.scheduler = self.start_scheduler()
        for _ in range(workers):
            self.start_worker()

    def start_scheduler(self, port="0"):
        self.file.unlink(missing_ok=True)
        process = self._start("distributed.cli.dask_scheduler", "--port", port, "--host", "127.0.0.1", "--no-dashboard", "--no-show", "--scheduler-file", str(self.file))
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                self.address = json.loads(self.file.read_text(encoding="utf-8"))["address"]
                return process
            except (FileNotFoundError, ValueError):  # not there, or not whole
                time.sleep(0.1)
        raise TimeoutError("the scheduler does not start")

    def start_worker(self):
        self.workers.append(self._start("distributed.cli.dask_worker", self.address, "--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(self.folder)))

    def _start(self, module, *words):
        return subprocess.Popen([sys.executable, "-m", module, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})

    def kill_a_worker(self):
        self.workers[0].kill()
        self.start_worker()

    def freeze_a_worker(self):
        self.workers[1].send_signal(signal.SIGSTOP)
        self.start_worker()

    def restart_the_scheduler(self):
        self.scheduler.kill()
        self.scheduler.wait(30)
        self.scheduler = self.start_scheduler(self.address.rsplit(":", 1)[1])
        self.start_worker()

    def close(self):
        for process in [*self.workers, self.scheduler]:
            process.kill()
            process.wait(30)


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path, 2)
    yield made
    made.close()


def results(report):
    return {name: report[name] for name in ("finding", "status", "config", "claims", "results")}


def test_pulled_plugs(tmp_path, cluster, monkeypatch):
    """A worker killed, another one frozen, the scheduler started again: the same results, and it says what happened."""
    monkeypatch.setattr(campaigns, "PATIENCE", 3.0)
    monkeypatch.setattr(campaigns, "PIECE_SECONDS", 0.1)  # a trial at a time, so that some are left for each plug
    here, store, said, pulled = results(halfulp.campaign(SWEEP, store=tmp_path / "here")), tmp_path / "store", [], []
    monkeypatch.setattr(campaigns, "say", said.append)

    def pull():
        for records, plug in ((2, cluster.kill_a_worker), (6, cluster.freeze_a_worker), (20, cluster.restart_the_scheduler)):
            end = time.monotonic() + 100
            while len([*store.glob("*/??/*.trial")]) < records and time.monotonic() < end:
                time.sleep(0.01)
            plug()
            pulled.append(plug.__name__)
            if plug == cluster.freeze_a_worker:  # until it is noticed
                while not any("has been silent" in line for line in said) and time.monotonic() < end:
                    time.sleep(0.05)
    thread = threading.Thread(target=pull)
    thread.start()
    assert results(halfulp.campaign(SWEEP, store=store, scheduler=cluster.address, progress=True)) == here
    thread.join(100)
    assert pulled == ["kill_a_worker", "freeze_a_worker", "restart_the_scheduler"]
    assert any("has been silent" in line for line in said), said
    assert any("the scheduler answers again" in line for line in said), said
    assert halfulp.store(store, check=True).status == 0
