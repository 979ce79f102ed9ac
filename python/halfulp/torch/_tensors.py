"""What a tensor has to be before its memory is handed on. Errors name the argument."""
from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch.autograd import forward_ad

from . import _device
from .._arrays import any_format, as_format, as_integer, as_rounding
from .._core import BlockFormat, Format, Rounding

if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 4):
    raise ImportError(f"halfulp.torch needs torch 2.4 or newer, and this is {torch.__version__}")

FLOATS = {torch.float64, torch.float32, torch.float16, torch.bfloat16} | {
    dtype for name in dir(torch) if name.startswith("float8_") for dtype in [getattr(torch, name)] if isinstance(dtype, torch.dtype)}
ACCEPTED = "a dense tensor of floats in the CPU's memory"
_PLAIN = (torch.Tensor, torch.nn.Parameter)


def check(x: Any, argument: str, on_gpu: bool = False) -> torch.Tensor:
    """The tensor, if it is one that can be read. TypeError or ValueError otherwise. on_gpu: in a GPU's memory too."""
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{argument}: {type(x).__name__}; accepted: {ACCEPTED}")
    if x.is_nested:
        raise TypeError(f"{argument}: a nested tensor; accepted: {ACCEPTED}")
    if x.layout is not torch.strided:
        raise TypeError(f"{argument}: a tensor of layout {x.layout}; accepted: {ACCEPTED}")
    if x.is_quantized:
        raise TypeError(f"{argument}: a quantized tensor; accepted: {ACCEPTED}, such as {argument}.dequantize()")
    if x.dtype not in FLOATS:
        raise TypeError(f"{argument}: a tensor of {x.dtype}; accepted: {ACCEPTED}")
    if x.device.type != "cpu":
        check_device(x, argument, ACCEPTED, on_gpu)
    return x


def check_device(x: torch.Tensor, argument: str, accepted: str, on_gpu: bool) -> None:
    """ValueError for a tensor where nothing can be computed here."""
    if x.device.type == "cpu" or is_fake(x):
        return
    if x.device.type != "cuda" or not on_gpu:
        raise ValueError(f"{argument}: a tensor on {x.device}; accepted: {accepted}")
    if why := _device.missing():
        raise ValueError(f"{argument}: a tensor on {x.device}, and halfulp has no kernels for it ({why}); accepted: {accepted}, such as {argument}.cpu()")


def is_fake(x: torch.Tensor) -> bool:
    """Whether torch only asks what shape a result would have (torch.compile and torch.export do)."""
    return type(x) not in _PLAIN and isinstance(x, torch._subclasses.FakeTensor)


def is_simple(x: torch.Tensor) -> bool:
    """Whether nothing but numbers is wanted of a tensor: no gradient, no trace, no mode that wants to see the call. Then
    torch's dispatcher, which takes longer than short arrays, need not be asked."""
    return (not torch.compiler.is_compiling() and type(x) in _PLAIN and not (x.requires_grad and torch.is_grad_enabled())
            and torch._C._len_torch_function_stack() == 0 and torch._C._len_torch_dispatch_stack() == 0
            and torch._C._functorch.peek_interpreter_stack() is None and torch._C._get_tracing_state() is None
            and forward_ad._current_level < 0)


def refuse_tangent(x: torch.Tensor, argument: str) -> None:
    """RuntimeError for a tensor whose derivative is computed along with it: torch would lose it at an operator."""
    if torch.compiler.is_compiling():
        return
    level = torch._C._functorch.peek_interpreter_stack()
    if (level is not None and level.key() == torch._C._functorch.TransformType.Jvp
            or forward_ad._current_level >= 0 and forward_ad.unpack_dual(x).tangent is not None):
        raise RuntimeError(f"{argument}: a tensor with a forward-mode derivative; accepted: backward(), or {argument}.detach()")


def as_count(value: Any, argument: str, bits: int = 63) -> int:
    """An integer from 0 to 2^bits - 1. TypeError and ValueError name the argument."""
    if torch.compiler.is_compiling():
        return value  # type: ignore[no-any-return]
    return as_integer(value, argument, 0, 2**bits - 1)


def whole(x: torch.Tensor) -> torch.Tensor:
    """The same numbers, contiguous, in memory as they are; without a copy where they are so already."""
    x = x.detach()
    if x._is_zerotensor():
        x = torch.zeros(x.shape, dtype=x.dtype, device=x.device)
    return x.resolve_neg().contiguous()


def widened(x: torch.Tensor) -> torch.Tensor:
    """The same values as contiguous float32, or float64 if they are that; without a copy where they are so already."""
    x = whole(x)
    return x if x.dtype is torch.float32 or x.dtype is torch.float64 else x.to(torch.float32)


def as_any_format(format: Any) -> Format | BlockFormat:
    """A Format or BlockFormat from one, from a name or from a dtype."""
    if isinstance(format, (Format, BlockFormat)):
        return format
    return any_format(format) if isinstance(format, str) else as_format(format)


@lru_cache(maxsize=1024)
def rounding_named(rounding: str, overflow: str | None, random_bits: int | None) -> Rounding:
    return as_rounding(rounding, overflow, random_bits)


def as_any_rounding(rounding: Rounding | str, overflow: str | None, random_bits: int | None) -> Rounding:
    if isinstance(rounding, str):
        try:
            return rounding_named(rounding, overflow, random_bits)
        except TypeError:  # unhashable: as_rounding says what is wrong
            pass
    return as_rounding(rounding, overflow, random_bits)


@lru_cache(maxsize=256)
def holds(dtype: torch.dtype, format: Format) -> bool:
    """Whether a dtype has every value of a format: finite ones, infinities, NaN and -0."""
    own = as_format(dtype)
    return own == format or own.holds(format) and all(
        getattr(own, special) or not getattr(format, special) for special in ("has_nan", "has_infinity", "has_negative_zero"))


def result_dtype(x: torch.Tensor, format: Format | BlockFormat) -> torch.dtype:
    """The tensor's own dtype where it holds the format, else float32; block formats have float32."""
    if isinstance(format, Format) and holds(x.dtype, format):
        return x.dtype
    return torch.float32


def fresh_seed(seed: int | None, generator: torch.Generator | None) -> torch.Tensor:
    """The seed of a call that rounds stochastically, as a tensor: so that torch.compile need not leave its graph, one of
    a generator stays on torch's side."""
    if seed is not None:
        if generator is not None:
            raise TypeError("seed and generator: one of them says which bits are drawn")
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
            raise ValueError(f"seed: {seed!r}; accepted: an integer from 0 to 2^63 - 1")
        return torch.tensor(seed, dtype=torch.int64, device="cpu")
    if generator is not None and (not isinstance(generator, torch.Generator) or generator.device.type != "cpu"):
        described = f"one on {generator.device}" if isinstance(generator, torch.Generator) else type(generator).__name__
        raise TypeError(f"generator: {described}; accepted: a torch.Generator of the CPU, which draws the seed alone")
    return torch.randint(2**63 - 1, (), generator=generator, dtype=torch.int64, device="cpu")
