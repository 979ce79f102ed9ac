"""Operators of networks as NumPy functions of an arithmetic, and the numbers that they are given.

The first axis of every array runs over the elements of a tensor; the others hold samples and scales side by side.
"""
from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import naive
import numpy as np
import streams
from lanes import two_sum

Array = Any  # of float64, of longdouble where arithmetic is exact
WIDTH, TOKENS, VOCABULARY, HEAD, CELLS, FACTORS, EPSILON = 32, 8, 64, 64, 8, 16, 1e-5
ERF, ERFC = np.frompyfunc(math.erf, 1, 1), np.frompyfunc(math.erfc, 1, 1)


@functools.cache
def table(name: str) -> tuple[Array, Array]:
    """The magnitudes from which each value on is reached, to nearest even; the values, and what lies beyond them."""
    values = naive.values(name)
    above = np.append(values[1:], 2 * values[-1] - values[-2])
    middles = (values + above) / 2
    odd = np.arange(len(values)) % 2 == 1
    beyond = {"ieee": np.inf, "fn": np.nan}[naive.FORMATS[name][3]]
    return np.where(odd, middles, np.nextafter(middles, np.inf)), np.append(values, beyond)


def nearest(x: Array, name: str) -> Array:
    """naive.rounded(x, name), faster where x is small and many are rounded to one format."""
    if name == "fp32":
        return x.astype(np.float32).astype(np.float64)
    borders, values = table(name)
    result = np.copysign(values[np.searchsorted(borders, np.abs(x), "right")], x)
    return np.where(np.isnan(x), x, result)


class Arithmetic:
    """Every operation rounded once to a format, or none (exact: 64 bits). Tensors come from and go to another format.

    Sums are rounded to odd first, so that doubles lose nothing that decides; functions are NumPy's, in doubles.
    """

    def __init__(self, operations: str | None, tensors: str | None) -> None:
        self.operations, self.tensors = operations, tensors

    def rounded(self, x: Array) -> Array:
        return nearest(np.asarray(x, np.float64), self.operations) if self.operations else np.asarray(x, np.longdouble)

    def enter(self, x: Array) -> Array:
        return self.rounded(nearest(x, self.tensors) if self.tensors else x)

    def leave(self, x: Array) -> Array:
        return nearest(x, self.tensors) if self.tensors else x

    def add(self, a: Array, b: Array) -> Array:
        if not self.operations:
            return a + b
        high, low = two_sum(a, b)
        if np.any(low):
            inexact = (low != 0) & np.isfinite(high) & (high.view(np.int64) % 2 == 0)
            high = np.where(inexact, np.nextafter(high, np.copysign(np.inf, low)), high)
        return self.rounded(high)

    def sub(self, a: Array, b: Array) -> Array:
        return self.add(a, -b)

    def mul(self, a: Array, b: Array) -> Array:
        return self.rounded(a * b)

    def div(self, a: Array, b: Array) -> Array:
        return self.rounded(a / b)

    def of(self, function: Callable[[Array], Array], x: Array) -> Array:
        return self.rounded(function(x))

    def constant(self, x: float) -> Array:
        return self.rounded(np.array([x]))[0]

    def sum(self, x: Array) -> Array:
        """One after the other."""
        if not self.operations:
            return x.sum(0)
        total = x[0]
        for term in x[1:]:
            total = self.add(total, term)
        return total

    def mean(self, x: Array) -> Array:
        return self.div(self.sum(x), self.constant(len(x)))

    def dot(self, a: Array, b: Array) -> Array:
        """A product, then fused multiply-adds, along the first axis."""
        if not self.operations:
            return sum(x * y for x, y in zip(a, b))
        total = self.mul(a[0], b[0])
        for x, y in zip(a[1:], b[1:]):
            total = self.add(x * y, total)  # the product of two numbers of 24 bits is a double
        return total

    def linear(self, x: Array, weights: Array) -> Array:
        """Weights: rows by columns."""
        return self.dot(x[:, None], np.swapaxes(weights, 0, 1))


def reciprocal(m: Arithmetic, x: Array) -> Array:
    return m.div(m.constant(1), x)


