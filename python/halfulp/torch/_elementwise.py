"""Functions of single elements that the trainer has no layer for: torch computes them in fp32, and their results and
gradients are rounded like those of the nearest operator. Smooth activations count as gelu, those of straight pieces as
relu, products of two activations (gates) as residual."""
from __future__ import annotations

import functools
from typing import Any, Callable

import torch
import torch.nn.functional as F

from ._handlers import HANDLERS, Run, is_float
from ._sums import Cast, CastGradient

_AS_GELU = ("silu", "sigmoid", "tanh", "mish", "hardswish", "hardsigmoid", "elu", "celu", "selu", "logsigmoid")
_AS_RELU = ("leaky_relu", "relu6", "hardtanh", "prelu")


def _activation(function: Callable[..., Any], kind: str, run: Run, input: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    if not is_float(input) or input.dim() < 2 or not run.in_a_module:
        return NotImplemented
    inplace = kwargs.pop("inplace", False)
    if args and isinstance(args[-1], bool):  # by its position
        inplace, args = args[-1], args[:-1]
    name = run.site(kind)
    y = Cast.apply(run, kind, name, function(CastGradient.apply(run, kind, name, input.clone() if inplace else input), *args, **kwargs))
    return input.copy_(y) if inplace else y


def _functions(name: str) -> list[Any]:
    return [f for f in (getattr(F, name, None), getattr(torch, name, None), getattr(torch.Tensor, name, None)) if f is not None]


for _kind, _names in (("gelu", _AS_GELU), ("relu", _AS_RELU)):
    for _name in _names:
        for _function in _functions(_name):
            HANDLERS[_function] = functools.partial(_activation, _function, _kind)


def _gate(run: Run, input: Any, other: Any) -> Any:
    """A product of two different activations of one shape."""
    a, b = input, other
    if not (is_float(a) and is_float(b)) or a is b or a.shape != b.shape or a.dim() < 2 or not run.in_a_module or any(isinstance(x, torch.nn.Parameter) for x in (a, b)):
        return NotImplemented
    name = run.site("residual")
    x, y = (CastGradient.apply(run, "residual", name, t) if t.requires_grad else t for t in (a, b))
    return Cast.apply(run, "residual", name, torch.mul(x, y), True)


for _function in (torch.mul, torch.Tensor.mul, torch.Tensor.__mul__, torch.Tensor.__rmul__):
    HANDLERS[_function] = _gate
