"""The site of the documentation: Sphinx with MyST over docs/, Breathe over what Doxygen says of the headers, autodoc over the Python package.

docs/make_site.sh runs it; HALFULP_XML is Doxygen's folder, HALFULP_PACKAGE the folder that has the package halfulp, where it was built;
HALFULP_NOTEBOOKS a folder with the pages that notebooks/publish.py made, where it could; HALFULP_LECTURE one with lecture.html.
"""
import html
import json
import logging
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
REPOSITORY = "https://github.com/halfulp/halfulp/blob/main/"

project, author = "halfulp", "the halfulp authors"
version = release = re.search(r"VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")).group(1)

extensions = ["myst_parser", "breathe"]
exclude_patterns = ["how-to/skeletons"]
html_theme = "furo"
html_title = "halfulp"
myst_heading_anchors = 3
breathe_projects = {"halfulp": os.environ["HALFULP_XML"]}
breathe_default_project = "halfulp"
breathe_default_members = ("members", "undoc-members")
primary_domain, highlight_language = "cpp", "none"
# A code block may show what a highlighter takes for an error: JSON with a gap, a command's output.
suppress_warnings = ["misc.highlighting_failure"]

package = os.environ.get("HALFULP_PACKAGE")
if package:
    extensions.append("sphinx.ext.autodoc")
    sys.path[:0], sys.path[len(sys.path):] = package.split(":")[:1], package.split(":")[1:]
    autodoc_member_order = "bysource"
    autodoc_typehints = "none"


notebooks = os.environ.get("HALFULP_NOTEBOOKS")
lecture = os.environ.get("HALFULP_LECTURE")
html_extra_path = [folder for folder in (notebooks, lecture) if folder]


def notebooks_section():
    """Links to the notebooks' pages, by their titles."""
    lines = []
    for page in sorted(pathlib.Path(notebooks).glob("notebooks/*.html")):
        cells = json.loads((ROOT / "notebooks" / f"{page.stem}.ipynb").read_text(encoding="utf-8"))["cells"]
        title = "".join(cells[0]["source"]).splitlines()[0].removeprefix("# ")
        lines.append(f'<li><a href="notebooks/{page.name}">{html.escape(title)}</a></li>')
    return "\n## Notebooks\n\nEach one with its outputs and pictures:\n\n<ol>\n" + "\n".join(lines) + "\n</ol>\n"


def pages_linked(text):
    """The pages of the same folder and below that a page links to, in its order: its table of contents."""
    return dict.fromkeys(target[:-3] for target in re.findall(r"\]\(((?!\.\./)[\w/-]+\.md)\)", text))


def headers():
    """The public headers, as docs/Doxyfile lists them."""
    text = (ROOT / "docs" / "Doxyfile").read_text(encoding="utf-8")
    return re.findall(r"\b(?:formats|emulation)/[\w/]+\.hpp", text)


def complete(app, name, source):
    """What only the site has: tables of contents, functions from headers and docstrings; links out of docs/ go to the repository."""
    text = source[0]
    here = ROOT / "docs" / pathlib.Path(name).parent

    def outward(match):
        path, _, anchor = match.group(2).partition("#")
        target = (here / path).resolve()
        if not path or re.match(r"[a-z]+:", path) or (target.is_relative_to(ROOT / "docs") and (target.suffix == ".md" or match.group(1).startswith("!"))):
            return match.group(0)
        return f"{match.group(1)}({REPOSITORY}{target.relative_to(ROOT)}{'#' + anchor if anchor else ''})"

    text = re.sub(r"(!?\[[^\]]*\])\(([^()\s]+)\)", outward, text)
    if name.endswith("index"):
        pages = list(pages_linked(text)) + (["casts", "training", "seeds"] if name == "index" else [])
        text += "\n```{toctree}\n:hidden:\n\n" + "\n".join(pages) + "\n```\n"
    if name == "index" and notebooks:
        text += notebooks_section()
    if name in ("index", "how-to/lecture-in-a-browser") and lecture:
        text += f'\n## Open it\n\n<p><a href="{"../" * name.count("/")}lecture.html">The lecture in a browser</a></p>\n'
    if name == "reference/cpp":
        for header in headers():
            text += f"\n## {header}\n\n```{{eval-rst}}\n.. doxygenfile:: {header}\n```\n"
    if name == "reference/python" and package:
        text += "\n## Functions and classes\n\n```{eval-rst}\n.. automodule:: halfulp\n   :members:\n```\n"
    source[0] = text


class OneNamespace(logging.Filter):
    """Every header declares the namespace halfulp: that is no duplicate."""

    def filter(self, record):
        return re.search(r"Duplicate C\+\+ declaration.*cpp:type:: halfulp'", record.getMessage(), re.S) is None


def setup(app):
    logging.getLogger("sphinx.sphinx.domains.cpp").addFilter(OneNamespace())
    app.connect("source-read", complete)
