"""reproduce: lines by counting figures, verdicts from their cells, and the figures that follow from formats alone.

All other figures are claims of other experiments, whose tables other modules here recompute.
"""
from __future__ import annotations

import json
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import naive
import numpy as np
from checks import Columns, Report, Row, number

columns = Columns()
VERDICTS = ("pass", "differs", "fail", "skipped")


@columns.recompute("lines", "held differ failed skipped verdict", "counting the table figures")
def lines(report: Report, row: Row) -> Row:
    verdicts = [f["verdict"] for f in report.tables["figures"] if f["line"] == row["line"]]
    counts = [verdicts.count(verdict) for verdict in VERDICTS]
    overall = next((v for v in ("fail", "differs", "pass") if v in verdicts), "skipped")
    return dict(zip(("held", "differ", "failed", "skipped"), counts)) | {"verdict": overall}


def holds(expected: float, measured: float, tolerance: str) -> bool:
    kind, _, size = tolerance.partition(" ")
    if tolerance in ("at least", "at most"):
        return measured >= expected if tolerance == "at least" else measured <= expected
    allowed = 0.0 if kind == "exact" else float(size)
    if kind not in ("exact", "absolute"):
        raise ValueError(f"tolerance {tolerance}")
    same = measured == expected or (math.isnan(expected) and math.isnan(measured))
    return same or abs(measured - expected) <= allowed


@columns.recompute("figures", "verdict", "the difference of measured and expected, compared with the tolerance")
def verdict(report: Report, row: Row) -> Row:
    if row["tolerance"] is None:
        return {"verdict": "skipped"}
    expected, measured = number(row["expected"]), number(row["measured"])
    good = row["expected"] == row["measured"] if expected is None or measured is None else holds(
        expected, measured, row["tolerance"])
    return {"verdict": "pass" if good else "differs" if row["independence"] in ("published", "recorded") else "fail"}


def to(name: str, x: float, mode: str = "nearest-even") -> float:
    return float(naive.rounded(x, name, mode))


def harmonic(name: str) -> dict[str, float]:
    """1 + 1/2 + 1/3 + ... with every quotient and every sum rounded, until the sum stands still."""
    total, n = 0.0, 1
    while to(name, total + to(name, 1 / n)) != total:
        total, n = to(name, total + to(name, 1 / n)), n + 1
    return {"sum": total, "stops_at": n}


def ones(name: str, count: int) -> float:
    total = 0.0
    for _ in range(count):
        following = to(name, total + 1)
        if following == total:
            break
        total = following
    return total


def distinct(name: str, tokens: int) -> int:
    return len(np.unique(naive.rounded(np.arange(tokens), name)))


def first_clash(name: str) -> int:
    ids = naive.rounded(np.arange(5000), name)
    return int(np.flatnonzero(np.diff(ids) == 0)[0]) + 1


def largest_lost(name: str) -> float:
    """w / u of the largest w below 2 and the u of half a step, which goes up: w is odd."""
    return (2 - 2.0 ** (1 - naive.precision(name))) / 2.0 ** -naive.precision(name)


def ties(name: str) -> list[float]:
    """1 and its upper neighbour plus half a step: both go to the even one."""
    half = 2.0 ** -naive.precision(name)
    return [to(name, 1 + half), to(name, 1 + 3 * half)]


def twice(x: float) -> dict[str, float]:
    """float64 to fp16 as numpy does it, and by way of float32."""
    return {"numpy": to("fp16", x), "pytorch": to("fp16", float(np.float32(x)))}


