"""What users pass as arrays, made into contiguous NumPy arrays that halfulp._core takes; errors name the argument."""
from __future__ import annotations

import operator
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _core
from ._core import BlockFormat, Format, Rounding

Array = npt.NDArray[Any]
ArrayLike = Any
FormatLike = Format | str | np.dtype[Any] | type

ACCEPTED = ("float16, float32, float64, integers of 8 to 64 bits, ml_dtypes' types, and what has __dlpack__ in a CPU's memory (torch tensors)")
_CODE_TYPES: dict[int, np.dtype[Any]] = {1: np.dtype(np.uint8), 2: np.dtype(np.uint16), 4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}
_FP32, _FP64 = Format("fp32"), Format("fp64")


# --- formats and roundings ----------------------------------------------------------------------

def format_of_dtype(dtype: np.dtype[Any]) -> Format | None:
    """The format of a floating-point dtype of NumPy or ml_dtypes, or None."""
    name = str(dtype.name)
    if dtype.kind not in "fV" or name.startswith("void"):
        return None
    try:
        return Format(name)
    except ValueError:  # longdouble
        return None


def dtype_of_format(format: Format) -> np.dtype[Any] | None:
    """The dtype of NumPy or, where it is installed, of ml_dtypes with that format; None where there is none."""
    name = format.dtype_name
    if name is None:
        return None
    if name in ("float16", "float32", "float64"):
        return np.dtype(name)
    try:
        import ml_dtypes
        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return found
    except (ImportError, AttributeError):
        return None


def as_format(format: FormatLike, argument: str = "format") -> Format:
    """A Format from one, its name, or a dtype."""
    if isinstance(format, Format):
        return format
    if isinstance(format, str):
        return Format(format)
    if isinstance(format, BlockFormat):
        raise TypeError(f"{argument}: {format} is a block format; accepted here: a Format, its name, or a floating-point dtype")
    if isinstance(format, (np.dtype, type)):
        try:
            found = format_of_dtype(np.dtype(format))
        except TypeError:
            found = None
        if found is not None:
            return found
    raise TypeError(f"{argument}: {format!r} is no format; accepted: a Format, its name, or a floating-point dtype of NumPy or ml_dtypes")


def as_rounding(rounding: Rounding | str, overflow: str | None, random_bits: int | None) -> Rounding:
    """A Rounding from one or the name of its mode; `overflow` and `random_bits` belong to names."""
    if isinstance(rounding, Rounding):
        if overflow is not None or random_bits is not None:
            raise ValueError("overflow and random_bits: a Rounding says them already; accepted beside the name of a mode")
        return rounding
    if not isinstance(rounding, str):
        raise TypeError(f"rounding: {rounding!r}; accepted: a Rounding or the name of a mode such as 'nearest-even'")
    if overflow is not None and not isinstance(overflow, str):
        raise TypeError(f"overflow: {overflow!r}; accepted: 'ieee', 'saturate'")
    bits = 32 if random_bits is None else as_integer(random_bits, "random_bits", 1, 32)
    return Rounding(rounding, overflow=overflow or "ieee", random_bits=bits)


def as_integer(value: Any, argument: str, least: int, most: int) -> int:
    """An integer in a range, or TypeError or ValueError naming the argument."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{argument}: {value!r}; accepted: an integer from {least} to {most}") from None
    if isinstance(value, bool) or not least <= number <= most:
        raise ValueError(f"{argument}: {value!r}; accepted: an integer from {least} to {most}")
    return number


def as_seed(seed: Any) -> int:
    return as_integer(seed, "seed", 0, 2**64 - 1)


# --- arrays ---------------------------------------------------------------------------------------

def _from_torch(x: Any, argument: str) -> Array:
    """A torch tensor's memory; types that NumPy lacks come as ml_dtypes' types, whose package must be there."""
    if x.device.type != "cpu":
        raise ValueError(f"{argument}: a tensor on {x.device}; accepted: tensors in the CPU's memory")
    if x.layout is not sys.modules["torch"].strided:
        raise TypeError(f"{argument}: a tensor of layout {x.layout}; accepted: strided ones")
    x = x.detach()
    if x.is_conj() or x.is_neg():
        x = x.resolve_conj().resolve_neg()
    name = str(x.dtype).removeprefix("torch.")
    if name.startswith(("bfloat", "float8", "float4")):
        dtype = dtype_of_format(Format(name))
        if dtype is None:
            raise TypeError(f"{argument}: a tensor of {x.dtype} needs the package ml_dtypes")
        integers = sys.modules["torch"].uint8 if dtype.itemsize == 1 else sys.modules["torch"].int16
        return np.asarray(x.view(integers)).view(dtype)
    return np.asarray(x)


def as_array(x: ArrayLike, argument: str) -> Array:
    """A NumPy array of numbers, without a copy where there is memory to look at."""
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(f"{argument}: a masked array, whose mask would be lost; accepted: {ACCEPTED}")
    try:
        if not isinstance(x, (np.ndarray, np.generic)) and hasattr(x, "__dlpack__"):
            torch = sys.modules.get("torch")
            if torch is not None and isinstance(x, torch.Tensor):
                x = _from_torch(x, argument)
            else:
                device = x.__dlpack_device__()[0]
                if device != 1:
                    raise ValueError(f"{argument}: an array on another device; accepted: arrays in the CPU's memory")
                x = np.from_dlpack(x)
        array = np.asarray(x)
    except (BufferError, RuntimeError) as why:
        raise TypeError(f"{argument}: {why}; accepted: {ACCEPTED}") from None
    except ValueError as why:
        if str(why).startswith(argument):
            raise
        raise ValueError(f"{argument}: {why}") from None
    except OverflowError as why:
        raise ValueError(f"{argument}: {why}") from None
    if array.dtype.name in ("int2", "int4"):
        array = array.astype(np.int8)
    elif array.dtype.name in ("uint2", "uint4"):
        array = array.astype(np.uint8)
    if not (array.dtype.kind in "iu" or format_of_dtype(array.dtype) is not None):
        raise TypeError(f"{argument}: dtype {array.dtype}; accepted: {ACCEPTED}")
    return array


def contiguous(x: Array, dtype: Any = None) -> Array:
    """The same in C order, aligned, in the machine's byte order; a copy where it is not so already."""
    dtype = x.dtype.newbyteorder("=") if dtype is None else np.dtype(dtype)
    return np.require(x, dtype, ["C_CONTIGUOUS", "ALIGNED"])


