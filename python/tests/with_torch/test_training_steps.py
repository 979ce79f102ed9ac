"""The benchmark of training steps runs, and says what it could not make. No time is judged."""
import json
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", minversion="2.4")

SCRIPT = Path(__file__).parents[3] / "benchmarks/peers/training_steps.py"


def test_rows_are_relative_to_plain_torch(tmp_path):
    out = tmp_path / "steps.json"
    ran = subprocess.run([sys.executable, SCRIPT, "--quick", "--only", "amp-bf16", "--out", out], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    rows = json.loads(out.read_text())["rows"]
    assert list(rows) == ["torch, fp32", "amp-bf16"]
    assert rows["torch, fp32"]["quartiles"] == [1, 1] and rows["amp-bf16"]["ratio"] > 0
    assert "amp-bf16" in ran.stdout


def test_every_kind_of_step_can_be_made():
    sys.path.insert(0, str(SCRIPT.parent))
    try:
        import halfulp.torch
        import training_steps
    finally:
        sys.path.pop(0)
    kinds = training_steps.kinds_of_steps(torch, halfulp)
    for name in (*training_steps.POLICIES, *training_steps.UNITS, "microscope, mxfp8"):
        assert kinds[name]().seconds_a_step() > 0, name
