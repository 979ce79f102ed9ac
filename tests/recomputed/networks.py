"""Two small models, operator by operator (stage by stage), each stage in a precision of its own; programs.py."""
from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from programs import (TOKENS, VOCABULARY, WIDTH, Arithmetic, Array, gelu, log_softmax, normalized, softmax, weights)

Precision = tuple[Any, Any]  # of operations and of tensors


class Stage(NamedTuple):
    """What it does with its weights (rows by columns) and with the tensors it reads (features x tokens x samples).

    `operations`: elementary ones, fused multiply-adds being one.
    """

    name: str
    reads: tuple[str, ...]
    weights: tuple[int, int]
    operations: int
    run: Callable[..., Array]


def embedding(tokens: int) -> Stage:
    return Stage("embedding", (), (tokens, WIDTH), 0, lambda m, w: np.swapaxes(w, 0, 1))


def linear(name: str, read: str, tokens: int, columns: int, rows: int) -> Stage:
    return Stage("linear-" + name, (read,), (rows, columns), tokens * columns * rows,
                 lambda m, w, x: m.linear(x, w[:, :, None]))


def rowwise(name: str, read: str, operations: int, run: Callable[..., Array]) -> Stage:
    return Stage(name, (read,), (0, 0), operations, run)


def last(read: str, tokens: int, columns: int) -> list[Stage]:
    return [linear("last", read, tokens, columns, VOCABULARY),
            rowwise("log-softmax", "linear-last", tokens * (5 * VOCABULARY - 1), log_softmax)]


def relu(m: Arithmetic, x: Array) -> Array:
    return np.maximum(x, 0)


def scores(m: Arithmetic, q: Array, k: Array) -> Array:
    """Keys by queries by samples."""
    return m.div(m.dot(q[:, None], k[:, :, None]), m.constant(math.sqrt(WIDTH)))


def mixed(m: Arithmetic, attention: Array, v: Array) -> Array:
    return m.dot(attention[:, None], np.swapaxes(v, 0, 1)[:, :, None])


def residual(name: str, read: str, added: str) -> Stage:
    return Stage("residual-" + name, (read, added), (0, 0), TOKENS * WIDTH, lambda m, x, y: m.add(x, y))


def layer_norm(name: str, read: str) -> Stage:
    return rowwise("layer-norm-" + name, read, TOKENS * (4 * WIDTH + 4), normalized)


MODELS = {
    "mlp": [embedding(4),
            linear("1", "embedding", 4, WIDTH, 4 * WIDTH), rowwise("relu-1", "linear-1", 16 * WIDTH, relu),
            linear("2", "relu-1", 4, 4 * WIDTH, 4 * WIDTH), rowwise("relu-2", "linear-2", 16 * WIDTH, relu),
            *last("relu-2", 4, 4 * WIDTH)],
    "transformer": [embedding(TOKENS), layer_norm("1", "embedding"),
                    *(linear(name, "layer-norm-1", TOKENS, WIDTH, WIDTH) for name in ("query", "key", "value")),
                    Stage("attention-scores", ("linear-query", "linear-key"), (0, 0), TOKENS**2 * (WIDTH + 1), scores),
                    rowwise("softmax", "attention-scores", TOKENS * (5 * TOKENS - 2), softmax),
                    Stage("attention-values", ("softmax", "linear-value"), (0, 0), TOKENS**2 * WIDTH, mixed),
                    linear("projection", "attention-values", TOKENS, WIDTH, WIDTH),
                    residual("1", "embedding", "linear-projection"), layer_norm("2", "residual-1"),
                    linear("1", "layer-norm-2", TOKENS, WIDTH, 4 * WIDTH),
                    rowwise("gelu", "linear-1", TOKENS * 4 * WIDTH * 5, gelu),
                    linear("2", "gelu", TOKENS, 4 * WIDTH, WIDTH), residual("2", "residual-1", "linear-2"),
                    *last("residual-2", TOKENS, WIDTH)],
}


@functools.lru_cache(512)
def tensor(model: str, precisions: tuple[Precision, ...], seed: int, samples: range) -> Array:
    """What the last of so many stages gives, each in its precision."""
    stages = MODELS[model]
    stage, m = stages[len(precisions) - 1], Arithmetic(*precisions[-1])
    first = sum(s.weights[0] for s in stages[:len(precisions) - 1])
    names = [s.name for s in stages]
    read = [tensor(model, precisions[:names.index(name) + 1], seed, samples) for name in stage.reads]
    if stage.weights[0]:
        fan_in = 1 if stage.name == "embedding" else stage.weights[1]
        read = [weights(seed, samples, first, *stage.weights, fan_in), *read]
    with np.errstate(all="ignore"):
        return m.leave(stage.run(m, *(m.enter(x) for x in read)))


def error(model: str, precisions: tuple[Precision, ...], seed: int, samples: range) -> float:
    """Relative error of the outputs, the largest over the samples."""
    exact = tensor(model, ((None, None),) * len(precisions), seed, samples)
    result = tensor(model, precisions, seed, samples)
    if not np.isfinite(result).all():
        return math.inf
    return float(np.sqrt((((result - exact) ** 2).sum((0, 1)) / (exact**2).sum((0, 1))).max()))
