#!/usr/bin/env python3
"""The test of pages finds wrong output, unknown languages, blocks that are not run without a reason, and dead links."""
import argparse
import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

import pages
import run_blocks


class Pages(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name).resolve()
        (self.root / "docs").mkdir()
        for name in run_blocks.LINKED:
            (self.root / name).mkdir(exist_ok=True)
        (self.root / "HACKING.md").write_text("# Hacking\n")
        (self.root / "build" / "bin").mkdir(parents=True)
        self.addCleanup(setattr, run_blocks, "ROOT", run_blocks.ROOT)
        run_blocks.ROOT = self.root

    def outcomes(self, text, **options):
        (self.root / "README.md").write_text(text)
        given = {"build": self.root / "build", "python": sys.executable, "compiler": "c++", "slow": False,
                 "update": False, "reports": None, **options}
        runner = run_blocks.Runner(argparse.Namespace(**given))
        return [(outcome, why) for _, outcome, why in runner.page(pathlib.Path("README.md"))]

    def fails(self, text, word):
        outcome, why = self.outcomes(text)[0]
        self.assertEqual(outcome, "failed", why)
        self.assertIn(word, why)

    def test_output_is_compared(self):
        self.assertEqual(self.outcomes("```console\n$ echo one; echo two\none\ntwo\n$ echo three\nthree\n```\n")[0][0], "ran")
        self.fails("```console\n$ echo one\nuno\n```\n", "uno")
        self.fails("```console\n$ echo one; echo two\none\n```\n", "two")
        self.fails("```console\n$ echo one\n```\n", "one")

    def test_gaps(self):
        self.assertEqual(self.outcomes("```console\n$ seq 9\n1\n...\n8\n9\n```\n")[0][0], "ran")
        self.assertEqual(self.outcomes("```console\n$ echo took 3.2 s\ntook ... s\n```\n")[0][0], "ran")
        self.fails("```console\n$ seq 9\n1\n...\n8\n```\n", "8")

    def test_failures_are_seen(self):
        self.fails("```sh\ntrue\nfalse\ntrue\n```\n", "exit status 1")
        self.fails("```console\n$ no-such-program\n...\n```\n", "exit status 127")
        self.fails("```cpp\nint x = \"text\";\n```\n", "exit status")

    def test_what_is_not_run_says_why(self):
        self.fails("```\ntext\n```\n", "not named")
        self.fails("```perl\n1\n```\n", "perl")
        self.fails("```text\nno reason\n```\n", "not run: WHY")
        self.fails("```json\n{}\n```\n", "file: NAME")
        self.assertEqual(self.outcomes("<!-- not run: minutes -->\n```sh\nfalse\n```\n"), [("not run", "minutes")])
        self.assertEqual(self.outcomes("<!-- needs: no_such_module -->\n```sh\nfalse\n```\n")[0][0], "not run")

    def test_reports_at_hand_take_the_place_of_runs(self):
        program = self.root / "build" / "bin" / "halfulp"
        program.write_text('#!/bin/sh\n[ "$1" = show ] && cat "$2"\n')  # it runs no experiment
        program.chmod(0o755)
        reports = self.root / "reports"
        reports.mkdir()
        (reports / "underflow.json").write_text("at hand\n")
        run, show = "$ halfulp run underflow --quiet --out u.json\n", "$ halfulp show u.json limits\nat hand\n"
        slow = "<!-- slow: minutes -->\n```console\n"
        outcomes = lambda text, **options: [outcome for outcome, _ in self.outcomes(text, **options)]
        self.assertEqual(outcomes(f"{slow}{run}{show}```\n\n{slow}{show}```\n", reports=reports), ["ran", "ran"])
        self.assertEqual(outcomes(f"{slow}{run}{show}```\n"), ["not run"])
        self.assertEqual(outcomes(f"{slow}{show}```\n", reports=reports), ["not run"])  # of no report
        changed = "halfulp run underflow --set count=1 --quiet --out u.json"
        for other in ("halfulp run swamping --quiet --out s.json", changed, "true"):
            self.assertEqual(outcomes(f"{slow}$ {other}\n```\n", reports=reports), ["not run"], other)
        self.assertEqual(outcomes(f"```console\n{run}{show}```\n"), ["failed"])

    def test_blocks_of_the_package_wait_for_it(self):
        for text in ("```python\nimport halfulp\n```\n",
                     "```console\n$ build/python-venv/bin/python -c 'print(1)'\n1\n```\n"):
            self.assertEqual(self.outcomes(text), [("not run", "the Python package was not built")])

    def test_files_are_taken_by_later_blocks(self):
        page = "<!-- file: a.json -->\n```json\n{\"a\": 1}\n```\n"
        self.fails(page, "no block after it takes a.json")
        self.assertEqual([o for o, _ in self.outcomes(page + "```console\n$ cat a.json\n{\"a\": 1}\n```\n")], ["ran", "ran"])

    def test_copies_are_copies(self):
        (self.root / "docs" / "a.cpp").write_text("int a;\nint b;\n")
        self.assertEqual(self.outcomes("<!-- copy of: docs/a.cpp -->\n```cpp\nint b;\n```\n")[0][0], "ran")
        self.fails("<!-- copy of: docs/a.cpp -->\n```cpp\nint c;\n```\n", "no copy")

    def test_links(self):
        (self.root / "docs" / "a.md").write_text("# A (b), `c`\n\n[up](../README.md#one--two) [self](#a-b-c)\n")
        (self.root / "README.md").write_text("# One: & two\n\n[a](docs/a.md#a-b-c) `[no](link)` ![p](docs/no.svg)\n[gone](docs/a.md#gone)\n```text\n[not](this)\n```\n")
        self.assertEqual([problem.split(":")[2].strip() for problem in pages.broken_links(self.root)], ["docs/no.svg", "docs/a.md#gone"])

    def test_update_keeps_gaps(self):
        text = "```console\n$ seq 5\n7\n...\n$ seq 3\n@2\n```\n"
        self.outcomes(text, update=True)
        self.assertEqual((self.root / "README.md").read_text(), "```console\n$ seq 5\n1\n...\n$ seq 3\n1\n2\n...\n```\n")


if __name__ == "__main__":
    with contextlib.redirect_stderr(io.StringIO()) as said:
        result = unittest.main(exit=False).result
    print(said.getvalue())
    sys.exit(0 if result.wasSuccessful() else 1)
