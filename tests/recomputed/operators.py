"""operators: the operators and models of programs.py and networks.py, in NumPy, against 64-bit significands."""
from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Any

import gradients
import naive
import networks
import numpy as np
import programs
import programs_listed  # noqa: F401  # its operators join those of programs
from checks import Columns, Near, Report, Row
from programs import Arithmetic

columns = Columns()
columns.given("operators", "scale")
columns.given("sums", "terms")
columns.given("binary_cross_entropy", "logit")
columns.given("cancellation", "k")
columns.given("backward", "scale")
columns.given("repeated_tokens", "positions")
Array = Any
NEAR = 1e-8  # the exact gelu is good to a double's digits


def precision(name: str | None, where: str) -> networks.Precision:
    return {"all": (name, name), "tensors": ("fp32", name), "fp32": ("fp32", "fp32")}[where]


def unit(name: str) -> float:
    return 2.0 ** -naive.precision(name)


def near(x: float) -> float | Near:
    """Infinity is to be infinite."""
    return Near(float(x), NEAR) if math.isfinite(x) else math.inf


class Errors:
    """Of outputs by samples by scales, where `kept`: sums over outputs, one for each sample and scale."""

    def __init__(self, result: Array, exact: Array, kept: Array) -> None:
        finite = np.isfinite(result) & kept
        off = np.where(finite, np.abs(np.where(finite, result, 0) - exact), 0)
        nonzero = np.where(exact == 0, 1, np.abs(exact))
        self.squares, self.exact_squares = (off**2).sum(0), np.where(kept, exact**2, 0).sum(0)
        self.worst = np.where(exact == 0, 0, off / nonzero).max(0)
        self.outputs, self.non_finite = kept.sum(0), (kept & ~finite).sum(0)
        self.vanished, self.beyond = (finite & (result == 0) & (exact != 0)).sum(0), (~kept).sum(0)

    def relative(self) -> Array:
        """Of every sample and scale."""
        with np.errstate(divide="ignore", invalid="ignore"):
            of_exact = np.sqrt(self.squares / self.exact_squares)
        of_exact = np.where(self.exact_squares > 0, of_exact, np.where(self.squares > 0, np.inf, 0))
        return np.where(self.non_finite > 0, np.inf, of_exact).astype(np.float64)


@functools.cache
def outputs(name: str, chosen: networks.Precision, n: int, seed: int, samples: range,
            scales: tuple[float, ...]) -> Array:
    y = programs.evaluated(name, Arithmetic(*chosen), programs.inputs(name, n, seed, samples, scales))
    return np.broadcast_to(y, (len(y), len(samples), len(scales)))


@functools.cache
def errors(name: str, chosen: networks.Precision, n: int, seed: int, count: int, scales: tuple[float, ...]) -> Errors:
    """Against exact results, where fp32 throughout is finite."""
    drawn = (n, seed, range(count), scales)
    return Errors(outputs(name, chosen, *drawn), outputs(name, (None, None), *drawn),
                  np.isfinite(outputs(name, ("fp32", "fp32"), *drawn)))


def settings(report: Report) -> tuple[Any, ...]:
    c = report.config
    if c["order"] != "sequential" or c["rounding"] != "nearest-even":
        raise ValueError(f"order {c['order']}, rounding {c['rounding']}")
    return c["size"], c["seed"], c["samples"], tuple(c["scales"])


@columns.recompute("operators", "error error_u worst outputs non_finite vanished beyond_fp32",
                   "NumPy: every operation is rounded, and compared with the same in 64-bit significands")
def operators(report: Report, row: Row) -> Row:
    found = errors(row["operator"], precision(row["format"], row["where"]), *settings(report))
    k = report.config["scales"].index(row["scale"])
    non_finite = int(found.non_finite[:, k].sum())
    error = math.inf if non_finite else math.sqrt(found.squares[:, k].sum() / found.exact_squares[:, k].sum())
    return {"error": near(error), "error_u": near(error / unit(row["format"])),
            "worst": near(found.worst[:, k].max()),
            "outputs": int(found.outputs[:, k].sum()), "non_finite": non_finite,
            "vanished": int(found.vanished[:, k].sum()), "beyond_fp32": int(found.beyond[:, k].sum())}


def derived(narrow: float, inside: float, budget: float) -> str:
    return "all" if narrow <= budget else "tensors" if inside <= budget else "fp32"


@columns.recompute("autocast", "all all_least tensors derived agree verdict",
                   "NumPy: every operation is rounded, and compared with the same in 64-bit significands")
