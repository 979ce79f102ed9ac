"""optimizer: the shared tables, and a summary from runs, curves, updates and spikes."""
from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import perceptron
import plans
import standing
import trainings
from checks import Columns, Near, Report, Row, real
from plans import Plan, runs_of, tables_of, weighted
from precision import precision_of

columns = Columns()
VARIANT = "variant"
# What variants say of themselves besides their policy: `what` in the table summary.
SKIPS_ABNORMAL = {"planted-skip": 10.0, "skip": 10.0, "fast-skip": 4.0, "sgd-skip": 4.0}
EXAMPLES = 12288  # that trainings of the group batch see
SMALL_STEPS, SMALL_SGD_STEPS = 1e-5, 0.01  # learning rates of the group master
LARGE_STEPS, LARGE_SGD_STEPS = 0.1, 2.5  # of the group spikes, which has a size and a number of steps of its own

ASTRAY = ("fp16-eps-1e-6", "fp16-eps-1e-4", "fp16-states", "master-decay-0.1")  # a little becomes a lot there


def policy(report: Report, variant: str) -> str:
    return str(next(row["json"] for row in report.tables["policies"] if row["variant"] == variant))


def group_of(report: Report, variant: str) -> str:
    return str(next(r["group"] for r in report.tables["summary"] if r["variant"] == variant))


def reference_of(report: Report, variant: str) -> str:
    """The FP32 variant of the same size, steps and learning rate."""
    begin = variant.split("-")[0]
    match group_of(report, variant):
        case "master":
            return "sgd-small-steps" if begin == "sgd" else "small-steps"
        case "spikes":
            return begin + "-fp32"
        case "batch":
            return "-".join(variant.split("-")[:2]) + "-fp32"
        case _:
            return "fp32"


