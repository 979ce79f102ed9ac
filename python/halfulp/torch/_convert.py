"""Models whose linear layers carry a policy with them."""
from __future__ import annotations

import json
from typing import Any, Mapping

import torch

from .. import _core
from .._core import Rounding
from ._emulation import policy_text
from ._products import linear
from ._rounding import quantization
from ._tensors import fresh_seed


class PolicyLinear(torch.nn.Module):
    """A linear layer under a policy: what torch.nn.Linear computes, by halfulp.torch.linear(), with results and gradients
    rounded as the policy says. Its parameters have Linear's names. `turned`: the weight is inputs x outputs, as in
    Conv1D of Hugging Face. Stochastic rounding draws fresh bits from torch's own generator."""

    def __init__(self, weight: torch.nn.Parameter, bias: torch.nn.Parameter | None, precision: Mapping[str, Any], turned: bool = False) -> None:
        super().__init__()
        self.weight, self.bias = weight, bias
        self.precision, self.turned = precision, turned
        self.in_features, self.out_features = tuple(weight.shape) if turned else tuple(weight.shape[::-1])
        # As torch.ops.halfulp.quantize takes them: texts, which torch.compile and pickle know.
        results = {role: _storage(storage) for role, storage in precision["results"].items()}
        self._result = quantization(*results["activation"], None, None, None, "ste")
        self._gradients = {role: quantization("fp32", "nearest-even", None, None, None, results[role]) for role in ("gradient-of-activation", "gradient-of-weight")}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        operands, sums, gradients = self.precision["operands"], self.precision["accumulate"], self._gradients
        weight = _quantized(self.weight, gradients["gradient-of-weight"])
        bias = None if self.bias is None else _quantized(self.bias, gradients["gradient-of-weight"])
        y = linear(_quantized(x, gradients["gradient-of-activation"]), weight.mT if self.turned else weight, bias, model=sums["forward"], to_input=sums["to-input"],
                   to_weight=sums["to-weight"], input_format=operands["activation"], weight_format=operands["weight"], gradient_format=operands["gradient-of-activation"])
        return _quantized(y, self._result)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, bias={self.bias is not None}, operands={self.precision['operands']}"


def convert(model: torch.nn.Module, policy: str | Mapping[str, Any], rules: Mapping[str, Any] | None = None) -> torch.nn.Module:
    """Replaces a model's linear layers (torch.nn.Linear, and Conv1D of Hugging Face) by PolicyLinear, in place, and
    returns it: to be saved whole, exported or compiled. Parameters and the names of state_dict() stay; a state_dict() does
    not hold the policy. Layers that were converted before are converted anew. What other operators
    the policy speaks of stays torch's; emulate() covers them. Without stochastic rounding the layers have emulate()'s
    bits. Raises ValueError for policies that keep something between steps (delayed scales), reuse rounded operands
    (straight_through) or round within sums (inside), naming the layer. policy and rules: as of emulate()."""
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model: {type(model).__name__}; accepted: a torch.nn.Module")
    precision = _core.Precision(policy_text(policy, rules, model), 0)
    replaced: dict[str, torch.nn.Module] = {}
    made: dict[int, torch.nn.Module] = {}  # of modules with several names
    for name, module in model.named_modules(remove_duplicate=False):
        here = name or "the model"
        if isinstance(module, torch.nn.TransformerEncoderLayer):
            raise ValueError(f"model: {here} is a TransformerEncoderLayer, whose evaluation reads the weights of its layers by itself; accepted: models without, or emulate()")
        turned = type(module).__name__ == "Conv1D" and hasattr(module, "nf")
        if not isinstance(module, (torch.nn.Linear, PolicyLinear)) and not turned:
            continue
        if "weight" not in module._parameters or module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks:
            raise ValueError(f"model: {here} has hooks or a weight that is computed (weight_norm, prune, parametrize); accepted: plain layers, or emulate()")
        its = json.loads(precision.at("linear", name))
        if its["straight_through"] or its["inside"] or any(isinstance(s, Mapping) and "delayed" in s for s in its["operands"].values()):
            raise ValueError(f"policy: {precision.name} keeps more than a layer can for {here} (delayed scales, straight_through or inside); accepted: policies without, or emulate()")
        if type(module) in (torch.nn.Linear, PolicyLinear) or turned:
            new = made.setdefault(id(module), PolicyLinear(module.weight, module.bias, its, getattr(module, "turned", turned)))  # type: ignore[arg-type]
            replaced[name] = new.train(module.training)
    if "" in replaced:
        return replaced[""]
    for name, module in replaced.items():
        parent, _, last = name.rpartition(".")
        setattr(model.get_submodule(parent), last, module)
    return model


def _storage(storage: Any) -> tuple[str, Rounding]:
    its = {"format": storage} if isinstance(storage, str) else dict(storage)
    format = its.pop("format")
    return format, Rounding(its.pop("rounding", "nearest-even"), **its)


def _quantized(x: torch.Tensor, arguments: tuple[str, str, bool, str]) -> torch.Tensor:
    format, rounding, draws, rule = arguments
    if format == "fp32" and (rule.startswith("fp32|") or not x.requires_grad):
        return x
    y: torch.Tensor = torch.ops.halfulp.quantize(x, fresh_seed(None, None) if draws else None, format, rounding, 0, 0, None, rule)
    return y
