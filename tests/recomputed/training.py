"""training: the shared tables, summaries from runs, tensors and updates, and constants by searching all values."""
from __future__ import annotations

from dataclasses import replace
from typing import Any

import naive
import perceptron
import plans
import small_steps
import standing
import trainings
from checks import Columns, Near, Report, Row
from plans import Plan, runs_of, tables_of, weighted
from precision import Precision, precision_of

columns = Columns()
VARIANT = "policy"


def policy(report: Report, name: str) -> str:
    return str(next(row["json"] for row in report.tables["policies"] if row["policy"] == name))


def plan(report: Report, row: Row) -> Plan:
    name = row["policy"]
    if small_steps.learning_rate(name) is not None:
        return plans.usual_plan(report, row["network"], learning_rate=small_steps.learning_rate(name))
    return plans.usual_plan(report, row["network"], **plans.scaling_of(policy(report, name.partition(", ")[0])))


def precision(report: Report, name: str) -> Precision | None:
    """None for what NumPy does not train, and for another eps in FP16, with which a little becomes a lot."""
    if small_steps.learning_rate(name) is not None:
        return small_steps.precision(name, lambda rest: precision_of(policy(report, f"pure-{rest}")))
    return None if ", eps" in name else precision_of(policy(report, name))


def training(report: Report, row: Row) -> perceptron.Training | None:
    """FP32 for every seed, and narrow weights alone with small steps; other narrow formats for the first."""
    found = precision(report, row["policy"]) if row["network"] == "mlp" else None
    if found is None:
        return None
    asked = plan(report, row)
    of = perceptron.Training(row["seed"], lr=asked.learning_rate, precision=found)
    if trainings.exact(of):
        return of
    return replace(of, until=perceptron.EARLY) if row["seed"] == report.config["seed"] else None


trainings.add(columns, VARIANT, plan, training)
columns.without("spikes", "step value usual", "all spikes here are those of MXFP4, and its losses are not reported step by step")


@columns.recompute("constants", "value in_format", "the configuration, and the nearest one in a list of all values of the format")
def constants(report: Report, row: Row) -> Row:
    config = report.config
    value = 1 - config["beta2"] if row["constant"] == "1 - beta2" else config[row["constant"]]
    return {"value": value, "in_format": float(naive.rounded(value, row["format"]))}


def compared(report: Report, row: Row) -> trainings.Compared:
    return runs_of(report, row, VARIANT, row["policy"]), runs_of(report, row, VARIANT, "fp32")


@columns.recompute("summary", "accuracy lowest highest to_fp32 test_loss loss_to_fp32 skipped",
                   "sums over the table runs")
def summary(report: Report, row: Row) -> Row:
    runs, than = compared(report, row)
    accuracies = [r["test_accuracy"] for r in runs]
    return standing.means(runs, than) | {"lowest": min(accuracies), "highest": max(accuracies),
                                         "skipped": sum(r["skipped"] for r in runs)}


trainings.add_standing(columns, "summary", {"verdict": "margin", "loss_verdict": "loss_margin"}, compared, training)
trainings.add_swamped(columns, VARIANT)


@columns.recompute("summary", "underflowed operands_lost", "sums over the table tensors")
def lost(report: Report, row: Row) -> Row:
    tensors = tables_of(report, VARIANT).rows["tensors"][row["policy"], row["network"], report.config["seed"]]

    def part(*roles: str) -> Near:
        return Near(weighted([(t["underflowed"], t["elements"]) for t in tensors if t["role"] in roles]), 1e-12)

    return {"underflowed": part("gradient-of-activation", "gradient-of-weight"),
            "operands_lost": part("activation, operand", "weight, operand", "gradient-of-activation, operand")}


small_steps.add(columns, VARIANT, training)
