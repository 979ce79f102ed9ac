"""Layers of the trainer as functions of torch."""
from __future__ import annotations

import math
import types
from typing import Any, Callable

import torch
import torch.nn.functional as F

from .. import _core
from ._handlers import Run, address, dense, empty, handles, is_float, of_step, once, sized


class Layer(torch.autograd.Function):
    """One layer of training/layers on one tensor with parameters."""

    @staticmethod
    def forward(ctx: Any, run: Run, kind: str, name: str, options: dict[str, float], training: bool, states: list[torch.Tensor], x: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        # Of an option that changes from step to step, as BatchNorm's momentum may, only the last one's layers are kept.
        site = kind, name, ctx.needs_input_grad[6]
        kept, pool = run.layers.get(site, ({}, []))
        if kept != options:
            pool = []
        run.layers[site] = options, pool
        layer = pool.pop() if pool else _core.Layer(kind, name, options)
        values, owned = dense(x), [dense(p) for p in parameters]
        if states:
            layer.state(sized(states), True)
        y = empty(*layer.forward(run.precision, list(values.shape), address(values), sized(owned), training))
        layer.take(address(y))
        run.last_layer = layer
        if states and training:
            layer.state(sized(states), False)
        if any(ctx.needs_input_grad):
            of_step(ctx, run)
            ctx.layer, ctx.pool, ctx.shape, ctx.training, ctx.shapes = (
                layer,
                pool,
                x.shape,
                training,
                [p.shape for p in parameters],
            )
        else:
            pool.append(layer)
        return y

    @staticmethod
    @once
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[Any, ...]:
        if ctx.layer is None:
            raise RuntimeError("halfulp.torch.emulate: a second backward pass through the same graph; accepted: one")
        with torch._C.DisableTorchFunction():
            d = dense(dy)
            dx = empty(*ctx.shape) if ctx.needs_input_grad[6] else None
            gradients = [empty(*shape) for shape in ctx.shapes]
            ctx.layer.backward(ctx.run.precision, address(d), 0 if dx is None else address(dx), sized(gradients), ctx.training)
        ctx.pool.append(ctx.layer)  # with its memory, for the next step
        ctx.layer = None
        return None, None, None, None, None, None, dx, *gradients


def layer(run: Run, kind: str, options: dict[str, float], x: torch.Tensor, parameters: tuple[torch.Tensor, ...] = (), training: bool = True,
          states: tuple[torch.Tensor, ...] = (), shape: tuple[int, ...] | None = None) -> Any:
    """The layer on x, or on x as `shape` where it has more axes than layers know. NotImplemented for other types."""
    if not is_float(x) or not all(is_float(p) for p in parameters) or x.numel() == 0:
        return NotImplemented
    y = Layer.apply(run, kind, run.site(kind), options, training, list(states), x if shape is None else x.reshape(shape), *parameters)
    return y if shape is None else y.reshape(x.shape)


def _rows(x: torch.Tensor) -> tuple[int, int]:
    return (-1, x.shape[-1]) if x.dim() else (1, 1)


@handles(F.relu, torch.relu, torch.Tensor.relu)
def _relu(run: Run, input: torch.Tensor, inplace: bool = False) -> Any:
    y = layer(run, "relu", {}, input, shape=_rows(input))
    return y if y is NotImplemented or not inplace else input.copy_(y)


@handles(F.gelu)
def _gelu(run: Run, input: torch.Tensor, approximate: str = "none") -> Any:
    if approximate not in ("none", "tanh"):
        return NotImplemented
    return layer(run, "gelu", {"tanh": approximate == "tanh"}, input, shape=_rows(input))


@handles(F.softmax)
def _softmax(run: Run, input: torch.Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    return _softmax_of(run, input, dim, dtype)


@handles(torch.softmax, torch.Tensor.softmax)
def _softmax_of(run: Run, input: torch.Tensor, dim: int | None = None, dtype: Any = None) -> Any:
    if not isinstance(dim, int) or not is_float(input) or dtype not in (None, torch.float32) or not -input.dim() <= dim < input.dim():
        return NotImplemented
    moved = input.movedim(dim, -1)
    y = layer(run, "softmax", {}, moved, shape=_rows(moved))
    return y if y is NotImplemented else y.movedim(-1, dim)


def _normalised(input: torch.Tensor, normalized_shape: Any) -> tuple[int, ...] | None:
    """The axes of a norm, where they are the last ones of x."""
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    return shape if shape and is_float(input) and tuple(input.shape[-len(shape):]) == shape else None


@handles(F.layer_norm, torch.layer_norm)
def _layer_norm(run: Run, input: torch.Tensor, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, cudnn_enable: bool = True) -> Any:
    shape = _normalised(input, normalized_shape)
    if shape is None or weight is None or bias is None or not tuple(weight.shape) == tuple(bias.shape) == shape:
        return NotImplemented
    width = math.prod(shape)
    return layer(run, "layer-norm", {"width": width, "eps": eps}, input, (weight.reshape(-1), bias.reshape(-1)), shape=(-1, width))


@handles(getattr(F, "rms_norm", None), getattr(torch, "rms_norm", None))
def _rms_norm(run: Run, input: torch.Tensor, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    shape = _normalised(input, normalized_shape)
    if shape is None or weight is None or tuple(weight.shape) != shape:
        return NotImplemented
    width = math.prod(shape)
    return layer(run, "rms-norm", {"width": width, "eps": torch.finfo(torch.float32).eps if eps is None else eps}, input, (weight.reshape(-1),), shape=(-1, width))


@handles(F.batch_norm)
def _batch_norm(run: Run, input: torch.Tensor, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5) -> Any:
    if not is_float(input) or input.dim() not in (2, 4) or momentum is None:
        return NotImplemented
    own = (weight, bias, running_mean, running_var)
    if not all(is_float(t) and t.shape == input.shape[1:2] for t in own) or not (running_mean.is_contiguous() and running_var.is_contiguous()):
        return NotImplemented
    return layer(run, "batch-norm", {"width": weight.numel(), "eps": eps, "momentum": momentum}, input, (weight, bias), training, (running_mean, running_var))


@handles(F.embedding)
def _embedding(run: Run, input: torch.Tensor, weight: torch.Tensor, padding_idx: Any = None, max_norm: Any = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False) -> Any:
    if padding_idx is not None or max_norm is not None or scale_grad_by_freq or sparse or not is_float(weight) or weight.dim() != 2 or weight.shape[0] > 1 << 24 or input.numel() == 0:
        return NotImplemented
    if input.dtype not in (torch.int64, torch.int32) or input.device.type != "cpu" or int(input.min()) < 0 or int(input.max()) >= weight.shape[0]:
        return NotImplemented
    y = layer(run, "embedding", {"rows": weight.shape[0], "width": weight.shape[1]}, input.reshape(-1).to(torch.float32), (weight,))
    return y if y is NotImplemented else y.reshape(*input.shape, weight.shape[1])


@handles(F.dropout)
def dropout(run: Run, input: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    if not 0 <= p <= 1:
        return NotImplemented  # torch's error
    if not training or p == 0:
        return input
    return NotImplemented if inplace or not 0 < p < 1 else layer(run, "dropout", {"p": p}, input, shape=_rows(input))


@handles(torch.dropout)
def _dropout_of(run: Run, input: torch.Tensor, p: float, train: bool) -> Any:
    return dropout(run, input, p, train)


def square(v: Any, least: int) -> int | None:
    """One number for both axes."""
    both = {v} if isinstance(v, int) else set(v) if isinstance(v, (tuple, list)) and v else set()
    one = both.pop() if len(both) == 1 else None
    return one if isinstance(one, int) and one >= least else None


def _pool(run: Run, kind: str, x: torch.Tensor, size: Any, stride: Any, padding: Any) -> Any:
    side = square(size, 1)
    step = side if stride is None or stride == [] or stride == () else square(stride, 1)
    if side is None or step is None or square(padding, 0) != 0 or x.dim() != 4 or min(x.shape[2:]) < side:
        return NotImplemented
    return layer(run, kind, {"size": side, "stride": step}, x)


@handles(F.max_pool2d, torch.max_pool2d)
def _max_pool(run: Run, input: torch.Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False, return_indices: bool = False) -> Any:
    return NotImplemented if ceil_mode or return_indices or square(dilation, 1) != 1 else _pool(run, "max-pool", input, kernel_size, stride, padding)


@handles(F.avg_pool2d)
def _average_pool(run: Run, input: torch.Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: Any = None) -> Any:
    return NotImplemented if ceil_mode or divisor_override else _pool(run, "average-pool", input, kernel_size, stride, padding)


@handles(torch.lstm, getattr(torch._VF, "lstm", None))
def _lstm(run: Run, input: Any, hx: Any, weights: Any, has_biases: Any = True, num_layers: Any = 1, dropout: float = 0.0, training: bool = False, bidirectional: bool = False, batch_first: bool = False) -> Any:
    if not isinstance(weights, (list, tuple)) or len(weights) != 4 or not has_biases or num_layers != 1 or bidirectional or not is_float(input) or input.dim() != 3:
        return NotImplemented  # packed sequences, stacks, two directions
    if any(h.requires_grad or bool(h.any()) for h in hx) or not all(is_float(w) for w in weights):
        return NotImplemented  # states that are not zero
    width = weights[1].shape[-1]
    if weights[0].shape != (4 * width, input.shape[2]) or weights[1].shape != (4 * width, width) or any(w.shape != (4 * width,) for w in weights[2:]):
        return NotImplemented
    ordered = input if batch_first else input.transpose(0, 1)
    h = layer(run, "lstm-cell", {"inputs": input.shape[2], "width": width}, ordered, tuple(weights), training)
    if h is NotImplemented:
        return h
    cells = empty(1, ordered.shape[0], width)
    run.last_layer.take_cells(address(cells))
    return h if batch_first else h.transpose(0, 1), h[:, -1].unsqueeze(0), _LastCells.apply(cells, h)


class _LastCells(torch.autograd.Function):
    """The last state of an LSTM's cell, whose gradient the trainer's layer does not take."""

    @staticmethod
    def forward(ctx: Any, cells: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        return cells.clone()

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[Any, ...]:
        raise RuntimeError(
            "halfulp.torch.emulate: the loss depends on the last cell state of an LSTM, of which the operator has no "
            "gradient; accepted: that state detached, or unused"
        )


# --- modules that write an operator out -------------------------------------------------------------

def written_out(module: torch.nn.Module) -> Callable[..., Any] | None:
    """A forward for modules of other libraries that write an operator of policies out: the same function by its name, if
    it gives the same numbers on a vector. (Some norms multiply by 1 + weight.)"""
    kind = type(module).__name__
    function: Any = None
    if kind.endswith("RMSNorm") and type(module) is not getattr(torch.nn, "RMSNorm", None) and hasattr(F, "rms_norm"):
        function = _rms_forward
    elif kind in ("NewGELUActivation", "GELUTanh", "PytorchGELUTanh"):
        function = _gelu_forward
    if function is None:
        return None
    forward = types.MethodType(function, module)  # copied with its module
    weight = getattr(module, "weight", None)
    width = weight.numel() if isinstance(weight, torch.Tensor) else 8
    try:
        with torch.no_grad():
            x = torch.linspace(-2, 3, width, dtype=torch.float32, device="cpu").unsqueeze(0)
            small = 1e-3 * x  # whose norm shows what epsilon is
            same = all(torch.allclose(module.forward(v), forward(v), rtol=1e-4, atol=1e-6) for v in (x, small))
            return forward if same else None
    except Exception:  # whatever another library's module does with a vector
        return None


def _rms_forward(module: Any, *arguments: Any, **named: Any) -> Any:
    if len(arguments) != 1 or named:  # more than a vector, which was not compared
        return type(module).forward(module, *arguments, **named)
    epsilon = next(
        (getattr(module, name) for name in ("variance_epsilon", "eps", "epsilon", "norm_eps") if hasattr(module, name)),
        None,
    )
    return F.rms_norm(arguments[0], module.weight.shape, module.weight, epsilon)


def _gelu_forward(module: Any, *arguments: Any, **named: Any) -> Any:
    if len(arguments) != 1 or named:
        return type(module).forward(module, *arguments, **named)
    return F.gelu(arguments[0], approximate="tanh")
