"""Sums of activations, rotary positions and the loss of the trainer as functions of torch."""
from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

from .. import _core
from ._handlers import Run, address, dense, empty, handles, is_float, of_step, once


class Cast(torch.autograd.Function):
    """Rounds an activation for an operator, in place where nobody else has it; its gradient passes."""

    @staticmethod
    def forward(ctx: Any, run: Run, kind: str, name: str, x: torch.Tensor, own: bool = False) -> torch.Tensor:
        y = x.detach() if own and x.is_contiguous() else x.detach().clone(memory_format=torch.contiguous_format)
        run.precision.cast(kind, name, "activation", address(y), y.numel())
        return y

    @staticmethod
    @once
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[Any, ...]:
        return None, None, None, dy, None


class CastGradient(torch.autograd.Function):
    """Rounds the gradient of an activation for an operator; the activation passes."""

    @staticmethod
    def forward(ctx: Any, run: Run, kind: str, name: str, x: torch.Tensor) -> torch.Tensor:
        of_step(ctx, run)
        ctx.kind, ctx.name = kind, name
        return x.view_as(x)

    @staticmethod
    @once
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[Any, ...]:
        return None, None, None, cast_gradient(ctx.run, ctx.kind, ctx.name, dy)


def cast_gradient(run: Run, kind: str, name: str, gradient: torch.Tensor) -> torch.Tensor:
    """A rounded copy."""
    with torch._C.DisableTorchFunction():
        g = gradient.detach().clone(memory_format=torch.contiguous_format)
        run.precision.cast(kind, name, "gradient-of-activation", address(g), g.numel())
    return g


@handles(torch.add, torch.Tensor.add, torch.Tensor.__add__, torch.Tensor.__radd__)
def _add(run: Run, input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """A residual sum: two activations of one shape, inside a module. The gradient of the one that was there first meets
    that of the branch, and their sum is rounded."""
    a, b = input, other
    if not (is_float(a) and is_float(b)) or a.shape != b.shape or a.dim() < 2 or alpha != 1 or not run.in_a_module:
        return NotImplemented
    if isinstance(a, torch.nn.Parameter) or isinstance(b, torch.nn.Parameter):
        return NotImplemented
    name = run.site("residual")
    if torch.is_grad_enabled() and a.grad_fn is not None and b.grad_fn is not None:
        earlier = min((a, b), key=lambda t: t.grad_fn._sequence_nr())
        earlier.register_hook(lambda gradient: cast_gradient(run, "residual", name, gradient))
    return Cast.apply(run, "residual", name, torch.add(a, b), True)


@handles(torch.Tensor.add_, torch.Tensor.__iadd__)
def _add_in_place(run: Run, input: torch.Tensor, other: Any, *, alpha: Any = 1) -> Any:
    z = _add(run, input, other, alpha=alpha)
    return z if z is NotImplemented else input.copy_(z)


class _Rotary(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, base: float, run: Run, name: str) -> torch.Tensor:
        ctx.base, ctx.run, ctx.name = base, run, name
        if run is not None:
            of_step(ctx, run)
        return _turned(x, base, False, run, name, "activation")

    @staticmethod
    @once
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[Any, ...]:
        return _turned(dy, ctx.base, True, ctx.run, ctx.name, "gradient-of-activation"), None, None, None


def _turned(x: torch.Tensor, base: float, back: bool, run: Run, name: str, role: str) -> torch.Tensor:
    with torch._C.DisableTorchFunction():
        y = x.detach().clone(memory_format=torch.contiguous_format)
        length, width = y.shape[-2:]
        _core.rotate(address(y), y.numel() // (length * width) if y.numel() else 0, length, width, base, back)
        if run is not None:
            run.precision.cast("position", name, role, address(y), y.numel())
    return y


def rotary(x: torch.Tensor, base: float = 10000.0) -> torch.Tensor:
    """Rotary positions (Su et al. 2021) as the trainer computes them: elements i and i + width / 2 of a vector at position
    p turn by the angle p base^(-2 i / width), as in GPT-NeoX and LLaMA. x: ... x length x width, float32, with an even
    width. Under emulate() the result is rounded as the policy's operator "position". Raises TypeError and ValueError
    naming the argument."""
    if isinstance(base, bool) or not isinstance(base, (int, float)) or not 0 < base < math.inf:
        raise ValueError(f"base: {base!r}; accepted: a number above 0")
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"x: {type(x).__name__}; accepted: float32 in the CPU's memory, ... x length x width")
    if not is_float(x) or x.dim() < 2:
        raise TypeError(f"x: a tensor of {x.dtype} with {x.dim()} axes on {x.device}; accepted: float32 in the CPU's memory, ... x length x width")
    if x.shape[-1] % 2 or not x.shape[-1]:
        raise ValueError(f"x: width {x.shape[-1]}; accepted: an even one, because pairs turn")
    run = active()
    return _Rotary.apply(x, base, run, "" if run is None else f"{run.module}.position" if run.module else "position")


def active() -> Run:
    """The run whose `with` this is in, or None."""
    return next((mode for mode in reversed(torch.overrides._get_current_function_mode_stack()) if hasattr(mode, "precision")), None)


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, run: Run, name: str, logits: torch.Tensor, labels: list[int]) -> torch.Tensor:
        of_step(ctx, run)
        ctx.loss, ctx.shape = _core.Loss(name), logits.shape
        values = dense(logits)
        loss = ctx.loss.forward(run.precision, values.shape[0], values.shape[1], address(values), labels)
        if run.watch:
            run.watch.add_loss(loss)
        return torch.tensor(loss, dtype=torch.float32, device="cpu")

    @staticmethod
    @once
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[Any, ...]:
        with torch._C.DisableTorchFunction():
            gradient = empty(*ctx.shape)
            ctx.loss.backward(ctx.run.precision, float(dy), address(gradient))
        return None, None, gradient, None


@handles(F.cross_entropy)
def _cross_entropy(run: Run, input: torch.Tensor, target: torch.Tensor, weight: Any = None, size_average: Any = None, ignore_index: int = -100, reduce: Any = None, reduction: str = "mean",
                   label_smoothing: float = 0.0) -> Any:
    logits, labels = input, target
    if size_average is not None or reduce is not None or not is_float(logits) or logits.dim() != 2 or labels.dtype is not torch.int64 or labels.dim() != 1 or weight is not None or reduction != "mean" or label_smoothing:
        return NotImplemented
    seen = labels != ignore_index
    if not bool(seen.all()):
        logits, labels = logits[seen], labels[seen]
    if labels.numel() == 0:
        return NotImplemented
    return _CrossEntropy.apply(run, "loss", logits, labels.tolist())
