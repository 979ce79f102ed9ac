"""recommendation: the shared tables, bytes by counting, means over runs, and errors of gradients by NumPy's perceptron."""
from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import replace

import finetune
import numpy as np
import perceptron
import plans
import standing
import trainings
from checks import Columns, Near, Report, Row, real
from perceptron import Floats, Values
from plans import Plan, runs_of
from precision import Precision, narrow
from shapes import elements, is_text, shapes

columns = Columns()
VARIANT = "policy"
CHOOSING = "fp32, choosing"
MORE = ", more seeds"
BITS = {"fp32": 32.0, "bf16": 16.0, "e4m3": 8.0, "e5m2": 8.0, "fp8-1x128": 8 + 32 / 128}
STATES = ("weights", "first-moments", "second-moments")


def policy(report: Report, row: Row) -> str:
    """The JSON of a policy that this experiment made."""
    if row["policy"] == "recommended":
        return str(of_network(report, "recommended", row)[0]["policy"])
    return str(of_network(report, "attempts", row)[int(row["policy"].split(",")[0].removeprefix("attempt ")) - 1]["policy"])


def plan(report: Report, row: Row) -> Plan:
    name, scaling = row["policy"], {}
    if name == "recommended" or name.startswith("attempt"):
        scaling = plans.scaling_of(policy(report, row))
    elif name == "O1":
        scaling = {"scale": 65536.0, "growth": 2000}
    return plans.usual_plan(report, row["network"], **scaling)


def training(report: Report, row: Row) -> perceptron.Training | None:
    """FP32 for the seeds that choose; of each policy the beginning, for the first of the others. (In FP32, too, one of
    these few comes to another branch of max(0, x) after a while than NumPy does, which sums in another order.)"""
    found = finetune.PRECISIONS.get("fp32" if row["policy"] == CHOOSING else row["policy"])
    if row["network"] != "mlp" or found is None:
        return None
    of = perceptron.Training(row["seed"], precision=found)
    if row["policy"] == CHOOSING:
        return of
    first = report.config["seed"] + report.config["seeds"]
    return replace(of, until=perceptron.EARLY) if row["seed"] == first else None


trainings.add(columns, VARIANT, plan, training)
columns.without("spikes", "step value usual", "no training here has spikes")


# Sizes.


def size(report: Report, row: Row) -> int:
    network, part = row["network"], row["part"]
    if part in STATES:
        return sum(shapes(network).values())
    found = elements(network, report.config["context"])
    return sum(count for (tensor, role), count in found.items()
               if role == part and tensor in (row["layer"], f"{row['layer']}.bias"))


def bits(row: Row) -> float:
    return BITS[row["format"].removesuffix(" stochastic")]


def stored_bytes(report: Report, row: Row) -> float:
    """Of a perceptron: elements of whole bytes; of blocks of 128 along rows, a scale of four each."""
    if "1x128" not in row["format"]:
        return size(report, row) * bits(row) / 8
    scales = sum(rows * math.ceil(width / 128) for rows, width in ((256, 784), (1, 256), (10, 256), (1, 10)))
    return size(report, row) + 4 * scales


@columns.recompute("sensitivity", "elements bits bytes", "shapes of the layers, bits of the formats")
def sizes(report: Report, row: Row) -> Row | None:
    if row["network"] != "mlp":
        return None
    return {"elements": size(report, row), "bits": bits(row), "bytes": stored_bytes(report, row)}


@columns.recompute("choices", "elements bytes", "shapes of the layers, bits of the formats")
def chosen_sizes(report: Report, row: Row) -> Row | None:
    return {"elements": size(report, row), "bytes": stored_bytes(report, row)} if row["network"] == "mlp" else None


@columns.recompute("choices", "error", "the chosen row of sensitivity")
def chosen_error(report: Report, row: Row) -> Row:
    return {"error": next(s["error"] for s in report.tables["sensitivity"] if s["chosen"]
                          and all(s[name] == row[name] for name in ("network", "layer", "operator", "part")))}


def of_network(report: Report, table: str, row: Row) -> list[Row]:
    return [r for r in report.tables[table] if r["network"] == row["network"]]