def negative(m: Arithmetic, x: Array) -> Array:
    return m.sub(m.constant(0), x)


def sigmoid(m: Arithmetic, x: Array) -> Array:
    return reciprocal(m, m.add(m.constant(1), m.of(np.exp, negative(m, x))))


def gelu(m: Arithmetic, x: Array) -> Array:
    """x Phi(x), by erf; exactly by erfc or its tail, which keep the small values that 1 + erf loses."""
    if not m.operations:
        z = -x * np.sqrt(np.longdouble(0.5))
        tail = np.exp(-z * z) / (z * np.sqrt(np.longdouble(math.pi))) * (1 - 1 / (2 * z * z))
        return x / 2 * np.where(z > 20, tail, ERFC(z.astype(np.float64)).astype(np.longdouble))
    error = m.rounded(ERF(m.mul(x, m.constant(math.sqrt(0.5)))).astype(np.float64))
    return m.mul(m.mul(m.constant(0.5), x), m.add(m.constant(1), error))


def exponentials(m: Arithmetic, x: Array, shifted: bool = True) -> tuple[Array, Array, Array]:
    differences = m.sub(x, x.max(0)) if shifted else x
    powers = m.of(np.exp, differences)
    return differences, powers, m.sum(powers)


def softmax(m: Arithmetic, x: Array, shifted: bool = True) -> Array:
    _, powers, total = exponentials(m, x, shifted)
    return m.div(powers, total)


def log_softmax(m: Arithmetic, x: Array) -> Array:
    differences, _, total = exponentials(m, x)
    return m.sub(differences, m.of(np.log, total))


def cross_entropy(m: Arithmetic, x: Array) -> Array:
    differences, _, total = exponentials(m, x)
    return m.sub(m.of(np.log, total), differences[0])[None]


def bce_term(m: Arithmetic, probability: Array) -> Array:
    return negative(m, m.of(np.log, m.sub(m.constant(1), probability)))


def softplus(m: Arithmetic, z: Array) -> Array:
    magnitude = np.maximum(z, negative(m, z))
    return m.add(np.maximum(z, 0), m.of(np.log1p, m.of(np.exp, negative(m, magnitude))))


def bce(m: Arithmetic, p: Array) -> Array:
    half = len(p) // 2
    return m.mean(np.concatenate([negative(m, m.of(np.log, p[:half])), bce_term(m, p[half:])]))[None]


def bce_with_logits(m: Arithmetic, x: Array) -> Array:
    half = len(x) // 2
    return m.mean(softplus(m, np.concatenate([negative(m, x[:half]), x[half:]])))[None]


def by_deviation(m: Arithmetic, d: Array) -> Array:
    """Divided by the root of the mean square."""
    variance = m.div(m.dot(d, d), m.constant(len(d)))
    return m.mul(d, reciprocal(m, m.of(np.sqrt, m.add(variance, m.constant(EPSILON)))))


def normalized(m: Arithmetic, x: Array) -> Array:
    return by_deviation(m, m.sub(x, m.mean(x)))


def product(m: Arithmetic, x: Array) -> Array:
    return functools.reduce(m.mul, x)[None]


def square(m: Arithmetic, x: Array) -> Array:
    return m.mul(x, x)


def cube(m: Arithmetic, x: Array) -> Array:
    return m.rounded(x * x * x)


def convolution(m: Arithmetic, x: Array, w: Array) -> Array:
    """3 x 3 windows over 4 x 4 places: channels first, then rows and columns."""
    places = x.reshape(-1, 4, 4, *x.shape[1:])
    windows = [places[:, row:row + 3, column:column + 3].reshape(-1, *x.shape[1:])
               for row in (0, 1) for column in (0, 1)]
    return m.dot(np.stack(windows, 1), w[:, None])


def lstm_cell(m: Arithmetic, x: Array, h: Array, c: Array, w: Array) -> Array:
    gates = m.linear(np.concatenate([x, h]), w).reshape(4, CELLS, *x.shape[1:])
    come, forget, out = (sigmoid(m, gates[i]) for i in (0, 1, 3))
    cells = m.add(m.mul(forget, c), m.mul(come, m.of(np.tanh, gates[2])))
    return np.concatenate([m.mul(out, m.of(np.tanh, cells)), cells])


