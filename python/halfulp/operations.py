"""Operations element by element, each rounded once, with IEEE flags on request.

All take numbers or arrays that broadcast, of any types that quantize() takes. Operands that are not values of the
format are first rounded to it, to nearest even. `format` is a Format, its name or a dtype; the default is the format of the
operands' own dtype (float16, float32, float64, ml_dtypes). They return values of that dtype if the operands have it,
else float32 (float64 for wider formats). Options, by keyword:

  rounding     a Rounding or the name of a mode; default nearest-even
  overflow     ieee (default) or saturate; like random_bits (1 to 32, of stochastic rounding), only with a mode's name
  seed         of stochastic rounding: element i takes word i of Philox4x32-10, stream 0; without one, fresh bits
               in every call
  codes        True: operands and results are code words, unsigned integers
  flags        True: returns a pair, results and an array of uint8 with each element's flags (FLAGS names the bits)

They raise TypeError and ValueError naming the argument. Source: IEEE 754-2019, clauses 5, 7 and 9.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from . import _core
from ._arrays import (
    NEAREST_EVEN,
    NO_DRAWS,
    Array,
    ArrayLike,
    FormatLike,
    as_array,
    as_codes,
    as_format,
    as_rounding,
    as_seed,
    broadcast,
    code_type,
    codes_of_dtype,
    contiguous,
    dtype_name,
    dtype_of_format,
    exact_values,
    format_of_dtype,
)
from ._core import Format, Rounding
from ._outputs import decoded, finish, tensors_stay, value_type

if TYPE_CHECKING:
    from typing_extensions import TypedDict, Unpack

    class Options(TypedDict, total=False):
        rounding: Rounding | str
        overflow: str | None
        random_bits: int | None
        seed: int | None
        codes: bool
        flags: bool

FLAGS = {"inexact": 0x01, "underflow": 0x02, "overflow": 0x04, "divide_by_zero": 0x08, "invalid": 0x10}
"""The bits of IEEE flags, as in Berkeley TestFloat."""

# Operations that answer true or false, by the table of emulation/operation.hpp.
_TRUTHS = {name for _, name, _, truth in _core.operations() if truth}
# Every operation has a function here: where one is missing, `import halfulp` fails. (Type checkers read no names made at run time.)
_FUNCTIONS = [function for function, _, _, _ in _core.operations()]
if not TYPE_CHECKING:
    __all__ = ["FLAGS", *_FUNCTIONS]

_INTEGERS: dict[str, np.dtype[Any]] = {"i32": np.dtype(np.int32), "i64": np.dtype(np.int64), "u32": np.dtype(np.uint32), "u64": np.dtype(np.uint64)}


def _format_of(operands: list[tuple[str, Array]], format: FormatLike | None) -> Format:
    """The given format, or that of the operands' dtype."""
    if format is not None:
        return as_format(format)
    found = {format_of_dtype(x.dtype) for _, x in operands}
    one = found.pop() if len(found) == 1 else None
    if one is None:
        types = ", ".join(f"{name} {x.dtype}" for name, x in operands)
        raise TypeError(f"format: missing, and the operands' types do not say it ({types}); accepted: a Format, its name or a dtype")
    return one


def _rounded_codes(x: Array, f: Format) -> Array:
    """Code words of numbers, rounded to nearest even where the format does not have them."""
    if format_of_dtype(x.dtype) == f:
        return codes_of_dtype(x)
    values = exact_values(x)
    codes = np.empty(values.shape, code_type(f))
    _core.encode(f, NEAREST_EVEN, values, codes, NO_DRAWS)
    return codes


def _compute(operation: str, from_: str, to: str, r: Rounding, words: list[Array], dtype: np.dtype[Any], flags: bool, seed: int | None) -> tuple[Array, Array | None]:
    result = np.empty(words[0].shape, dtype)
    raised = np.empty(words[0].shape, np.uint8) if flags else None
    b, c = words[1] if len(words) > 1 else None, words[2] if len(words) > 2 else None
    _core.elementwise(operation, from_, to, r, words[0], b, c, result, raised, as_seed(seed, r))
    return result, raised


def _paired(answer: Array, raised: Array | None) -> Any:
    scalar = answer.ndim == 0
    return finish(answer, scalar) if raised is None else (finish(answer, scalar), finish(raised, scalar))


def _refuse(unknown: dict[str, Any], operation: str) -> None:
    """Refuses a keyword as Python does, with the name of the called function."""
    for name in unknown:
        raise TypeError(f"{operation.replace('-', '_')}() got an unexpected keyword argument {name!r}")


