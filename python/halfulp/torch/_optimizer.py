"""The trainer's optimizers under a policy, and any optimizer whose results are rounded."""
from __future__ import annotations

import json
from typing import Any, Iterable, Mapping

import torch

from .. import _core
from ._emulation import emulate
from ._handlers import address
from ._rounding import quantize

# torch.optim's names and defaults.
_DEFAULTS: dict[str, dict[str, Any]] = {
    "sgd": {"lr": 1e-2, "momentum": 0.0, "nesterov": False, "weight_decay": 0.0},
    "adam": {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0},
    "adamw": {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 1e-2},
}


class PolicyOptimizer(torch.optim.Optimizer):
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

    parameters: pairs of a name and a tensor, as model.named_parameters() has them, or groups of them, [{"params": pairs,
    "lr": 1e-4}, ...]. They are rounded as the policy stores weights, at once and after every step. options: torch.optim's
    names, lr, weight_decay, momentum and nesterov (sgd), betas and eps (adam, adamw). The meaning and the order of
    operations are those of torch.optim with foreach=False. Only learning rates may change between steps, so that
    torch.optim.lr_scheduler's schedulers work; `optimizer.lr` is that of all groups. state_dict() holds states, master
    weights and the loss scale; load_state_dict() takes one of the same policy, kind and parameters. Raises TypeError and
    ValueError naming the argument.
    """

    def __init__(self, run: emulate, parameters: Iterable[Any], kind: str = "adam", **options: Any) -> None:
        if not isinstance(run, emulate):
            raise TypeError(f"run: {type(run).__name__}; accepted: halfulp.torch.emulate(...)")
        if not isinstance(kind, str) or kind not in _DEFAULTS:
            raise ValueError(f"kind: {kind!r}; accepted: {', '.join(_DEFAULTS)}")
        if not isinstance(parameters, Iterable):
            raise TypeError(f"parameters: {type(parameters).__name__}; accepted: pairs of a name and a tensor, as model.named_parameters() has them")
        given = list(parameters)
        groups = [dict(group) for group in given] if given and all(isinstance(group, Mapping) for group in given) else [{"params": given}]
        for group in groups:
            if "params" not in group:
                raise ValueError("parameters: a group without 'params'; accepted: {'params': pairs of a name and a tensor, 'lr': ...}")
            group["pairs"] = [_named(pair) for pair in group.pop("params") if not isinstance(pair, tuple) or getattr(pair[-1], "requires_grad", True)]
        if not any(group["pairs"] for group in groups):
            raise ValueError("parameters: none that require a gradient; accepted: pairs of a name and a tensor, as model.named_parameters() has them")
        if not {id(p) for group in groups for _, p in group["pairs"]} & {id(p) for p in run.model.parameters()}:
            raise ValueError("parameters: none of the model that the run was made for; accepted: that model's named_parameters()")
        self.run, self.kind, self._complete = run, kind, False
        self._master = bool(json.loads(run.precision.policy).get("weights", {}).get("master"))
        settings = [_settings(kind, {**options, **{name: value for name, value in group.items() if name != "pairs"}}) for group in groups]
        self._named = [pair for group in groups for pair in group["pairs"]]
        self._updates = _core.Updates(run.precision, kind, [_flat(s) for s in settings], [[(name, p.numel(), address(p)) for name, p in group["pairs"]] for group in groups])
        super().__init__([{"params": [p for _, p in group["pairs"]], **s} for group, s in zip(groups, settings)], _DEFAULTS[kind])
        self._settings, self._complete, self._scaled = settings, True, False
        self._written()

    @property
    def lr(self) -> float:
        """The learning rate of all groups."""
        return float(self.param_groups[0]["lr"])

    @lr.setter
    def lr(self, value: float) -> None:
        for group in self.param_groups:
            group["lr"] = value

    @property
    def scale(self) -> float:
        """The loss scale now; 1 without scaling."""
        return self._updates.scale

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Not after the optimizer is made: RuntimeError."""
        if self._complete:
            raise RuntimeError("PolicyOptimizer: all groups of parameters are given when it is made")
        super().add_param_group(param_group)

    def backward(self, loss: torch.Tensor) -> None:
        """Adds the gradients of the scaled loss: inside the run, as loss.backward()."""
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            raise TypeError(f"loss: {type(loss).__name__}; accepted: a tensor with one number")
        if self._updates.unscaled:
            raise RuntimeError("PolicyOptimizer: backward() after unscale_() would add scaled gradients to unscaled ones; accepted: unscale_() after the last backward() of a step")
        self._scaled = True
        factor = self._updates.factor(float(loss.detach()))
        if self.run.watch:
            self.run.watch.scaled(factor)
        loss.backward(torch.tensor(factor, dtype=loss.dtype, device="cpu"))

    def unscale_(self) -> None:
        """Divides gradients by the loss scale now, once before a step: to clip them, or to look at them."""
        self._require_scaled()
        if self._updates.unscaled:
            raise RuntimeError("PolicyOptimizer: unscale_() was called since the last step; accepted: once")
        self._updates.unscale(self._gradients())

    def step(self, closure: Any = None) -> bool:  # type: ignore[override]
        """Takes a step, unless the scaled gradients hold an Inf or a NaN; whether it did. closure: not accepted, because
        it would compute losses outside the run."""
        if closure is not None:
            raise TypeError("closure: accepted: none; call optimizer.backward(loss) inside the run")
        self._require_scaled()
        for group, settings in zip(self.param_groups, self._settings):
            for name, value in settings.items():
                if name != "lr" and group[name] != value:
                    raise ValueError(f"{name}: {group[name]!r} since a step; accepted: {value!r}, as the optimizer was made; of schedulers only learning rates (cycle_momentum=False)")
        for name, p in self._named:
            if self._master and p._version != self._versions[name]:
                raise RuntimeError(f"PolicyOptimizer: {name} was written since the last step, and the policy's master copy knows nothing of it; accepted: to load weights before the optimizer is made, or its state_dict() with them")
        values = [(address(p), p.numel()) for _, p in map(_named, self._named)]
        taken = self._updates.step([float(group["lr"]) for group in self.param_groups], values, self._gradients())
        self._scaled = False
        self._written()
        if self.run.watch:
            self.run.watch.updated(taken, self._updates.take_events())
        return taken

    def state_dict(self) -> dict[str, Any]:
        """States, master weights, learning rates and the loss scale. Parameters are the model's."""
        states, scaler = self._updates.state()
        return {"policy": self.run.precision.name, "kind": self.kind, "scaler": scaler, "states": [torch.frombuffer(bytearray(state), dtype=torch.uint8) for state in states],
                "param_groups": [{name: value for name, value in group.items() if name != "params"} for group in self.param_groups]}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Goes on where state_dict() was taken, with the parameters that the model had then."""
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"state_dict: {type(state_dict).__name__}; accepted: what state_dict() gave")
        if missing := [
            name for name in ("policy", "kind", "param_groups", "states", "scaler") if name not in state_dict
        ]:
            raise ValueError(f"state_dict: no {missing[0]!r}; accepted: what state_dict() gave")
        if not isinstance(state_dict["scaler"], str):
            raise ValueError(
                f"state_dict: scaler {type(state_dict['scaler']).__name__}; accepted: what state_dict() gave"
            )
        if (state_dict["policy"], state_dict["kind"]) != (self.run.precision.name, self.kind):
            raise ValueError(f"state: {state_dict['kind']} under {state_dict['policy']}; accepted: {self.kind} under {self.run.precision.name}")
        groups = state_dict["param_groups"]
        if len(groups) != len(self.param_groups) or any({k: v for k, v in its.items() if k in s and k != "lr"} != {k: v for k, v in s.items() if k != "lr"} for its, s in zip(groups, self._settings)):
            raise ValueError("state: of other groups or settings; accepted: those of an optimizer that was made alike")
        self._updates.restore([bytes(state.numpy()) for state in state_dict["states"]], state_dict["scaler"])
        for group, its in zip(self.param_groups, groups):
            group.update(its)
        self._written()

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("PolicyOptimizer: not to be copied nor pickled; accepted: its state_dict()")

    def _gradients(self) -> list[int]:
        """Addresses of the gradients, rounded for communication once; 0 where there is none."""
        with torch._C.DisableTorchFunction():
            for name, p in self._named:
                if p.grad is not None:
                    if p.grad.dtype is not torch.float32 or p.grad.layout is not torch.strided:
                        raise TypeError(f"parameters: the gradient of {name} is {p.grad.dtype}, {p.grad.layout}; accepted: dense float32")
                    p.grad = p.grad.contiguous()
                    if not self._updates.unscaled:
                        self.run.precision.cast("optimizer", name, "communication", address(p.grad), p.grad.numel())
        return [0 if p.grad is None else address(p.grad) for _, p in self._named]

    def _require_scaled(self) -> None:
        if self._updates.scales and not self._scaled:
            raise RuntimeError("PolicyOptimizer: the policy scales the loss, and no gradients came from backward(loss) since the last step; accepted: optimizer.backward(loss)")

    def _written(self) -> None:
        for _, p in self._named:
            torch.autograd.graph.increment_version(p)
        self._versions = {name: p._version for name, p in self._named}


def _settings(kind: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """A group's settings, complete and checked."""
    settings = dict(_DEFAULTS[kind])
    for name, value in options.items():
        if name not in settings:
            raise ValueError(f"{name}: no option of {kind}; accepted: {', '.join(settings)}")
        numbers = value if name == "betas" and isinstance(value, (tuple, list)) and len(value) == 2 else (value,)
        if not all(isinstance(x, (int, float)) for x in numbers) or (name == "betas") != (len(numbers) == 2):
            raise TypeError(f"{name}: {value!r}; accepted: {'two numbers' if name == 'betas' else 'a number'}")
        settings[name] = tuple(value) if name == "betas" else value
    return settings