def pooled(x: Array) -> Array:
    return np.swapaxes(x.reshape(-1, 4, *x.shape[1:]), 0, 1)


def channels(m: Arithmetic, x: Array) -> Array:
    """Each quarter normalized for itself."""
    four = np.swapaxes(x.reshape(4, -1, *x.shape[1:]), 0, 1)
    return np.swapaxes(normalized(m, four), 0, 1).reshape(x.shape)


# What an operator is given for a size of n: kinds and numbers of elements, of weights rows and columns. Then itself.
OPERATORS: dict[str, tuple[Callable[[int], list[tuple[Any, ...]]], Callable[..., Array]]] = {
    "softmax": (lambda n: [("activation", n)], softmax),
    "log-softmax": (lambda n: [("activation", n)], log_softmax),
    "cross-entropy": (lambda n: [("label_logits", n)], cross_entropy),
    "bce": (lambda n: [("binary_probability", n // 4)], bce),
    "bce-with-logits": (lambda n: [("binary_logits", n // 4)], bce_with_logits),
    "layer-norm": (lambda n: [("activation", n)], normalized),
    "sum": (lambda n: [("activation", n)], lambda m, x: m.sum(x)[None]),
    "norm": (lambda n: [("activation", n)], lambda m, x: m.of(np.sqrt, m.dot(x, x))[None]),
    "prod": (lambda n: [("activation", FACTORS)], product),
    "exp": (lambda n: [("activation", n // 4)], lambda m, x: m.of(np.exp, x)),
    "pow": (lambda n: [("activation", n // 4)], cube),
    "linear": (lambda n: [("activation", n), ("weight", 4, n)], lambda m, x, w: m.linear(x, w)),
    "conv2d": (lambda n: [("activation", n // 4), ("weight", 1, n // 64 * 9)],
               lambda m, x, w: convolution(m, x, w[0])),
    "attention-scores": (lambda n: [("activation", HEAD), ("activation", 16 * HEAD)], lambda m, q, k: m.div(
        m.dot(q[:, None], np.swapaxes(k.reshape(16, HEAD, *k.shape[1:]), 0, 1)), m.constant(8))),
    "attention-values": (lambda n: [("probability", n), ("activation", 4 * n)],
                         lambda m, p, v: m.linear(p, v.reshape(4, -1, *v.shape[1:]))),
    "embedding": (lambda n: [("weight", 1, n)], lambda m, w: w[0]),
    "last-layer": (lambda n: [("activation", HEAD), ("weight", n // 8, HEAD)],
                   lambda m, x, w: softmax(m, m.linear(x, w))),
    "lstm-cell": (lambda n: [("activation", n // 64), ("activation", CELLS), ("activation", CELLS),
                             ("weight", 4 * CELLS, n // 64 + CELLS)], lstm_cell),
    "rnn-cell": (lambda n: [("activation", n // 16), ("activation", CELLS), ("weight", CELLS, n // 16 + CELLS)],
                 lambda m, x, h, w: m.of(np.tanh, m.linear(np.concatenate([x, h]), w))),
    "rms-norm": (lambda n: [("activation", n)], by_deviation),
    "batch-norm": (lambda n: [("activation", n)], channels),
    "softmax-unshifted": (lambda n: [("activation", n)], lambda m, x: softmax(m, x, False)),
    "mse": (lambda n: [("activation", n), ("activation", n)], lambda m, x, t: m.mean(square(m, m.sub(x, t)))[None]),
    "sum-of-magnitudes": (lambda n: [("positive", n)], lambda m, x: m.sum(x)[None]),
    "mean": (lambda n: [("positive", n)], lambda m, x: m.mean(x)[None]),
    "log": (lambda n: [("positive", n // 4)], lambda m, x: m.of(np.log, x)),
    "reciprocal": (lambda n: [("positive", n)], reciprocal),
    "rsqrt": (lambda n: [("positive", n)], lambda m, x: reciprocal(m, m.of(np.sqrt, x))),
    "relu": (lambda n: [("activation", n)], lambda m, x: np.maximum(x, 0)),
    "gelu": (lambda n: [("activation", n // 4)], gelu),
    "sigmoid": (lambda n: [("activation", n // 4)], sigmoid),
    "tanh": (lambda n: [("activation", n // 4)], lambda m, x: m.of(np.tanh, x)),
    "mul": (lambda n: [("activation", n), ("activation", n)], lambda m, y, x: m.mul(x, y)),
    "residual": (lambda n: [("activation", n), ("activation", n)], lambda m, y, x: m.add(x, y)),
    "max-pool": (lambda n: [("activation", n)], lambda m, x: pooled(x).max(0)),
    "average-pool": (lambda n: [("activation", n)], lambda m, x: m.mean(pooled(x))),
}


@functools.lru_cache(64)
def normals(seed: int, samples: range, first: int, rows: int, count: int) -> Array:
    """rows x count x samples: the draws of operands first, first + 1, ..."""
    sample, row, index = np.meshgrid(np.array(samples), np.arange(first, first + rows), np.arange(count), indexing="ij")
    stream = sample.astype(np.uint64) << np.uint64(12) | row.astype(np.uint64) << np.uint64(1)
    drawn = streams.normal(seed, stream.ravel(), index.ravel().astype(np.uint64)).reshape(sample.shape)
    return np.moveaxis(drawn, 0, -1)


def weights(seed: int, samples: range, first: int, rows: int, count: int, fan_in: int) -> Array:
    """Of N(0, 1 / fan_in), in fp32."""
    return nearest(normals(seed, samples, first, rows, count) * (1 / math.sqrt(fan_in)), "fp32")


@functools.lru_cache(16)
def operand(kind: str, number: int, count: int, seed: int, samples: range, scales: tuple[float, ...]) -> Array:
    """count x samples x scales numbers in fp32; labels and probabilities are made of activations."""
    x = normals(seed, samples, number, 1, count)[0][:, :, None] * np.array(scales)
    if kind == "positive":
        x = np.abs(x)
    if kind in ("probability", "label_logits"):
        powers = np.exp(x - x.max(0))
        if kind == "probability":
            return nearest(powers / powers.sum(0), "fp32")
        for s, sample in enumerate(samples):
            if sample % 2 == 0:  # the label is drawn by the probabilities and put first; in odd samples it is any
                u = streams.uniform(seed, sample << 12 | number << 1 | 1, np.zeros(1, np.uint64))[0]
                for k in range(len(scales)):
                    label = int((powers[:-1, s, k].cumsum() < u * powers[:, s, k].sum()).sum())
                    x[[0, label], s, k] = x[[label, 0], s, k]
    if kind.startswith("binary"):  # the first half has label 1; a pair with the other label becomes its mirror
        drawn = np.stack([streams.uniform(seed, s << 12 | number << 1 | 1, np.arange(count)) for s in samples], 1)
        index = np.arange(count)[:, None, None]
        one = drawn[:, :, None] < 1 / (1 + np.exp(-x))
        x = np.where((index % 8 != 7) & (one != (index < count // 2)), -x, x)  # every eighth has any label
        if kind == "binary_probability":
            x = np.clip(1 / (1 + np.exp(-x)), 2.0**-126, 1 - 2.0**-24)
    return nearest(x, "fp32")


def inputs(name: str, n: int, seed: int, samples: range, scales: tuple[float, ...]) -> list[Array]:
    found, number = [], 0
    for kind, *counts in OPERATORS[name][0](n):
        if kind == "weight":
            rows, columns = counts
            found.append(weights(seed, samples, number, rows, columns, columns)[..., None])
            number += rows
        else:
            found.append(operand(kind, number, counts[0], seed, samples, scales))
            number += 1
    return found


def evaluated(name: str, m: Arithmetic, x: list[Array]) -> Array:
    """The outputs, elements by samples by scales."""
    with np.errstate(all="ignore"):
        return m.leave(OPERATORS[name][1](m, *(m.enter(a) for a in x)))
