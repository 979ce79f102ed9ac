"""How the trainings of one variant stand to those of another: differences, how sure they are, and verdicts."""
from __future__ import annotations

import functools
import math

import numpy as np
from checks import Near, Row, real
from numpy.typing import NDArray

Doubles = NDArray[np.float64]


@functools.cache
def student_975(degrees: float) -> float:
    """The 97.5 % quantile of Student's t: bisection of the density's integral by Gauss and Legendre's rule."""
    nodes, weights = np.polynomial.legendre.leggauss(60)  # type: ignore[no-untyped-call]
    scale = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)) / math.sqrt(degrees * math.pi)
    low, high = 0.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        t = (nodes + 1) * middle / 2
        inside = scale * middle / 2 * float((weights * (1 + t * t / degrees) ** (-(degrees + 1) / 2)).sum())
        low, high = (middle, high) if inside < 0.475 else (low, middle)
    return low


def doubt(of: Doubles, than: Doubles) -> float:
    """Half a 95 % confidence interval of the mean of of - than, seeds by examples, both of which are samples.

    Crossed random effects (Searle, Casella & McCulloch 1992, section 4.5), Satterthwaite's degrees of freedom.
    """
    d = of - than
    m, n = d.shape
    by_seed, by_example = d.mean(1) - d.mean(), d.mean(0) - d.mean()
    rest = d - d.mean() - by_seed[:, None] - by_example
    of_seeds = float((by_seed**2).sum()) / max(1, m - 1) / m
    of_examples = float((by_example**2).sum()) / (n - 1) / n
    both = float((rest**2).sum()) / max(1, (m - 1) * (n - 1)) / m / n
    variance = max(of_seeds, of_examples, of_seeds + of_examples - both)
    if not variance > 0:
        return variance
    degrees = (of_seeds + of_examples) ** 2 / (of_seeds**2 / max(1, m - 1) + of_examples**2 / (n - 1))
    return student_975(degrees) * math.sqrt(variance)


def as_reported(value: float) -> Near:
    """A doubt; reports round them to seven digits."""
    return Near(value, 1e-9, 0.51e-7)


def means(runs: list[Row], than: list[Row]) -> Row:
    """Rows of the table runs, a seed each: accuracy and loss, and their differences."""
    def mean(of: list[float]) -> float:
        return sum(of) / len(of) if of else math.nan

    losses, others = ([real(r["test_loss"]) for r in of] for of in (runs, than))
    accuracies, references = ([r["test_accuracy"] for r in of] for of in (runs, than))
    finished = [loss for loss, r in zip(losses, runs) if r["failed_at"] is None]
    return {"accuracy": Near(mean(accuracies), 1e-12), "test_loss": Near(mean(finished), 1e-12),
            "to_fp32": Near(mean(accuracies) - mean(references), 1e-12, 1e-12),
            "loss_to_fp32": Near(mean([a - b for a, b in zip(losses, others)]), 1e-12, 1e-12)}


def exploded(runs: list[Row], than: list[Row]) -> bool:
    """Whether every seed's loss is more than ten times as large; a failed training's is none."""
    if failed(runs):
        return False
    return all(real(a["test_loss"]) > 10 * real(b["test_loss"]) for a, b in zip(runs, than))


def failed(runs: list[Row]) -> bool:
    return any(r["failed_at"] is not None for r in runs)


def verdict(runs: list[Row], than: list[Row], difference: float, doubt: float, margin: float,
            worse: str = "below") -> str:
    """Of accuracies, or of losses, where more is worse."""
    if failed(runs):
        return "failed"
    if math.isnan(difference):  # weights that are no numbers have such a loss; a reference that failed judges nothing
        return "cannot tell" if failed(than) else "failed"
    above = difference if worse == "below" else -difference
    if above - doubt >= -margin:
        return "within"
    return worse if above < -doubt else "cannot tell"
