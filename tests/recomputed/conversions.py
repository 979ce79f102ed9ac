"""conversions: numbers counted between the borders of values (borders.py); only examples are converted."""
from __future__ import annotations

from typing import NamedTuple

import naive
import numpy as np
import streams
from borders import INTEGERS, Differing, differing, magnitude, power_place, size, target_borders
from checks import Columns, Near, Report, Row
from lanes import two_sum
from numpy.typing import NDArray

columns = Columns()
Doubles = NDArray[np.float64]


class Counts(NamedTuple):
    total: int
    subnormal: int
    overflow: int
    share: float


def counts(target: str, signs: list[Differing]) -> Counts:
    last = len(naive.values(target))
    sizes = [d.end - d.first for d in signs]
    total, overflow = sum(int(s[:last].sum()) for s in sizes), sum(int(s[last - 1]) for s in sizes)
    subnormal, inputs = sum(d.within(0, d.normal[0]) for d in signs), sum(d.normal[1] - d.normal[0] for d in signs)
    return Counts(total, subnormal, overflow, sum(d.within(*d.normal) for d in signs) / inputs if inputs else 0.0)


def first_from(signs: list[Differing], begins: list[int]) -> tuple[int, bool] | None:
    """The place and the sign of the first that differs at or after a place, the positive one of two."""
    found = []
    for negative, (d, begin) in enumerate(zip(signs, begins)):
        first = np.maximum(d.first, np.uint64(begin))
        found += [(int(place), negative == 1) for place in first[d.end > first][:1]]
    return min(found, default=None)


def text(x: float) -> str:
    """The shortest digits that tell a double from its neighbours, as reports write them."""
    return repr(float(x)).removesuffix(".0")


def in_mode(x: float, name: str, mode: str) -> float:
    if mode != "to-odd":
        return float(naive.rounded(x, name, "upward" if mode == "toward-positive" else mode))
    below, above, odd = naive.neighbours(np.array([abs(x)]), name)
    return float(np.copysign(below[0] if odd[0] or below[0] == abs(x) else above[0], x))


def witness(chain: str, way: str, last: str, signs: list[Differing], saturating: bool = False) -> Row:
    """The first from 1 on that differs and what becomes of it, by rounding it; `smallest`: of all."""
    source, *via, target = chain.split(">")
    smallest = first_from(signs, [0, 0])
    found = first_from(signs, [power_place(source, 0, negative) for negative in (False, True)]) or smallest
    if smallest is None or found is None:
        return dict.fromkeys(("smallest", "example", "example_code", "on_the_way", "direct", "chained"))
    (x, code), negative = magnitude(source, found[0]), found[1]
    bits = INTEGERS.get(source) or {"fp64": 64, "fp32": 32}.get(source, 16)
    if negative:
        x, code = -x, -code % 2**bits if source in INTEGERS else code | 1 << bits - 1
    steps = [x]
    for name in via:
        steps.append(in_mode(steps[-1], name, way))
    sign = -1 if smallest[1] else 1
    return {"smallest": text(sign * magnitude(source, smallest[0])[0]), "example": text(x),
            "example_code": f"0x{code:0{bits // 4}x}", "on_the_way": text(steps[1]),
            "direct": text(in_mode(x, target, last)), "chained": text(in_mode(steps[-1], target, last))}


def both_signs(chain: str, way: str, last: str) -> list[Differing]:
    return [differing(chain, way, last, negative) for negative in (False, True)]


def converted(source: str, found: tuple[int, bool] | None, negative: bool) -> int:
    """How many of one sign are converted one by one: 2^21 on either side of the example or of 1, all of 17 bits."""
    if source == "i64":
        return 0  # no array function takes them
    middle = found[0] if found else power_place(source, 0, negative)
    everything = size(source, negative)
    return everything if source == "fp16" else min(everything, middle + 2**21) - max(0, middle - 2**21)


@columns.recompute("chains", "inputs differ expected share differ_subnormal differ_overflow smallest example "
                   "example_code on_the_way direct chained one_by_one",
                   "the intervals that round to each value of the target; the numbers of the source in each are counted")
def chains(report: Report, row: Row) -> Row:
    chain, mode = row["chain"], row["rounding"]
    source, *via, target = chain.split(">")
    signs = both_signs(chain, mode, mode)
    count = counts(target, signs)
    inputs = sum(size(source, negative) for negative in (False, True)) - (source in INTEGERS)  # these have one zero
    ones = [first_from([d], [power_place(source, 0, n)]) for n, d in zip((False, True), signs)]
    return {"inputs": inputs, "differ": count.total, "expected": count.total if len(via) == 1 else None,
            "share": Near(count.share, 1e-15), "differ_subnormal": count.subnormal, "differ_overflow": count.overflow,
            "one_by_one": sum(converted(source, one, n) for n, one in zip((False, True), ones)),
            **witness(chain, mode, mode, signs)}


@columns.recompute("modes", "extra_bits odd_suffices differ expected share example example_code on_the_way direct "
                   "chained", "the intervals that round to each value of the target; the numbers of the source in each are counted")
