"""A policy around whole models: what torch would compute in fp32 is computed as the policy says."""
from __future__ import annotations

import inspect
import json
import os
import threading
import warnings
from collections import Counter
from functools import lru_cache
from typing import Any, Callable, Mapping

import torch
from torch.overrides import TorchFunctionMode, resolve_name

from .. import _core
from ..report import Report
from . import _elementwise, _matrices, _sums  # noqa: F401: they fill HANDLERS
from ._handlers import CHECKPOINTED, HANDLERS
from ._layers import written_out
from ._tensors import fresh_seed
from ._watch import Watch

# Moves, views, comparisons, and what makes tensors.
_NOTHING_TO_ROUND = set("""
    __get__ __set__ __getitem__ __setitem__ __iter__ __len__ __bool__ __int__ __float__ __index__ __repr__
    __format__ __hash__ __contains__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __invert__ __and__ __or__ __xor__
    __neg__ __deepcopy__ __reduce_ex__ view reshape permute transpose transpose_ t contiguous expand expand_as
    unsqueeze squeeze flatten unflatten chunk split unbind cat concat stack narrow select index_select gather repeat
    repeat_interleave roll flip movedim swapaxes clone detach detach_ to float type type_as cpu bool long int item
    tolist numpy size dim numel stride data_ptr is_contiguous storage_offset element_size requires_grad_ backward
    register_hook retain_grad is_floating_point is_complex masked_fill masked_fill_ where tril triu argmax argmin
    max min topk sort argsort eq ne lt le gt ge isnan isinf isfinite any all allclose equal arange zeros zeros_like
    ones ones_like empty empty_like full full_like tensor rand rand_like randn randint new_zeros new_ones new_full
    new_empty new_tensor pad abs neg sign clamp clamp_min zero_ fill_ copy_ get_device ndimension unfold diagonal
    index_put_ scatter bitwise_and logical_and logical_not logical_or broadcast_tensors meshgrid set_grad_enabled
    result_type manual_seed nonzero linspace eye scalar_tensor as_tensor grad
""".split())


_BACKWARD = {torch.Tensor.backward, torch.autograd.backward, torch.autograd.grad}


