"""What a watched run notes besides what its operators count: updates, losses, loss scales, the births of NaN."""
from __future__ import annotations

import math
import weakref
from typing import Any

import torch

from ._handlers import address


class Watch:
    """Rows of the report's tables, of counted steps."""

    def __init__(self, run: Any) -> None:
        self._run = weakref.proxy(run)
        self._updates: list[list[Any]] = []
        self._losses: list[list[Any]] = []
        self._births: list[list[Any]] = []
        self._events: list[list[Any]] = []
        self._before: dict[str, tuple[torch.Tensor, torch.Tensor, int]] = {}  # weights, gradients, version
        self._step = 0  # of these
        self._loss: float | None = None
        self._scale: float | None = None

    def add_loss(self, value: float) -> None:
        """The policy's cross-entropy has given a loss."""
        if self._run.counted:
            self._loss = value if self._loss is None else self._loss + value

    def scaled(self, scale: float) -> None:
        """Gradients carry this loss scale from now on."""
        self._scale = scale
        self._run.precision.gradient_scale(scale)

    def updated(self, taken: bool, events: list[tuple[Any, ...]]) -> None:
        """PolicyOptimizer has taken the step before, or left it out."""
        self._events += [list(event) for event in events]
        if self._losses and self._losses[-1][0] == self._run.step - 1:
            self._losses[-1][3] = taken
        if not taken:
            self._before = {}

    def look(self, function: str, result: Any) -> None:
        """Looks for the first NaN in what torch computed."""
        if not self._births and not self._run.precision.has_nan:
            parts = result if isinstance(result, (tuple, list)) else (result,)
            with torch._C.DisableTorchFunction():
                if any(isinstance(part, torch.Tensor) and part.is_floating_point() and bool(part.isnan().any()) for part in parts):
                    self._births = [["a NaN", self._run.step, function, self._run.module, None]]

    def take(self) -> None:
        """At the end of a counted step: keeps weights and gradients until the next, which compares."""
        self._losses.append([self._run.step, self._loss, self._scale, None])
        self._loss, self._before, self._step = None, {}, self._run.step
        with torch.no_grad():
            for name, p in self._run.model.named_parameters():
                if p.grad is None or p.dtype is not torch.float32 or p.grad.layout is not torch.strided:
                    continue
                gradient = p.grad.detach().to(torch.float32).contiguous()
                self._run.precision.save_gradient(name, list(gradient.shape), address(gradient), gradient.numel())
                self._before[name] = p.detach().clone(), gradient.clone(), p._version

    def compare(self) -> None:
        """What has become of the weights since take(), if an optimizer has written them."""
        parameters = [(name, p) for name, p in self._run.model.named_parameters() if name in self._before and p.shape == self._before[name][0].shape and p._version != self._before[name][2]]
        if not parameters:
            return
        before, self._before = self._before, {}
        with torch.no_grad():
            for name, p in parameters:
                weight, gradient, _ = before[name]
                moved = gradient != 0
                count, norm = int(moved.sum()), float(weight.norm())
                swamped = int((moved & (p == weight)).sum())
                self._updates.append([self._step, name, p.numel(), count, swamped / count if count else None, norm, _ratio(float(gradient.norm()) / (self._scale or 1), norm), _ratio(float((p - weight).norm()), norm)])

    def facts(self, every: int) -> dict[str, list[list[Any]]]:
        """The rows of steps that are counted still."""
        self.compare()
        kept = [row for row in self._updates if row[0] % every == 0]
        return {"updates": _numbers(kept), "losses": _numbers([row for row in self._losses if row[0] % every == 0]), "births": self._births, "events": _numbers(self._events)}


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _numbers(rows: list[list[Any]]) -> list[list[Any]]:
    """Numbers that JSON has none for, as reports write them."""
    return [[x if not isinstance(x, float) or math.isfinite(x) else "NaN" if math.isnan(x) else "Infinity" if x > 0 else "-Infinity" for x in row] for row in rows]
