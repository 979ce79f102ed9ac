"""halfulp's perceptron in NumPy: what trainings of `mlp` must come to, but for the order in which sums add.

Forward pass, cross-entropy, gradients and Adam are written out from their textbook formulas, in float32 with roundings
to FP16 and BF16 where a policy has them. Images, first values and the order of examples are the trainings': files of
Fashion-MNIST, Philox by the parameter's name and by the epoch.
"""
from __future__ import annotations

import functools
import gzip
import math
import pathlib
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import streams
from numpy.typing import NDArray
from precision import Floats, Precision, Tally, narrow

Labels = NDArray[np.int64]
Values = dict[str, Floats]
FOLDER = pathlib.Path("/usr/share/datasets/fashion-mnist")
ALL_CLASSES = tuple(range(10))
EXACT = 1e-5  # relative, of trainings in FP32
SMALL_STEPS = 5e-4  # the same with learning rates below 5e-4: units near zero stay there, and turn either way
EARLY = 48  # narrow formats are compared up to here: a rounding that goes the other way spreads from step to step


@functools.cache
def read(name: str) -> NDArray[np.uint8]:
    """An IDX file: four bytes, of which the last counts the dimensions, the dimensions, the bytes."""
    data = gzip.decompress((FOLDER / f"{name}.gz").read_bytes())
    shape = [int.from_bytes(data[at:at + 4], "big") for at in range(4, 4 + 4 * data[3], 4)]
    return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(shape)


@functools.cache
def images(part: str, count: int, classes: tuple[int, ...]) -> tuple[Floats, Labels]:
    """The first images of these classes, and their labels. part: train or t10k."""
    labels = read(f"{part}-labels-idx1-ubyte")
    which = np.flatnonzero(np.isin(labels, classes))[:count]
    pixels = read(f"{part}-images-idx3-ubyte").reshape(len(labels), -1)[which]
    return pixels.astype(np.float32) / np.float32(255), labels[which].astype(np.int64)


@dataclass(frozen=True)
class Training:
    """What a training is; hashable, so that each is computed once."""

    seed: int
    steps: int = 186
    interval: int = 24  # roundings are counted in the first step and in the last one of each
    test_every: int = 2  # intervals
    lr: float = 1e-3
    beta2: float = 0.999
    eps: float = 1e-8
    decay: float = 0.0  # AdamW's
    sgd: bool = False  # without momentum, instead of Adam
    classes: tuple[int, ...] = ALL_CLASSES
    start: Training | None = None  # begins with what this one learned
    until: int = 10**9  # later steps are not computed
    precision: Precision = Precision()
    batch: int = 64
    train: int = 6000
    test: int = 2000

    def counts(self, step: int) -> bool:
        return step == 1 or step == self.steps or step % self.interval == 0

    def tests(self, step: int) -> bool:
        return step == self.steps or step % (self.interval * self.test_every) == 0


class Test(NamedTuple):
    """Means, and example by example: right answers as 1, wrong ones as 0, losses."""

    loss: float
    accuracy: float
    right: NDArray[np.float64]
    losses: NDArray[np.float64]


def failed_test(count: int) -> Test:
    return Test(math.nan, 0.0, np.zeros(count), np.full(count, math.nan))


@dataclass
class Update:
    """What one step did to one parameter: counts, and norms of weight, gradient and update."""

    zeros: int
    with_update: int
    swamped: int
    second_underflowed: int
    zero_denominators: int
    norms: tuple[float, float, float]


@dataclass
class Counted:
    """One step that was counted."""

    tallies: dict[tuple[str, str], Tally] = field(default_factory=dict)  # by tensor and role
    updates: dict[str, Update] = field(default_factory=dict)  # by parameter; empty where the step was left out
    gradients: dict[tuple[str, str], Floats] = field(default_factory=dict)  # of activations; of weights: communication


