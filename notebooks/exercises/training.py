"""9-training: which parts of a training need FP32?"""
from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import halfulp

from .judging import Hint, exercise, need, number

FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")  # where the package dataset-fashion-mnist of Debian and Ubuntu puts it
CANDIDATES = ("O2", "strict-fp16", "strict-bf16", "mixed_float16")


def images() -> str:
    """The folder of Fashion-MNIST if installed, else of the small synthetic images of halfulp's tests."""
    return str(FASHION_MNIST if FASHION_MNIST.is_dir() else Path(__file__).resolve().parents[2] / "tests/golden/images")


def _trained(policy: str, *, steps: int) -> halfulp.Report:
    """A short training of the perceptron under a policy, given by name or file."""
    return halfulp.run("training", data=images(), policies=policy, seeds=1, train_examples=32 * steps, test_examples=50, batch=32, epochs=1, intervals=4, weight_formats=[], backend="emulated")


@exercise("training-1")
def _(answer: Any) -> str:
    need(isinstance(answer, str) and answer in CANDIDATES, "The answer is one of the four names, as a text.")
    run = _trained(answer, steps=2).rows("runs")[0]
    need(run["failed_at"] is not None, f"{answer} goes on. In which format does its optimizer divide, and is eps zero there?")
    return f"Its parameters are no numbers after step {run['failed_at']}: optimizer and eps are in FP16. The other FP16 policies have an optimizer in FP32."


@exercise("training-2")
def _(answer: Any) -> str:
    need(isinstance(answer, dict), "The answer is a dict.")
    need(answer.get("base") == "pure-bf16", "Its base must be pure-bf16.")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "answer.json"
        file.write_text(json.dumps({"name": "answer"} | answer), encoding="utf-8")
        try:
            policy = halfulp.policies(str(file))
        except ValueError as why:
            raise Hint(str(why).replace(str(file), "Your policy")) from None
        need(policy.get("weights", {}).get("storage") == "bf16", "The weights must be stored in bf16.")
        report = _trained(str(file), steps=20)
    swamped = report.rows("summary")[0]["swamped"]
    need(swamped < 0.001, f"{swamped:.2%} of the updates are lost. Which member of a policy says how weights are kept?")
    pure = _trained("pure-bf16", steps=20).rows("summary")[0]["swamped"]
    return f"{swamped:.3%} of the updates are lost; with pure BF16 it is {pure:.1%} of them after these few steps."


@exercise("training-3")
def _(answer: Any) -> str:
    beta = number(answer)
    need(0 < beta < 1, "beta2 lies between 0 and 1.")
    rounded = halfulp.quantize(beta, "bf16")
    need(rounded == beta, f"{beta} becomes {rounded} in BF16.")
    above = halfulp.decode(int(halfulp.encode(beta, "bf16")) + 1, "bf16")
    need(above == 1, f"BF16 has {beta}, and there is another one between it and 1.")
    return f"Second moments then remember {1 / (1 - beta):g} steps, not 1,000."
