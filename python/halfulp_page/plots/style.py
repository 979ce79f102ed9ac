"""How pictures look: colours that colour-blind readers can tell apart, and markers, dashes and hatches that differ
without colour.

matplotlib draws in stand-in colours. svg.py replaces them by variables of style.css, which follow the reader's light or
dark mode. Colours: Okabe and Ito, Color Universal Design, 2008.
"""
from __future__ import annotations

import functools
import unicodedata
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

# Colours of heat maps from the lowest value to the highest, the same in light and dark, and what is written on them.
HEAT = ((163, 59, 0), (224, 123, 57), (244, 236, 223), (127, 176, 216), (27, 90, 150))
EXACT, ON_LIGHT, ON_DARK = COLOURS[2], "#101418", "#ffffff"

FONT = "DejaVu Sans"
SETTINGS = {
    "svg.fonttype": "none", "svg.hashsalt": "halfulp", "text.parse_math": False, "axes.unicode_minus": True, "path.simplify": True, "font.family": "sans-serif",
    "font.sans-serif": [FONT], "font.size": 9, "axes.titlesize": 9, "axes.labelsize": 9, "axes.titlelocation": "left", "axes.edgecolor": INK, "axes.labelcolor": INK, "text.color": INK,
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


def heat(share: float) -> tuple[str, str]:
    """The colour of a value so far from the lowest, 0, to the highest, 1, and that of text on it."""
    at = min(max(share, 0.0), 1.0) * (len(HEAT) - 1)
    i = min(int(at), len(HEAT) - 2)
    red, green, blue = (round(a + (b - a) * (at - i)) for a, b in zip(HEAT[i], HEAT[i + 1]))
    return f"#{red:02x}{green:02x}{blue:02x}", ON_LIGHT if 0.299 * red + 0.587 * green + 0.114 * blue > 128 else ON_DARK


def text_width(text: str, size: float) -> float:
    """Points, in letters of so many points."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path
    return float(text_to_path.get_text_width_height_descent(text, FontProperties(family=FONT, size=size), False)[0])


@functools.lru_cache(maxsize=None)
def letter_width(letter: str, bold: bool = False) -> float:
    """Of the letter's height. The font says it; of a letter that it lacks another font draws: wide ones are square."""
    from matplotlib.font_manager import FontProperties, findfont, get_font
    from matplotlib.textpath import text_to_path
    font = FontProperties(family=FONT, size=1, weight="bold" if bold else "normal")
    if ord(letter) not in get_font(findfont(font)).get_charmap():
        return 1.0 if unicodedata.east_asian_width(letter) in "WF" else 0.7
    return float(text_to_path.get_text_width_height_descent(letter, font, False)[0])
