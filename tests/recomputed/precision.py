"""Formats of a precision policy for a perceptron, and what rounding to them does to a tensor."""
from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
SMALLEST_NORMAL = {"fp32": 2.0**-126, "bf16": 2.0**-126, "fp16": 2.0**-14}


def narrow(x: Floats, name: str) -> Floats:
    """To nearest even: FP16 is NumPy's; BF16 adds just below half of the last kept bit, and its parity, and cuts."""
    if name == "fp32":
        return x
    if name == "fp16":
        return x.astype(np.float16).astype(np.float32)
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    kept = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return np.where(np.isfinite(x), kept.view(np.float32), x)


@dataclass(frozen=True)
class Precision:
    """Formats of a policy, for the operators that a perceptron has."""

    operands: str = "fp32"  # of products
    activation: str = "fp32"  # what layers give
    gradient: str = "fp32"  # of activations
    weight_gradient: str = "fp32"
    loss: str = "fp32"
    loss_gradient: str = "fp32"
    communication: str = "fp32"  # of weights' gradients between ranks
    weights: str = "fp32"
    master: bool = False
    first: str = "fp32"
    second: str = "fp32"
    arithmetic: str = "fp32"  # of the update
    scale: float = 1.0  # of the loss
    interval: int = 0  # updates until it grows; 0: it stays
    skip: bool = True

    def is_fp32(self) -> bool:
        """But for loss scaling, whose powers of two change no gradient in FP32."""
        return self == Precision(scale=self.scale, interval=self.interval, skip=self.skip)

    def narrows_weights_alone(self) -> bool:
        return self == Precision(weights=self.weights, master=self.master)


def of_role(value: Any, role: str) -> Any:
    return value.get(role) if isinstance(value, dict) and "format" not in value else value


@functools.cache
def precision_of(policy: str) -> Precision | None:
    """Reads a policy's JSON; None for formats other than FP16, BF16 and FP32, and for accumulators and Kahan sums."""
    text = json.loads(policy)
    found: dict[str, Any] = {}
    places = {("linear", "operands", "activation"): "operands", ("linear", "results", "activation"): "activation",
              ("linear", "results", "gradient-of-activation"): "gradient",
              ("linear", "results", "gradient-of-weight"): "weight_gradient",
              ("cross-entropy", "results", "activation"): "loss",
              ("cross-entropy", "results", "gradient-of-activation"): "loss_gradient",
              ("optimizer", "results", "communication"): "communication"}
    for rule in text.get("rules", []):
        if {"accumulate", "inside", "layers"} & rule.keys():
            return None
        for (operator, what, role), name in places.items():
            value = of_role(rule.get(what), role)
            if value is not None and (rule["operators"] == "all" or operator in rule["operators"]):
                found[name] = value
    weights, optimizer, scaling = (text.get(name) or {} for name in ("weights", "optimizer", "loss_scaling"))
    if weights.get("kahan") or optimizer.get("rounded_constants"):
        return None
    found |= {"weights": weights.get("storage", "fp32"), "master": weights.get("master", False)}
    found |= {name: optimizer.get(name, optimizer.get("state", "fp32")) for name in ("first", "second")}
    found["arithmetic"] = optimizer.get("arithmetic", "fp32")
    if scaling:
        found |= {"scale": scaling["scale"], "skip": scaling.get("skip", True),
                  "interval": scaling.get("interval", 2000) if scaling["kind"] == "dynamic" else 0}
    plain = all(str(value) in SMALLEST_NORMAL for name, value in found.items()
                if name not in ("master", "scale", "skip", "interval"))
    return Precision(**found) if plain else None


@dataclass
class Tally:
    """What rounding did to one tensor: counts of elements."""

    elements: int = 0
    zero: int = 0
    underflowed: int = 0
    subnormal: int = 0
    overflowed: int = 0
    nan: int = 0

    def add(self, before: Floats, after: Floats, name: str) -> None:
        size = np.abs(after)
        self.elements += after.size
        self.zero += int((after == 0).sum())
        self.underflowed += int(((after == 0) & (before != 0)).sum())
        self.subnormal += int(((size > 0) & (size < SMALLEST_NORMAL[name])).sum())
        self.overflowed += int((np.isinf(after) & np.isfinite(before)).sum())
        self.nan += int(np.isnan(after).sum())
