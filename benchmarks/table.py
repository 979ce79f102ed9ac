#!/usr/bin/env python3
"""Prints the table of `./run bench` from Google Benchmark's JSON files.

usage: table.py FILE.json...

It computes only medians per element, their ratios, and which of these are within their goals: the table shows nothing
that is not in the files. Exit status 2, with one line, for files that cannot be read.
"""
import json
import signal
import sys

COLUMNS = ("", "set", "ours", "G/s", "least", "x least", "limit", "x limit", "peer", "x peer", "best peer", "scalar")
NOISY = 0.1  # coefficient of variation
ALIKE = 0.03  # medians of two runs differ by as much
YARDSTICK = "yardstick"


def goal(work, number, mode, size):
    """(what a row is held to, the ratio that it may have at most), or None."""
    if work == "mma":
        return "limit", 5
    if work == "product":
        return "limit", 4
    if work.startswith("block-"):
        return None
    if size != "L1":
        if work in ("quantize", "encode", "decode"):
            return ("bound", 1.05) if mode != "stochastic" else None
        return ("bound", 1.1) if number in ("fp16", "bf16") and mode != "stochastic" and work != "sqrt" else None
    if work == "decode":
        return "least", 1.3
    if mode.startswith("stochastic"):
        return ("least", 1.15) if work == "quantize" and mode == "stochastic" else None
    if work != "quantize":
        return None  # goals_missed() compares encoding with quantizing
    if number == "bf16":
        return "least", 1.2
    return "least", 1.6 if mode in ("nearest-away", "nearest-to-zero", "to-odd") else 1.15


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


def row_text(row):
    work, number, mode, size, data, threads = row.split("/")
    words = [number] + ([mode] if mode != "exact" else []) + [size]
    if data != "normal":
        words.append("random bits")
    if threads != "1":
        words.append(f"{threads} threads")
    return work, " ".join(words)


class Line:
    """One row of the table with one instruction set."""

    def __init__(self, row, who, whos, limits):
        self.work, self.label = row_text(row)
        self.parts = row.split("/")
        size, threads = self.parts[3], self.parts[5]
        self.set, self.ours, self.scalar = who.removeprefix("ours "), whos[who], whos.get("scalar")
        self.others = {w: t for w, t in whos.items() if w not in ("scalar", YARDSTICK) and not w.startswith("ours ")}
        self.peer = fastest(self.others)
        if not isinstance(self.ours, Time):
            return
        limit = fastest(limits.get(f"limit/{self.ours.bytes}/{size}/{threads}", {}))
        least = whos.get(YARDSTICK)
        self.against = {"limit": limit and limit[1], "least": least if isinstance(least, Time) else None,
                        "peer": self.peer and self.peer[1]}
        bounds = [b for b in (self.against["limit"], self.against["least"]) if b]
        self.against["bound"] = max(bounds, key=lambda time: time.ns) if bounds else None

    def ratio(self, what):
        other = self.against[what]
        return self.ours.ns / other.ns if other else None

    def peer_name(self):
        return self.peer[0] + (f" *{self.peer[1].differ}" if self.peer[1].differ else "") if self.peer else "-"

    def cells(self):
        if not isinstance(self.ours, Time):
            return [self.label, self.set, self.ours]
        both = []
        for what in ("least", "limit", "peer"):
            other, ratio = self.against[what], self.ratio(what)
            both += [other.text(), f"{ratio:.2f}"] if other else ["-", "-"]
        return [self.label, self.set, self.ours.text(), f"{1 / self.ours.ns:.2f}", *both, self.peer_name(),
                self.scalar.text() if isinstance(self.scalar, Time) else "-"]


def table(entries):
    """{work: [Line]}, the best instruction set of a row first"""
    rows, limits, works = {}, {}, {}
    for (row, who), time in entries.items():
        (limits if row.startswith("limit/") else rows).setdefault(row, {})[who] = time
    for row, whos in rows.items():
        works.setdefault(row_text(row)[0], []).extend(
            Line(row, who, whos, limits) for who in whos if who.startswith("ours "))
    return works


def best_lines(works):
    """Measured rows with the CPU's best instruction set, on one thread."""
    seen = set()
    for line in (line for lines in works.values() for line in lines):
        row = "/".join(line.parts)
        if row not in seen and isinstance(line.ours, Time) and line.set != "Python" and line.parts[5] == "1":
            yield line
        seen.add(row)


def listed(names, most=12):
    return "; ".join(names[:most]) + (f"; and {len(names) - most} more" if len(names) > most else "")


def print_verdict(subject, ratios):
    """One line for {row: (peer, ours divided by it)}."""
    faster = [f"{row}: {peer}, {ratio:.2f}" for row, (peer, ratio) in ratios.items() if ratio > 1 + ALIKE]
    if faster:
        print(f"{subject}a peer is faster on {len(faster)} of {len(ratios)} rows: {listed(faster)}")
    else:
        print(f"{subject}no peer is faster on any of the {len(ratios)} rows that one was measured on "
              f"(ratios up to {1 + ALIKE} count as alike)")


def print_peers_verdict(works, packages):
    ratios = {f"{line.work} {line.label}": (line.peer_name(), line.ratio("peer"))
              for line in best_lines(works) if line.peer}
    if not ratios:
        return print("no row has a peer that was measured")
    print_verdict("", ratios)
    called = {}  # what Python's users compare: packages, each called from Python
    for line in (line for lines in works.values() for line in lines if line.set == "Python"):
        peer = fastest({who: line.others[who] for who in packages if who in line.others})
        if peer and isinstance(line.ours, Time):
            called[f"{line.work} {line.label}"] = peer[0], line.ours.ns / peer[1].ns
    if called:
        print_verdict("called from Python, ", called)


def print_goals_verdict(works):
    quantized = {tuple(line.parts[1:]): line.ours.ns for line in best_lines(works) if line.work == "quantize"}
    within, beyond = 0, []
    for line in best_lines(works):
        work, number, mode, size, data = line.parts[:5]
        wanted = goal(work, number, mode, size)
        if work == "encode" and size == "L1" and tuple(line.parts[1:]) in quantized:
            ratio, most, what = line.ours.ns / quantized[tuple(line.parts[1:])], 1.5, "quantize"
        elif wanted and data == "normal" and line.against[wanted[0]]:
            ratio, most, what = line.ratio(wanted[0]), wanted[1], wanted[0]
        else:
            continue
        if ratio <= most * (1 + ALIKE):
            within += 1
        else:
            beyond.append(f"{line.work} {line.label}: {ratio:.2f} x {what}, not {most}")
    if within or beyond:
        print(f"goals: {within} of {within + len(beyond)} rows are within theirs"
              + (f"; beyond: {listed(beyond, 60)}" if beyond else ""))


def print_table(works):
    cells = {work: [line.cells() for line in lines] for work, lines in works.items()}
    widths = [max([len(c)] + [len(line[i]) for lines in cells.values() for line in lines if len(line) == len(COLUMNS)])
              for i, c in enumerate(COLUMNS)]
    widths[0] = max([widths[0]] + [len(line[0]) for lines in cells.values() for line in lines])

    def text(cells):
        left = (0, 1, 10)  # words; the rest are numbers
        return "  ".join(c.ljust(w) if i in left or len(cells) < len(COLUMNS) else c.rjust(w)
                         for i, (c, w) in enumerate(zip(cells, widths))).rstrip()

    for work, lines in cells.items():
        header = text((work,) + COLUMNS[1:])
        print(header, "-" * len(header), *map(text, lines), "", sep="\n")


def print_context(context, entries):
    dirty = ", modified" if context.get("dirty") == "true" else ""
    print(f"{context.get('cpu', 'unknown CPU')}, {context.get('instruction_set', 'unknown instruction set')}; "
          f"{context.get('compiler', 'unknown compiler')} {context.get('flags', '')}; peers and copies {context.get('peer_flags', '')}")
    print(f"halfulp {context.get('version', 'unknown')} (git {context.get('revision', 'unknown')}{dirty}), {context.get('date', 'no date')}"
          + (", a quick run: short, without the arrays of 64 M" if context.get("quick") == "true" else ""))
    print()
    print("ns an element, medians. L1: arrays of 4096 elements. least: a loop by hand that is right only for ordinary")
    print("operands (benchmarks/yardsticks.cpp). limit: the faster of two copies of as many bytes, read and written:")
    print("memcpy and a plain loop. bound, of longer arrays: the slower of least and limit. x: ours divided by it;")
    print("below 1 ours is the faster. scalar: convert() or evaluate() in a loop. mma, product: ns a multiply-add of")
    print("square matrices; their limit is a plain FP32 product by Eigen, their scalar the interpreter, or the scalar")
    print(f"definition. -: not measured. ~: varied by more than {NOISY:.0%} between repetitions. *N: N of the peer's")
    print("results differ from ours on these operands (those of Python packages were not compared).")
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
    print()
    print_peers_verdict(works, context.get("packages", "").split())
    print_goals_verdict(works)
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # into head
    sys.exit(main(sys.argv[1:]))
