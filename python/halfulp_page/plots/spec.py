"""A picture's description as data: a row of the tables in gradients.py, sums.py, trainings.py, networks.py. What no
such row can say is drawn by a function of scenes.py, scenes_of_sums.py or scenes_of_networks.py."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Mapping


@dataclass(frozen=True)
class Plot:
    """A picture of one table of a report.

    lines: `values` against the numbers in `along`. dots: `values` on a row for each name in `along`. stacked: the same, `values` are parts that add up.
    heatmap: a cell for each name in `along` and each in `series`, coloured by `values`.
    """
    table: str
    title: str                       # what it shows, without stating a result
    kind: str                        # lines, dots, stacked or heatmap
    along: str                       # column: the horizontal axis of lines, the rows of the others
    values: tuple[str, ...]          # columns of numbers
    series: str | None = None        # column: a line or a marker for each of its values; default: for each of `values`
    panels: str | None = None        # column: a picture for each of its values; default, with several values and a series: for each of `values`
    where: Mapping[str, object] = field(default_factory=dict)  # rows with this value of a column, or with its first value where the column lacks this one
    along_scale: str = "linear"      # linear, log or log2
    value_scale: str = "linear"
    value_limits: tuple[float, float] | None = None  # of a linear axis; values beyond them are drawn at its ends, with a note; of a heatmap: the ends of its colours
    only: tuple[str, ...] = ()       # values of `series`, in this order; default: the first ones
    against: tuple[str, str] | None = None  # column and its value: drawn is the difference from the rows with this value,
    over: str = ""                   # from the row with the same value of this column: the mean over it, and a band from the least to the largest
    guides: tuple[str, ...] = ()     # of lines: columns drawn as lines of their own, the same for all series
    whiskers: tuple[str, str] | None = None  # columns of the smallest and the largest value, drawn where they are there; of lines: a band
    steps: bool = False              # a value stays until the next one
    empty: str = ""                  # why a cell of `values` may have no number
    ends: str = ""                   # of lines: why those of a panel may end before those of others
    value_label: str = ""            # what `values` are; default: the column's name
    along_label: str = ""
    same_values: bool = True         # all panels share the axis of values
    same_along: bool = True          # all panels share the other axis
    reading: str = ""                # how to read it, one sentence
    first: bool = False              # it stands on the overview of a folder
    file: str = ""                   # its part of a file's name; default: the table. No two of an experiment have the same
    panel_label: str = ""            # before panels that are numbers; default: the column's name
    unnamed: str = ""                # the panel of an empty cell; default: that there is none
    everywhere: bool = False         # rows with an empty cell of `panels` stand in every panel, as what to compare with
    uneven: bool = False             # a panel in which all values are the same is not drawn; a note says so
    unnamed_row: str = ""            # the row of an empty cell of `along`
    band: str = ""                   # of lines: what the band between whiskers is
    linear_to: float = 0.0           # of the scale symlog: linear up to here on both sides of 0, logarithmic beyond
    exact: tuple[str, ...] = ()      # of a heatmap: columns that are all 0, if they are there, where an empty cell means that nothing was lost
    added: str = ""                  # of lines: rows with the same place are added up, and drawn is their share of the series; what rows without a place are
    ranges: tuple[tuple[str, float, float, float], ...] = ()  # of lines: formats under them, with the least subnormal, the least normal and the largest place


Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Frame:
    """One panel of a scene."""
    title: str
    description: str  # in words, for readers who cannot see it
    draw: Callable[..., None]  # into matplotlib's axes
    size: tuple[float, float] = (4.0, 2.7)  # inches
    axes: tuple[float, ...] = (1,)  # relative widths of axes beside each other, with the same rows
    notes: tuple[str, ...] = ()  # what is left out, and why
    file: str = ""  # its part of a file's name; default: the title
    without: tuple[str, ...] = ()  # names of the scene's legend that it does not draw


@dataclass(frozen=True)
class Scene:
    """A picture with a drawing of its own. `frames` gets the rows of `tables`, in this order."""
    tables: tuple[str, ...]
    title: str
    frames: Callable[..., list[Frame]]
    reading: str = ""
    legend: tuple[tuple[str, Mapping[str, Any]], ...] = ()  # names, with matplotlib's properties of a line, or of a bar: those with a facecolor
    first: bool = True
    file: str = ""  # as of a Plot


MOST_PANELS, MOST_SERIES, MOST_ROWS = 8, 12, 40
MOST_CELLS = 60  # rows of a heatmap
