"""position_ids: NumPy over all positions, longdouble angles."""
from __future__ import annotations

import functools
from typing import Any

import naive
import numpy as np
import streams
from checks import Columns, Near, Report, Row

columns = Columns()
columns.given("collisions", "tokens")
columns.given("rope", "tokens")
columns.given("alibi", "tokens")
Longs = Any


@columns.recompute("collisions", "distinct first_clash largest_group overflowed", "NumPy's unique over all positions")
def collisions(report: Report, row: Row) -> Row:
    ids = naive.rounded(np.arange(row["tokens"]), row["format"], row["rounding"])
    distinct, first, sizes = np.unique(ids, return_index=True, return_counts=True)
    shared = first[sizes > 1]
    return {"distinct": len(distinct), "largest_group": int(sizes.max()), "overflowed": int((~np.isfinite(ids)).sum()),
            "first_clash": int(shared.min()) + 1 if len(shared) else None}


@columns.recompute("groups", "first_id spacing ids min_tokens max_tokens mean_tokens last_position",
                   "NumPy's unique over the range's positions")
def groups(report: Report, row: Row) -> Row:
    tokens = max(report.config["lengths"])
    ids = naive.rounded(np.arange(tokens), row["format"])
    first = naive.rounded(row["first_position"], row["format"])
    if not np.isfinite(first):
        inside = ~np.isfinite(ids)
    else:
        whole = 2.0 ** naive.precision(row["format"])
        binade = np.maximum(whole / 2, 2.0 ** np.floor(np.log2(np.maximum(1, ids))))
        inside = np.isfinite(ids) & (binade == max(whole / 2, 2.0 ** np.floor(np.log2(max(1, float(first))))))
    positions = np.flatnonzero(inside)
    distinct, sizes = np.unique(ids[inside], return_counts=True)
    cut = positions[-1] == tokens - 1 and len(sizes) > 1  # the last id's tokens go on beyond the context
    spacing = np.diff(distinct).min() if len(distinct) > 1 else None
    found = {"first_id": float(first), "ids": len(distinct), "last_position": int(positions[-1]),
             "min_tokens": int(sizes[:-1].min() if cut else sizes.min()), "max_tokens": int(sizes.max()),
             "mean_tokens": Near(sizes.mean(), 1e-15)}
    return found if spacing is None else found | {"spacing": spacing}


columns.given("groups", "first_position")
columns.given("ids", "token")


@columns.recompute("ids", "id", "the token rounded by the list of values")
def ids(report: Report, row: Row) -> Row:
    return {"id": float(naive.rounded(row["token"], row["format"]))}


@functools.cache
def frequencies(dim: int, base: float) -> tuple[Longs, Longs]:
    """base^(-2i/dim) in longdouble, and as frameworks compute it: FP32 powers, FP32 reciprocals."""
    powers = np.longdouble(base) ** (np.arange(0, dim, 2, dtype=np.longdouble) / dim)
    return 1 / powers, np.float32(1) / powers.astype(np.float32)


@functools.cache
def slopes(heads: int) -> tuple[Longs, Longs]:
    exact = np.longdouble(2) ** (-8 * np.arange(1, heads + 1, dtype=np.longdouble) / heads)
    return exact, exact.astype(np.float32)