@tensors_stay
def _elementwise(operation: str, operands: list[tuple[str, ArrayLike]], format: FormatLike | None, *, rounding: Rounding | str = "nearest-even", overflow: str | None = None,
                 random_bits: int | None = None, seed: int | None = None, codes: bool = False, flags: bool = False, **unknown: Any) -> Any:
    _refuse(unknown, operation)
    arrays = [(name, as_array(x, name)) for name, x in operands]
    f = _format_of(arrays, format)
    r = as_rounding(rounding, overflow, random_bits)
    if codes:
        words = [contiguous(x) for x in broadcast([(name, as_codes(x, f, name)) for name, x in operands])]
    else:
        same_shape = broadcast(arrays)
        if not flags and operation not in _TRUTHS and _come_as_float32(f, same_shape):
            return _compute_values(operation, f, r, [exact_values(x) for x in same_shape], seed)
        words = [_rounded_codes(x, f) for x in same_shape]
    result, raised = _compute(operation, f.name, f.name, r, words, code_type(f), flags, seed)
    if operation in _TRUTHS:
        return _paired(result.astype(np.bool_), raised)
    if codes:
        return _paired(result, raised)
    dtype = dtype_of_format(f)
    if dtype is not None and all(x.dtype == dtype for _, x in arrays):
        return _paired(result.view(dtype), raised)
    return _paired(decoded(f, result), raised)


def _come_as_float32(f: Format, operands: list[Array]) -> bool:
    """Whether results are float32, and not of the operands' own type, and operands become floats without rounding."""
    formats = [format_of_dtype(x.dtype) for x in operands]
    if value_type(f) != np.float32 or all([own == f for own in formats]):
        return False
    return all([own is not None or x.dtype.itemsize < 8 for own, x in zip(formats, operands)])


def _compute_values(operation: str, f: Format, r: Rounding, values: list[Array], seed: int | None) -> Any:
    result = np.empty(values[0].shape, np.float32)
    b, c = values[1] if len(values) > 1 else None, values[2] if len(values) > 2 else None
    _core.elementwise_values(operation, f, r, values[0], b, c, result, as_seed(seed, r))
    return finish(result, result.ndim == 0)


def convert(a: ArrayLike, to: FormatLike, format: FormatLike | None = None, **options: Unpack[Options]) -> Any:
    """Converts numbers to another format or integer type: IEEE convertFormat, convertToInteger, convertFromInt.

    to: a format, or "i32", "i64", "u32", "u64" for integers, which returns arrays of that type. Integers without
    `format` are converted from their own type (narrower ones from i64). Options: those of every operation of this
    module.

    >>> convert([2.5, 1e10], "i32", "fp32")
    array([         2, 2147483647], dtype=int32)
    """
    return _convert(a, to, format, **options)


@tensors_stay
def _convert(a: ArrayLike, to: FormatLike, format: FormatLike | None, *, rounding: Rounding | str = "nearest-even", overflow: str | None = None, random_bits: int | None = None,
             seed: int | None = None, codes: bool = False, flags: bool = False, **unknown: Any) -> Any:
    _refuse(unknown, "convert")
    x = as_array(a, "a")
    r = as_rounding(rounding, overflow, random_bits)
    if format is None and x.dtype.kind in "iu" and not codes:
        from_ = {"int32": "i32", "uint32": "u32", "uint64": "u64"}.get(dtype_name(x.dtype), "i64")
        signed = _INTEGERS[from_]
        words = [np.require(x, signed, ["C_CONTIGUOUS", "ALIGNED"]).view(f"u{signed.itemsize}")]
    else:
        f = _format_of([("a", x)], format)
        from_ = f.name
        words = [as_codes(a, f, "a") if codes else _rounded_codes(x, f)]
    if isinstance(to, str) and to in _INTEGERS:
        integer = _INTEGERS[to]
        result, raised = _compute("convert", from_, to, r, words, np.dtype(f"u{integer.itemsize}"), flags, seed)
        return _paired(result.view(integer), raised)
    target = as_format(to, "to")
    result, raised = _compute("convert", from_, target.name, r, words, code_type(target), flags, seed)
    return _paired(result if codes else decoded(target, result), raised)


def add(a: ArrayLike, b: ArrayLike, format: FormatLike | None = None, **options: Unpack[Options]) -> Any:
    """a + b. Operands, format, options, results: see the module halfulp.operations."""
    return _elementwise("add", [("a", a), ("b", b)], format, **options)


def sub(a: ArrayLike, b: ArrayLike, format: FormatLike | None = None, **options: Unpack[Options]) -> Any:
    """a - b. Operands, format, options, results: see the module halfulp.operations."""
    return _elementwise("sub", [("a", a), ("b", b)], format, **options)


