"""Every notebook runs from top to bottom, then its exercises again with solutions. Every picture has a description, and
git holds no outputs. Judges answer wrong answers with a sentence, and accept right ones in every form.

HALFULP_RAN: a folder for the notebooks that ran, if set."""
import concurrent.futures
import copy
import importlib.util
import os
import re
from fractions import Fraction
from pathlib import Path

import exercises
import numpy as np
import pytest
import solutions

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")
import running  # noqa: E402

ALL = sorted(running.FOLDER.glob("*.ipynb"), key=lambda path: int(path.stem.split("-")[0]))
# What notebooks need besides the packages of all: torch is large.
NEEDS = {path: running.read(path).metadata.get("needs", []) for path in ALL}
NOTEBOOKS = [path for path in ALL if all(map(importlib.util.find_spec, NEEDS[path]))]
UNANSWERED = "answer = ..."
SOLVED = "-solved"


def exercise_of(cell):
    """The name of the exercise in a cell, or None."""
    found = re.search(r'^check\("([a-z]+-\d)", answer\)$', cell.source, re.MULTILINE) if cell.cell_type == "code" else None
    return found[1] if found else None


def solved(cell):
    """An exercise's cell with an answer, to run after all others."""
    result = copy.deepcopy(cell)
    result.id = cell.id + SOLVED
    result.source = cell.source.replace(UNANSWERED, f"answer = {solutions.SOLUTIONS[exercise_of(cell)]}", 1)
    return result


def executed(path):
    """The text of the notebook with its outputs, followed by its exercises with solutions."""
    notebook = running.read(path)
    notebook.cells += [solved(cell) for cell in notebook.cells if exercise_of(cell)]
    running.run(notebook)
    if "HALFULP_RAN" in os.environ:
        running.keep(notebook, Path(os.environ["HALFULP_RAN"]) / path.name)
    return nbformat.writes(notebook)


def printed(cell):
    return "".join(output.get("text", "") for output in cell.outputs)


@pytest.fixture(scope="session")
def code_cells():
    """The executed code cells of a notebook. Two notebooks run at a time."""
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        futures = {path.stem: pool.submit(executed, path) for path in NOTEBOOKS}
        yield lambda path: [cell for cell in nbformat.reads(futures[path.stem].result(), as_version=4).cells if cell.cell_type == "code"]


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_stripped(path):
    notebook = running.read(path)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    assert notebook.metadata.kernelspec.name == "python3"
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == [] and cell.execution_count is None, f"{cell.id}: outputs in git; ./run notebooks --strip"
    assert sum("# change this" in cell.source for cell in notebook.cells if cell.cell_type == "code") >= 3


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_as_it_is(code_cells, path):
    cells = [cell for cell in code_cells(path) if not cell.id.endswith(SOLVED)]
    asked = [cell for cell in cells if exercise_of(cell)]
    assert 2 <= len(asked) <= 4
    for cell in asked:
        assert UNANSWERED in cell.source
        assert f"{exercise_of(cell)}: not answered yet" in printed(cell)
    assert [(cell.id, output.text) for cell in cells for output in cell.outputs if output.get("name") == "stderr"] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_pictures_are_described(code_cells, path):
    outputs = [output.data for cell in code_cells(path) for output in cell.outputs if output.output_type == "display_data"]
    assert outputs
    for data in outputs:
        assert set(data) == {"text/html", "text/plain"}, "a figure that figures.show() did not show"
        described = re.fullmatch(r'<img src="data:image/png;base64,[^"]+" width="\d+" alt="([^"<>]+)">', data["text/html"])
        assert described and len(described[1]) >= 80, data["text/plain"]
        assert not re.search(r"\b(nan|None)\b", described[1]), described[1]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_solved(code_cells, path):
    for cell in code_cells(path):
        if cell.id.endswith(SOLVED):
            assert f"{exercise_of(cell)}: right. " in printed(cell), printed(cell)


def test_each_exercise_is_asked_once():
    asked = [exercise_of(cell) for path in ALL for cell in running.read(path).cells if exercise_of(cell)]
    assert asked == exercises.names() == list(solutions.SOLUTIONS) == list(solutions.WRONG)


@pytest.mark.parametrize("name", solutions.WRONG)
def test_wrong_answers_get_a_hint(name):
    for wrong in solutions.WRONG[name]:
        verdict, text = exercises.judge(name, eval(wrong))
        assert verdict == "hint", (wrong, text)
        right = solutions.SOLUTIONS[name]
        for away in (right, str(eval(right))):
            assert len(away) < 3 or away not in text, f"the hint for {wrong} gives the answer away"


@pytest.mark.parametrize("name", solutions.WRONG)
def test_no_answer_breaks_a_judge(name):
    for odd in (None, True, "", "1", b"1", 1j, float("nan"), float("inf"), -1, 0, 10**400, 1e300, 5e-324, [], [None], (), {}, {1}, [[]], np.zeros(3), np.float32("nan"), object(), print, ([],) * 3):
        verdict, text = exercises.judge(name, odd)
        assert verdict == "hint" and len(text) > 10, (odd, text)


def other_forms(answer):
    """The same answer in other forms."""
    if isinstance(answer, (int, float)):
        return [float(answer), Fraction(answer), np.float64(answer), np.float32(answer), np.array(answer)] + ([np.int64(answer)] if answer == int(answer) else [])
    if isinstance(answer, (list, tuple)) and not isinstance(answer[0], list):
        return [list(answer), tuple(answer), np.array(answer), [Fraction(x) for x in answer], np.array(answer, np.float16)]
    return [answer]


@pytest.mark.parametrize("name", [name for name in solutions.SOLUTIONS if not name.startswith("training-2")])
def test_right_answers_in_every_form(name):
    for answer in [form for right in [solutions.SOLUTIONS[name], *solutions.ALSO.get(name, [])] for form in other_forms(eval(right))]:
        verdict, text = exercises.judge(name, answer)
        assert verdict == "right", (answer, text)