def code_type(format: Format) -> np.dtype[Any]:
    """The unsigned integers that hold a format's code words."""
    return _CODE_TYPES[format.storage_bytes]


def codes_of_dtype(x: Array) -> Array:
    """The code words of an array of a floating-point dtype."""
    x = x.astype(x.dtype.newbyteorder("="), copy=False)
    return contiguous(x).view(_CODE_TYPES[x.dtype.itemsize])


def exact_values(x: Array) -> Array:
    """The same numbers as contiguous float32, float64, int64 or uint64, whichever holds them all."""
    if x.dtype.kind in "iu":
        if x.dtype.itemsize <= 2:
            return contiguous(x, np.float32)
        if x.dtype.itemsize == 4:
            return contiguous(x, np.float64)
        return contiguous(x)
    if x.dtype.name in ("float32", "float64"):
        return contiguous(x)
    format = format_of_dtype(x.dtype)
    assert format is not None
    codes = codes_of_dtype(x)
    values = np.empty(codes.shape, np.float32)
    _core.decode(format, codes, values)
    return values


def value_type(format: Format) -> np.dtype[Any]:
    """float32 where it holds every value of a format, else float64."""
    return np.dtype(np.float32 if _FP32.holds(format) else np.float64)


def decoded(format: Format, codes: Array, dtype: np.dtype[Any] | None = None) -> Array:
    """The values of contiguous code words."""
    values = np.empty(codes.shape, dtype or value_type(format))
    _core.decode(format, codes, values)
    return values


def as_codes(x: ArrayLike, format: Format, argument: str) -> Array:
    """Contiguous code words of a format: unsigned integers, or an array of the format's own dtype."""
    array = as_array(x, argument)
    own = format_of_dtype(array.dtype)
    if own == format:
        return codes_of_dtype(array)
    if own is not None or array.dtype.kind not in "iu":
        raise TypeError(f"{argument}: dtype {array.dtype} are no code words of {format}; accepted: integers" + (f", {format.dtype_name}" if format.dtype_name else ""))
    wanted = code_type(format)
    if array.dtype != wanted and array.size:
        low, high = int(array.min()), int(array.max())
        if low < 0 or high >= 2**format.bits:
            raise ValueError(f"{argument}: {low if low < 0 else high} is no code word of {format}; accepted: 0 to {2**format.bits - 1}")
    return contiguous(array, wanted)


def as_output(out: Any, shape: tuple[int, ...], argument: str = "out") -> Array:
    """An array that can be written, of that shape."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(out, torch.Tensor):
        if out.requires_grad:
            raise ValueError(f"{argument}: a tensor that requires a gradient; accepted: out.detach()")
        out = _from_torch(out, argument)
    if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
        raise TypeError(f"{argument}: {type(out).__name__}; accepted: a NumPy array or a torch tensor")
    if not out.flags.writeable:
        raise ValueError(f"{argument}: the array is read-only")
    if out.shape != shape:
        raise ValueError(f"{argument}: shape {out.shape}; accepted: {shape}")
    return out


def is_plain(out: Array, dtype: Any) -> bool:
    """Whether native functions can write an array itself."""
    return out.dtype == np.dtype(dtype) and out.dtype.isnative and out.flags.c_contiguous and out.flags.aligned


def holds_or_raise(dtype: np.dtype[Any], format: Format, argument: str) -> None:
    """A dtype of results must hold every value of their format."""
    own = format_of_dtype(dtype)
    if own is None or not (own == format or own.holds(format)) or (format.has_nan and not own.has_nan):
        raise TypeError(f"{argument}: {dtype} does not hold every value of {format}; accepted: " + ", ".join(dict.fromkeys(
            str(d) for d in (dtype_of_format(format), np.dtype(np.float16) if Format("fp16").holds(format) else None,
                             np.dtype(np.float32) if _FP32.holds(format) else None, np.dtype(np.float64)) if d is not None)))


def finish(values: Array, scalar: bool) -> Any:
    """NumPy's habit: what came from a number is a number."""
    return values[()] if scalar else values


def broadcast(arrays: list[tuple[str, Array]]) -> list[Array]:
    """Arrays of one shape by NumPy's rules, or ValueError naming the arguments."""
    try:
        return list(np.broadcast_arrays(*(a for _, a in arrays)))
    except ValueError:
        shapes = ", ".join(f"{name} {a.shape}" for name, a in arrays)
        raise ValueError(f"shapes that do not go together: {shapes}") from None
