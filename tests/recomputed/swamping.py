"""swamping: every update of a format tried, every step of a weight rounded by itself, probabilities in closed form."""
from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Any

import lanes
import naive
import numpy as np
import streams
from checks import Columns, Near, Report, Row, number
from standing import student_975

columns = Columns()
columns.given("thresholds", "weight")
columns.given("ratios", "asked_ratio")
columns.given("population", "weights")
columns.given("stochastic", "random_bits seeds")
columns.given("random_bits", "random_bits")
PRODUCT_STREAM, SUM_STREAM, RUN_STREAM = 600, 601, 2**20  # of stochastic roundings
INPUT_STREAM, NOISE_STREAM, TRUTH_STREAM, STEP_STREAM = 700, 800, 801, 900  # of the least-squares training
WEIGHTS = 10  # that are trained
TAIL = 1024  # tails of random_bits


def epsilon(name: str) -> float:
    """From 1 to the next number."""
    return math.ldexp(1.0, 1 - naive.precision(name))


@columns.recompute("thresholds", "largest_lost lost_from_ratio smallest_kept", "w + u or w - u for every u")
def thresholds(report: Report, row: Row) -> Row:
    w = number(row["weight"])
    u = naive.values(row["format"])[1:]
    sums = lanes.Lanes([row["format"]], [row["rounding"]]).add(w, (u if row["direction"] == "w + u" else -u)[:, None])
    lost = u[sums[:, 0] == w]
    return {"largest_lost": lost.max() if len(lost) else None, "lost_from_ratio": w / lost.max() if len(lost) else None,
            "smallest_kept": u[sums[:, 0] != w].min()}


@functools.cache
def walks(report: Report) -> dict[tuple[Any, ...], Row]:
    """All rows of `ratios` side by side."""
    config, rows = report.config, report.tables["ratios"]
    formats, modes = [row["format"] for row in rows], [row["rounding"] for row in rows]
    on = lanes.Lanes(formats, modes)
    lr = np.array([naive.rounded(config["lr"], name) for name in formats])
    g = np.array([naive.rounded(1 / row["asked_ratio"] / config["lr"], row["format"]) for row in rows])
    fused = np.array([row["form"] == "fused" for row in rows])
    product_bits, sum_bits = (streams.first_rounding_bits(config["seed"], [stream], config["steps"])
                              for stream in (PRODUCT_STREAM, SUM_STREAM))
    weights = np.ones(len(rows))
    with np.errstate(invalid="ignore"):
        for step in range(config["steps"]):
            product = np.where(fused, lr * g, on.multiply(lr, g, product_bits[step]))
            weights = on.add(weights, product, sum_bits[step])
            if step == 0:
                first, first_product = weights, product
    found: dict[tuple[Any, ...], Row] = {}
    for i, row in enumerate(rows):
        after, way = float(weights[i]), Fraction(lr[i]) * Fraction(g[i]) * config["steps"]
        fate = "moved" if first[i] != 1 else "product-zero" if first_product[i] == 0 else "swamped"
        cells: Row = {"after_one": first[i], "after_all": after, "fate": fate if way else "gradient-zero",
                      "ratio": None, "exact": None, "arrived": None}
        if way:
            arrived = float((Fraction(after) - 1) / way) if math.isfinite(after) else after
            cells |= {"ratio": float(config["steps"] / way), "exact": float(1 + way), "arrived": arrived}
        found[row["format"], row["rounding"], row["form"], row["asked_ratio"]] = cells
    return found


@columns.recompute("ratios", "ratio after_one fate after_all exact arrived", "every product and sum rounded by itself")
def ratios(report: Report, row: Row) -> Row:
    return walks(report)[row["format"], row["rounding"], row["form"], row["asked_ratio"]]


