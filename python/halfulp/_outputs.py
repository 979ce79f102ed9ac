"""Arrays that users pass for results, and the types of results. Errors name the argument."""
from __future__ import annotations

import functools
import sys
from typing import Any, Callable, Iterable, TypeVar

import numpy as np

from . import _core
from ._arrays import FP32, PLAIN_TYPES, Array, dtype_name, dtype_of_format, format_of_dtype, from_torch, is_torch
from ._core import Format


_Function = TypeVar("_Function", bound=Callable[..., Any])


def tensors_stay(function: _Function) -> _Function:
    """Gives results back as what the operands are: torch tensors where one of them is a tensor."""
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        tensor = getattr(sys.modules.get("torch"), "Tensor", None)
        if tensor is None or kwargs.get("out") is not None or not _have(tensor, (*args, *kwargs.values())):
            return result
        return tuple(_as_tensor(part) for part in result) if isinstance(result, tuple) else _as_tensor(result)
    return wrapper  # type: ignore[return-value]


_NO_TENSORS = frozenset((np.ndarray, str, Format, int, float, bool, type(None)))  # what most arguments are


def _have(tensor: type, arguments: Iterable[Any]) -> bool:
    """Whether an argument is a tensor, or a list of named operands with one."""
    for x in arguments:
        kind = type(x)
        if kind in _NO_TENSORS:
            continue
        named = x if kind is list else ()
        if isinstance(x, tensor) or any(isinstance(part, tuple) and _have(tensor, part) for part in named):
            return True
    return False


def _as_tensor(x: Any) -> Any:
    """A tensor in the memory of an array or of a NumPy number; everything else as it is."""
    if type(x) is np.ndarray and x.dtype in PLAIN_TYPES:
        return sys.modules["torch"].from_numpy(x)
    if not isinstance(x, (np.ndarray, np.generic)):
        return x
    torch, array = sys.modules["torch"], np.asarray(x)
    format = format_of_dtype(array.dtype)
    if format is None or dtype_name(array.dtype) in ("float16", "float32", "float64"):
        return torch.from_numpy(array)
    dtype = getattr(torch, dtype_name(array.dtype), None)
    words = torch.from_numpy(array.view(np.uint8 if array.dtype.itemsize == 1 else np.int16))
    return words if dtype is None else words.view(dtype)


@functools.lru_cache(maxsize=256)
def value_type(format: Format) -> np.dtype[Any]:
    """float32 if it holds every value of a format, else float64."""
    return np.dtype(np.float32 if FP32.holds(format) else np.float64)


def decoded(format: Format, codes: Array, dtype: np.dtype[Any] | None = None, out: Array | None = None) -> Array:
    """The values of contiguous code words; written to `out` if room_for() finds room there."""
    values = room_for(codes, value_type(format) if dtype is None else dtype, out)
    _core.decode(format, codes, values)
    return values


def room_for(operand: Array, dtype: np.dtype[Any], out: Array | None) -> Array:
    """Where native functions write results of that type: `out` if they can, and the operand is not there; else a new
    array."""
    if out is not None and is_plain(out, dtype) and not np.may_share_memory(operand, out):
        return out
    return np.empty(operand.shape, dtype)


def finish(values: Array, scalar: bool) -> Any:
    """A number for a number, as NumPy does it."""
    return values[()] if scalar else values


def as_dtype(dtype: Any, argument: str = "dtype") -> np.dtype[Any]:
    """A NumPy dtype from whatever NumPy accepts as one, or from a torch dtype with the same values. TypeError names the
    argument."""
    found: np.dtype[Any] | None
    try:
        if not is_torch(dtype, "dtype"):
            found = np.dtype(dtype)
            return found
        name = str(dtype).removeprefix("torch.")
        found = np.dtype(name) if hasattr(np, name) else dtype_of_format(Format(name))
    except (TypeError, ValueError):
        found = None
    if found is None:
        raise TypeError(f"{argument}: {dtype!r}; accepted: a floating-point dtype of NumPy or ml_dtypes")
    return found


