"""The table learning_rates, which training and finetune have: narrow weights under small steps."""
from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import naive
import perceptron
import standing
import trainings
from checks import Columns, Near, Report, Row
from plans import runs_of
from precision import Precision

NAME = re.compile(r"(?:(\w+)-(plain|master|kahan|stochastic)(?:-in-(\w+))?|fp32), lr (\S+)")


def learning_rate(name: str) -> float | None:
    """That of such a training; None for others."""
    found = NAME.fullmatch(name)
    return float(found[4]) if found else None


def precision(name: str, pure: Callable[[str], Precision | None]) -> Precision | None:
    """What NumPy trains of them; `pure` is all of a network in a format."""
    found = NAME.fullmatch(name)
    if not found:
        return None
    weights, keeping, rest, _ = found.groups()
    if keeping not in (None, "plain", "master") or weights not in (None, "fp16", "bf16"):
        return None
    all_else = pure(rest) if rest else Precision()
    return replace(all_else or Precision(), weights=weights or "fp32", master=keeping == "master")


def add(columns: Columns, variant: str, training_of: trainings.TrainingOf) -> None:
    def compared(report: Report, row: Row) -> trainings.Compared:
        rest = "" if row["rest"] == "fp32" else f"-in-{row['rest']}"
        name = "fp32" if row["format"] == "fp32" else f"{row['format']}-{row['weights']}{rest}"
        return (runs_of(report, row, variant, f"{name}, lr {row['lr']:g}"),
                runs_of(report, row, variant, f"fp32, lr {row['lr']:g}"))

    columns.given("learning_rates", "lr")

    @columns.recompute("learning_rates", "accuracy to_fp32 test_loss loss_to_fp32", "sums over the table runs")
    def small_steps(report: Report, row: Row) -> Row:
        return standing.means(*compared(report, row))

    @columns.recompute("learning_rates", "used_lr", "the configuration, and the nearest one in a list of all values of the format")
    def used(report: Report, row: Row) -> Row:
        asked = report.config["lr_format"] == "fp32"
        return {"used_lr": row["lr"] if asked else float(naive.rounded(row["lr"], row["format"]))}

    trainings.add_standing(columns, "learning_rates", {"verdict": "margin"}, compared, training_of)

    @columns.recompute("learning_rates", "swamped", "NumPy's perceptron, in FP32 or with small steps of narrow weights")
    def swamped(report: Report, row: Row) -> Row | None:
        of = [training_of(report, run) for run in compared(report, row)[0]]
        shares: list[Any] = [perceptron.swamped(perceptron.course(one)) for one in of if one and trainings.exact(one)]
        if len(shares) < len(of):
            return None
        share = sum(part / whole for part, whole in shares) / len(shares)
        # A few updates of FP32 among 200,000 hang on the last bit of sums, which NumPy adds in another order.
        return {"swamped": Near(share, 4e-3)} if share > 1e-3 else None