def _flat(settings: Mapping[str, Any]) -> dict[str, float]:
    """Settings as C++ takes them."""
    flat = {name: float(value) for name, value in settings.items() if name != "betas"}
    if "betas" in settings:
        flat["beta1"], flat["beta2"] = map(float, settings["betas"])
    return flat


def _named(pair: Any) -> tuple[str, torch.Tensor]:
    if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[0], str) or not isinstance(pair[1], torch.Tensor):
        raise TypeError(f"parameters: {type(pair).__name__}; accepted: pairs of a name and a tensor, as model.named_parameters() has them")
    name, p = pair
    if p.dtype is not torch.float32 or p.device.type != "cpu" or not p.is_contiguous():
        raise TypeError(f"parameters: {name} is {p.dtype} on {p.device}; accepted: contiguous float32 in the CPU's memory")
    return name, p


def _refuse_to_copy(_: Any) -> Any:
    """torch copies an optimizer without its hooks, which round."""
    raise TypeError("optim(): the optimizer is not to be copied nor pickled; accepted: its state_dict()")


def _storage(argument: str, storage: Any) -> tuple[Any, Any] | None:
    """A format and a rounding, checked."""
    if storage is None:
        return None
    format, rounding = storage if isinstance(storage, tuple) and len(storage) == 2 else (storage, "nearest-even")
    try:
        quantize(torch.zeros(1), format, rounding=rounding, seed=0)
    except (TypeError, ValueError) as why:
        raise type(why)(f"{argument}: {storage!r}: {why}") from None
    return format, rounding