@columns.recompute("population", "no_update separate_lost fused_lost differ", "NumPy over the weights, drawn again")
def population(report: Report, row: Row) -> Row:
    """No update is there where lr or g is zero in the format; a product that rounds to zero is a lost update."""
    config, name, index = report.config, row["format"], np.arange(report.config["count"])
    w = naive.rounded(streams.sample("normal", config["seed"] + 1, index, config["log2_weight"]), name)
    g = naive.rounded(streams.sample("log-normal", config["seed"], index, config["log2_gradient"],
                                     config["log2_sigma"]), name)
    lr = naive.rounded(config["lr"], name)
    random = [streams.first_rounding_bits(config["seed"], [stream], len(index))
              for stream in (PRODUCT_STREAM, SUM_STREAM)]
    on = lanes.Lanes([name], [row["rounding"]])
    w, product = w[:, None], (lr * g)[:, None]
    separate = on.add(w, on.rounded(product, 0.0, random[0]), random[1])
    fused = on.add(w, product, random[1])
    updated = product != 0
    return {"no_update": 1 - updated.mean(), "separate_lost": (separate == w)[updated].mean(),
            "fused_lost": (fused == w)[updated].mean(), "differ": (separate != fused)[updated].mean()}


# The same swamped update again and again, and what repairs it.


def drift(report: Report, name: str) -> tuple[float, int]:
    """The update and how many steps it takes: 1 + steps * update stays within 1.5."""
    config = report.config
    wanted = 0.8 * epsilon(name) / 2 / 2 ** config["binades_below"]
    u = float(naive.rounded(naive.rounded(config["lr"], name) * naive.rounded(wanted / config["lr"], name), name))
    return u, min(config["repair_steps"], math.floor(Fraction(1, 2) / Fraction(u)))


@functools.cache
def stochastic_weights(report: Report, name: str) -> dict[int, Any]:
    """By random bits: the weights of all runs."""
    config, (u, steps) = report.config, drift(report, name)
    runs, counts = config["seeds"], config["random_bits"]
    bits = streams.first_rounding_bits(config["seed"], list(range(RUN_STREAM, RUN_STREAM + runs)), steps)
    lanes_count = runs * len(counts)
    on = lanes.Lanes([name] * lanes_count, ["stochastic"] * lanes_count, np.repeat(counts, runs))
    weights = np.ones(lanes_count)
    for step in range(steps):
        weights = on.add(weights, u, np.tile(bits[step], len(counts)))
    return dict(zip(counts, weights.reshape(len(counts), runs)))


SHOWN_STEPS = 32  # of the table course


@functools.cache
def stochastic_courses(report: Report, name: str) -> list[Any]:
    """After each of the first steps the weights of all runs, with the most random bits."""
    config, (u, steps) = report.config, drift(report, name)
    runs, steps = config["seeds"], min(steps, SHOWN_STEPS)
    bits = streams.first_rounding_bits(config["seed"], list(range(RUN_STREAM, RUN_STREAM + runs)), steps)
    on = lanes.Lanes([name] * runs, ["stochastic"] * runs, [max(config["random_bits"])] * runs)
    weights = [np.ones(runs)]
    for step in range(steps):
        weights.append(on.add(weights[-1], u, bits[step]))
    return weights


columns.given("course", "step")


@columns.recompute("course", "weight low high", "every step rounded by itself")
def course(report: Report, row: Row) -> Row:
    name, step = row["format"], row["step"]
    u, _ = drift(report, name)
    if row["method"] == "stochastic":
        weights = stochastic_courses(report, name)[step]
        mean, deviation = float(average(weights)), float(np.std(weights, ddof=1))
        return {"weight": mean, "low": Near(mean - deviation, 1e-14), "high": Near(mean + deviation, 1e-14)}
    way = {"exact": lambda: float(1 + step * Fraction(u)), "nearest-even": lambda: plain(name, u, step),
           "fp32-master": lambda: float(naive.rounded(plain("fp32", u, step), name)),
           "kahan": lambda: kahan(name, u, step), "stochastic-seed": lambda: float(stochastic_courses(report, name)[step][0])}
    return {"weight": way[row["method"]](), "low": None, "high": None}


def average(weights: Any) -> Fraction:
    return sum(map(Fraction, weights), Fraction()) / len(weights)


def plain(name: str, u: float, steps: int) -> float:
    w = 1.0
    for _ in range(steps):
        w = float(naive.rounded(w + u, name))
    return w