def mul(a: ArrayLike, b: ArrayLike, format: FormatLike | None = None, **options: Unpack[Options]) -> Any:
    """a * b. Operands, format, options, results: see the module halfulp.operations."""
    return _elementwise("mul", [("a", a), ("b", b)], format, **options)


def div(a: ArrayLike, b: ArrayLike, format: FormatLike | None = None, **options: Unpack[Options]) -> Any:
    """a / b. Operands, format, options, results: see the module halfulp.operations."""
    return _elementwise("div", [("a", a), ("b", b)], format, **options)


def rem(a: ArrayLike, b: ArrayLike, format: FormatLike | None = None, **options: Unpack[Options]) -> Any:
    """The IEEE remainder: a - n b with n the integer nearest to a / b, ties to even; always exact. Operands, format, options, results: see the module halfulp.operations."""
    return _elementwise("rem", [("a", a), ("b", b)], format, **options)


def sqrt(a: ArrayLike, format: FormatLike | None = None, **options: Unpack[Options]) -> Any:
    """The square root. Operands, format, options, results: see the module halfulp.operations."""
    return _elementwise("sqrt", [("a", a)], format, **options)


def fma(a: ArrayLike, b: ArrayLike, c: ArrayLike, format: FormatLike | None = None, **options: Unpack[Options]) -> Any:
    """a * b + c, rounded once. Operands, format, options, results: see the module halfulp.operations."""
    return _elementwise("fma", [("a", a), ("b", b), ("c", c)], format, **options)


def round_to_integral(a: ArrayLike, format: FormatLike | None = None, **options: Unpack[Options]) -> Any:
    """The nearest integral value, by the rounding mode. Operands, format, options, results: see the module halfulp.operations."""
    return _elementwise("round-to-integral", [("a", a)], format, **options)


def min(a: ArrayLike, b: ArrayLike, format: FormatLike | None = None, **options: Unpack[Options]) -> Any:
    """minimumNumber: a NaN counts as missing, -0 is below +0. Operands, format, options, results: see the module halfulp.operations."""
    return _elementwise("min", [("a", a), ("b", b)], format, **options)


def max(a: ArrayLike, b: ArrayLike, format: FormatLike | None = None, **options: Unpack[Options]) -> Any:
    """maximumNumber: a NaN counts as missing, -0 is below +0. Operands, format, options, results: see the module halfulp.operations."""
    return _elementwise("max", [("a", a), ("b", b)], format, **options)


def eq(a: ArrayLike, b: ArrayLike, format: FormatLike | None = None, **options: Unpack[Options]) -> Any:
    """a == b as bool, quiet: invalid only for signalling NaNs. Operands, format, options, results: see the module
    halfulp.operations."""
    return _elementwise("eq", [("a", a), ("b", b)], format, **options)


def lt(a: ArrayLike, b: ArrayLike, format: FormatLike | None = None, **options: Unpack[Options]) -> Any:
    """a < b as bool, signalling: invalid for any NaN. Operands, format, options, results: see the module halfulp.operations."""
    return _elementwise("lt", [("a", a), ("b", b)], format, **options)


def le(a: ArrayLike, b: ArrayLike, format: FormatLike | None = None, **options: Unpack[Options]) -> Any:
    """a <= b as bool, signalling: invalid for any NaN. Operands, format, options, results: see the module halfulp.operations."""
    return _elementwise("le", [("a", a), ("b", b)], format, **options)


def rcp(a: ArrayLike, format: FormatLike | None = None, **options: Unpack[Options]) -> Any:
    """1 / a. Operands, format, options, results: see the module halfulp.operations."""
    return _elementwise("rcp", [("a", a)], format, **options)


def rsqrt(a: ArrayLike, format: FormatLike | None = None, **options: Unpack[Options]) -> Any:
    """1 / sqrt(a), correctly rounded. Operands, format, options, results: see the module halfulp.operations."""
    return _elementwise("rsqrt", [("a", a)], format, **options)


def exp(a: ArrayLike, format: FormatLike | None = None, **options: Unpack[Options]) -> Any:
    """e^a, correctly rounded. Operands, format, options, results: see the module halfulp.operations."""
    return _elementwise("exp", [("a", a)], format, **options)


def log2(a: ArrayLike, format: FormatLike | None = None, **options: Unpack[Options]) -> Any:
    """The logarithm to base 2, correctly rounded. Operands, format, options, results: see the module halfulp.operations."""
    return _elementwise("log2", [("a", a)], format, **options)
