"""Looking at a training without changing it, and finding the layers that precision harms."""
from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from typing import Any, Callable, Mapping

import torch

from ._emulation import emulate, fits, name_of as _name
from ._handlers import HANDLERS


class microscope(emulate):
    """What a policy would do to each operator of a training that goes on as it is, in fp32 or under autocast.

        scope = halfulp.torch.microscope(model, "fp8-deepseek", every=10)
        for batch in batches:
            with scope:
                loss_of(model(batch)).backward()
            optimizer.step()
        scope.report()

    In each `every`-th step each operator is computed a second time at the end of the `with`, under the policy, on the
    tensors that torch's own gave it, forward and backward; its result is measured and thrown away. So the report, which is that of
    emulate(..., every=), shows what each operator would lose by itself. Training keeps its bits. Arguments: those of
    emulate()."""

    _replaces = False

    def __init__(self, model: torch.nn.Module, policy: str | Mapping[str, Any] = "fp8-hybrid", rules: Mapping[str, Any] | None = None, *, every: int = 10, **options: Any) -> None:
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            raise ValueError(f"every: {every!r}; accepted: a number of steps from 1 on")
        super().__init__(model, policy, rules, every=every, **options)
        self._seen: list[_Call] = []

    def __torch_function__(self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        handler = HANDLERS.get(function) if self.counted and torch._C._current_graph_task_id() == -1 else None
        call = None
        if handler is not None and not _in_place(function) and fits(handler, len(args), tuple(kwargs)):
            given = tuple(False if x is True and i and i == len(args) - 1 and handler in _IN_PLACE else x for i, x in enumerate(args))
            named = {**kwargs, "inplace": False} if "inplace" in kwargs else kwargs
            inplace = any(x is not y for x, y in zip(given, args)) or bool(kwargs.get("inplace"))
            call = _Call(function, handler, [_kept(x, inplace) for x in given], {name: _kept(x, inplace) for name, x in named.items()}, self._stack[-1], len(self._stack), self._calls[-1])
            call.versions = _versions([call.args, list(call.kwargs.values())])
        result = function(*args, **kwargs)
        if call is not None:
            self._seen.append(call)
            own = result[0] if isinstance(result, tuple) else result
            if own.requires_grad and not own.is_leaf and not any(own is x for x in args):
                own.register_hook(lambda gradient: self._note(call, gradient))
        elif self.counted:
            self.note_uncovered(function, result)
        return result

    def _note(self, call: _Call, gradient: torch.Tensor) -> None:
        """The gradient of a call's result: of its first backward pass inside the `with`."""
        if call.gradient is None and self.active and not torch.is_grad_enabled():
            call.gradient = gradient.detach().clone()

    def __exit__(self, *exception: Any) -> None:
        seen, self._seen = self._seen, []
        try:
            if exception[0] is None and seen:
                self._compute(seen)
        finally:
            super().__exit__(*exception)

    def _compute(self, seen: list[_Call]) -> None:
        """All operators under the policy, one after the other, when torch's threads, which wait by spinning, are idle."""
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        stack, calls = self._stack, self._calls
        try:
            for call in seen:
                if call.versions != _versions([call.args, list(call.kwargs.values())]):
                    self.not_covered[_name(call.function), call.module] += 1  # the model has overwritten what it took
                    continue
                self._stack, self._calls = [""] * (call.depth - 1) + [call.module], [call.counter]
                with torch._C.DisableTorchFunction(), torch.enable_grad(), torch.autocast("cpu", enabled=False):
                    shadow = call.handler(self, *call.args, **call.kwargs)
                    if shadow is NotImplemented:
                        self.not_covered[_name(call.function), call.module] += 1
                        continue
                    self.covered[_name(call.function), call.module] += 1
                    result = shadow[0] if isinstance(shadow, tuple) else shadow
                if call.gradient is not None and result.requires_grad:
                    with torch._C.DisableTorchFunction(), torch.autocast("cpu", enabled=False):
                        torch.autograd.backward(result, call.gradient.to(result.dtype).reshape(result.shape))
        finally:
            self._stack, self._calls = stack, calls
            torch.set_num_threads(threads)


@dataclasses.dataclass(eq=False)
class _Call:
    """A call of torch's in a counted step, and what is needed to compute it again."""
    function: Callable[..., Any]
    handler: Callable[..., Any]
    args: list[Any]
    kwargs: dict[str, Any]
    module: str
    depth: int  # of modules
    counter: Counter[str]  # of operators in this call of the module
    versions: list[int] = dataclasses.field(default_factory=list)  # of tensors among the arguments
    gradient: torch.Tensor | None = None


# Those that take `inplace` as their last argument.
_IN_PLACE = {handler for function, handler in HANDLERS.items() if function in (torch.relu, torch.nn.functional.relu) or isinstance(handler, functools.partial)}


def _kept(x: Any, inplace: bool) -> Any:
    """The numbers of now: shared with the model, which seldom overwrites what it has computed, or copied where it does,
    as running means and what is written in place."""
    if isinstance(x, (list, tuple)):
        return type(x)(_kept(part, inplace) for part in x) if type(x) in (list, tuple) else x
    if not isinstance(x, torch.Tensor):
        return x
    if isinstance(x, torch.nn.Parameter):
        return torch.nn.Parameter(_float32(x.detach()), requires_grad=x.requires_grad)
    copied = inplace or not x.requires_grad and x.dim() < 2
    return _float32(x.detach().clone() if copied else x.detach()).requires_grad_(x.requires_grad)


def _versions(x: Any) -> list[int]:
    """How often the tensors among arguments were written."""
    if isinstance(x, (list, tuple)):
        return [version for part in x for version in _versions(part)]
    return [x._version] if isinstance(x, torch.Tensor) and not x.is_inference() else []


def _float32(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.float32) if x.dtype in (torch.bfloat16, torch.float16) else x


def _in_place(function: Callable[..., Any]) -> bool:
    name = _name(function)
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
    if isinstance(model, torch.nn.Module) and next(model.parameters(), None) is None:
        raise ValueError("model: it has no parameters, whose gradients are compared")
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
    if run.only_strangers:
        raise ValueError("loss_of: ran modules with parameters, but none of model; accepted: a function that computes the loss by the model itself")
    for name in modules:
        if any(other.startswith(name + ".") for other in modules):
            continue  # it would take others back with it
        its_loss, gs, _ = step({**(rules or {}), name: back_to}, policy)
        rows.append({"layer": name, "loss": its_loss, "error": error(gs), "repaired": 1 - error(gs) / whole if whole else 0.0})
    rows.sort(key=lambda row: row["repaired"], reverse=True)
    return [{"layer": None, "loss": loss, "error": whole, "repaired": 0.0}, *rows]


def _norm(gradients: list[torch.Tensor]) -> float:
    return float(torch.stack([g.double().norm() for g in gradients]).norm())
