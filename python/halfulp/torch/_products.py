"""Products of tensors by product models and matrix units, forward and backward."""
from __future__ import annotations

import json
import math
from functools import lru_cache
from typing import Any, Mapping

import torch

from .. import _core
from .._core import ProductModel, Rounding
from ..products import text_of_model
from ._tensors import as_any_format, as_count, check, fresh_seed, is_simple, refuse_tangent, widened

Model = ProductModel | str | Mapping[str, Any]


@lru_cache(maxsize=1024)
def _multiplication(model: str, a: str, b: str) -> _core.Multiplication:
    return _core.Multiplication(model, a, b)


def _storage(operand: Any) -> str:
    """What an operand is rounded to, as policies write it: a format or block format, a pair of it and a Rounding or a
    mode's name, or a policy's storage as a dict."""
    if operand is None:
        return ""
    if isinstance(operand, Mapping):
        return json.dumps(operand)
    rounding: Any = None
    if isinstance(operand, tuple):
        operand, rounding = operand
    format = str(as_any_format(operand))
    if rounding is None:
        return json.dumps({"format": format})
    r = rounding if isinstance(rounding, Rounding) else Rounding(rounding)
    storage: dict[str, Any] = {"format": format, "rounding": r.mode}
    if r.mode == "stochastic":
        storage["random_bits"] = r.random_bits
    if r.overflow != "ieee":
        storage["overflow"] = r.overflow
    if r.flush_outputs:
        storage["flush_outputs"] = True
    return json.dumps(storage)


@lru_cache(maxsize=1024)
def _models(plan: str) -> tuple[_core.Multiplication, str, str]:
    """Of a plan as an operator's argument: the product that is computed now, and the plans of its gradients (empty where
    there is none)."""
    texts = json.loads(plan)
    gradients = [json.dumps(texts[i:i + 3]) if texts[i:i + 3] else "" for i in (3, 6)]
    return _multiplication(*texts[:3]), gradients[0], gradients[1]


def _made_plan(model: Model, to_a: Model | None, to_b: Model | None, a: Any, b: Any, gradient: Any) -> tuple[str, bool]:
    """The models and the operands of the three products of y = a b."""
    forward, by_a, by_b = text_of_model(model), text_of_model(model if to_a is None else to_a), text_of_model(model if to_b is None else to_b)
    x, y, dy = _storage(a), _storage(b), _storage(gradient)
    if x or y or dy:
        x, y, dy = (storage or '{"format": "fp32"}' for storage in (x, y, dy))
    plan = json.dumps([forward, x, y, by_a, dy, y, by_b, dy, x])
    _models(plan)  # says what is wrong with the product that is computed now
    return plan, "stochastic" in plan


_cached_plan = lru_cache(maxsize=256)(_made_plan)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _plan(*arguments: Any) -> tuple[str, bool]:
    """A plan as an operator's argument, and whether something is drawn."""
    try:
        return _cached_plan(*arguments)
    except TypeError as why:
        if "unhashable" not in str(why):
            raise
        return _made_plan(*arguments)  # a dict has no hash


def matmul(a: torch.Tensor, b: torch.Tensor, *, model: Model = "fp32", to_a: Model | None = None, to_b: Model | None = None,
           a_format: Any = None, b_format: Any = None, gradient_format: Any = None, generator: torch.Generator | None = None, seed: int | None = None,
           stream: int = 0, out: torch.Tensor | None = None) -> torch.Tensor:
    """a b by a product model: every rounding is stated, and every bit follows the model.

    a: ... x m x k, b: ... x k x n, with the shapes and broadcasting of torch.matmul (vectors too). model: a text such as
    "fp16" or "mul=fp16,acc=fp32,order=blocked:128", a matrix unit such as "hopper.mma.fp16.fp32" (halfulp.units()) or
    its description. Operands that are not values of the model's formats are rounded to them, to nearest even. With
    a_format and b_format (a format, a block format whose blocks run along k, a pair of one and a Rounding, or a
    policy's storage as a dict) operands are rounded to these, scales meet the sums as in emulation/block/product.hpp,
    and the model is one without operands ("acc=fp32"), or a unit that takes their elements.

    The products of the backward pass are dy b^T, by `to_a`, and dy^T a, by `to_b` (default: `model`): the gradient is the
    first operand of both, rounded to gradient_format. Operands are rounded anew in each product, along its own k. The
    gradient passes these roundings unchanged.

    Stochastic rounding of operands and sums draws from `seed`, or a fresh one of `generator` (default: torch's own).
    Returns float32, or `out`, contiguous float32. Works under torch.compile(fullgraph=True), as
    torch.ops.halfulp.product. Raises TypeError and ValueError naming the argument.

    >>> matmul(torch.tensor([[1, 2**-12]]), torch.ones(2, 1), model="fp16"), matmul(torch.tensor([[1, 2**-12]]), torch.ones(2, 1))
    (tensor([[1.]]), tensor([[1.0002]]))
    """
    check(a, "a"), check(b, "b")
    stream = as_count(stream, "stream", 61)
    plan = _plan(model, to_a, to_b, a_format, b_format, gradient_format)
    return _deliver(_matmul(a, b, None, plan, _seed(plan, seed, generator), stream), out)


