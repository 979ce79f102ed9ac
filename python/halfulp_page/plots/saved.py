"""A panel as a file that stands alone, on a slide or on paper: what the page has around it, its title, name, legend and
notes, comes with it. One width for all, colours for paper, an opaque background."""
from __future__ import annotations

import itertools
import re
import urllib.parse
from typing import Callable, Sequence
from xml.sax.saxutils import escape

from .style import PRINTED, letter_width
from .svg import class_rules

WIDTH, HEIGHT, MOST = 960, 540, 720  # pixels: a slide, and where rows are many or words long
MARGIN, ABOVE = 24, 14
SCALE = 2.0                      # pixels a point of the panel, whose smallest letters have 8
LEAST = 280                      # a panel's height
TITLE, LEGEND, NOTE = 28, 18, 14  # sizes of letters
LINE = 1.3                       # a line's height, in letters
INK, SOFT, PAPER = PRINTED["currentColor"], "#57606a", "#ffffff"
APART = 0.6                      # letters between a title and the panel's name beside it


def standalone(panel: Callable[[float, float], str], title: str, name: str, legend: Sequence[tuple[str, str]], series: str, notes: str) -> str:
    """A file of what draws an inline <svg> of at least and at most so many inches. `legend`: names and inline pictures
    of their marks, after a heading, `series`."""
    parts, y = [], float(ABOVE)
    x = 0.0
    for line in _lines(title, TITLE, bold=True):
        y += TITLE * LINE
        x = MARGIN + _width(line, TITLE, bold=True) + APART * TITLE
        parts.append(_text(line, MARGIN, y - 0.3 * TITLE, TITLE, INK, ' font-weight="bold"'))
    if name and x + _width(name, TITLE) <= WIDTH - MARGIN:  # beside the title
        parts.append(_text(name, x, y - 0.3 * TITLE, TITLE, INK))
    else:
        for line in _lines(name, TITLE):
            y += TITLE * LINE
            parts.append(_text(line, MARGIN, y - 0.3 * TITLE, TITLE, INK))
    entries, y = _legend(legend, series, y + 0.3 * LEGEND)
    below = _lines(notes, NOTE)
    around = y + len(below) * NOTE * LINE + ABOVE
    least = max(HEIGHT - around, LEAST)
    head, body, width, height = _parts(panel(least / SCALE / 72, max(MOST - around, least) / SCALE / 72))
    parts += [*entries, f'<g transform="translate({(WIDTH - width * SCALE) / 2:.2f} {y:.2f}) scale({SCALE:g})">{body}</g>']
    y += height * SCALE
    for line in below:
        y += NOTE * LINE
        parts.append(_text(line, MARGIN, y, NOTE, SOFT))
    tall = round(y + ABOVE)
    file = (f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="{WIDTH}" height="{tall}" viewBox="0 0 {WIDTH} {tall}" '
            f'font-family="DejaVu Sans, sans-serif" stroke-linejoin="round" {head}<style>{class_rules()}</style><rect width="{WIDTH}" height="{tall}" fill="{PAPER}"/>{"".join(parts)}</svg>\n')
    for variable, colour in PRINTED.items():
        file = file.replace(variable, colour)
    return file.replace(' href="#', ' xlink:href="#')


def data_uri(file: str) -> str:
    """A file as a link that holds it."""
    return "data:image/svg+xml;charset=utf-8," + urllib.parse.quote(file.strip(), safe=" !$'()*+,-./:;<=>?@[]^_`{|}~")


def _parts(svg: str) -> tuple[str, str, float, float]:
    """An inline <svg> of ours: its role with title and description, what it draws, its width and height."""
    found = re.fullmatch(r'(<svg [^>]*>)(<title.*?</desc>)?(.*)</svg>', svg, re.DOTALL)
    assert found, svg[:200]
    box = re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', found[1])[0]
    role = " ".join(re.findall(r'(?:role|aria-labelledby)="[^"]*"', found[1]))
    return f"{role}>{found[2] or ''}", found[3], float(box[0]), float(box[1])


def _legend(legend: Sequence[tuple[str, str]], series: str, y: float) -> tuple[list[str], float]:
    """Marks and names in as many lines as they need, and where the last one ends."""
    if not legend:
        return [], y
    parts, x = [], float(MARGIN)
    if series:
        parts.append(_text(f"{series}:", x, y + LEGEND, LEGEND, SOFT))
        x += _width(f"{series}:", LEGEND) + 0.8 * LEGEND
    for name, mark in legend:
        _, body, width, height = _parts(mark)
        scale = SCALE  # as the panel
        for i, line in enumerate(_lines(name, LEGEND, WIDTH - 2 * MARGIN - width * scale - LEGEND)):
            needed = width * scale + 0.4 * LEGEND + _width(line, LEGEND)
            if i or x + needed > WIDTH - MARGIN:
                x, y = float(MARGIN), y + LEGEND * LINE
            if not i:
                parts.append(f'<g transform="translate({x:.2f} {y + 0.65 * LEGEND - height * scale / 2:.2f}) scale({scale:.4f})">{body}</g>')
            parts.append(_text(line, x + width * scale + 0.4 * LEGEND, y + LEGEND, LEGEND, INK))
            x += needed + LEGEND
    return parts, y + LEGEND * LINE * 1.2


def _text(text: str, x: float, y: float, size: float, colour: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}"{more}>{escape(text)}</text>'


def _width(text: str, size: float, bold: bool = False) -> float:
    return size * sum(letter_width(letter, bold) for letter in text)


def _lines(text: str, size: float, width: float = WIDTH - 2 * MARGIN, bold: bool = False) -> list[str]:
    """A text in lines that fit; a word that is longer than a line is cut."""
    lines: list[str] = []
    for word in text.split():
        if lines and _width(f"{lines[-1]} {word}", size, bold) <= width:
            lines[-1] += " " + word
        else:
            lines.append(_cut(word, size, width, bold))
    return lines


def _cut(word: str, size: float, width: float, bold: bool) -> str:
    """As much of a word as fits, at least a letter."""
    if _width(word, size, bold) <= width:
        return word
    ends = itertools.accumulate(letter_width(letter, bold) for letter in word)
    fit = sum(1 for _ in itertools.takewhile(lambda end: size * (end + letter_width("…", bold)) <= width, ends))
    return word[:max(fit, 1)] + "…"
