"""Looking at a training without changing it, and finding the layers that precision harms."""
from __future__ import annotations

import functools
from typing import Any, Callable, Mapping

import torch

from ._emulation import emulate
from ._handlers import HANDLERS


class microscope(emulate):
    """What a policy would do to each operator of a training that goes on as it is, in fp32 or under autocast.

        scope = halfulp.torch.microscope(model, "fp8-deepseek", every=10)
        for batch in batches:
            with scope:
                loss_of(model(batch)).backward()
            optimizer.step()
        scope.report()

    In each `every`-th step each operator is computed a second time, under the policy, on the tensors that torch's own
    gave it, forward and backward; its result is measured and thrown away. So the report, which is that of
    emulate(..., every=), shows what each operator would lose by itself. Training keeps its bits. Arguments: those of
    emulate()."""

    _replaces = False

    def __init__(self, model: torch.nn.Module, policy: str | Mapping[str, Any] = "fp8-hybrid", rules: Mapping[str, Any] | None = None, *, every: int = 10, **options: Any) -> None:
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            raise ValueError(f"every: {every!r}; accepted: a number of steps from 1 on")
        super().__init__(model, policy, rules, every=every, **options)
        self._inside = False

    def __torch_function__(self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        handler = HANDLERS.get(function) if self.counted and not self._inside and torch._C._current_graph_task_id() == -1 else None
        shadow: Any = NotImplemented
        if handler is not None and not _in_place(function) and self._fits(handler, args, kwargs):
            self._inside = True
            given = tuple(False if x is True and "inplace" not in kwargs and i == len(args) - 1 and i > 0 and handler in _IN_PLACE else x for i, x in enumerate(args))
            named = {**kwargs, "inplace": False} if "inplace" in kwargs else kwargs
            try:
                # What it keeps for its backward pass is not the model's: torch.utils.checkpoint counts that.
                with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
                    shadow = handler(self, *[_copied(x) for x in given], **{name: _copied(x) for name, x in named.items()})
            finally:
                self._inside = False
        result = function(*args, **kwargs)
        if shadow is NotImplemented:
            if self.counted and not self._inside:
                self.note_uncovered(function, result)
            return result
        self.covered[getattr(function, "__name__", str(function)), self.module] += 1
        own, other = (r[0] if isinstance(r, tuple) else r for r in (result, shadow))
        if own.requires_grad and other.requires_grad and not own.is_leaf and not any(own is x for x in args):
            waiting = [other]
            own.register_hook(lambda gradient: self._backward(waiting, gradient))
        return result

    def _backward(self, waiting: list[torch.Tensor], gradient: torch.Tensor) -> None:
        """The shadow's own backward pass: once, inside the `with`, and not where torch records gradients of gradients."""
        if not waiting or not self.active or torch.is_grad_enabled():
            return
        shadow = waiting.pop()
        self._inside = True
        try:
            with torch._C.DisableTorchFunction():
                torch.autograd.backward(shadow, gradient.to(shadow.dtype).reshape(shadow.shape))
        finally:
            self._inside = False


# Those that take `inplace` as their last argument.
_IN_PLACE = {handler for function, handler in HANDLERS.items() if function in (torch.relu, torch.nn.functional.relu) or isinstance(handler, functools.partial)}


def _copied(x: Any) -> Any:
    """The same numbers for a graph of their own; what an operator writes to is not the model's."""
    if isinstance(x, (list, tuple)):
        return type(x)(_copied(part) for part in x) if type(x) in (list, tuple) else x
    if not isinstance(x, torch.Tensor):
        return x
    if isinstance(x, torch.nn.Parameter):
        return torch.nn.Parameter(_float32(x.detach()), requires_grad=x.requires_grad)
    return _float32(x.detach()).requires_grad_() if x.requires_grad else x.detach().clone()


def _float32(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.float32) if x.dtype in (torch.bfloat16, torch.float16) else x


def _in_place(function: Callable[..., Any]) -> bool:
    name = getattr(function, "__name__", "")
    return name.endswith("_") and not name.endswith("__") or name.startswith("__i")


def ablate(model: torch.nn.Module, policy: str | Mapping[str, Any], loss_of: Callable[[], torch.Tensor], *, rules: Mapping[str, Any] | None = None, back_to: Any = "bf16", warm_up: int = 1,
           seed: int = 0) -> list[dict[str, Any]]:
    """Which layers a policy harms: one step with all layers under the policy, and one step more for each layer, which
    alone goes back to the format `back_to` (or the members of a rule). rules: those of emulate(), on top of which this is
    done. Before each of these, `warm_up` steps without an update, which delayed scales need.

    loss_of: computes the loss of one fixed batch by the model. Returns a row for each module that has operators of the
    policy, the most harmful first: `layer`; `loss`; `error`, the norm of the error of all gradients against the policy
    "fp32", relative to theirs; `repaired`, how much of the policy's own error goes with this layer (1: all of it). The
    first row, with layer None, is the policy itself. Modules that hold others with operators have no row of their own,
    because rules mean what is in them too. The model's parameters, gradients and buffers are left as they
    were; dropout draws the same in every step."""
    def gradients(rules: Mapping[str, Any] | None, its: Any) -> tuple[float, list[torch.Tensor], emulate]:
        run = emulate(model, its, rules, seed=seed)
        for _ in range(warm_up + 1):
            with run:
                for p in model.parameters():
                    p.grad = None
                loss = loss_of()
                if not isinstance(loss, torch.Tensor) or not loss.requires_grad:
                    raise TypeError(f"loss_of: gives {type(loss).__name__}; accepted: a function that computes the loss by the model, with its graph")
                loss.backward()
        return float(loss.detach()), [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()], run

    if isinstance(warm_up, bool) or not isinstance(warm_up, int) or warm_up < 0:
        raise ValueError(f"warm_up: {warm_up!r}; accepted: a number of steps")
    buffers = {name: b.detach().clone() for name, b in model.named_buffers()}
    kept = [p.grad for p in model.parameters()]

    def step(rules: Mapping[str, Any] | None, its: Any) -> tuple[float, list[torch.Tensor], emulate]:
        try:
            with torch.random.fork_rng(devices=[]):
                return gradients(rules, its)
        finally:
            with torch.no_grad():
                for name, b in model.named_buffers():
                    b.copy_(buffers[name])
            for p, g in zip(model.parameters(), kept):
                p.grad = g

    _, exact, _ = step(None, "fp32")
    size = _norm(exact)

    def error(gs: list[torch.Tensor]) -> float:
        return _norm([g - e for g, e in zip(gs, exact)]) / size if size else 0.0

    loss, gs, run = step(rules, policy)
    whole = error(gs)
    rows: list[dict[str, Any]] = []
    modules = dict.fromkeys(module for _, module in run.covered if module)
    for name in modules:
        if any(other.startswith(name + ".") for other in modules):
            continue  # it would take others back with it
        its_loss, gs, _ = step({**(rules or {}), name: back_to}, policy)
        rows.append({"layer": name, "loss": its_loss, "error": error(gs), "repaired": 1 - error(gs) / whole if whole else 0.0})
    rows.sort(key=lambda row: row["repaired"], reverse=True)
    return [{"layer": None, "loss": loss, "error": whole, "repaired": 0.0}, *rows]


def _norm(gradients: list[torch.Tensor]) -> float:
    return float(torch.stack([g.double().norm() for g in gradients]).norm())
