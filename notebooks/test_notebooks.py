"""Every notebook runs from top to bottom, as it is and with the exercises solved; in git they have no outputs."""
import concurrent.futures
import re
from pathlib import Path

import exercises
import pytest
import solutions

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

FOLDER = Path(__file__).resolve().parent
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
UNANSWERED = "answer = ..."


def exercise_of(cell):
    """The name of the exercise that a cell asks, or None."""
    found = re.search(r'^check\("([a-z]+-\d)", answer\)$', cell.source, re.MULTILINE) if cell.cell_type == "code" else None
    return found[1] if found else None


def solved(notebook):
    for cell in notebook.cells:
        if name := exercise_of(cell):
            cell.source = cell.source.replace(UNANSWERED, f"answer = {solutions.SOLUTIONS[name]}", 1)
    return notebook


def executed(path, solve):
    """The notebook with its outputs, as text."""
    notebook = nbformat.read(path, as_version=4)
    if solve:
        notebook = solved(notebook)
    nbclient.NotebookClient(notebook, timeout=300, startup_timeout=300, kernel_name="python3", resources={"metadata": {"path": str(FOLDER)}}).execute()
    return nbformat.writes(notebook)


def printed(cell):
    return "".join(output.get("text", "") for output in cell.outputs)


@pytest.fixture(scope="session")
def runs():
    """The executed notebook of a path, solved or not; two at a time, as most of each is the start of a kernel."""
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        futures = {(path.stem, solve): pool.submit(executed, path, solve) for path in NOTEBOOKS for solve in (False, True)}
        yield lambda path, solve: nbformat.reads(futures[path.stem, solve].result(), as_version=4)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stripped(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    assert notebook.metadata.kernelspec.name == "python3"
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == [] and cell.execution_count is None, f"{cell.id}: outputs in git; ./run notebooks --strip"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_as_it_is(runs, path):
    notebook = runs(path, False)
    asked = [cell for cell in notebook.cells if exercise_of(cell)]
    assert 2 <= len(asked) <= 4
    for cell in asked:
        assert UNANSWERED in cell.source
        assert f"{exercise_of(cell)}: not answered yet" in printed(cell)
    assert any(output.output_type == "display_data" for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs)
    assert [cell.id for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs if output.get("name") == "stderr"] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_solved(runs, path):
    for cell in runs(path, True).cells:
        if name := exercise_of(cell):
            assert f"{name}: right. " in printed(cell), printed(cell)


def test_each_exercise_is_asked_once():
    asked = [exercise_of(cell) for path in NOTEBOOKS for cell in nbformat.read(path, as_version=4).cells if exercise_of(cell)]
    assert asked == exercises.names() == list(solutions.SOLUTIONS) == list(solutions.WRONG)


@pytest.mark.parametrize("name", solutions.WRONG)
def test_wrong_answers_get_a_hint(name):
    for wrong in solutions.WRONG[name]:
        verdict, text = exercises.judge(name, eval(wrong))
        assert verdict == "hint", (wrong, text)
        right = solutions.SOLUTIONS[name]
        for away in (right, str(eval(right))):
            assert len(away) < 3 or away not in text, f"the hint for {wrong} gives the answer away"
