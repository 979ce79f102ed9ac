"""scaling: block formats in NumPy: a scale for each block, elements by looking for neighbours among their values."""
from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import Any

import naive
import numpy as np
import streams
from checks import Columns, Near, Report, Row
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Floats = NDArray[np.float32]

columns = Columns()
columns.given("outliers", "outlier")
columns.given("outlier_seeds", "outlier")
columns.given("delayed", "history margin")
columns.given("delayed_course", "history margin step")


@dataclass(frozen=True)
class Blocks:
    """rows x columns elements share a scale; 0: all. levels: NVFP4's two, scales in E4M3 below one of the tensor."""

    element: str
    rows: int
    columns: int
    rule: str = "amax"
    levels: int = 1

    @property
    def largest(self) -> float:
        return 127.0 if self.element == "int8" else naive.largest(self.element)

    @property
    def shape(self) -> str:
        named = {(0, 0): "tensor", (1, 0): "row", (0, 1): "column"}
        return named.get((self.rows, self.columns), f"{self.rows}x{self.columns}")

    def bits(self, rows: int, width: int) -> float:
        """Of an element with its share of scales."""
        element = 8 if self.element == "int8" else 1 + sum(naive.FORMATS[self.element][:2])
        shared = -(-rows // (self.rows or rows)) * -(-width // (self.columns or width))
        scale = 32 if self.rule == "amax" and self.levels == 1 else 8
        return element + (shared * scale + (32 if self.levels == 2 else 0)) / (rows * width)


FORMATS = {"e4m3-tensor": Blocks("e4m3", 0, 0), "e4m3-row": Blocks("e4m3", 1, 0), "int8": Blocks("int8", 1, 0),
           "e4m3/column/fp32": Blocks("e4m3", 0, 1), "fp8-1x128": Blocks("e4m3", 1, 128),
           "fp8-128x128": Blocks("e4m3", 128, 128), "mxfp8e4m3": Blocks("e4m3", 1, 32, "floor"),
           "mxfp8e4m3/rceil": Blocks("e4m3", 1, 32, "rceil"), "e4m3/1x32/fp32": Blocks("e4m3", 1, 32),
           "mxfp4": Blocks("e2m1", 1, 32, "floor"), "nvfp4": Blocks("e2m1", 1, 16, "amax", 2)}


def spread(of_blocks: NDArray[Any], f: Blocks, shape: tuple[int, int]) -> NDArray[Any]:
    """What blocks have, for every element."""
    down = np.arange(shape[0]) // (f.rows or shape[0])
    across = np.arange(shape[1]) // (f.columns or shape[1])
    return of_blocks[down[:, None], across]


def largest_magnitudes(x: Floats, f: Blocks) -> Floats:
    """By block."""
    high, wide = min(f.rows or len(x), len(x)), f.columns or x.shape[1]
    return np.abs(x).reshape(len(x) // high, high, x.shape[1] // wide, wide).max((1, 3))


def exponents(amax: Floats, f: Blocks) -> Floats:
    """Of a scale that is a power of two, by rule."""
    top = math.floor(math.log2(f.largest))
    exact = amax.astype(np.float64)
    if f.rule == "floor":
        return np.floor(np.log2(exact)) - top
    if f.rule == "ceil":
        return np.ceil(np.log2(exact)) - top
    if f.rule == "rceil":
        return np.ceil(np.log2((amax / np.float32(f.largest)).astype(np.float64)))
    significand, exponent = np.frexp(exact)  # even: of the magnitude rounded to an element's digits, ties up
    digits = 2.0 ** naive.precision(f.element)
    return exponent - 1 + (np.floor(significand * digits + 0.5) == digits) - top


def quantized(x: Floats, f: Blocks) -> tuple[Floats, Doubles]:
    """Elements times their scales, and the largest value that each element's block holds. Operations are FP32's."""
    amax = largest_magnitudes(x, f)
    one, target = np.float32(1), np.float32(f.largest)
    scale = amax / target
    if f.rule != "amax":
        scale = np.ldexp(one, exponents(amax, f).astype(np.int64)).astype(np.float32)
    inverse = one / scale
    if f.levels == 2:
        tensor = amax.max() / (np.float32(naive.largest("e4m3")) * target)
        low = np.maximum(rounded(amax / target / tensor, "e4m3"), np.float32(naive.smallest_normal("e4m3")))
        scale, inverse = low * tensor, one / tensor / low
    each = spread(scale, f, x.shape)
    multiplies = f.element == "int8" or f.levels == 2  # the others divide; by a power of two that is the same
    scaled = x * spread(inverse, f, x.shape) if multiplies else x / each
    return rounded(scaled, f.element) * each, f.largest * each.astype(np.float64)


def rounded(x: Floats, element: str) -> Floats:
    """To nearest even, saturating."""
    if element == "int8":
        return np.clip(np.rint(x), -127, 127).astype(np.float32)
    most = naive.largest(element)
    return naive.rounded(np.clip(x, -most, most), element).astype(np.float32)


# Tensors.


def in_fp32(x: Doubles) -> Floats:
    return x.astype(np.float32)


@functools.cache
def sample(name: str, seed: int, rows: int, width: int, outlier: float = 1.0) -> Floats:
    """Numbers by columns, as operands of products are drawn; the first column times the outlier."""
    index = np.arange(rows * width)
    heavy = name == "heavy-tailed"
    x = streams.sample("student-t", seed, index, degrees=3) if heavy else streams.normal(seed, 0, index)
    tensor = in_fp32(x).reshape(width, rows).T.copy()
    tensor[:, 0] = in_fp32(tensor[:, 0].astype(np.float64) * outlier)
    return tensor


def tensor_of(report: Report, name: str) -> Floats:
    c = report.config
    return sample(name, c["seed"], c["rows"], c["columns"], c["outlier"] if name == "outlier-channel" else 1.0)


def norm_ratio(error: Doubles, x: Floats) -> float:
    return math.sqrt(float((error**2).sum()) / float((x.astype(np.float64) ** 2).sum()))


def loss(x: Floats, f: Blocks) -> Row:
    """Cells that several tables have."""
    after, largest = quantized(x, f)
    error = after.astype(np.float64) - x
    relative = norm_ratio(error, x)
    return {"relative_error": Near(relative, 1e-12), "sqnr": Near(-20 * math.log10(relative), 1e-12),
            "others_error": Near(norm_ratio(error[:, 1:], x[:, 1:]), 1e-12),
            "outlier_error": Near(norm_ratio(error[:, 0], x[:, 0]), 1e-12),
            "largest_error": float(np.abs(error).max()), "zeros": np.mean((after == 0) & (x != 0)),
            "others_zeroed": np.mean((after == 0)[:, 1:] & (x != 0)[:, 1:]),
            "saturated": float(np.mean(np.abs(x) > largest)), "not_finite": np.mean(~np.isfinite(after))}


def pick(found: Row, *names: str) -> Row:
    return {name: found[name] for name in names}


@columns.recompute("granularity", "scale_for bits relative_error others_error sqnr largest_error zeros saturated "
                   "not_finite", "NumPy over all elements")
def granularity(report: Report, row: Row) -> Row:
    f, x = FORMATS[row["format"]], tensor_of(report, row["tensor"])
    found = loss(x, f) | {"bits": f.bits(*x.shape), "scale_for": f.shape}
    if row["tensor"] != "outlier-channel":
        found["others_error"] = None
    return pick(found, "scale_for", "bits", "relative_error", "others_error", "sqnr", "largest_error", "zeros",
                "saturated", "not_finite")


columns.given("block", "index")


@columns.recompute("block", "value stored", "NumPy over all elements")
def block(report: Report, row: Row) -> Row:
    x = tensor_of(report, row["tensor"])
    return {"value": float(x[0, row["index"]]), "stored": float(quantized(x, FORMATS[row["format"]])[0][0, row["index"]])}


TOKENS, CHANNELS = 32, 1024  # of the tables of outliers


@columns.recompute("outliers", "others_error outlier_error others_zeroed saturated", "NumPy over all elements")
def outliers(report: Report, row: Row) -> Row:
    x = sample("normal", report.config["seed"], TOKENS, CHANNELS, row["outlier"])
    return pick(loss(x, FORMATS[row["format"]]), "others_error", "outlier_error", "others_zeroed", "saturated")


@columns.recompute("outlier_seeds", "least mean largest", "NumPy over all elements of 16 seeds", 10)
def outlier_seeds(report: Report, row: Row) -> Row:
    errors = []
    for seed in range(report.config["seed"], report.config["seed"] + 16):
        x = sample("normal", seed, TOKENS, CHANNELS, row["outlier"])
        after, _ = quantized(x, FORMATS[row["format"]])
        errors.append(norm_ratio(after[:, 1:].astype(np.float64) - x[:, 1:], x[:, 1:]))
    return {"least": Near(min(errors), 1e-12), "mean": Near(float(np.mean(errors)), 1e-12),
            "largest": Near(max(errors), 1e-12)}


@columns.recompute("rules", "relative_error others_error sqnr largest_error saturated zeros", "NumPy over all elements", 30)
def rules(report: Report, row: Row) -> Row:
    x = tensor_of(report, row["tensor"])
    found = loss(x, replace(FORMATS["e4m3/1x32/fp32"], element=row["element"], rule=row["rule"]))
    found["saturated"] = round(found["saturated"] * x.size) if row["scale"] == "e8m0" else None
    if row["tensor"] != "outlier-channel":
        found["others_error"] = None
    return pick(found, "relative_error", "others_error", "sqnr", "largest_error", "saturated", "zeros")


# Delayed scales.

COURSES = ("steady", "growth", "decay", "jump", "spike")


@functools.cache
def course_of(report: Report, course: str) -> list[Floats]:
    """The tensors of a course, step by step."""
    c = report.config
    steps, count = c["steps"], c["step_values"]
    half, quarter = steps // 2, steps // 4
    level = {"steady": lambda t: 0, "growth": lambda t: c["drift"] * t, "decay": lambda t: -c["drift"] * t,
             "jump": lambda t: c["jump"] if t >= half else 0, "spike": lambda t: c["jump"] if t == quarter else 0}
    x = streams.normal(c["seed"], 10 + COURSES.index(course), np.arange(steps * count)).reshape(steps, count)
    return [in_fp32(2.0 ** level[course](t) * x[t]) for t in range(steps)]


@functools.cache
def delayed_steps(report: Report, course: str, history: int | None, margin: int | None) -> list[Row]:
    """What the scale goes by, and what that does; before the first step it is 1."""
    target = naive.largest("e4m3")
    amax = [float(np.abs(x).max()) for x in course_of(report, course)]
    steps = []
    for t, x in enumerate(course_of(report, course)):
        if history is None or margin is None:
            by = amax[t]
        else:
            by = max(amax[max(0, t - history):t]) * 2.0**margin if t else target
        factor = np.float32(target) / np.float32(by)
        after = rounded(x * factor, "e4m3") * (np.float32(1) / factor)
        steps.append({"amax": amax[t], "scaled_by": by, "error": norm_ratio(after.astype(np.float64) - x, x),
                      "saturated": int((np.abs(x) > by).sum()), "zeros": int(((after == 0) & (x != 0)).sum())})
    return steps


@columns.recompute("delayed_course", "amax scaled_by error saturated zeros", "NumPy over all values")
def delayed_course(report: Report, row: Row) -> Row:
    step = delayed_steps(report, row["course"], row["history"], row["margin"])[row["step"]]
    return step | {"error": Near(step["error"], 1e-12)}


@columns.recompute("delayed", "mean_error worst_error saturated_steps first_saturated saturated zeros",
                   "NumPy over all values")
def delayed(report: Report, row: Row) -> Row:
    steps = delayed_steps(report, row["course"], row["history"], row["margin"])
    cut = [t for t, step in enumerate(steps) if step["saturated"]]
    values = report.config["steps"] * report.config["step_values"]
    return {"mean_error": Near(float(np.mean([step["error"] for step in steps])), 1e-12),
            "worst_error": Near(max(step["error"] for step in steps), 1e-12), "saturated_steps": len(cut),
            "first_saturated": cut[0] if cut else None,
            "saturated": sum(step["saturated"] for step in steps) / values,
            "zeros": sum(step["zeros"] for step in steps) / values}
