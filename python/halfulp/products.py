"""Dot products and matrix products; a product model states every rounding."""
from __future__ import annotations

import json
from typing import Any, Mapping

import numpy as np

from . import _core
from ._arrays import (
    NEAREST_EVEN,
    NO_DRAWS,
    Array,
    ArrayLike,
    as_array,
    as_codes,
    as_integer,
    code_range,
    codes_of_dtype,
    exact_values,
    format_of_dtype,
)
from ._core import Format, ProductModel, Rounding
from ._outputs import decoded, delivered, tensors_stay, value_type

_WORDS: dict[int, np.dtype[Any]] = {8: np.dtype(np.uint8), 16: np.dtype(np.uint16), 32: np.dtype(np.uint32), 64: np.dtype(np.uint64)}


def as_model(model: ProductModel | str | Mapping[str, Any], argument: str = "model") -> ProductModel:
    """A ProductModel from one, from its text, or from a matrix unit's description as halfulp.units(NAME) returns it."""
    if isinstance(model, ProductModel):
        return model
    if isinstance(model, str):
        return ProductModel(model)
    if isinstance(model, Mapping):
        try:
            text = json.dumps(model, allow_nan=False)
        except (TypeError, ValueError) as why:  # not JSON
            raise type(why)(f"{argument}: {why}; accepted: a unit's description as halfulp.units(NAME) returns it") from None
        return ProductModel.of_unit(text)
    raise TypeError(f"{argument}: {type(model).__name__}; accepted: a ProductModel, its text, a unit's name or description")


def text_of_model(model: ProductModel | str | Mapping[str, Any]) -> str:
    """What a ProductModel is made of: a text, or a unit's description as JSON."""
    return model if isinstance(model, str) else str(as_model(model).__getstate__())


def _word_type(model: ProductModel, format: Format) -> np.dtype[Any]:
    return _WORDS[next(bits for bits in _WORDS if bits >= model.word_bits(format))]


def _words(x: Array, format: Format, model: ProductModel, codes: bool, argument: str) -> Array:
    """An operand's code words, in words of the model's width."""
    if codes and format_of_dtype(x.dtype) is None:
        limit = model.word_bits(format)
        low, high = code_range(x) if x.size else (0, 0)
        if low < 0 or high >= 2**limit:
            raise ValueError(f"{argument}: {low if low < 0 else high} is no code word of {format}; accepted: 0 to {2**limit - 1}")
        return np.require(x, _word_type(model, format), ["C_CONTIGUOUS", "ALIGNED"])
    if format_of_dtype(x.dtype) == format:
        words = codes_of_dtype(x)
    elif codes:
        words = as_codes(x, format, argument)  # says what is accepted
    else:
        values = exact_values(x)
        words = np.empty(values.shape, f"u{format.storage_bytes}")
        _core.encode(format, NEAREST_EVEN, values, words, NO_DRAWS)
    shift = model.word_bits(format) - format.bits  # tf32 in 32-bit words
    return words << np.asarray(shift, words.dtype) if shift else words


def _values(x: Array, format: Format) -> Array:
    """An operand's values as float32, rounded to nearest even where the format does not hold them."""
    values = exact_values(x)
    if format_of_dtype(x.dtype) == format:
        return values
    if values.dtype.kind in "iu":
        words = np.empty(values.shape, f"u{format.storage_bytes}")
        _core.encode(format, NEAREST_EVEN, values, words, NO_DRAWS)
        return decoded(format, words)
    result = np.empty(values.shape, values.dtype)
    _core.quantize(format, NEAREST_EVEN, values, result, NO_DRAWS, False)
    return result.astype(np.float32, copy=False)


def _matrix(x: ArrayLike, argument: str) -> Array:
    array = as_array(x, argument)
    if array.ndim != 2:
        raise ValueError(f"{argument}: shape {array.shape}; accepted: a matrix")
    return array


