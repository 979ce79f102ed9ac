"""recurrent: cells in NumPy from their definitions, every rounding by looking for neighbours."""
from __future__ import annotations

import functools
from typing import Any

import naive
import numpy as np
import streams
from checks import Columns, Near, Report, Row

columns = Columns()
columns.given("forward", "steps")
columns.given("gradient", "distance")
columns.given("memory", "increments")
REFLECTIONS, INPUT_WEIGHTS, SEQUENCES = 1, 2, 3  # streams
GATES = {"rnn": 1, "gru": 3, "lstm": 4}
Array = Any
Key = tuple[str, int, int, int, float, float, int, int]


def single(x: Array) -> Array:
    return np.asarray(x, np.float32).astype(np.float64)


def key(report: Report, cell: str) -> Key:
    c = report.config
    return (cell, c["width"], c["inputs"], c["sequences"], c["radius"], c["forget_bias"], c["seed"], max(c["steps"]))


@functools.cache
def problem(of: Key) -> tuple[Array, Array, Array, Array]:
    """Recurrent matrices (gates, width, width), input matrices, biases, and inputs (steps, sequences, inputs)."""
    cell, width, inputs, sequences, radius, forget, seed, steps = of
    if cell == "identity":
        return single([[[radius]]]), np.zeros((1, 1, 1)), np.zeros((1, 1)), np.zeros((steps, 1, 1))
    gates = GATES[cell]
    normal = streams.normal(seed, REFLECTIONS, np.arange(gates * width * width)).reshape(gates, width, width)
    hidden = []
    for directions in normal:
        q = np.eye(width)
        for v in directions:
            q = q @ (np.eye(width) - 2 * np.outer(v, v) / (v @ v))
        hidden.append(q * radius)
    taken = streams.normal(seed, INPUT_WEIGHTS, np.arange(gates * width * inputs)) / np.sqrt(inputs)
    bias = np.zeros((gates, width))
    if cell != "rnn":
        bias[1] = single(forget)
    x = [streams.normal(seed, SEQUENCES + s, np.arange(steps * inputs)).reshape(steps, inputs)
         for s in range(sequences)]
    return single(hidden), single(taken).reshape(gates, width, inputs), bias, single(np.stack(x, axis=1))


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


class Operations:
    """Operations whose results are rounded to a format; "fp64": not at all."""

    def __init__(self, name: str) -> None:
        self.name = name

    def round(self, x: Array) -> Array:
        if self.name == "fp64":
            return np.asarray(x, np.float64)
        return single(x) if self.name == "fp32" else naive.rounded(x, self.name)

    def product(self, matrix: Array, x: Array) -> Array:
        """matrix (rows, n) times x (sequences, n), term after term."""
        terms = self.round(matrix[None] * x[:, None])
        total = terms[..., 0]
        for j in range(1, terms.shape[-1]):
            total = self.round(total + terms[..., j])
        return total


def states(of: Key, name: str, rounded: str) -> tuple[Array, Array | None]:
    """h and c after each step: (steps, sequences, width)."""
    cell = of[0]
    hidden, taken, bias, x = problem(of)
    gate_format = name if rounded in ("gates", "all") else "fp32"
    update_format, state_format = (name if rounded == "all" else "fp32"), (name if rounded == "state" else "fp32")
    if name == "fp64":
        gate_format = update_format = state_format = name
    g, u, store = Operations(gate_format), Operations(update_format), Operations(state_format).round
    hidden, taken, bias, x = g.round(hidden), g.round(taken), g.round(bias), g.round(x)
    h = np.zeros((x.shape[1], hidden.shape[1]))
    c = np.zeros_like(h)
    all_h, all_c = [], []
    for at in x:
        a = [g.round(g.product(w, at) + b) for w, b in zip(taken, bias)]
        low = g.round(h)
        b = [g.product(w, low) for w in hidden]

        def gate(k: int, function: Any) -> Array:
            return g.round(function(g.round(a[k] + b[k])))

        def blend(keep: Array, before: Array, take: Array, news: Array) -> Array:
            return store(u.round(u.round(keep * u.round(before)) + u.round(take * news)))

        if cell in ("rnn", "identity"):
            h = store(gate(0, np.tanh))
        elif cell == "gru":
            reset, keep = gate(0, sigmoid), gate(1, sigmoid)
            news = g.round(np.tanh(g.round(a[2] + g.round(reset * b[2]))))
            h = blend(keep, h, g.round(1 - keep), news)
        else:
            take, keep, news, shown = (gate(k, f) for k, f in enumerate((sigmoid, sigmoid, np.tanh, sigmoid)))
            c = blend(keep, c, take, news)
            h = store(g.round(shown * g.round(np.tanh(g.round(c)))))
        all_h.append(h)
        all_c.append(c)
    return np.stack(all_h), np.stack(all_c) if cell == "lstm" else None


@functools.cache
def errors(of: Key, name: str, rounded: str) -> tuple[Array, Array | None]:
    def relative(a: Array, b: Array) -> Array:
        return np.sqrt(((a - b) ** 2).sum((1, 2)) / (b**2).sum((1, 2)))

    (h, c), (exact_h, exact_c) = states(of, name, rounded), states(of, "fp64", "nothing")
    return relative(h, exact_h), relative(c, exact_c) if c is not None else None


