"""The trainer's optimizers under a policy."""
from __future__ import annotations

from typing import Any, Iterable

import torch

from .. import _core
from ._emulation import emulate


class PolicyOptimizer:
    """SGD, Adam or AdamW as the trainer has them: weights, states, updates and loss scaling as the run's policy says, bit
    for bit those of halfulp run training.

        run = halfulp.torch.emulate(model, "O2")
        optimizer = halfulp.torch.PolicyOptimizer(run, model.named_parameters(), "adam", lr=1e-3)
        with run:
            optimizer.backward(loss_of(model(batch)))
        optimizer.step()

    Parameters are rounded as the policy stores weights, at once and after every step. options: torch.optim's names, lr,
    momentum, nesterov, weight_decay, eps, and beta1, beta2. The meaning and the order of operations are those of
    torch.optim with foreach=False. Raises TypeError and ValueError naming the argument.
    """

    def __init__(self, run: emulate, parameters: Iterable[tuple[str, torch.Tensor]], kind: str = "adam", **options: float) -> None:
        if not isinstance(run, emulate):
            raise TypeError(f"run: {type(run).__name__}; accepted: halfulp.torch.emulate(...)")
        self.run, self.parameters = run, [(name, p) for name, p in parameters if p.requires_grad]
        for name, p in self.parameters:
            if p.dtype is not torch.float32 or p.device.type != "cpu" or not p.is_contiguous():
                raise TypeError(f"parameters: {name} is {p.dtype} on {p.device}; accepted: contiguous float32 in the CPU's memory")
        self.lr = options.get("lr", 1e-2 if kind == "sgd" else 1e-3)
        self._updates = _core.Updates(run.precision, kind, {name: float(value) for name, value in options.items()}, [(name, p.numel(), p.data_ptr()) for name, p in self.parameters])
        self._written()

    @property
    def scale(self) -> float:
        """The loss scale now; 1 without scaling."""
        return self._updates.scale

    def zero_grad(self) -> None:
        for _, p in self.parameters:
            p.grad = None

    def backward(self, loss: torch.Tensor) -> None:
        """The gradients of the scaled loss, rounded for communication: what is to be called inside the run."""
        self.zero_grad()
        loss.backward(torch.tensor(self._updates.factor(float(loss.detach()))))
        with torch._C.DisableTorchFunction():
            for name, p in self.parameters:
                if p.grad is not None:
                    p.grad = p.grad.contiguous()
                    self.run.precision.cast("optimizer", name, "communication", p.grad.data_ptr(), p.grad.numel())

    def step(self) -> bool:
        """Takes a step, unless the scaled gradients hold an Inf or a NaN; whether it did. Gradients are unscaled."""
        gradients: list[Any] = [0 if p.grad is None else p.grad.data_ptr() for _, p in self.parameters]
        taken = self._updates.step(self.lr, gradients)
        self._written()
        return taken

    def _written(self) -> None:
        for _, p in self.parameters:
            torch.autograd.graph.increment_version(p)
