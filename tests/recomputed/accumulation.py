"""accumulation: every rounding written out in doubles, references in whole numbers, bounds in rationals."""
from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import lanes
import matrix_units
import naive
import numpy as np
import streams
from checks import Columns, Near, Report, Row

columns = Columns()
columns.given("sums", "terms")
columns.given("dots", "terms")
columns.given("conditions", "terms")
columns.given("matrix_units", "terms")
LONGEST = {"sequential": 4096, "blocked": 4096, "pairwise": 4096, "promoted": 4096, "kahan": 1024, "neumaier": 1024}
POINT = 160  # reference sums are whole numbers of 2^-160


HARMONIC_STREAMS = (7000, 7001, 7002)  # of stochastic roundings: of n, of 1/n and of the sum
BLOCK = 2**16  # terms that are rounded at once
AWAY: dict[str, Callable[[int, float, int], bool]] = {  # whether whole + share of a spacing becomes whole + 1
    "nearest-even": lambda whole, share, _: share > 0.5 or (share == 0.5 and whole % 2 == 1),
    "nearest-away": lambda whole, share, _: share >= 0.5,
    "nearest-to-zero": lambda whole, share, _: share > 0.5,
    "toward-zero": lambda whole, share, _: False,
    "toward-negative": lambda whole, share, _: False,
    "toward-positive": lambda whole, share, _: share > 0,
    "to-odd": lambda whole, share, _: share > 0 and whole % 2 == 0,
    "stochastic": lambda whole, share, draw: math.floor(share * 2.0**32) + draw >= 2**32}


def adder(name: str, mode: str) -> Callable[[float, float, int], float]:
    """Rounded sums of numbers that are not negative; a double holds the exact one, or that it is above the first."""
    fraction_bits, away = naive.FORMATS[name][1], AWAY[mode]
    least, largest = naive.smallest_normal(name), naive.largest(name)
    over = largest
    if mode not in ("toward-zero", "toward-negative", "to-odd"):
        over = {"ieee": math.inf, "fn": math.nan}.get(naive.FORMATS[name][3], largest)

    def add(a: float, b: float, draw: int) -> float:
        exact = a + b
        if not math.isfinite(exact):
            return exact
        exact = math.nextafter(a, math.inf) if exact == a and b > 0 else exact
        spacing = math.ldexp(1.0, math.frexp(max(exact, least))[1] - 1 - fraction_bits)
        whole = math.floor(exact / spacing)
        result = (whole + away(whole, exact / spacing - whole, draw)) * spacing
        return result if result <= largest else over

    return add


@columns.recompute("harmonic", "sum stops_at last_term", "the loop over n, in which every operation is rounded")
def harmonic(report: Report, row: Row) -> Row:
    """A quotient is never so near a number or a middle of the format, other than being one, that a double misses it."""
    config, name, random = report.config, row["format"], row["rounding"] == "stochastic"
    on, add, total, last = lanes.Lanes([name], [row["rounding"]]), adder(name, row["rounding"]), 0.0, 0.0
    for first in range(1, config["harmonic_limit"] + 1, BLOCK):
        index = np.arange(first, min(config["harmonic_limit"] + 1, first + BLOCK))
        bits = [streams.rounding_bits(config["seed"], s, index)[:, None] if random else np.zeros((len(index), 1), int)
                for s in HARMONIC_STREAMS]
        with np.errstate(invalid="ignore"):
            terms = on.rounded(1 / on.rounded(index[:, None], 0.0, bits[0]), 0.0, bits[1])[:, 0]
        last = float(terms[-1])
        for n, term, draw in zip(index.tolist(), terms.tolist(), bits[2][:, 0].tolist()):
            following = add(total, term, draw)
            if math.isnan(total) or (term == 0 if random else following == total):
                return {"sum": total, "stops_at": n, "last_term": term}
            total = following
    return {"sum": total, "stops_at": None, "last_term": last}