@dataclass
class Course:
    losses: list[float] = field(default_factory=list)  # step by step
    norms: list[float] = field(default_factory=list)
    scales: list[float] = field(default_factory=list)  # after the step
    skipped: list[int] = field(default_factory=list)  # steps, from 1
    counted: dict[int, Counted] = field(default_factory=dict)
    tests: dict[int, Test] = field(default_factory=dict)  # after a step
    begun: Values = field(default_factory=dict)  # as rounded
    values: Values = field(default_factory=dict)  # at the end
    failed: bool = False  # ended with Inf or NaN in a parameter


class Rounder:
    """Rounds tensors, and counts what that does in counted steps."""

    def __init__(self, counted: Counted | None) -> None:
        self.counted = counted

    def __call__(self, x: Floats, name: str, tensor: str, role: str) -> Floats:
        after = narrow(x, name)
        if self.counted and not (name == "fp32" and role.endswith("operand")):
            self.counted.tallies.setdefault((tensor, role), Tally()).add(x, after, name)
            if role in ("gradient-of-activation", "communication"):
                self.counted.gradients[tensor, role] = after
        return after


def first_values(seed: int) -> Values:
    """Uniform within 1 / sqrt(inputs), as PyTorch has it."""
    shapes = {"fc1.weight": (256, 784), "fc1.bias": (256,), "fc2.weight": (10, 256), "fc2.bias": (10,)}
    half_width = {"fc1": 1 / np.sqrt(784), "fc2": 1 / np.sqrt(256)}
    return {name: (half_width[name[:3]]
                   * (2 * streams.uniform(seed, streams.stream_of(name), np.arange(np.prod(shape))) - 1)
                   ).astype(np.float32).reshape(shape) for name, shape in shapes.items()}


