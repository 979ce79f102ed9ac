"""Symmetric integers of a few bits: rounding, calibration and products, from their definitions.

Calibration as in Wu et al. 2020 (arXiv:2004.09602) and Migacz 2017; split products as in Dettmers et al. 2022.
"""
from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
BINS = 2048


def most(bits: int) -> int:
    return 2 ** (bits - 1) - 1


def rounded(x: Floats, bits: int, amax: Floats | float) -> tuple[Floats, Floats]:
    """The integers, and what one is worth. amax: one number, or one a row."""
    scale = np.asarray(amax, np.float32) / np.float32(most(bits))
    scale = np.where(scale == 0, np.float32(1), scale)
    return np.clip(np.rint(x * (np.float32(1) / scale)), -most(bits), most(bits)), scale


def quantized(x: Floats, bits: int, amax: Floats | float) -> Floats:
    integers, scale = rounded(x, bits, amax)
    return integers * scale


def squared_error(x: Floats, bits: int, amax: Floats | float) -> Doubles:
    """Sums over rows."""
    return ((x.astype(np.float64) - quantized(x, bits, amax)) ** 2).sum(-1)


def by_mse(x: Floats, bits: int) -> Floats:
    """Of 1 %, 2 %, ..., 100 % of each row's largest magnitude the one of the least squared error, the larger of two."""
    largest = np.abs(x).max(-1, keepdims=True)
    best, least = largest, squared_error(x, bits, largest)
    for percent in range(99, 0, -1):
        amax = largest * (np.float32(percent) / np.float32(100))
        error = squared_error(x, bits, amax)
        better = error < least
        best, least = np.where(better[..., None], amax, best), np.where(better, error, least)
    return best


def by_percentile(x: Floats, percent: float) -> float:
    """The smallest magnitude that so many percent do not exceed."""
    return float(np.sort(np.abs(x.ravel()))[math.ceil(percent / 100 * x.size) - 1])


def by_entropy(x: Floats, bits: int) -> float:
    """The bin edge whose clipped distribution P is nearest to its quantized one Q (Kullback and Leibler).

    P has what lies beyond in its last bin; Q is P's bins, without that, merged into levels and spread over those that
    are not empty. The first bin counts as much as the second.
    """
    largest, levels = float(np.abs(x).max()), most(bits) + 1
    places = np.maximum(np.ceil(np.abs(x.ravel()).astype(np.float64) / (largest / BINS)).astype(np.int64) - 1, 0)
    counts = np.bincount(places, minlength=BINS).astype(np.float64)
    counts[0] = counts[1]
    best, least = BINS, math.inf
    for bins in range(128, BINS + 1):
        kept, beyond = counts[:bins], counts[bins:].sum()
        if kept[-1] == 0 and beyond > 0:
            continue
        level = np.arange(bins) * levels // bins
        some = kept > 0
        mean = np.bincount(level, kept, levels) / np.maximum(1, np.bincount(level, some, levels))
        p = kept.copy()
        p[-1] += beyond
        p, q = p[some] / counts.sum(), mean[level][some] / kept.sum()
        divergence = float((p * np.log(p / q)).sum())
        if divergence <= least + 1e-13:  # of equals the larger range
            best, least = bins, min(least, divergence)
    edge = largest / BINS * best
    nearest = np.float32(edge)
    return float(nearest if nearest <= edge else np.nextafter(nearest, np.float32(0)))


def calibrated(x: Floats, bits: int, method: str) -> float:
    """The magnitude of the largest integer: max, mse, entropy or percentile-P."""
    largest = float(np.abs(x).max())
    if method == "mse":
        return float(by_mse(x.reshape(1, -1), bits)[0, 0])
    found = {"max": largest, "entropy": by_entropy(x, bits)} if method in ("max", "entropy") else {}
    return found.get(method) or by_percentile(x, float(method.partition("-")[2]))


def product(x: Floats, w: Floats) -> Floats:
    """x W^T. Of integers below 2^24 it is exact."""
    return np.einsum("ij,kj->ik", x, w)


def to_fp16(x: Floats) -> Floats:
    return x.astype(np.float16).astype(np.float32)


def fp16_product(x: Floats, w: Floats) -> Floats:
    return to_fp16(product(to_fp16(x), to_fp16(w)))


def int8_product(x: Floats, w: Floats, by_row: bool) -> Floats:
    """One scale each, or one a row of x and one a row of w."""
    x, w = to_fp16(x), to_fp16(w)
    (a, of_a), (b, of_b) = (rounded(v, 8, np.abs(v).max(1 if by_row else None, keepdims=True, initial=0))
                            for v in (x, w))
    sums = np.zeros((len(x), len(w)))
    for at in range(0, x.shape[1], 1024):  # whose sums float32 holds
        sums += product(a[:, at:at + 1024], b[:, at:at + 1024])
    return sums.astype(np.float32) * of_a * of_b.reshape(1, -1)


def outlier_columns(x: Floats, threshold: float) -> NDArray[np.bool_]:
    return np.abs(to_fp16(x)).max(0) >= threshold


def split_product(x: Floats, w: Floats, threshold: float) -> Floats:
    """Columns with outliers in FP16, the others in INT8 with a scale a row; added in FP16."""
    wide = outlier_columns(x, threshold)
    regular = to_fp16(int8_product(x[:, ~wide], w[:, ~wide], True))
    return to_fp16(regular + fp16_product(x[:, wide], w[:, wide])) if wide.any() else regular


def relative_error(y: Floats, x: Floats, w: Floats) -> float:
    """Against the exact product of the FP16 operands."""
    exact = np.einsum("ij,kj->ik", to_fp16(x).astype(np.float64), to_fp16(w).astype(np.float64))
    return float(np.linalg.norm(y - exact) / np.linalg.norm(exact))
