"""Rounding of arrays to a format, code words and their values."""
from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from . import _core
from ._arrays import Array, ArrayLike, Draws, FormatLike, as_array, as_codes, as_draws, as_format, as_rounding, code_type, dtype_name, exact_values, format_of_dtype
from ._core import Format, Rounding
from ._outputs import as_dtype, as_output, decoded, delivered, finish, holds_or_raise, is_plain, room_for, same_memory, tensors_stay, value_type, written

_FP16 = Format("fp16")


def _goes_beyond_float32(format: Format, rounding: Rounding) -> bool:
    """Whether the format may round a float32 to what is none: the largest to something larger, one that is too large to
    its own largest, or an infinity to that, where it saturates or the format has none."""
    if format.emax > 127 and format.fraction_bits < 23:
        return True
    if format.max <= float(np.finfo(np.float32).max):
        return float(np.float32(format.max)) != format.max
    return rounding.overflow == "saturate" or not format.has_infinity


class _Way(NamedTuple):
    """How values of a dtype are rounded to a format, which depends on nothing else."""
    wanted: np.dtype[Any]  # of the results
    beyond: bool  # the format may make numbers of float32 that float32 does not hold
    own_type: bool  # the results' dtype is that of the values, which native functions round
    through_codes: bool


@functools.lru_cache(maxsize=256)
def _way(format: Format, rounding: Rounding, dtype: np.dtype[Any], asked: np.dtype[Any] | None) -> _Way:
    """asked: the results' dtype; without it they are float64 of float64 and wide integers, float16 of float16 if that
    holds the format, else float32; float64 where float32 does not hold what the format may make of its numbers."""
    name, beyond = dtype_name(dtype), _goes_beyond_float32(format, rounding)
    wide = dtype.kind in "iu" and dtype.itemsize >= 4
    wanted = np.dtype(np.float64 if name == "float64" or wide or beyond else np.float32)
    if asked is not None:
        wanted = asked
    elif name == "float16" and _FP16.holds(format):
        wanted = np.dtype(np.float16)
    floats = dtype_name(wanted) == "float32" and not beyond
    own_type = wanted == dtype and (dtype_name(wanted) == "float64" or floats)
    # Through code words, so that 64-bit integers are rounded once. An array of the format's own dtype already holds
    # code words.
    integers = dtype.kind in "iu" and dtype.itemsize == 8
    through_codes = integers or format_of_dtype(wanted) == format and dtype_name(wanted) not in ("float32", "float64")
    return _Way(wanted, beyond, own_type, through_codes)


def _flushed(x: Array, values: Array, rounding: Rounding, widens: bool) -> Array:
    """The values of x, of which flush_inputs makes subnormal numbers of its dtype zeros, where rounding does not: they
    are normal numbers if the values are wider, or become so (widens)."""
    if not rounding.flush_inputs or x.dtype.kind in "iu" or (dtype_name(x.dtype) == str(values.dtype) and not widens):
        return values
    format = format_of_dtype(x.dtype)
    assert format is not None
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return np.where(np.abs(values) < format.smallest_normal, np.copysign(values.dtype.type(0), values), values)