def autocast(report: Report, row: Row) -> Row:
    narrow, inside = (errors(row["operator"], precision(row["format"], where), *settings(report)).relative().max(1)
                      / unit(row["format"]) for where in ("all", "tensors"))
    budget = report.config["budget"]
    said = derived(narrow.max(), inside.max(), budget)
    agree = sum(derived(a, t, budget) == said for a, t in zip(narrow, inside))
    firm = all(derived(narrow.max(), inside.max(), factor * budget) == said for factor in (0.5, 2))
    return {"all": near(narrow.max()), "all_least": near(narrow.min()), "tensors": near(inside.max()),
            "derived": said, "agree": agree,
            "verdict": "clear" if firm and agree == len(narrow) else "borderline"}


@columns.recompute("inside", "all tensors bound fp32",
                   "NumPy on rounded inputs: every operation is rounded, and compared with the same in 64-bit significands", 48)
def inside(report: Report, row: Row) -> Row:
    n, seed, count, _ = settings(report)
    name = row["format"]
    x = [programs.nearest(a, name) for a in programs.inputs(row["operator"], n, seed, range(min(4, count)), (1.0,))]
    if not all(np.isfinite(a).all() for a in x):
        return dict.fromkeys(("all", "tensors", "bound", "fp32"))
    exact = programs.evaluated(row["operator"], Arithmetic(None, None), x)
    results = {w: programs.evaluated(row["operator"], Arithmetic(*precision(name, w)), x)
               for w in ("all", "tensors", "fp32")}
    of = {where: Errors(result, exact, np.ones(exact.shape, bool)) for where, result in results.items()}
    found: Row = {w: near(e.relative().max() / unit(name)) for w, e in of.items()}
    wide = of["fp32"].relative()
    if (np.abs(results["fp32"]) > naive.largest(name)).any() or of["tensors"].non_finite.any():
        return found | {"bound": None}
    half = naive.values(name)[1] / 2
    bound = unit(name) * (1 + wide) + half * np.sqrt(len(exact) / of["fp32"].exact_squares) + wide
    return found | {"bound": near(bound.max() / unit(name))}


def overflow(name: str) -> float:
    """The magnitude from which on a number is rounded beyond the largest value; a tie with an even code stays."""
    values = naive.values(name)
    middle = values[-1] + (values[-1] - values[-2]) / 2
    return float(np.nextafter(middle, np.inf) if len(values) % 2 else middle)


def threshold(name: str, operator: str, event: str) -> float:
    values, most, tiny = naive.values(name), overflow(name), naive.values(name)[1] / 2
    if operator == "sigmoid":  # 1 + e^-x is 1 where e^-x is rounded to 2^-p or less: half a step above it
        power = 2.0 ** -naive.precision(name)
        step = values[np.searchsorted(values, power) + 1] - power
        return -math.log(power + step / 2)
    return {("exp", "overflows"): lambda: math.log(most), ("exp", "becomes 0"): lambda: math.log(tiny),
            ("square", "overflows"): lambda: math.sqrt(most), ("square", "becomes 0"): lambda: math.sqrt(tiny),
            ("cube", "overflows"): lambda: float(np.cbrt(most)), ("reciprocal", "overflows"): lambda: 1 / most,
            ("tanh", "becomes 1"): lambda: math.atanh(1 - unit(name) / 2)}[operator, event]()


FUNCTIONS = {"exp": lambda m, x: m.of(np.exp, x), "square": programs.square, "cube": programs.cube,
             "reciprocal": programs.reciprocal, "sigmoid": programs.sigmoid, "tanh": lambda m, x: m.of(np.tanh, x)}


@columns.recompute("points", "threshold input result neighbour", "closed forms; all values of the format, one by one")
def points(report: Report, row: Row) -> Row:
    name, event = row["format"], row["event"]
    toward_zero = (row["operator"], event) in (("square", "becomes 0"), ("reciprocal", "overflows"))
    x = naive.values(name)[:0:-1] if toward_zero else naive.values(name)[1:]
    x = -x if (row["operator"], event) == ("exp", "becomes 0") else x
    with np.errstate(all="ignore"):
        y = FUNCTIONS[row["operator"]](Arithmetic(name, name), x)
    happens = {"overflows": ~np.isfinite(y), "becomes 0": y == 0, "becomes 1": y == 1}[event]
    first = int(np.argmax(happens))
    if not happens[first:].all():  # the event is to last
        return {"input": math.nan}
    return {"threshold": Near(threshold(name, row["operator"], event), 1e-15), "input": x[first], "result": y[first],
            "neighbour": y[first - 1]}