class emulate(TorchFunctionMode):
    """A training step, or an evaluation, of a model under a precision policy.

        run = halfulp.torch.emulate(model, "fp8-hybrid")
        for batch in batches:
            with run:
                loss = loss_of(model(batch))
                loss.backward()
            optimizer.step()

    model: any torch.nn.Module. policy: a name that halfulp.policies() lists, the path of a .json file, or a policy as a
    dict. rules: changes by module name, {"lm_head": "bf16", "h.0.*": {"operators": ["linear"], "operands": {...}}}: a
    pattern of names and a format (of operands and results, with sums in fp32), or the members of a policy's rule, for
    all operators unless they say which. Each `with` is one step: it counts the steps from which stochastic rounding and
    delayed scales follow. Inside torch.no_grad() it is an evaluation, which changes neither. Bits are drawn under
    `seed`, or a seed of `generator` (default: torch's own), which `run.seed` tells: with the same seed everything
    repeats.

    Inside, calls of torch's functions go to the trainer's own operators (halfulp run training), forward and backward:
    linear, matmul, conv2d, embedding, norms, softmax, gelu, relu, dropout, pooling, scaled_dot_product_attention
    (decomposed), cross_entropy, LSTM, sums of activations; and modules of Hugging Face that write an operator out
    (RMSNorm, NewGELUActivation). `run.not_covered` counts the calls that torch computed in fp32 because no operator of
    policies is like them, by name and module; the calls inside a TorchScript function cannot be seen. Tensors stay
    float32, with values of the policy's formats. Weights are rounded where operators take them; the policy's optimizer
    is not applied.

    every: each so many-th step is counted for `run.report()`: what every rounding and every product lost, in which
    layer. save_gradients: a folder into which counted steps write their gradients, as `halfulp run underflow` reads
    them. Neither changes a bit.

    `run.state_dict()` and `run.load_state_dict()` let a later run go on with the same bits. Not together with
    torch.compile(model) nor torch.utils.checkpoint. Operators take all cores; what torch itself computes inside takes
    one. Autocast is off inside, because the policy says which formats there are. Not for two threads at once, nor
    inside each other. Raises TypeError and ValueError naming the argument.
    """

    _active = threading.Lock()
    _replaces = True  # torch's results, by those of the policy

    def __init__(self, model: torch.nn.Module, policy: str | Mapping[str, Any], rules: Mapping[str, Any] | None = None, *,
                 generator: torch.Generator | None = None, seed: int | None = None, every: int = 0, save_gradients: str | os.PathLike[str] | None = None) -> None:
        super().__init__()
        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"model: {type(model).__name__}; accepted: a torch.nn.Module")
        if not isinstance(save_gradients, (str, os.PathLike, type(None))):
            raise TypeError(f"save_gradients: {type(save_gradients).__name__}; accepted: the path of a folder")
        _check_model(model)
        if isinstance(every, bool) or not isinstance(every, int) or not 0 <= every < 2**62:
            raise ValueError(f"every: {every!r}; accepted: a number of steps, or 0 for none")
        self.model = model
        self.seed = int(fresh_seed(seed, generator))
        self.precision = _core.Precision(policy_text(policy, rules, model), self.seed, every)
        _check_layers(self.precision, model)
        self.watch = Watch(self) if every else None
        self.counted = False  # whether this step is
        self.active = False  # whether this is inside the `with`
        self.step = 0
        self.not_covered: Counter[tuple[str, str]] = Counter()
        self.covered: Counter[tuple[str, str]] = Counter()
        self.layers: dict[tuple[Any, ...], list[_core.Layer]] = {}  # of earlier passes
        self.last_layer: Any = None
        if save_gradients is not None:
            self.precision.save_gradients(os.fspath(save_gradients), json.dumps({"model": type(model).__name__, "policy": self.precision.name, "seed": self.seed}))
        self._stack: list[str] = []
        self._calls: list[Counter[str]] = []
        self._names: dict[int, str] = {}
        self._written_out: dict[tuple[torch.nn.Module, bool], Any] = {}

    def __enter__(self) -> emulate:
        _check_model(self.model)  # it may have changed
        if not emulate._active.acquire(blocking=False):
            raise RuntimeError("halfulp.torch.emulate: another one is active; accepted: one at a time, in one thread")
        self._handles: list[Any] = []
        self._replaced: list[torch.nn.Module] = []
        self._threads, self._thread = torch.get_num_threads(), threading.get_ident()
        try:
            self._names = {id(module): name for name, module in self.model.named_modules()}
            self._stack, self._calls = [""], [Counter()]
            self._met: set[bool] = set()  # whether modules that ran were those of the model
            for module in self.model.modules() if self._replaces else ():
                kind = module, module.training
                if kind not in self._written_out:
                    self._written_out[kind] = "forward" not in vars(module) and written_out(module)
                if forward := self._written_out[kind]:
                    module.forward = forward
                    self._replaced.append(module)
            self._handles = [torch.nn.modules.module.register_module_forward_pre_hook(self._enter_module),
                             torch.nn.modules.module.register_module_forward_hook(self._leave_module, always_call=True)]
            # After each of its own operations torch's threads wait by spinning, in the way of those that compute here.
            if self._replaces:
                torch.set_num_threads(1)
            self._scales = None if torch.is_grad_enabled() else self.precision.state()
            if self.watch:
                self.watch.compare()
            self.counted = self.precision.begin_step(self.step, self._scales is not None)
            super().__enter__()
            self.active = True
        except BaseException:
            self._undo()
            raise
        return self

    def __exit__(self, *exception: Any) -> None:
        try:
            super().__exit__(*exception)
            if self._scales is None:
                if self.watch and self.counted:
                    self.watch.take()
                self.precision.end_step()
                self.step += 1
            else:
                self.precision.restore(self._scales)
        finally:
            self._undo()
        if self.only_strangers:
            warnings.warn("halfulp.torch.emulate: modules with parameters ran, but none of the model that the run was made for", stacklevel=2)

    def _undo(self) -> None:
        """Leaves torch and the model as they were."""
        self.active = False
        for handle in self._handles:
            handle.remove()
        for module in self._replaced:
            vars(module).pop("forward", None)
        torch.set_num_threads(self._threads)
        emulate._active.release()

    def state_dict(self) -> dict[str, Any]:
        """Seed, step and delayed scales: what a run needs to go on with the same bits."""
        return {"policy": self.precision.name, "seed": self.seed, "step": self.step, "scales": self.precision.state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on where state_dict() was taken. ValueError for that of another policy or seed."""
        if not isinstance(state, Mapping):
            raise TypeError(f"state: {type(state).__name__}; accepted: what state_dict() gave")
        if missing := [name for name in ("policy", "seed", "step", "scales") if name not in state]:
            raise ValueError(f"state: no {missing[0]!r}; accepted: what state_dict() gave")
        if isinstance(state["step"], bool) or not isinstance(state["step"], int) or state["step"] < 0:
            raise ValueError(f"state: step {state['step']!r}; accepted: a number of steps")
        if (state["policy"], state["seed"]) != (self.precision.name, self.seed):
            raise ValueError(f"state: of policy {state['policy']} and seed {state['seed']}, and this run has {self.precision.name} and {self.seed}; accepted: a run made with that policy and seed={state['seed']}")
        if not isinstance(state["scales"], str):
            raise ValueError(f"state: scales {type(state['scales']).__name__}; accepted: what state_dict() gave")
        try:
            self.precision.restore(state["scales"])
        except RuntimeError as why:  # not JSON
            raise ValueError(f"state: scales: {why}") from None
        self.step = state["step"]

    def _enter_module(self, module: torch.nn.Module, inputs: Any) -> None:
        if threading.get_ident() != self._thread:
            if self._replaces and id(module) in self._names:
                raise RuntimeError(
                    "halfulp.torch.emulate: the model runs in another thread, where torch would compute it in fp32; "
                    "accepted: the thread of the `with`"
                )
            return
        if is_compiled(module):
            raise RuntimeError("halfulp.torch.emulate: a module compiled by torch.compile runs inside, which hides its calls; accepted: the module that was compiled")
        if self._replaces and torch._C._current_graph_task_id() != -1:
            raise RuntimeError(CHECKPOINTED)
        if len(self._stack) == 1 and next(module.parameters(), None) is not None:
            self._met.add(id(module) in self._names)
        self._stack.append(self._names.get(id(module), self._stack[-1]))
        self._calls.append(Counter())

    def _leave_module(self, module: torch.nn.Module, inputs: Any, output: Any) -> None:
        if threading.get_ident() == self._thread and len(self._stack) > 1:
            self._stack.pop()
            self._calls.pop()

    @property
    def only_strangers(self) -> bool:
        """Whether modules with parameters ran in the last step, but none of the model."""
        return self._met == {False}

    @property
    def in_a_module(self) -> bool:
        return len(self._stack) > 1

    @property
    def module(self) -> str:
        """The name of the module that computes now."""
        return self._stack[-1]

    def site(self, kind: str) -> str:
        """The name of an operator: its module's; a second one of the kind in a call of the module gets a number."""
        calls = self._calls[-1]
        calls[kind] += 1
        return self.module if calls[kind] == 1 else f"{self.module}.{kind}{calls[kind]}"

    def __torch_function__(self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        if torch.is_autocast_enabled("cpu"):  # a user's, around a step: an operator's own calls are in fp32, and so are torch's
            with torch.autocast("cpu", enabled=False):
                return self.__torch_function__(function, types, args, kwargs)
        kwargs = kwargs or {}
        handler = HANDLERS.get(function)
        if handler is not None and fits(handler, len(args), tuple(kwargs)):
            result = handler(self, *args, **kwargs)
            if result is not NotImplemented:
                self.covered[name_of(function), self.module] += 1
                return result
        if self._replaces and function in _BACKWARD and (args or kwargs):
            self._note_foreign_backwards(args[0] if args else next(iter(kwargs.values())))
        result = function(*args, **kwargs)
        self.note_uncovered(function, result)
        return result

    def _note_foreign_backwards(self, roots: Any) -> None:
        """Counts the backward passes that users wrote for functions of their own: torch calls them where nobody sees
        what they compute."""
        nodes = [
            root.grad_fn
            for root in ((roots,) if isinstance(roots, torch.Tensor) else roots)
            if isinstance(root, torch.Tensor)
        ]
        seen = set(nodes)
        while nodes:
            node = nodes.pop()
            if node is None:
                continue
            function = getattr(type(node), "_forward_cls", None)
            if function is not None and function.__module__ == "torch.utils.checkpoint":
                raise RuntimeError(CHECKPOINTED)
            if function is not None and not function.__module__.startswith("halfulp."):
                self.not_covered[f"{function.__name__}.backward", ""] += 1
            fresh = [after for after, _ in node.next_functions if after not in seen]
            seen.update(fresh)
            nodes += fresh

    def note_uncovered(self, function: Callable[..., Any], result: Any) -> None:
        """Counts a call that torch computed, if it computed anything."""
        name = name_of(function)
        if name.removesuffix("_") not in _NOTHING_TO_ROUND and name not in _NOTHING_TO_ROUND and _computes(result):
            self.not_covered[name, self.module] += 1
            if self.watch:
                self.watch.look(name, result)

    def report(self) -> Report:
        """What was computed under the policy and what torch computed in fp32, by function and module (table `calls`);
        and with `every`, of the counted steps: where the error of each product comes from (`products`), what rounding
        did to each tensor (`tensors`), magnitudes of gradients (`exponents`), updates that left weights as they were
        (`updates`), the loss scaler's events, and the first Inf and NaN (`births`). A report as those of
        halfulp.run(): save(), show(), halfulp.page()."""
        calls = [[function, module, calls, covered] for covered, counts in ((True, self.covered), (False, self.not_covered)) for (function, module), calls in sorted(counts.items())]
        watched = self.watch.facts(self.precision.every) if self.watch else dict.fromkeys(("losses", "updates", "births", "events"), [])
        facts = {"model": type(self.model).__name__, "steps": self.step, "calls": calls, **watched}
        return Report(json.loads(self.precision.report(json.dumps(facts), "halfulp.torch")))


@lru_cache(maxsize=None)
def fits(handler: Callable[..., Any], positions: int, names: tuple[str, ...]) -> bool:
    """Whether a handler knows so many arguments, and those of these names."""
    try:
        inspect.signature(handler).bind(None, *(None,) * positions, **dict.fromkeys(names))
        return True
    except TypeError:
        return False


def name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", None) or str(resolve_name(function)).rsplit(".", 1)[-1]


def _computes(result: Any) -> bool:
    """Whether a call gave floats."""
    if isinstance(result, torch.Tensor):
        return result.is_floating_point()
    return isinstance(result, (tuple, list)) and any(_computes(part) for part in result)


def policy_text(policy: str | Mapping[str, Any], rules: Mapping[str, Any] | None, model: torch.nn.Module) -> str:
    if not isinstance(policy, (str, Mapping)):
        raise TypeError(f"policy: {type(policy).__name__}; accepted: a name that halfulp.policies() lists, a path or a dict")
    if rules is not None and not (isinstance(rules, Mapping) and all(isinstance(pattern, str) for pattern in rules)):
        raise TypeError(f"rules: {rules!r}; accepted: a dict of patterns of module names and formats, or members of a policy's rule")
    if not isinstance(policy, str):
        _check_json(policy, "policy")
    if not rules:
        return policy if isinstance(policy, str) else json.dumps(policy)
    _check_json(rules, "rules")
    if not isinstance(policy, str) and not isinstance(policy.get("rules", []), list):
        raise TypeError(f"policy: rules {policy['rules']!r}; accepted: a list of rules")
    names = [name for name, _ in model.named_modules()]
    changes: list[dict[str, Any]] = []
    for pattern, change in rules.items():
        if not any(_meant(pattern, name) for name in names):
            raise ValueError(f"rules: {pattern!r} is the name of no module; there are " + ", ".join(name for name in names if name)[:300])
        # Sums by a unit, which takes certain operands, are those of linear layers unless the rule says more.
        operators = ["linear"] if isinstance(change, Mapping) and set(change) == {"accumulate"} else "all"
        changes.append({"layers": [pattern], "operators": operators, **(change if isinstance(change, Mapping) else {"operands": change, "results": change, "accumulate": "fp32"})})
    if isinstance(policy, str):
        base = json.loads(_core.Precision(policy, 0).policy)
        return json.dumps({**base, "name": f"{base['name']}+rules", "rules": base.get("rules", []) + changes})
    return json.dumps({**policy, "rules": list(policy.get("rules", [])) + changes})


def _check_json(x: Any, argument: str) -> None:
    try:
        json.dumps(x)
    except (TypeError, ValueError) as why:
        raise TypeError(f"{argument}: {why}; accepted: what JSON can say") from None


def is_compiled(module: torch.nn.Module) -> bool:
    """By torch.compile(module), or module.compile()."""
    return type(module).__name__ == "OptimizedModule" or getattr(module, "_compiled_call_impl", None) is not None


def _check_model(model: torch.nn.Module) -> None:
    """Refuses what would go by a run unseen."""
    for name, module in model.named_modules():
        if is_compiled(module):
            raise TypeError(f"model: {name or 'it'} is compiled by torch.compile, which hides its calls; accepted: the module that was compiled")
        if isinstance(module, torch.jit.ScriptModule):
            raise TypeError(f"model: {name or 'it'} is a module of TorchScript, which hides its calls; accepted: the module that was scripted or traced")
        if type(module).__name__ == "PolicyLinear":
            raise TypeError(f"model: {name or 'it'} carries a policy of its own, from halfulp.torch.convert; accepted: models without")
    for name, p in model.named_parameters():
        if p.is_floating_point() and (p.dtype is not torch.float32 or p.device.type != "cpu"):
            raise TypeError(f"model: {name} is {p.dtype} on {p.device}; accepted: float32 in the CPU's memory, as model.float().cpu() has it; the policy says which formats values have")


def _check_layers(precision: _core.Precision, model: torch.nn.Module) -> None:
    """Refuses a policy whose rules name a layer that the model does not have: they would change nothing, silently."""
    names = [name for name, _ in model.named_modules()]
    for rule in json.loads(precision.policy).get("rules", []):
        for pattern in rule.get("layers", []):
            if not any(_meant(pattern, name) or name and pattern.startswith(name + ".") for name in names):
                raise ValueError(f"policy: {precision.name} has a rule for {pattern!r}, which is the name of no module; there are " + ", ".join(name for name in names if name)[:300])


def _meant(pattern: str, name: str) -> bool:
    from fnmatch import fnmatchcase
    return fnmatchcase(name, pattern) or name.startswith(pattern + ".")
