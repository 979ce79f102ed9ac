"""Gradients summed over processes in a stated order and format."""
from __future__ import annotations

from typing import Any, Callable

import torch
import torch.distributed as dist

from .._arrays import as_integer
from .._core import Rounding
from ._rounding import quantize
from ._tensors import as_any_format, as_any_rounding

_ORDERS = ("sequential", "ring", "tree")


def communication_hook(format: Any = "fp32", *, order: str = "ring", sums: Any = None, rounding: Rounding | str = "nearest-even",
                       average: bool = True, seed: int = 0) -> Callable[[Any, Any], torch.futures.Future[torch.Tensor]]:
    """A hook for torch.nn.parallel.DistributedDataParallel.register_comm_hook(None, hook): gradients are rounded to
    `format`, exchanged, and added in a stated order, each sum rounded to `sums` (default: `format`).

    order: "sequential", ranks ascending; "ring", as a reduce-scatter around a ring adds them: part i of as many parts as
    ranks begins at rank i and goes upwards; "tree", the lower half of the ranks and the upper half, recursively. With
    `average` the result is divided by the number of ranks and rounded once more. Stochastic rounding draws under `seed`,
    the same bits on every rank, so that all ranks have the same gradients. The numbers are those of the collective; the
    bytes are not, because every rank gets every rank's gradients and adds them by itself.

    Raises TypeError and ValueError naming the argument.
    """
    if order not in _ORDERS:
        raise ValueError(f"order: {order!r}; accepted: {', '.join(_ORDERS)}")
    send = as_any_format(format)
    keep = send if sums is None else as_any_format(sums)
    calls = 0

    how = as_any_rounding(rounding, None, None)
    as_integer(seed, "seed", 0, 2**63 - 1)

    def rounded(x: torch.Tensor, to: Any, stream: int, at: int = 0) -> torch.Tensor:
        return quantize(x, to, rounding=how, seed=seed, stream=stream, first=at)

    def hook(group: Any, bucket: Any) -> torch.futures.Future[torch.Tensor]:
        nonlocal calls
        calls += 1
        ranks = dist.get_world_size(group)
        first = calls * 4 * ranks  # streams of this call
        mine = rounded(bucket.buffer().detach(), send, first + dist.get_rank(group)).contiguous()
        gathered = [torch.empty_like(mine) for _ in range(ranks)]
        dist.all_gather(gathered, mine, group=group)
        total = summed(gathered, order, lambda x, i, at: rounded(x, keep, first + ranks + i, at))
        future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        future.set_result(rounded(total / ranks, keep, first + 3 * ranks) if average else total)
        return future
    hook.__annotations__.clear()  # torch compares them with types, and these are text
    return hook


def summed(
    parts: list[torch.Tensor], order: str, rounded: Callable[[torch.Tensor, int, int], torch.Tensor]
) -> torch.Tensor:
    """The sum of one tensor of each rank, of one length, by communication_hook()'s orders. rounded(x, i, at): addition
    i of elements from `at` on."""
    count = len(parts)
    if order == "ring":
        pieces = [part.tensor_split(count) for part in parts]
        totals: list[torch.Tensor] = []
        for piece in range(count):
            total, at = pieces[piece][piece], sum(len(t) for t in totals)
            for step in range(1, count):
                total = rounded(total + pieces[(piece + step) % count][piece], step, at)
            totals.append(total)
        return torch.cat(totals)
    if order == "sequential":
        total = parts[0]
        for step, part in enumerate(parts[1:], 1):
            total = rounded(total + part, step, 0)
        return total
    numbers = iter(range(1, count))

    def tree(some: list[torch.Tensor]) -> torch.Tensor:
        if len(some) == 1:
            return some[0]
        half = (len(some) + 1) // 2
        lower, upper = tree(some[:half]), tree(some[half:])
        return rounded(lower + upper, next(numbers), 0)
    return tree(parts)