def kahan(name: str, u: float, steps: int) -> float:
    """1 and the updates are added to 0: y = x - c; t = w + y; c = (t - w) - y; w = t."""
    w = c = 0.0
    for step in range(steps + 1):
        y = float(naive.rounded((u if step else 1.0) - c, name))
        t = float(naive.rounded(w + y, name))
        c = float(naive.rounded(naive.rounded(t - w, name) - y, name))
        w = t
    return w


@columns.recompute("repairs", "bits_per_weight steps update weight exact error arrived",
                   "every step rounded by itself, exact weights in rationals")
def repairs(report: Report, row: Row) -> Row:
    name, method, (u, steps) = row["format"], row["method"], drift(report, row["format"])
    single = np.full(steps + 1, u, np.float32)
    single[0] = 1
    if method == "stochastic":
        w = average(stochastic_weights(report, name)[max(report.config["random_bits"])])
    elif method == "fp32-master":
        w = Fraction(float(naive.rounded(np.add.accumulate(single)[-1], name)))
    else:
        w = Fraction(kahan(name, u, steps) if method == "kahan" else plain(name, u, steps))
    bits, way = 1 + sum(naive.FORMATS[name][:2]), steps * Fraction(u)
    extra = {"fp32-master": 32, "kahan": bits}.get(method, 0)
    return {"bits_per_weight": bits + extra, "steps": steps, "update": u, "weight": float(w), "exact": float(1 + way),
            "error": Near(float((w - 1 - way) / Fraction(epsilon(name))), 1e-13),
            "arrived": Near(float((w - 1) / way), 1e-14)}


def chain(name: str, u: float, steps: int, bits: int) -> tuple[float, float]:
    """Mean and standard deviation of a weight that goes up with probability floor(2^bits u / gap) / 2^bits.

    A binomial distribution where 2, beyond which gaps are wider, is out of reach; else powers of the chain's matrix.
    """
    p = math.floor(u / epsilon(name) * 2**bits) / 2**bits
    reach = math.ceil(steps * p + 12 * math.sqrt(steps * p * (1 - p)) + 12)
    if reach * epsilon(name) < 1:
        return 1 + steps * p * epsilon(name), math.sqrt(steps * p * (1 - p)) * epsilon(name)
    numbers = naive.values(name)[naive.values(name) >= 1][: min(steps, reach) + 2]
    up = np.floor(u / np.diff(numbers) * 2.0**bits) / 2.0**bits
    matrix = np.diag(1 - up) + np.diag(up[:-1], 1)
    probability, numbers = np.linalg.matrix_power(matrix, steps)[0], numbers[:-1]
    mean = float(probability @ numbers)
    return mean, math.sqrt(float(probability @ (numbers - mean) ** 2))


@columns.recompute("stochastic", "mean low high exact exact_inside predicted_mean predicted_deviation",
                   "every run again, the integral of Student's density, the binomial distribution or powers of a matrix")
def stochastic(report: Report, row: Row) -> Row:
    name, (u, steps) = row["format"], drift(report, row["format"])
    weights = stochastic_weights(report, name)[row["random_bits"]]
    runs, mean, exact = len(weights), average(weights), 1 + steps * Fraction(u)
    variance = sum((Fraction(w) - mean) ** 2 for w in weights) / (runs - 1)
    half = student_975(runs - 1) * math.sqrt(variance / runs)
    predicted_mean, predicted_deviation = chain(name, u, steps, row["random_bits"])
    return {"mean": float(mean), "low": Near(float(mean) - half, 0, 1e-8 * half),
            "high": Near(float(mean) + half, 0, 1e-8 * half), "exact": float(exact),
            "exact_inside": abs(exact - mean) <= half, "predicted_mean": Near(predicted_mean, 1e-12),
            "predicted_deviation": Near(predicted_deviation, 1e-9)}


@columns.recompute("random_bits", "cases bias predicted", "every tail with every random number; tails cut in NumPy")
def random_bits(report: Report, row: Row) -> Row:
    name, bits = row["format"], row["random_bits"]
    tails = np.arange(TAIL) / TAIL
    on = lanes.Lanes([name], ["stochastic"], bits)
    exact = np.repeat(1 + epsilon(name) * tails, 2**bits)
    rounded = on.rounded(exact[:, None], 0.0, np.tile(np.arange(2**bits), TAIL)[:, None])[:, 0]
    return {"cases": len(exact), "bias": float(((rounded - exact) / epsilon(name)).mean()),
            "predicted": float((np.floor(tails * 2**bits) / 2**bits - tails).mean())}


