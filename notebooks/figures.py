"""How the notebooks draw: colours that colour-blind readers can tell apart, line styles, markers and hatches that
differ in grey, and a description of every picture for readers who cannot see it.

Colours: Okabe and Ito, Color Universal Design, 2008.
"""
from __future__ import annotations

import base64
import html
import io
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
from cycler import cycler
from IPython.display import display

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "++", "oo")

plt.rcParams.update({
    "axes.prop_cycle": cycler(color=COLOURS, linestyle=DASHES, marker=MARKERS),
    "axes.grid": True, "grid.alpha": 0.3, "axes.axisbelow": True, "axes.spines.top": False, "axes.spines.right": False,
    "figure.figsize": (8, 4), "figure.dpi": 100, "figure.constrained_layout.use": True, "font.size": 12, "lines.markersize": 5, "legend.frameon": False,
})


def show(fig: Any, description: str) -> None:
    """Shows a figure with a description in words: what it draws, and what to see in it. The description is the
    picture's alternative text, which screen readers read and nbconvert's HTML keeps."""
    png = io.BytesIO()
    fig.savefig(png, format="png", dpi=2 * fig.dpi)  # sharp on dense screens
    plt.close(fig)
    description = " ".join(description.split())
    picture = f'<img src="data:image/png;base64,{base64.b64encode(png.getvalue()).decode()}" width="{round(fig.get_figwidth() * fig.dpi)}" alt="{html.escape(description)}">'
    display({"text/html": picture, "text/plain": description}, raw=True)


def listed(values: Mapping[str, Any], form: str = "g") -> str:
    """Names and numbers for a description: listed({"fp16": 2048, "bf16": 256}) is "fp16 2048, bf16 256". Takes a
    pandas.Series, too."""
    return ", ".join(f"{name} {value:{form}}" for name, value in values.items())


def stacked(ax: Any, names: Sequence[str], parts: Mapping[str, Sequence[float]]) -> None:
    """Horizontal bars, one per name, of parts that add up, with the legend above."""
    left = [0.0] * len(names)
    for i, (part, widths) in enumerate(parts.items()):
        ax.barh(names, widths, left=left, label=part, color=COLOURS[i], hatch=HATCHES[i], edgecolor="white", linewidth=0)
        left = [a + b for a, b in zip(left, widths)]
    ax.invert_yaxis()
    ax.grid(axis="y", visible=False)
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=len(parts), borderaxespad=0.2)


def mark(ax: Any, x: float, text: str, *, top: float = 0.97) -> None:
    """A vertical line with a label."""
    ax.axvline(x, color="black", linewidth=1, linestyle="--", marker="")
    ax.annotate(text, (x, top), xycoords=("data", "axes fraction"), xytext=(4, 0), textcoords="offset points", va="top", fontsize=10)
