"""The operators of policies as functions of torch: HANDLERS says which call goes where.

A handler takes the active `emulate` and the call's arguments, and returns NotImplemented for calls that no operator is
like. Gradients are computed in the order of the trainer (training/layers), because roundings are counted."""
from __future__ import annotations

import functools
import math
import types
from typing import Any, Callable

import torch
import torch.nn.functional as F

from .. import _core

Run = Any  # the active `emulate`, which imports this file
HANDLERS: dict[Callable[..., Any], Callable[..., Any]] = {}


def _handles(*functions: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def note(handler: Callable[..., Any]) -> Callable[..., Any]:
        for function in functions:
            if function is not None:
                HANDLERS[function] = handler
        return handler
    return note


def _is_float(x: Any) -> bool:
    """Whether a tensor is one whose memory can be handed on."""
    return (type(x) in (torch.Tensor, torch.nn.Parameter) and x.dtype is torch.float32 and x.device.type == "cpu" and x.layout is torch.strided
            and not x.is_nested and not x._is_zerotensor() and not torch._C._functorch.is_functorch_wrapped_tensor(x))


def _empty(*shape: int) -> torch.Tensor:
    return torch.empty(shape, dtype=torch.float32, device="cpu")


def _sized(tensors: Any) -> list[tuple[int, int]]:
    """Addresses and numbers of elements, which C++ compares with its own."""
    return [(t.data_ptr(), t.numel()) for t in tensors]


def _once(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Refuses to be differentiated: with create_graph torch lets gradients be recorded in a backward pass."""
    @functools.wraps(backward)
    def wrapper(ctx: Any, *gradients: torch.Tensor) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError("halfulp.torch.emulate: operators have no second derivative; accepted: no create_graph")
        return backward(ctx, *gradients)
    return wrapper


def _dense(x: torch.Tensor) -> torch.Tensor:
    return x.detach().resolve_neg().contiguous()


# --- layers of the trainer -------------------------------------------------------------------------

class _Layer(torch.autograd.Function):
    """One layer of training/layers on one tensor with parameters."""

    @staticmethod
    def forward(ctx: Any, run: Run, kind: str, name: str, options: dict[str, float], training: bool, states: list[torch.Tensor], x: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        pool = run.layers.setdefault((kind, name, ctx.needs_input_grad[6], *options.items()), [])
        layer = pool.pop() if pool else _core.Layer(kind, name, options)
        values, dense = _dense(x), [_dense(p) for p in parameters]
        if states:
            layer.state(_sized(states), True)
        y = _empty(*layer.forward(run.precision, list(values.shape), values.data_ptr(), _sized(dense), training))
        layer.take(y.data_ptr())
        run.last_layer = layer
        if states and training:
            layer.state(_sized(states), False)
        if any(ctx.needs_input_grad):
            ctx.layer, ctx.pool, ctx.run, ctx.shape, ctx.training, ctx.shapes = layer, pool, run, x.shape, training, [p.shape for p in parameters]
        else:
            pool.append(layer)
        return y

    @staticmethod
    @_once
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[Any, ...]:
        if ctx.layer is None:
            raise RuntimeError("halfulp.torch.emulate: a second backward pass through the same graph; accepted: one")
        with torch._C.DisableTorchFunction():
            dense = _dense(dy)
            dx = _empty(*ctx.shape) if ctx.needs_input_grad[6] else None
            gradients = [_empty(*shape) for shape in ctx.shapes]
            ctx.layer.backward(ctx.run.precision, dense.data_ptr(), 0 if dx is None else dx.data_ptr(), _sized(gradients), ctx.training)
        ctx.pool.append(ctx.layer)  # with its memory, for the next step
        ctx.layer = None
        return None, None, None, None, None, None, dx, *gradients


def _layer(run: Run, kind: str, options: dict[str, float], x: torch.Tensor, parameters: tuple[torch.Tensor, ...] = (), training: bool = True,
           states: tuple[torch.Tensor, ...] = (), shape: tuple[int, ...] | None = None) -> Any:
    """The layer on x, or on x as `shape` where it has more axes than layers know. NotImplemented for other types."""
    if not _is_float(x) or not all(_is_float(p) for p in parameters) or x.numel() == 0:
        return NotImplemented
    y = _Layer.apply(run, kind, run.site(kind), options, training, list(states), x if shape is None else x.reshape(shape), *parameters)
    return y if shape is None else y.reshape(x.shape)


def _rows(x: torch.Tensor) -> tuple[int, int]:
    return (-1, x.shape[-1]) if x.dim() else (1, 1)


@_handles(F.relu, torch.relu, torch.Tensor.relu)
def _relu(run: Run, input: torch.Tensor, inplace: bool = False) -> Any:
    y = _layer(run, "relu", {}, input, shape=_rows(input))
    return y if y is NotImplemented or not inplace else input.copy_(y)


@_handles(F.gelu)
def _gelu(run: Run, input: torch.Tensor, approximate: str = "none") -> Any:
    if approximate not in ("none", "tanh"):
        return NotImplemented
    return _layer(run, "gelu", {"tanh": approximate == "tanh"}, input, shape=_rows(input))


@_handles(F.softmax)
def _softmax(run: Run, input: torch.Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    return _softmax_of(run, input, dim, dtype)


@_handles(torch.softmax, torch.Tensor.softmax)
def _softmax_of(run: Run, input: torch.Tensor, dim: int | None = None, dtype: Any = None) -> Any:
    if not isinstance(dim, int) or not _is_float(input) or dtype not in (None, torch.float32) or not -input.dim() <= dim < input.dim():
        return NotImplemented
    moved = input.movedim(dim, -1)
    y = _layer(run, "softmax", {}, moved, shape=_rows(moved))
    return y if y is NotImplemented else y.movedim(-1, dim)


def _normalised(input: torch.Tensor, normalized_shape: Any) -> tuple[int, ...] | None:
    """The axes of a norm, where they are the last ones of x."""
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    return shape if shape and _is_float(input) and tuple(input.shape[-len(shape):]) == shape else None


@_handles(F.layer_norm, torch.layer_norm)
def _layer_norm(run: Run, input: torch.Tensor, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, cudnn_enable: bool = True) -> Any:
    shape = _normalised(input, normalized_shape)
    if shape is None or weight is None or bias is None or not tuple(weight.shape) == tuple(bias.shape) == shape:
        return NotImplemented
    width = math.prod(shape)
    return _layer(run, "layer-norm", {"width": width, "eps": eps}, input, (weight.reshape(-1), bias.reshape(-1)), shape=(-1, width))


@_handles(getattr(F, "rms_norm", None), getattr(torch, "rms_norm", None))
def _rms_norm(run: Run, input: torch.Tensor, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    shape = _normalised(input, normalized_shape)
    if shape is None or weight is None or tuple(weight.shape) != shape:
        return NotImplemented
    width = math.prod(shape)
    return _layer(run, "rms-norm", {"width": width, "eps": torch.finfo(torch.float32).eps if eps is None else eps}, input, (weight.reshape(-1),), shape=(-1, width))


@_handles(F.batch_norm)
def _batch_norm(run: Run, input: torch.Tensor, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5) -> Any:
    if not _is_float(input) or input.dim() not in (2, 4) or momentum is None:
        return NotImplemented
    own = (weight, bias, running_mean, running_var)
    if not all(_is_float(t) and t.shape == input.shape[1:2] for t in own) or not (running_mean.is_contiguous() and running_var.is_contiguous()):
        return NotImplemented
    return _layer(run, "batch-norm", {"width": weight.numel(), "eps": eps, "momentum": momentum}, input, (weight, bias), training, (running_mean, running_var))


@_handles(F.embedding)
def _embedding(run: Run, input: torch.Tensor, weight: torch.Tensor, padding_idx: Any = None, max_norm: Any = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False) -> Any:
    if padding_idx is not None or max_norm is not None or scale_grad_by_freq or sparse or not _is_float(weight) or weight.dim() != 2 or weight.shape[0] > 1 << 24 or input.numel() == 0:
        return NotImplemented
    if input.dtype not in (torch.int64, torch.int32) or input.device.type != "cpu" or int(input.min()) < 0 or int(input.max()) >= weight.shape[0]:
        return NotImplemented
    y = _layer(run, "embedding", {"rows": weight.shape[0], "width": weight.shape[1]}, input.reshape(-1).to(torch.float32), (weight,))
    return y if y is NotImplemented else y.reshape(*input.shape, weight.shape[1])


@_handles(F.dropout)
def _dropout(run: Run, input: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    if not training or p == 0:
        return input
    return NotImplemented if inplace or not 0 < p < 1 else _layer(run, "dropout", {"p": p}, input, shape=_rows(input))


@_handles(torch.dropout)
def _dropout_of(run: Run, input: torch.Tensor, p: float, train: bool) -> Any:
    return _dropout(run, input, p, train)


def _square(v: Any, least: int) -> int | None:
    """One number for both axes."""
    both = {v} if isinstance(v, int) else set(v) if isinstance(v, (tuple, list)) and v else set()
    one = both.pop() if len(both) == 1 else None
    return one if isinstance(one, int) and one >= least else None


def _pool(run: Run, kind: str, x: torch.Tensor, size: Any, stride: Any, padding: Any) -> Any:
    side = _square(size, 1)
    step = side if stride is None or stride == [] or stride == () else _square(stride, 1)
    if side is None or step is None or _square(padding, 0) != 0 or x.dim() != 4 or min(x.shape[2:]) < side:
        return NotImplemented
    return _layer(run, kind, {"size": side, "stride": step}, x)


@_handles(F.max_pool2d, torch.max_pool2d)
def _max_pool(run: Run, input: torch.Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False, return_indices: bool = False) -> Any:
    return NotImplemented if ceil_mode or return_indices or _square(dilation, 1) != 1 else _pool(run, "max-pool", input, kernel_size, stride, padding)


@_handles(F.avg_pool2d)
def _average_pool(run: Run, input: torch.Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: Any = None) -> Any:
    return NotImplemented if ceil_mode or divisor_override else _pool(run, "average-pool", input, kernel_size, stride, padding)


@_handles(F.conv2d, torch.conv2d)
def _conv2d(run: Run, input: torch.Tensor, weight: torch.Tensor, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Any:
    step, edge = _square(stride, 1), _square(padding, 0)
    if groups != 1 or _square(dilation, 1) != 1 or step is None or edge is None or not _is_float(input) or not _is_float(weight) or input.dim() != 4 or weight.dim() != 4:
        return NotImplemented
    side = weight.shape[2]
    if weight.shape[3] != side or weight.shape[1] != input.shape[1] or min(input.shape[2:]) + 2 * edge < side or (bias is not None and bias.shape != weight.shape[:1]) or weight.numel() == 0:
        return NotImplemented
    options = {"inputs": weight.shape[1], "outputs": weight.shape[0], "kernel": side, "stride": step, "padding": edge, "bias": bias is not None}
    return _layer(run, "conv2d", options, input, (weight,) if bias is None else (weight, bias))


@_handles(torch.lstm, getattr(torch._VF, "lstm", None))
def _lstm(run: Run, input: Any, hx: Any, weights: Any, has_biases: Any = True, num_layers: Any = 1, dropout: float = 0.0, training: bool = False, bidirectional: bool = False, batch_first: bool = False) -> Any:
    if not isinstance(weights, (list, tuple)) or len(weights) != 4 or not has_biases or num_layers != 1 or bidirectional or not _is_float(input) or input.dim() != 3:
        return NotImplemented  # packed sequences, stacks, two directions
    if any(h.requires_grad or bool(h.any()) for h in hx) or not all(_is_float(w) for w in weights):
        return NotImplemented  # states that are not zero
    width = weights[1].shape[-1]
    if weights[0].shape != (4 * width, input.shape[2]) or weights[1].shape != (4 * width, width) or any(w.shape != (4 * width,) for w in weights[2:]):
        return NotImplemented
    ordered = input if batch_first else input.transpose(0, 1)
    h = _layer(run, "lstm-cell", {"inputs": input.shape[2], "width": width}, ordered, tuple(weights), training)
    if h is NotImplemented:
        return h
    # The last state of the cell has no gradient in the trainer's layer: it is given as a number.
    cells = _empty(1, ordered.shape[0], width)
    run.last_layer.take_cells(cells.data_ptr())
    return h if batch_first else h.transpose(0, 1), h[:, -1].unsqueeze(0), cells


# --- products --------------------------------------------------------------------------------------

class _Linear(torch.autograd.Function):
    """y = x W^T + b, with W as outputs x inputs, or turned."""

    @staticmethod
    def forward(ctx: Any, run: Run, name: str, turned: bool, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        rows, w = _dense(x), _dense(weight)
        outputs = w.shape[1 if turned else 0]
        y = _empty(rows.shape[0], outputs)
        b = None if bias is None else _dense(bias)
        run.precision.product("linear", name, "forward", 1, rows.shape[0], outputs, rows.shape[1], rows.data_ptr(), False, w.data_ptr(), not turned, 0 if b is None else b.data_ptr(), y.data_ptr())
        ctx.save_for_backward(rows, w)
        ctx.run, ctx.name, ctx.turned = run, name, turned
        return y

    @staticmethod
    @_once
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[Any, ...]:
        (x, w), run, name = ctx.saved_tensors, ctx.run, ctx.name
        with torch._C.DisableTorchFunction():
            d = _dense(dy)
            (rows, inputs), outputs = x.shape, d.shape[1]
            dx = dw = db = None
            if ctx.needs_input_grad[4]:
                dw = _empty(outputs, inputs)
                run.precision.product("linear", name, "to-weight", 1, outputs, inputs, rows, d.data_ptr(), True, x.data_ptr(), False, 0, dw.data_ptr())
                dw = dw.mT if ctx.turned else dw
            if ctx.needs_input_grad[5]:
                db = _empty(outputs)
                site = f"{name}.bias" if name else "bias"
                run.precision.column_sums("linear", site, rows, outputs, d.data_ptr(), db.data_ptr())
                run.precision.cast("linear", site, "gradient-of-weight", db.data_ptr(), outputs)
            if ctx.needs_input_grad[3]:
                dx = _empty(rows, inputs)
                run.precision.product("linear", name, "to-input", 1, rows, inputs, outputs, d.data_ptr(), False, w.data_ptr(), ctx.turned, 0, dx.data_ptr())
        return None, None, None, dx, dw, db


def _linear_of(run: Run, x: torch.Tensor, weight: torch.Tensor, bias: Any, turned: bool) -> Any:
    if not _is_float(x) or not _is_float(weight) or weight.dim() != 2 or x.dim() == 0 or x.numel() == 0 or weight.numel() == 0:
        return NotImplemented
    inputs, outputs = weight.shape if turned else weight.shape[::-1]
    if x.shape[-1] != inputs or (bias is not None and (not _is_float(bias) or bias.shape != (outputs,))):
        return NotImplemented
    y = _Linear.apply(run, run.site("linear"), turned, x.reshape(-1, x.shape[-1]), weight, bias)
    return y.reshape(*x.shape[:-1], y.shape[-1])


@_handles(F.linear)
def _linear(run: Run, input: torch.Tensor, weight: torch.Tensor, bias: Any = None) -> Any:
    return _linear_of(run, input, weight, bias, False)


@_handles(torch.addmm, torch.Tensor.addmm)
def _addmm(run: Run, input: Any, mat1: torch.Tensor, mat2: torch.Tensor, *, beta: float = 1, alpha: float = 1) -> Any:
    """Conv1D of GPT-2: its weight is inputs x outputs."""
    if beta != 1 or alpha != 1 or not isinstance(input, torch.Tensor):
        return NotImplemented
    return _linear_of(run, mat1, mat2, input, True)


class _Matmul(torch.autograd.Function):
    """Products of activations: y = a b of stacks of matrices. `scores`: b comes turned, as keys do."""

    @staticmethod
    def forward(ctx: Any, run: Run, kind: str, name: str, a: torch.Tensor, b: torch.Tensor, turned: bool) -> torch.Tensor:
        x, y = _dense(a), _dense(b)
        count, m, k = x.shape
        n = y.shape[1 if turned else 2]
        d = _empty(count, m, n)
        run.precision.product(kind, name, "forward", count, m, n, k, x.data_ptr(), False, y.data_ptr(), turned, 0, d.data_ptr())
        ctx.save_for_backward(x, y)
        ctx.run, ctx.kind, ctx.name, ctx.turned = run, kind, name, turned
        return d

    @staticmethod
    @_once
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        (a, b), run = ctx.saved_tensors, ctx.run
        with torch._C.DisableTorchFunction():
            dy = _dense(gradient)
            (count, m, k), n = a.shape, dy.shape[2]
            da = db = None
            if ctx.needs_input_grad[3]:
                da = torch.empty_like(a)
                run.precision.product(ctx.kind, ctx.name, "to-input", count, m, k, n, dy.data_ptr(), False, b.data_ptr(), not ctx.turned, 0, da.data_ptr())
            if ctx.needs_input_grad[4]:
                db = torch.empty_like(b)
                if ctx.turned:  # dK = dy^T Q
                    run.precision.product(ctx.kind, ctx.name, "to-weight", count, n, k, m, dy.data_ptr(), True, a.data_ptr(), False, 0, db.data_ptr())
                else:  # dV = P^T dy
                    run.precision.product(ctx.kind, ctx.name, "to-weight", count, k, n, m, a.data_ptr(), True, dy.data_ptr(), False, 0, db.data_ptr())
        return None, None, None, da, db, None


def _broadcast(*tensors: torch.Tensor) -> bool:
    """Whether the stacks of matrices fit."""
    try:
        torch.broadcast_shapes(*(t.shape[:-2] for t in tensors))
        return True
    except RuntimeError:
        return False


def _matmul_of(run: Run, kind: str, name: str, a: torch.Tensor, b: torch.Tensor, turned: bool) -> torch.Tensor:
    stack = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    x, y = (t.expand(*stack, *t.shape[-2:]).reshape(-1, *t.shape[-2:]) for t in (a, b))
    d = _Matmul.apply(run, kind, name, x, y, turned)
    return d.reshape(*stack, *d.shape[-2:])


@_handles(torch.mm, torch.Tensor.mm, torch.bmm, torch.Tensor.bmm)
def _mm(run: Run, input: torch.Tensor, mat2: torch.Tensor) -> Any:
    return _matmul(run, input, mat2)


@_handles(torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__)
def _matmul(run: Run, input: torch.Tensor, other: torch.Tensor) -> Any:
    a, b = input, other
    if not _is_float(a) or not _is_float(b) or a.numel() == 0 or b.numel() == 0:
        return NotImplemented
    if isinstance(b, torch.nn.Parameter) and b.dim() == 2:
        return _linear_of(run, a, b, None, True)
    if a.dim() < 2 or b.dim() < 2 or a.shape[-1] != b.shape[-2] or not _broadcast(a, b):
        return NotImplemented
    # Scores multiply by keys, which are rows in memory; values are columns.
    scores = b.mT.is_contiguous() and not b.is_contiguous()
    kind = "attention-scores" if scores else "attention-values"
    return _matmul_of(run, kind, run.site(kind), a, b.mT if scores else b, scores)


@_handles(F.scaled_dot_product_attention)
def _attention(run: Run, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
               enable_gqa: bool = False) -> Any:
    if not all(_is_float(t) and t.dim() >= 2 and t.numel() for t in (query, key, value)) or (is_causal and attn_mask is not None):
        return NotImplemented
    if enable_gqa:
        if query.dim() < 3 or query.shape[-3] % key.shape[-3] or query.shape[-3] % value.shape[-3]:
            return NotImplemented
        key, value = (t.repeat_interleave(query.shape[-3] // t.shape[-3], -3) for t in (key, value))
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2] or not _broadcast(query, key, value):
        return NotImplemented
    base = run.module
    def named(what: str) -> str:
        return f"{base}.{what}" if base else what
    s = _matmul_of(run, "attention-scores", named("scores"), query, key, True) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril()
    if attn_mask is not None:
        s = s.masked_fill(~attn_mask, -math.inf) if attn_mask.dtype is torch.bool else s + attn_mask
    unseen = (s.detach() == -math.inf).all(-1, keepdim=True)  # rows that see nothing are 0, as torch has it
    masked = bool(unseen.any())
    s = s.masked_fill(unseen, 0.0) if masked else s
    p = _Layer.apply(run, "softmax", named("softmax"), {}, True, [], s.reshape(-1, s.shape[-1])).reshape(s.shape)
    p = p.masked_fill(unseen, 0.0) if masked else p
    if dropout_p:
        p = _dropout(run, p, dropout_p)
    return _matmul_of(run, "attention-values", named("values"), p, value, False)


# --- sums of activations, and the loss ------------------------------------------------------------

class _Cast(torch.autograd.Function):
    """Rounds an activation for an operator; its gradient passes."""

    @staticmethod
    def forward(ctx: Any, run: Run, kind: str, name: str, x: torch.Tensor) -> torch.Tensor:
        y = x.detach().clone(memory_format=torch.contiguous_format)
        run.precision.cast(kind, name, "activation", y.data_ptr(), y.numel())
        return y

    @staticmethod
    @_once
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[Any, ...]:
        return None, None, None, dy


@_handles(torch.add, torch.Tensor.add, torch.Tensor.__add__, torch.Tensor.__radd__)
def _add(run: Run, input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """A residual sum: two activations of one shape, inside a module. The gradient of the one that was there first meets
    that of the branch, and their sum is rounded."""
    a, b = input, other
    if not (_is_float(a) and _is_float(b)) or a.shape != b.shape or a.dim() < 2 or alpha != 1 or not run.in_a_module:
        return NotImplemented
    if isinstance(a, torch.nn.Parameter) or isinstance(b, torch.nn.Parameter):
        return NotImplemented
    name = run.site("residual")
    if torch.is_grad_enabled() and a.grad_fn is not None and b.grad_fn is not None:
        earlier = min((a, b), key=lambda t: t.grad_fn._sequence_nr())

        def rounded(gradient: torch.Tensor) -> torch.Tensor:
            with torch._C.DisableTorchFunction():
                g = gradient.detach().clone(memory_format=torch.contiguous_format)
                run.precision.cast("residual", name, "gradient-of-activation", g.data_ptr(), g.numel())
            return g
        earlier.register_hook(rounded)
    return _Cast.apply(run, "residual", name, torch.add(a, b))


@_handles(torch.Tensor.add_, torch.Tensor.__iadd__)
def _add_in_place(run: Run, input: torch.Tensor, other: Any, *, alpha: Any = 1) -> Any:
    z = _add(run, input, other, alpha=alpha)
    return z if z is NotImplemented else input.copy_(z)


class _Rotary(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, base: float, run: Run, name: str) -> torch.Tensor:
        ctx.base, ctx.run, ctx.name = base, run, name
        return _turned(x, base, False, run, name, "activation")

    @staticmethod
    @_once
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[Any, ...]:
        return _turned(dy, ctx.base, True, ctx.run, ctx.name, "gradient-of-activation"), None, None, None


def _turned(x: torch.Tensor, base: float, back: bool, run: Run, name: str, role: str) -> torch.Tensor:
    with torch._C.DisableTorchFunction():
        y = x.detach().clone(memory_format=torch.contiguous_format)
        length, width = y.shape[-2:]
        _core.rotate(y.data_ptr(), y.numel() // (length * width) if y.numel() else 0, length, width, base, back)
        if run is not None:
            run.precision.cast("position", name, role, y.data_ptr(), y.numel())
    return y


def rotary(x: torch.Tensor, base: float = 10000.0) -> torch.Tensor:
    """Rotary positions (Su et al. 2021) as the trainer computes them: elements i and i + width / 2 of a vector at position
    p turn by the angle p base^(-2 i / width), as in GPT-NeoX and LLaMA. x: ... x length x width, float32, with an even
    width. Under emulate() the result is rounded as the policy's operator "position". Raises TypeError and ValueError
    naming the argument."""
    if not _is_float(x) or x.dim() < 2:
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
        ctx.loss, ctx.run, ctx.shape = _core.Loss(name), run, logits.shape
        values = _dense(logits)
        return torch.tensor(ctx.loss.forward(run.precision, values.shape[0], values.shape[1], values.data_ptr(), labels), dtype=torch.float32, device="cpu")

    @staticmethod
    @_once
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[Any, ...]:
        with torch._C.DisableTorchFunction():
            gradient = _empty(*ctx.shape)
            ctx.loss.backward(ctx.run.precision, float(dy), gradient.data_ptr())
        return None, None, gradient, None


@_handles(F.cross_entropy)
def _cross_entropy(run: Run, input: torch.Tensor, target: torch.Tensor, weight: Any = None, size_average: Any = None, ignore_index: int = -100, reduce: Any = None, reduction: str = "mean",
                   label_smoothing: float = 0.0) -> Any:
    logits, labels = input, target
    if size_average is not None or reduce is not None or not _is_float(logits) or logits.dim() != 2 or labels.dtype is not torch.int64 or labels.dim() != 1 or weight is not None or reduction != "mean" or label_smoothing:
        return NotImplemented
    seen = labels != ignore_index
    if not bool(seen.all()):
        logits, labels = logits[seen], labels[seen]
    if labels.numel() == 0:
        return NotImplemented
    return _CrossEntropy.apply(run, "loss", logits, labels.tolist())


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
            return forward if torch.allclose(module.forward(x), forward(x), rtol=1e-4, atol=1e-6) else None
    except Exception:  # whatever another library's module does with a vector
        return None


def _rms_forward(module: Any, x: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x, module.weight.shape, module.weight, getattr(module, "variance_epsilon", getattr(module, "eps", None)))


def _gelu_forward(module: Any, x: torch.Tensor) -> torch.Tensor:
    return F.gelu(x, approximate="tanh")
