"""The random numbers that experiments draw, a second time: Philox4x32-10 (Salmon et al. 2011) and what is made of it.

Every number is a function of a seed, a stream and an index. Logarithms are NumPy's: where halfulp's differ in the last
place of a double, a sample may too.
"""
from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Words = NDArray[np.uint64]

NEXT_DRAW = 2**32  # streams below belong to shapes; further numbers of a draw come from those above
SHAPES = ("log-normal", "normal", "laplace", "student-t", "uniform", "log-uniform")


def philox(seed: int, stream: Any, index: Any) -> list[Words]:
    """Four words of 32 bits for each index: ten rounds, key = seed, counter = (index, stream).

    The stream is one number, or an array of one for each index.
    """
    low = np.uint64(2**32 - 1)
    index = np.asarray(index, np.uint64)
    stream = stream if isinstance(stream, np.ndarray) else np.uint64(stream % 2**64)
    a, b = index & low, index >> np.uint64(32)
    c, d = np.full_like(a, stream & low), np.full_like(a, stream >> np.uint64(32))
    key0, key1 = seed % 2**32, seed >> 32
    for _ in range(10):
        first, second = np.uint64(0xD2511F53) * a, np.uint64(0xCD9E8D57) * c
        a, b, c, d = (second >> np.uint64(32)) ^ b ^ np.uint64(key0), second & low, \
            (first >> np.uint64(32)) ^ d ^ np.uint64(key1), first & low
        key0, key1 = (key0 + 0x9E3779B9) % 2**32, (key1 + 0xBB67AE85) % 2**32
    return [a, b, c, d]


def random_words(seed: int, stream: Any, index: Any) -> Words:
    """64 random bits for each index: Philox's first two words."""
    words = philox(seed, stream, index)
    return words[0] | words[1] << np.uint64(32)


def rounding_bits(seed: int, stream: int, index: Any) -> Words:
    """32 bits for the stochastic rounding with each index: word index mod 4 of block index / 4."""
    index = np.asarray(index, np.uint64)
    words = np.stack(philox(seed, stream, index // np.uint64(4)))
    return np.take_along_axis(words, (index % np.uint64(4)).astype(np.int64)[None], 0)[0]


def uniform(seed: int, stream: Any, index: Any) -> Doubles:
    """In (0, 1) with 52 random bits."""
    return ((random_words(seed, stream, index) >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def normal(seed: int, stream: Any, index: Any) -> Doubles:
    """Standard normal, by Marsaglia's polar method: pairs are drawn until one lies within the unit circle."""
    index = np.asarray(index, np.uint64)
    streams = np.broadcast_to(np.asarray(stream, np.uint64), index.shape)
    result, todo, draw = np.empty(index.shape), np.arange(len(index)), 0
    while len(todo):
        u = 2 * uniform(seed, streams[todo] + np.uint64(draw), index[todo]) - 1
        v = 2 * uniform(seed, streams[todo] + np.uint64(draw + NEXT_DRAW), index[todo]) - 1
        s = u * u + v * v
        inside = (s < 1) & (s > 0)
        result[todo[inside]] = u[inside] * np.sqrt(-2 * np.log(s[inside]) / s[inside])
        todo, draw = todo[~inside], draw + 2 * NEXT_DRAW
    return result


def sample(shape: str, seed: int, index: Any, log2_scale: float = 0, log2_sigma: float = 1, degrees: int = 2,
           bounds: tuple[float, float] = (0, 1)) -> Doubles:
    """Numbers of a named distribution, symmetric about zero; eight streams a shape, the last for signs."""
    stream = 1 + 8 * SHAPES.index(shape)
    sign = 1.0 - 2.0 * (random_words(seed, stream + 7, index) & np.uint64(1)).astype(np.float64)
    scale = 2.0**log2_scale
    if shape == "log-normal":
        return sign * np.exp2(log2_scale + log2_sigma * normal(seed, stream, index))
    if shape == "normal":
        return scale * normal(seed, stream, index)
    if shape == "laplace":
        return sign * scale * -np.log(uniform(seed, stream, index))
    if shape == "student-t":
        chi2 = sum((-2 * np.log(uniform(seed, stream + 1 + k * NEXT_DRAW, index)) for k in range(degrees // 2)),
                   np.zeros(np.shape(index)))
        chi2 = chi2 + normal(seed, stream + 2, index) ** 2 if degrees % 2 else chi2
        return scale * (normal(seed, stream, index) / np.sqrt(chi2 / degrees))
    if shape == "uniform":
        return sign * scale * uniform(seed, stream, index)
    return sign * np.exp2(bounds[0] + (bounds[1] - bounds[0]) * uniform(seed, stream, index))


def stream_of(name: str, step: int | None = None) -> int:
    """The stream of a name, or of one of its steps: the 64-bit FNV-1a hash of the name and the step's eight bytes."""
    value = 0xCBF29CE484222325
    for byte in name.encode() + (b"" if step is None else step.to_bytes(8, "little")):
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def random_below(counts: Any, seed: int, stream: int, index: Any) -> list[int]:
    """For each index a whole number below its count: the top 64 bits of the 128-bit product."""
    words = random_words(seed, stream, index)
    return [int(word) * int(count) >> 64 for word, count in zip(words, np.broadcast_to(counts, words.shape))]


@functools.cache
def shuffled(count: int, seed: int, stream: int) -> NDArray[np.int64]:
    """0 to count - 1 in random order: Fisher and Yates's shuffle, from the last place down."""
    places = np.arange(count, 1, -1)
    order = list(range(count))
    for place, other in zip(places.tolist(), random_below(places, seed, stream, places)):
        order[place - 1], order[other] = order[other], order[place - 1]
    return np.array(order)


def first_rounding_bits(seed: int, streams: list[int], count: int) -> Words:
    """rounding_bits 0 to count - 1 of several streams, one a column: all four words of each block are used."""
    index = np.arange((count + 3) // 4)
    return np.stack([np.stack(philox(seed, stream, index), 1).ravel()[:count] for stream in streams], 1)