@columns.recompute("ones", "sum exact_up_to", "a list of all numbers of the format, with the one that each becomes when 1 is added")
def ones(report: Report, row: Row) -> Row:
    name, count = row["format"], report.config["ones"]
    exact = 2.0 ** naive.precision(name)
    whole = np.arange(max(1, exact - 4096), exact + 2)
    lost = whole[naive.rounded(whole, name) != whole]
    if count <= lost[0] - 1:
        return {"sum": count, "exact_up_to": lost[0] - 1}
    numbers = naive.values(name)[naive.values(name) >= 1]
    following = lanes.Lanes([name], [row["rounding"]]).add(numbers[:, None], 1.0)[:, 0]
    places = np.searchsorted(numbers, np.where(np.isfinite(following), following, 0)).tolist()
    place, beyond = 0, None
    for _ in range(count - 1):
        if not math.isfinite(following[place]):
            beyond = following[place]
            break
        place = places[place]
    return {"sum": numbers[place] if beyond is None else beyond, "exact_up_to": lost[0] - 1}


@functools.cache
def inputs(report: Report, name: str, distribution: str = "uniform") -> tuple[Any, Any]:
    """Two vectors a trial, rounded to FP32 and then to a format: [trial, term]."""
    config = report.config
    index, of = np.arange(max(config["lengths"])), range(2 * config["trials"])
    if distribution in ("uniform", "symmetric"):
        both = np.array([streams.uniform(config["seed"], s, index) for s in of])
        both = both if distribution == "uniform" else 2 * both - 1
    else:
        both = np.array([np.ones(len(index)) if distribution == "ones" else streams.normal(config["seed"], s, index)
                         for s in of])
    both = naive.rounded(both.astype(np.float32), name)
    return both[0::2], both[1::2]


