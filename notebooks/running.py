"""Runs notebooks, and keeps those that ran: the site shows what the test has run, if it is the same notebook."""
from pathlib import Path

import nbclient
import nbformat

FOLDER = Path(__file__).resolve().parent
LIMIT = 300  # seconds, of a cell, and of the kernel's start


def read(path):
    return nbformat.read(path, as_version=4)


def run(notebook):
    """The notebook with its outputs, after a run from top to bottom. Raises nbclient's CellExecutionError."""
    here = {"metadata": {"path": str(FOLDER)}}
    nbclient.NotebookClient(notebook, timeout=LIMIT, startup_timeout=LIMIT, kernel_name="python3", resources=here).execute()
    return notebook


def keep(notebook, file):
    """Writes a notebook that ran. No reader sees half of it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    half = file.with_suffix(".half")
    nbformat.write(notebook, half)
    half.replace(file)


def kept(path, folder):
    """The notebook of a path as `keep` wrote it into a folder, without cells added to it there. None if there is none,
    or if its cells are no longer those of the path."""
    file = folder / path.name
    if not file.exists():
        return None
    notebook, now = read(file), [(cell.id, cell.source) for cell in read(path).cells]
    notebook.cells = [cell for cell in notebook.cells if cell.id in dict(now)]
    return notebook if [(cell.id, cell.source) for cell in notebook.cells] == now else None
