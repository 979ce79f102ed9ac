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
            optimizer.zero_grad()
            optimizer.backward(loss_of(model(batch)))
        optimizer.step()

    backward(loss) takes the gradients of the scaled loss and adds them to what is there, as loss.backward() does. step()
    unscales them, rounds them for communication, and leaves out steps whose gradients hold an Inf or a NaN. unscale_()
    unscales them earlier, for clipping. zero_grad() is the caller's.

    Parameters are rounded as the policy stores weights, at once and after every step. options: torch.optim's names, lr,
    weight_decay, momentum and nesterov (sgd), betas and eps (adam, adamw); `optimizer.lr` may be set between steps. The
    meaning and the order of operations are those of torch.optim with foreach=False. Raises TypeError and ValueError
    naming the argument.
    """

    def __init__(self, run: emulate, parameters: Iterable[tuple[str, torch.Tensor]], kind: str = "adam", **options: Any) -> None:
        if not isinstance(run, emulate):
            raise TypeError(f"run: {type(run).__name__}; accepted: halfulp.torch.emulate(...)")
        self.run, self.parameters = run, [_named(pair) for pair in parameters if not isinstance(pair, tuple) or getattr(pair[-1], "requires_grad", True)]
        if "betas" in options:
            options["beta1"], options["beta2"] = options.pop("betas")
        for name, value in options.items():
            if not isinstance(value, (int, float)):
                raise TypeError(f"{name}: {value!r}; accepted: a number")
        self.lr = float(options.get("lr", 1e-2 if kind == "sgd" else 1e-3))
        self._updates = _core.Updates(run.precision, kind, {name: float(value) for name, value in options.items()}, [(name, p.numel(), p.data_ptr()) for name, p in self.parameters])
        self._scaled = False
        self._written()

    @property
    def scale(self) -> float:
        """The loss scale now; 1 without scaling."""
        return self._updates.scale

    def zero_grad(self) -> None:
        for _, p in self.parameters:
            p.grad = None

    def backward(self, loss: torch.Tensor) -> None:
        """Adds the gradients of the scaled loss: inside the run, as loss.backward()."""
        self._scaled = True
        loss.backward(torch.tensor(self._updates.factor(float(loss.detach())), dtype=loss.dtype, device="cpu"))

    def unscale_(self) -> None:
        """Divides gradients by the loss scale now, once before a step: to clip them, or to look at them."""
        self._require_scaled()
        self._updates.unscale(self._gradients())

    def step(self) -> bool:
        """Takes a step, unless the scaled gradients hold an Inf or a NaN; whether it did."""
        self._require_scaled()
        values = [(p.data_ptr(), p.numel()) for _, p in map(_named, self.parameters)]
        taken = self._updates.step(self.lr, values, self._gradients())
        self._scaled = False
        self._written()
        return taken

    def _gradients(self) -> list[int]:
        """Addresses of the gradients, rounded for communication once; 0 where there is none."""
        with torch._C.DisableTorchFunction():
            for name, p in self.parameters:
                if p.grad is not None:
                    if p.grad.dtype is not torch.float32 or p.grad.layout is not torch.strided:
                        raise TypeError(f"parameters: the gradient of {name} is {p.grad.dtype}, {p.grad.layout}; accepted: dense float32")
                    p.grad = p.grad.contiguous()
                    if not self._updates.unscaled:
                        self.run.precision.cast("optimizer", name, "communication", p.grad.data_ptr(), p.grad.numel())
        return [0 if p.grad is None else p.grad.data_ptr() for _, p in self.parameters]

    def _require_scaled(self) -> None:
        if self._updates.scales and not self._scaled:
            raise RuntimeError("PolicyOptimizer: the policy scales the loss, and no gradients came from backward(loss) since the last step; accepted: optimizer.backward(loss)")

    def _written(self) -> None:
        for _, p in self.parameters:
            torch.autograd.graph.increment_version(p)


def _named(pair: Any) -> tuple[str, torch.Tensor]:
    if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[0], str) or not isinstance(pair[1], torch.Tensor):
        raise TypeError(f"parameters: {type(pair).__name__}; accepted: pairs of a name and a tensor, as model.named_parameters() has them")
    name, p = pair
    if p.dtype is not torch.float32 or p.device.type != "cpu" or not p.is_contiguous():
        raise TypeError(f"parameters: {name} is {p.dtype} on {p.device}; accepted: contiguous float32 in the CPU's memory")
    return name, p
