#!/usr/bin/env python3
"""Makes docs/reference/ledger.md from evidence/ledger: who agrees with whom.

  docs/make_ledger.py            # writes the page
  docs/make_ledger.py --check    # exit status 1 where the page is not what it would be, or where two digests differ
"""
import argparse
import collections
import json
import pathlib
import sys
import textwrap

HERE = pathlib.Path(__file__).resolve().parent
LEDGER, PAGE = HERE.parent / "evidence" / "ledger", HERE / "reference" / "ledger.md"

TEXT = """# Who agrees with whom

`evidence/ledger` holds what `halfulp verify --ledger` wrote: for an operation and all its inputs, a digest of the
results. Equal digests are equal results, bit for bit ([what is proven, and how](../explanation/evidence.md)).
`docs/make_ledger.py` makes this page from those files. A *setting* is a rounding mode with its way of overflow, of
flushing and of tininess.

{summary}

{machines}

| operation | from | to | inputs | settings | {references} |
|---|---|---|---|---|{rules}|
{rows}
"""


def reference(entry):
    """The column of an entry: what was asked, on which machine."""
    against = entry["against"]
    if against["reference"] == "oracle":
        return "rationals"
    name = against["device"].split(",")[0] if "device" in against else entry["machine"]
    return name.replace("(R)", "").replace(" Processor, family 6 model 207", " (6, 207)").replace(" HBM3", "")


def inputs(count):
    power = count.bit_length() - 1
    return f"2^{power}" if count == 1 << power else f"{count:,}"


def page(entries):
    """The page, and the settings of which two digests differ."""
    settings = collections.defaultdict(dict)  # (operation, from, to, inputs) -> setting -> entries
    for entry in entries:
        if entry["inputs"]["kind"] != "all":  # a sample shows less than the page says
            continue
        task = dict(entry["task"])
        place = (task.pop("operation"), task.pop("from"), task.pop("to"), entry["inputs"]["count"])
        settings[place].setdefault(json.dumps(task, sort_keys=True), []).append(entry)
    references = sorted({reference(entry) for entry in entries}, key=lambda name: (name != "rationals", name))
    rows, several, differing, compared, different = [], 0, [], 0, 0
    for place, of in sorted(settings.items()):
        cells = []
        for name in references:
            mine = [entry for all_of in of.values() for entry in all_of if reference(entry) == name]
            cells.append(f"{len({json.dumps(e['task'], sort_keys=True) for e in mine})}, {max(e['date'] for e in mine)[:10]}" if mine else "")
        for setting, all_of in of.items():
            several += len({reference(entry) for entry in all_of}) > 1
            if len({entry["digest"] for entry in all_of}) > 1:
                differing.append(" ".join(map(str, place)) + " " + setting)
        compared += sum(entry["compared"] for all_of in of.values() for entry in all_of)
        different += sum(entry["differing"] for all_of in of.values() for entry in all_of)
        rows.append(f"| `{place[0]}` | {place[1]} | {place[2]} | {inputs(place[3])} | {len(of)} | {' | '.join(cells)} |")
    count = sum(map(len, settings.values()))
    summary = (f"{count} settings of {len(settings)} operations were compared over every input, {compared / 1e14:.2f} × 10^14 cases in all: {different} differ. "
               f"In {several} settings two or more references were asked: the digests of {len(differing) or 'none'} differ.")
    machines = sorted({entry["machine"] for entry in entries if entry["against"]["reference"] == "x86"})
    cells_say = ("A cell says how many settings that reference was compared in, and when for the last time. Rationals share no code with what is compared. "
                 f"A processor answered by its own instructions ({'; '.join(machines)}), a GPU by its own.")
    text = TEXT.format(summary=textwrap.fill(summary, 118), machines=textwrap.fill(cells_say, 118), references=" | ".join(references), rules="|".join(["---"] * len(references)), rows="\n".join(rows))
    return text, differing


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    text, differing = page([entry for file in sorted(LEDGER.glob("*.json")) for entry in json.loads(file.read_text(encoding="utf-8"))["entries"]])
    for setting in differing:
        print(f"two digests differ: {setting}", file=sys.stderr)
    if not check:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        print(f"{PAGE.relative_to(HERE.parent)} is not what evidence/ledger holds; docs/make_ledger.py writes it", file=sys.stderr)
        return 1
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