def optim(optimizer: torch.optim.Optimizer, *, weights: Any = None, states: Any = None, master: bool = False, kahan: bool = False,
          generator: torch.Generator | None = None) -> torch.optim.Optimizer:
    """Rounds what any optimizer of torch writes, and returns it.

        optimizer = halfulp.torch.optim(torch.optim.Adagrad(model.parameters()), weights=("bf16", "stochastic"))

    weights, states: a format, or a pair of one and a Rounding or a mode's name. Parameters are rounded to `weights` at
    once and after every step, and the tensors of the optimizer's state that are shaped as their parameter to `states`,
    after every step. The step itself is torch's, in float32. master: the optimizer works on float32 copies, of which
    parameters are rounded. kahan: what rounding took from a weight is kept, rounded to `weights`, and added to the next
    update (Zamirai et al. 2021). Both kinds of copies are entries of the optimizer's own state, so that state_dict() has
    them after a step. The optimizer is not to be copied. Stochastic rounding draws fresh bits from `generator` (default:
    torch's own). Raises TypeError and ValueError naming the argument.
    """
    if not isinstance(optimizer, torch.optim.Optimizer) or isinstance(optimizer, PolicyOptimizer):
        raise TypeError(f"optimizer: {type(optimizer).__name__}; accepted: an optimizer of torch.optim")
    if getattr(optimizer, "halfulp_rounds", False):
        raise ValueError("optimizer: optim() rounds it already; accepted: once")
    if generator is not None and not isinstance(generator, torch.Generator):
        raise TypeError(f"generator: {type(generator).__name__}; accepted: a torch.Generator")
    if master and kahan:
        raise ValueError("master and kahan: one of them keeps what rounding takes; accepted: one")
    if (master or kahan) and weights is None:
        raise ValueError("weights: None; accepted with master or kahan: a format")
    kept: dict[torch.Tensor, torch.Tensor] = {}  # until the optimizer has made its state
    written: dict[torch.Tensor, tuple[torch.Tensor | None, int]] = {}  # the master and the version of a parameter after a step

    weights_as, states_as = _storage("weights", weights), _storage("states", states)

    def rounded(x: torch.Tensor, storage: tuple[Any, Any]) -> torch.Tensor:
        return quantize(x.detach(), storage[0], rounding=storage[1], generator=generator)

    def parameters() -> Iterable[torch.Tensor]:
        return (p for group in optimizer.param_groups for p in group["params"])

    def master_of(p: torch.Tensor) -> torch.Tensor:
        """The parameter itself where somebody else has written it, unless the state was loaded with it."""
        own = optimizer.state.get(p, {}).get("halfulp_master", kept.get(p))
        known, version = written.get(p, (None, -1))
        return p.detach().clone() if own is None or own is known and p._version != version else own

    @torch.no_grad()
    def before(*_: Any) -> None:
        for p in parameters():
            if p.grad is not None and master:
                p.copy_(master_of(p))
            elif p.grad is not None and kahan:
                kept[p] = p.detach().clone()

    @torch.no_grad()
    def after(*_: Any) -> None:
        for p in parameters():
            if p.grad is None:
                continue
            state = optimizer.state[p]
            if states_as:
                for name, value in state.items():
                    if isinstance(value, torch.Tensor) and value.shape == p.shape and value.is_floating_point() and not name.startswith("halfulp_") and name != "step":
                        value.copy_(rounded(value, states_as))
            if master:
                state["halfulp_master"] = p.detach().clone()
            if kahan and weights_as:
                was = kept.pop(p)
                update = p - was
                if "halfulp_lost" in state:
                    update += state["halfulp_lost"]
                now = rounded(was + update, weights_as)
                state["halfulp_lost"] = rounded(update - (now - was), weights_as)
                p.copy_(now)
            elif weights_as:
                p.copy_(rounded(p, weights_as))
            written[p] = state.get("halfulp_master"), p._version
            kept.pop(p, None)

    with torch.no_grad():
        for p in parameters():
            if p.dtype is not torch.float32 or p.device.type != "cpu":
                raise TypeError(f"optimizer: a parameter of {p.dtype} on {p.device}; accepted: float32 in the CPU's memory")
            if master:
                kept[p] = p.detach().clone()
            if weights_as:
                p.copy_(rounded(p, weights_as))
            written[p] = kept.get(p), p._version
    optimizer.halfulp_rounds = True  # type: ignore[attr-defined]
    optimizer.__deepcopy__ = optimizer.__reduce_ex__ = _refuse_to_copy  # type: ignore[attr-defined, method-assign, assignment]
    optimizer.register_step_pre_hook(before)
    optimizer.register_step_post_hook(after)
    return optimizer
