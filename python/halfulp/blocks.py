"""Arrays in block formats: elements of a few bits that share a scale."""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _core
from ._arrays import Array, ArrayLike, Draws, as_array, as_codes, as_draws, as_integer, as_rounding, float32_to_odd
from ._core import BlockFormat, Rounding
from ._outputs import as_output, decoded, finish, is_plain, written


@dataclass(frozen=True)
class Layout:
    """An array as matrices whose blocks lie as the format requires."""
    format: BlockFormat
    matrices: int
    rows: int
    columns: int


def layout_of(f: BlockFormat, shape: tuple[int, ...], axis: int | None) -> Layout:
    """Blocks 1 x N run along an axis, by default the last. Blocks R x C lie in the last two axes, and every matrix has
    its own."""
    if axis is not None:
        if f.rows != 1:
            raise ValueError(f"axis: {axis}, and blocks of {f} do not run along one axis")
        axis = as_integer(axis, "axis", -len(shape), len(shape) - 1) % len(shape) if shape else _no_axis(axis)
    if not shape or (f.rows == 0 and f.columns == 0):
        return Layout(f, 1, 1, math.prod(shape))
    last = len(shape) - 1
    if f.rows != 1:
        return Layout(f, math.prod(shape[:-2]), shape[-2] if last else 1, shape[-1])
    if axis is None or axis == last:
        return Layout(f, 1, math.prod(shape[:-1]), shape[-1])
    return Layout(f.turned(), math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1:]))


def _no_axis(axis: int) -> int:
    raise ValueError(f"axis: {axis}, and the array has no axes")


@dataclass(frozen=True, eq=False)
class Blocks:
    """An array in a block format, as quantize_blocks() returns it.

    codes: the elements' code words, uint8, of the array's shape. scales: the scales' code words, one per block, of
    shape (blocks down, blocks across), with an axis of matrices first if there are several. zeros: the zero points of
    affine formats, else None. tensor_scale: the tensor's scale in formats that have one, else 1.
    """
    format: BlockFormat
    codes: Array
    scales: Array
    zeros: Array | None
    tensor_scale: float
    axis: int | None = None

    @property
    def scale_values(self) -> Array:
        """The scales as float32 numbers, without the tensor's scale."""
        return decoded(self.format.scale, self.scales, np.dtype(np.float32))

    def values(self) -> Array:
        """The array's values as float32: elements times their scales. For Blocks made by hand, TypeError and ValueError
        name the field that does not fit the others."""
        f = as_block_format(self.format)
        codes = _field(self.codes, "codes", "u")
        l = layout_of(f, codes.shape, self.axis)
        counts = _core.block_counts(l.format, l.rows, l.columns)
        shape = counts if l.matrices == 1 else (l.matrices, *counts)
        scales = as_codes(_field(self.scales, "scales", "iu", shape), f.scale, "scales").astype(np.uint32).reshape(l.matrices, math.prod(counts))
        if (self.zeros is None) == f.is_affine:
            raise ValueError(f"zeros: {'missing' if f.is_affine else 'given'}; accepted: an array for affine formats, None for others such as {f}")
        zeros = None if self.zeros is None else _field(self.zeros, "zeros", "i", shape).reshape(l.matrices, math.prod(counts))
        out = np.empty(codes.shape, np.float32)
        matrices, values = codes.reshape(l.matrices, l.rows, l.columns), out.reshape(l.matrices, l.rows, l.columns)
        for i in range(l.matrices):
            _core.dequantize_matrix(l.format, matrices[i], scales[i], None if zeros is None else zeros[i], self._tensor_scale(f), values[i])
        return out

    def _tensor_scale(self, f: BlockFormat) -> float:
        scale = _number(self.tensor_scale, "tensor_scale")
        if scale < 0 or not f.tensor_scale and scale != 1:
            raise ValueError(f"tensor_scale: {scale}; accepted: " + ("a number that is not negative" if f.tensor_scale else f"1, for {f} has none"))
        return scale


def _field(x: Any, name: str, kinds: str, shape: tuple[int, ...] | None = None) -> Array:
    """An array field of Blocks, of that shape: code words as uint8, zero points as int16, scales of any integer
    type."""
    array = as_array(x, name)
    wanted = {"codes": np.uint8, "zeros": np.int16}.get(name, array.dtype)
    if array.dtype.kind not in kinds or array.dtype != wanted:
        raise TypeError(f"{name}: dtype {array.dtype}; accepted: {np.dtype(wanted) if name != 'scales' else 'integers'}")
    if shape is not None and array.shape != shape:
        raise ValueError(f"{name}: shape {array.shape}; accepted: {shape}")
    return np.ascontiguousarray(array) if array.ndim else array


