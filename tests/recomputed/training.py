"""training: the shared tables, summaries from runs, tensors and updates, and constants by searching all values."""
from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import naive
import perceptron
import plans
import standing
import trainings
from checks import Columns, Near, Report, Row
from plans import Plan, runs_of, tables_of, weighted
from precision import Precision, precision_of

columns = Columns()
VARIANT = "policy"
SMALL_STEPS = re.compile(r"(?:(\w+)-(plain|master|kahan|stochastic)(?:-in-(\w+))?|fp32), lr (\S+)")


def policy(report: Report, name: str) -> str:
    return str(next(row["json"] for row in report.tables["policies"] if row["policy"] == name))


def plan(report: Report, row: Row) -> Plan:
    name = row["policy"]
    if small := SMALL_STEPS.fullmatch(name):
        return plans.usual_plan(report, row["network"], learning_rate=float(small[4]))
    return plans.usual_plan(report, row["network"], **plans.scaling_of(policy(report, name.partition(", ")[0])))


def precision(report: Report, name: str) -> Precision | None:
    """None for what NumPy does not train, and for another eps in FP16, with which a little becomes a lot."""
    if small := SMALL_STEPS.fullmatch(name):
        weights, keeping, rest, _ = small.groups()
        if keeping not in (None, "plain", "master") or weights not in (None, "fp16", "bf16"):
            return None
        all_else = precision_of(policy(report, f"pure-{rest}")) if rest else Precision()
        return replace(all_else or Precision(), weights=weights or "fp32", master=keeping == "master")
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
columns.without("spikes", "step value usual", "spikes here are MXFP4's, whose losses step by step are not reported")


@columns.recompute("constants", "value in_format", "the configuration; the nearest of all values of the format")
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


# Small steps: which narrow weights take them.


def of_small_steps(report: Report, row: Row) -> trainings.Compared:
    rest = "" if row["rest"] == "fp32" else f"-in-{row['rest']}"
    name = "fp32" if row["format"] == "fp32" else f"{row['format']}-{row['weights']}{rest}"
    return (runs_of(report, row, VARIANT, f"{name}, lr {row['lr']:g}"),
            runs_of(report, row, VARIANT, f"fp32, lr {row['lr']:g}"))


columns.given("learning_rates", "lr")


@columns.recompute("learning_rates", "accuracy to_fp32 test_loss loss_to_fp32", "sums over the table runs")
def small_steps(report: Report, row: Row) -> Row:
    return standing.means(*of_small_steps(report, row))


@columns.recompute("learning_rates", "used_lr", "the configuration; the nearest of all values of the format")
def used(report: Report, row: Row) -> Row:
    asked = report.config["lr_format"] == "fp32"
    return {"used_lr": row["lr"] if asked else float(naive.rounded(row["lr"], row["format"]))}


trainings.add_standing(columns, "learning_rates", {"verdict": "margin"}, of_small_steps, training)


@columns.recompute("learning_rates", "swamped", "NumPy's perceptron, in FP32 or with small steps of narrow weights")
def swamped(report: Report, row: Row) -> Row | None:
    of = [training(report, run) for run in of_small_steps(report, row)[0]]
    shares: list[Any] = [perceptron.swamped(perceptron.course(one)) for one in of if one and trainings.exact(one)]
    if len(shares) < len(of):
        return None
    return {"swamped": Near(sum(part / whole for part, whole in shares) / len(shares), 4e-3)}