@functools.lru_cache(maxsize=256)
def holds_or_raise(dtype: np.dtype[Any], format: Format, argument: str) -> None:
    """Raises TypeError unless a dtype of results holds every value of their format: finite ones, infinities, -0 and
    NaN."""
    own = format_of_dtype(dtype)
    if own == format:
        return
    if own is None or not own.holds(format) or any(getattr(format, special) and not getattr(own, special) for special in ("has_nan", "has_infinity", "has_negative_zero")):
        raise TypeError(f"{argument}: {dtype} does not hold every value of {format}; accepted: " + ", ".join(dict.fromkeys(
            str(d) for d in (dtype_of_format(format), np.dtype(np.float16) if Format("fp16").holds(format) else None,
                             np.dtype(np.float32) if FP32.holds(format) else None, np.dtype(np.float64)) if d is not None)))


def as_output(out: Any, shape: tuple[int, ...], argument: str = "out") -> Array:
    """A writable array of that shape whose elements do not share memory. Call written() with the given object
    afterwards."""
    if type(out) is np.ndarray and out.shape == shape:
        flags = out.flags
        if flags.c_contiguous and flags.writeable:  # the usual one
            return out
    given = out
    if is_torch(out, "Tensor"):
        if out.requires_grad:
            raise ValueError(f"{argument}: a tensor that requires a gradient; accepted: {argument}.detach()")
        if out.is_neg() or out.is_conj():
            raise ValueError(f"{argument}: a tensor with a pending negation or conjugate, which has no memory of its own; accepted: {argument}.resolve_neg()")
        out = from_torch(out, argument)
    if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
        raise TypeError(f"{argument}: {type(given).__name__}; accepted: a NumPy array or a torch tensor")
    if not out.flags.writeable:
        raise ValueError(f"{argument}: the array is read-only")
    if out.shape != shape:
        raise ValueError(f"{argument}: shape {out.shape}; accepted: {shape}")
    if _may_overlap_itself(out):
        raise ValueError(f"{argument}: elements share memory (strides {out.strides}); accepted: an array whose elements do not")
    return out


def delivered(result: Any, out: Any) -> Any:
    """Writes results to `out`, whose type has to hold those of the results, and returns it."""
    if result is out:
        return out
    values = np.asarray(result)
    array = as_output(out, values.shape)
    if not np.can_cast(values.dtype, array.dtype, "safe"):
        raise TypeError(
            f"out: {array.dtype} does not hold every value of {values.dtype}; "
            f"accepted: {values.dtype}, or a type that holds all of it"
        )
    if not same_memory(array, values):
        array[...] = values
    return written(out)


def written(out: Any) -> Any:
    """Returns `out`. If it is a tensor, tells torch that its memory changed, so that torch refuses gradients that need
    the old values."""
    if is_torch(out, "Tensor") and not out.is_inference():
        increment = getattr(sys.modules["torch"].autograd.graph, "increment_version", None)
        if increment is not None:
            increment(out)
    return out


def _may_overlap_itself(x: Array) -> bool:
    """Whether elements may share memory. They do not where each stride steps over all that the smaller strides reach.
    (Other arrays without overlap exist, but slices and transposes never make them.)"""
    reach = x.itemsize
    for stride, length in sorted((abs(s), n) for s, n in zip(x.strides, x.shape) if n > 1):
        if stride < reach:
            return x.size > 0
        reach += stride * (length - 1)
    return False


def is_plain(out: Array, dtype: Any) -> bool:
    """Whether native functions can write the array directly."""
    flags = out.flags
    return bool(out.dtype == dtype and out.dtype.isnative and flags.c_contiguous and flags.aligned)


def same_memory(a: Array, b: Array) -> bool:
    """Whether two arrays have the same elements in the same memory."""
    return bool(a.ctypes.data == b.ctypes.data and a.shape == b.shape and a.strides == b.strides)
