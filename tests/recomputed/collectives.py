"""collectives: every sum of the report again, in NumPy, compared with exact sums in integers."""
from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import naive
import numpy as np
import streams
from checks import Columns, Near, Report, Row
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Whole = NDArray[np.int64]

columns = Columns()
columns.given("errors", "signal ranks")
columns.given("growth", "signal")
columns.given("batch", "log2_scale ranks")
columns.given("orders", "ranks orders")

FP32_WIRE = ("ring-fp32", "one-shot-fp32")
CHAINS = ("ring", "one-shot", "one-shot-rotated")
ONE = 2.0**44  # sums in whole numbers of 2^-44: all samples are multiples of it, and sums stay below 2^63 of them


def whole(x: Doubles) -> Whole:
    units = x * ONE
    if not (units == np.rint(units)).all():
        raise ValueError("a number is no multiple of 2^-44")
    return units.astype(np.int64)


@functools.cache
def samples(seed: int, ranks: int, elements: int) -> tuple[Doubles, Doubles]:
    """G, and every rank's noise: ranks x elements."""
    index, rank = np.tile(np.arange(elements), ranks), np.repeat(np.arange(ranks), elements)
    return streams.normal(seed, 0, index[:elements]), streams.normal(seed, 1 + rank, index).reshape(ranks, elements)


def gradients(report: Report, name: str, signals: list[float], scale: float) -> Doubles:
    """Ranks x signals x elements in a format, by way of FP32."""
    c = report.config
    shared, noise = samples(c["seed"], max(c["ranks"]), c["elements"])
    exact = scale * (np.array(signals)[None, :, None] * shared + noise[:, None, :])
    return naive.rounded(exact.astype(np.float32).astype(np.float64), name)


def first_rank(algorithm: str, ranks: int, place: Any) -> Any:
    """Whose number is first in a chunk (a ring ends at the chunk's owner), or for a rank that adds by itself."""
    if algorithm.startswith("ring"):
        return (place + 1) % ranks
    return place % ranks if algorithm == "one-shot-rotated" else 0 * place


@functools.cache
def random_bits(seed: int, elements: int, steps: int) -> NDArray[np.uint64]:
    """Steps x elements: what each addition of an element's stochastic ring draws."""
    return np.array([streams.rounding_bits(seed, e, np.arange(steps)) for e in range(elements)]).T


def nearest(a: Doubles, b: Doubles, name: str) -> Doubles:
    """a + b to nearest even; NumPy adds in FP32 itself."""
    if name == "fp32":
        return np.add(a.astype(np.float32), b.astype(np.float32)).astype(np.float64)
    return naive.rounded(a + b, name)


def stochastic(a: Doubles, b: Doubles, bits: NDArray[np.uint64], name: str) -> Doubles:
    """a + b upward where the share of the step above the lower neighbour, in 32 bits, and 32 random bits reach 1."""
    wide = np.longdouble if name == "fp32" else np.float64  # either holds the exact sum
    exact = a.astype(wide) + b
    below, above, _ = naive.neighbours(np.abs(exact), name)
    up = np.floor((np.abs(exact) - below) / (above - below) * 2.0**32) + bits >= 2.0**32
    size = np.where(up, above, below)
    return np.copysign(np.where((size <= naive.largest(name)) & np.isfinite(exact), size, np.nan), exact)


def chain(term: Callable[[int, int], Doubles], lengths: Whole, add: Callable[[Doubles, Doubles, int], Doubles]
          ) -> Doubles:
    """Many sums side by side, one number after the other; term(k, n): the k-th numbers of the first n, the longest."""
    sums = term(0, len(lengths))
    for k in range(1, int(lengths[0])):
        n = int((lengths > k).sum())
        sums[:n] = add(sums[:n], term(k, n), k)
    return sums


