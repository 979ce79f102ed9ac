#!/usr/bin/env python3
"""Writes docs/reference/mutants.md: which planted bugs the tests caught, from results.json.

usage: tests/mutants/table.py [--check]

--check: write nothing; exit status 1 if the page is another.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
import textwrap

from plant import lists

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "reference" / "mutants.md"
ROOMS = {
    "emulation": "scalar functions, block formats",
    "arrays": "arrays, products",
    "checkpoints": "readers, writers and surveys of checkpoints",
    "training": "trainings",
    "experiments": "experiments",
    "report": "reports, evidence, hardware",
    "commands": "commands, support",
    "package": "the Python package",
    "page": "the page of reports",
    "halfulp_torch": "halfulp.torch",
}


def page() -> str:
    results = json.loads((HERE / "results.json").read_text())
    known = lists()
    text = [
        "# Planted bugs",
        "",
        "`tests/mutants/plant.py` plants each of these bugs in a copy of the sources, alone, and runs the test named with it. A",
        "bug is *caught* if that test fails. A bug that lies in code for another CPU is planted where there is such a CPU. This",
        "page is made from `tests/mutants/results.json`; [a decision](../decisions/what-tests-catch.md) says how the tests are",
        "made.",
        "",
        "| room | bugs | caught | missed | not tried |",
        "|---|---|---|---|---|",
    ]
    total = [0, 0, 0]
    for room, bugs in sorted(known.items(), key=lambda item: list(ROOMS).index(item[0])):
        outcomes = [results.get(bug.title, {}).get("outcome", "not tried") for bug in bugs]
        row = [len(bugs), outcomes.count("caught"), outcomes.count("not tried")]
        total = [a + b for a, b in zip(total, row)]
        text.append(f"| {ROOMS[room]} | {row[0]} | {row[1]} | {row[0] - row[1] - row[2]} | {row[2]} |")
    tried = total[0] - total[2]
    said = (
        f"Of the {tried} bugs that were tried, tests caught {100 * total[1] / max(tried, 1):.1f} %. Where a test missed one at"
        " first, it was extended and the bug planted again: these figures say what holds now, not how many a new list would"
        " find missed."
    )
    if untried := [ROOMS[room] for room in ROOMS if not any(bug.title in results for bug in known[room])]:
        said += f" No bug of these rooms is among them: {'; '.join(untried)}."
    text += [f"| all | {total[0]} | {total[1]} | {tried - total[1]} | {total[2]} |", "", textwrap.fill(said, 119)]
    missed = [
        bug.title
        for bugs in known.values()
        for bug in bugs
        if results.get(bug.title, {}).get("outcome", "caught") != "caught"
    ]
    if missed:
        text += ["", "Missed:", "", *(f"- {title}" for title in missed)]
    for room, bugs in sorted(known.items(), key=lambda item: list(ROOMS).index(item[0])):
        heading = ROOMS[room] if room == "halfulp_torch" else ROOMS[room][0].upper() + ROOMS[room][1:]
        text += ["", f"## {heading}", "", "| bug | test | result | date | CPU |", "|---|---|---|---|---|"]
        for bug in bugs:
            result = results.get(bug.title, {})
            text.append(
                f"| {bug.title} | `{bug.test}` | {result.get('outcome', 'not tried')} | {result.get('date', '')} | {result.get('cpu', '')} |".replace(
                    "  |", " |"
                )
            )
    return "\n".join(text) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    text = page()
    if not check:
        PAGE.write_text(text)
    elif not PAGE.exists() or PAGE.read_text() != text:
        print(
            "docs/reference/mutants.md is not what tests/mutants/table.py makes of tests/mutants/results.json",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