def plan(report: Report, row: Row) -> Plan:
    changes = plans.scaling_of(policy(report, row["variant"])) | {"abnormal": SKIPS_ABNORMAL.get(row["variant"], 0.0)}
    sgd = row["variant"].startswith("sgd-")
    match group_of(report, row["variant"]):
        case "master":
            changes["learning_rate"] = SMALL_SGD_STEPS if sgd else SMALL_STEPS
        case "batch":
            changes["batch"] = int(row["variant"].split("-")[1])
            changes |= {"steps": EXAMPLES // changes["batch"], "usual_shape": False}
        case "spikes":
            changes |= {"usual_shape": False, "batch": 4, "clips": "clip" in row["variant"], "steps": 300,
                        "learning_rate": LARGE_SGD_STEPS if sgd else LARGE_STEPS}
    return plans.usual_plan(report, row["network"], **changes)


def training(report: Report, row: Row) -> perceptron.Training | None:
    """Variants in FP32, and the first seed of those in FP16 and BF16 as far as they do not go astray."""
    variant = row["variant"]
    precision = precision_of(policy(report, variant)) if row["network"] == "mlp" else None
    if precision is None or variant in ASTRAY or variant.startswith("batch-") or (row["seed"] != report.config["seed"] and not precision.is_fp32()):
        return None
    sgd = variant.startswith("sgd-")
    found = perceptron.Training(row["seed"], lr=plan(report, row).learning_rate, precision=precision,
                                sgd=sgd,
                                until=10**9 if precision.is_fp32() and not sgd else perceptron.EARLY)
    for name, pattern in (("eps", r"eps-(1e-\d)"), ("decay", r"decay-([\d.]+)")):
        if match := re.search(pattern, variant):
            changes: dict[str, Any] = {name: float(match[1])}
            found = replace(found, **changes)
    return found


trainings.add(columns, VARIANT, plan, training)
trainings.add_text_models(columns)
trainings.add_spikes_by_neighbours(columns, VARIANT)


def compared(report: Report, row: Row) -> trainings.Compared:
    return (runs_of(report, row, VARIANT, row["variant"]),
            runs_of(report, row, VARIANT, reference_of(report, row["variant"])))


@columns.recompute("summary", "accuracy to_fp32 test_loss loss_to_fp32 failed_at loss_spikes",
                   "sums over the table runs")
def summary(report: Report, row: Row) -> Row:
    runs, than = compared(report, row)
    return standing.means(runs, than) | {
        "failed_at": min((r["failed_at"] for r in runs if r["failed_at"] is not None), default=None),
        "loss_spikes": sum(r["loss_spikes"] for r in runs)}


trainings.add_standing(columns, "summary", {"verdict": "margin", "loss_verdict": "loss_margin"}, compared, training)
trainings.add_swamped(columns, VARIANT)


@columns.recompute("summary", "abnormal norm_spikes", "sums over the tables curves and spikes, where it has all")
def events(report: Report, row: Row) -> Row:
    of, runs = tables_of(report, VARIANT), compared(report, row)[0]
    spikes = [of.spikes(run, "gradient-norm") for run in runs]
    found = {"abnormal": sum(point["abnormal"] for run in runs for point in of.of("curves", run))}
    known = [of_run for of_run in spikes if of_run is not None]
    return found | {"norm_spikes": sum(map(len, known))} if len(known) == len(spikes) else found


def first_updates(report: Report, row: Row) -> list[Row]:
    return tables_of(report, VARIANT).rows["updates"][row["variant"], row["network"], report.config["seed"]]


@columns.recompute("summary", "second_underflowed zero_denominators weight_norm", "sums over the table updates")
def updates(report: Report, row: Row) -> Row:
    rows = first_updates(report, row)
    squares = [real(u["weight_norm"]) ** 2 for u in rows if u["step"] == rows[-1]["step"]]
    return {"second_underflowed": Near(weighted([(u["second_underflowed"], u["elements"]) for u in rows]), 1e-12),
            "zero_denominators": sum(u["zero_denominators"] for u in rows),
            "weight_norm": Near(math.sqrt(math.fsum(squares)), 1e-12)}


@columns.recompute("instability", "norm_spikes loss_spikes left_out test_loss", "sums over the tables runs and curves")
def instability(report: Report, row: Row) -> Row:
    of, runs = tables_of(report, VARIANT), runs_of(report, row, VARIANT, row["variant"])
    losses = [real(r["test_loss"]) for r in runs if r["failed_at"] is None]
    found: Row = {"loss_spikes": sum(r["loss_spikes"] for r in runs),
                  "left_out": sum(point["abnormal"] for run in runs for point in of.of("curves", run)),
                  "test_loss": Near(sum(losses) / len(losses) if losses else math.nan, 1e-12)}
    spikes = [of.spikes(run, "gradient-norm") for run in runs]
    return found if None in spikes else found | {"norm_spikes": sum(map(len, spikes))}


@columns.recompute("instability", "diverged last_loss", "the last steps of the runs, and the last points of their curves")
def ends(report: Report, row: Row) -> Row:
    of, runs = tables_of(report, VARIANT), runs_of(report, row, VARIANT, row["variant"])
    last = [real(of.of("curves", run)[-1]["train_loss"]) for run in runs]
    lost = [r for r in runs if r["failed_at"] is not None or not math.isfinite(real(r["test_loss"]))]
    return {"diverged": len(lost), "last_loss": Near(sum(last) / len(last), 1e-12)}


columns.without("instability", "lead", "a mean over pairs in the table spikes, which keeps only the first 50 spikes of a training")
columns.without("instability", "embedding_update",
                "no second route trains a transformer; `updates` has ratios to weights")
columns.given("batches", "batch")


def batch_variant(row: Row) -> str:
    return f"batch-{row['batch']}-{row['policy']}"


@columns.recompute("batches", "steps accuracy gradient_norm", "the tables runs and curves")
def batches(report: Report, row: Row) -> Row:
    of, runs = tables_of(report, VARIANT), runs_of(report, row, VARIANT, batch_variant(row))
    norms = [real(of.of("curves", run)[0]["gradient_norm"]) for run in runs]
    return {"steps": EXAMPLES // row["batch"],
            "accuracy": Near(sum(r["test_accuracy"] for r in runs) / len(runs), 1e-12),
            "gradient_norm": Near(sum(norms) / len(norms), 1e-12)}


@columns.recompute("batches", "swamped", "the column of the table summary, which the same routes recompute")
def batch_swamped(report: Report, row: Row) -> Row:
    found = next(r for r in report.tables["summary"] if r["variant"] == batch_variant(row))
    return {"swamped": Near(found["swamped"], 1e-12)}


columns.without("batches", "gradients_underflowed", "these numbers give the reasons in the table summary, and no second route trains these networks")
