#!/usr/bin/env python3
"""Makes docs/seeds.md from the report of a campaign of `training`, docs/seeds.json.

  halfulp campaign docs/seeds-campaign.json --store trials --out docs/seeds.json
  docs/make_seeds.py            # writes the page
  docs/make_seeds.py --check    # exit status 1 where the page is not what it would be
"""
import argparse
import json
import pathlib
import statistics
import sys

from make_training import description, percent, rows

HERE = pathlib.Path(__file__).resolve().parent
REPORT, PAGE = HERE / "seeds.json", HERE / "seeds.md"

INTRODUCTION = """# {seeds} seeds and three learning rates

This page shows what the [campaign](seeds-campaign.json) of `training` reported in revision {revision}: preset {preset},
{optimizer}, {points} points, {trainings:,} trainings. `docs/make_seeds.py` makes it from [seeds.json](seeds.json).
halfulp {version}, {cpu}, {date}. [Three networks under twenty policies](training.md) has more policies, with three seeds.

The first line of a cell has the mean accuracy and, after ±, the standard deviation of single trainings, over {seeds}
seeds. The second line has the mean difference to FP32, seed by seed, its doubt, and the verdict, which
[goes by seeds and test examples](decisions/seeds-and-examples-are-samples.md). *doubt*: {doubt} *verdict*: {verdict}

{sizes}
"""


def cell(row, runs):
    """What one policy came to with one learning rate."""
    if row is None:
        return ""
    if row["verdict"] == "failed":
        failed = [run["failed_at"] for run in runs if run["failed_at"] is not None]
        steps = f"step {min(failed)}" if min(failed) == max(failed) else f"steps {min(failed)} to {max(failed)}"
        return f"failed, {len(failed)} of {len(runs)} seeds, {steps}"
    spread = statistics.stdev(run["test_accuracy"] for run in runs)
    text = f"{percent(row['accuracy'])} ± {percent(spread)}"
    if row["policy"] != "fp32":
        text += f"<br>{percent(row['to_fp32'], True)} ± {percent(row['doubt'])}, {row['verdict']}"
    return text


def of_network(report, network, rates):
    summary = [row for row in rows(report, "summary") if row["network"] == network]
    runs = [run for run in rows(report, "runs") if run["network"] == network]
    text = f"\n## {network}\n\n| policy | " + " | ".join(f"learning rate {rate:g}" for rate in rates) + " |\n"
    text += "|---" * (len(rates) + 1) + "|\n"
    policies = list(dict.fromkeys(row["policy"] for row in summary))
    for policy in policies:
        text += f"| `{policy}` |"
        for rate in rates:
            row = next((row for row in summary if row["policy"] == policy and row["lr"] == rate), None)
            text += f" {cell(row, [run for run in runs if run['policy'] == policy and run['lr'] == rate])} |"
        text += "\n"
    return text


def page(report):
    environment = report["environment"]
    settings = json.loads(report["config"]["specification"])["settings"]
    runs = rows(report, "runs")
    networks = list(dict.fromkeys(run["network"] for run in runs))
    sizes = []
    for network in networks:
        first = next(run for run in runs if run["network"] == network)
        sizes.append(f"`{network}`: {first['parameters']:,} parameters, {first['steps']:,} steps of {first['batch']}.")
    points = rows(report, "points")
    text = INTRODUCTION.format(
        preset=settings["preset"],
        seeds=settings["seeds"],
        points=len(points),
        trainings=len(runs),
        optimizer=settings["optimizer"],
        version=environment["version"],
        cpu=environment["cpu"],
        revision=environment["revision"],
        doubt=description(report, "doubt"),
        verdict=description(report, "verdict"),
        date=str(environment["date"])[:10],
        sizes=" ".join(sizes),
    )
    for network in networks:
        text += of_network(report, network, sorted({run["lr"] for run in runs if run["network"] == network}))
    text += "\n## What is published\n\nPublished differences of test accuracies that did not come out, at the less favourable end of the 95 % confidence interval:\n\n| learning rate | claim | expected | measured | verdict |\n|---|---|---|---|---|\n"
    for claim in rows(report, "point_claims"):
        expected, measured = percent(json.loads(claim["expected"]), True), percent(json.loads(claim["measured"]), True)
        text += f"| {claim['lr']:g} | {claim['statement'].split(' (Test accuracies')[0]} | {claim['tolerance']} {expected} | {measured} | {claim['verdict']} |\n"
    text += "\nClaims that hold: " + "; ".join(f"{point['pass']} of {point['networks']} with a learning rate of {point['lr']:g}" for point in points) + ".\n"
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    text = page(json.loads(REPORT.read_text()))
    if not check:
        PAGE.write_text(text)
    elif PAGE.read_text() != text:
        sys.exit(f"{PAGE} is not what {REPORT.name} gives; run docs/make_seeds.py")


if __name__ == "__main__":
    main()