def bytes_of(report: Report, row: Row, policy: str) -> float:
    """Of what the named policies have at each place of a perceptron."""
    if policy == "recommended":
        return float(sum(c["bytes"] for c in of_network(report, "choices", row)))
    p, whole = finetune.PRECISIONS[policy], 0.0
    for c in of_network(report, "choices", row):
        form = {"weights": p.weights, "first-moments": p.first, "second-moments": p.second,
                "gradient-of-weight": p.weight_gradient,
                "activation": p.loss if c["layer"] == "loss" else p.activation,
                "gradient-of-activation": p.loss_gradient if c["layer"] == "loss" else p.gradient}[c["part"]]
        whole += size(report, c) * (2 if form == "fp16" else BITS[form] / 8)
        whole += 4 * size(report, c) if p.master and c["part"] == "weights" else 0
    return whole


@columns.recompute("comparison", "bytes bytes_to_fp32", "shapes of the layers, formats of the policies")
def stored(report: Report, row: Row) -> Row | None:
    if row["network"] != "mlp":
        return None
    own, fp32 = bytes_of(report, row, row["policy"]), bytes_of(report, row, "fp32")
    return {"bytes": own, "bytes_to_fp32": Near(own / fp32, 1e-14)}


# How the policies stand to FP32.


def compared(report: Report, row: Row) -> trainings.Compared:
    return runs_of(report, row, VARIANT, row["policy"]), runs_of(report, row, VARIANT, "fp32")


@columns.recompute("comparison", "accuracy to_fp32 test_loss loss_to_fp32", "sums over the table runs")
def comparison(report: Report, row: Row) -> Row:
    return standing.means(*compared(report, row))


def verdicts_of(report: Report, row: Row, runs: list[Row], than: list[Row], part: float) -> Row:
    """With a part of the margins."""
    margins = float(report.config["budget"]), report.config["loss_margin"]
    return {"verdict": standing.verdict(runs, than, row["to_fp32"], row["doubt"], part * margins[0]),
            "loss_verdict": standing.verdict(runs, than, real(row["loss_to_fp32"]), real(row["loss_doubt"]),
                                             part * margins[1], "above")}


@columns.recompute("comparison", "verdict loss_verdict", "the differences and doubts, compared with the margins")
def comparison_verdicts(report: Report, row: Row) -> Row:
    return verdicts_of(report, row, *compared(report, row), 1)


for table in ("comparison", "attempts"):
    columns.without(table, "doubt loss_doubt", "the NumPy route does not reach the end of all these trainings; the same code "
                    "computes the doubts of `training`, which have a route")


def attempt(report: Report, row: Row) -> int:
    """The number of an attempt, from 1."""
    return 1 + [a["policy"] for a in of_network(report, "attempts", row)].index(row["policy"])


def judged_by(report: Report, row: Row, name: str) -> list[Row]:
    """The trainings of an attempt, or of FP32, by which the attempt was judged."""
    few = runs_of(report, row, VARIANT, CHOOSING if name == "fp32" else name)
    return few + (runs_of(report, row, VARIANT, name + MORE) if row["seeds"] > len(few) else [])


@columns.recompute("attempts", "to_fp32 loss_to_fp32", "sums over the table runs")
def attempts(report: Report, row: Row) -> Row:
    found = standing.means(judged_by(report, row, f"attempt {attempt(report, row)}"), judged_by(report, row, "fp32"))
    return {name: found[name] for name in ("to_fp32", "loss_to_fp32")}


@columns.recompute("attempts", "verdict loss_verdict", "the differences and doubts, compared with half of the margins")
def verdicts(report: Report, row: Row) -> Row:
    runs, than = (judged_by(report, row, name) for name in (f"attempt {attempt(report, row)}", "fp32"))
    return verdicts_of(report, row, runs, than, 0.5)


@columns.recompute("attempts", "seeds", "the table runs")
def seeds(report: Report, row: Row) -> Row:
    few = runs_of(report, row, VARIANT, f"attempt {attempt(report, row)}")
    more = runs_of(report, row, VARIANT, f"attempt {attempt(report, row)}{MORE}")
    return {"seeds": len(few) + len(more)}


@columns.recompute("attempts", "error bytes", "sums over the table choices, for the last attempt")
def of_plan(report: Report, row: Row) -> Row | None:
    if row["policy"] != of_network(report, "recommended", row)[0]["policy"].replace('"recommended"', f'"attempt-{attempt(report, row)}"') \
            .replace("recommended for", "a plan for"):
        return None
    chosen = of_network(report, "choices", row)
    paid = [c["error"] for c in chosen if not c["why"].startswith("free")]
    return {"error": Near(math.sqrt(sum(error**2 for error in paid)), 1e-12), "bytes": sum(c["bytes"] for c in chosen)}


