"""A panel as a file that stands alone, on a slide or on paper: what the page has around it, its title, name, legend and
notes, comes with it. One width for all, colours for paper, an opaque background."""
from __future__ import annotations

import re
import unicodedata
import urllib.parse
from typing import Sequence
from xml.sax.saxutils import escape

from .style import PRINTED
from .svg import class_rules

WIDTH, MARGIN = 960, 24          # pixels
TALLEST = 480                    # of a panel, for slides; one with many rows is taller, lest its letters become small
TITLE, NAME, LEGEND, NOTE = 30, 24, 20, 16  # sizes of letters
LINE = 1.3                       # a line's height, in letters
INK, SOFT, PAPER = PRINTED["currentColor"], "#57606a", "#ffffff"
EM = 0.57                        # a letter's mean width in DejaVu Sans, a little more; bold ones are a tenth wider


def standalone(panel: str, title: str, name: str, legend: Sequence[tuple[str, str]], series: str, notes: str) -> str:
    """A file of an inline <svg>. `legend`: names and inline pictures of their marks, after a heading, `series`."""
    _, head, body, width, height = _parts(panel)
    parts, y = [], float(MARGIN)
    for text, size, weight in ((title, TITLE, ' font-weight="bold"'), (name, NAME, "")):
        for line in _lines(text, size * (1.1 if weight else 1.0)):
            y += size * LINE
            parts.append(_text(line, MARGIN, y - 0.3 * size, size, INK, weight))
    entries, y = _legend(legend, series, y + 0.4 * LEGEND)
    scale = min((WIDTH - 2 * MARGIN) / width, max(TALLEST / height, 1.6))
    parts += [*entries, f'<g transform="translate({(WIDTH - width * scale) / 2:.2f} {y:.2f}) scale({scale:.4f})">{body}</g>']
    y += height * scale
    for line in _lines(notes, NOTE):
        y += NOTE * LINE
        parts.append(_text(line, MARGIN, y, NOTE, SOFT))
    tall = round(y + MARGIN)
    file = (f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="{WIDTH}" height="{tall}" viewBox="0 0 {WIDTH} {tall}" '
            f'font-family="DejaVu Sans, sans-serif" stroke-linejoin="round" {head}<style>{class_rules()}</style><rect width="{WIDTH}" height="{tall}" fill="{PAPER}"/>{"".join(parts)}</svg>\n')
    for variable, colour in PRINTED.items():
        file = file.replace(variable, colour)
    return file.replace(' href="#', ' xlink:href="#')


def data_uri(file: str) -> str:
    """A file as a link that holds it."""
    return "data:image/svg+xml;charset=utf-8," + urllib.parse.quote(file.strip(), safe=" !$'()*+,-./:;<=>?@[]^_`{|}~")


def _parts(svg: str) -> tuple[str, str, str, float, float]:
    """An inline <svg> of ours: its tag, its role with title and description, what it draws, its width and height."""
    found = re.fullmatch(r'(<svg [^>]*>)(<title.*?</desc>)?(.*)</svg>', svg, re.DOTALL)
    assert found, svg[:200]
    box = re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', found[1])[0]
    role = " ".join(re.findall(r'(?:role|aria-labelledby)="[^"]*"', found[1]))
    return found[1], f"{role}>{found[2] or ''}", found[3], float(box[0]), float(box[1])


def _legend(legend: Sequence[tuple[str, str]], series: str, y: float) -> tuple[list[str], float]:
    """Marks and names in as many lines as they need, and where the last one ends."""
    if not legend:
        return [], y
    parts, x = [], float(MARGIN)
    if series:
        parts.append(_text(f"{series}:", x, y + LEGEND, LEGEND, SOFT))
        x += _width(f"{series}:", LEGEND) + 0.8 * LEGEND
    for name, mark in legend:
        _, _, body, width, height = _parts(mark)
        scale = LEGEND * 0.75 / height
        for i, line in enumerate(_lines(name, LEGEND, WIDTH - 2 * MARGIN - width * scale - LEGEND)):
            needed = width * scale + 0.4 * LEGEND + _width(line, LEGEND)
            if i or x + needed > WIDTH - MARGIN:
                x, y = float(MARGIN), y + LEGEND * LINE
            if not i:
                parts.append(f'<g transform="translate({x:.2f} {y + 0.25 * LEGEND:.2f}) scale({scale:.4f})">{body}</g>')
            parts.append(_text(line, x + width * scale + 0.4 * LEGEND, y + LEGEND, LEGEND, INK))
            x += needed + LEGEND
    return parts, y + LEGEND * LINE * 1.2


def _text(text: str, x: float, y: float, size: float, colour: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}"{more}>{escape(text)}</text>'


def _width(text: str, size: float) -> float:
    return size * EM * sum(1.7 if unicodedata.east_asian_width(letter) in "WF" else 1.0 for letter in text)


def _lines(text: str, size: float, width: float = WIDTH - 2 * MARGIN) -> list[str]:
    """A text in lines that fit; a word that is longer than a line is cut."""
    lines: list[str] = []
    most = max(1, int(width / (size * EM)))
    for word in text.split():
        if lines and _width(f"{lines[-1]} {word}", size) <= width:
            lines[-1] += " " + word
        else:
            lines.append(word if len(word) <= most else word[:most - 1] + "…")
    return lines
