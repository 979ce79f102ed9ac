"""Dot products on matrix units by the rules of docs/explanation/matrix-units.md, as values instead of code words."""
from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import naive
import numpy as np
import streams
from checks import Report

SIDE = 8  # of the square of outputs
# Products of a sum, bits that a term keeps below the largest exponent, the least such exponent, bits of the result
# (toward zero; 0: FP16 to nearest), operands, the exponent of their subnormal numbers.
UNITS = {"hopper.wgmma.e4m3.fp32": (32, 13, -10000, 14, "e4m3", -6),
         "ada.mma.e4m3.fp32": (16, 13, -132, 14, "e4m3", -6),
         "hopper.mma.e4m3.fp32": (16, 25, -133, 24, "e4m3", -14),  # as two sums of FP16 operands
         "blackwell.tcgen05.e4m3.fp32": (32, 25, -133, 24, "e4m3", -6),
         "hopper.mma.fp16.fp32": (16, 25, -133, 24, "fp16", -14), "hopper.mma.fp16.fp16": (16, 25, -21, 0, "fp16", -14)}


def exponents(x: Any, least: int) -> Any:
    return np.where(x == 0, -20000, np.maximum(np.frexp(x)[1] - 1, least))


def fused_sum(unit: str, a: Any, b: Any, c: Any) -> Any:
    """c and the products along the first axis, cut to one quantum, added exactly and rounded once."""
    _, kept, least, digits, _, operand_least = UNITS[unit]
    highest = np.maximum((exponents(a, operand_least) + exponents(b, operand_least)).max(0), least)
    quantum = np.ldexp(1.0, np.maximum(highest, exponents(c, -126 if digits else -14)) - kept)
    total = (np.trunc(a * b / quantum).sum(0) + np.trunc(c / quantum)) * quantum
    if not digits:
        return total.astype(np.float16).astype(np.float64)
    significand, exponent = np.frexp(total)
    return np.ldexp(np.trunc(np.ldexp(significand, digits)), exponent - digits)


def accumulate(unit: str, a: Any, b: Any) -> Iterator[tuple[int, Any]]:
    """(n, the accumulator after n products); a and b have products along their first axis."""
    length = UNITS[unit][0]
    total = np.zeros(np.broadcast_shapes(a.shape[1:], b.shape[1:]))
    if unit != "hopper.mma.e4m3.fp32":
        for k in range(0, len(a), length):
            total = fused_sum(unit, a[k: k + length], b[k: k + length], total)
            yield k + length, total
        return
    for k in range(0, len(a), 2 * length):
        inner, lower = np.zeros_like(total), np.arange(2 * length) % 4 < 2
        for half in (lower, ~lower):
            inner = fused_sum(unit, a[k: k + 2 * length][half], b[k: k + 2 * length][half], inner)
        total = (total.astype(np.float32) + inner.astype(np.float32)).astype(np.float64)
        yield k + 2 * length, total


@functools.cache
def factors(seed: int, stream: int, terms: int) -> Any:
    """[term, row or column, uniform or normal]"""
    index = np.arange(terms * SIDE)
    drawn = [draw(seed, stream, index) for draw in (streams.uniform, streams.normal)]
    return np.stack(drawn, 1).reshape(terms, SIDE, 2)


@functools.cache
def outputs(report: Report, unit: str) -> dict[tuple[str, int], tuple[Any, Any, Any]]:
    """(factors, terms): exact, plain and promoted outputs."""
    config = report.config
    name, every, longest = UNITS[unit][4], config["promote_every"], max(config["unit_lengths"])
    a, b = (naive.rounded(factors(config["seed"], stream, longest), name) for stream in (0, 1))
    rows, cols = a[:, :, None, :], b[:, None, :, :]
    plain = {n: d for n, d in accumulate(unit, rows, cols) if n in config["unit_lengths"]}
    parts = [x.reshape(-1, every, *x.shape[1:]).swapaxes(0, 1) for x in (rows, cols)]
    *_, (_, chunks) = accumulate(unit, *parts)
    promoted = np.add.accumulate(chunks.astype(np.float32), axis=0)
    point = 2 * (9 if name == "e4m3" else 24)
    whole = [np.ldexp(x, point // 2).astype(np.int64) for x in (a, b)]
    found = {}
    for n in config["unit_lengths"]:
        for place, kind in enumerate(("uniform", "normal")):
            exact = whole[0][:n, :, place].T @ whole[1][:n, :, place]
            exact = np.ldexp(exact.astype(np.float64), -point)
            found[kind, n] = exact, plain[n][..., place], promoted[n // every - 1, ..., place].astype(np.float64)
    return found