class Sums:
    """All formats, roundings, trials and seeds side by side; terms in a quantity: sum, rounded or exact products.

    Draws of stochastic rounding count operations: the product of a term, if rounded by itself, then its additions.
    """

    def __init__(self, report: Report, quantity: str, terms: int) -> None:
        config = report.config
        self.quantity, self.terms, self.lengths = quantity, terms, config["lengths"]
        self.cells = [(f, r, t, s) for f in config["formats"] for r in config["roundings"]
                      for t in range(config["trials"]) for s in range(config["seeds"] if r == "stochastic" else 1)]
        self.formats, self.modes = [c[0] for c in self.cells], [c[1] for c in self.cells]
        self.on = lanes.Lanes(self.formats, self.modes, config["random_bits"], "nan")
        self.a, self.b = (np.stack([inputs(report, f)[place][t, :terms] for f, _, t, _ in self.cells], 1)
                          for place in (0, 1))
        self.column = np.array([t * config["seeds"] + s for _, _, t, s in self.cells])
        self.bits = streams.first_rounding_bits(config["seed"], list(range(max(self.column) + 1)), 5 * terms)
        self.first_draws = 0 if quantity == "sum" else 1
        self.later_draws = 2 if quantity == "rounded" else 1

    def draw(self, index: Any) -> Any:
        return self.bits[index][..., self.column]

    def first(self, i: Any, draw: Any) -> Any:
        """Term i by itself."""
        return self.a[i] if self.quantity == "sum" else self.on.multiply(self.a[i], self.b[i], self.draw(draw))

    def parts(self, starts: Any, terms: int, draws: Any) -> Iterator[tuple[int, Any]]:
        """(n, sums of the first n terms of each part), n = 1 to terms; parts begin at `starts` and `draws`."""
        total = self.first(starts, draws)
        yield 1, total
        at = draws + self.first_draws
        for n in range(1, terms):
            if self.quantity == "exact":
                total = self.on.fused(self.a[starts + n], self.b[starts + n], total, self.draw(at))
            else:
                total = self.on.add(total, self.first(starts + n, at), self.draw(at + self.later_draws - 1))
            at = at + self.later_draws
            yield n + 1, total

    def sequential(self) -> dict[int, Any]:
        return {n: s[0] for n, s in self.parts(np.array([0]), self.terms, np.array([0])) if n in self.lengths}

    def blocked(self, block: int, promoted: bool) -> dict[int, Any]:
        """Block results one after the other; promoted: in FP32, to nearest and without draws."""
        blocks = np.arange(self.terms // block)
        within = self.first_draws + (block - 1) * self.later_draws
        draws = blocks * within + (0 if promoted else np.maximum(blocks - 1, 0))
        found, total = {}, None
        for n, sums in self.parts(blocks * block, block, draws):
            found[n] = total = sums[0]
        outer = lanes.Lanes(["fp32"] * len(self.cells), ["nearest-even"] * len(self.cells)) if promoted else self.on
        for j in range(1, len(blocks)):
            total = outer.add(total, sums[j], self.draw(0 if promoted else (j + 1) * within + j - 1))
            found[(j + 1) * block] = total
        return found

    def pairwise(self) -> dict[int, Any]:
        """A balanced tree over 2^k terms. A node's left half draws first, then its right half, then itself."""
        index = np.arange(self.terms)
        before = index - np.array([bin(i).count("1") for i in index])  # additions that the terms before i complete
        level = self.first(index, index * self.first_draws + before)
        found, size = {1: level[0]}, 1
        while len(level) > 1:
            size *= 2
            start = index[:: size]
            draws = (start + size) * self.first_draws + before[start] + size - 2
            level = self.on.add(level[0::2], level[1::2], self.draw(draws))
            found[size] = level[0]
        return found

    def kahan(self) -> dict[int, Any]:
        """s + x with the correction c: y = x - c; t = s + y; c = (t - s) - y; s = t."""
        total, found = self.first(0, 0), {}
        c, at = np.zeros_like(total), self.first_draws
        for i in range(1, self.terms):
            x = self.first(i, at)
            at += self.first_draws
            y = self.on.add(x, -c, self.draw(at))
            t = self.on.add(total, y, self.draw(at + 1))
            c = self.on.add(self.on.add(t, -total, self.draw(at + 2)), -y, self.draw(at + 3))
            total, at = t, at + 4
            found[i + 1] = total
        return found

    def neumaier(self) -> dict[int, Any]:
        """t = s + x; c += (the larger of s and x, minus t) + the smaller; the sum is s + c."""
        total, found = self.first(0, 0), {}
        c, at = np.zeros_like(total), self.first_draws
        for i in range(1, self.terms):
            x = self.first(i, at)
            at += self.first_draws
            t = self.on.add(total, x, self.draw(at))
            larger, smaller = np.where(total >= x, total, x), np.where(total >= x, x, total)
            lost = self.on.add(self.on.add(larger, -t, self.draw(at + 1)), smaller, self.draw(at + 2))
            c, total, at = self.on.add(c, lost, self.draw(at + 3)), t, at + 4
            if i + 1 in self.lengths:
                found[i + 1] = self.on.add(total, c, self.draw(at))
        return found


@functools.cache
def computed(report: Report, quantity: str, order: str) -> tuple[list[Any], dict[int, Any]]:
    sums = Sums(report, quantity, LONGEST[order])
    with np.errstate(invalid="ignore"):
        if order in ("blocked", "promoted"):
            promoted = order == "promoted"
            return sums.cells, sums.blocked(report.config["promote_every" if promoted else "block"], promoted)
        orders = {"sequential": sums.sequential, "pairwise": sums.pairwise, "kahan": sums.kahan,
                  "neumaier": sums.neumaier}
        return sums.cells, orders[order]()


@functools.cache
def reference(report: Report, name: str, trial: int, products: bool, terms: int) -> int:
    """The exact sum, which is that of magnitudes too: nothing is negative."""
    a, b = inputs(report, name)
    exact = a[trial, :terms] * b[trial, :terms] if products else a[trial, :terms]
    return sum(map(int, np.ldexp(exact, POINT)))


def errors(report: Report, row: Row) -> Row | None:
    if row["terms"] > LONGEST[row["order"]]:
        return None
    quantity = row.get("product", "sum")
    cells, found = computed(report, quantity, row["order"])
    of_row = [(trial, float(value)) for (name, mode, trial, _), value in zip(cells, found[row["terms"]])
              if (name, mode) == (row["accumulator"], row["rounding"])]
    judged = []
    for trial, value in of_row:
        exact = reference(report, row["accumulator"], trial, quantity != "sum", row["terms"])
        if not math.isnan(value):
            judged.append((int(math.ldexp(value, POINT)) - exact) / exact)
    if not judged:
        return {"overflowed": len(of_row), "mean_error": None, "max_error": None, "bias": None}
    mean = math.fsum(map(abs, judged)) / len(judged)
    return {"overflowed": len(of_row) - len(judged), "max_error": max(map(abs, judged)),
            "mean_error": Near(mean, 1e-14), "bias": Near(math.fsum(judged) / len(judged), 1e-14, 1e-15 * mean)}


def roundoff(name: str, mode: str) -> Fraction:
    return Fraction(1, 2 ** naive.precision(name) if mode == "nearest-even" else 2 ** (naive.precision(name) - 1))


def gamma(k: int, u: Fraction) -> Fraction | None:
    return k * u / (1 - k * u) if k * u < 1 else None


def bounds(report: Report, row: Row) -> Row:
    """By hand: how often a term is rounded inside its part and after it; Higham 2002, section 4.2 and 4.3."""
    n, order, mode = row["terms"], row["order"], row["rounding"]
    u, outer_u = roundoff(row["accumulator"], mode), roundoff(row["accumulator"], mode)
    product = 1 if "product" in row else 0
    part = {"blocked": report.config["block"], "promoted": report.config["promote_every"], "pairwise": 1}.get(order, n)
    inner, outer = min(n, part) - 1 + product, math.ceil(n / part) - 1
    if order in ("kahan", "neumaier"):
        inner, outer = (2 if order == "kahan" else 1) + product, 0
    if order == "pairwise":
        outer = (n - 1).bit_length()
    if order == "promoted":
        outer_u = roundoff("fp32", "nearest-even")
    found: Row = {"n_u": float(inner * u + outer * outer_u),
                  "sqrt_n_u": Near(math.sqrt(inner * u * u + outer * outer_u * outer_u), 1e-15)}
    proven: list[Fraction] = []
    if order in ("kahan", "neumaier"):
        squared = gamma(n - 1, u)
        compensated = 6 * u + 8 * n * u * u if order == "kahan" else u + squared * squared if squared else None
        if mode == "nearest-even" and compensated and (order == "neumaier" or compensated <= Fraction(1, 2)):
            proven.append((1 + u) * compensated + u if product else compensated)
    else:
        inside, after = gamma(inner, u), gamma(outer, outer_u)
        if inside is not None and after is not None:
            proven.append((1 + inside) * (1 + after) - 1)
        one_format = order != "promoted" or row["accumulator"] == "fp32"
        if mode == "nearest-even" and one_format and row.get("product") != "exact":
            proven.append((n - 1 + product) * u)
    return found | {"proven_bound": Near(float(min(proven)), 1e-9) if proven else None}


for table in ("sums", "dots"):
    columns.recompute(table, "mean_error max_error bias overflowed",
                      "every operation rounded, compared with exact sums in integers, for up to "
                      f"{max(LONGEST.values())} terms ({LONGEST['kahan']} if compensated)")(errors)
    columns.recompute(table, "n_u sqrt_n_u proven_bound", "the formulas in rationals")(bounds)


@columns.recompute("conditions", "sum_condition dot_condition", "exact sums over the inputs")
def conditions(report: Report, row: Row) -> Row:
    a, b = (vectors[:, : row["terms"]] for vectors in inputs(report, row["format"], row["distribution"]))

    def condition(trials: Any) -> Near:
        return Near(float(np.mean([math.fsum(abs(x)) / abs(math.fsum(x)) for x in trials])), 1e-12)

    return {"sum_condition": condition(a), "dot_condition": condition(a * b)}


@columns.recompute("matrix_units", "rms_error max_error promoted_rms_error promoted_max_error overflowed",
                   "the unit's rule in doubles, exact products in integers")
def units(report: Report, row: Row) -> Row:
    exact, *both = matrix_units.outputs(report, row["unit"])[row["factors"], row["terms"]]
    found: Row = {"overflowed": sum(int((~np.isfinite(d)).sum()) for d in both)}
    for prefix, d in zip(("", "promoted_"), both):
        error = d - exact
        found[prefix + "rms_error"] = Near(math.sqrt((error**2).sum() / (exact**2).sum()), 1e-13)
        found[prefix + "max_error"] = float(np.abs(error / exact).max())
    return found