def bmm(a: torch.Tensor, b: torch.Tensor, **options: Any) -> torch.Tensor:
    """matmul() of two stacks of matrices, as torch.bmm."""
    check(a, "a"), check(b, "b")
    if a.dim() != 3 or b.dim() != 3 or a.shape[0] != b.shape[0]:
        raise ValueError(f"a and b: shapes {tuple(a.shape)} and {tuple(b.shape)}; accepted: stacks of as many matrices")
    return matmul(a, b, **options)


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, *, model: Model = "fp32", to_input: Model | None = None,
           to_weight: Model | None = None, input_format: Any = None, weight_format: Any = None, gradient_format: Any = None,
           generator: torch.Generator | None = None, seed: int | None = None, stream: int = 0, out: torch.Tensor | None = None) -> torch.Tensor:
    """x weight^T + bias, as torch.nn.functional.linear. The bias is added in fp32. The products of the backward pass are
    dy weight, by `to_input`, and dy^T x, by `to_weight`. Otherwise as matmul()."""
    check(x, "x"), check(weight, "weight")
    stream = as_count(stream, "stream", 61)
    if bias is not None:
        check(bias, "bias")
        if bias.shape != weight.shape[:1]:
            raise ValueError(f"bias: shape {tuple(bias.shape)}; accepted: {tuple(weight.shape[:1])}")
    if weight.dim() != 2:
        raise ValueError(f"weight: shape {tuple(weight.shape)}; accepted: a matrix")
    plan = _plan(model, to_input, to_weight, input_format, weight_format, gradient_format)
    return _deliver(_matmul(x, weight.mT, bias, plan, _seed(plan, seed, generator), stream, b_turned=True), out)


