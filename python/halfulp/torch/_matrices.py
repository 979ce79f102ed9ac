"""Products of the trainer as functions of torch: linear, matmul, convolutions, attention."""
from __future__ import annotations

import functools
import math
from typing import Any

import torch
import torch.nn.functional as F

from ._handlers import Run, address, dense, empty, handles, is_float, of_step, once
from ._layers import Layer, dropout, layer, square


class _Linear(torch.autograd.Function):
    """y = x W^T + b, with W as outputs x inputs, or turned."""

    @staticmethod
    def forward(ctx: Any, run: Run, kind: str, name: str, turned: bool, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        rows, w = dense(x), dense(weight)
        outputs = w.shape[1 if turned else 0]
        y = empty(rows.shape[0], outputs)
        b = None if bias is None else dense(bias)
        run.precision.product(kind, name, "forward", 1, rows.shape[0], outputs, rows.shape[1], address(rows), False, address(w), not turned, 0 if b is None else address(b), address(y))
        ctx.save_for_backward(rows, w)
        of_step(ctx, run)
        ctx.kind, ctx.name, ctx.turned = kind, name, turned
        return y

    @staticmethod
    @once
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[Any, ...]:
        (x, w), run, kind, name = ctx.saved_tensors, ctx.run, ctx.kind, ctx.name
        with torch._C.DisableTorchFunction():
            d = dense(dy)
            (rows, inputs), outputs = x.shape, d.shape[1]
            dx = dw = db = None
            if ctx.needs_input_grad[5]:
                dw = empty(outputs, inputs)
                run.precision.product(kind, name, "to-weight", 1, outputs, inputs, rows, address(d), True, address(x), False, 0, address(dw))
                dw = dw.mT if ctx.turned else dw
            if ctx.needs_input_grad[6]:
                db = empty(outputs)
                site = f"{name}.bias" if name else "bias"
                run.precision.column_sums(kind, site, rows, outputs, address(d), address(db))
                run.precision.cast(kind, site, "gradient-of-weight", address(db), outputs)
            if ctx.needs_input_grad[4]:
                dx = empty(rows, inputs)
                run.precision.product(kind, name, "to-input", 1, rows, inputs, outputs, address(d), False, address(w), ctx.turned, 0, address(dx))
        return None, None, None, None, dx, dw, db


def _linear_of(run: Run, x: torch.Tensor, weight: torch.Tensor, bias: Any, turned: bool) -> Any:
    if not is_float(x) or not is_float(weight) or weight.dim() != 2 or x.dim() == 0 or x.numel() == 0 or weight.numel() == 0:
        return NotImplemented
    inputs, outputs = weight.shape if turned else weight.shape[::-1]
    if x.shape[-1] != inputs or (bias is not None and (not is_float(bias) or bias.shape != (outputs,))):
        return NotImplemented
    y = _Linear.apply(run, "linear", run.site("linear"), turned, x.reshape(-1, x.shape[-1]), weight, bias)
    return y.reshape(*x.shape[:-1], y.shape[-1])


@handles(F.linear)
def _linear(run: Run, input: torch.Tensor, weight: torch.Tensor, bias: Any = None) -> Any:
    return _linear_of(run, input, weight, bias, False)


@handles(torch.addmm, torch.Tensor.addmm)
def _addmm(run: Run, input: Any, mat1: torch.Tensor, mat2: torch.Tensor, *, beta: float = 1, alpha: float = 1) -> Any:
    """Conv1D of GPT-2: its weight is inputs x outputs."""
    if beta != 1 or alpha != 1 or not isinstance(input, torch.Tensor) or not _have_axes(2, mat1, mat2):
        return NotImplemented
    return _linear_of(run, mat1, mat2, input, True)


class _Matmul(torch.autograd.Function):
    """Products of activations: y = a b of stacks of matrices. `scores`: b comes turned, as keys do."""

    @staticmethod
    def forward(ctx: Any, run: Run, kind: str, name: str, a: torch.Tensor, b: torch.Tensor, turned: bool) -> torch.Tensor:
        x, y = dense(a), dense(b)
        count, m, k = x.shape
        n = y.shape[1 if turned else 2]
        d = empty(count, m, n)
        run.precision.product(kind, name, "forward", count, m, n, k, address(x), False, address(y), turned, 0, address(d))
        ctx.save_for_backward(x, y)
        of_step(ctx, run)
        ctx.kind, ctx.name, ctx.turned = kind, name, turned
        return d

    @staticmethod
    @once
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        (a, b), run = ctx.saved_tensors, ctx.run
        with torch._C.DisableTorchFunction():
            dy = dense(gradient)
            (count, m, k), n = a.shape, dy.shape[2]
            da = db = None
            if ctx.needs_input_grad[3]:
                da = torch.empty_like(a)
                run.precision.product(ctx.kind, ctx.name, "to-input", count, m, k, n, address(dy), False, address(b), not ctx.turned, 0, address(da))
            if ctx.needs_input_grad[4]:
                db = torch.empty_like(b)
                if ctx.turned:  # dK = dy^T Q
                    run.precision.product(ctx.kind, ctx.name, "to-weight", count, n, k, m, address(dy), True, address(a), False, 0, address(db))
                else:  # dV = P^T dy
                    run.precision.product(ctx.kind, ctx.name, "to-weight", count, k, n, m, address(a), True, address(dy), False, 0, address(db))
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


@handles(torch.mm, torch.Tensor.mm)
def _mm(run: Run, input: torch.Tensor, mat2: torch.Tensor) -> Any:
    return _matmul(run, input, mat2) if _have_axes(2, input, mat2) else NotImplemented


@handles(torch.bmm, torch.Tensor.bmm)
def _bmm(run: Run, input: torch.Tensor, mat2: torch.Tensor) -> Any:
    return (
        _matmul(run, input, mat2) if _have_axes(3, input, mat2) and input.shape[0] == mat2.shape[0] else NotImplemented
    )


def _have_axes(count: int, *tensors: Any) -> bool:
    return all(isinstance(t, torch.Tensor) and t.dim() == count for t in tensors)


@handles(torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__)
def _matmul(run: Run, input: torch.Tensor, other: torch.Tensor) -> Any:
    a, b = input, other
    if not is_float(a) or not is_float(b) or a.numel() == 0 or b.numel() == 0:
        return NotImplemented
    if isinstance(b, torch.nn.Parameter) and b.dim() == 2:
        return _linear_of(run, a, b, None, True)
    if a.dim() < 2 or b.dim() < 2 or a.shape[-1] != b.shape[-2] or not _broadcast(a, b):
        return NotImplemented
    # Scores multiply by keys, which are rows in memory; values are columns.
    scores = b.mT.is_contiguous() and not b.is_contiguous()
    kind = "attention-scores" if scores else "attention-values"
    return _matmul_of(run, kind, run.site(kind), a, b.mT if scores else b, scores)


@handles(torch.einsum, getattr(torch.functional, "einsum", None))
def _einsum(run: Run, *arguments: Any) -> Any:
    """A product of two operands, each letter of which is a batch, a row, a column or a term."""
    equation, operands = arguments[0], arguments[1] if len(arguments) == 2 and isinstance(arguments[1], (list, tuple)) else arguments[1:]
    if not isinstance(equation, str) or len(operands) != 2 or "." in equation or "->" not in equation or not all(map(is_float, operands)):
        return NotImplemented
    inputs, out = equation.replace(" ", "").split("->")
    if inputs.count(",") != 1:
        return NotImplemented
    (left, right), (a, b) = inputs.split(","), operands
    if isinstance(a, torch.nn.Parameter) and not isinstance(b, torch.nn.Parameter):
        a, b, left, right = b, a, right, left
    if any(len(set(letters)) != len(letters) for letters in (left, right, out)) or len(left) != a.dim() or len(right) != b.dim():
        return NotImplemented  # diagonals
    batch = [x for x in left if x in right and x in out]
    terms = [x for x in left if x in right and x not in out]
    rows, columns = [x for x in left if x not in right], [x for x in right if x not in left]
    if not terms or set(rows + columns + batch) != set(out):
        return NotImplemented  # outer products, sums over one operand
    sizes = {**dict(zip(left, a.shape)), **dict(zip(right, b.shape))}
    if any(sizes[x] != n for letters, shape in ((left, a.shape), (right, b.shape)) for x, n in zip(letters, shape)) or 0 in sizes.values():
        return NotImplemented
    def extent(letters: list[str]) -> int:
        return math.prod(sizes[x] for x in letters)
    x = a.permute([left.index(c) for c in batch + rows + terms]).reshape(extent(batch), extent(rows), extent(terms))
    w = b.permute([right.index(c) for c in batch + columns + terms]).reshape(extent(batch), extent(columns), extent(terms))
    if isinstance(b, torch.nn.Parameter) and not batch:
        y = _Linear.apply(run, "linear", run.site("linear"), False, x[0], w[0], None)
    else:
        y = _Matmul.apply(run, "attention-scores", run.site("attention-scores"), x, w, True)
    order = batch + rows + columns
    return y.reshape([sizes[c] for c in order]).permute([order.index(c) for c in out])


def convolution(run: Run, x: torch.Tensor, weight: torch.Tensor, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    """A convolution of one or two axes as a product of what each place sees, ordered (channel, row, column), for each
    group. Of several, each has scales of its own."""
    axes = weight.dim() - 2
    if not is_float(x) or not is_float(weight) or axes not in (1, 2) or x.dim() != weight.dim() or weight.numel() == 0 or x.numel() == 0 or (bias is not None and (not is_float(bias) or bias.shape != weight.shape[:1])):
        return NotImplemented
    def pair(v: Any, alone: int) -> tuple[int, ...] | None:
        both = (v,) * axes if isinstance(v, int) else tuple(v) if isinstance(v, (tuple, list)) else ()
        both = both * axes if len(both) == 1 else both
        return (alone, *both) if len(both) == axes == 1 else both if len(both) == axes else None
    step, edge, apart = pair(stride, 1), pair(padding, 0), pair(dilation, 1)
    if step is None or edge is None or apart is None or min(*step, *apart, groups) < 1 or min(edge) < 0 or x.shape[1] != weight.shape[1] * groups or weight.shape[0] % groups:
        return NotImplemented
    image, kernel = (t.unsqueeze(2) if axes == 1 else t for t in (x, weight))
    size = [(image.shape[2 + i] + 2 * edge[i] - apart[i] * (kernel.shape[2 + i] - 1) - 1) // step[i] + 1 for i in (0, 1)]
    if min(size) < 1:
        return NotImplemented
    seen = F.unfold(image, tuple(kernel.shape[2:]), dilation=apart, padding=edge, stride=step).mT.reshape(-1, groups, kernel[0].numel())
    name, each, parts = run.site("conv2d"), weight.shape[0] // groups, []
    for g in range(groups):
        some = slice(g * each, (g + 1) * each)
        parts.append(_Linear.apply(run, "conv2d", name if groups == 1 else f"{name}.group{g}".lstrip("."), False, seen[:, g], kernel[some].flatten(1), None if bias is None else bias[some]))
    y = torch.cat(parts, 1).reshape(x.shape[0], -1, weight.shape[0]).mT
    return y.reshape(x.shape[0], weight.shape[0], *(size[1:] if axes == 1 else size))


@handles(F.conv1d, torch.conv1d)
def _conv1d(run: Run, input: torch.Tensor, weight: torch.Tensor, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Any:
    return convolution(run, input, weight, bias, stride, padding, dilation, groups)


@handles(F.conv2d, torch.conv2d)
def _conv2d(run: Run, input: torch.Tensor, weight: torch.Tensor, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Any:
    """The trainer's layer where it is one: square, dense, of one group."""
    step, edge, apart = square(stride, 1), square(padding, 0), square(dilation, 1)
    if groups != 1 or apart != 1 or step is None or edge is None or not is_float(weight) or weight.dim() != 4 or weight.shape[2] != weight.shape[3]:
        return convolution(run, input, weight, bias, stride, padding, dilation, groups)
    side = weight.shape[2]
    if not is_float(input) or input.dim() != 4 or weight.shape[1] != input.shape[1] or min(input.shape[2:]) + 2 * edge < side or (bias is not None and bias.shape != weight.shape[:1]) or weight.numel() == 0:
        return NotImplemented
    options = {"inputs": weight.shape[1], "outputs": weight.shape[0], "kernel": side, "stride": step, "padding": edge, "bias": bias is not None}
    return layer(run, "conv2d", options, input, (weight,) if bias is None else (weight, bias))


class _Scaled(torch.autograd.Function):
    """Scores times a factor, -inf where they are hidden."""

    @staticmethod
    def forward(ctx: Any, s: torch.Tensor, factor: float, hidden: torch.Tensor | None) -> torch.Tensor:
        ctx.factor, ctx.hidden = factor, hidden
        y = torch.mul(s, factor)
        return y if hidden is None else y.masked_fill_(hidden, -math.inf)

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[Any, ...]:
        with torch._C.DisableTorchFunction():
            seen = dy if ctx.hidden is None else dy.masked_fill(ctx.hidden, 0.0)
            return seen * ctx.factor, None, None


@functools.lru_cache(maxsize=8)
def _future(queries: int, keys: int) -> torch.Tensor:
    """The keys that come after their query."""
    with torch.inference_mode(False):  # it outlives this call
        return torch.ones(queries, keys, dtype=torch.bool, device="cpu").triu(1)


@handles(F.scaled_dot_product_attention)
def _attention(run: Run, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
               enable_gqa: bool = False) -> Any:
    if not all(is_float(t) and t.dim() >= 2 and t.numel() for t in (query, key, value)) or (is_causal and attn_mask is not None):
        return NotImplemented
    if attn_mask is not None and attn_mask.dtype not in (torch.bool, torch.float32):
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
    s = _matmul_of(run, "attention-scores", named("scores"), query, key, True)
    hidden = None
    if is_causal:
        hidden = _future(*s.shape[-2:])
    elif attn_mask is not None and attn_mask.dtype is torch.bool:
        hidden, attn_mask = ~attn_mask, None
    s = _Scaled.apply(s, 1 / math.sqrt(query.shape[-1]) if scale is None else scale, hidden)
    if attn_mask is not None:
        s = s + attn_mask
    unseen = s.detach().amax(-1, keepdim=True) == -math.inf  # rows that see nothing are 0, as torch has it
    masked = bool(unseen.any())
    s = s.masked_fill(unseen, 0.0) if masked else s
    p = Layer.apply(run, "softmax", named("softmax"), {}, True, [], s.reshape(-1, s.shape[-1])).reshape(s.shape)
    p = p.masked_fill(unseen, 0.0) if masked else p
    if dropout_p:
        dropped = dropout(run, p, dropout_p)
        p = F.dropout(p, dropout_p) if dropped is NotImplemented else dropped  # all of it, or torch's error
    return _matmul_of(run, "attention-values", named("values"), p, value, False)
