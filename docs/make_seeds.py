#!/usr/bin/env python3
"""Makes docs/seeds.md from the report of a campaign of `training`, docs/seeds.json.

  halfulp campaign docs/seeds.json --store trials --out new.json    # a campaign's report is its specification too
  docs/make_seeds.py            # writes the page
  docs/make_seeds.py --check    # exit status 1 where the page is not what it would be
"""
import json
import statistics

from make_training import HERE, description, main, percent, rows

INTRODUCTION = """# {seeds} seeds and three learning rates

This page shows what a campaign of `training` reported in revision {revision}: {points} points, {trainings:,} trainings;
halfulp {version}, {cpu}, {date}. `docs/make_seeds.py` makes the page from [seeds.json](seeds.json).
[Three networks under twenty policies](training.md) has more policies, with three seeds. The specification:

<!-- not run: takes long -->
```json
{specification}
```

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
    specification = json.loads(report["config"]["specification"])
    shown = {"experiment": "training", **specification}
    members = [f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in shown.items()]
    runs = rows(report, "runs")
    networks = list(dict.fromkeys(run["network"] for run in runs))
    sizes = []
    for network in networks:
        first = next(run for run in runs if run["network"] == network)
        sizes.append(f"`{network}`: {first['parameters']:,} parameters, {first['steps']:,} steps of {first['batch']}.")
    points = rows(report, "points")
    text = INTRODUCTION.format(
        seeds=specification["settings"]["seeds"],
        specification="{\n" + ",\n".join(members) + "\n}",
        points=len(points),
        trainings=len(runs),
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


if __name__ == "__main__":
    main(__doc__, HERE / "seeds.json", HERE / "seeds.md", page)