def conv2d(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, *, stride: Any = 1, padding: Any = 0, dilation: Any = 1, **options: Any) -> torch.Tensor:
    """The cross-correlation of torch.nn.functional.conv2d with one group and zero padding, as one product: a row is what a
    place of the result sees, ordered (channel, row, column). Options: those of linear()."""
    check(x, "x"), check(weight, "weight")
    if x.dim() != 4 or weight.dim() != 4 or x.shape[1] != weight.shape[1]:
        raise ValueError(f"x and weight: shapes {tuple(x.shape)} and {tuple(weight.shape)}; accepted: batch x channels x height x width, outputs x channels x height x width")
    pair = [_pair(stride, "stride", 1), _pair(padding, "padding", 0), _pair(dilation, "dilation", 1)]
    height, width = ((x.shape[2 + i] + 2 * pair[1][i] - pair[2][i] * (weight.shape[2 + i] - 1) - 1) // pair[0][i] + 1 for i in range(2))
    unfolded = torch.nn.functional.unfold(x.to(torch.float32), tuple(weight.shape[2:]), dilation=pair[2], padding=pair[1], stride=pair[0])
    rows = linear(unfolded.mT, weight.flatten(1), bias, **options)
    return rows.mT.reshape(x.shape[0], weight.shape[0], height, width)


def _pair(value: Any, argument: str, least: int) -> tuple[int, int]:
    pair = (value, value) if isinstance(value, int) else value
    if not isinstance(pair, (tuple, list)) or len(pair) != 2 or any(isinstance(v, bool) or not isinstance(v, int) or v < least for v in pair):
        raise ValueError(f"{argument}: {value!r}; accepted: an integer from {least}, or two of them")
    return pair[0], pair[1]


def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None = None, *, is_causal: bool = False, scale: float | None = None,
              scores: Mapping[str, Any] | None = None, values: Mapping[str, Any] | None = None, generator: torch.Generator | None = None, seed: int | None = None,
              **options: Any) -> torch.Tensor:
    """softmax(query key^T scale + mask) value, step by step, as torch.nn.functional.scaled_dot_product_attention
    defines it. Both products take matmul()'s options; `scores` and `values` (dicts of them) change those of one. The
    softmax is torch's, in fp32."""
    for argument, operand in (("query", query), ("key", key), ("value", value)):
        if check(operand, argument).dim() < 2:
            raise ValueError(f"{argument}: shape {tuple(operand.shape)}; accepted: ... x length x width")
    if mask is not None and not isinstance(mask, torch.Tensor):
        raise TypeError(f"mask: {type(mask).__name__}; accepted: a tensor of what is seen, or of what is added")
    length = query.shape[-2], key.shape[-2]
    seeds = fresh_seed(seed, generator) if seed is not None or generator is not None else None
    drawn = [{"seed": int(seeds) // 2 + i} for i in range(2)] if seeds is not None else [{}, {}]
    s = matmul(query, key.mT, **{**options, **drawn[0], **(scores or {})}) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        if mask is not None:
            raise ValueError("mask and is_causal: one of them says what is seen")
        mask = torch.ones(length, dtype=torch.bool).tril()
    p = None
    if mask is not None:
        s = s.masked_fill(~mask, -math.inf) if mask.dtype is torch.bool else s + mask
        unseen = (s == -math.inf).all(-1, keepdim=True)  # rows that see nothing are 0, as torch has it
        p = s.masked_fill(unseen, 0.0).softmax(-1).masked_fill(unseen, 0.0)
    return matmul(s.softmax(-1) if p is None else p, value, **{**options, **drawn[1], **(values or {})})


def _seed(plan: tuple[str, bool], seed: int | None, generator: torch.Generator | None) -> torch.Tensor | None:
    return fresh_seed(seed, generator) if plan[1] else None


def _matmul(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None, plan: tuple[str, bool], seed: torch.Tensor | None, stream: int, b_turned: bool = False) -> torch.Tensor:
    """Brings operands to stacks of matrices, and the result back. b_turned: b is the transpose of what the user gave."""
    simple = is_simple(a) and is_simple(b) and (bias is None or is_simple(bias))
    if not simple:
        for name, operand in (("a", a), ("b", b), ("bias", bias)):
            if operand is not None:
                refuse_tangent(operand, name)
    computed: Any = _computed if simple else torch.ops.halfulp.product

    def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if seed is not None:  # bits are drawn as memory lies: row by row of what the user gave, whatever its strides
            x, y = x.resolve_neg().contiguous(), y.resolve_neg()
            y = y.mT.contiguous().mT if b_turned else y.contiguous()
        return computed(x, y, bias, seed, plan[0], stream)  # type: ignore[no-any-return]
    if a.dim() == 0 or b.dim() == 0:
        raise ValueError("a and b: numbers; accepted: vectors, matrices and stacks of them")
    x, y = a.unsqueeze(0) if a.dim() == 1 else a, b.unsqueeze(1) if b.dim() == 1 else b
    if x.shape[-1] != y.shape[-2]:
        raise ValueError(f"a and b: shapes {tuple(a.shape)} and {tuple(b.shape)}, whose inner sizes differ")
    if y.dim() == 2:  # one matrix for all: rows of every stack lie below each other
        stack, rows = x.shape[:-2], x.shape[-2]
        d = product(x.reshape(1, math.prod(x.shape[:-1]), x.shape[-1]), y.unsqueeze(0))
        d = d.reshape(*stack, rows, y.shape[-1])
    else:
        stack = torch.broadcast_shapes(x.shape[:-2], y.shape[:-2])
        d = product(x.expand(*stack, *x.shape[-2:]).reshape(math.prod(stack), *x.shape[-2:]), y.expand(*stack, *y.shape[-2:]).reshape(math.prod(stack), *y.shape[-2:]))
        d = d.reshape(*stack, x.shape[-2], y.shape[-1])
    if a.dim() == 1:
        d = d.squeeze(-2)
    return d.squeeze(-1) if b.dim() == 1 else d


def _deliver(result: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    if out is None:
        return result
    if result.requires_grad:
        raise ValueError("out: operands require gradients, which would be lost in it; accepted: detached operands, or no out")
    check(out, "out")
    if out.shape != result.shape or out.dtype not in (torch.float32, torch.float64) or out.requires_grad:
        raise ValueError(f"out: {out.dtype} of shape {tuple(out.shape)}; accepted: torch.float32 of shape {tuple(result.shape)}, without a gradient")
    return out.copy_(result)


def _laid_out(x: torch.Tensor) -> tuple[torch.Tensor, bool]:
    """A stack of matrices of float32 as memory has it: as it is, or each turned."""
    if x.dtype is not torch.float32 or x.is_neg() or x._is_zerotensor():
        x = widened(x).to(torch.float32)
    if x.is_contiguous():
        return x, False
    if x.mT.is_contiguous():
        return x.mT, True
    return x.contiguous(), False


def _computed(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None, seed: torch.Tensor | None, plan: str, stream: int) -> torch.Tensor:
    (count, m, k), n = a.shape, b.shape[2]
    x, a_turned = _laid_out(a.detach())
    y, b_turned = _laid_out(b.detach())
    row = None if bias is None else widened(bias).to(torch.float32)
    d = torch.empty((count, m, n), dtype=torch.float32, device="cpu")
    if d.numel():
        _models(plan)[0](count, m, n, k, x.data_ptr(), a_turned, y.data_ptr(), b_turned, 0 if row is None else row.data_ptr(), d.data_ptr(), 0 if seed is None else int(seed), stream)
    return d


_product = torch.library.custom_op("halfulp::product", _computed, mutates_args=(), schema="(Tensor a, Tensor b, Tensor? bias, Tensor? seed, str plan, int stream) -> Tensor")


@_product.register_fake
def _(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None, seed: torch.Tensor | None, plan: str, stream: int) -> torch.Tensor:
    return torch.empty((a.shape[0], a.shape[1], b.shape[2]), dtype=torch.float32, device=a.device)


@torch.library.custom_op("halfulp::column_sums", mutates_args=(), schema="(Tensor x) -> Tensor")
def _column_sums(x: torch.Tensor) -> torch.Tensor:
    """The gradient of a bias, in the trainer's order of sums."""
    rows = widened(x).to(torch.float32).reshape(-1, x.shape[-1])
    sums = torch.empty(rows.shape[1], dtype=torch.float32, device="cpu")
    _core.column_sums_at(rows.shape[1], rows.data_ptr(), rows.numel(), sums.data_ptr())
    return sums


@_column_sums.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty((x.shape[-1],), dtype=torch.float32, device=x.device)


def _save_operands(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    a, b, bias, seed, plan, stream = inputs
    ctx.save_for_backward(a, b, seed)
    ctx.plan, ctx.stream, ctx.bias_dtype = plan, stream, None if bias is None else bias.dtype


def _gradients_of_product(ctx: Any, dy: torch.Tensor) -> tuple[Any, ...]:
    _, plan_a, plan_b = _models(ctx.plan)
    if not plan_a:
        raise RuntimeError("halfulp.torch: products have no second derivative")
    a, b, seed = ctx.saved_tensors
    to_a, to_b, db = None, None, None
    if seed is not None:
        dy = dy.contiguous()
    # The three products of a step draw from streams of their own.
    if ctx.needs_input_grad[0]:
        to_a = torch.ops.halfulp.product(dy, b.mT, None, seed, plan_a, ctx.stream + (1 << 61)).to(a.dtype)
    if ctx.needs_input_grad[1]:
        to_b = torch.ops.halfulp.product(dy.mT, a, None, seed, plan_b, ctx.stream + (1 << 62)).mT.to(b.dtype)
    if ctx.needs_input_grad[2]:
        db = torch.ops.halfulp.column_sums(dy).to(ctx.bias_dtype)
    return to_a, to_b, db, None, None, None


_product.register_autograd(_gradients_of_product, setup_context=_save_operands)