@columns.recompute("forward", "error cell_error growth", "NumPy, every operation rounded by itself")
def forward(report: Report, row: Row) -> Row:
    h, c = errors(key(report, row["cell"]), row["format"], row["rounded"])
    # tanh and sigmoid of NumPy's differ in the last place of a double, which seldom rounds to another FP32 number.
    near = 5e-3 if row["format"] == "fp32" else 1e-3
    at = row["steps"] - 1
    carried = h if c is None else c
    found = {"error": Near(h[at], near), "growth": Near(carried[at] / carried[0], near)}
    return found | {"cell_error": Near(c[at], near) if c is not None else None}


def back(of: Key, name: str) -> Array:
    """Gradients of the sum of the last h by the carried state: (distance, sequences, width), reverse mode by hand."""
    cell = of[0]
    hidden, taken, bias, x = problem(of)
    h, c = states(of, "fp64", "nothing")
    steps = len(x)
    kept = Operations(name).round
    dtype = np.float64 if name == "fp64" else np.float32
    zero = np.zeros_like(h[:1])
    before = np.concatenate([zero, h])[:steps]
    dh = np.ones_like(h[0])
    dc = np.zeros_like(dh)
    found = []
    cells_before = np.concatenate([zero, c])[:steps] if c is not None else None

    def low(v: Array) -> Array:
        return np.asarray(v, dtype).astype(np.float64)

    for t in range(steps, -1, -1):
        dh = kept(low(dh))
        if t > 0:
            a = [x[t - 1] @ w.T + b for w, b in zip(taken, bias)]
            b = [before[t - 1] @ w.T for w in hidden]
        if c is not None:
            if t > 0:
                shown, bent = sigmoid(a[3] + b[3]), np.tanh(c[t - 1])
                slope = 1 - bent**2 if name == "fp64" else single(1 - single(single(bent) ** 2))  # 0 where tanh is 1
                dc = dc + dh * shown * slope
            dc = kept(low(dc))
        found.append(dc if c is not None else dh)
        if t == 0:
            return np.stack(found)
        if cell in ("rnn", "identity"):
            dh = (dh * (1 - h[t - 1] ** 2)) @ hidden[0]
        elif cell == "gru":
            reset, keep = sigmoid(a[0] + b[0]), sigmoid(a[1] + b[1])
            news = np.tanh(a[2] + reset * b[2])
            dn = dh * (1 - keep) * (1 - news**2)
            by = (dn * b[2] * reset * (1 - reset), dh * (before[t - 1] - news) * keep * (1 - keep), dn * reset)
            dh = dh * keep + sum(d @ w for d, w in zip(by, hidden))
        else:
            take, keep, news = sigmoid(a[0] + b[0]), sigmoid(a[1] + b[1]), np.tanh(a[2] + b[2])
            by = (dc * news * take * (1 - take), dc * cells_before[t - 1] * keep * (1 - keep),
                  dc * take * (1 - news**2), dh * bent * shown * (1 - shown))
            dh, dc = sum(d @ w for d, w in zip(by, hidden)), dc * keep
    raise AssertionError


@functools.cache
def gradients(of: Key, name: str) -> Array:
    return back(of, name)


@columns.recompute("gradient", "norm below", "the backward pass, written out in NumPy, in double")
def exact_gradient(report: Report, row: Row) -> Row:
    g = gradients(key(report, row["cell"]), "fp64")[row["distance"]]
    smallest = 2.0**-149 if row["format"] == "fp32" else naive.values(row["format"])[1]
    return {"norm": Near(np.sqrt((g**2).sum() / len(g)), 1e-9),
            "below": Near(float(((g != 0) & (np.abs(g) < smallest)).mean()), 1e-12)}


@columns.recompute("gradient", "rounded_norm lost", "the same, rounded after each step")
def rounded_gradient(report: Report, row: Row) -> Row | None:
    g = gradients(key(report, row["cell"]), row["format"])[row["distance"]]
    exact = gradients(key(report, row["cell"]), "fp64")[row["distance"]]
    # Products here are double's, not FP32's: where a sum is near a tie the next digit differs, and goes on to do so.
    far = row["distance"] > 16 and row["cell"] != "identity"
    if far and naive.precision(row["format"]) < 8:
        return None
    found: Row = {"lost": Near(float(((exact != 0) & (g == 0)).mean()), 1e-12)} if not far else {}
    return found | {"rounded_norm": Near(np.sqrt((g**2).sum() / len(g)), 5e-3 if far else 1e-3, 0.0)}


@columns.recompute("memory", "exact cell_state stopped_at", "sums of halves, one after another")
def memory(report: Report, row: Row) -> Row:
    name = row["format"] if row["state"] == "format" else "fp32"
    c, last = 0.0, 0
    for step in range(1, row["increments"] + 1):
        after = float(single(c + 0.5)) if name == "fp32" else float(naive.rounded(c + 0.5, name))
        c, last = after, step if after != c else last
    return {"exact": row["increments"] / 2, "cell_state": c,
            "stopped_at": last if last < row["increments"] else None}
