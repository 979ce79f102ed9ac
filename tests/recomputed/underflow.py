"""underflow: gradients drawn again, rounded by lists of values; loss scales from thresholds and sorted magnitudes."""
from __future__ import annotations

import functools
import math
from typing import Any

import naive
import numpy as np
import streams
from checks import Columns, Near, Report, Row

columns = Columns()
columns.given("histogram", "binade")
columns.given("number_line", "place")
columns.given("scale_sweep", "k")
Gradients = Any
MODES = {"toward-positive": "upward", "toward-negative": "downward"}  # naive.py's names
GRADIENT_STREAM, UPDATE_STREAM = 512, 513


@columns.recompute("limits", "min_subnormal min_normal max_finite largest_zero smallest_overflow overflow_result",
                   "the list of values and its midpoints")
def limits(report: Report, row: Row) -> Row:
    name = row["format"]
    values, step = naive.values(name), naive.values(name)[-1] - naive.values(name)[-2]
    edge = float(values[-1] + step / 2)  # a tie: to the even one of the largest value and the next, beyond the range
    overflow = edge if len(values) % 2 == 0 else math.nextafter(edge, math.inf)
    return {"min_subnormal": values[1], "min_normal": naive.smallest_normal(name), "max_finite": values[-1],
            "largest_zero": float(values[1]) / 2, "smallest_overflow": overflow,
            "overflow_result": {"ieee": math.inf, "fn": math.nan}[naive.FORMATS[name][3]]}


@columns.recompute("number_line", "value", "the list of values")
def number_line(report: Report, row: Row) -> Row:
    return {"value": float(naive.values(row["format"])[row["place"]])}


@functools.cache
def gradients(report: Report, source: str) -> Gradients:
    """Drawn in doubles, rounded to FP32."""
    config = report.config
    scale = config["log2_median" if source == "log-normal" else "log2_scale"]
    drawn = streams.sample(source, config["seed"], np.arange(config["count"]), scale, config["log2_sigma"],
                           config["degrees"], (config["log2_low"], config["log2_high"]))
    return drawn.astype(np.float32).astype(np.float64)


@columns.recompute("inputs", "elements nan infinite zero smallest largest", "NumPy over the samples, drawn again")
def inputs(report: Report, row: Row) -> Row:
    g = gradients(report, row["source"])
    kept = np.abs(g[np.isfinite(g) & (g != 0)])
    return {"elements": len(g), "nan": int(np.isnan(g).sum()), "infinite": int(np.isinf(g).sum()),
            "zero": int((g == 0).sum()), "smallest": float(kept.min()), "largest": float(kept.max())}


@columns.recompute("histogram", "values", "NumPy over the samples, drawn again")
def histogram(report: Report, row: Row) -> Row:
    g = np.abs(gradients(report, row["source"]))
    return {"values": int(((g >= 2.0 ** row["binade"]) & (g < 2.0 ** (row["binade"] + 1))).sum())}


@functools.cache
def bits(report: Report, stream: int) -> Any:
    return streams.first_rounding_bits(report.config["seed"], [stream], report.config["count"])[:, 0]


def stochastic(x: Gradients, name: str, random: Any) -> Gradients:
    """Away from zero if the way from one neighbour to the next, in 2^-32, and the random number reach 2^32."""
    below, above, _ = naive.neighbours(np.abs(x), name)
    way = np.floor((np.abs(x) - below) / (above - below) * 2.0**32)
    size = np.where(way + random >= 2.0**32, above, below)
    return np.copysign(np.where(size > naive.largest(name), np.inf, size), x)


def rounded(report: Report, x: Gradients, name: str, mode: str, stream: int) -> Gradients:
    if mode == "stochastic":
        return stochastic(x, name, bits(report, stream).astype(np.float64))
    return naive.rounded(x, name, MODES.get(mode, mode))


@functools.cache
def gradient_and_update(report: Report, source: str, name: str, mode: str, k: int) -> tuple[Gradients, Gradients]:
    """Of g 2^k: that rounded, and its product with the rounded learning rate rounded."""
    g = rounded(report, gradients(report, source) * 2.0**k, name, mode, GRADIENT_STREAM)
    lr = float(naive.rounded(report.config["lr"], name))
    with np.errstate(invalid="ignore"):
        update = rounded(report, lr * np.where(np.isfinite(g), g, 0), name, mode, UPDATE_STREAM)
    return g, np.where(np.isfinite(g), update, np.nan)


