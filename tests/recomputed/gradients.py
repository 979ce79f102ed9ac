"""Gradients of operators as NumPy functions of an arithmetic, after programs.py."""
from __future__ import annotations

from typing import Any

import naive
import numpy as np
import programs
from programs import Arithmetic, negative, reciprocal, sigmoid, softmax

Array = Any
TOKENS, HEAD = 8, 16


class Fp32Sums(Arithmetic):
    """All in a format but sums and dot products, which are FP32 between numbers of the format."""

    def __init__(self, name: str) -> None:
        super().__init__(name, name)
        self.wide = Arithmetic("fp32", "fp32")

    def sum(self, x: Array) -> Array:
        return self.rounded(self.wide.sum(x))

    def dot(self, a: Array, b: Array) -> Array:
        return self.rounded(self.wide.dot(a, b))


def arithmetic(name: str, how: str) -> Arithmetic:
    return Fp32Sums(name) if how == "fp32-sums" else Arithmetic(name, name)


def bce_exactly(x: Array) -> Array:
    """Without the difference sigmoid(x) - 1."""
    half = len(x) // 2
    return np.concatenate([-1 / (1 + np.exp(x[:half])), 1 / (1 + np.exp(-x[half:]))]) / len(x)


def bce(m: Arithmetic, x: Array) -> Array:
    if not m.operations:
        return bce_exactly(x)
    half, weight, y = len(x) // 2, m.constant(1 / len(x)), sigmoid(m, x)
    rest = m.sub(m.constant(1), y)
    by = np.concatenate([negative(m, m.div(weight, y[:half])), m.div(weight, rest[half:])])
    return m.mul(by, m.mul(y, rest))


def bce_with_logits(m: Arithmetic, x: Array) -> Array:
    if not m.operations:
        return bce_exactly(x)
    half, y = len(x) // 2, sigmoid(m, x)
    return m.mul(np.concatenate([m.sub(y[:half], m.constant(1)), y[half:]]), m.constant(1 / len(x)))


def softmax_and_nll(m: Arithmetic, x: Array) -> Array:
    y = softmax(m, x)
    first = negative(m, m.div(m.constant(1 / len(x)), y[0]))
    total = m.mul(first, y[0])
    return np.concatenate([m.mul(y[0], m.sub(first, total))[None], m.mul(y[1:], negative(m, total))])


def cross_entropy(m: Arithmetic, x: Array) -> Array:
    y = softmax(m, x)
    return m.mul(np.concatenate([m.sub(y[:1], m.constant(1)), y[1:]]), m.constant(1 / len(x)))


def norm(m: Arithmetic, x: Array, g: Array, centred: bool) -> Array:
    n = m.constant(len(x))
    d = m.sub(x, m.mean(x)) if centred else x
    inverse = reciprocal(m, m.of(np.sqrt, m.add(m.div(m.dot(d, d), n), m.constant(programs.EPSILON))))
    y = m.mul(d, inverse)
    along = m.div(m.dot(g, y), n)
    return m.mul(inverse, m.sub(m.sub(g, m.mean(g)) if centred else g, m.mul(y, along)))


def batch_norm(m: Arithmetic, x: Array, g: Array) -> Array:
    return np.concatenate([norm(m, *part, True) for part in zip(np.split(x, 4), np.split(g, 4))])


def product(m: Arithmetic, a: Array, b: Array) -> Array:
    """a b^T of rows."""
    return m.dot(np.moveaxis(a, 1, 0)[:, :, None], np.moveaxis(b, 1, 0)[:, None])


def attention(m: Arithmetic, *operands: Array) -> Array:
    q, k, v, g = (x.reshape(TOKENS, HEAD, *x.shape[1:]) for x in operands)
    four = m.constant(4)
    weights = np.swapaxes(softmax(m, np.swapaxes(m.div(product(m, q, k), four), 0, 1)), 0, 1)
    d = product(m, g, v)
    along = m.dot(np.swapaxes(d, 0, 1), np.swapaxes(weights, 0, 1))
    d = m.div(m.mul(weights, m.sub(d, along[:, None])), four)
    t = lambda x: np.swapaxes(x, 0, 1)
    found = [product(m, d, t(k)), product(m, t(d), t(q)), product(m, t(weights), t(g))]
    return np.concatenate([x.reshape(-1, *x.shape[2:]) for x in found])