@functools.cache
def sums_of_ones(name: str, most: int) -> list[float]:
    """Of 0, 1, 2, ... ones, one after the other; a sum that stays is not computed again."""
    sums = [0.0]
    while len(sums) <= most and (len(sums) < 3 or sums[-1] != sums[-2]):
        sums.append(float(naive.rounded(sums[-1] + 1, name)))
    return sums


@columns.recompute("sums", "sum fp32_inside mean mean_fp32_inside", "ones added one by one")
def sums(report: Report, row: Row) -> Row:
    name, n = row["format"], row["terms"]
    total = sums_of_ones(name, n)[: n + 1][-1]
    with np.errstate(all="ignore"):
        return {"sum": total, "fp32_inside": naive.rounded(n, name),
                "mean": naive.rounded(total / naive.rounded(n, name), name), "mean_fp32_inside": 1}


@columns.recompute("binary_cross_entropy", "exact bce bce_fp32_inside bce_after_cast with_logits",
                   "NumPy, every operation rounded; ln(1 + e^x)")
def binary_cross_entropy(report: Report, row: Row) -> Row:
    logit, wide, narrow = row["logit"], Arithmetic("fp32", row["format"]), Arithmetic(row["format"], row["format"])
    x = np.array([logit])
    with np.errstate(all="ignore"):
        probability = wide.leave(programs.sigmoid(wide, x))
        words = {"bce": programs.bce_term(narrow, programs.sigmoid(narrow, x)),
                 "bce_fp32_inside": wide.leave(programs.bce_term(wide, programs.sigmoid(wide, x))),
                 "bce_after_cast": wide.leave(programs.bce_term(wide, probability)),
                 "with_logits": programs.softplus(narrow, x)}
    exact = math.log1p(math.exp(-abs(logit))) + max(logit, 0)
    return {"exact": Near(exact, 1e-15), **{column: word[0] for column, word in words.items()}}


NAIVE = {"log(1 + x)": lambda m, x: m.of(np.log, m.add(m.constant(1), x)),
         "e^x - 1": lambda m, x: m.sub(m.of(np.exp, x), m.constant(1)),
         "1 - cos x": lambda m, x: m.sub(m.constant(1), m.of(np.cos, x))}
STABLE = {"log(1 + x)": lambda m, x: m.of(np.log1p, x), "e^x - 1": lambda m, x: m.of(np.expm1, x),
          "1 - cos x": lambda m, x: m.mul(m.constant(2), programs.square(m, m.of(np.sin, m.mul(x, m.constant(0.5)))))}
EXACT = {"log(1 + x)": math.log1p, "e^x - 1": math.expm1, "1 - cos x": lambda x: 2 * math.sin(x / 2) ** 2}


@columns.recompute("cancellation", "x exact naive stable naive_error stable_error",
                   "NumPy, every operation rounded; rationals for x - y")
def cancellation(report: Report, row: Row) -> Row:
    name, form, apart = row["format"], row["naive_form"], Fraction(4, 3) / 2 ** row["k"]
    m = Arithmetic(name, name)
    if form == "x - y":
        x, exact = Fraction(4, 3), apart
        naive_form = float(naive.rounded(float(x), name)) - float(naive.rounded(float(x - apart), name))
        stable = float(naive.rounded(float(apart), name))
    else:
        x = Fraction(float(naive.rounded(float(apart), name)))
        exact = Fraction(EXACT[form](float(x)))
        number = np.array([float(x)])
        naive_form, stable = float(NAIVE[form](m, number)[0]), float(STABLE[form](m, number)[0])
    off = [float(abs(Fraction(y) - exact) / exact) for y in (naive_form, stable)]
    return {"x": Near(float(x), 1e-15), "exact": Near(float(exact), 1e-14), "naive": naive_form, "stable": stable,
            "naive_error": Near(off[0], 1e-6), "stable_error": Near(off[1], 1e-9, 1e-14)}


@functools.cache
def gradient_errors(name: str, how: str, operator: str, n: int, seed: int, scale: float) -> Errors:
    x = gradients.inputs(operator, n, seed, scale)
    result = gradients.evaluated(operator, gradients.arithmetic(name, how), x)
    exact = gradients.evaluated(operator, Arithmetic(None, None), x)
    return Errors(result, exact, np.ones(exact.shape, bool))


@columns.recompute("backward", "error error_u outputs non_finite vanished",
                   "NumPy: every operation is rounded, and compared with the same in 64-bit significands")