@columns.recompute("attempts", "allowed", "first the smaller one of noise and error of the narrowest plan, then half of the error of the previous attempt")
def allowed(report: Report, row: Row) -> Row:
    if (number := attempt(report, row)) > 1:
        return {"allowed": Near(of_network(report, "attempts", row)[number - 2]["error"] / 2, 1e-12)}
    places: dict[tuple[str, ...], list[Row]] = {}
    for s in of_network(report, "sensitivity", row):
        places.setdefault((s["layer"], s["operator"], s["part"]), []).append(s)
    squares = 0.0
    for options in places.values():
        finite = [(o["bytes"], o["error"]) for o in options if isinstance(o["error"], (int, float))]
        squares += min(finite)[1] ** 2
    return {"allowed": Near(min(row["noise"], math.sqrt(squares)), 1e-12)}


# Errors of the gradients of one batch.


@functools.cache
def states(seed: int) -> tuple[Values, ...]:
    return perceptron.first_values(seed), perceptron.course(perceptron.Training(seed)).values


def gradients(values: Values, seed: int, p: Precision = Precision()) -> Values:
    x, labels = perceptron.batch_of(perceptron.Training(seed), 0)
    return perceptron.backward(values, x, labels, p, 1.0, perceptron.Rounder(None))[1]


def relative(of: Values, reference: Values) -> float:
    squares = [float(((of[n].astype(float) - g) ** 2).sum() / (g.astype(float) ** 2).sum()) for n, g in reference.items()]
    return math.sqrt(sum(squares) / len(squares))


def eight_bits(x: Floats, name: str) -> Floats:
    """To nearest even in E4M3 or E5M2, below their largest values."""
    digits, least = {"e4m3": (3, -6), "e5m2": (2, -14)}[name]
    exponent = np.maximum(np.frexp(x)[1] - 1, least)
    return np.ldexp(np.rint(np.ldexp(x.astype(np.float64), digits - exponent)), exponent - digits).astype(np.float32)


def largest(report: Report, change: Callable[[Values], Values] | Precision) -> float:
    seed = report.config["seed"]
    errors = []
    for values in states(seed):
        exact = gradients(values, seed)
        errors.append(relative(gradients(values, seed, change) if isinstance(change, Precision) else change(exact), exact))
    return max(errors)


@columns.recompute("attempts", "noise", "NumPy's perceptron: gradients of two batches")
def noise(report: Report, row: Row) -> Row | None:
    if row["network"] != "mlp":
        return None
    seed = report.config["seed"]
    return {"noise": Near(max(relative(gradients(v, seed + 1), gradients(v, seed)) for v in states(seed)), 1e-3)}


@columns.recompute("sensitivity", "error", "NumPy's perceptron, gradients of weights and of the loss; other errors "
                   "have no second route")
def error(report: Report, row: Row) -> Row | None:
    if row["format"] == "fp32":
        return {"error": 0}
    if row["network"] != "mlp" or row["part"] in STATES:
        return None
    if row["part"] == "gradient-of-weight":
        layer, name = row["layer"], row["format"]

        def rounded(exact: Values, scale: float) -> Values:
            def one(g: Floats) -> Floats:
                scaled = g * np.float32(scale)
                return (narrow(scaled, name) if name == "bf16" else eight_bits(scaled, name)) / np.float32(scale)

            return {n: one(g) if n.startswith(layer) else g for n, g in exact.items()}

        most = {"bf16": 3e38, "e4m3": 464.0, "e5m2": 61440.0}[name]  # from here on they overflow
        peak = max(float(np.abs(g).max()) for v in states(report.config["seed"])
                   for n, g in gradients(v, report.config["seed"]).items() if n.startswith(layer))
        scale = 1.0 if name == "bf16" else min(65536.0, 2.0 ** math.ceil(math.log2(most / peak) - 1))
        return {"error": Near(largest(report, lambda exact: rounded(exact, scale)), 5e-3)}
    if row["layer"] == "loss" and row["format"] == "bf16" and row["part"] == "gradient-of-activation":
        return {"error": Near(largest(report, Precision(loss_gradient="bf16")), 5e-3)}
    return None
