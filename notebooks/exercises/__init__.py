"""The notebooks' exercises, whose answers halfulp judges.

check("formats-1", answer) says that the answer is right and why, or gives a hint, or says that there is no answer yet.
Each notebook has a module with its judges and its exercises' data. notebooks/solutions.py holds an answer to each.
"""
from __future__ import annotations

from . import formats, underflow, swamping, positions, accumulation, units, stochastic, blocks, training, model  # in the notebooks' order
from .judging import check, judge, names

__all__ = ["check", "judge", "names", "formats", "underflow", "swamping", "positions", "accumulation", "units", "stochastic", "blocks", "training", "model"]
