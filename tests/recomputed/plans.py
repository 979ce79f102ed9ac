"""What was asked of a training, its rows in the shared tables, and what follows from them."""
from __future__ import annotations

import functools
import json
import math
from dataclasses import dataclass
from typing import Any

from checks import Report, Row
from shapes import is_text

Key = tuple[str, str, int]  # variant, network, seed
SHOWN_EVENTS, SHOWN_SPIKES = 200, 50  # of a training, at most


@dataclass(frozen=True)
class Plan:
    """What was asked of a training."""

    steps: int
    interval: int  # of the curve
    learning_rate: float
    test_every: int = 2  # intervals
    scale: float = 1.0  # of the loss, at first
    growth: int = 0  # updates until it grows; 0: it is static
    skip: bool = True
    abnormal: float = 0.0  # a step is left out if its norm is so many times the usual; 0: none
    straight_through: bool = False  # operands are rounded forward, and taken from there backward
    batch: int = 0  # examples a step; 0: the configuration's
    usual_shape: bool = True  # of the network
    clips: bool = False  # gradients


def steps_per_epoch(report: Report) -> int:
    """Of the preset small: 6000 images, 64 a step."""
    return (report.config["train_examples"] or 6000) // (report.config["batch"] or 64)


def usual_plan(report: Report, network: str, **changes: Any) -> Plan:
    """Two epochs of images at 0.001 or 100 steps of text at 0.003, in `intervals` of equal length but for the last."""
    config = report.config
    steps = changes.get("steps") or config["steps"] or (100 if is_text(network) else 2 * steps_per_epoch(report))
    intervals, usual_rate = config["intervals"], 0.003 if is_text(network) else 1e-3
    return Plan(**{"steps": steps, "interval": math.ceil(steps / intervals),
                   "learning_rate": config["lr"] or usual_rate, "test_every": math.ceil(intervals / 4), "abnormal": config["skip_abnormal"], **changes})


def scaling_of(policy: str) -> dict[str, Any]:
    """What a policy's JSON says of loss scaling, as a plan has it."""
    scaling = json.loads(policy).get("loss_scaling") or {"scale": 1.0, "kind": "static", "skip": True}
    growth = scaling.get("interval", 2000) if scaling["kind"] == "dynamic" else 0
    return {"scale": scaling["scale"], "growth": growth, "skip": scaling.get("skip", True)}


def replay(plan: Plan, bad: set[int]) -> tuple[list[float], list[tuple[int, str, float, float]]]:
    """GradScaler's rule: half the scale after an update with Inf or NaN, twice after `growth` updates without.

    bad: steps, from 1. Returns the scale after each step, and what moved it: step, event, before, after.
    """
    scale, good, scales, events = plan.scale, 0, [], []
    for step in range(1, plan.steps + 1):
        before, good = scale, 0 if step in bad else good + 1
        if plan.growth and step in bad:
            scale = scale / 2 if scale > 2.0**-149 else 0.0  # fp32's smallest number
            events.append((step, "backed-off" if scale else "collapsed", before, scale))
        elif plan.growth and good == plan.growth:
            scale, good = 2 * scale, 0
            events.append((step, "grew", before, scale))
        scales.append(scale)
    return scales, events


def weighted(parts: list[tuple[float, int]]) -> float:
    """A share over tensors, of shares of each and numbers of elements."""
    counts = sum(round(share * count) for share, count in parts)
    whole = sum(count for _, count in parts)
    return counts / whole if whole else 0.0


def runs_of(report: Report, row: Row, column: str, name: str) -> list[Row]:
    """The trainings of a variant (`column` holds its name) of the row's network, a seed each."""
    return [r for r in report.tables["runs"] if r["network"] == row["network"] and r[column] == name]


class Tables:
    """The shared tables of one report, by training."""

    def __init__(self, report: Report, variant: str) -> None:
        self.variant = variant
        self.rows: dict[str, dict[Key, list[Row]]] = {}
        for table in ("runs", "curves", "tensors", "updates", "scaler_events", "spikes"):
            by_run = self.rows.setdefault(table, {})
            for row in report.tables[table]:
                by_run.setdefault(self.key(row), []).append(row)

    def key(self, row: Row) -> Key:
        return row[self.variant], row["network"], row["seed"]

    def of(self, table: str, row: Row) -> list[Row]:
        return self.rows[table].get(self.key(row), [])

    def run(self, row: Row) -> Row:
        return self.of("runs", row)[0]

    def interval(self, row: Row) -> tuple[int, int]:
        """The steps of a row's interval: after the first, up to the second."""
        ends = [0, *(point["step"] for point in self.of("curves", row))]
        return ends[ends.index(row["step"]) - 1], row["step"]

    def left_out(self, row: Row) -> tuple[set[int], int]:
        """The steps that the scaler left out, from 1, and the last step up to which the table has its events."""
        events = self.of("scaler_events", row)
        known = events[-1]["update"] if len(events) == SHOWN_EVENTS else 10**9
        return {e["update"] + 1 for e in events if e["event"] == "skipped" and e["update"] < known}, known

    def spikes(self, row: Row, kind: str) -> list[Row] | None:
        """All spikes of a kind; None if the table does not have all."""
        spikes = self.of("spikes", row)
        return [s for s in spikes if s["of"] == kind] if len(spikes) < SHOWN_SPIKES else None


@functools.cache
def tables_of(report: Report, variant: str) -> Tables:
    return Tables(report, variant)