@tensors_stay
def gemm(a: ArrayLike, b: ArrayLike, c: ArrayLike | None = None, *, model: ProductModel | str | Mapping[str, Any] = "fp32", scale_a: ArrayLike | None = None,
         scale_b: ArrayLike | None = None, codes: bool = False, stream: int = 0, out: Any = None) -> Any:
    """D = A B + C by a product model. Every bit of the output follows the model's definition.

    a: m x k, b: k x n, c: m x n or absent; any types that quantize() takes. Numbers that the model's formats do not
    hold are first rounded to nearest even. model: a text such as "fp16", "mul=fp16,acc=fp32,order=blocked:128", a
    matrix unit such as "hopper.mma.fp16.fp32" (halfulp.units()), or a unit's description. Units with scales take
    scale_a, m x blocks, and scale_b, blocks x n, one scale per model.scale_block products. Returns m x n values of the
    result's format as float32 (float64 for wider formats). codes=True: operands, scales and result are code words;
    under a unit, tf32 takes 32-bit words. stream: output (i, j) draws its random bits from stream + i n + j. Ctrl-C
    interrupts. out: an array or tensor of m x n for the result. Raises TypeError and ValueError naming the argument.

    >>> gemm([[1, 2**-12]], [[1], [1]], model="fp16"), gemm([[1, 2**-12]], [[1], [1]], model="fp32")
    (array([[1.]], dtype=float32), array([[1.0002441]], dtype=float32))
    """
    if out is not None:
        return delivered(gemm(a, b, c, model=model, scale_a=scale_a, scale_b=scale_b, codes=codes, stream=stream), out)
    m = as_model(model)
    x, y = _matrix(a, "a"), _matrix(b, "b")
    z = None if c is None else _matrix(c, "c")
    if x.shape[1] != y.shape[0]:
        raise ValueError(f"a has {x.shape[1]} columns, and b {y.shape[0]} rows; accepted: as many")
    shape = (x.shape[0], y.shape[1])
    if z is not None and z.shape != shape:
        raise ValueError(f"c: shape {z.shape}; accepted: {shape}")
    first = as_integer(stream, "stream", 0, 2**64 - 1)
    blocks = -(-x.shape[1] // m.scale_block) if m.scale is not None else 0
    scales = [_scale(scale_a, m, "scale_a", (shape[0], blocks), codes), _scale(scale_b, m, "scale_b", (blocks, shape[1]), codes)]
    fp32 = Format("fp32")
    if not codes and m.scale is None and fp32.holds(m.a) and fp32.holds(m.b) and fp32.holds(m.result):
        values = np.empty(shape, np.float32)
        _core.gemm_values(m, _values(x, m.a), _values(y, m.b), None if z is None else _values(z, m.result), values, first)
        return values
    words = np.empty(shape, _word_type(m, m.result))
    _core.gemm_codes(m, _words(x, m.a, m, codes, "a"), _words(y, m.b, m, codes, "b"), None if z is None else _words(z, m.result, m, codes, "c"), scales[0], scales[1], words, first)
    if codes:
        return words
    shift = m.word_bits(m.result) - m.result.bits
    return decoded(m.result, (words >> np.asarray(shift, words.dtype)).astype(f"u{m.result.storage_bytes}"), value_type(m.result))


def _scale(scale: ArrayLike | None, model: ProductModel, argument: str, shape: tuple[int, int], codes: bool) -> Array | None:
    if model.scale is None:
        if scale is None:
            return None
        raise ValueError(f"{argument}: {model} takes no scales")
    if scale is None:
        raise ValueError(f"{argument}: missing; accepted by {model}: scales of shape {shape}")
    matrix = _matrix(scale, argument)
    if matrix.shape != shape:
        raise ValueError(f"{argument}: shape {matrix.shape}; accepted: {shape}, one scale for {model.scale_block} products")
    return _words(matrix, model.scale, model, codes, argument)


@tensors_stay
def dot(a: ArrayLike, b: ArrayLike, c: ArrayLike | None = None, *, model: ProductModel | str | Mapping[str, Any] = "fp32", codes: bool = False, stream: int = 0) -> Any:
    """One dot product by a product model, plus c if given; like gemm() of a row and a column.

    >>> dot([65504, 1], [1, 1], model="fp16"), dot([2048, 1, 1], [1, 1, 1], model="fp16")
    (65504.0, 2048.0)
    """
    x, y = as_array(a, "a"), as_array(b, "b")
    for name, v in (("a", x), ("b", y)):
        if v.ndim != 1:
            raise ValueError(f"{name}: shape {v.shape}; accepted: a vector")
    if x.size != y.size:
        raise ValueError(f"a has {x.size} elements, and b {y.size}; accepted: as many")
    z = None if c is None else as_array(c, "c")
    if z is not None and z.ndim != 0:
        raise ValueError(f"c: shape {z.shape}; accepted: a number")
    return gemm(x[None, :], y[:, None], None if z is None else z[None, None], model=model, codes=codes, stream=stream)[0, 0]


def multiply_with_unit(unit: str | Mapping[str, Any] | ProductModel, a: ArrayLike, b: ArrayLike, c: ArrayLike | None, scale_a: ArrayLike | None, scale_b: ArrayLike | None,
                       codes: bool) -> Any:
    """halfulp.mma() on arrays."""
    model = as_model(unit, "unit")
    if not model.is_unit:
        raise ValueError(f"unit: '{model}' is no matrix unit; accepted: a name that halfulp.units() lists, or such a description")
    return gemm(a, b, c, model=model, scale_a=scale_a, scale_b=scale_b, codes=codes)
