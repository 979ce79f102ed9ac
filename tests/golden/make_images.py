#!/usr/bin/env python3
"""Writes tests/golden/images: a small set of synthetic images in MNIST's format, for tests that must not need a
package.

Class c is a bar of 4 x 14 with c's place and direction, moved by up to two pixels, among specks. Every run writes the
same bytes.
"""
import gzip
import pathlib
import struct

FOLDER = pathlib.Path(__file__).parent / "images"


def numbers(seed):
    """A linear congruential generator (Numerical Recipes): the upper bits."""
    while True:
        seed = (1664525 * seed + 1013904223) % 2**32
        yield seed >> 8


def image(label, random):
    pixels = bytearray(28 * 28)
    height, width = (4, 14) if label % 2 else (14, 4)
    top = 1 + (label // 2 % 3) * 5 + next(random) % 3
    left = 1 + (label // 2 // 3) * 10 + next(random) % 3
    for y in range(top, top + height):
        for x in range(left, left + width):
            pixels[y * 28 + x] = 192 + 16 * (next(random) % 4)
    for _ in range(12):
        pixels[next(random) % 784] = 64 * (1 + next(random) % 3)
    return bytes(pixels)


def write(name, count, seed):
    random = numbers(seed)
    labels = bytes(next(random) % 10 for _ in range(count))
    pixels = b"".join(image(label, random) for label in labels)
    for suffix, data in (
        ("images-idx3", struct.pack(">4i", 0x803, count, 28, 28) + pixels),
        ("labels-idx1", struct.pack(">2i", 0x801, count) + labels),
    ):
        with open(FOLDER / f"{name}-{suffix}-ubyte.gz", "wb") as file:
            file.write(gzip.compress(data, 9, mtime=0))


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    write("train", 320, 1)
    write("t10k", 100, 2)
