"""How pictures look: colours that colour-blind readers can tell apart, and markers, dashes and hatches that differ
without colour.

matplotlib draws in stand-in colours. svg.py replaces them by variables of style.css, which follow the reader's light or
dark mode. Colours: Okabe and Ito, Color Universal Design, 2008.
"""
from __future__ import annotations

from typing import Any

INK, GRID, PAPER = "#010203", "#030201", "#fefdfc"  # stand-ins for the text's colour, background lines, the background
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#010204", "#cc79a7", "#e69f00", "#56b4e9")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "h", "*", "p")
DASHES = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 2, 1, 2)), (0, (8, 2)), (0, (3, 1.5, 1, 1.5, 1, 1.5)), (0, (2, 2)))
HATCHES = ("", "//", "xx", "\\\\", "--", "||", "++", "/")

# What replaces a stand-in in the page.
VARIABLES = {INK: "currentColor", GRID: "var(--grid)", PAPER: "var(--panel)", **{colour: f"var(--s{i})" for i, colour in enumerate(COLOURS)}}
# Styles that are everywhere, and their names.
CLASSES = {"fill:none;stroke:var(--grid);stroke-width:0.8": "pg", "fill:currentColor;stroke:currentColor;stroke-width:0.8": "pt",
           **{f"fill:currentColor;font-size:9px;text-anchor:{anchor}": f"p{anchor[0]}" for anchor in ("start", "middle", "end")}}

# What replaces those in a file of its own.
PRINTED = {"currentColor": "#1b1f24", "var(--grid)": "#e3e7eb", "var(--panel)": "#ffffff", **{f"var(--s{i})": colour if colour != "#010204" else "#1b1f24" for i, colour in enumerate(COLOURS)}}

SETTINGS = {
    "svg.fonttype": "none", "svg.hashsalt": "halfulp", "text.parse_math": False, "axes.unicode_minus": True, "path.simplify": True, "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"], "font.size": 9, "axes.titlesize": 9, "axes.labelsize": 9, "axes.titlelocation": "left", "axes.edgecolor": INK, "axes.labelcolor": INK, "text.color": INK,
    "axes.titlecolor": INK, "xtick.color": INK, "ytick.color": INK, "axes.facecolor": "none", "figure.facecolor": "none", "savefig.facecolor": "none", "axes.grid": True,
    "grid.color": GRID, "grid.linewidth": 0.8, "axes.axisbelow": True, "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.8, "lines.linewidth": 1.6,
    "lines.markersize": 4.5, "hatch.linewidth": 0.8, "figure.constrained_layout.use": True, "xtick.minor.size": 0, "ytick.minor.size": 0,
}


def drawing() -> Any:
    """matplotlib with these settings and its own defaults, without the user's matplotlibrc."""
    import matplotlib.style
    return matplotlib.style.context(["default", SETTINGS])


def line_style(i: int) -> dict[str, Any]:
    """Colour, dash and marker of series i. No two of the first twelve share a marker, or both colour and dash."""
    return {"color": COLOURS[i % len(COLOURS)], "linestyle": DASHES[(i + i // len(COLOURS)) % len(DASHES)], "marker": MARKERS[i % len(MARKERS)], "markeredgewidth": 0}


def bar_style(i: int) -> dict[str, Any]:
    colour = COLOURS[i % len(COLOURS)]
    return {"facecolor": colour if not HATCHES[i % len(HATCHES)] else "none", "edgecolor": colour, "hatch": HATCHES[i % len(HATCHES)], "linewidth": 0.8}