def adder(report: Report, algorithm: str, name: str) -> Callable[[Doubles, Doubles, int], Doubles]:
    """How an algorithm adds in its k-th step; columns are elements, over and over."""
    c = report.config
    if algorithm != "ring-stochastic":
        return lambda a, b, _: nearest(a, b, "fp32" if algorithm in FP32_WIRE else name)
    bits = random_bits(c["seed"], c["elements"], max(c["ranks"]) - 1)
    return lambda a, b, k: stochastic(a, b, np.tile(bits[k - 1], len(a) // c["elements"]), name)


def tree(x: Doubles, name: str, node: int) -> Doubles:
    """Chains inside nodes, a binary tree over them; numbers of ranks and nodes are powers of two."""
    nodes = x.reshape(-1, min(node, len(x)), *x.shape[1:])
    sums = nodes[:, 0]
    for k in range(1, nodes.shape[1]):
        sums = nearest(sums, nodes[:, k], name)
    while len(sums) > 1:
        sums = nearest(sums[0::2], sums[1::2], name)
    return sums[0]


def chained(report: Report, name: str, algorithms: tuple[str, ...], numbers: Doubles) -> dict[tuple[str, int], Doubles]:
    """All sums of algorithms that add one number after the other, at all numbers of ranks: signals x elements each."""
    flat = numbers.reshape(len(numbers), -1)
    jobs = [(a, n) for n in sorted(report.config["ranks"], reverse=True) for a in algorithms]
    column = np.tile(np.arange(flat.shape[1]), len(jobs))
    lengths = np.repeat([n for _, n in jobs], flat.shape[1])
    elements = report.config["elements"]
    starts = np.concatenate([first_rank(a, n, np.arange(flat.shape[1]) % elements * n // elements) for a, n in jobs])
    sums = chain(lambda k, n: flat[(k + starts[:n]) % lengths[:n], column[:n]], lengths,
                 adder(report, algorithms[0], name))
    return dict(zip(jobs, naive.rounded(sums, name).reshape(len(jobs), *numbers.shape[1:])))


@functools.cache
def reductions(report: Report, name: str) -> tuple[dict[tuple[str, int], Doubles], Whole, Whole]:
    """Results by algorithm and ranks, and the exact sums of numbers and of magnitudes by ranks."""
    numbers = gradients(report, name, report.config["signals"], 2.0 ** report.config["log2_scale"])
    results: dict[tuple[str, int], Doubles] = {}
    with np.errstate(invalid="ignore", over="ignore"):
        for algorithms in (CHAINS, ("ring-stochastic",), FP32_WIRE):
            results |= chained(report, name, algorithms, numbers)
        for n in report.config["ranks"]:
            results["tree", n] = tree(numbers[:n], name, 1)
            results["node-tree", n] = tree(numbers[:n], name, report.config["node"])
    units = whole(numbers)
    return results, np.cumsum(units, 0), np.cumsum(np.abs(units), 0)


@columns.recompute("errors", "rms_error largest_error backward_error correctly_rounded overflowed",
                   "NumPy, compared with exact sums in integers")
def errors(report: Report, row: Row) -> Row:
    results, sums, magnitudes = reductions(report, row["format"])
    which = report.config["signals"].index(row["signal"])
    result = results[row["algorithm"], row["ranks"]][which]
    kept = np.isfinite(result)
    found: Row = dict.fromkeys(("rms_error", "largest_error", "backward_error", "correctly_rounded"))
    if kept.any():
        exact, total = sums[row["ranks"] - 1, which][kept], magnitudes[row["ranks"] - 1, which][kept]
        error = np.abs(whole(result[kept]) - exact).astype(np.float64)
        root = math.sqrt(np.mean(exact.astype(np.float64) ** 2))
        found = {"rms_error": Near(math.sqrt(np.mean(error**2)) / root, 1e-13),
                 "largest_error": Near(error.max() / root, 1e-13), "backward_error": Near((error / total).max(), 1e-14),
                 "correctly_rounded": np.mean(result[kept] == naive.rounded(exact / ONE, row["format"]))}
    return found | {"overflowed": int((~kept).sum())}


def roundings(algorithm: str, ranks: int, node: int) -> tuple[int, int]:
    """How many a number meets at most in its chain and in the tree, the conversion of the result aside."""
    node = {"tree": 1, "node-tree": min(node, ranks)}.get(algorithm, ranks)
    return node - 1, math.ceil(math.log2(math.ceil(ranks / node)))


def units(algorithm: str, name: str) -> tuple[float, float]:
    """Unit roundoff of the additions, and of the result's conversion where it is one."""
    if algorithm in FP32_WIRE and name != "fp32":
        return 2.0**-24, 2.0 ** -naive.precision(name)
    return 2.0 ** -naive.precision(name) * (2 if algorithm == "ring-stochastic" else 1), 0.0


@columns.recompute("errors", "proven_bound", "closed forms: Higham 2002, section 4.2; Jeannerod & Rump 2013")
def proven_bound(report: Report, row: Row) -> Row:
    inner, outer = roundings(row["algorithm"], row["ranks"], report.config["node"])
    u, last = units(row["algorithm"], row["format"])
    bounds = [1 / (1 - inner * u) / (1 - outer * u) - 1] if max(inner, outer) * u < 1 else []
    if row["algorithm"] != "ring-stochastic":
        bounds.append((row["ranks"] - 1) * u)
    return {"proven_bound": Near((1 + min(bounds)) * (1 + last) - 1, 1e-9) if bounds else None}


def slope(x: list[int], y: list[float]) -> Near | None:
    """Of log2 y against log2 x."""
    if len(x) < 3:
        return None
    along, up = np.log2(x) - np.mean(np.log2(x)), np.log2(y)
    return Near(float((along * up).sum() / (along * along).sum()), 1e-9, 1e-13)


@columns.recompute("growth", "first_ranks last_ranks exponent by_square_root by_bound beyond",
                   "least squares on the numbers of table `errors`")
def growth(report: Report, row: Row) -> Row:
    algorithm, signal, node = row["algorithm"], row["signal"], report.config["node"]
    u, last = units(algorithm, row["format"])
    points = {cell["ranks"]: cell["rms_error"] for cell in report.tables["errors"]
              if all(cell[c] == row[c] for c in ("algorithm", "format", "signal")) and cell["ranks"] >= 4
              and not cell["overflowed"] and cell["rms_error"]}
    inside, beyond = [], []
    for n in points:
        met = {"tree": 1, "node-tree": min(node, n)}.get(algorithm, n)  # numbers in the sum that the last one meets
        spacing = 2 * u * math.hypot(met * signal, math.sqrt(met))
        (inside if spacing <= math.hypot(signal, 1) else beyond).append(n)
    count = [sum(roundings(algorithm, n, node)) for n in inside]
    return {"first_ranks": min(inside, default=None), "last_ranks": max(inside, default=None),
            "exponent": slope(inside, [points[n] for n in inside]),
            "by_square_root": slope(inside, [math.sqrt(k * u**2 + last**2) for k in count]),
            "by_bound": slope(inside, [k * u + last for k in count]),
            "beyond": slope(beyond, [points[n] for n in beyond])}


DIVISIONS = ("after", "before", "split")
AVERAGED = 16  # elements: the others are in no average


def divisor(division: str, ranks: int) -> int:
    """What ranks divide by before the sum; split: the power of two that is the root of N, or above it."""
    return {"after": 1, "before": ranks, "split": 2 ** math.ceil(math.log2(ranks) / 2)}[division]


def divided(x: Doubles, by: Any, name: str) -> Doubles:
    """In FP32, rounded to the format."""
    return naive.rounded((x.astype(np.float32) / np.asarray(by, np.float32)).astype(np.float64), name)


@functools.cache
def averages(report: Report, name: str) -> dict[tuple[int, str], tuple[Doubles, Doubles]]:
    """Averages of a ring in the format, and exact ones, by ranks and division: scales x elements each."""
    c = report.config
    count = min(AVERAGED, c["elements"])
    numbers = np.hstack([gradients(report, name, [1.0], 2.0**scale)[:, 0, :count] for scale in c["batch_scales"]])
    jobs = [(n, d) for n in sorted(c["ranks"], reverse=True) for d in DIVISIONS]
    lengths, by = np.repeat([(n, divisor(d, n)) for n, d in jobs], numbers.shape[1], 0).T
    column = np.tile(np.arange(numbers.shape[1]), len(jobs))
    starts = first_rank("ring", lengths, column % count * lengths // c["elements"])
    with np.errstate(invalid="ignore", over="ignore"):
        sums = chain(lambda k, n: divided(numbers[(k + starts[:n]) % lengths[:n], column[:n]], by[:n], name), lengths,
                     lambda a, b, _: nearest(a, b, name))
        means = divided(sums, lengths / by, name).reshape(len(jobs), -1, count)
    exact = {n: np.array([math.fsum(x) / n if np.isfinite(x).all() else math.nan for x in numbers[:n].T])
             for n in c["ranks"]}
    return {(n, d): (mean, exact[n].reshape(mean.shape)) for (n, d), mean in zip(jobs, means)}


@columns.recompute("batch", "rounding_error sampling_error to_zero overflowed", "NumPy, compared with exact sums (fsum)")
def batch(report: Report, row: Row) -> Row:
    scale = report.config["batch_scales"].index(row["log2_scale"])
    mean, exact = (x[scale] for x in averages(report, row["format"])[row["ranks"], row["division"]])
    kept = np.isfinite(mean) & np.isfinite(exact)
    shared = 2.0 ** row["log2_scale"] * samples(report.config["seed"], max(report.config["ranks"]),
                                                report.config["elements"])[0][:len(mean)]
    found: Row = {"to_zero": np.mean(kept & (mean == 0) & (exact != 0)), "overflowed": 1 - np.mean(kept)}

    def ratio(a: Doubles, b: Doubles) -> Near | None:
        return Near(math.sqrt((a[kept] ** 2).sum() / (b[kept] ** 2).sum()), 1e-12) if (b[kept] != 0).any() else None

    return found | {"rounding_error": ratio(mean - exact, exact), "sampling_error": ratio(exact - shared, shared)}


@functools.cache
def results_by_order(report: Report, algorithm: str, name: str) -> tuple[Doubles, Doubles, Doubles]:
    """Results by random order and element, the same by place, and the exact sums."""
    c = report.config
    n = c["order_ranks"]
    numbers = gradients(report, name, c["signals"][-1:], 2.0 ** c["log2_scale"])[:n, 0]
    shuffles = [streams.shuffled(n, c["seed"], 2**48 + k) for k in range(c["permutations"])]
    turned = [(np.arange(n) + first_rank(algorithm, n, place)) % n for place in range(n)]

    def sums(orders: list[Whole]) -> Doubles:
        x = numbers[np.array(orders).T]  # ranks x orders x elements
        if algorithm == "exact":
            return naive.rounded(x.sum(0), name)  # a double holds such short sums
        if algorithm in ("tree", "node-tree"):
            return tree(x, name, c["node"] if algorithm == "node-tree" else 1)
        flat = x.reshape(n, -1)
        result = chain(lambda k, count: flat[k, :count], np.full(flat.shape[1], n), adder(report, algorithm, name))
        return naive.rounded(result, name).reshape(x.shape[1:])

    return sums(shuffles), sums(turned), whole(numbers).sum(0) / ONE


def ulp(x: float, name: str) -> float:
    return math.ldexp(1.0, max(math.frexp(x)[1] - 1, 1 - naive.FORMATS[name][2]) - naive.FORMATS[name][1])


def distinct(results: Doubles) -> NDArray[np.int64]:
    """How many results each element has; zeros of either sign are one."""
    return np.array([len(np.unique(of_element)) for of_element in results.T])


@columns.recompute("orders", "mean_results same_in_all median_spread largest_spread results_by_place "
                   "same_in_all_places ranks_disagree", "NumPy, for every order of the ranks and every place in it")
def orders(report: Report, row: Row) -> Row:
    by_order, by_place, exact = results_by_order(report, row["algorithm"], row["format"])
    spread = by_order.max(0) - by_order.min(0)
    some, places = distinct(by_order), distinct(by_place)
    alike = np.mean(places == 1)
    return {"mean_results": np.mean(some), "same_in_all": np.mean(some == 1),
            "median_spread": np.median([s / ulp(x, row["format"]) for s, x in zip(spread, exact)]),
            "largest_spread": spread.max() / ulp(math.sqrt(np.mean(exact**2)), row["format"]),
            "results_by_place": np.mean(places), "same_in_all_places": alike,
            "ranks_disagree": 1 - alike if row["algorithm"] == "one-shot-rotated" else 0.0}


# Who sends to whom.

columns.given("messages", "ranks from")


def sends(algorithm: str, ranks: int, node: int) -> list[tuple[int, int, int]]:
    """Rounds, senders and receivers: chains by counting, a tree by joining the holders of halves."""
    if algorithm.startswith("ring"):
        return [(i, i, (i + 1) % ranks) for i in range(1, ranks)]
    if algorithm not in ("tree", "node-tree"):
        return [(1, i, 0) for i in range(1, ranks)]
    node = 1 if algorithm == "tree" else min(node, ranks)
    found: list[tuple[int, int, int]] = []
    holders: list[tuple[int, int]] = []  # rank and round
    for begin in range(0, ranks, node):
        end = min(begin + node, ranks)
        found += [(r - begin, r - 1, r) for r in range(begin + 1, end)]
        holders.append((end - 1, end - 1 - begin))

    def join(some: list[tuple[int, int]]) -> tuple[int, int]:
        if len(some) == 1:
            return some[0]
        left, right = join(some[:(len(some) + 1) // 2]), join(some[(len(some) + 1) // 2:])
        found.append((max(left[1], right[1]) + 1, right[0], left[0]))
        return left[0], max(left[1], right[1]) + 1

    join(holders)
    return found


@columns.recompute("messages", "round to", "chains by counting their steps, trees by joining halves")
def messages(report: Report, row: Row) -> Row:
    by_sender = {sender: (when, to) for when, sender, to in sends(row["algorithm"], row["ranks"], report.config["node"])}
    return {"round": by_sender[row["from"]][0], "to": by_sender[row["from"]][1]}
