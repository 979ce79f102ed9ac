"""Turns users' arrays into contiguous NumPy arrays for halfulp._core. Errors name the argument."""
from __future__ import annotations

import functools
import operator
import sys
import threading
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from . import _core
from ._core import BlockFormat, Format, Rounding

Array = npt.NDArray[Any]
ArrayLike = Any
FormatLike = Format | str | np.dtype[Any] | type

ACCEPTED = ("float16, float32, float64, integers of 8 to 64 bits, ml_dtypes' types, and what has __dlpack__ in a CPU's memory (torch tensors)")
_CODE_TYPES: dict[int, np.dtype[Any]] = {1: np.dtype(np.uint8), 2: np.dtype(np.uint16), 4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}
FP32 = Format("fp32")
# What most calls bring, and what needs no further question.
PLAIN_TYPES = frozenset(np.dtype(kind) for kind in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"))


def is_torch(x: Any, kind: str) -> bool:
    """Whether something is a torch Tensor or dtype. Never imports torch itself."""
    torch = sys.modules.get("torch")
    return torch is not None and hasattr(torch, kind) and isinstance(x, getattr(torch, kind))


# --- formats and roundings ----------------------------------------------------------------------

# Small calls are most of some programs' time. What they ask again and again is kept: NumPy takes microseconds to put a
# dtype's name together.
@functools.lru_cache(maxsize=256)
def dtype_name(dtype: np.dtype[Any]) -> str:
    """NumPy's name of a dtype."""
    return str(dtype.name)


NEAREST_EVEN = Rounding()
_named_format = functools.lru_cache(maxsize=256)(Format)
any_format = functools.lru_cache(maxsize=256)(_core.any_format)  # a block format too
_named_rounding = functools.lru_cache(maxsize=256)(Rounding)


@functools.lru_cache(maxsize=256)
def format_of_dtype(dtype: np.dtype[Any]) -> Format | None:
    """The format of a floating-point dtype of NumPy or ml_dtypes, or None."""
    name = dtype_name(dtype)
    if dtype.kind not in "fV" or name.startswith("void"):
        return None
    try:
        return Format(name)
    except ValueError:  # longdouble
        return None


def dtype_of_format(format: Format) -> np.dtype[Any] | None:
    """The dtype with that format in NumPy or in ml_dtypes, if installed; None if there is none."""
    name = format.dtype_name
    if name is None:
        return None
    if name in ("float16", "float32", "float64"):
        return np.dtype(name)
    kind = getattr(sys.modules.get("ml_dtypes") or _ml_dtypes(), name, None)
    return None if kind is None else np.dtype(kind)


@functools.lru_cache(maxsize=1)
def _ml_dtypes() -> Any:
    """The package, or None. Where there is none, Python looks through all folders every time."""
    try:
        import ml_dtypes
        return ml_dtypes
    except ImportError:
        return None


def as_format(format: FormatLike, argument: str = "format") -> Format:
    """A Format from one, its name, or a dtype of NumPy, ml_dtypes or torch."""
    if type(format) is str:
        return _named_format(format)
    if isinstance(format, Format):
        return format
    if isinstance(format, str):
        return _named_format(str.__str__(format))  # a subclass need not be hashable
    if isinstance(format, BlockFormat):
        raise TypeError(f"{argument}: {format} is a block format; accepted here: a Format, its name, or a floating-point dtype")
    if isinstance(format, (np.dtype, type)) or is_torch(format, "dtype"):
        found: Format | None
        try:
            found = Format(str(format).removeprefix("torch.")) if is_torch(format, "dtype") else format_of_dtype(np.dtype(format))
        except (TypeError, ValueError):
            found = None
        if found is not None:
            return found
    raise TypeError(f"{argument}: {format!r} is no format; accepted: a Format, its name, or a floating-point dtype of NumPy, ml_dtypes or torch")


def as_rounding(rounding: Rounding | str, overflow: str | None, random_bits: int | None) -> Rounding:
    """A Rounding, or one made from the name of a mode. `overflow` and `random_bits` go only with names."""
    if type(rounding) is str and overflow is None and random_bits is None:
        return _named_rounding(rounding)
    if isinstance(rounding, Rounding):
        if overflow is not None or random_bits is not None:
            raise ValueError("overflow and random_bits: a Rounding says them already; accepted beside the name of a mode")
        return rounding
    if not isinstance(rounding, str):
        raise TypeError(f"rounding: {rounding!r}; accepted: a Rounding or the name of a mode such as 'nearest-even'")
    if overflow is not None and not isinstance(overflow, str):
        raise TypeError(f"overflow: {overflow!r}; accepted: 'ieee', 'saturate'")
    bits = 32 if random_bits is None else as_integer(random_bits, "random_bits", 1, 32)
    return _named_rounding(str.__str__(rounding), overflow="ieee" if overflow is None else str.__str__(overflow), random_bits=bits)


def as_integer(value: Any, argument: str, least: int, most: int) -> int:
    """An integer in a range. TypeError and ValueError name the argument."""
    if type(value) is int and least <= value <= most:
        return value
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{argument}: {value!r}; accepted: an integer from {least} to {most}") from None
    if isinstance(value, bool) or not least <= number <= most:
        raise ValueError(f"{argument}: {value!r}; accepted: an integer from {least} to {most}")
    return number


_fresh = np.random.default_rng()
_fresh_lock = threading.Lock()


def set_seed(seed: int) -> None:
    """Fixes the bits of all later calls that round stochastically without a seed of their own: they take seeds from a
    numpy.random.Generator, default_rng(seed). A program starts with one that nobody can foresee. Raises TypeError and
    ValueError naming the argument."""
    global _fresh
    generator = np.random.default_rng(as_integer(seed, "seed", 0, 2**64 - 1))
    with _fresh_lock:
        _fresh = generator


def as_seed(seed: Any, rounding: Rounding) -> int:
    """The seed of a call; without one, a fresh one if the rounding draws, so that two calls never draw the same bits
    unnoticed."""
    if seed is not None:
        return as_integer(seed, "seed", 0, 2**64 - 1)
    if rounding.mode != "stochastic":
        return 0
    with _fresh_lock:
        return int(_fresh.integers(2**64, dtype=np.uint64))


class Draws(NamedTuple):
    """The source of stochastic rounding's bits: element i takes those of (seed, stream, first + i), or of a word that
    several share."""
    seed: int
    stream: int = 0
    first: int = 0
    roundings_per_word: int = 1

    def at(self, index: int) -> Draws:
        """The same from a later element on."""
        return self._replace(first=(self.first + index) % 2**64)


NO_DRAWS = Draws(0)  # of a rounding that draws none
_ZERO, _ONE = 0, 1  # what defaults are; other numbers, equal or not, are looked at below


def as_draws(seed: Any, stream: Any, first: Any, roundings_per_word: Any, rounding: Rounding) -> Draws:
    usual = seed is None and stream is _ZERO and first is _ZERO and roundings_per_word is _ONE
    if usual and rounding.mode != "stochastic":
        return NO_DRAWS
    return Draws(
        as_seed(seed, rounding),
        as_integer(stream, "stream", 0, 2**64 - 1),
        as_integer(first, "first", 0, 2**64 - 1),
        as_share(roundings_per_word, rounding),
    )


def as_share(roundings_per_word: Any, rounding: Rounding) -> int:
    """How many roundings share a random word, if each has bits enough."""
    if type(roundings_per_word) is not int or roundings_per_word not in (1, 2, 4):
        raise ValueError(f"roundings_per_word: {roundings_per_word!r}; accepted: 1, 2, 4")
    most = 32 // roundings_per_word
    if rounding.mode == "stochastic" and rounding.random_bits > most:
        raise ValueError(
            f"roundings_per_word: {roundings_per_word}, with random_bits={rounding.random_bits}; "
            f"accepted with random_bits of at most {most}"
        )
    return roundings_per_word


# --- arrays ---------------------------------------------------------------------------------------

def from_torch(x: Any, argument: str) -> Array:
    """A torch tensor's memory as an array. Types that NumPy lacks become ml_dtypes' types, which need that package."""
    if not x.requires_grad:
        try:
            array: Array = x.numpy()
            return array
        except (TypeError, RuntimeError):  # said better below
            pass
    if x.device.type != "cpu":
        raise ValueError(f"{argument}: a tensor on {x.device}; accepted: tensors in the CPU's memory")
    if x.layout is not sys.modules["torch"].strided:
        raise TypeError(f"{argument}: a tensor of layout {x.layout}; accepted: strided ones")
    if x.requires_grad and sys.modules["torch"].is_grad_enabled():
        raise ValueError(f"{argument}: a tensor that requires a gradient, which would be lost; accepted: {argument}.detach(); halfulp.torch has functions with gradients")
    x = x.detach()
    if x.is_conj() or x.is_neg():
        x = x.resolve_conj().resolve_neg()
    name = str(x.dtype).removeprefix("torch.")
    if name.startswith(("bfloat", "float8", "float4")):
        dtype = dtype_of_format(as_format(x.dtype, argument))
        if dtype is None:
            raise TypeError(f"{argument}: a tensor of {x.dtype} needs the package ml_dtypes")
        integers = sys.modules["torch"].uint8 if dtype.itemsize == 1 else sys.modules["torch"].int16
        return np.asarray(x.view(integers)).view(dtype)
    return np.asarray(x)


def _read(x: ArrayLike, argument: str) -> Array:
    """NumPy's array of an argument. Torch tensors and objects with __dlpack__ come without a copy."""
    if isinstance(x, (np.ndarray, np.generic)):
        return np.asarray(x)
    if is_torch(x, "Tensor"):
        return from_torch(x, argument)
    if hasattr(x, "__dlpack__"):
        if x.__dlpack_device__()[0] != 1:
            raise ValueError(f"{argument}: an array on another device; accepted: arrays in the CPU's memory")
        return np.asarray(np.from_dlpack(x))
    return np.asarray(x)


def _inexact_integer(x: Any) -> int | None:
    """An integer that float64 does not hold, from lists that NumPy made float64 because they also hold other
    numbers."""
    if isinstance(x, (list, tuple)):
        return next((found for found in map(_inexact_integer, x) if found is not None), None)
    if hasattr(x, "tolist"):
        return _inexact_integer(x.tolist())
    return int(x) if isinstance(x, int) and int(float(x)) != x else None


def _holds_mask(x: Any, depth: int = 8) -> bool:
    """Whether it is a masked array, or lists of lists that hold one."""
    if isinstance(x, (list, tuple)) and depth > 0:
        return any(_holds_mask(part, depth - 1) for part in x)
    return isinstance(x, np.ma.MaskedArray)


def as_array(x: ArrayLike, argument: str) -> Array:
    """A NumPy array of numbers, without a copy if the argument has memory to share. Lists are read as NumPy does, but
    never rounded."""
    if type(x) is np.ndarray and x.dtype in PLAIN_TYPES:
        return x
    if isinstance(x, type):
        raise TypeError(f"{argument}: the class {x.__name__}; accepted: {ACCEPTED}")
    listed = isinstance(x, (list, tuple))
    if _holds_mask(x):
        raise TypeError(f"{argument}: a masked array, whose mask would be lost; accepted: {ACCEPTED}")
    try:
        array = _read(x, argument)
    except MemoryError:
        raise
    except Exception as why:  # from any object's __array__ or __dlpack__
        if str(why).startswith(f"{argument}: "):
            raise
        kind = ValueError if listed and isinstance(why, (ValueError, OverflowError)) else TypeError
        raise kind(f"{argument}: {str(why) or type(why).__name__}; accepted: {ACCEPTED}") from None
    if listed and array.dtype == np.float64 and bool(np.any(np.abs(array) >= 2.0**53)):
        lost = _inexact_integer(x)
        if all(type(v) is int and 0 <= v < 2**64 for v in np.array(x, object).flat):
            array = np.array(x, np.uint64)  # NumPy makes floats of integers on both sides of 2^63
        elif lost is not None:
            raise ValueError(f"{argument}: the integer {lost} beside other numbers would be rounded to float64; accepted: integers alone, or those that float64 holds")
    if dtype_name(array.dtype) in ("int2", "int4"):
        array = array.astype(np.int8)
    elif dtype_name(array.dtype) in ("uint2", "uint4"):
        array = array.astype(np.uint8)
    if not (array.dtype.kind in "iu" or format_of_dtype(array.dtype) is not None):
        raise TypeError(f"{argument}: dtype {array.dtype}; accepted: {ACCEPTED}")
    return array


def contiguous(x: Array, dtype: Any = None) -> Array:
    """The same array in C order, aligned, in the machine's byte order; a copy only where needed."""
    flags = x.flags
    if flags.c_contiguous and flags.aligned and (x.dtype == dtype if dtype is not None else x.dtype.isnative):
        return x
    dtype = x.dtype.newbyteorder("=") if dtype is None else np.dtype(dtype)
    return np.require(x, dtype, ["C_CONTIGUOUS", "ALIGNED"])


def code_type(format: Format) -> np.dtype[Any]:
    """The unsigned integer dtype that holds a format's code words."""
    return _CODE_TYPES[format.storage_bytes]


def codes_of_dtype(x: Array) -> Array:
    """The code words of a floating-point array."""
    x = x.astype(x.dtype.newbyteorder("="), copy=False)
    return contiguous(x).view(_CODE_TYPES[x.dtype.itemsize])


def exact_values(x: Array) -> Array:
    """The same numbers as contiguous float32, float64, int64 or uint64, whichever holds all of them."""
    if x.dtype.kind in "iu":
        if x.dtype.itemsize <= 2:
            return contiguous(x, np.float32)
        if x.dtype.itemsize == 4:
            return contiguous(x, np.float64)
        return contiguous(x)
    if dtype_name(x.dtype) in ("float32", "float64"):
        return contiguous(x)
    format = format_of_dtype(x.dtype)
    assert format is not None
    codes = codes_of_dtype(x)
    values = np.empty(codes.shape, np.float32)
    _core.decode(format, codes, values)
    return values


def float32_to_odd(x: Array) -> Array:
    """Rounds numbers to odd as float32, never to infinity: of the two neighbours it takes the one whose last bit is
    odd. A second rounding, to fewer bits, then gives what one rounding of the number itself would. Source: Boldo and
    Melquiond, IEEE Trans. Computers 57(4), 2008."""
    values = exact_values(x)
    if values.dtype == np.float32:
        return values
    codes = np.empty(values.shape, np.uint32)
    _core.encode(FP32, Rounding("to-odd"), values, codes, NO_DRAWS)
    return codes.view(np.float32)


def code_range(x: Array) -> tuple[int, int]:
    """The smallest and the largest of integers, without walking along broadcast axes."""
    x = x[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in x.strides)]
    return int(x.min()), int(x.max())


