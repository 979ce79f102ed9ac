#!/usr/bin/env python3
"""The page of trainings explains only what failed or fell behind."""
import json
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "docs"))
import make_training


class Page(unittest.TestCase):
    def test_what_is_within_has_no_repair(self):
        """Not even where the report says what its microscope saw: within the margin, but behind beyond doubt."""
        report = json.loads(make_training.REPORT.read_text())
        columns = [column["name"] for column in report["results"]["summary"]["columns"]]
        for row in report["results"]["summary"]["rows"]:
            row[columns.index("why")] = row[columns.index("repair")] = "seen"
        for part in make_training.page(report).split("\n## ")[1:-1]:
            behind = re.findall(r"^\| `([^`]*)` .*\| (?:failed|below) \|", part, re.MULTILINE)
            self.assertTrue(behind)
            self.assertEqual(re.findall(r"^- `([^`]*)`: seen", part, re.MULTILINE), behind)


if __name__ == "__main__":
    unittest.main()
