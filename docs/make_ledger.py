#!/usr/bin/env python3
"""Makes docs/reference/ledger.md from what `halfulp ledger evidence/ledger` says.

  docs/make_ledger.py --halfulp PROGRAM            # writes the page
  docs/make_ledger.py --halfulp PROGRAM --check    # status 1 where the page would be another, or two digests differ
"""
import argparse
import json
import pathlib
import subprocess
import sys
import textwrap

HERE = pathlib.Path(__file__).resolve().parent
LEDGER, PAGE = HERE.parent / "evidence" / "ledger", HERE / "reference" / "ledger.md"

TEXT = """# Who agrees with whom

`evidence/ledger` holds what `halfulp verify --ledger` wrote: for an operation and all its inputs, a digest of the
results. Equal digests are equal results, bit for bit ([what is proven, and how](../explanation/evidence.md)).
`halfulp ledger` reads such files, and `docs/make_ledger.py` makes this page of what it says. A *setting* is a rounding
mode with its way of overflow, of flushing and of tininess.

{summary}

{machines}

| operation | from | to | inputs | settings | {references} |
|---|---|---|---|---|{rules}|
{rows}
"""


def short(name):
    """A processor's name, as short as a column wants it."""
    return name.replace("(R)", "").replace(" Processor, family 6 model 207", " (family 6, model 207)").replace(" HBM3", "")


def inputs(operation):
    count, some = operation["inputs"], "*" if operation["kind"] == "pairs" else ""
    power = count.bit_length() - 1
    return (f"2^{power}" if count == 1 << power else f"{count:,}") + some


def page(ledger):
    operations = ledger["operations"]
    asked = {row["reference"]: row["asked"] for operation in operations for row in operation["references"]}
    names = sorted(asked, key=lambda name: (asked[name] != "oracle", short(name)))
    rows = []
    for operation in operations:
        of = {row["reference"]: row for row in operation["references"]}
        cells = [f"{of[name]['settings']}, {of[name]['last'][:10]}" if name in of else "" for name in names]
        rows.append(f"| `{operation['operation']}` | {operation['from']} | {operation['to']} "
                    f"| {inputs(operation)} | {operation['settings']} | {' | '.join(cells)} |")
    summary = (f"{ledger['settings']} settings of {len(operations)} operations were compared over every input "
               "(*: every pair of the first two operands with some third ones), "
               f"{ledger['compared'] / 1e14:.2f} × 10^14 cases in all: {ledger['differing']} differ. "
               f"In {ledger['several']} settings two or more references were asked: "
               f"the digests of {len(ledger['contradictions']) or 'none'} differ.")
    machines = sorted(name for name, kind in asked.items() if kind == "x86")
    cells_say = ("A cell says how many settings that reference was compared in, and when for the last time. "
                 "Rationals share no code with what is compared. "
                 "Where a CPU has no instruction of a format, its fp64 adder rounds and software checks the range: "
                 "the EPYC's entries are of this kind, as each entry's `route` says. "
                 f"A processor answered by its own instructions ({'; '.join(machines)}), a GPU by its own.")
    return TEXT.format(summary=textwrap.fill(summary, 118), machines=textwrap.fill(cells_say, 118),
                       references=" | ".join(map(short, names)), rules="|".join(["---"] * len(names)),
                       rows="\n".join(rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--halfulp", default="build/release/bin/halfulp", help="the program")
    parser.add_argument("--check", action="store_true", help="write nothing")
    arguments = parser.parse_args()
    answer = subprocess.run([arguments.halfulp, "ledger", "--json", LEDGER], capture_output=True, text=True)
    if answer.returncode > 1:
        sys.exit(answer.stderr.strip())
    ledger = json.loads(answer.stdout)
    for line in ledger["contradictions"]:
        print(line, file=sys.stderr)
    text = page(ledger)
    if not arguments.check:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        sys.exit(f"{PAGE.relative_to(HERE.parent)} is not what evidence/ledger holds; docs/make_ledger.py writes it")
    return answer.returncode


if __name__ == "__main__":
    sys.exit(main())
