"""publish.py OUT [RAN]: runs every notebook and writes OUT/*.html with outputs and pictures. A notebook that the folder
RAN holds with its outputs, as the test of notebooks leaves it, is not run again. Formulas are MathML: the pages have no
script and ask no other machine for anything. Needs nbconvert, nbclient, latex2mathml and the package halfulp."""
import concurrent.futures
import functools
import importlib.util
import re
import sys
from pathlib import Path

import nbconvert
import running
from latex2mathml.converter import convert

FORMULA = re.compile(r"\$\$(.+?)\$\$|\$([^$\n]+)\$", re.DOTALL)
SCRIPT = re.compile(r"<script\b.*?</script>\s*", re.DOTALL)
OTHER_NOTEBOOK = re.compile(r'href="([1-9][0-9]*-[a-z]+)\.ipynb"')
REQUEST = re.compile(r"<(?:script|iframe|object|embed)\b|<(?:link|img|source)\b[^>]*\bhttps?:|@import|url\(\s*['\"]?https?:")


def with_mathml(text):
    """Markdown with its formulas as MathML."""
    return FORMULA.sub(lambda f: convert(f[1] or f[2], display="block" if f[1] else "inline"), text)


def runs_here(path):
    """Whether what a notebook needs is there; says so where it is not."""
    needs = running.read(path).metadata.get("needs", [])
    missing = [name for name in needs if importlib.util.find_spec(name) is None]
    if missing:
        print(f"left out: {path.name} needs {', '.join(missing)}", file=sys.stderr)
    return not missing


def published(path, ran):
    """The notebook's page, after a run from top to bottom, now or before."""
    notebook = (ran and running.kept(path, ran)) or running.run(running.read(path))
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = with_mathml(cell.source)
    page, _ = nbconvert.HTMLExporter(template_name="lab").from_notebook_node(notebook, resources={"metadata": {"name": path.stem}})
    page = OTHER_NOTEBOOK.sub(r'href="\1.html"', SCRIPT.sub("", page))
    if found := REQUEST.search(page):
        raise RuntimeError(f"{path.name}: the page would ask for {page[found.start():found.start() + 80]!r}")
    return page


def main(out, ran=None):
    out.mkdir(parents=True, exist_ok=True)
    paths = [path for path in sorted(running.FOLDER.glob("*.ipynb")) if runs_here(path)]
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        for path, page in zip(paths, pool.map(functools.partial(published, ran=ran), paths), strict=True):
            (out / f"{path.stem}.html").write_text(page, encoding="utf-8")
            print(out / f"{path.stem}.html")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(*map(Path, sys.argv[1:]))