def shares(x: Gradients, name: str) -> Row:
    size = np.abs(x)
    normal, finite = size >= naive.smallest_normal(name), np.isfinite(x)
    return {"zero": (size == 0).mean(), "subnormal": ((size > 0) & ~normal & finite).mean(),
            "normal": (normal & finite).mean(), "overflow": (~finite).mean()}


def relative_error(exact: Gradients, x: Gradients) -> Near | None:
    kept = np.isfinite(x) & (x != 0)
    error = ((x - exact) / exact)[kept]
    return Near(math.sqrt(math.fsum(error**2) / len(error)), 1e-13) if len(error) else None


@columns.recompute("fates", "zero subnormal normal overflow lost relative_error", "rounding by the list of values")
def fates(report: Report, row: Row) -> Row:
    both = gradient_and_update(report, row["source"], row["format"], row["rounding"], 0)
    exact, x = gradients(report, row["source"]), both[row["quantity"] == "update"]
    exact = exact * (report.config["lr"] if row["quantity"] == "update" else 1)
    mass = np.abs(exact)
    return {**shares(x, row["format"]), "lost": Near(math.fsum(mass[x == 0]) / math.fsum(mass), 1e-13),
            "relative_error": relative_error(exact, x)}


SWEPT = "zero subnormal overflow".split()


@columns.recompute("scale_sweep", " ".join(f"{of}_{fate}" for of in ("gradient", "update") for fate in SWEPT)
                   + " relative_error", "rounding by the list of values", 100)
def scale_sweep(report: Report, row: Row) -> Row:
    first = report.config["roundings"][0]
    both = gradient_and_update(report, row["source"], row["format"], first, row["k"])
    found = {f"{of}_{fate}": share for of, x in zip(("gradient", "update"), both)
             for fate, share in shares(x, row["format"]).items() if fate in SWEPT}
    return found | {"relative_error": relative_error(gradients(report, row["source"]) * 2.0 ** row["k"], both[0])}


def counts(report: Report, source: str, name: str) -> dict[int, tuple[int, int, int]]:
    """k: how many g 2^k become zero, subnormal and infinite to nearest even, from thresholds and sorted magnitudes."""
    config, values, normal = report.config, naive.values(name), naive.smallest_normal(name)
    size = np.sort(np.abs(gradients(report, source)))
    limit = float(values[-1] + (values[-1] - values[-2]) / 2)
    found = {}
    for k in range(config["scale_from"], config["scale_to"] + 1, config["scale_step"]):
        zero = int(np.searchsorted(size * 2.0**k, values[1] / 2, "right"))
        small = int(np.searchsorted(size * 2.0**k, normal - values[1] / 2, "left"))
        fits = int(np.searchsorted(size * 2.0**k, limit, "left" if len(values) % 2 == 0 else "right"))
        found[k] = zero, small - zero, len(size) - fits
    return found


@columns.recompute("best_scale", "best_k from_k to_k zero_unscaled zero_at_best subnormal_at_best grad_scaler_k",
                   "thresholds found in the sorted magnitudes")
def best_scale(report: Report, row: Row) -> Row:
    found = counts(report, row["source"], row["format"])
    inside = [k for k, (_, _, overflow) in found.items() if overflow == 0]
    total = report.config["count"]
    best = min(inside, key=lambda k: (*found[k][:2], k))
    as_few = [k for k in inside if found[k][0] == found[best][0]]
    return {"best_k": best, "from_k": min(as_few), "to_k": max(as_few), "zero_unscaled": found[0][0] / total,
            "zero_at_best": found[best][0] / total, "subnormal_at_best": found[best][1] / total,
            "grad_scaler_k": max(k for k in inside if k <= 16)}


@columns.recompute("adam_constants", "epsilon beta2 one_minus_beta2", "rounding by the list of values")
def adam_constants(report: Report, row: Row) -> Row:
    beta2 = naive.rounded(0.999, row["format"])
    return {"epsilon": naive.rounded(1e-8, row["format"]), "beta2": beta2,
            "one_minus_beta2": naive.rounded(1 - beta2, row["format"])}