def modes(report: Report, row: Row) -> Row:
    source, *via, target = row["chain"].split(">")
    signs = both_signs(row["chain"], row["way_rounding"], "nearest-even")
    count = counts(target, signs)
    smallest, largest = naive.values(target)[1], target_borders(target, "nearest-away", False).points[-1]
    enough = [naive.precision(name) >= naive.precision(target) + 2 and naive.largest(name) >= largest
              and naive.smallest_normal(name) * 2.0 ** -naive.FORMATS[name][1] <= smallest / 4 for name in via]
    found = witness(row["chain"], row["way_rounding"], "nearest-even", signs)
    del found["smallest"]
    return {"extra_bits": naive.precision(via[-1]) - naive.precision(target), "odd_suffices": all(enough),
            "differ": count.total, "expected": count.total if len(via) == 1 else None,
            "share": Near(count.share, 1e-15), **found}


columns.given("binades", "first_exponent last_exponent")


@columns.recompute("binades", "result inputs differ share expected_share",
                   "the same intervals, cut at powers of two; every binade of a row")
def binades(report: Report, row: Row) -> Row:
    source, *via, target = row["chain"].split(">")
    mode = report.config["roundings"][0]
    rows = set()
    for exponent in range(row["first_exponent"], row["last_exponent"] + 1):
        begin, end = power_place(source, exponent), power_place(source, exponent + 1)
        result = "subnormal" if 2.0**exponent < naive.smallest_normal(target) else "normal"
        rows.add((result, end - begin, differing(row["chain"], mode, mode, False).within(begin, end)))
    if len(rows) > 1:  # binades of a row are to be alike
        return {"differ": np.nan}
    result, inputs, differ = rows.pop()
    return {"result": result, "inputs": inputs, "differ": differ, "share": differ / inputs,
            "expected_share": differ / inputs if len(via) == 1 else None}


@columns.recompute("libraries", "differ share example example_code on_the_way direct chained",
                   "the intervals that round to each value of the target; the numbers of the source in each are counted")
def libraries(report: Report, row: Row) -> Row:
    saturating = "saturate=1" in row["cast"] or row["cast"] == "Tensor.to(torch.float8_e4m3fn)"
    flushed = row["cast"] == "tf.cast(x, tf.bfloat16)"
    signs = [differing(row["chain"], "nearest-even", "nearest-even", negative, saturating, flushed)
             for negative in (False, True)]
    count = counts(row["chain"].split(">")[-1], signs)
    found = witness(row["chain"], "nearest-even", "nearest-even", signs, saturating)
    del found["smallest"]
    return {"differ": count.total, "share": Near(count.share, 1e-15), **found}


def operands(name: str, operation: str, report: Report) -> tuple[list[Doubles], bool]:
    """All operands, or random ones: the values of code words of which number k has the bits k * width and up."""
    exponent_bits, fraction_bits, _, top = naive.FORMATS[name]
    width, count = 1 + exponent_bits + fraction_bits, {"sqrt": 1, "fma": 3}.get(operation, 2)
    table = np.full(2 ** (width - 1), np.nan)
    table[:len(naive.values(name))] = naive.values(name)
    if top == "ieee":
        table[len(naive.values(name))] = np.inf
    table = np.append(table, -table)
    every = width * count <= 18
    index = np.arange(2 ** (width * count) if every else report.config["samples"], dtype=np.uint64)
    words = [index >> np.uint64(width * k) if every else streams.random_words(report.config["seed"], k, index)
             for k in range(count)]
    return [table[(word % np.uint64(2**width)).astype(np.int64)] for word in words], every


def computed(operation: str, x: list[Doubles]) -> Doubles:
    """A number that rounds to any format of up to 24 bits as the result does.

    Sums are rounded to odd, products are exact. Quotients and roots are middles of 25 bits only if exact, and otherwise
    farther from one than a double's last place.
    """
    if operation == "div":
        return x[0] / x[1]
    if operation == "sqrt":
        return np.sqrt(x[0])
    if operation == "mul":
        return x[0] * x[1]
    a, b = (x[0] * x[1], x[2]) if operation == "fma" else (x[0], x[1] if operation == "add" else -x[1])
    high, low = two_sum(a, b)
    even = high.view(np.int64) % 2 == 0
    toward = np.where(low > 0, np.inf, -np.inf)
    return np.where(np.isfinite(high) & (low != 0) & even, np.nextafter(high, toward), high)


@columns.recompute("operations", "compared exhaustive differ a b c direct twice",
                   "results in 53 bits, exact or rounded to odd, for the same random words")
def operations(report: Report, row: Row) -> Row:
    with np.errstate(all="ignore"):
        x, every = operands(row["format"], row["operation"], report)
        exact = computed(row["operation"], x)
        direct = naive.rounded(exact, row["format"])
        twice = naive.rounded(naive.rounded(exact, row["through"]), row["format"])
    same = ((direct == twice) & (np.signbit(direct) == np.signbit(twice))) | (np.isnan(direct) & np.isnan(twice))
    wrong = np.flatnonzero(~same)
    found: Row = dict.fromkeys(("a", "b", "c", "direct", "twice"))
    if len(wrong):
        found |= {name: text(v[wrong[0]]) for name, v in zip("abc", x)}
        found |= {"direct": text(direct[wrong[0]]), "twice": text(twice[wrong[0]])}
    return {"compared": len(exact), "exhaustive": every, "differ": len(wrong), **found}
