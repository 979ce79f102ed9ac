"""attribution: a product in every state of its sources, in NumPy; exact sums, and quotients by scales, have 64 bits.

An operand is (rows, k); its elements q times the scales s of their blocks are its values. Scaling off: s is amax /
target as it is; input off: q is not rounded.
"""
from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import matrix_units
import naive
import numpy as np
import scaling
import streams
from checks import Columns, Near, Report, Row

columns = Columns()
columns.given("lengths", "terms")
columns.given("channels", "outlier")
columns.given("promotion", "terms")
Array = Any
SOURCES = ("scaling", "input", "accumulation", "output")
NEAR = 1e-9


@functools.cache
def drawn(kind: str, seed: int, which: int, rows: int, terms: int) -> Array:
    """rows x terms of fp32 numbers, drawn by columns."""
    index = np.arange(rows * terms)
    x = streams.normal(seed, which, index) if kind == "normal" else streams.uniform(seed, which, index)
    return x.astype(np.float32).reshape(terms, rows).T.copy()


class Operand(NamedTuple):
    """q by (scaling, input); s by scaling, for each row and block; the scale of the tensor, and a block's columns."""

    exact: Array
    elements: dict[tuple[bool, bool], Array]
    scales: dict[bool, Array]
    tensor: Array
    width: int

    def values(self, on: frozenset[str]) -> Array:
        state = "scaling" in on, "input" in on
        if not any(state):
            return self.exact
        return self.elements[state] * real(np.repeat(self.scales[state[0]], self.width, 1)) * real(self.tensor)


def real(elements: Array) -> Array:
    return np.asarray(elements, np.longdouble)


def operand(x: Array, name: str) -> Operand:
    f = scaling.FORMATS[name]
    amax = scaling.largest_magnitudes(x, f)
    one, tensor, target = np.float32(1), np.float32(1), np.float32(f.largest)
    if f.rule == "amax":
        scale = amax / target
    else:
        scale = np.ldexp(one, scaling.exponents(amax, f).astype(np.int64)).astype(np.float32)
    inverse = one / scale
    if f.levels == 2:
        tensor = amax.max() / (np.float32(naive.largest("e4m3")) * target)
        scale = np.maximum(scaling.rounded(scale / tensor, "e4m3"), np.float32(naive.smallest_normal("e4m3")))
        inverse = one / tensor / scale
    multiplies = f.element == "int8" or f.levels == 2
    scaled = x * scaling.spread(inverse, f, x.shape) if multiplies else x / scaling.spread(scale, f, x.shape)
    ideal = real(x) * f.largest / scaling.spread(amax, f, x.shape)
    elements = {(False, False): ideal, (True, False): real(scaled),
                (False, True): scaling.rounded(ideal.astype(np.float64), f.element).astype(np.float64),
                (True, True): scaling.rounded(scaled, f.element).astype(np.float64)}
    width = f.columns or x.shape[1]
    begins = np.arange(0, x.shape[1], width)
    each = {False: real(amax) / (real(target) * tensor), True: scale}
    scales = {on: scaling.spread(s, f, x.shape)[:, begins] for on, s in each.items()}
    return Operand(real(x), elements, scales, tensor, width)


def summed(accumulator: str, a: Array, b: Array) -> Array:
    """Sums over the last axis but one of (..., k, m, 1) times (..., k, 1, n), each from 0, in fp32."""
    terms = a.shape[-3]
    if accumulator == "exact":
        return (real(a) * b).sum(-3).astype(np.float32)
    a, b = np.moveaxis(a, -3, 0), np.moveaxis(b, -3, 0)
    total = np.zeros(np.broadcast_shapes(a.shape[1:], b.shape[1:]), np.float32)
    if accumulator == "fp32,mul=exact":
        for k in range(terms):
            total = (total + a[k] * b[k]).astype(np.float32)  # the wider of both: terms have 8 bits, or are real
        return total
    for k in range(0, terms, 32):
        total = matrix_units.fused_sum(accumulator, a[k: k + 32], b[k: k + 32], total.astype(np.float64))
    return total.astype(np.float32)


