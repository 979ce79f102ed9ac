#!/usr/bin/env python3
"""Makes docs/training.md from a report of the experiment `training`.

  halfulp run training --set preset=medium --set networks=mlp,cnn,transformer --set weight_formats= --backend emulated --out docs/training.json
  docs/make_training.py            # writes the page
  docs/make_training.py --check    # exit status 1 where the page is not what it would be
"""
import argparse
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
REPORT, PAGE = HERE / "training.json", HERE / "training.md"

INTRODUCTION = """# Three networks under precision policies

This page shows what `halfulp run training --set preset={preset} --set networks={networks} --set weight_formats=`
reported in revision {revision}; verdicts [go by seeds and test examples](decisions/seeds-and-examples-are-samples.md).
`docs/make_training.py` makes it from [training.json](training.json), which has everything else: curves, tensors, updates,
scaler events. {seeds} seeds per policy, {optimizer} with learning rate {lr}; halfulp {version}, {cpu}, {date}. *to fp32*: the mean difference, seed by seed, and its doubt: {doubt}
*verdict*: {verdict} *underflowed operands*: {operands}

{sizes}
"""


def rows(report, name):
    table = report["results"][name]
    names = [column["name"] for column in table["columns"]]
    return [dict(zip(names, row)) for row in table["rows"]]


def description(report, column):
    return next(c["description"] for c in report["results"]["summary"]["columns"] if c["name"] == column)


def percent(x, sign=False):
    return "" if x is None else f"{100 * x:{'+' if sign else ''}.2f} %"


def share(x):
    return "" if not x else f"{100 * x:.2g} %"


def page(report):
    config, environment = report["config"], report["environment"]
    runs = rows(report, "runs")
    sizes = []
    for network in config["networks"]:
        first = next(run for run in runs if run["network"] == network)
        sizes.append(f"`{network}`: {first['parameters']:,} parameters, {first['steps']:,} steps of {first['batch']}.")
    text = INTRODUCTION.format(
        preset=config["preset"],
        networks=",".join(config["networks"]),
        seeds=config["seeds"],
        optimizer=config["optimizer"],
        lr=runs[0]["learning_rate"],
        version=environment["version"],
        cpu=environment["cpu"]["model"] if isinstance(environment["cpu"], dict) else environment["cpu"],
        revision=environment["revision"],
        **{name: description(report, column) for name, column in [("verdict", "verdict"), ("doubt", "doubt"), ("operands", "operands_lost")]},
        date=str(environment["date"])[:10],
        sizes=" ".join(sizes),
    )
    for network in config["networks"]:
        text += f"\n## {network}\n\n| policy | accuracy | lowest | highest | to fp32 | verdict | swamped updates | underflowed gradients | underflowed operands | skipped steps |\n"
        text += "|---|---|---|---|---|---|---|---|---|---|\n"
        of_network = [row for row in rows(report, "summary") if row["network"] == network]
        for row in of_network:
            if row["verdict"] == "failed":
                steps = sorted({run["failed_at"] for run in runs if run["network"] == network and run["policy"] == row["policy"] and run["failed_at"] is not None})
                text += f"| `{row['policy']}` | failed in step {', '.join(map(str, steps))} | | | | failed | | | | |\n"
                continue
            text += (
                f"| `{row['policy']}` | {percent(row['accuracy'])} | {percent(row['lowest'])} | {percent(row['highest'])} | {percent(row['to_fp32'], True)} ± {percent(row['doubt'])}"
                f" | {row['verdict']} | {share(row['swamped'])} | {share(row['underflowed'])} | {share(row['operands_lost'])} | {row['skipped'] or ''} |\n"
            )
        told = [row for row in of_network if row["why"] and row["verdict"] in ("failed", "below")]
        if told:
            text += "\nWhat the microscope saw in those that failed or fell behind, and what is known to help:\n\n"
            for row in told:
                text += f"- `{row['policy']}`: {row['why']}. Repair: {row['repair']}.\n"
    text += "\n## What is published, and what came out\n\nExpected and measured are differences of test accuracies. Measured is the less favourable end of the 95 % confidence interval: the claim must hold even there.\n\n| claim | source | expected | measured | verdict |\n|---|---|---|---|---|\n"
    for claim in report["claims"]:
        if claim["verdict"] != "skipped":
            bound = {"at least": "≥ ", "at most": "≤ "}.get(claim["tolerance"], "")
            shown = percent if abs(claim["expected"]) <= 1 else lambda loss: f"{loss:.2f} nat"
            text += f"| {claim['statement'].split(' (Test accuracies')[0]} | {claim['source']} | {bound}{shown(claim['expected'])} | {shown(claim['measured'])} | {claim['verdict']} |\n"
    return text


def main(about, report, target, make):
    """Writes the page that `make` makes of a report; with --check it only compares."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    text = make(json.loads(report.read_text()))
    if not check:
        target.write_text(text)
    elif target.read_text() != text:
        sys.exit(f"{target} is not what {report.name} gives; run {sys.argv[0]}")


if __name__ == "__main__":
    main(__doc__, REPORT, PAGE, page)