def quantize_values(x: ArrayLike, format: Format, rounding: Rounding, draws: Draws, dtype: Any, out: Any, tally: bool) -> Any:
    """quantize() of an array in a plain format."""
    array = as_array(x, "x")
    given, asked = out, None if dtype is None else as_dtype(dtype)
    if out is not None:
        out = as_output(out, array.shape)
        if asked is not None and asked != out.dtype:
            raise TypeError(f"dtype: {asked}, and out has {out.dtype}; accepted: one of them")
    wanted, beyond, own_type, through_codes = _way(format, rounding, array.dtype, asked if out is None else out.dtype)
    if (asked is not None or out is not None) and not own_type:
        holds_or_raise(wanted, format, "out" if asked is None else "dtype")
    values = _flushed(array, exact_values(array), rounding, beyond and dtype_name(array.dtype) != "float64")
    if through_codes:
        codes = np.empty(values.shape, code_type(format))
        if tally:
            raise TypeError("tally: counted for results of float32 and float64 from floats alone")
        _core.encode(format, rounding, values, codes, draws)
        result = (
            codes.view(wanted.newbyteorder("="))
            if format_of_dtype(wanted) == format
            else decoded(format, codes, np.dtype(np.float64))
        )
        result = result.astype(wanted, copy=False)
        counts = None
    else:
        if beyond and values.dtype == np.float32:
            with np.errstate(invalid="ignore"):  # signalling NaNs
                values = values.astype(np.float64)
        itself = out is not None and is_plain(out, values.dtype) and (values is out or not np.may_share_memory(values, out) or same_memory(values, out))
        result = out if itself else np.empty(values.shape, values.dtype)
        counts = _core.quantize(format, rounding, values, result, draws, tally)
        if not itself and result.dtype != wanted:
            result = result.astype(wanted)
    if out is not None and result is not out:
        out[...] = result
    answer = written(given) if out is not None else finish(result, array.ndim == 0)
    return (answer, counts) if tally else answer


@tensors_stay
def encode(
    x: ArrayLike,
    format: FormatLike,
    *,
    rounding: Rounding | str = "nearest-even",
    overflow: str | None = None,
    random_bits: int | None = None,
    seed: int | None = None,
    stream: int = 0,
    first: int = 0,
    roundings_per_word: int = 1,
    out: Any = None,
) -> Any:
    """The code words of numbers rounded to a format.

    x: numbers of any shape and strides, of NumPy's or ml_dtypes' types, a torch tensor, or a number; each is rounded
    once, from its exact value. format: a Format, its name, or a dtype. Returns unsigned integers of x's shape, of 8,
    16, 32 or 64 bits, with the code word in the low bits; or `out`, an array or tensor of that type. rounding,
    overflow, random_bits, seed, stream, first, roundings_per_word: as in quantize(). Raises TypeError and ValueError
    naming the argument.

    >>> encode([0.1, 300, 448, -0.0], "e4m3")
    array([ 29, 121, 126, 128], dtype=uint8)
    """
    f = as_format(format)
    array = as_array(x, "x")
    r = as_rounding(rounding, overflow, random_bits)
    type = code_type(f)
    values = _flushed(array, exact_values(array), r, type.itemsize == 8 and dtype_name(array.dtype) != "float64")
    codes = room_for(values, type, None if out is None else as_output(out, values.shape))
    _core.encode(f, r, values, codes, as_draws(seed, stream, first, roundings_per_word, r))
    return finish(codes, array.ndim == 0) if out is None else delivered(codes, out)


@tensors_stay
def decode(codes: ArrayLike, format: FormatLike, *, dtype: Any = None, out: Any = None) -> Any:
    """The values of code words, exactly.

    codes: integers of any shape from 0 to 2^bits - 1. Returns float32 if it holds every value of the format, else
    float64; or `dtype`, which must hold all of them; or `out`, an array or tensor of such a type. NaN is canonical.
    Raises TypeError and ValueError naming the argument.

    >>> decode([56, 121, 126, 127], "e4m3")
    array([  1., 288., 448.,  nan], dtype=float32)
    """
    f = as_format(format)
    words = as_codes(codes, f, "codes")
    if dtype is None and out is None:
        return finish(decoded(f, words), words.ndim == 0)
    array = None if out is None else as_output(out, words.shape)
    wanted = array.dtype if array is not None and dtype is None else as_dtype(dtype)
    holds_or_raise(wanted, f, "dtype" if dtype is not None else "out")
    native = value_type(f)
    if dtype_name(wanted) in ("float32", "float64"):
        native = wanted if wanted.isnative else wanted.newbyteorder("=")
    values = decoded(f, words, native, array if native == wanted else None).astype(wanted, copy=False)
    return finish(values, words.ndim == 0) if out is None else delivered(values, out)
