"""halfulp: a laboratory for low-precision floating point.

Arrays: quantize, encode, decode, the operations of halfulp.operations (add, mul, fma, sqrt, exp, convert, ...),
products dot, gemm, mma, block formats quantize_blocks, casts of other libraries cast. Tensors in files:
open_checkpoint. Objects: Format, BlockFormat, Rounding, ProductModel, Checkpoint, Report.
Commands: every command of `halfulp` but completion and man is a function of its name, dashes as underscores.

>>> import numpy as np
>>> quantize(np.float32([0.1, 300, 1e-9]), "e4m3")
array([1.015625e-01, 2.880000e+02, 0.000000e+00], dtype=float32)
"""
from __future__ import annotations

import builtins as _builtins
import os as _os
from typing import Any as _Any

# Before _core: in a subinterpreter NumPy refuses to be imported again. _core's types must not be made anew there,
# because the main interpreter's types would not survive it.
import numpy as _numpy

from . import _arrays, _core, arithmetic, blocks, commands
from ._command import BackendMissing, Text
from ._core import BlockFormat, Format, ProductModel, Rounding, set_threads
from ._arrays import set_seed
from ._outputs import tensors_stay as _tensors_stay
from .arithmetic import decode, encode
from .blocks import Blocks, quantize_blocks
from .casts import cast
from .checkpoints import Checkpoint, open_checkpoint
from .commands import (backends, calc, campaign, check, choose, diff, diff_profiles, eval, explain, formats, inspect, ledger, list, mma, page, policies, probe, profiles, quantize_checkpoint, recommend, record, run, sample, show, store, trial, trials, units, validate,
                       verify, witness)
from .operations import *  # every operation of emulation/operation.hpp, and FLAGS
from .operations import _FUNCTIONS
from .products import dot, gemm
from .report import Report, load_report

__version__ = _core.version()
# What `from halfulp import *` brings: nothing that hides a builtin.
__all__ = ["BackendMissing", "BlockFormat", "Blocks", "Checkpoint", "FLAGS", "Format", "ProductModel", "Report", "Rounding", "Text",
           "backends", "calc", "campaign", "cast", "check", "choose", "decode", "diff", "diff_profiles", "dot", "encode", "explain", "formats",
           "gemm", "inspect", "ledger", "load_report", "mma", "open_checkpoint", "page", "policies", "probe", "profiles", "quantize", "quantize_blocks", "quantize_checkpoint",
           "recommend", "record", "run", "sample", "set_seed", "set_threads", "show", "store", "trial", "trials", "units", "validate", "verify", "witness"]
__all__ += [_name for _name in _FUNCTIONS if not hasattr(_builtins, _name)]


@_tensors_stay
def quantize(
    x: _Any,
    format: _Any,
    *,
    rounding: Rounding | str = "nearest-even",
    overflow: str | None = None,
    random_bits: int | None = None,
    seed: int | None = None,
    stream: int = 0,
    first: int = 0,
    roundings_per_word: int = 1,
    axis: int | None = None,
    dtype: _Any = None,
    out: _Any = None,
    tally: bool = False,
    **files: _Any,
) -> _Any:
    """Rounds numbers to a format or a block format, and returns their values.

    x: numbers of any shape and strides: float16, float32, float64, integers, ml_dtypes' types, a torch tensor in the
    CPU's memory, anything with __dlpack__, lists, one number. Each is rounded once, from its exact value. format: a
    Format, a BlockFormat, a name of either ("e4m3", "e5m3", "mxfp4", "nvfp4"), or a dtype. rounding: a Rounding or the
    name of a mode; overflow: "ieee" or "saturate"; random_bits (1 to 32) and seed are of stochastic rounding.
    Without a seed every call draws fresh bits (set_seed() makes a program repeat). With one, element i, in C order,
    takes word first + i of Philox4x32-10's stream `stream`: so parts of an array (of whole blocks, without a scale of
    the tensor) are rounded like the whole array if `first` is the index of a part's first element. With
    roundings_per_word=2 or 4, as many elements share a word, which is faster, and have at most 16 or 8 random bits
    each: element k = first + i takes part k mod 2 (or 4) of word k // 2 (or 4), from the lowest bits up.
    axis: the axis along which blocks 1 x N run.

    Returns values of x's shape, as a torch tensor if x is one: float64 of float64 and of integers of 32 and 64 bits, float16 of float16 where it holds
    the format, else float32; or of `dtype`, which must hold every value of the format, infinities and -0 too, and may
    be ml_dtypes'; or `out`, an array or torch tensor, which may be x. Block formats take float64 and wide integers
    through float32 rounded to odd, as quantize_blocks() says, and return float32. With tally=True a pair: values, and
    counts (nan, overflow, underflow, inexact, to_zero, subnormal, and all flags raised). Contiguous float32 and float64
    are read without a copy. All cores work, without the GIL.

    If x is the path of a .npy file, this is the command `halfulp quantize`: it returns the summary as a dict and takes
    the command's options out, codes, scales, zeros, rule, round.

    Raises TypeError and ValueError naming the argument. Source: IEEE 754-2019, 4.3 and 5.4.2; the formats' citations.

    >>> quantize([0.1, 300, 1e-9], "e4m3"), quantize(1000, "e4m3"), quantize(1000, "e4m3", overflow="saturate")
    (array([1.015625e-01, 2.880000e+02, 0.000000e+00]), nan, 448.0)
    """
    if type(x) is not _numpy.ndarray and isinstance(x, (str, _os.PathLike)):
        if dtype is not None or tally or stream or first or roundings_per_word != 1:
            raise TypeError("dtype, tally, stream, first and roundings_per_word: for arrays, not for a file")
        given = {"round": rounding if rounding != "nearest-even" else None, "overflow": overflow, "random_bits": random_bits, "seed": seed}
        return commands.quantize_file(x, format, axis=axis, out=out, **{**{k: v for k, v in given.items() if v is not None}, **files})
    if files:
        name = next(iter(files))
        hint = {"rule": "; accepted: a format with its rule, such as 'mxfp4/ceil'", "round": "; accepted: rounding"}
        raise TypeError(f"{name}: no argument of quantize() of an array{hint.get(name, '')}")
    if isinstance(format, str):
        format = _arrays.any_format(str.__str__(format))
    tally, block = bool(tally), isinstance(format, BlockFormat)
    r = _arrays.as_rounding(rounding, None if block else overflow, random_bits)
    draws = _arrays.as_draws(seed, stream, first, roundings_per_word, r)
    if block:
        if overflow is not None or dtype is not None or tally:
            raise TypeError("overflow, dtype and tally: for plain formats; elements of block formats saturate and come as float32")
        return blocks.block_values(x, blocks.as_block_format(format), r, draws, axis, out)
    if axis is not None:
        raise TypeError(f"axis: {axis}; accepted for block formats alone")
    return arithmetic.quantize_values(x, _arrays.as_format(format), r, draws, dtype, out, tally)