def as_codes(x: ArrayLike, format: Format, argument: str) -> Array:
    """Contiguous code words of a format, from unsigned integers or from an array of the format's own dtype."""
    wanted = code_type(format)
    if type(x) is np.ndarray and x.dtype == wanted:
        return contiguous(x)
    array = as_array(x, argument)
    if isinstance(x, (list, tuple)) and not array.size:
        array = array.astype(wanted)  # NumPy's empty lists are float64
    own = format_of_dtype(array.dtype)
    if own == format:
        if isinstance(x, (list, tuple)) and any(isinstance(v, int) for v in np.array(x, object).flat):
            raise ValueError(
                f"{argument}: integers beside other numbers; "
                f"accepted: code words from 0 to {2**format.bits - 1}, or {format.dtype_name} alone"
            )
        return codes_of_dtype(array)
    if own is not None or array.dtype.kind not in "iu":
        raise TypeError(f"{argument}: dtype {array.dtype} are no code words of {format}; accepted: integers" + (f", {format.dtype_name}" if format.dtype_name else ""))
    if array.dtype != wanted and array.size:
        low, high = code_range(array)
        if low < 0 or high >= 2**format.bits:
            raise ValueError(f"{argument}: {low if low < 0 else high} is no code word of {format}; accepted: 0 to {2**format.bits - 1}")
    return contiguous(array, wanted)


def broadcast(arrays: list[tuple[str, Array]]) -> list[Array]:
    """Broadcasts arrays to one shape by NumPy's rules. ValueError names the arguments."""
    shape = arrays[0][1].shape
    for _, a in arrays:
        if a.shape != shape:
            break
    else:
        return [a for _, a in arrays]
    try:
        return list(np.broadcast_arrays(*(a for _, a in arrays)))
    except ValueError:
        shapes = ", ".join(f"{name} {a.shape}" for name, a in arrays)
        raise ValueError(f"shapes that do not go together: {shapes}") from None
