"""halfulp for PyTorch: tensors in, tensors out, gradients by a rule that is stated.

quantize, encode, decode       rounding to a format or a block format; code words and their values
cast                           as libraries, specifications and CPUs cast
matmul, bmm, linear,           products by a product model or a matrix unit, with models of their own for the two
conv2d, attention              products of the backward pass
emulate, PolicyOptimizer       whole models and their updates under a precision policy
microscope, ablate             what a policy would do to a training, layer by layer; which layers it harms
optim                          any optimizer, whose weights and states are rounded
convert                        linear layers that carry a policy with them, to be saved
communication_hook             gradients summed over processes in a stated order and format
rotary                         rotary positions as the trainer computes them

Needs torch 2.4 or newer, in the CPU's memory. Stochastic rounding draws fresh bits in every call, from a
torch.Generator (by default torch's own, which torch.manual_seed() sets); `seed=` fixes them.

>>> import torch, halfulp.torch
>>> halfulp.torch.quantize(torch.tensor([0.1, 300, 1e-9]), "e4m3")
tensor([1.0156e-01, 2.8800e+02, 0.0000e+00])
"""
from __future__ import annotations

from ._convert import PolicyLinear, convert
from ._distributed import communication_hook
from ._emulation import emulate
from ._microscope import ablate, microscope
from ._optimizer import PolicyOptimizer, optim
from ._products import attention, bmm, conv2d, linear, matmul
from ._rounding import cast, decode, encode, quantize
from ._sums import rotary

__all__ = ["PolicyLinear", "PolicyOptimizer", "ablate", "attention", "bmm", "cast", "communication_hook", "conv2d", "convert", "decode", "emulate", "encode", "linear", "matmul",
           "microscope", "optim", "quantize", "rotary"]