def backward(report: Report, row: Row) -> Row:
    n, seed, _, _ = settings(report)
    found = gradient_errors(row["format"], row["how"], row["operator"], n, seed, row["scale"])
    outputs_here, non_finite = int(found.outputs.sum()), int(found.non_finite.sum())
    error = math.inf if non_finite else math.sqrt(found.squares.sum() / found.exact_squares.sum())
    return {"error": near(error), "error_u": near(error / unit(row["format"])), "outputs": outputs_here,
            "non_finite": non_finite, "vanished": Near(int(found.vanished.sum()) / outputs_here, 1e-15)}


@functools.cache
def repeated(name: str, seed: int) -> dict[str, Array]:
    """Sums of 1, 2, 4, ... equal gradients, and their errors where they are drawn."""
    equal = np.full((4096, 1), 0.0625)
    x = programs.nearest(programs.operand("positive", 0, 4096, seed, range(8), (0.0625,)), name)[..., 0]
    exact = gradients.running_sums(None, None, x)
    with np.errstate(all="ignore"):
        found = {"equal": gradients.running_sums(name, name, equal)[:, 0] * 16,
                 "equal_fp32_sums": gradients.running_sums(name, "fp32", equal)[:, 0] * 16}
        for column, wide in (("error", name), ("error_fp32_sums", "fp32")):
            off = gradients.running_sums(name, wide, x) - exact
            found[column] = np.sqrt((off**2).sum(1) / (exact**2).sum(1))
    return found


@columns.recompute("repeated_tokens", "equal equal_fp32_sums error error_fp32_sums", "gradients added one by one")
def repeated_tokens(report: Report, row: Row) -> Row:
    found, k = repeated(row["format"], report.config["seed"]), row["positions"].bit_length() - 1
    return {column: near(of[k]) if column.startswith("error") else float(of[k]) for column, of in found.items()}


def choices(report: Report) -> list[tuple[str, str]]:
    """By bits of a tensor, then of an operation."""
    bits = {name: 1 + sum(naive.FORMATS[name][:2]) for name in report.config["formats"]}
    every = [(name, where) for name in bits for where in ("all", "tensors")]
    return sorted(every, key=lambda c: (bits[c[0]], bits[c[0]] if c[1] == "all" else 32)) + [("fp32", "fp32")]


def decided(report: Report, model: str, before: str | None) -> dict[str, networks.Precision]:
    """Precisions of stages as the table `graph` has them, before a row or all."""
    found = {stage.name: ("fp32", "fp32") for stage in networks.MODELS[model]}
    for row in report.tables["graph"]:
        if row["model"] == model:
            if row["operator"] == before:
                break
            found[row["operator"]] = precision(row["format"], row["where"])
    return found


@columns.recompute("graph", "operations format where error",
                   "every choice in NumPy, given the earlier decisions, until one keeps the budget")
def graph(report: Report, row: Row) -> Row:
    stage = next(s for s in networks.MODELS[row["model"]] if s.name == row["operator"])
    stages = decided(report, row["model"], row["operator"])
    for name, where in choices(report):
        tried = tuple({**stages, row["operator"]: precision(name, where)}.values())
        error = networks.error(row["model"], tried, report.config["seed"], range(min(4, report.config["samples"])))
        if error <= 0.9 * report.config["graph_budget"]:
            break
    return {"operations": stage.operations, "format": name, "where": where, "error": near(error)}


def by_list(model: str, name: str) -> dict[str, networks.Precision]:
    """PyTorch's list for CUDA: products in 16 bits; softmax and norms in fp32; the others as the widest they read."""
    found: dict[str, networks.Precision] = {}
    for stage in networks.MODELS[model]:
        inherits = stage.reads and not stage.weights[0] and all(found[read][1] == name for read in stage.reads)
        lower = stage.name.startswith(("linear", "attention")) or inherits and "softmax" not in stage.name \
            and "norm" not in stage.name
        found[stage.name] = precision(name, "tensors" if lower else "fp32")
    return found


@columns.recompute("models", "narrow_operations error fresh_error", "NumPy, every operation rounded")
def models(report: Report, row: Row) -> Row:
    stages, kind, name = networks.MODELS[row["model"]], row["precisions"], row["format"]
    if kind == "derived":
        chosen = decided(report, row["model"], None)
    elif kind == "pytorch-cuda":
        chosen = by_list(row["model"], name)
    else:
        chosen = {stage.name: precision(name, kind) for stage in stages}
    count, seed = min(4, report.config["samples"]), report.config["seed"]
    narrow = sum(s.operations for s in stages if chosen[s.name][1] != "fp32")
    error, fresh = (near(networks.error(row["model"], tuple(chosen.values()), seed, samples))
                    for samples in (range(count), range(count, 2 * count)))
    return {"narrow_operations": Near(narrow / sum(s.operations for s in stages), 1e-15), "error": error,
            "fresh_error": fresh}
