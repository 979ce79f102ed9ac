"""finetune: the shared tables, NumPy's pre-training and fine-tuning, and a summary from the table seeds."""
from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import perceptron
import plans
import small_steps
import trainings
from checks import Columns, Near, Report, Row, real
from plans import Plan, runs_of, tables_of
from precision import Precision

columns = Columns()
VARIANT = "policy"
SCALED: dict[str, Any] = {"scale": 65536.0, "interval": 2000}
NARROW: dict[str, Any] = {"operands": "fp16", "activation": "fp16", "gradient": "fp16", "weight_gradient": "fp16",
          "loss_gradient": "fp16"}
ALL = NARROW | {"loss": "fp16", "communication": "fp16", "weights": "fp16"}
STATES: dict[str, Any] = {"first": "fp16", "second": "fp16", "arithmetic": "fp16"}


def in_bf16(formats: dict[str, Any]) -> dict[str, Any]:
    return {name: "bf16" for name in formats}


# The report does not show its policies; these are the named ones with nothing but FP16 and BF16.
PRECISIONS = {"pre-training": Precision(), "fp32": Precision(), "O1": Precision(**NARROW, **SCALED),
              "amp-fp16": Precision(**NARROW, **SCALED), "O2": Precision(**ALL, **SCALED, master=True),
              "O3": Precision(**ALL, **STATES), "pure-fp16": Precision(**ALL, **STATES),
              "amp-bf16": Precision(**in_bf16(NARROW)), "pure-bf16": Precision(**in_bf16(ALL | STATES))}


def others(report: Report) -> tuple[int, ...]:
    return tuple(c for c in range(10) if c not in report.config["classes"])


def plan(report: Report, row: Row) -> Plan:
    if row["policy"] == "pre-training":
        return plans.usual_plan(report, row["network"])
    config = report.config
    steps = config["tune_steps"] or round(config["tune_epochs"] * plans.steps_per_epoch(report))
    precision = PRECISIONS.get(row["policy"], Precision())
    small = small_steps.learning_rate(row["policy"])
    return plans.usual_plan(report, row["network"], steps=steps, learning_rate=config["tune_lr"] if small is None else small,
                                scale=precision.scale, growth=precision.interval)


def training(report: Report, row: Row) -> perceptron.Training | None:
    """Pre-training and fine-tuning of every seed in FP32, of the first one in FP16 and BF16."""
    name, first = row["policy"], perceptron.Training(row["seed"])
    precision = PRECISIONS.get(name) or small_steps.precision(name, lambda rest: PRECISIONS[f"pure-{rest}"])
    if row["network"] != "mlp" or precision is None:
        return None
    asked = plan(report, row)
    tuning = replace(first, steps=asked.steps, interval=asked.interval, lr=asked.learning_rate, precision=precision,
                     classes=tuple(report.config["classes"]), start=first)
    if row["policy"] == "pre-training":
        return first
    return tuning if trainings.exact(tuning) or row["seed"] == report.config["seed"] else None


trainings.add(columns, VARIANT, plan, training)
trainings.add_spikes_by_numpy(columns, VARIANT, training)


def distance(a: perceptron.Values, b: perceptron.Values) -> tuple[float, float]:
    """||a - b|| / ||b||, and the share of numbers that are the same."""
    x, y = (np.concatenate([v[name].ravel() for name in b]).astype(np.float64) for v in (a, b))
    return float(np.linalg.norm(x - y) / np.linalg.norm(y)), float((x == y).mean())


@columns.recompute("seeds", "tuned_before other_before start_error unmoved moved tuned_after other_after",
                   "NumPy's perceptron")
def seeds(report: Report, row: Row) -> Row | None:
    of = training(report, row)
    if of is None or of.start is None:
        return None
    found, pretrained = perceptron.course(of), perceptron.course(of.start).values
    narrow = not of.precision.is_fp32()

    def accuracy(values: perceptron.Values, classes: tuple[int, ...]) -> float | Near:
        share = perceptron.tested(values, of.precision, of.test, classes).accuracy
        return Near(share, 1e-12, 2 / of.test) if narrow else share

    moved, same = distance(found.values, found.begun)
    expected: Row = {"tuned_before": accuracy(found.begun, of.classes),
                     "other_before": accuracy(found.begun, others(report)),
                     "start_error": Near(distance(found.begun, pretrained)[0], 1e-5),
                     "unmoved": Near(same, 2e-3 if narrow else 1e-4)}
    if found.failed:
        return expected | {"tuned_after": 0.0, "other_after": 0.0, "moved": math.nan}
    return expected | {"tuned_after": accuracy(found.values, of.classes),
                       "other_after": accuracy(found.values, others(report)),
                       "moved": Near(moved, 2e-3 if narrow else 1e-5)}


@columns.recompute("seeds", "tuned_after", "the table runs")
def after(report: Report, row: Row) -> Row:
    key = (row["policy"], row["network"], row["seed"])
    return {"tuned_after": tables_of(report, VARIANT).rows["runs"][key][0]["test_accuracy"]}


columns.given("seeds", "seed")


def seeds_of(report: Report, row: Row, policy: str) -> list[Row]:
    return [r for r in report.tables["seeds"] if (r["network"], r["policy"]) == (row["network"], policy)]


@columns.recompute("summary", "tuned to_fp32 other all all_to_fp32 tuned_before other_before rounding_cost "
                   "start_error moved unmoved", "means over the table seeds")
def summary(report: Report, row: Row) -> Row:
    own, fp32 = seeds_of(report, row, row["policy"]), seeds_of(report, row, "fp32")
    part = len(report.config["classes"]) / 10

    def mean(name: str, of: list[Row] = own) -> float:
        return sum(real(r[name]) for r in of) / len(of)

    def both(when: str, of: list[Row]) -> float:
        return part * mean(f"tuned_{when}", of) + (1 - part) * mean(f"other_{when}", of)

    expected = {"tuned": mean("tuned_after"), "other": mean("other_after"), "all": both("after", own),
                "to_fp32": mean("tuned_after") - mean("tuned_after", fp32),
                "all_to_fp32": both("after", own) - both("after", fp32),
                "rounding_cost": both("before", fp32) - both("before", own)}
    same = ("tuned_before", "other_before", "start_error", "moved", "unmoved")
    return {name: Near(value, 1e-11, 1e-11) for name, value in (expected | {n: mean(n) for n in same}).items()}


def compared(report: Report, row: Row) -> trainings.Compared:
    return runs_of(report, row, VARIANT, row["policy"]), runs_of(report, row, VARIANT, "fp32")


trainings.add_standing(columns, "summary", {"verdict": "margin"}, compared, training)
trainings.add_swamped(columns, VARIANT)
small_steps.add(columns, VARIANT, training)
