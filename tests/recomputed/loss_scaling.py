"""loss_scaling: gradients of NumPy's perceptron, ranges from the formats' limits, scales by GradScaler's rule."""
from __future__ import annotations

import functools
import math
import re
from collections import Counter
from dataclasses import dataclass, replace

import naive
import numpy as np
import perceptron
import plans
import trainings
from checks import Columns, Near, Report, Row, real
from naive import Doubles
from plans import Plan, runs_of, tables_of, weighted
from precision import Precision

columns = Columns()
VARIANT = "variant"
NARROW = Precision(operands="fp16", activation="fp16", gradient="fp16", weight_gradient="fp16",
                              loss_gradient="fp16")  # of amp-fp16
POISONED = 176  # steps of the training with a NaN in a gradient
DEFAULTS = {"scale": 65536.0, "growth": 2000}  # GradScaler's


@dataclass(frozen=True)
class Scaling:
    scale: float
    growth: int = 0
    skip: bool = True


def scaling_of(report: Report, variant: str) -> Scaling:
    """What a variant's name says: fp32, POLICY-static-K[-noskip], -end-K, -dynamic[-K-every-N], -collapse-..."""
    if match := re.search(r"-(?:static|end)-(-?\d+)(-noskip)?$", variant):
        return Scaling(2.0 ** int(match[1]), skip=not match[2])
    if match := re.search(r"-dynamic-(-?\d+)-every-(\d+)$", variant):
        return Scaling(2.0 ** int(match[1]), int(match[2]))
    return Scaling(1.0) if variant == "fp32" else Scaling(65536.0, 2000)


