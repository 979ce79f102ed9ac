#!/usr/bin/env python3
"""Recomputes the numbers of reports by a second, naive route: NumPy, rationals, sums written out.

usage: tests/recomputed/recompute.py FOLDER_OF_REPORTS [EXPERIMENT ...]        (some rows; HALFULP_EXHAUSTIVE=1: all)
       tests/recomputed/recompute.py FOLDER_OF_REPORTS --list           (the table of docs/reference/recomputed.md)

Exit status: 0 all agree, 1 a number differs, 2 a column is unaccounted for. What counts as accounted for: checks.py.
"""
from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import os
import pathlib
import sys

from checks import Check, Columns, Report, differences, listing, unaccounted

FEW = 2  # rows of a check in a short run


def shortened(check: Check) -> Check:
    return dataclasses.replace(check, rows=FEW if check.rows is None else min(check.rows, FEW))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("experiments", nargs="*")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    here = pathlib.Path(__file__).parent
    wrong: list[str] = []
    missing: list[str] = []
    rows: list[str] = []
    cells = 0
    for file in sorted(options.folder.glob("*.json")):
        report = Report(json.loads(file.read_text(encoding="utf-8")))
        if options.experiments and report.experiment not in options.experiments:
            continue
        if not (here / f"{report.experiment}.py").exists():
            missing.append(f"{report.experiment}: no module recomputes this report")
            continue
        columns: Columns = importlib.import_module(report.experiment).columns
        missing += unaccounted(report, columns)
        rows += listing(report, columns)
        if options.list:
            continue
        for check in columns.checks if "HALFULP_EXHAUSTIVE" in os.environ else map(shortened, columns.checks):
            wrong += differences(report, check)
            cells += len(check.columns)
    if not options.list and not options.experiments:
        page = (here.parents[1] / "docs" / "reference" / "recomputed.md").read_text(encoding="utf-8")
        missing += [f"docs/reference/recomputed.md lacks: {row}" for row in rows if row not in page]
    for line in missing + wrong:
        print(line, file=sys.stderr)
    if options.list:
        print("| report | table | columns | second route |", "|---|---|---|---|", *rows, sep="\n")
    else:
        print(f"{cells} columns recomputed, {len(wrong)} differences, {len(missing)} columns unaccounted for")
    return 2 if missing else 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
