"""Rounding of tensors, code words and their values."""
from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import torch

from .. import _core, casts
from .._arrays import FP32, Draws, any_format, as_format, as_share
from .._core import BlockFormat, Format, Rounding
from .._outputs import written
from ..blocks import layout_of
from . import _device
from ._tensors import (as_any_format, as_any_rounding, as_count, check, check_device, fresh_seed, holds,
                       is_fake, is_simple, refuse_tangent, result_dtype, whole, widened)


def quantize(
    x: torch.Tensor,
    format: Any,
    *,
    rounding: Rounding | str = "nearest-even",
    overflow: str | None = None,
    random_bits: int | None = None,
    generator: torch.Generator | None = None,
    seed: int | None = None,
    stream: int = 0,
    first: int = 0,
    roundings_per_word: int = 1,
    axis: int | None = None,
    backward: Any = "ste",
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Rounds a tensor to a format or a block format, and returns its values.

    x: floats of any shape and strides: float64, float32, float16, bfloat16, float8. Each is rounded once, from its
    exact value (block formats take float64 through float32). A tensor on a GPU is rounded there, to a plain format from at
    most float32, if halfulp was built with CUDA. format, rounding, overflow, random_bits, stream, first,
    roundings_per_word, axis: as in halfulp.quantize(). Stochastic rounding draws from Philox under `seed`, or under a
    fresh seed of `generator` (default: torch's own) in every call.

    Returns x's dtype if it holds every value of the format, else float32; or `out`, of a dtype that holds them, which may
    be x. backward says what the gradient by x is: "ste", the gradient by the result, unchanged, where x saturates too
    (the straight-through estimator, Bengio et al. 2013); a format, the same rounded to that to nearest even; a pair, a
    format and a rounding (which draws from torch's generator); None: x gets none, as if it had been detached. `out`
    takes no gradient.

    Works under torch.compile(fullgraph=True), as torch.ops.halfulp.quantize. Raises TypeError and ValueError naming the
    argument.

    >>> quantize(torch.tensor([1.05, 1000.0]), "e4m3", overflow="saturate")
    tensor([  1., 448.])
    """
    check(x, "x", on_gpu=True)
    stream, first = as_count(stream, "stream"), as_count(first, "first")
    if out is None and not is_simple(x):
        refuse_tangent(x, "x")
        text, rounding_text, draws, rule = quantization(
            format, rounding, overflow, random_bits, axis, backward, roundings_per_word
        )
        return torch.ops.halfulp.quantize(
            x.detach() if rule == "none" else x,
            fresh_seed(seed, generator) if draws else None,
            text,
            rounding_text,
            stream,
            first,
            axis,
            rule,
            roundings_per_word,
        )
    f, r = as_any_format(format), as_any_rounding(rounding, overflow, random_bits)
    if axis is not None or overflow is not None or backward != "ste":
        quantization(
            format, rounding, overflow, random_bits, axis, backward, roundings_per_word
        )  # says what is wrong with them
    draws = Draws(
        0 if r.mode != "stochastic" else int(fresh_seed(seed, generator)),
        stream,
        first,
        as_share(roundings_per_word, r),
    )
    if out is None:
        return _quantize(x, f, r, draws, axis)
    return _into(x, f, r, draws, axis, out)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def quantization(
    format: Any, rounding: Any, overflow: Any, random_bits: Any, axis: Any, backward: Any, roundings_per_word: Any = 1
) -> tuple[str, str, bool, str]:
    """The operator's format, rounding, whether it draws, and the rule of its gradient, as texts, from those of
    quantize()."""
    f, r = as_any_format(format), as_any_rounding(rounding, overflow, random_bits)
    if isinstance(f, Format) and axis is not None:
        raise TypeError(f"axis: {axis}; accepted for block formats alone")
    if isinstance(f, BlockFormat) and overflow is not None:
        raise TypeError("overflow: for plain formats; elements of block formats saturate")
    as_share(roundings_per_word, r)
    return str(f), json.dumps(r.__getstate__()), r.mode == "stochastic", _backward_rule(backward)


def _backward_rule(backward: Any) -> str:
    if backward is None:
        return "none"
    if isinstance(backward, str) and backward == "ste":
        return "ste"
    try:
        if isinstance(backward, tuple) and len(backward) == 2:
            return f"{as_any_format(backward[0])}|{json.dumps(as_any_rounding(backward[1], None, None).__getstate__())}"
        return str(as_any_format(backward))
    except (TypeError, ValueError) as why:
        raise type(why)(f"backward: {backward!r}; accepted: 'ste', a format, a pair of a format and a rounding, None ({why})") from None


@lru_cache(maxsize=1024)
def _rounding_of(text: str) -> Rounding:
    r = Rounding.__new__(Rounding)
    r.__setstate__(tuple(json.loads(text)))
    return r


def _quantize(x: torch.Tensor, f: Format | BlockFormat, r: Rounding, draws: Draws, axis: int | None) -> torch.Tensor:
    """Values of a checked tensor, without a gradient."""
    dtype = result_dtype(x, f)
    if (queue := _device.queue_of(x)) is not None:
        values = widened(x)
        result = torch.empty_like(values)
        _device.narrow(queue, values, f, r, result, draws)
        return result.to(dtype)
    if isinstance(f, BlockFormat):
        return _quantize_blocks(x, f, r, draws, axis)
    if dtype is x.dtype and (dtype is torch.float32 or dtype is torch.float64) and x.is_contiguous() and not x.is_neg() and not x._is_zerotensor():
        values = x
    else:
        values = widened(x)
    if values.dtype is torch.float32 and f.emax > 127 and f.fraction_bits < 23:  # may round up beyond float32
        values = values.to(torch.float64)
    result = torch.empty_like(values)
    _core.quantize_at(f, r, values.dtype is torch.float64, values.data_ptr(), result.data_ptr(), values.numel(), draws)
    return result if result.dtype is dtype else result.to(dtype)


def _quantize_blocks(x: torch.Tensor, f: BlockFormat, r: Rounding, draws: Draws, axis: int | None) -> torch.Tensor:
    layout = layout_of(f, tuple(x.shape), axis)
    if x.dtype is torch.float64:
        import numpy as np

        from .._arrays import float32_to_odd
        values = torch.from_numpy(np.ascontiguousarray(float32_to_odd(x.detach().resolve_neg().numpy()))).reshape(x.shape)
    else:
        values = widened(x)
    amax = float(values.abs().nan_to_num(0).max()) if f.tensor_scale and layout.matrices > 1 and values.numel() else None
    result = torch.empty_like(values)
    if values.numel():
        _core.quantize_blocks_at(
            layout.format,
            r,
            layout.matrices,
            layout.rows,
            layout.columns,
            values.data_ptr(),
            result.data_ptr(),
            draws,
            amax,
        )
    return result


def _into(
    x: torch.Tensor, f: Format | BlockFormat, r: Rounding, draws: Draws, axis: int | None, out: torch.Tensor
) -> torch.Tensor:
    check(out, "out", on_gpu=True)
    if is_fake(out) or is_fake(x):
        raise TypeError("out: while torch only asks for shapes there is none; accepted: no out")
    if out.requires_grad:
        raise ValueError("out: a tensor that requires a gradient; accepted: out.detach()")
    if x.requires_grad and torch.is_grad_enabled():
        raise ValueError("x: a tensor that requires a gradient, which would be lost in out; accepted: x.detach(), or no out")
    if out.shape != x.shape:
        raise ValueError(f"out: shape {tuple(out.shape)}; accepted: {tuple(x.shape)}")
    if any(step == 0 and length > 1 for step, length in zip(out.stride(), out.shape)):
        raise ValueError(
            f"out: elements share memory (strides {out.stride()}); accepted: a tensor whose elements do not"
        )
    if isinstance(f, Format) and not holds(out.dtype, f):
        raise TypeError(f"out: {out.dtype} does not hold every value of {f}; accepted: {result_dtype(x, f)}")
    if isinstance(f, BlockFormat) and out.dtype not in (torch.float32, torch.float64):
        raise TypeError(f"out: {out.dtype}; accepted for block formats: torch.float32")
    with torch.no_grad():
        return out.copy_(_quantize(x, f, r, draws, axis))


@torch.library.custom_op(
    "halfulp::quantize",
    mutates_args=(),
    schema="(Tensor x, Tensor? seed, str format, str rounding, int stream, int first, int? axis, str backward, "
    "int roundings_per_word=1) -> Tensor",
)
def _quantize_operator(
    x: torch.Tensor,
    seed: torch.Tensor | None,
    format: str,
    rounding: str,
    stream: int,
    first: int,
    axis: int | None,
    backward: str,
    roundings_per_word: int = 1,
) -> torch.Tensor:
    f = any_format(format)
    result = _quantize(
        x, f, _rounding_of(rounding), Draws(0 if seed is None else int(seed), stream, first, roundings_per_word), axis
    )
    return result.clone() if result is x else result


@_quantize_operator.register_fake
def _(
    x: torch.Tensor,
    seed: torch.Tensor | None,
    format: str,
    rounding: str,
    stream: int,
    first: int,
    axis: int | None,
    backward: str,
    roundings_per_word: int = 1,
) -> torch.Tensor:
    return torch.empty(x.shape, dtype=result_dtype(x, any_format(format)), device=x.device)


def _save_rule(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.rule, ctx.dtype = inputs[7], inputs[0].dtype


def _gradient_by_rule(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
    if ctx.rule != "ste":
        format, _, rounding = ctx.rule.partition("|")
        gradient = quantize(gradient, format, rounding=_rounding_of(rounding) if rounding else "nearest-even")
    return gradient.to(ctx.dtype)


def _gradient_of_quantize(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
    return _gradient_by_rule(ctx, gradient), *[None] * 8


_quantize_operator.register_autograd(_gradient_of_quantize, setup_context=_save_rule)


# --- casts ----------------------------------------------------------------------------------------

def cast(x: torch.Tensor, profile: str, to: Any, *, backward: Any = "ste") -> torch.Tensor:
    """Casts a tensor as a library, a specification or a CPU does, and returns its values. The profile (a name from
    halfulp.profiles()) decides what becomes of NaN, infinities and overflow.

    x: as in quantize(), in the CPU's memory; it is cast from the format of its dtype. to: a format. Returns x's dtype if it holds every value of `to`, else float32. backward: as in quantize().
    Works under torch.compile(fullgraph=True), as torch.ops.halfulp.cast. Raises ValueError where the profile does not
    offer the conversion, TypeError naming the argument.

    >>> cast(torch.tensor([449.0, 465.0]), "ml_dtypes", "e4m3"), cast(torch.tensor([449.0, 465.0]), "cuda-satfinite", "e4m3")
    (tensor([448.,  nan]), tensor([448., 448.]))
    """
    check(x, "x")
    if not isinstance(profile, str):
        raise TypeError(f"profile: {profile!r}; accepted: a name that halfulp.profiles() lists")
    format, rule = _cast_texts(to, backward)
    if is_simple(x):
        return _cast(x, profile, format, rule)
    refuse_tangent(x, "x")
    return torch.ops.halfulp.cast(x.detach() if rule == "none" else x, profile, format, rule)


_WORDS = {1: torch.uint8, 2: torch.uint16, 4: torch.uint32, 8: torch.uint64}


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _cast_texts(to: Any, backward: Any) -> tuple[str, str]:
    return str(as_format(to, "to")), _backward_rule(backward)


def _cast(x: torch.Tensor, profile: str, to: str, backward: str) -> torch.Tensor:
    words = whole(x).view(_WORDS[x.element_size()])  # NumPy does not know every dtype
    values = casts.cast(words.reshape(-1).numpy(), profile, to, from_=as_format(x.dtype)).reshape(x.shape)
    return torch.from_numpy(values).to(result_dtype(x, any_format(to)))


_cast_operator = torch.library.custom_op("halfulp::cast", _cast, mutates_args=(), schema="(Tensor x, str profile, str to, str backward) -> Tensor")


@_cast_operator.register_fake
def _(x: torch.Tensor, profile: str, to: str, backward: str) -> torch.Tensor:
    return torch.empty(x.shape, dtype=result_dtype(x, any_format(to)), device=x.device)


def _save_rule_of_cast(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.rule, ctx.dtype = inputs[3], inputs[0].dtype


def _gradient_of_cast(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
    return _gradient_by_rule(ctx, gradient), None, None, None


_cast_operator.register_autograd(_gradient_of_cast, setup_context=_save_rule_of_cast)


# --- code words -----------------------------------------------------------------------------------

def _code_dtype(f: Format) -> torch.dtype:
    if f.storage_bytes > 4:
        raise TypeError(f"format: {f} has code words of {f.bits} bits; accepted here: up to 32")
    return _WORDS[f.storage_bytes]


def encode(
    x: torch.Tensor,
    format: Any,
    *,
    rounding: Rounding | str = "nearest-even",
    overflow: str | None = None,
    random_bits: int | None = None,
    generator: torch.Generator | None = None,
    seed: int | None = None,
    stream: int = 0,
    first: int = 0,
    roundings_per_word: int = 1,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """The code words of a tensor rounded to a format of at most 32 bits: uint8, uint16 or uint32, the code word in the
    low bits; or `out`, contiguous and of that dtype. Code words have no gradient: x.detach() says that you know. Other
    arguments: as in quantize().

    >>> encode(torch.tensor([0.1, 300.0, -0.0]), "e4m3")
    tensor([ 29, 121, 128], dtype=torch.uint8)
    """
    check(x, "x", on_gpu=True)
    stream, first = as_count(stream, "stream"), as_count(first, "first")
    if x.requires_grad and torch.is_grad_enabled():
        raise ValueError("x: a tensor that requires a gradient, which code words do not have; accepted: x.detach()")
    if out is None and not is_simple(x):
        refuse_tangent(x, "x")
        text, rounding_text, draws = _encoding(format, rounding, overflow, random_bits, roundings_per_word)
        return torch.ops.halfulp.encode(
            x, fresh_seed(seed, generator) if draws else None, text, rounding_text, stream, first, roundings_per_word
        )
    f, r = _code_format(format), as_any_rounding(rounding, overflow, random_bits)
    return _encode(
        x,
        f,
        r,
        Draws(
            0 if r.mode != "stochastic" else int(fresh_seed(seed, generator)),
            stream,
            first,
            as_share(roundings_per_word, r),
        ),
        out,
    )


def _code_format(format: Any) -> Format:
    f = as_any_format(format)
    if isinstance(f, BlockFormat):
        raise TypeError(f"format: {f} is a block format; accepted here: a Format; halfulp.quantize_blocks() has those code words")
    return f


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _encoding(
    format: Any, rounding: Any, overflow: Any, random_bits: Any, roundings_per_word: Any = 1
) -> tuple[str, str, bool]:
    """Format, rounding and whether it draws, as texts, from those of encode()."""
    f, r = _code_format(format), as_any_rounding(rounding, overflow, random_bits)
    _code_dtype(f)
    as_share(roundings_per_word, r)
    return str(f), json.dumps(r.__getstate__()), r.mode == "stochastic"


def _encode(x: torch.Tensor, f: Format, r: Rounding, draws: Draws, out: torch.Tensor | None) -> torch.Tensor:
    dtype, values = _code_dtype(f), widened(x)
    result = _contiguous_output(out, values, dtype)
    if (queue := _device.queue_of(values)) is not None:
        _device.narrow(queue, values, f, r, result, draws)
    else:
        _core.encode_at(
            f,
            r,
            values.dtype is torch.float64,
            values.data_ptr(),
            f.storage_bytes,
            result.data_ptr(),
            values.numel(),
            draws,
        )
    return result if out is None else written(result)


def _encode_fresh(
    x: torch.Tensor,
    seed: torch.Tensor | None,
    format: str,
    rounding: str,
    stream: int,
    first: int,
    roundings_per_word: int = 1,
) -> torch.Tensor:
    return _encode(
        x,
        _code_format(format),
        _rounding_of(rounding),
        Draws(0 if seed is None else int(seed), stream, first, roundings_per_word),
        None,
    )


_encode_operator = torch.library.custom_op(
    "halfulp::encode",
    _encode_fresh,
    mutates_args=(),
    schema="(Tensor x, Tensor? seed, str format, str rounding, int stream, int first, "
    "int roundings_per_word=1) -> Tensor",
)


@_encode_operator.register_fake
def _(
    x: torch.Tensor,
    seed: torch.Tensor | None,
    format: str,
    rounding: str,
    stream: int,
    first: int,
    roundings_per_word: int = 1,
) -> torch.Tensor:
    return torch.empty(x.shape, dtype=_code_dtype(_code_format(format)), device=x.device)


def decode(codes: torch.Tensor, format: Any, *, out: torch.Tensor | None = None) -> torch.Tensor:
    """The values of code words as float32, exactly; or `out`, contiguous float32. codes: uint8, uint16, uint32, or a
    signed integer dtype with numbers from 0 to 2^bits - 1.

    >>> decode(torch.tensor([56, 121, 126, 127], dtype=torch.uint8), "e4m3")
    tensor([  1., 288., 448.,  nan])
    """
    if not isinstance(codes, torch.Tensor):
        raise TypeError(f"codes: {type(codes).__name__}; accepted: a tensor of integers")
    if codes.dtype.is_floating_point or codes.dtype.is_complex or codes.dtype is torch.bool or codes.layout is not torch.strided:
        raise TypeError(f"codes: a tensor of {codes.dtype}, {codes.layout}, on {codes.device}; accepted: integers")
    check_device(codes, "codes", "integers in the CPU's memory", on_gpu=True)
    text = _decoding(format)
    if out is None and not is_simple(codes):
        return torch.ops.halfulp.decode(codes, text)
    return _decode(codes, text, out)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _decoding(format: Any) -> str:
    f = _code_format(format)
    if not FP32.holds(f):
        raise TypeError(f"format: float32 does not hold the values of {f}; accepted here: formats within fp32; halfulp.decode() has float64")
    _code_dtype(f)
    return str(f)


def _decode(codes: torch.Tensor, format: str, out: torch.Tensor | None) -> torch.Tensor:
    f = _code_format(format)
    wanted = _code_dtype(f)
    if codes.dtype is not wanted:
        wide = codes.to(torch.int64)
        low, high = (int(wide.min()), int(wide.max())) if codes.numel() else (0, 0)
        if low < 0 or high >= 2**f.bits:
            wrong = low if low < 0 else high
            wrong += 2**64 if low < 0 and codes.dtype is torch.uint64 else 0
            raise ValueError(f"codes: {wrong} is no code word of {f}; accepted: 0 to {2**f.bits - 1}")
        codes = wide.to(wanted)
    codes = codes.contiguous()
    result = _contiguous_output(out, codes, torch.float32)
    if (queue := _device.queue_of(codes)) is not None:
        _device.widen(queue, codes, f, result)
    else:
        _core.decode_at(f, f.storage_bytes, codes.data_ptr(), result.data_ptr(), codes.numel())
    return result if out is None else written(result)


def _decode_fresh(codes: torch.Tensor, format: str) -> torch.Tensor:
    return _decode(codes, format, None)


_decode_operator = torch.library.custom_op("halfulp::decode", _decode_fresh, mutates_args=(), schema="(Tensor codes, str format) -> Tensor")


@_decode_operator.register_fake
def _(codes: torch.Tensor, format: str) -> torch.Tensor:
    return torch.empty(codes.shape, dtype=torch.float32, device=codes.device)


def _contiguous_output(out: torch.Tensor | None, x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """`out`, or a new tensor: of x's shape, where x is."""
    if out is None:
        return torch.empty(x.shape, dtype=dtype, device=x.device)
    if is_fake(x) or isinstance(out, torch.Tensor) and is_fake(out):
        raise TypeError("out: while torch only asks for shapes there is none; accepted: no out")
    if not isinstance(out, torch.Tensor) or out.dtype is not dtype or out.shape != x.shape or not out.is_contiguous() or out.requires_grad or out.device != x.device:
        described = f"{out.dtype} of shape {tuple(out.shape)} on {out.device}" if isinstance(out, torch.Tensor) else type(out).__name__
        raise TypeError(f"out: {described}; accepted: a contiguous tensor of {dtype} and shape {tuple(x.shape)}, without a gradient, on {x.device}")
    return out