def accumulated(a: Operand, b: Operand, accumulator: str, on: frozenset[str]) -> Array:
    """Sums of segments, added while scales stay, times the scales of both, added; in fp32. At last tensors' scales."""
    accumulator, _, every = accumulator.partition("@")
    state, scaled, block = ("scaling" in on, "input" in on), "scaling" in on, min(a.width, b.width)
    segment = min(block, int(every or block))
    parts = [np.ascontiguousarray(o.elements[state].T).reshape(-1, block // segment, segment, len(o.elements[state]))
             for o in (a, b)]
    sums = summed(accumulator, parts[0][..., :, None], parts[1][..., None, :])
    outputs = np.add.accumulate(sums, axis=1)[:, -1]
    for scales in (a.scales[scaled].T[:, :, None], b.scales[scaled].T[:, None, :]):
        if scaled:
            outputs = outputs * scales.astype(np.float32)
        else:
            outputs = (outputs * scales).astype(np.float32)
    return np.add.accumulate(outputs, axis=0)[-1] * a.tensor * b.tensor


class Product:
    """Outputs with sources on, and what measures their differences."""

    def __init__(self, a: Operand, b: Operand, accumulator: str, output: str) -> None:
        self.a, self.b, self.accumulator, self.output = a, b, accumulator, output
        self.kept: dict[frozenset[str], Array] = {}
        self.finite: Array = True  # outputs in every state; if some are not, norms here are not numbers
        self.exact = self.outputs(())
        self.total = self.outputs(SOURCES) - self.exact

    def outputs(self, sources: tuple[str, ...]) -> Array:
        on = frozenset(sources)
        if on not in self.kept:
            if "output" in on:
                inner = self.outputs(tuple(s for s in sources if s != "output"))
                self.kept[on] = real(naive.rounded(inner.astype(np.float64), self.output))
            elif "accumulation" in on:
                self.kept[on] = real(accumulated(self.a, self.b, self.accumulator, on))
            else:
                self.kept[on] = self.a.values(on) @ self.b.values(on).T
            self.finite = self.finite & np.isfinite(self.kept[on])
        return self.kept[on]

    def part(self, source: str, order: str) -> Array:
        """What a source adds: to those before it, to those after it, or to none."""
        place = SOURCES.index(source)
        others = {"forward": SOURCES[:place], "reverse": SOURCES[place + 1:], "alone": ()}[order]
        return self.outputs((*others, source)) - self.outputs(others)

    def norm(self, part: Array) -> Near:
        return Near(math.sqrt(float((part**2).sum() / (self.exact**2).sum())), NEAR)

    def share(self, part: Array) -> Near:
        return Near(float((part * self.total).sum() / (self.total**2).sum()), NEAR)

    def bias(self, part: Array) -> Near:
        size = np.abs(part).sum()
        return Near(float((part * np.sign(self.exact)).sum() / size) if size else 0.0, NEAR)

    def relative(self, part: Array) -> Near:
        return Near(float(np.abs(part / self.exact).max()), NEAR)


@functools.cache
def product(formats: str, accumulator: str, seed: int, shape: tuple[int, int], side: int, terms: int,
            output: str) -> Product:
    """Of the first `side` rows and columns of matrices of a shape (rows of A, columns of B)."""
    names = formats.split("+")
    a, b = (operand(drawn("normal", seed, which, rows, terms)[:side], name)
            for which, rows, name in zip((0, 1), shape, (names[0], names[-1])))
    found = Product(a, b, accumulator, output)
    for source in SOURCES:
        for order in ("forward", "reverse", "alone"):
            found.part(source, order)
    return found


def settings(report: Report) -> tuple[int, tuple[int, int]]:
    c = report.config
    if c["distribution"] != "normal" or c["outlier"] != 1 or c["rounding"] != "nearest-even" or c["a"] or c["b"]:
        raise ValueError(f"other factors: {c}")
    return c["seed"], (c["rows"], c["columns"])


@columns.recompute("sources", "error largest relative share bias reverse_error reverse_largest reverse_share "
                   "reverse_bias alone_error overflowed", "the product in every state in NumPy, with exact sums in 64 bits")
def sources(report: Report, row: Row) -> Row:
    seed, shape = settings(report)
    p = product(row["formats"], row["accumulator"], seed, shape, max(shape), report.config["terms"],
                report.config["output"])
    source = {"unit": "accumulation"}.get(row["source"], row["source"])
    parts = {"total": [p.total, p.total, None], "products": [np.zeros_like(p.total)] * 3}.get(source)
    forward, reverse, alone = parts or [p.part(source, order) for order in ("forward", "reverse", "alone")]
    return {"error": p.norm(forward), "largest": Near(float(np.abs(forward).max()), NEAR),
            "relative": p.relative(forward), "share": p.share(forward), "bias": p.bias(forward),
            "reverse_error": p.norm(reverse), "reverse_largest": Near(float(np.abs(reverse).max()), NEAR),
            "reverse_share": p.share(reverse), "reverse_bias": p.bias(reverse),
            "alone_error": None if alone is None else p.norm(alone), "overflowed": int((~p.finite).sum())}


@columns.recompute("lengths", "scaling input products accumulation output total reverse_scaling reverse_input "
                   "reverse_accumulation overflowed", "the product in every state in NumPy, with exact sums in 64 bits")
def lengths(report: Report, row: Row) -> Row:
    seed, shape = settings(report)
    p = product(row["formats"], row["accumulator"], seed, shape, 8, row["terms"], report.config["output"])
    found: Row = {source: p.norm(p.part(source, "forward")) for source in SOURCES}
    found |= {f"reverse_{source}": p.norm(p.part(source, "reverse")) for source in SOURCES[:3]}
    return found | {"products": None if "wgmma" in row["accumulator"] else 0, "total": p.norm(p.total),
                    "overflowed": int((~p.finite).sum())}


@columns.recompute("channels", "others_error outlier_error others_zeroed saturated scaling_by_others input_by_others "
                   "scaling_by_outlier input_by_outlier", "NumPy, exact sums of each channel's share in 64 bits")
def channels(report: Report, row: Row) -> Row:
    seed = report.config["seed"]
    x = drawn("normal", seed, 0, 32, 1024).copy()
    x[:, 0] = (x[:, 0].astype(np.float64) * row["outlier"]).astype(np.float32)
    a, b = operand(x, row["format"]), operand(drawn("normal", seed, 1, 8, 1024), row["format"])
    none, scaled, both = (frozenset(SOURCES[:count]) for count in range(3))
    error, size = (a.values(both) - x) ** 2, real(x) ** 2
    whole = np.linalg.norm((real(x) @ b.values(none).T).astype(np.float64))

    def share(place: slice, to: frozenset[str], before: frozenset[str]) -> Near:
        outputs = [a.values(on)[:, place, None] * b.values(on).T[place] for on in (to, before)]
        return Near(float(np.linalg.norm((outputs[0] - outputs[1]).sum(1).astype(np.float64)) / whole), NEAR)

    others, outlier = slice(1, None), slice(0, 1)
    zeroed = (a.elements[True, True][:, 1:] == 0) & (x[:, 1:] != 0)
    return {"others_error": Near(math.sqrt(error[:, 1:].sum() / size[:, 1:].sum()), NEAR),
            "outlier_error": Near(math.sqrt(error[:, 0].sum() / size[:, 0].sum()), NEAR),
            "others_zeroed": float(zeroed.mean()),
            "saturated": float((np.abs(a.elements[True, False]) > scaling.FORMATS[row["format"]].largest).mean()),
            "scaling_by_others": share(others, scaled, none), "input_by_others": share(others, both, scaled),
            "scaling_by_outlier": share(outlier, scaled, none), "input_by_outlier": share(outlier, both, scaled)}


@columns.recompute("promotion", "error relative bias", "sums in NumPy, compared with exact sums in integers")
def promotion(report: Report, row: Row) -> Row:
    a, b = (naive.rounded(drawn(row["factors"], report.config["seed"], which, 16, row["terms"]), "e4m3")
            for which in (0, 1))
    accumulator, _, every = row["accumulator"].partition("@")
    parts = [np.ascontiguousarray(x.T).reshape(-1, int(every or row["terms"]), 16) for x in (a, b)]
    sums = summed(accumulator, parts[0][..., None], parts[1][..., None, :])
    whole = np.ldexp(a, 9).astype(np.int64) @ np.ldexp(b, 9).astype(np.int64).T
    exact = np.ldexp(whole.astype(np.float64), -18)
    part = np.add.accumulate(sums, axis=0)[-1] - exact
    size = np.abs(part).sum()
    return {"error": Near(float(np.linalg.norm(part) / np.linalg.norm(exact)), 1e-12),
            "relative": Near(float(np.abs(part / exact).max()), 1e-12),
            "bias": Near(float((part * np.sign(exact)).sum() / size) if size else 0.0, 1e-12)}