def embedding(m: Arithmetic, g: Array) -> Array:
    found, at, count = [], 0, 1
    while at + count <= len(g):
        part = g[at:at + count]
        found.append(part[0] if count == 1 else m.sum(part))
        at, count = at + count, 2 * count
    return np.stack(found)


def max_pool(m: Arithmetic, x: Array, g: Array) -> Array:
    windows = x.reshape(-1, 4, *x.shape[1:])
    found = np.zeros(windows.shape, x.dtype)
    np.put_along_axis(found, windows.argmax(1)[:, None], np.broadcast_to(g[:, None], windows[:, :1].shape), 1)
    return found.reshape(x.shape)


def dropout(m: Arithmetic, g: Array) -> Array:
    scale = reciprocal(m, m.sub(m.constant(1), m.constant(0.1)))
    kept = (np.arange(len(g)) % 10 != 9).reshape(-1, *[1] * (g.ndim - 1))
    return m.mul(g, np.where(kept, scale, 0))


# Operands: kind, how many, and whose deviation is 1/n.
OPERATORS = {
    "bce": (lambda n: [("binary_logits", n // 4)], bce),
    "bce-with-logits": (lambda n: [("binary_logits", n // 4)], bce_with_logits),
    "softmax-and-nll": (lambda n: [("label_logits", n)], softmax_and_nll),
    "cross-entropy": (lambda n: [("label_logits", n)], cross_entropy),
    "layer-norm": (lambda n: [("activation", n), ("incoming", n)], lambda m, x, g: norm(m, x, g, True)),
    "rms-norm": (lambda n: [("activation", n), ("incoming", n)], lambda m, x, g: norm(m, x, g, False)),
    "batch-norm": (lambda n: [("activation", n), ("incoming", n)], batch_norm),
    "attention": (lambda n: [("activation", TOKENS * HEAD)] * 3 + [("incoming", TOKENS * HEAD)], attention),
    "embedding": (lambda n: [("incoming", n)], embedding),
    "max-pool": (lambda n: [("activation", n), ("incoming", n // 4)], max_pool),
    "average-pool": (lambda n: [("incoming", n // 4)], lambda m, g: m.div(g, m.constant(4))),
    "global-average-pool": (lambda n: [("incoming", n // 4)], lambda m, g: m.div(g, m.constant(4 * len(g)))),
    "dropout": (lambda n: [("incoming", n)], dropout),
}


def inputs(name: str, n: int, seed: int, scale: float) -> list[Array]:
    """Of the first sample."""
    found = []
    for number, (kind, count) in enumerate(OPERATORS[name][0](n)):
        if kind == "incoming":
            found.append(programs.weights(seed, range(1), number, 1, count, n * n)[0][..., None])
        else:
            found.append(programs.operand(kind, number, count, seed, range(1), (scale,)))
    return found


def evaluated(name: str, m: Arithmetic, x: list[Array]) -> Array:
    with np.errstate(all="ignore"):
        return m.leave(OPERATORS[name][1](m, *(m.enter(a) for a in x)))


def running_sums(name: str | None, wide: str | None, x: Array) -> Array:
    """Sums of the first 1, 2, 4, ... rows, added in `wide` and rounded to `name`; exactly if there is none."""
    if name is None:
        return np.cumsum(x.astype(np.longdouble), 0)[[2**k - 1 for k in range(len(x).bit_length())]]
    m, total, found = Arithmetic(wide, name), x[0], [x[0]]
    for i, term in enumerate(x[1:], 2):
        total = m.add(total, term)
        if i & (i - 1) == 0:
            found.append(naive.rounded(total, name))
    return np.stack(found)