def products(name: str, setup: str, positions: Longs, factors: tuple[Longs, Longs]) -> Longs:
    """Rounded position * factor, one row a position. NumPy's float32 is what frameworks compute in."""
    single = factors[1]
    ids = positions.astype(np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        if setup in ("ids", "all"):
            low = naive.rounded(positions, name)
            if setup == "all":
                return naive.rounded(low[:, None] * naive.rounded(single, name), name)
            return (low.astype(np.float32)[:, None] * single).astype(np.float64)
        if setup == "factors":
            single = naive.rounded(single, name).astype(np.float32)
        value = (ids[:, None] * single).astype(np.float64)
        if setup == "wrapped":
            value = np.remainder(value + np.pi, 2 * np.pi) - np.pi
            value = value.astype(np.float32).astype(np.float64)
    return naive.rounded(value, name) if setup in ("value", "wrapped") else value


def narrow_cosine(setup: str, name: str) -> str:
    return name if setup in ("value", "wrapped", "cosine", "all") else "fp32"


@functools.cache
def rope_errors(name: str, setup: str, tokens: int, dim: int, base: float) -> Row:
    positions, factors = np.arange(tokens), frequencies(dim, base)
    exact, angle = positions[:, None] * factors[0], products(name, setup, positions, factors)
    kept = np.isfinite(angle)
    with np.errstate(invalid="ignore"):
        cosine = naive.rounded(np.cos(angle), narrow_cosine(setup, name))
        single = np.cos(products("fp32", "fp32", positions, factors)).astype(np.float32)
        change, off = np.abs(cosine - single), angle - exact
    if setup == "wrapped":
        off = np.remainder(off + np.pi, 2 * np.pi) - np.pi
    error = np.where(kept, np.abs(cosine - np.cos(exact)), -1)
    worst = np.unravel_index(np.argmax(error), error.shape)
    return {"max_angle_error": Near(float(np.abs(off)[kept].max()), 1e-9, 1e-10 if setup == "wrapped" else 1e-14),
            "max_cos_error": Near(float(error.max()), 1e-9, 1e-14),
            "mean_cos_error": Near(float(error[kept].mean()), 1e-9), "max_cos_change": Near(change[kept].max(), 1e-9),
            "worst_position": int(worst[0]), "worst_pair": int(worst[1]), "non_finite": Near(1 - kept.mean(), 1e-12)}


@columns.recompute("rope", "max_angle_error max_cos_error mean_cos_error max_cos_change worst_position worst_pair "
                   "non_finite", "NumPy over all positions, exact angles in 64-bit significands", 24)
def rope(report: Report, row: Row) -> Row:
    return rope_errors(row["format"], row["setup"], row["tokens"], report.config["rope_dim"],
                       report.config["rope_base"])


@columns.recompute("alibi", "max_bias_error worst_distance worst_head non_finite",
                   "NumPy over all positions, exact biases in 64-bit significands", 24)
def alibi(report: Report, row: Row) -> Row:
    positions, factors = np.arange(row["tokens"]), slopes(report.config["alibi_heads"])
    bias = products(row["format"], row["setup"], positions, factors)
    kept = np.isfinite(bias)
    with np.errstate(invalid="ignore"):
        error = np.where(kept, np.abs(bias - positions[:, None] * factors[0]), -1)
    worst = np.unravel_index(np.argmax(error), error.shape)
    return {"max_bias_error": Near(float(error.max()), 1e-9, 1e-14), "worst_distance": int(worst[0]),
            "worst_head": int(worst[1]) + 1, "non_finite": Near(1 - kept.mean(), 1e-12)}


@columns.recompute("images", "tokens distinct sharing overflowed", "NumPy's unique over the patches")
def images(report: Report, row: Row) -> Row:
    tokens = (row["pixels"] // report.config["patch"]) ** 2 + 1
    ids = naive.rounded(np.arange(tokens), row["format"])
    _, sizes = np.unique(ids, return_counts=True)
    return {"tokens": tokens, "distinct": len(sizes), "sharing": int(sizes[sizes > 1].sum()), "overflowed": int((~np.isfinite(ids)).sum())}


columns.given("images", "pixels")
columns.given("scores", "tokens")


@functools.cache
def pairs(count: int, dim: int, tokens: int, seed: int) -> tuple[Longs, Longs, Longs, Longs]:
    """Queries and keys, each pair of dimensions a complex number; where queries stand, and how far before them keys."""
    index = np.arange(count * dim)
    query, key = (streams.normal(seed, stream, index).reshape(count, dim // 2, 2) for stream in (1, 2))
    places = tokens - 2 - np.array(streams.random_below(max(1, tokens // 2 - 1), seed, 3, np.arange(count)))
    distances = np.array(streams.random_below(np.minimum(64, places + 1), seed, 4, np.arange(count)))
    return query @ [1, 1j], key @ [1, 1j], places, distances


@columns.recompute("scores", "rms_error max_error shift_error non_finite",
                   "queries and keys as complex numbers, rotated by NumPy", 40)
def scores(report: Report, row: Row) -> Row:
    dim, name, setup = report.config["rope_dim"] // 2 * 2, row["format"], row["setup"]
    query, key, places, distances = pairs(report.config["score_pairs"], dim, row["tokens"], report.config["seed"])
    factors = frequencies(dim, report.config["rope_base"])

    def rotated(vectors: Longs, positions: Longs) -> Longs:
        angle = products(name, setup, positions, factors)
        with np.errstate(invalid="ignore"):
            parts = [naive.rounded(f(angle), narrow_cosine(setup, name)) for f in (np.cos, np.sin)]
            return vectors * (parts[0] + 1j * parts[1])

    def score(shift: int) -> Longs:
        return (rotated(query, places + shift) * rotated(key, places + shift - distances).conj()).real.sum(1)

    exact = (query * key.conj() * np.exp(1j * (distances[:, None] * factors[0]).astype(np.float64))).real.sum(1)
    here, there = score(0) / np.sqrt(dim), score(1) / np.sqrt(dim)
    kept = np.isfinite(here) & np.isfinite(there)
    if not kept.any():
        return {"rms_error": None, "max_error": None, "shift_error": None, "non_finite": 1.0}
    error, shift = (here - exact / np.sqrt(dim))[kept], (there - here)[kept]
    return {"rms_error": Near(np.sqrt((error**2).mean()), 1e-6), "max_error": Near(np.abs(error).max(), 1e-6),
            "shift_error": Near(np.sqrt((shift**2).mean()), 1e-5, 1e-10), "non_finite": Near(1 - kept.mean(), 1e-12)}