# Least squares: 10 weights, one example a step.


Grid = tuple[Any, Any]  # fraction bits and least exponents, one row for each row of weights


def grid(names: list[str]) -> Grid:
    return (np.array([naive.FORMATS[name][1] for name in names])[:, None],
            np.array([1 - naive.FORMATS[name][2] for name in names])[:, None])


def spacing(x: Any, on: Grid) -> Any:
    return np.ldexp(1.0, np.maximum(np.frexp(x)[1] - 1, on[1]) - on[0])


def to_nearest(x: Any, on: Grid) -> Any:
    """Ties to even; nothing here is beyond a range."""
    step = spacing(x, on)
    return np.rint(x / step) * step


def at_random(x: Any, on: Grid, random: Any) -> Any:
    step = spacing(x, on)
    cut = np.floor(np.abs(x) / step * 2.0**32)
    return np.copysign(np.floor((cut + random) / 2.0**32) * step, x)


@functools.cache
def training(report: Report) -> dict[tuple[str, str], tuple[float, float]]:
    """All rows side by side: the loss, and the share of gradients that changed nothing."""
    config, table = report.config, report.tables["least_squares"]
    seed, steps = config["seed"], config["training_steps"]
    names, methods = [row["format"] for row in table], np.array([row["method"] for row in table])
    kept_in = ["fp32" if method == "fp32-master" else name for name, method in zip(names, methods)]
    own, wide, kahans, randoms = grid(names), grid(kept_in), methods == "kahan", methods == "stochastic"
    of_kahan, of_random = ((own[0][these], own[1][these]) for these in (kahans, randoms))
    index = np.arange(steps)
    x = np.stack([streams.normal(seed, INPUT_STREAM + i, index) for i in range(WEIGHTS)], 1)
    noise = 0.5 * streams.normal(seed, NOISE_STREAM, index)
    truth = 4 * streams.uniform(seed, TRUTH_STREAM, np.arange(WEIGHTS))
    bits = streams.first_rounding_bits(seed, list(range(STEP_STREAM, STEP_STREAM + WEIGHTS)), steps).astype(np.float64)
    lr = np.array([float(naive.rounded(config["training_lr"], name)) for name in kept_in])[:, None]

    kept = weights = np.zeros((len(table), WEIGHTS))
    correction = np.zeros((int(kahans.sum()), WEIGHTS))
    squares, gradients, unchanged = np.zeros(len(table)), np.zeros(len(table)), np.zeros(len(table))
    for step in range(steps):
        error = noise[step] + (x[step] * (weights - truth)).sum(1)
        g = to_nearest(error[:, None] * x[step], own)
        u = to_nearest(lr * g, wide)
        after = to_nearest(kept - u, wide)
        after[randoms] = at_random((kept - u)[randoms], of_random, bits[step])
        y = -to_nearest(u[kahans] + correction, of_kahan)
        after[kahans] = to_nearest(kept[kahans] + y, of_kahan)
        correction = to_nearest(to_nearest(after[kahans] - kept[kahans], of_kahan) - y, of_kahan)
        before, weights, kept = weights, to_nearest(after, own), after
        if step >= steps - steps // 4:
            squares += error**2 / 2
            gradients += (g != 0).sum(1)
            unchanged += ((g != 0) & (weights == before)).sum(1)
    return {(name, method): (loss, share) for name, method, loss, share in zip(
        names, methods, squares / (steps // 4), unchanged / gradients)}


@columns.recompute("least_squares", "lr loss relative_loss unchanged", "the training in NumPy")
def least_squares(report: Report, row: Row) -> Row:
    loss, unchanged = training(report)[row["format"], row["method"]]
    name = "fp32" if row["method"] == "fp32-master" else row["format"]
    return {"lr": naive.rounded(report.config["training_lr"], name), "loss": Near(loss, 1e-9), "unchanged": unchanged,
            "relative_loss": Near(loss / training(report)["fp32", "nearest-even"][0], 1e-9)}
