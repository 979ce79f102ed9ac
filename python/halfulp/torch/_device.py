"""Tensors in a GPU's memory: rounded there, in the order of torch's own work, to the bits that the CPU gives."""
from __future__ import annotations

import contextlib
from functools import lru_cache

import torch

from .. import _core
from .._arrays import Draws
from .._core import BlockFormat, Format, Rounding

_ALIGNMENT = 16  # bytes, of what kernels read and write


@lru_cache(maxsize=1)
def missing() -> str:
    """Why no GPU can work on tensors; empty where one can."""
    return _core.missing_gpu()


def queue_of(x: torch.Tensor) -> _core.Queue | None:
    """The queue in which torch puts what it does with a tensor now. None: the tensor is in the CPU's memory."""
    if x.device.type != "cuda":
        return None
    return _core.Queue(x.device.index, torch.cuda.current_stream(x.device).cuda_stream)


def _chosen(x: torch.Tensor) -> contextlib.AbstractContextManager[object]:
    """torch's device inside is the tensor's: the same as that which the kernel's runtime chooses."""
    return torch.cuda.device(x.device) if x.device.type == "cuda" else contextlib.nullcontext()


def _aligned(x: torch.Tensor) -> torch.Tensor:
    return x.clone() if x.data_ptr() % _ALIGNMENT else x


def narrow(
    queue: _core.Queue,
    values: torch.Tensor,
    format: Format | BlockFormat,
    rounding: Rounding,
    result: torch.Tensor,
    draws: Draws,
) -> None:
    """Rounds contiguous floats into `result`: floats, or code words in the format's width."""
    if isinstance(format, BlockFormat):
        raise ValueError(f"format: {format} is a block format; accepted of a tensor on {values.device}: plain formats, or x.cpu()")
    if values.dtype is not torch.float32:
        raise ValueError(f"x: {values.dtype} on {values.device}; accepted there: float32, float16, bfloat16, float8, or x.cpu()")
    with _chosen(values):
        given, taken = _aligned(values), _aligned(result)
        queue.narrow(
            format,
            rounding,
            given.data_ptr(),
            0 if result.dtype is torch.float32 else format.storage_bytes,
            taken.data_ptr(),
            values.numel(),
            draws,
        )
        if taken is not result:
            result.copy_(taken)


def widen(queue: _core.Queue, codes: torch.Tensor, format: Format, result: torch.Tensor) -> None:
    """The values of contiguous code words in the format's width, into float32."""
    if format.bits < 8 * format.storage_bytes and codes.numel() and (largest := int(codes.to(torch.int32).max())) >= 2**format.bits:
        raise ValueError(f"codes: {largest} is no code word of {format}; accepted: 0 to {2**format.bits - 1}")
    with _chosen(codes):
        given, taken = _aligned(codes), _aligned(result)
        queue.widen(format, format.storage_bytes, given.data_ptr(), taken.data_ptr(), codes.numel())
        if taken is not result:
            result.copy_(taken)