def _number(x: Any, argument: str) -> float:
    """A float from a number. TypeError names the argument."""
    if not isinstance(x, (bool, np.bool_, str, bytes)):
        try:
            return float(x)
        except (TypeError, ValueError, RuntimeError):
            pass
        except OverflowError:
            return math.inf
    raise TypeError(f"{argument}: {x!r}; accepted: a number")


def as_block_format(format: BlockFormat | str) -> BlockFormat:
    if isinstance(format, BlockFormat):
        return format
    if isinstance(format, str):
        return BlockFormat(format)
    raise TypeError(f"format: {format!r}; accepted: a BlockFormat or its name")


def _tensor_amax(f: BlockFormat, x: Array, l: Layout, amax: float | None) -> float | None:
    """One scale for all matrices of a tensor."""
    if amax is not None:
        limit = _number(amax, "amax")
        if not 0 <= limit <= float(np.finfo(np.float32).max):
            raise ValueError(f"amax: {amax}; accepted: a finite float32 that is not negative")
        return limit
    if not f.tensor_scale or l.matrices == 1:
        return None
    return float(np.nanmax(np.abs(x), initial=0.0)) if x.size else 0.0


def quantize_blocks(
    x: ArrayLike,
    format: BlockFormat | str,
    *,
    rounding: Rounding | str = "nearest-even",
    random_bits: int | None = None,
    seed: int | None = None,
    stream: int = 0,
    first: int = 0,
    roundings_per_word: int = 1,
    axis: int | None = None,
    amax: float | None = None,
) -> Blocks:
    """An array in a block format: code words, scales, zero points.

    x: numbers of any shape. Blocks are computed from float32. float64 and wide integers are first rounded to odd, never
    to infinity, so elements are rounded once where scales are powers of two (elsewhere the quotient by the scale is
    rounded first). format: "mxfp8e4m3", "nvfp4", "e4m3/1x64/e8m0/rceil" (halfulp.formats(blocks=True)). axis: the axis
    along which blocks 1 x N run; default: the last. amax: the largest magnitude to use instead of the array's own
    (delayed scaling). seed, stream, first, roundings_per_word: as in quantize(). Elements saturate; of `rounding` only
    the mode and the random bits count. Raises TypeError and ValueError naming the argument. Source: OCP Microscaling
    Formats 1.0, and the citations of the formats.

    >>> b = quantize_blocks([1, 2, 3, 100], "mxfp4")
    >>> b.codes, b.scale_values, b.values()
    (array([0, 0, 0, 7], dtype=uint8), array([[16.]], dtype=float32), array([ 0.,  0.,  0., 96.], dtype=float32))
    """
    f = as_block_format(format)
    r = as_rounding(rounding, None, random_bits)
    draws = as_draws(seed, stream, first, roundings_per_word, r)
    values = float32_to_odd(as_array(x, "x"))
    l = layout_of(f, values.shape, axis)
    limit = _tensor_amax(f, values, l, amax)
    down, across = _core.block_counts(l.format, l.rows, l.columns)
    codes = np.empty(values.shape, np.uint8)
    scales = np.empty((l.matrices, down, across), np.uint32)
    zeros = np.empty((l.matrices, down, across), np.int16) if f.is_affine else None
    matrices, elements = values.reshape(l.matrices, l.rows, l.columns), codes.reshape(l.matrices, l.rows, l.columns)
    tensor_scale = 1.0
    for i in range(l.matrices):
        tensor_scale = _core.quantize_matrix(
            l.format,
            r,
            matrices[i],
            draws.at(i * l.rows * l.columns),
            limit,
            elements[i],
            scales[i],
            None if zeros is None else zeros[i],
        )
    narrow = scales.astype(f"u{f.scale.storage_bytes}")
    if l.matrices == 1:
        narrow, zeros = narrow[0], None if zeros is None else zeros[0]
    return Blocks(f, codes, narrow, zeros, tensor_scale, axis)


def block_values(x: ArrayLike, f: BlockFormat, rounding: Rounding, draws: Draws, axis: int | None, out: Any) -> Any:
    """quantize() of an array in a block format: only the values."""
    values = float32_to_odd(as_array(x, "x"))
    l = layout_of(f, values.shape, axis)
    limit = _tensor_amax(f, values, l, None)
    target = None if out is None else as_output(out, values.shape)
    if target is not None and target.dtype not in (np.float32, np.float64):
        raise TypeError(f"out: {target.dtype}; accepted: float32, float64")
    itself = target is not None and is_plain(target, np.float32) and not np.may_share_memory(target, values)
    result = target if target is not None and itself else np.empty(values.shape, np.float32)
    matrices, results = values.reshape(l.matrices, l.rows, l.columns), result.reshape(l.matrices, l.rows, l.columns)
    for i in range(l.matrices):
        _core.quantize_matrix_values(
            l.format, rounding, matrices[i], draws.at(i * l.rows * l.columns), limit, results[i]
        )
    if target is None:
        return finish(result, values.ndim == 0)
    if not itself:
        target[...] = result
    return written(out)
