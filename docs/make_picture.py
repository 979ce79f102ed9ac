#!/usr/bin/env python3
"""Makes docs/pictures/gradients.svg: where four formats have numbers, and what they leave of the same gradients.

  docs/make_picture.py --halfulp build/release/bin/halfulp           # writes the picture
  docs/make_picture.py --halfulp ... --check                         # exit status 1 where it is not what it would be

All numbers are those of `halfulp run underflow --set distributions=log-normal --set roundings=nearest-even`: its tables limits,
histogram and fates.
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys

PICTURE = pathlib.Path(__file__).resolve().parent / "pictures" / "gradients.svg"
COMMAND = ["run", "underflow", "--set", "distributions=log-normal", "--set", "roundings=nearest-even", "--set", "scale_to=0",
           "--backend", "emulated", "--quiet", "--out", "-"]
LOW, HIGH = -42, 18  # binades shown
LEFT, RIGHT, WIDTH = 72, 560, 760
BARS, BASE, ROW = 36, 150, 40  # top and foot of the histogram, height of a format's row

STYLE = """text { font: 13px sans-serif; fill: #222 } .small { font-size: 11px; fill: #555 } .head { font-size: 15px; font-weight: bold }
.bar { fill: #888 } .normal { fill: #0072b2 } .subnormal { fill: #e69f00 } .axis { stroke: #888 } .grid { stroke: #8884 } .paper { fill: #fff }
@media (prefers-color-scheme: dark) { text { fill: #eee } .small { fill: #bbb } .normal { fill: #56b4e9 } .bar { fill: #aaa } .paper { fill: #111 } }"""


def rows(report, name):
    table = report["results"][name]
    return [dict(zip([column["name"] for column in table["columns"]], row)) for row in table["rows"]]


def number(cell):
    return cell["value"] if isinstance(cell, dict) else cell


def x(binade):
    return LEFT + (min(max(binade, LOW), HIGH) - LOW) / (HIGH - LOW) * (RIGHT - LEFT)


def percent(share):
    return f"{100 * share:.3g} %" if share else "none"


def picture(report):
    fates = {row["format"]: row for row in rows(report, "fates") if row["quantity"] == "gradient"}
    limits, bins, inputs = rows(report, "limits"), rows(report, "histogram"), rows(report, "inputs")[0]
    height = BASE + 52 + ROW * len(limits) + 44
    highest = max(row["values"] for row in bins)
    told = "; ".join(f"{row['format']}: {percent(fates[row['format']]['zero'])} become zero" for row in limits)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" aria-labelledby="title told">',
             '<title id="title">What four formats leave of the same gradients</title>',
             f'<desc id="told">{told}</desc>', f"<style>{STYLE}</style>",
             f'<rect class="paper" width="{WIDTH}" height="{height}"/>',  # so that letters show on a dark page too
             f'<text x="12" y="22" class="head">{inputs["elements"]:,} gradients, {inputs["description"]}, and what four formats keep of them</text>']
    for row in bins:
        top = BASE - (BASE - BARS) * row["values"] / highest
        parts.append(f'<rect class="bar" x="{x(row["binade"]):.1f}" y="{top:.1f}" width="{x(1) - x(0) - 1:.1f}" height="{BASE - top:.1f}"/>')
    parts.append(f'<line class="axis" x1="{LEFT}" y1="{BASE}" x2="{RIGHT}" y2="{BASE}"/>')
    for binade in range(-40, HIGH + 1, 8):
        parts.append(f'<line class="grid" x1="{x(binade):.1f}" y1="{BASE}" x2="{x(binade):.1f}" y2="{height - 40}"/>')
        parts.append(f'<text class="small" x="{x(binade):.1f}" y="{BASE + 15}" text-anchor="middle">2^{binade}</text>')
    parts.append(f'<text class="small" x="{RIGHT + 12}" y="{BASE + 15}">magnitude</text>')
    parts.append(f'<text x="{RIGHT + 12}" y="{BASE + 38}">become zero</text><text x="{RIGHT + 104}" y="{BASE + 38}">subnormal</text>')
    for i, row in enumerate(limits):
        y, fate = BASE + 46 + ROW * i, fates[row["format"]]
        lowest, normal, largest = (math.log2(number(row[name])) for name in ("min_subnormal", "min_normal", "max_finite"))
        parts.append(f'<text x="12" y="{y + 18}">{row["format"]}</text>')
        parts.append(f'<rect class="subnormal" x="{x(lowest):.1f}" y="{y}" width="{x(normal) - x(lowest):.1f}" height="26"/>')
        parts.append(f'<rect class="normal" x="{x(normal):.1f}" y="{y}" width="{x(largest) - x(normal):.1f}" height="26"/>')
        parts.append(f'<text x="{RIGHT + 12}" y="{y + 18}">{percent(fate["zero"])}</text><text x="{RIGHT + 104}" y="{y + 18}">{percent(fate["subnormal"])}</text>')
    y = height - 18
    parts.append(f'<rect class="subnormal" x="{LEFT}" y="{y - 11}" width="14" height="12"/><text class="small" x="{LEFT + 20}" y="{y}">subnormal numbers: fewer digits the smaller</text>')
    parts.append(f'<rect class="normal" x="{LEFT + 262}" y="{y - 11}" width="14" height="12"/><text class="small" x="{LEFT + 282}" y="{y}">normal numbers (bf16 goes on at both ends)</text>')
    return "\n".join(parts) + "\n</svg>\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--halfulp", required=True)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    text = picture(json.loads(subprocess.run([options.halfulp, *COMMAND], check=True, capture_output=True, text=True).stdout))
    if not options.check:
        PICTURE.write_text(text, encoding="utf-8")
    elif PICTURE.read_text(encoding="utf-8") != text:
        sys.exit("docs/pictures/gradients.svg is not what it would be now: docs/make_picture.py draws it")


if __name__ == "__main__":
    main()
