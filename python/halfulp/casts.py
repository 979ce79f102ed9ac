"""Casts as libraries, specifications and CPUs define them."""
from __future__ import annotations

from typing import Any

import numpy as np

from . import _core
from ._arrays import ArrayLike, FormatLike, as_array, as_codes, as_format, code_type, codes_of_dtype, format_of_dtype
from ._outputs import decoded, finish, tensors_stay


@tensors_stay
def cast(x: ArrayLike, profile: str, to: FormatLike, from_: FormatLike | None = None, *, codes: bool = False) -> Any:
    """Casts numbers by a profile, which decides NaNs, infinities and where overflow begins.

    x: an array of the dtype of `from_` (float32, float16, float64, ml_dtypes.bfloat16; default: its own), or code words
    as integers together with `from_`. Numbers without a dtype are float32. profile: a name from halfulp.profiles().
    Returns values of `to`, or with codes=True its code words, which tell NaNs apart. Raises ValueError where the
    profile does not offer the conversion, TypeError naming the argument.

    >>> cast(np.float32([449, 465, np.inf]), "ml_dtypes", "e4m3"), cast(np.float32([449, 465, np.inf]), "cuda-satfinite", "e4m3")
    (array([448.,  nan,  nan], dtype=float32), array([448., 448., 448.], dtype=float32))
    """
    if not isinstance(profile, str):
        raise TypeError(f"profile: {profile!r}; accepted: a name that halfulp.profiles() lists")
    target = as_format(to, "to")
    array = as_array(x, "x")
    if not hasattr(x, "dtype") and (array.dtype.kind == "f" or from_ is None):
        array = array.astype(np.float32)
    own = format_of_dtype(array.dtype)
    if from_ is None and own is None:
        raise TypeError(f"from_: missing, and {array.dtype} does not say it; accepted: a format, or an array of float16, float32, float64, bfloat16")
    source = own if from_ is None else as_format(from_, "from_")
    assert source is not None
    if own is not None and own != source:
        raise TypeError(f"x: dtype {array.dtype}, and from_ is {source}; accepted: an array of that format, or its code words as integers")
    words = codes_of_dtype(array) if own is not None else as_codes(array, source, "x")
    if words.dtype.itemsize < 2:
        words = words.astype(np.uint16)
    result = np.empty(words.shape, code_type(target))
    if result.dtype.itemsize == 8:
        raise ValueError(f"to: {target}; accepted: formats of at most 32 bits")
    _core.cast(profile, source, target, words, result)
    return finish(result if codes else decoded(target, result), words.ndim == 0)
