"""Reports of halfulp as one HTML page that needs nothing else, no network, no script, no file beside it; or as a folder
of such pages.

    python3 -m halfulp_page REPORT... --out FILE|DIR

It reads JSON (report/schema.json) and shares no code with halfulp, so that any Python with matplotlib and jinja2 draws it.
"""
from .inputs import BadInput, Source, read_all
from .page import render, render_folder
from .sections import About

__all__ = ["About", "BadInput", "Source", "read_all", "render", "render_folder"]
