"""The code of docs/how-to/your-own-model.md, one block after the other, and the examples in docstrings."""
import doctest
import importlib
import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", minversion="2.4")
PAGE = Path(__file__).parents[3] / "docs/how-to/your-own-model.md"


def test_the_page_runs(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # it writes a report
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) >= 4
    names = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert "everything was computed under the policy" in capsys.readouterr().out


@pytest.mark.parametrize("module", ["halfulp.torch", "halfulp.torch._rounding", "halfulp.torch._products"])
def test_docstrings(module):
    found = importlib.import_module(module)
    results = doctest.testmod(found, extraglobs={"torch": torch})
    assert results.failed == 0 and results.attempted > 0
