"""The exercises of the notebooks: halfulp judges an answer.

check("formats-1", answer) says that it is right and why, or gives a hint, or that there is no answer yet. A module a notebook has its judges
and what its exercises are about (numbers to look at, say); solutions.py beside this folder has one answer each.
"""
from __future__ import annotations

from . import formats, underflow, swamping, positions, accumulation, units, stochastic, blocks, training  # in the notebooks' order
from .judging import check, judge, names

__all__ = ["check", "judge", "names", "formats", "underflow", "swamping", "positions", "accumulation", "units", "stochastic", "blocks", "training"]
