"""Numbers of parameters, and of what a step rounds, from the shapes of the layers of perceptron and transformer."""
from __future__ import annotations

import functools
import math
import pathlib
from collections import Counter

LICENCES = ("Apache-2.0", "CC0-1.0", "GFDL-1.3", "GPL-3", "LGPL-3", "MPL-1.1", "MPL-2.0")


def is_text(network: str) -> bool:
    return network in ("transformer", "lstm")


@functools.cache
def licence_characters() -> tuple[int, int, int]:
    """Characters to learn from and to test with, the last tenth of each text, and how many differ."""
    texts = [(pathlib.Path("/usr/share/common-licenses") / name).read_bytes() for name in LICENCES]
    tested = sum(len(text) // 10 for text in texts)
    return sum(map(len, texts)) - tested, tested, len(set(b"".join(texts)))


@functools.cache
def counted_loss(pairs: bool) -> float:
    """Of the model that counts characters, or pairs, plus one each: mean of -ln p over pairs of the last tenths."""
    texts = [(pathlib.Path("/usr/share/common-licenses") / name).read_bytes() for name in LICENCES]
    parts = [(text[:len(text) - len(text) // 10], text[len(text) - len(text) // 10:]) for text in texts]
    letters = len(set(b"".join(texts)))
    alone = Counter(b"".join(first for first, _ in parts))
    after = Counter(pair for first, _ in parts for pair in zip(first, first[1:]))
    before = Counter(c for first, _ in parts for c in first[:-1])
    losses = [-math.log((after[pair] + 1) / (before[pair[0]] + letters) if pairs
                        else (alone[pair[1]] + 1) / (alone.total() + letters))
              for _, last in parts for pair in zip(last, last[1:])]
    return math.fsum(losses) / len(losses)


@functools.cache
def shapes(network: str) -> dict[str, int]:
    """Numbers of each parameter."""
    if network == "mlp":
        return {"fc1.weight": 784 * 256, "fc1.bias": 256, "fc2.weight": 256 * 10, "fc2.bias": 10}
    width, letters = 64, licence_characters()[2]
    all_shapes = {"embedding.table": letters * width}
    for block in ("block1", "block2"):
        for name, inputs, outputs in (("attention.qkv", width, 3 * width), ("attention.out", width, width),
                                      ("fc1", width, 4 * width), ("fc2", 4 * width, width)):
            all_shapes |= {f"{block}.{name}.weight": inputs * outputs, f"{block}.{name}.bias": outputs}
        for norm in ("norm1", "norm2"):
            all_shapes |= {f"{block}.{norm}.gain": width, f"{block}.{norm}.bias": width}
    return all_shapes | {"norm.gain": width, "norm.bias": width, "head.weight": width * letters, "head.bias": letters}


Sizes = dict[tuple[str, str], int]


def linear_elements(name: str, rows: int, inputs: int, outputs: int, to_input: bool = True) -> Sizes:
    """Results once; operands once for each of the two or three products they enter."""
    both = 1 + to_input
    return {(name, "activation"): rows * outputs, (name, "gradient-of-activation"): rows * inputs,
            (name, "gradient-of-weight"): inputs * outputs, (f"{name}.bias", "gradient-of-weight"): outputs,
            (name, "activation, operand"): 2 * rows * inputs, (name, "weight, operand"): both * inputs * outputs,
            (name, "gradient-of-activation, operand"): both * rows * outputs}


@functools.cache
def elements(network: str, context: int) -> Sizes:
    """Numbers that one step rounds of each tensor in each role: 64 images, or 16 windows of text."""
    found = {(name, "communication"): size for name, size in shapes(network).items()}
    if network == "mlp":
        relu = {("relu1", role): 64 * 256 for role in ("activation", "gradient-of-activation")}
        return found | relu | linear_elements("fc1", 64, 784, 256, False) | linear_elements("fc2", 64, 256, 10) \
            | {("loss", "activation"): 64 * 10 + 1, ("loss", "gradient-of-activation"): 64 * 10}
    rows, width, letters = 16 * context, 64, licence_characters()[2]
    states, scores = rows * width, 16 * 4 * context**2  # four heads
    found |= {("embedding", "activation"): states, ("embedding.table", "gradient-of-weight"): letters * width}
    for block in ("block1", "block2"):
        at = f"{block}.attention"
        found |= linear_elements(f"{at}.qkv", rows, width, 3 * width) | linear_elements(f"{at}.out", rows, width, width)
        found |= linear_elements(f"{block}.fc1", rows, width, 4 * width)
        found |= linear_elements(f"{block}.fc2", rows, 4 * width, width)
        for role in ("activation", "gradient-of-activation"):
            found |= {(f"{at}.position", role): 2 * states, (f"{at}.softmax", role): scores,
                      (f"{block}.gelu", role): 4 * states, (f"{block}.add1", role): states,
                      (f"{block}.add2", role): states}
        # Queries K^T, and probabilities V: each operand forward and in one of the products back, each result's gradient
        # in both of them.
        found |= {(f"{at}.scores", "activation"): scores, (f"{at}.scores", "gradient-of-activation"): 2 * states,
                  (f"{at}.scores", "activation, operand"): 4 * states,
                  (f"{at}.scores", "gradient-of-activation, operand"): 2 * scores,
                  (f"{at}.values", "activation"): states, (f"{at}.values", "gradient-of-activation"): scores + states,
                  (f"{at}.values", "activation, operand"): 2 * (scores + states),
                  (f"{at}.values", "gradient-of-activation, operand"): 2 * states}
    for norm in ("block1.norm1", "block1.norm2", "block2.norm1", "block2.norm2", "norm"):
        found |= {(norm, "activation"): states, (norm, "gradient-of-activation"): states,
                  (f"{norm}.gain", "gradient-of-weight"): width, (f"{norm}.bias", "gradient-of-weight"): width}
    return found | linear_elements("head", rows, width, letters) | {
        ("loss", "activation"): rows * letters + 1, ("loss", "gradient-of-activation"): rows * letters}