def plan(report: Report, row: Row) -> Plan:
    """Ends have the steps that gradients were collected from; collapses those until the scale is 0, and thirty more."""
    variant, config, scaling = row["variant"], report.config, scaling_of(report, row["variant"])
    changes = {"scale": scaling.scale, "growth": scaling.growth, "skip": scaling.skip}
    if "-end-" in variant:
        steps = config["gradient_steps"]
        changes |= {"steps": steps, "interval": math.ceil(steps / 4), "test_every": 10**9}
    elif "-collapse-" in variant:
        changes |= {"steps": POISONED + 20, "interval": (POISONED + 20) // 4}
    if variant.endswith("collapse-lr"):
        changes["learning_rate"] = config["collapse_lr"]
    return plans.usual_plan(report, row["network"], **changes)


def training(report: Report, row: Row) -> perceptron.Training | None:
    variant = row["variant"]
    if row["network"] != "mlp" or not (variant == "fp32" or variant.startswith("amp-fp16")) or "-collapse-" in variant:
        return None
    asked = plan(report, row)
    precision = Precision() if variant == "fp32" else replace(
        NARROW, scale=asked.scale, interval=asked.growth, skip=asked.skip)
    return perceptron.Training(row["seed"], steps=asked.steps, interval=asked.interval, test_every=asked.test_every,
                               precision=precision,
                               until=10**9 if variant == "fp32" else perceptron.EARLY // 2)


trainings.add(columns, VARIANT, plan, training)


@functools.cache
def gradients(seed: int, steps: int) -> dict[tuple[str, str], Doubles]:
    """By tensor and kind: what the first step, and the last one of each quarter, gave in FP32."""
    course = perceptron.course(perceptron.Training(seed, steps=steps, interval=math.ceil(steps / 4)))
    parts: dict[tuple[str, str], list[Doubles]] = {}
    for step in course.counted.values():
        for (tensor, role), values in step.gradients.items():
            kind = "weight" if role == "communication" else "activation"
            sizes = np.abs(values.ravel().astype(np.float64))
            for key in ((tensor, kind), ("all", kind), ("all", "both")):
                parts.setdefault(key, []).append(sizes)
    return {key: np.sort(np.concatenate(part)) for key, part in parts.items()}


def sample(report: Report, row: Row) -> Doubles:
    found = gradients(report.config["seed"], report.config["gradient_steps"])
    return found[row.get("tensor", "all"), row["kind"]]


def near(count: int, whole: int) -> Near | None:
    """A share: NumPy's gradients differ in their last digits, and a few cross any bound. None for few, but not none."""
    if 0 < count <= 200:
        return None
    return Near(count / whole, 1e-12, max(2, count / 2000) / whole if count else 0.0)


def told(expected: Row) -> Row:
    """Without those of which nothing is said."""
    return {name: value for name, value in expected.items() if value is not None}


def between(sizes: Doubles, low: float, high: float) -> int:
    return int(np.searchsorted(sizes, high) - np.searchsorted(sizes, low))


@columns.recompute("gradients", "values zero below_2_24 from_2_24 from_2_14 smallest_exponent largest_exponent",
                   "the gradients of NumPy's perceptron")
def classes(report: Report, row: Row) -> Row:
    sizes = sample(report, row)
    some = sizes[sizes > 0]
    return told({"below_2_24": near(between(some, 0, 2.0**-24), len(sizes)),
                 "from_2_24": near(between(some, 2.0**-24, 2.0**-14), len(sizes)),
                 "from_2_14": near(between(some, 2.0**-14, math.inf), len(sizes))}) | {
            "values": len(sizes), "zero": (len(sizes) - len(some)) / len(sizes),
            "smallest_exponent": math.frexp(some[0])[1] - 1, "largest_exponent": math.frexp(some[-1])[1] - 1}


def limits(name: str) -> tuple[float, float, float]:
    """The largest size that becomes 0, the smallest that overflows, by ties to even, and the smallest normal one."""
    steps = naive.values(name)
    tie = (steps[-1] + (2 * steps[-1] - steps[-2])) / 2
    odd = (len(steps) - 1) % 2 == 1  # the largest code: a tie above an odd one goes up
    return steps[1] / 2, tie if odd else np.nextafter(tie, math.inf), naive.smallest_normal(name)


def fates(sizes: Doubles, name: str, k: int) -> tuple[int, int, int]:
    """How many numbers become 0, are subnormal and overflow at a scale of 2^k."""
    lowest, beyond, normal = limits(name)
    scaled = np.ldexp(sizes, k)
    zero, over = int(np.searchsorted(scaled, lowest, "right")), len(scaled) - int(np.searchsorted(scaled, beyond))
    steps = naive.values(name)
    tie = (normal + steps[np.searchsorted(steps, normal) - 1]) / 2  # goes up to the normal one, whose code is even
    return zero, int(np.searchsorted(scaled, tie)) - zero, over


@columns.recompute("ranges", "smallest_exponent largest_exponent k_from k_to lost_at_k_to",
                   "the smallest and the largest gradient of NumPy's perceptron, scale after scale")
def ranges(report: Report, row: Row) -> Row:
    some = sample(report, row)
    some, name = some[some > 0], row["format"]
    ends = some[[0, -1]]
    k_from = next(k for k in range(-200, 200) if fates(ends, name, k)[0] == 0)
    k_to = next(k for k in range(200, -200, -1) if fates(ends, name, k)[2] == 0)
    return {"smallest_exponent": math.frexp(ends[0])[1] - 1, "largest_exponent": math.frexp(ends[1])[1] - 1,
            "k_from": k_from, "k_to": k_to} | told({"lost_at_k_to": near(fates(some, name, k_to)[0], len(some))})


@columns.recompute("recovery", "lost subnormal overflowed", "the same; the formats' limits")
def recovery(report: Report, row: Row) -> Row:
    some = sample(report, row)
    some = some[some > 0]
    counts = fates(some, row["format"], row["k"])
    return told({name: near(count, len(some)) for name, count in zip(("lost", "subnormal", "overflowed"), counts)})


columns.given("recovery", "k")


def gradient_share(report: Report, run: Row, column: str) -> Near:
    rows = [t for t in tables_of(report, VARIANT).of("tensors", run)
            if t["role"] in ("gradient-of-activation", "gradient-of-weight")]
    return Near(weighted([(t[column], t["elements"]) for t in rows]), 1e-12)


@columns.recompute("static", "accuracy to_fp32 test_loss lost overflowed skipped failed", "the tables runs and tensors")
def static(report: Report, row: Row) -> Row:
    skip = "" if row["skip"] == "yes" else "-noskip"
    runs = runs_of(report, row, VARIANT, f"{row['policy']}-static-{row['k']}{skip}")
    fp32 = runs_of(report, row, VARIANT, "fp32")
    mean, than = (sum(r["test_accuracy"] for r in of) / len(of) for of in (runs, fp32))
    losses = [real(r["test_loss"]) for r in runs if r["failed_at"] is None]
    return {"accuracy": Near(mean, 1e-12), "to_fp32": Near(mean - than, 1e-12, 1e-12),
            "test_loss": Near(sum(losses) / len(losses) if losses else math.nan, 1e-12),
            "lost": gradient_share(report, runs[0], "underflowed"),
            "overflowed": gradient_share(report, runs[0], "overflowed"),
            "skipped": sum(r["skipped"] for r in runs), "failed": sum(r["failed_at"] is not None for r in runs)}


columns.given("static", "k")


@columns.recompute("ends", "k steps skipped lost overflowed", "the tables ranges, runs and tensors")
def ends(report: Report, row: Row) -> Row:
    both = next(r for r in report.tables["ranges"] if (r["network"], r["tensor"], r["kind"], r["format"])
                == (row["network"], "all", "both", "fp16"))
    name = row["end"].split(", ")[0]
    k = 0 if name == "unscaled" else both[name.split(" + ")[0]] + int((name.split(" + ") + ["0"])[1])
    run = runs_of(report, row, VARIANT, f"{row['policy']}-end-{k}")[0]
    return {"k": k, "steps": run["steps"], "skipped": run["skipped"],
            "lost": gradient_share(report, run, "underflowed"), "overflowed": gradient_share(report, run, "overflowed")}


@columns.recompute("ends", "predicted_lost predicted_overflowed", "the gradients of NumPy's perceptron")
def predicted(report: Report, row: Row) -> Row:
    sizes = sample(report, {"kind": "both"})
    zero, _, over = fates(sizes[sizes > 0], "fp16", row["k"])
    return told({"predicted_lost": near(zero, len(sizes)), "predicted_overflowed": near(over, len(sizes))})


def dynamic_run(report: Report, row: Row) -> Row:
    by_name = f"{row['policy']}-dynamic-{row['k_initial']}-every-{row['interval']}"
    name = f"{row['policy']}-dynamic" if row["interval"] == DEFAULTS["growth"] else by_name
    return next(r for r in runs_of(report, row, VARIANT, name) if r["seed"] == row["seed"])


@columns.recompute("dynamic", "accuracy grew skipped first_good lowest highest settled k_settled k_to",
                   "GradScaler's rule, replayed from the skipped steps; the tables runs and ranges")
def dynamic(report: Report, row: Row) -> Row:
    run = dynamic_run(report, row)
    bad, _ = tables_of(report, VARIANT).left_out(run)
    asked = plan(report, run)
    scales, events = plans.replay(asked, bad)
    before = [asked.scale, *scales]  # the scale of each update, and what it was after the last
    half = Counter(scales[asked.steps // 2:])
    settled = min(half, key=lambda scale: (-half[scale], scale))
    k_to = next(r["k_to"] for r in report.tables["ranges"] if (r["network"], r["tensor"], r["kind"], r["format"])
                == (row["network"], "all", "both", "fp16"))
    return {"accuracy": run["test_accuracy"], "grew": sum(e[1] == "grew" for e in events), "skipped": len(bad),
            "first_good": min(set(range(1, asked.steps + 1)) - bad), "lowest": min(before), "highest": max(before),
            "settled": settled, "k_settled": math.frexp(settled)[1] - 1, "k_to": k_to}


columns.given("dynamic", "k_initial interval seed")


def moves(report: Report, row: Row) -> list[tuple[int, str, float, float]]:
    """What moved the scale. In collapses every step from the first bad one on is bad."""
    run = runs_of(report, row, VARIANT, row["variant"])[0]
    bad, known = tables_of(report, VARIANT).left_out(run)
    if known < 10**9:
        bad = set(range(min(bad), min(bad) + run["skipped"]))
    return plans.replay(plan(report, run), bad)[1]


@columns.recompute("scale_course", "step", "GradScaler's rule, replayed; rows that differ in nothing else are left out")
def course(report: Report, row: Row) -> Row | None:
    if row["event"] == "began":
        return {"step": 0}
    same = [e for e in moves(report, row) if (e[1], e[3]) == (row["event"], row["scale"])]
    return {"step": same[0][0]} if len(same) == 1 else None


@columns.recompute("scale_course", "scale", "GradScaler's rule, replayed")
def scale(report: Report, row: Row) -> Row:
    run = runs_of(report, row, VARIANT, row["variant"])[0]
    if row["event"] == "began":
        return {"scale": plan(report, run).scale}
    # Two moves in a row are a step apart or more, so that the rows before tell which move this is.
    rows = [r for r in report.tables["scale_course"] if r["variant"] == row["variant"]]
    return {"scale": moves(report, row)[[r["step"] for r in rows].index(row["step"], 1) - 1][3]}


@columns.recompute("collapse", "to_one to_subnormal to_zero skipped_after final_scale", "halving 65536 until it is 0")
def descent(report: Report, row: Row) -> Row:
    run = runs_of(report, row, VARIANT, f"{row['policy']}-collapse-{'lr' if 'rate' in row['cause'] else 'nan'}")[0]
    return {"to_one": 16, "to_subnormal": 16 + 127, "to_zero": 16 + 149 + 1,
            "skipped_after": run["skipped"] - (16 + 149 + 1), "final_scale": 0.0}


@columns.recompute("collapse", "zero_at unnoticed failed_at", "the same, from the first step that was left out; steps "
                   "from 1; the table runs")
def times(report: Report, row: Row) -> Row:
    by_rate = "rate" in row["cause"]
    run = runs_of(report, row, VARIANT, f"{row['policy']}-collapse-{'lr' if by_rate else 'nan'}")[0]
    first = min(tables_of(report, VARIANT).left_out(run)[0])
    return {"zero_at": first + 16 + 149, "failed_at": run["failed_at"], "unnoticed": None if by_rate else POISONED + 1}