# What follows from the formats alone, by experiment and claim.
FACTS: dict[tuple[str, str], Callable[[], Any]] = {
    ("underflow", "fp16-max"): lambda: naive.largest("fp16"),
    ("underflow", "fp16-below-65520"): lambda: to("fp16", math.nextafter(65520, 0)),
    ("underflow", "fp16-65520"): lambda: to("fp16", 65520),
    ("underflow", "fp16-min-subnormal"): lambda: Fraction(1, 2**24),
    ("underflow", "e4m3-max"): lambda: naive.largest("e4m3"),
    ("underflow", "e4m3-min-normal"): lambda: Fraction(1, 2**6),
    ("underflow", "e4m3-min-subnormal"): lambda: Fraction(1, 2**9),
    ("underflow", "e4m3-464"): lambda: to("e4m3", 464),
    ("underflow", "e4m3-above-464"): lambda: to("e4m3", math.nextafter(464, 500)),
    ("underflow", "e4m3-above-464-saturated"): lambda: naive.largest("e4m3"),
    ("underflow", "e5m2-max"): lambda: naive.largest("e5m2"),
    ("underflow", "e5m2-min-normal"): lambda: Fraction(1, 2**14),
    ("underflow", "e5m2-min-subnormal"): lambda: Fraction(1, 2**16),
    ("underflow", "e5m2-61440"): lambda: to("e5m2", 61440),
    ("underflow", "mx-e2m1-max"): lambda: naive.largest("e2m1"),
    ("underflow", "mx-e3m2-max"): lambda: naive.largest("e3m2"),
    ("underflow", "mx-e2m3-max"): lambda: naive.largest("e2m3"),
    ("underflow", "mx-e8m0-max"): lambda: Fraction(2**127),
    ("underflow", "adam-epsilon-fp16"): lambda: to("fp16", 1e-8),
    ("underflow", "adam-epsilon-2-25"): lambda: to("fp16", 2.0**-25),
    ("underflow", "adam-epsilon-survives"): lambda: to("fp16", math.nextafter(2.0**-25, 1)),
    ("underflow", "adam-beta2-bf16"): lambda: to("bf16", 0.999),
    ("underflow", "adam-one-minus-beta2-bf16"): lambda: 1 - to("bf16", 0.999),
    ("underflow", "grad-scaler-16-overflows"): lambda: 65536.0 / 2**16,
    ("loss_scaling", "sixteen-overflows"): lambda: math.log2(65536),
    ("optimizer", "fp16-eps-1e-8"): lambda: to("fp16", 1e-8),
    ("optimizer", "fp16-largest-lost-eps"): lambda: Fraction(1, 2**25),
    ("optimizer", "bf16-beta2"): lambda: to("bf16", 0.999),
    ("optimizer", "fp16-beta2"): lambda: to("fp16", 0.999),
    ("accumulation", "ones-bf16"): lambda: ones("bf16", 70_000),
    ("accumulation", "ones-fp16"): lambda: ones("fp16", 20_000),
    ("accumulation", "ones-fp16-eight-partial-sums"): lambda: 8 * ones("fp16", 20_000 // 8),
    ("accumulation", "ones-bf16-repaired"): lambda: to("bf16", 70_000),
    ("position_ids", "bf16-first-clash"): lambda: first_clash("bf16"),
    ("position_ids", "fp16-first-clash"): lambda: first_clash("fp16"),
    ("position_ids", "fp16-distinct-positions"): lambda: distinct("fp16", 4096),
    ("attribution", "mx-floor-cuts-957"): lambda: min(957 / 2, naive.largest("e4m3")) * 2,
    ("attribution", "mx-rceil-keeps-957"): lambda: to("e4m3", 957 / 2.0**2) * 4,
    ("swamping", "published-2048"): lambda: 2.0 ** naive.precision("fp16"),
    **{("swamping", f"lost-at-one-{name}"): lambda name=name: 2.0 ** naive.precision(name)
       for name in ("fp16", "bf16", "e4m3", "e5m2")},
    **{("swamping", f"kept-below-two-{name}"): lambda name=name: largest_lost(name)
       for name in ("fp16", "bf16", "e4m3", "e5m2")},
    **{("swamping", f"tie-to-even-{name}"): lambda name=name: ties(name) for name in ("fp16", "bf16", "e4m3", "e5m2")},
    ("underflow", "scale-8-restores"): lambda: [to("fp16", 2.0**-27), to("fp16", 8 * 2.0**-27)],
    ("conversions", "numpy-and-pytorch-fp16-differ"): lambda: twice(1 + 2.0**-11 + 2.0**-40),
    ("accumulation", "harmonic-fp16"): lambda: harmonic("fp16"),
    ("accumulation", "harmonic-bf16"): lambda: harmonic("bf16"),
    ("position_ids", "bf16-distinct-positions"):
        lambda: {str(tokens): distinct("bf16", tokens) for tokens in (2048, 4096, 8192, 131072)},
    ("position_ids", "alibi-slopes-8-heads"): lambda: [2.0**-head for head in range(1, 9)],
    ("loss_scaling", "grad-scaler-defaults"): lambda: [65536.0, 2.0, 0.5, 2000],
}


@columns.recompute("figures", "expected measured", "lists of all values of a format, and sums written out; only figures that "
                   "follow from formats")
def facts(report: Report, row: Row) -> Row | None:
    known = FACTS.get((row["experiment"], row["claim"]))
    if known is None:
        return None
    fact = known()
    fact = json.dumps(fact, separators=(",", ":")) if isinstance(fact, (list, dict)) else fact  # tables hold no lists
    return {"expected": fact, "measured": fact}
