"""Which calls of torch go to operators of policies, and what a tensor has to be for that.

A handler takes the active `emulate` and the call's arguments, by torch's names, and returns NotImplemented for calls that
no operator is like: these stay torch's, whose errors are the right ones. Gradients are computed in the order of the
trainer (training/layers), because roundings are counted."""
from __future__ import annotations

import functools
from typing import Any, Callable

import torch

Run = Any  # the active `emulate`, which imports this file
HANDLERS: dict[Callable[..., Any], Callable[..., Any]] = {}


def handles(*functions: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def note(handler: Callable[..., Any]) -> Callable[..., Any]:
        for function in functions:
            if function is not None:
                HANDLERS[function] = handler
        return handler
    return note


def is_float(x: Any) -> bool:
    """Whether a tensor is one whose memory can be handed on."""
    return (type(x) in (torch.Tensor, torch.nn.Parameter) and x.dtype is torch.float32 and x.device.type == "cpu" and x.layout is torch.strided
            and not x.is_nested and not x._is_zerotensor() and not torch._C._functorch.is_functorch_wrapped_tensor(x))


def empty(*shape: int) -> torch.Tensor:
    return torch.empty(shape, dtype=torch.float32, device="cpu")


def address(x: torch.Tensor) -> int:
    """Where C++ finds the numbers of a tensor. It takes them for fp32, one behind the other."""
    if x.dtype is not torch.float32 or not x.is_contiguous():
        raise TypeError(f"halfulp.torch.emulate: an operator met {'' if x.is_contiguous() else 'strided '}{x.dtype}; accepted: contiguous float32")
    return x.data_ptr()


def sized(tensors: Any) -> list[tuple[int, int]]:
    """Addresses and numbers of elements, which C++ compares with its own."""
    return [(address(t), t.numel()) for t in tensors]


CHECKPOINTED = (
    "halfulp.torch.emulate: an operator inside torch.utils.checkpoint, which would draw other bits when it runs again "
    "in the backward pass; "
    "accepted: models without, as after model.gradient_checkpointing_disable() of Hugging Face's"
)


def of_step(ctx: Any, run: Run) -> None:
    """Notes in which step of a run an operator computed."""
    ctx.run, ctx.step = run, run.step
    if _in_checkpoint():
        raise RuntimeError(CHECKPOINTED)


def _in_checkpoint() -> bool:
    """Whether torch.utils.checkpoint (use_reentrant=False) takes what an operator saves. Another version of torch may
    not say it: then nothing is refused."""
    try:
        hooks = torch._C._autograd._top_saved_tensors_default_hooks(True)
    except (AttributeError, TypeError):
        return False
    return hooks is not None and getattr(hooks[0], "__module__", None) == "torch.utils.checkpoint"


def once(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Refuses to be differentiated, as with create_graph torch would record it, and to run after its step's `with`, where
    roundings and delayed scales would be those of no step."""
    @functools.wraps(backward)
    def wrapper(ctx: Any, *gradients: torch.Tensor) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError("halfulp.torch.emulate: operators have no second derivative; accepted: no create_graph")
        run = getattr(ctx, "run", None)
        if run is not None and not (run.active and run.step == ctx.step):
            raise RuntimeError("halfulp.torch.emulate: a backward pass after the `with` of its step; accepted: loss.backward() inside")
        return backward(ctx, *gradients)
    return wrapper


def dense(x: torch.Tensor) -> torch.Tensor:
    return x.detach().resolve_neg().contiguous()
