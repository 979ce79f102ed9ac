"""What PyTorch's FP32 list has besides the operators of programs.py, as NumPy functions of an arithmetic."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
import programs
from programs import Arithmetic, negative, normalized, softmax, softplus

Array = Any


def by_elements(function: Any) -> Any:
    """A function of doubles for arrays."""
    vectorized = np.frompyfunc(function, 1, 1)
    return lambda x: vectorized(x.astype(np.float64)).astype(np.float64)


def erfinv(x: float) -> float:
    """By Newton's method on erfc, which keeps its digits near 1."""
    if not abs(x) < 1:
        return math.copysign(math.inf, x) if abs(x) == 1 else math.nan
    if x == 0:
        return x
    a = abs(x)
    log = math.log1p(-a * a) / 2
    c = 2 / (math.pi * 0.147) + log
    y = math.sqrt(max(math.sqrt(c * c - log * 2 / 0.147) - c, 0)) or a
    for _ in range(8):
        off = math.erf(y) - a if a < 0.5 else (1 - a) - math.erfc(y)
        y -= off / (2 / math.sqrt(math.pi) * math.exp(-y * y))
    return math.copysign(y, x)


def magnitude(m: Arithmetic, x: Array) -> Array:
    return np.maximum(x, negative(m, x))


def hinge(x: Array) -> Array:
    return np.where(np.isnan(x), x, np.maximum(x, 0))


def norm(m: Arithmetic, x: Array) -> Array:
    return m.of(np.sqrt, m.dot(x, x))


def distance(m: Arithmetic, x: Array, y: Array) -> Array:
    return norm(m, m.sub(x, y))


def cosine(m: Arithmetic, x: Array, y: Array) -> Array:
    least = m.constant(1e-8)
    return m.div(m.dot(x, y), m.mul(np.maximum(norm(m, x), least), np.maximum(norm(m, y), least)))


def by_label(m: Arithmetic, x: Array) -> Array:
    half = len(x) // 2
    return np.concatenate([x[:half], negative(m, x[half:])])


def mean(m: Arithmetic, x: Array) -> Array:
    return m.mean(x)[None]


def running(step: Any, x: Array) -> Array:
    found = [x[0]]
    for term in x[1:]:
        found.append(step(found[-1], term))
    return np.stack(found)


def group_norm(m: Arithmetic, x: Array) -> Array:
    return np.concatenate([normalized(m, group) for group in np.split(x, 8)])


def normalize(m: Arithmetic, x: Array) -> Array:
    return m.div(x, np.maximum(norm(m, x), m.constant(1e-12)))


def renorm(m: Arithmetic, *rows: Array) -> Array:
    found = []
    for x in rows:
        length = norm(m, x)
        scale = m.div(m.constant(1), m.add(length, m.constant(1e-7)))
        found.append(m.mul(x, np.where(length > 1, scale, m.constant(1))))
    return np.concatenate(found)


def cosine_embedding_loss(m: Arithmetic, *rows: Array) -> Array:
    of_pairs = np.stack([cosine(m, rows[2 * i], rows[2 * i + 1]) for i in range(8)])
    return mean(m, np.concatenate([m.sub(m.constant(1), of_pairs[:4]), hinge(of_pairs[4:])]))


def kl_div(m: Arithmetic, x: Array, t: Array) -> Array:
    return mean(m, np.where(t > 0, m.mul(t, m.sub(m.of(np.log, t), x)), 0))


def smooth_l1_loss(m: Arithmetic, x: Array, t: Array) -> Array:
    far = magnitude(m, m.sub(x, t))
    near = np.minimum(far, 1)
    return mean(m, m.add(m.mul(m.constant(0.5), m.mul(near, near)), m.sub(far, near)))


def hinge_embedding_loss(m: Arithmetic, x: Array) -> Array:
    half = len(x) // 2
    return mean(m, np.concatenate([x[:half], hinge(m.sub(m.constant(1), x[half:]))]))


