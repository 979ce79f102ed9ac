"""Examples in docstrings are correct, and mypy accepts the types."""
import doctest
import importlib
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

import halfulp
from conftest import commands


@pytest.mark.parametrize("module", ["", ".arithmetic", ".operations", ".products", ".blocks", ".casts", ".checkpoints", ".commands", ".report"])
def test_examples(module):
    module = importlib.import_module("halfulp" + module)
    names = {name: getattr(halfulp, name) for name in dir(halfulp) if not name.startswith("_")}
    with np.printoptions(legacy="1.25"):
        assert doctest.testmod(module, extraglobs={**names, "np": np}).failed == 0


def test_every_public_function_says_what_it_does():
    for name in halfulp.__all__:
        value = getattr(halfulp, name)
        assert not callable(value) or (value.__doc__ or "").strip(), name


@pytest.mark.parametrize("page, blocks", [("README.md", 2), ("docs/reference/python.md", 3)])
def test_pages(page, blocks, tmp_path, monkeypatch):
    """The examples in README, In Python, and in the reference: every block runs alone."""
    text = (pathlib.Path(__file__).parents[2] / page).read_text(encoding="utf-8")
    section = text.split("# In Python\n")[1].split("\n## ")[0]
    monkeypatch.chdir(tmp_path)
    found = re.findall(r"```python\n(.*?)```", section, re.S)
    assert len(found) == blocks
    for block in found:
        exec(block, {})


def test_readme_has_every_command_as_a_function():
    text = (pathlib.Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8").split("## In Python\n")[1].split("\n## ")[0]
    for name in commands():
        assert f"halfulp.{name.replace('-', '_')}(" in text, name


def test_types(tmp_path):
    pytest.importorskip("mypy")
    folder = pathlib.Path(halfulp.__file__).parent
    if not (folder / "_core.pyi").exists():
        pytest.skip("no stubs beside the module")
    answer = subprocess.run([sys.executable, "-m", "mypy", "--config-file", str(pathlib.Path(__file__).parents[2] / "pyproject.toml"), "--cache-dir", str(tmp_path), "-p", "halfulp"], cwd=folder.parent, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout
