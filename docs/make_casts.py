#!/usr/bin/env python3
"""Makes docs/casts.md from what `halfulp profiles` and `halfulp diff-profiles` say.

  docs/make_casts.py --halfulp build/release/bin/halfulp           # writes the page: a few minutes
  docs/make_casts.py --halfulp ... --check                         # exit status 1 where the page is not what it would be
  docs/make_casts.py --halfulp ... --check --some                  # the same for the tables of values and two comparisons
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parent / "casts.md"
PAIRS = [("ml_dtypes", "pytorch"), ("ml_dtypes", "pytorch-legacy"), ("ml_dtypes", "onnx"), ("ml_dtypes", "onnx-nosaturate"), ("ml_dtypes", "cuda-satfinite"),
         ("ml_dtypes", "cuda-nosat"), ("pytorch", "pytorch-legacy"), ("pytorch", "onnx"), ("pytorch", "cuda-satfinite"), ("onnx", "cuda-satfinite")]
SHOWN = ["ml_dtypes", "pytorch", "pytorch-legacy", "onnx", "onnx-nosaturate", "cuda-satfinite", "cuda-nosat"]

INTRODUCTION = """# float32 to FP8, library by library

PyTorch, ml_dtypes (numpy, JAX), ONNX and the CUDA headers round float32 to FP8 in the same way: to nearest, ties to even, and they keep subnormals.
They differ at the edges: in what they do with numbers beyond the range, infinities and NaN. For each pair below, this page
has every input on which the two differ, out of all 2^32. `docs/make_casts.py` writes it from the program's output.
`tests/peers/profiles.py` checks the rules behind it against the libraries; their answers are committed in
`tests/peers/casts`.

Versions: {versions}.

## The question of 449

"449 is larger than E4M3's largest number, 448, and no NaN comes out. Does the library saturate?" (ml_dtypes issue 147. Issues
260 and 400 of ml_dtypes, pytorch/ao issue 1912, onnx issue 6220 and universal issue 1302 ask related questions.)
449 cannot answer that. Overflow begins where the *rounded* number is beyond the range. The next number after 448 would be 480, if
its code 0x7f were not NaN, so everything up to the middle, 464, rounds to 448 (464 itself is a tie, and 0x7e is even). Ask
with 465:

{table_e4m3}

So there are two camps: NaN (ml_dtypes, ONNX with `saturate=0`, CUDA with `__NV_NOSAT`, PyTorch up to 2.11) and 448 (ONNX's default,
CUDA's types, PyTorch since pull request 178817 of April 2026). The same line of PyTorch code changed camps between releases.

In E5M2 the largest number is 57344, and the next would be 65536. 61440 between them is a tie, which goes to the even code.
That is the code of infinity, so in E5M2 overflow begins *at* the middle. PyTorch saturates E4M3, but not E5M2:

{table_e5m2}

NaN differs too. E4M3 has one of each sign, and CUDA's host code always gives the positive one. E5M2 has three of each sign:
ml_dtypes gives 0x7e, and PyTorch and CUDA give 0x7f. `--any-nan` ignores that.

The casts from float64 differ more: PyTorch, ml_dtypes and ONNX go through float32 and round twice; CUDA and TensorFlow do not
(`halfulp diff-profiles ml_dtypes cuda-nosat --from fp64 --to e4m3`). The casts to E8M0 have hardly anything in common: PyTorch, ONNX and
CUDA ignore the sign, and ml_dtypes makes zero and negative numbers NaN; ONNX and CUDA round up, and PyTorch and ml_dtypes round to
nearest, with ties up.
"""


def run(program, *arguments):
    return json.loads(subprocess.run([program, *arguments, "--json"], check=True, capture_output=True, text=True).stdout)


def value(x):
    number = x["value"]
    text = {"NaN": "NaN", "Infinity": "Inf", "-Infinity": "-Inf"}.get(number) or f"{number:.9g}"
    return text


def result(x):
    return f"{x['code']} {value(x)}"


def span(first, last, text):
    return text(first) if text(first) == text(last) else f"{text(first)} to {text(last)}"


def table(rows):
    lines = ["| " + " | ".join(rows[0]) + " |", "|" + "---|" * len(rows[0])]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows[1:]])


def values_table(program, to, numbers):
    answer = run(program, "profiles", "--of", numbers, "--from", "fp32", "--to", to)
    rows = [[f"float32 to {to.upper()}"] + [value(x) for x in answer["operands"]]]
    rows += [[row["profile"]] + [result(x) for x in row["results"]] for row in answer["profiles"] if row["profile"] in SHOWN]
    return table(rows)


def comparison(program, to, a, b):
    answer = run(program, "diff-profiles", a, b, "--from", "fp32", "--to", to, "--all", "--quiet")
    assert answer["exhaustive"] and answer["compared"] == 2 ** 32
    text = f"### {a} and {b}, {to.upper()}\n\n"
    if answer["differing"] == 0:
        return text + "No difference on any of the 2^32 inputs.\n"
    witness = answer["witness"]
    text += (f"They differ on {answer['differing']:,} of 2^32 inputs. The smallest is {witness['code']} = {value(witness)}: {a} makes {result(witness['a'])} of it, "
             f"and {b} makes {result(witness['b'])}.\n\n")
    rows = [["inputs", "values", "count", a, b]]
    for r in answer["ranges"]:
        sides = [span(r[f"{s}_first"], r[f"{s}_last"], result) for s in "ab"]
        rows.append([span(r["first"], r["last"], lambda x: x["code"]), span(r["first"], r["last"], value), f"{r['count']:,}"] + sides)
    return text + table(rows) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--halfulp", required=True)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--some", action="store_true")
    options = parser.parse_args()
    program = options.halfulp
    profiles = {p["name"]: p for p in run(program, "profiles")}
    versions = []
    for name in SHOWN:
        if profiles[name]["version"] not in versions:
            versions.append(profiles[name]["version"])
    head = INTRODUCTION.format(versions="; ".join(versions), table_e4m3=values_table(program, "e4m3", "448,449,464,465,1000,inf,nan,0xffc00000"),
                               table_e5m2=values_table(program, "e5m2", "57344,61439,61440,65536,inf,nan,0xffc00000"))
    old = PAGE.read_text() if options.check else ""
    if options.check and not old.startswith(head):
        print("docs/casts.md does not begin as it would be made now: docs/make_casts.py writes it")
        return 1
    some = options.some and "HALFULP_EXHAUSTIVE" not in os.environ
    text, failed = head, False
    for to in ("e4m3", "e5m2"):
        text += f"\n## {to.upper()}\n"
        for i, (a, b) in enumerate(PAIRS):
            if some and (to, i) not in (("e4m3", 0), ("e5m2", 7)):
                continue
            section = comparison(program, to, a, b)
            text += "\n" + section
            if options.check and "\n" + section not in old:
                print(f"docs/casts.md: the comparison of {a} and {b} is another now: docs/make_casts.py writes it")
                failed = True
    if options.check:
        if not some and text != old:
            print("docs/casts.md is not what it would be made now: docs/make_casts.py writes it")
            failed = True
        return 1 if failed else 0
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
