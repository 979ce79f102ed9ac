"""grad_scaler: the same regressions in NumPy's float16 and float32, GradScaler's rule written out, closed forms."""
from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from checks import Columns, Near, Report, Row

columns = Columns()
FIRST = 65536.0
H = np.array([[(-1.0) ** bin(i & j).count("1") for j in range(16)] for i in range(16)], np.float32)
PLANTED = ((), (1,), (0,), (0, 1), ())  # networks with an Inf, by step
columns.given("several", "step")
columns.given("clipping", "k")
columns.given("accumulation", "micro_batches")
columns.given("resuming_course", "step")


def half(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        return x.astype(np.float16).astype(np.float32)


@columns.recompute("several", "scale scale_after part_0 part_1", "GradScaler's rule by hand")
def several(_: Report, row: Row) -> Row:
    before, after = FIRST, FIRST
    for infinite in PLANTED[:row["step"]]:
        before = after
        after /= 2 ** len(infinite) if "update after" in row["way"] else 2 if infinite else 1
    infinite = PLANTED[row["step"] - 1]
    second = 2.0 if 0 in infinite and "update after" in row["way"] else 1 / before if "not scaled" in row["way"] else 1.0
    return {"scale": before, "scale_after": after, "part_0": None if 0 in infinite else 1.0,
            "part_1": None if 1 in infinite else Near(second, 2e-5)}


@columns.recompute("clipping", "norm coefficient clipped to_fp32 first_loss last_loss fp32_loss",
                   "closed forms: steps of max_norm, or of max_norm / scale, towards the solution")
def clipping(report: Report, row: Row) -> Row:
    most, scale = report.config["max_norm"], 2.0 ** row["k"]
    by = scale if row["when"] == "before" else 1.0
    way = report.config["steps"] * report.config["learning_rate"] * most
    return {"norm": 0.25 * by, "coefficient": Near(most / (0.25 * by), 5e-6), "clipped": Near(most / by, 5e-6),
            "to_fp32": Near(1 / by, 5e-6), "first_loss": 0.03125,
            "last_loss": Near((0.25 - way / by) ** 2 / 2, 1e-3), "fp32_loss": Near((0.25 - way) ** 2 / 2, 1e-4)}


@columns.recompute("accumulation", "part scale scale_after", "fractions by hand")
def accumulation(_: Report, row: Row) -> Row:
    n, way = row["micro_batches"], row["way"]
    part: float | None = 1.0
    after = FIRST
    if "Inf" in way:
        part, after = None, FIRST / 2
    elif "unscaled after" in way:
        part = sum(FIRST ** -i for i in range(n)) / n
    elif "doubled" in way and n > 1:
        part, after = 0.75, 2 * FIRST
    elif "not divided" in way:
        part = float(n)
    return {"part": None if part is None else Near(part, 3e-10), "scale": FIRST, "scale_after": after}


@dataclass
class Stretch:
    weights: np.ndarray
    losses: list[float]
    scales: list[float]
    skipped: int
    scale: float
    last: float


@functools.cache
def solution(largest: float) -> np.ndarray:
    return np.array([largest * (16 - j) / 16 for j in range(16)], np.float32)


def errors(weights: np.ndarray, t: np.ndarray, amp: bool) -> np.ndarray:
    prediction = np.zeros(16, np.float32)
    target = np.zeros(16, np.float32)
    rounded = half(weights) if amp else weights
    for j in range(16):  # in FP32, one after the other
        prediction += H[:, j] * rounded[j]
        target += H[:, j] * t[j]
    return (half(prediction) if amp else prediction) - target


def loss(e: np.ndarray) -> float:
    return float((e.astype(np.float64) ** 2).sum() / 32)


def stretch(t: np.ndarray, weights: np.ndarray, amp: bool, scale: float, steps: int, rate: float) -> Stretch:
    w, losses, scales, skipped = weights.copy(), [], [], 0
    for _ in range(steps):
        e = errors(w, t, amp)
        losses.append(loss(e))
        scales.append(scale)
        sent = np.float32(scale) * (e / np.float32(16))
        sent = half(sent) if amp else sent
        g = np.zeros(16, np.float32)
        with np.errstate(invalid="ignore"):
            for i in range(16):
                g += H[i] * sent[i]
        g = half(g) if amp else g
        if not np.isfinite(g).all():
            skipped, scale = skipped + 1, scale / 2
            continue
        w -= np.float32(rate) * (g * np.float32(1 / scale))
    return Stretch(w, losses, scales, skipped, scale, loss(errors(w, t, amp)))


@functools.cache
def resumed(before: bool, after: bool, restored: bool, largest: float, steps: int, rate: float
            ) -> tuple[Stretch, Stretch, Stretch]:
    """The first run, the resumed one, and the first one going on."""
    t = solution(largest)
    first = stretch(t, np.zeros(16, np.float32), before, FIRST if before else 1.0, steps, rate)
    scale = (first.scale if restored else FIRST) if after else 1.0
    return (first, stretch(t, first.weights, after, scale, steps, rate),
            stretch(t, first.weights, before, first.scale, steps, rate))


def of(report: Report, start: str, end: str, scaler: str) -> tuple[Stretch, Stretch, Stretch]:
    c = report.config
    return resumed(start == "amp", end == "amp", scaler == "restored", c["largest"], c["steps"], c["learning_rate"])


@columns.recompute("resuming", "loss_before loss_after scale_before scale_after skipped last_scale last_loss uninterrupted",
                   "the same trainings in NumPy")
def resuming(report: Report, row: Row) -> Row:
    first, second, whole = of(report, row["from"], row["to"], row["scaler"])
    return {"loss_before": Near(first.last, 1e-12), "loss_after": Near(second.losses[0], 1e-12),
            "scale_before": first.scale, "scale_after": second.scales[0], "skipped": second.skipped,
            "last_scale": second.scale, "last_loss": Near(second.last, 1e-12), "uninterrupted": Near(whole.last, 1e-12)}


@columns.recompute("resuming_course", "loss scale", "the same trainings in NumPy")
def course(report: Report, row: Row) -> Row:
    words = row["way"].replace(",", "").split()
    first, second, _ = of(report, words[0], words[2], words[3])
    steps = report.config["steps"]
    part, i = (first, row["step"]) if row["step"] < steps else (second, row["step"] - steps)
    return {"loss": Near(part.losses[i], 1e-12), "scale": part.scales[i]}
