#!/usr/bin/env python3
"""Prints the table of `./run bench` from Google Benchmark's JSON files.

usage: table.py FILE.json...

It computes only medians per element and their ratios: the table shows nothing that is not in the files. Exit status 2,
with one line, for files that cannot be read.
"""
import json
import signal
import sys

COLUMNS = ("", "set", "ours", "G/s", "limit", "x limit", "peer", "x peer", "best peer", "scalar")
NOISY = 0.1  # coefficient of variation


class Time:
    """A median, in ns per element."""

    def __init__(self, entry):
        scale = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[entry["time_unit"]]
        self.ns = entry["real_time"] * scale / entry["elements"]
        self.bytes = int(entry.get("bytes", 0))
        self.differ = int(entry.get("differ", 0))
        self.noisy = False

    def text(self):
        return f"{self.ns:.3g}" + ("~" if self.noisy else "")


def read(paths):
    """(context, {(row, who): Time or "skipped: reason"}) from all files, in their order."""
    context, entries = {}, {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        context |= document["context"]
        for entry in document["benchmarks"]:
            name = entry["run_name"].removesuffix("/real_time")
            key = tuple(name.rsplit("/", 1))
            if entry.get("error_occurred"):
                entries[key] = "skipped: " + entry["error_message"]
            elif entry.get("aggregate_name") == "median":
                entries[key] = Time(entry)
            elif entry.get("aggregate_name") == "cv" and isinstance(entries.get(key), Time):
                entries[key].noisy = entry["real_time"] > NOISY
    return context, entries


def fastest(times):
    """(who, Time) of a dictionary; None if nobody was measured."""
    measured = [(who, time) for who, time in times.items() if isinstance(time, Time)]
    return min(measured, key=lambda pair: pair[1].ns, default=None)


def ratio(ours, other):
    return f"{ours.ns / other.ns:.2f}" if other else "-"


def row_text(row):
    work, number, mode, size, data, threads = row.split("/")
    words = [number] + ([mode] if mode != "exact" else []) + [size]
    if data != "normal":
        words.append("random bits")
    if threads != "1":
        words.append(f"{threads} threads")
    return work, " ".join(words)


def lines_of(row, whos, limits):
    """The table's lines for one row, one per instruction set."""
    label = row_text(row)[1]
    size, threads = row.split("/")[3], row.split("/")[5]
    peers = {who: time for who, time in whos.items() if who != "scalar" and not who.startswith("ours ")}
    best = fastest(peers)
    scalar = whos.get("scalar")
    for who, ours in whos.items():
        if not who.startswith("ours "):
            continue
        instruction_set = who.removeprefix("ours ")
        if not isinstance(ours, Time):
            yield [label, instruction_set, ours]
            continue
        limit = fastest(limits.get(f"limit/{ours.bytes}/{size}/{threads}", {}))
        limit = limit and limit[1]
        peer = best and best[1]
        named = best[0] + (f" *{peer.differ}" if peer.differ else "") if best else "-"
        yield [label, instruction_set, ours.text(), f"{1 / ours.ns:.2f}", limit.text() if limit else "-", ratio(ours, limit),
               peer.text() if peer else "-", ratio(ours, peer), named, scalar.text() if isinstance(scalar, Time) else "-"]


def table(entries):
    """{work: lines}"""
    rows, limits, works = {}, {}, {}
    for (row, who), time in entries.items():
        (limits if row.startswith("limit/") else rows).setdefault(row, {})[who] = time
    for row, whos in rows.items():
        works.setdefault(row_text(row)[0], []).extend(lines_of(row, whos, limits))
    return works


def print_table(works):
    widths = [max([len(c)] + [len(line[i]) for lines in works.values() for line in lines if len(line) == len(COLUMNS)])
              for i, c in enumerate(COLUMNS)]
    widths[0] = max([widths[0]] + [len(line[0]) for lines in works.values() for line in lines])

    def text(cells):
        left = (0, 1, 8)  # words; the rest are numbers
        return "  ".join(c.ljust(w) if i in left or len(cells) < len(COLUMNS) else c.rjust(w)
                         for i, (c, w) in enumerate(zip(cells, widths))).rstrip()

    for work, lines in works.items():
        header = text((work,) + COLUMNS[1:])
        print(header, "-" * len(header), *map(text, lines), "", sep="\n")


def print_context(context, entries):
    dirty = ", modified" if context.get("dirty") == "true" else ""
    print(f"{context.get('cpu', 'unknown CPU')}, {context.get('instruction_set', 'unknown instruction set')}; "
          f"{context.get('compiler', 'unknown compiler')} {context.get('flags', '')}; peers and copies {context.get('peer_flags', '')}")
    print(f"halfulp {context.get('version', 'unknown')} (git {context.get('revision', 'unknown')}{dirty}), {context.get('date', 'no date')}"
          + (", a quick run: short, without the arrays of 64 M" if context.get("quick") == "true" else ""))
    print()
    print("ns an element, medians. L1: arrays of 4096 elements. limit: the faster of two copies of as many bytes, read and")
    print("written: memcpy and a plain loop. x: ours divided by it; below 1 ours is the faster. scalar: convert() or evaluate()")
    print("in a loop. mma, product: ns a multiply-add of square matrices; their limit is a plain FP32 product by Eigen, their scalar")
    print(f"the interpreter, or the scalar definition. -: not measured. ~: varied by more than {NOISY:.0%} between repetitions. *N: N of the peer's results differ")
    print("from ours on these operands (those of Python packages were not compared).")
    print()


def print_peers(context, entries):
    print("peers")
    for key, version in context.items():
        if not key.startswith("peer "):
            continue
        name = key.removeprefix("peer ")
        rows = sum(who == name and isinstance(time, Time) for (_, who), time in entries.items())
        print(f"  {name:<13} {version if version.startswith('skipped') else f'{version}, rows measured: {rows}'}")


def main(paths):
    if not paths or any(p.startswith("-") for p in paths):
        print("usage: table.py FILE.json...", file=sys.stderr)
        return 2
    try:
        context, entries = read(paths)
        works = table(entries)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as why:
        print(f"table.py: {' '.join(paths)}: not Google Benchmark's JSON, as bench writes it: {type(why).__name__} {why}", file=sys.stderr)
        return 2
    print_context(context, entries)
    print_table(works)
    print_peers(context, entries)
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # into head
    sys.exit(main(sys.argv[1:]))