def margin_loss(m: Arithmetic, x: Array, labels: int) -> Array:
    terms = [hinge(m.add(m.sub(m.constant(1), x[j]), x[labels:])) for j in range(labels)]
    return m.div(m.sum(np.concatenate(terms)), m.constant(len(x)))[None]


def triplet_margin_loss(m: Arithmetic, a: Array, b: Array, c: Array) -> Array:
    near, far = (norm(m, m.add(m.sub(a, other), m.constant(1e-6))) for other in (b, c))
    return hinge(m.add(m.sub(near, far), m.constant(1)))[None]


def activations(*shares: int) -> Any:
    """Operands of n over each of these numbers of activations."""
    return lambda n: [("activation", n // share) for share in shares]


def function(kind: str, of: Any) -> Any:
    return (lambda n: [(kind, n // 16)], lambda m, x: m.of(of, x))


OPERATORS = {
    "rdiv": (lambda n: [("positive", n // 16)], lambda m, x: m.div(m.constant(3), x)),
    "rpow": function("activation", np.exp2),
    "acos": function("binary_probability", np.arccos),
    "asin": function("binary_probability", np.arcsin),
    "tan": function("activation", np.tan),
    "cosh": function("activation", np.cosh),
    "sinh": function("activation", np.sinh),
    "erfinv": function("binary_probability", by_elements(erfinv)),
    "expm1": function("activation", np.expm1),
    "log10": function("positive", np.log10),
    "log1p": function("positive", np.log1p),
    "log2": function("positive", np.log2),
    "softplus": (activations(16), softplus),
    "softmin": (activations(4), lambda m, x: softmax(m, negative(m, x))),
    "cumsum": (activations(4), lambda m, x: running(m.add, x)),
    "cumprod": (lambda n: [("activation", 16)], lambda m, x: running(m.mul, x)),
    "group-norm": (lambda n: [("activation", n // 8 * 8)], group_norm),
    "normalize": (activations(4), normalize),
    "renorm": (activations(16, 16, 16, 16), renorm),
    "cosine-similarity": (activations(4, 4), lambda m, x, y: cosine(m, x, y)[None]),
    "dist": (activations(4, 4), lambda m, x, y: distance(m, x, y)[None]),
    "cdist": (activations(*[16] * 8), lambda m, *r: np.stack(
        [distance(m, r[i], r[j]) for i in range(4) for j in range(4, 8)])),
    "pdist": (activations(*[16] * 4), lambda m, *r: np.stack(
        [distance(m, r[i], r[j]) for i in range(4) for j in range(i + 1, 4)])),
    "cosine-embedding-loss": (activations(*[16] * 16), cosine_embedding_loss),
    "hinge-embedding-loss": (activations(4), hinge_embedding_loss),
    "kl-div": (lambda n: [("activation", n // 16), ("probability", n // 16)], kl_div),
    "l1-loss": (activations(4, 4), lambda m, x, t: mean(m, magnitude(m, m.sub(x, t)))),
    "smooth-l1-loss": (activations(4, 4), smooth_l1_loss),
    "margin-ranking-loss": (activations(4, 4), lambda m, x, y: mean(
        m, hinge(negative(m, by_label(m, m.sub(x, y)))))),
    "multi-margin-loss": (activations(4), lambda m, x: margin_loss(m, x, 1)),
    "multilabel-margin-loss": (activations(8), lambda m, x: margin_loss(m, x, 2)),
    "nll-loss": (lambda n: [("positive", n // 4)], lambda m, x: mean(m, negative(m, x))),
    "poisson-nll-loss": (lambda n: [("activation", n // 16), ("positive", n // 16)],
                         lambda m, x, t: mean(m, m.sub(m.of(np.exp, x), m.mul(t, x)))),
    "soft-margin-loss": (activations(16), lambda m, x: mean(
        m, m.of(np.log1p, m.of(np.exp, negative(m, by_label(m, x)))))),
    "triplet-margin-loss": (activations(4, 4, 4), triplet_margin_loss),
}
programs.OPERATORS.update(OPERATORS)