def batch_of(of: Training, step: int) -> tuple[Floats, Labels]:
    """The examples of a step, from 0: every epoch has its own order, and drops what fills no batch."""
    pixels, labels = images("train", of.train, of.classes)
    epoch, place = divmod(step, len(labels) // of.batch)
    order = streams.shuffled(len(labels), of.seed, streams.stream_of("order", epoch))
    chosen = order[place * of.batch:(place + 1) * of.batch]
    return pixels[chosen], labels[chosen]


def product(x: Floats, weight: Floats) -> Floats:
    """x W^T. einsum is quicker than a BLAS without vectors, which NumPy may have been built with."""
    result: Floats = np.einsum("ij,kj->ik", x, weight)
    return result


def linear(name: str, values: Values, x: Floats, p: Precision, rounder: Rounder) -> Floats:
    operand = rounder(x, p.operands, name, "activation, operand")
    weight = rounder(values[f"{name}.weight"], p.operands, name, "weight, operand")
    return rounder(product(operand, weight) + values[f"{name}.bias"], p.activation, name, "activation")


def forward(values: Values, x: Floats, labels: Labels, p: Precision, rounder: Rounder
            ) -> tuple[Floats, Floats, Floats, Floats, float]:
    """Hidden units before and after max(0, x), logits, logarithms of probabilities, loss."""
    hidden = linear("fc1", values, x, p, rounder)
    active = rounder(np.maximum(hidden, 0), p.activation, "relu1", "activation")
    logits = linear("fc2", values, active, p, rounder)
    shifted = logits - logits.max(1, keepdims=True)
    logs = rounder(shifted - np.log(np.exp(shifted).sum(1, keepdims=True)), p.loss, "loss", "activation")
    loss = -logs[np.arange(len(labels)), labels].mean(keepdims=True)
    return hidden, active, logits, logs, float(rounder(loss, p.loss, "loss", "activation")[0])


def backward(values: Values, x: Floats, labels: Labels, p: Precision, scale: float, rounder: Rounder
             ) -> tuple[float, Values]:
    """The loss, and the gradients of the parameters times the scale."""
    hidden, active, _, logs, loss = forward(values, x, labels, p, rounder)
    d = (np.exp(logs) - np.eye(10, dtype=np.float32)[labels]) * (np.float32(scale) / np.float32(len(labels)))
    d = rounder(d, p.loss_gradient, "loss", "gradient-of-activation")
    gradients = {}
    for name, inputs in (("fc2", active), ("fc1", x)):
        operand = rounder(d, p.operands, name, "gradient-of-activation, operand")
        inputs = rounder(inputs, p.operands, name, "activation, operand")
        gradients[f"{name}.weight"] = rounder(np.einsum("ij,ik->jk", operand, inputs), p.weight_gradient, name,
                                              "gradient-of-weight")
        gradients[f"{name}.bias"] = rounder(d.sum(0), p.weight_gradient, f"{name}.bias", "gradient-of-weight")
        if name == "fc2":
            operand = rounder(d, p.operands, name, "gradient-of-activation, operand")
            weight = rounder(values["fc2.weight"], p.operands, name, "weight, operand")
            d = rounder(np.einsum("ij,jk->ik", operand, weight), p.gradient, name, "gradient-of-activation")
            d = rounder(np.where(hidden > 0, d, np.float32(0)), p.gradient, "relu1", "gradient-of-activation")
    return loss, {name: rounder(gradients[name], p.communication, name, "communication") for name in values}


def tested(values: Values, p: Precision, count: int, classes: tuple[int, ...]) -> Test:
    """On the first test images of these classes, 500 at once, of which the mean loss is rounded too."""
    x, labels = images("t10k", count, classes)
    right, losses, loss = np.zeros(len(labels)), np.zeros(len(labels)), 0.0
    for at in range(0, len(labels), 500):
        part = labels[at:at + 500]
        _, _, logits, logs, mean = forward(values, x[at:at + 500], part, p, Rounder(None))
        loss += mean * len(part)
        right[at:at + 500] = logits.argmax(1) == part
        losses[at:at + 500] = -logs[np.arange(len(part)), part]
    return Test(loss / len(labels), float(right.mean()), right, losses)


def norm(values: Floats) -> float:
    flat = values.ravel()
    return float(np.sqrt(np.einsum("i,i", flat, flat, dtype=np.float64)))


class Optimizer:
    """Adam (Kingma & Ba 2015) with AdamW's decay, or SGD. Operations in the order of torch.optim; each of Adam's rounds
    to `arithmetic`."""

    def __init__(self, of: Training, values: Values) -> None:
        self.of, self.steps, self.values = of, 0, values
        self.targets = dict(values) if of.precision.master else values
        self.first = {name: np.zeros_like(value) for name, value in values.items()}
        self.second = {name: np.zeros_like(value) for name, value in values.items()}
        for name, value in values.items():
            values[name] = narrow(value, of.precision.weights)

    def step(self, gradients: Values, counted: Counted | None) -> None:
        of, p = self.of, self.of.precision
        self.steps += 1
        size, root = of.lr / (1 - 0.9**self.steps), np.float32(math.sqrt(1 - of.beta2**self.steps))
        for name, g in gradients.items():
            m, v, target = self.first[name], self.second[name], self.targets[name]
            if of.sgd:
                self.take(name, g, np.float32(-of.lr) * g, counted)
                continue
            m = narrow(m + np.float32(1 - 0.9) * (g - m), p.arithmetic)
            v = narrow(v * np.float32(of.beta2), p.arithmetic)
            v = narrow(v + np.float32(1 - of.beta2) * g * g, p.arithmetic)
            below = narrow(narrow(np.sqrt(v), p.arithmetic) / root, p.arithmetic)
            below = narrow(below + np.float32(of.eps), p.arithmetic)
            update = np.float32(-size) * m / below
            if of.decay:
                after = narrow(target * np.float32(1 - of.lr * of.decay), p.arithmetic) + update
            else:
                after = target + update
            self.first[name], self.second[name] = narrow(m, p.first), narrow(v, p.second)
            after = self.store(name, after)
            if counted:
                moved = update - np.float32(of.lr * of.decay) * target if of.decay else update
                counted.updates[name] = Update(
                    int((g == 0).sum()), int((moved != 0).sum()), int(((moved != 0) & (target == after)).sum()),
                    int(((g != 0) & (self.second[name] == 0)).sum()), int((below == 0).sum()),
                    (norm(self.values[name]), norm(g), norm(moved)))

    def store(self, name: str, after: Floats) -> Floats:
        self.values[name] = narrow(after, self.of.precision.weights)
        self.targets[name] = after if self.of.precision.master else self.values[name]
        return self.targets[name]

    def take(self, name: str, g: Floats, update: Floats, counted: Counted | None) -> None:
        """Adds an update without moments."""
        before = self.targets[name]
        after = self.store(name, before + update)
        if counted:
            counted.updates[name] = Update(
                int((g == 0).sum()), int((update != 0).sum()), int(((update != 0) & (before == after)).sum()), 0, 0,
                (norm(self.values[name]), norm(g), norm(update)))


@functools.cache
def course(of: Training) -> Course:
    """The whole training. The loss scale halves after Inf and NaN, and doubles after so many steps without."""
    values = dict(course(of.start).values if of.start else first_values(of.seed))
    result, p, scale, good = Course(values=values), of.precision, of.precision.scale, 0
    with np.errstate(all="ignore"):
        optimizer = Optimizer(of, values)
        result.begun = dict(values)
        for step in range(1, min(of.steps, of.until) + 1):
            counted = result.counted.setdefault(step, Counted()) if of.counts(step) else None
            loss, gradients = backward(values, *batch_of(of, step - 1), p, scale, Rounder(counted))
            finite = all(np.isfinite(g).all() for g in gradients.values())
            if scale != 1:
                gradients = {name: g * np.float32(1 / scale) for name, g in gradients.items()}
            result.losses.append(loss)
            result.norms.append(math.sqrt(sum(norm(g) ** 2 for g in gradients.values())))
            if finite or not p.skip:
                optimizer.step(gradients, counted)
            else:
                result.skipped.append(step)
            good = good + 1 if finite else 0
            if p.interval and not finite:
                scale /= 2
            elif p.interval and good == p.interval:
                scale, good = scale * 2, 0
            result.scales.append(scale)
            result.failed = not all(np.isfinite(value).all() for value in values.values())
            if result.failed:
                result.tests[step] = failed_test(of.test)
                break
            if of.tests(step):
                result.tests[step] = tested(values, p, of.test, of.classes)
    return result


def spikes(of: Course, kind: str) -> list[tuple[int, float, float]]:
    """Steps, values and running means of spikes: a loss above 1.25 times its mean plus 0.25, a norm above 4 times it.

    The mean moves a twentieth of the way to each finite value that is no spike; the first twenty values are none.
    """
    found, mean, seen = [], 0.0, 0
    for step, value in enumerate(of.losses if kind == "loss" else of.norms, 1):
        if not math.isfinite(value):
            continue
        if seen >= 20 and value > (1.25 * mean + 0.25 if kind == "loss" else 4 * mean):
            found.append((step, value, mean))
            continue
        mean, seen = (mean + (value - mean) / 20 if seen else value), seen + 1
    return found


def swamped(of: Course) -> tuple[int, int]:
    """Of the counted updates other than zero those that changed nothing, and all."""
    updates = [update for step in of.counted.values() for update in step.updates.values()]
    return sum(update.swamped for update in updates), sum(update.with_update for update in updates)


def tolerance(of: Training, step: int) -> float:
    """How near, relatively, a training here comes to that of halfulp by this step."""
    if of.precision.is_fp32():
        return EXACT if of.lr >= 5e-4 else SMALL_STEPS
    return 4e-3 if step <= EARLY / 2 or of.lr < 1e-4 else 1e-2


def reliable(of: Training, step: int) -> bool:
    """Whether it was computed, and comes as near as tolerance() says."""
    return step <= of.until and (of.precision.is_fp32() and not of.sgd or of.lr < 1e-4 or step <= EARLY)
