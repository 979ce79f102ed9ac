"""A campaign on a cluster: Dask's local one."""
import json
import os
import subprocess
import sys

import pytest

import halfulp
from halfulp import campaigns

pytest.importorskip("distributed")

SWEEP = {"experiment": "training", "settings": {"networks": "mlp", "steps": 4, "seeds": 3, "train_examples": 64, "test_examples": 64, "batch": 16,
                                                  "learning_rates": [0.001], "weight_formats": "bf16"},
         "grid": {"policies": ["amp-bf16", "bf16-sr"], "lr": [0.001, 0.01]}}


def results(report):
    return {name: report[name] for name in ("finding", "status", "config", "claims", "results")}


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return results(halfulp.campaign(SWEEP, store=tmp_path_factory.mktemp("here") / "store"))


def test_two_workers_give_the_same(tmp_path, expected):
    """Also where they do not see the store, and records come back by the engine."""
    for shared in (True, False):
        store = tmp_path / f"store-{shared}"
        assert results(halfulp.campaign(SWEEP, store=store, workers=2, shared=shared)) == expected
        assert halfulp.campaign(SWEEP, store=store, list=True)["missing"] == []
        assert halfulp.store(store, check=True).status == 0


def test_it_grows(tmp_path, expected):
    fewer = {**SWEEP, "settings": {**SWEEP["settings"], "seeds": 2}}
    halfulp.campaign(fewer, store=tmp_path / "store", workers=1)
    missing = halfulp.campaign(SWEEP, store=tmp_path / "store", list=True)["missing"]
    assert missing and all(one["label"].endswith("-3") for one in missing)
    assert results(halfulp.campaign(SWEEP, store=tmp_path / "store", workers=1)) == expected


def test_what_is_not_there_is_refused(tmp_path):
    with pytest.raises(ValueError, match="nothing answers at tcp://127.0.0.1:9"):
        halfulp.campaign(SWEEP, store=tmp_path / "store", scheduler="tcp://127.0.0.1:9")
    with pytest.raises(ValueError, match="points; accepted: at most 1"):
        halfulp.campaign(SWEEP, store=tmp_path / "store", workers=1, max_points=1)
    assert not (tmp_path / "store").exists()


def test_a_folder_that_workers_do_not_share_is_noticed(tmp_path, monkeypatch):
    """Here: workers that are told of another folder."""
    submit = campaigns.Round.submit

    def elsewhere(self, piece):
        self.store, kept = str(tmp_path / "elsewhere"), self.store
        submit(self, piece)
        self.store = kept
    monkeypatch.setattr(campaigns.Round, "submit", elsewhere)
    with pytest.raises(campaigns.CampaignFailed, match="does not have it; accepted: a folder that all workers see"):
        halfulp.campaign(SWEEP, store=tmp_path / "store", workers=1)


def test_a_damaged_record_is_computed_again_also_where_workers_do_not_see_it(tmp_path, expected):
    store = tmp_path / "store"
    halfulp.campaign(SWEEP, store=store)
    damaged = sorted(store.glob("*/??/*.trial"))[0]
    damaged.write_bytes(b"garbage")
    assert results(halfulp.campaign(SWEEP, store=store, workers=1, shared=False)) == expected
    assert halfulp.store(store, check=True).status == 0


def test_command_line(tmp_path):
    """Everything is checked before anything is computed, in one line."""
    file, store = _file(tmp_path, SWEEP), str(tmp_path / "store")

    def refused(*words):
        run = subprocess.run([sys.executable, "-m", "halfulp", "campaign", *words], capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        assert run.returncode == 2 and run.stdout == "" and run.stderr.count("\n") == 1 and run.stderr.startswith("halfulp: "), run
        assert not os.path.exists(store)
        return run.stderr
    assert "is the specification" in refused(file, "--store", store, "--workers", "1", "--out", file)
    assert "--otu" in refused(file, "--store", store, "--workers", "1", "--otu", "x.json")
    assert "compute nothing on a cluster" in refused(file, "--store", store, "--workers", "1", "--dry-run")
    assert "from 1 to" in refused(file, "--store", store, "--workers", "0")
    assert "invalid int value" in refused(file, "--store", store, "--workers", "x")
    assert "no JSON" in refused(file, "--store", store, "--slurm", "{")
    assert "without workers and slurm" in refused(file, "--store", store, "--workers", "1", "--scheduler", "tcp://a:1")
    assert "--store" in refused(file, "--workers", "1")
    assert "a file" in refused("-", "--store", store, "--workers", "1")
    assert "with --scheduler" in refused(file, "--store", store, "--unshared")
    assert json.loads((tmp_path / "sweep.json").read_text(encoding="utf-8")) == SWEEP


def test_workers_of_another_revision_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(campaigns, "program", lambda: "halfulp 9.9.9 (git 000000000000)")
    with pytest.raises(ValueError, match=r"worker on .*: halfulp \d.*; this is halfulp 9.9.9"):
        halfulp.campaign(SWEEP, store=tmp_path / "store", workers=1)


def test_a_trial_that_fails_three_times_ends_it_with_its_message(tmp_path):
    broken = {**SWEEP, "settings": {**SWEEP["settings"], "text": str(tmp_path / "vanishes.txt"), "networks": "transformer"}}
    (tmp_path / "vanishes.txt").write_text("to be or not to be " * 400, encoding="utf-8")
    said = []
    listed = campaigns._listed(_file(tmp_path, broken), str(tmp_path / "store"), [])
    (tmp_path / "vanishes.txt").unlink()
    engine = campaigns.Engine(None, 1, None, said.append)
    try:
        with pytest.raises(campaigns.CampaignFailed, match="failed 3 times: .*vanishes.txt"):
            campaigns.Round(listed, str(tmp_path / "store"), True, "emulated", engine, said.append, {}).run()
    finally:
        engine.close()
    assert sum("is tried again" in line for line in said) >= 2


def _file(folder, sweep):
    file = folder / "sweep.json"
    file.write_text(json.dumps(sweep), encoding="utf-8")
    return str(file)
