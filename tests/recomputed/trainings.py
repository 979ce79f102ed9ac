"""What five experiments report of trainings alike: data, runs, curves, tensors, updates, scaler_events, spikes.

Runs follow from the curves, curves partly from events and spikes, counts of elements from the networks' shapes. Losses,
norms and what roundings did are recomputed for the perceptron in FP32, FP16 and BF16 (perceptron.py); all else is held
against torch elsewhere (tests/peers). Steps count from 1 everywhere.
"""
from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import perceptron
import standing
from checks import Columns, Near, Report, Row, number, real
from perceptron import reliable, tolerance
from plans import Plan, replay, tables_of, weighted
from shapes import counted_loss, elements, is_text, licence_characters, shapes

NUMPY = "a perceptron in NumPy: the whole training in FP32, the first steps in FP16 and BF16"
FEWEST = 1000  # smaller counts are not compared in FP16 and BF16: there every rounding that turns is a large part

PlanOf = Callable[[Report, Row], Plan]
TrainingOf = Callable[[Report, Row], "perceptron.Training | None"]
Compared = tuple[list[Row], list[Row]]  # runs of a variant and of its reference


def add(columns: Columns, variant: str, plan_of: PlanOf, training_of: TrainingOf) -> None:
    """Adds the checks of all shared tables but spikes. training_of: how NumPy trains alike, or None."""
    add_data(columns)
    add_runs(columns, variant, plan_of)
    add_curves(columns, variant, plan_of, training_of)
    add_microscope(columns, variant, plan_of, training_of)
    add_scaler(columns, variant, plan_of)
    columns.given("spikes", "seed")


def add_data(columns: Columns) -> None:
    @columns.recompute("data", "train test", "the headers of the IDX files, the lengths of the texts")
    def data(report: Report, row: Row) -> Row:
        if row["data"] == "text":
            return dict(zip(("train", "test"), licence_characters()))
        return {"train": len(perceptron.read("train-labels-idx1-ubyte")),
                "test": len(perceptron.read("t10k-labels-idx1-ubyte"))}


def add_text_models(columns: Columns) -> None:
    """Of reports in which a network reads text."""
    @columns.recompute("text_models", "loss bits", "pairs, counted in Python")
    def text_models(report: Report, row: Row) -> Row | None:
        if report.config["text"]:
            return None
        loss = counted_loss(row["model"] == "bigram")
        return {"loss": Near(loss, 1e-12), "bits": Near(loss / math.log(2), 1e-12)}


def add_runs(columns: Columns, variant: str, plan_of: PlanOf) -> None:
    @columns.recompute("runs", "parameters steps batch train test learning_rate",
                       "shapes of the layers, the configuration, the preset `small`")
    def asked(report: Report, row: Row) -> Row:
        config, text, plan = report.config, is_text(row["network"]), plan_of(report, row)
        shape = {"parameters": sum(shapes(row["network"]).values())} if plan.usual_shape else {}
        return shape | {"steps": plan.steps, "learning_rate": plan.learning_rate,
                "batch": plan.batch or config["batch"] or (16 if text else 64),
                "train": licence_characters()[0] if text else config["train_examples"] or 6000,
                "test": 64 if text else config["test_examples"] or 2000}

    @columns.recompute("runs", "train_loss test_loss test_accuracy skipped scale failed_at", "the table curves")
    def ends(report: Report, row: Row) -> Row:
        points = tables_of(report, variant).of("curves", row)
        last = points[-1]
        failed = last["test_loss"] == "NaN" and last["test_accuracy"] == 0
        return {"train_loss": cell(last["train_loss"]), "test_loss": cell(last["test_loss"]),
                "test_accuracy": last["test_accuracy"], "skipped": sum(p["skipped"] for p in points),
                "scale": last["scale"], "failed_at": last["step"] if failed else None}

    @columns.recompute("runs", "loss_spikes announced", "the table spikes, if it lists every spike of the training")
    def spikes(report: Report, row: Row) -> Row | None:
        of = tables_of(report, variant)
        losses, norms = of.spikes(row, "loss"), of.spikes(row, "gradient-norm")
        if losses is None or norms is None:
            return None
        near = [any(0 <= loss["step"] - norm["step"] <= 10 for norm in norms) for loss in losses]
        return {"loss_spikes": len(losses), "announced": sum(near)}

    columns.given("runs", "seed")


def cell(value: Any) -> Any:
    """A cell as what a recomputation gives: infinities and NaNs as floats."""
    return number(value) if isinstance(value, str) else value


def add_curves(columns: Columns, variant: str, plan_of: PlanOf, training_of: TrainingOf) -> None:
    @columns.recompute("curves", "step scale skipped abnormal clipped",
                       "intervals of equal length, GradScaler's rule replayed, the tables scaler_events and spikes")
    def course(report: Report, row: Row) -> Row | None:
        of, plan = tables_of(report, variant), plan_of(report, row)
        same = [p for p in of.of("curves", row) if all(p[name] == value for name, value in row.items())]
        if len(same) != 1:
            return None  # which interval it is cannot be told from the other columns
        place, end = of.of("curves", row).index(same[0]), same[0]["step"]
        begin = place * plan.interval
        expected: Row = {"step": of.run(row)["failed_at"] or min(plan.steps, begin + plan.interval)
                         if place == len(of.of("curves", row)) - 1 else begin + plan.interval}
        bad, known = of.left_out(row)
        if end <= known and plan.skip:
            expected |= {"scale": replay(plan, bad)[0][end - 1], "skipped": sum(begin < s <= end for s in bad)}
        elif not plan.growth:
            expected |= {"scale": plan.scale, "skipped": 0}
        norms = of.spikes(row, "gradient-norm")
        if norms is not None:
            expected["abnormal"] = sum(begin < s["step"] <= end and s["value"] > plan.abnormal * s["usual"]
                                       for s in norms) if plan.abnormal else 0
        if not report.config["clip_norm"] and not plan.clips:
            expected["clipped"] = 0
        return expected

    @columns.recompute("curves", "train_loss gradient_norm largest_norm test_loss test_accuracy",
                       f"{NUMPY}; cells without a test are null; norms that are spikes come from the table spikes")
    def losses(report: Report, row: Row) -> Row:
        of, plan = tables_of(report, variant), plan_of(report, row)
        expected: Row = {}
        begin, end = of.interval(row)
        last = end == of.of("curves", row)[-1]["step"]
        is_test = last or math.ceil(end / plan.interval) % plan.test_every == 0
        if not is_test:
            expected |= {"test_loss": None, "test_accuracy": None}
        spikes = [s for s in of.spikes(row, "gradient-norm") or [] if begin < s["step"] <= end]
        # Behind a spike the usual norm is larger: a norm up to 4 times of that may exceed the spike and be none.
        shown = next(point["largest_norm"] for point in of.of("curves", row) if point["step"] == row["step"])
        if spikes and shown > 5 * max(s["usual"] for s in spikes):
            expected["largest_norm"] = max(s["value"] for s in spikes)
        training = training_of(report, row)
        if training is None or not reliable(training, end):
            return expected
        found, near = perceptron.course(training), tolerance(training, end)
        part = [n for n in found.norms[begin:end] if math.isfinite(n)]
        expected["train_loss"] = Near(sum(found.losses[begin:end]) / (end - begin), near)
        expected["gradient_norm"] = Near(sum(part) / len(part) if part else math.nan, near)
        # Of a single step: 1.4e-5 has been seen at the end of 186 steps in FP32, where means stay within 1e-5.
        expected["largest_norm"] = Near(max(part, default=math.nan), max(near, 5 * perceptron.EXACT))
        if is_test:
            test, answers = found.tests[end], 0 if near == perceptron.EXACT else 1 if exact(training) else 3
            expected |= {"test_loss": Near(test.loss, near),
                         "test_accuracy": Near(test.accuracy, 1e-12, answers / training.test)}
        return expected

    columns.given("curves", "seed")


def counted(training: perceptron.Training, report: Report, variant: str, row: Row) -> list[perceptron.Counted] | None:
    """The counted steps of a row's interval: its last one, and the first of all."""
    begin, end = tables_of(report, variant).interval(row)
    if not reliable(training, end):
        return None
    return [step for number, step in perceptron.course(training).counted.items() if begin < number <= end]


def share(part: int, whole: int, training: perceptron.Training, step: int) -> Near | None:
    """Counts are exact in FP32, but for a few updates that nearly swamp; None for few in narrow formats."""
    if training.precision.is_fp32():
        return Near(part / max(1, whole), 1e-12, 2.5 / whole if part > 150 else 0.0)
    return Near(part / whole, tolerance(training, step)) if part >= FEWEST else None


def add_microscope(columns: Columns, variant: str, plan_of: PlanOf, training_of: TrainingOf) -> None:
    def steps_counted(report: Report, row: Row) -> set[int]:
        """A training that fails within an interval ends before the step that would count."""
        begin, end = tables_of(report, variant).interval(row)
        plan = plan_of(report, row)
        return {step for step in (1, end) if begin < step and (step in (1, plan.steps) or step % plan.interval == 0)}

    @columns.recompute("tensors", "elements", "shapes of the layers, times the counted steps (two if the first step is among them, otherwise one)")
    def sizes(report: Report, row: Row) -> Row | None:
        if plan_of(report, row).batch:
            return None  # the shapes are those of the usual batch
        one = elements(row["network"], report.config["context"])[row["tensor"], row["role"]]
        if plan_of(report, row).straight_through and row["role"].endswith("operand"):
            one = {"fc1": {"a": 64 * 784, "w": 784 * 256}, "fc2": {"a": 64 * 256, "w": 256 * 10}}[row["tensor"]][
                row["role"][0]]
        return {"elements": one * len(steps_counted(report, row))}

    @columns.recompute("tensors", "zero underflowed subnormal overflowed nan", NUMPY)
    def tensors(report: Report, row: Row) -> Row | None:
        training = training_of(report, row)
        steps = counted(training, report, variant, row) if training else None
        if training is None or steps is None:
            return None
        tallies = [step.tallies[row["tensor"], row["role"]] for step in steps]
        sums = Counter({name: sum(getattr(t, name) for t in tallies) for name in
                        ("elements", "zero", "underflowed", "subnormal", "overflowed", "nan")})
        found = {name: share(sums[name], sums["elements"], training, row["step"])
                 for name in ("zero", "underflowed", "subnormal", "overflowed")}
        return {name: value for name, value in found.items() if value is not None} | {"nan": sums["nan"]}

    @columns.recompute("updates", "elements", "shapes of the layers, times the number of counted steps that were not skipped")
    def parameters(report: Report, row: Row) -> Row | None:
        if not plan_of(report, row).usual_shape:
            return None
        bad, known = tables_of(report, variant).left_out(row)
        taken = steps_counted(report, row) - bad
        return {"elements": shapes(row["network"])[row["parameter"]] * len(taken)} if max(taken, default=0) <= known else None

    @columns.recompute("updates", "with_update swamped zero_gradients second_underflowed zero_denominators weight_norm "
                       "gradient_to_weight update_to_weight", NUMPY)
    def updates(report: Report, row: Row) -> Row | None:
        training = training_of(report, row)
        steps = counted(training, report, variant, row) if training else None
        if training is None or steps is None:
            return None
        of = [step.updates[row["parameter"]] for step in steps if step.updates]
        whole, near = len(of) * shapes("mlp")[row["parameter"]], tolerance(training, row["step"])
        weight, gradient, update = of[-1].norms
        with_update = sum(u.with_update for u in of)
        found = {"with_update": with_update if training.precision.is_fp32() else Near(with_update, near),
                 "zero_gradients": share(sum(u.zeros for u in of), whole, training, row["step"]),
                 "second_underflowed": share(sum(u.second_underflowed for u in of), whole, training, row["step"]),
                 "zero_denominators": sum(u.zero_denominators for u in of), "weight_norm": Near(weight, near),
                 "gradient_to_weight": Near(gradient / weight, near),
                 "update_to_weight": Near(update / weight, near)}
        if (swamped := sum(u.swamped for u in of)) >= 20:  # an update or two may nearly be
            found["swamped"] = share(swamped, with_update, training, row["step"])
        return {name: value for name, value in found.items() if value is not None}

    columns.given("tensors", "seed step")
    columns.given("updates", "seed step")


def add_scaler(columns: Columns, variant: str, plan_of: PlanOf) -> None:
    @columns.recompute("scaler_events", "before after", "GradScaler's rule, replayed from the skipped steps")
    def scales(report: Report, row: Row) -> Row | None:
        of, plan = tables_of(report, variant), plan_of(report, row)
        bad, known = of.left_out(row)
        if row["update"] >= known:
            return None
        scales = [plan.scale, *replay(plan, bad)[0]]
        before = scales[row["update"]]
        return {"before": before, "after": before if row["event"] == "skipped" else scales[row["update"] + 1]}

    @columns.recompute("scaler_events", "update", "the same; rows that differ in nothing else are left out")
    def moves(report: Report, row: Row) -> Row | None:
        of, plan = tables_of(report, variant), plan_of(report, row)
        events = [e for e in replay(plan, of.left_out(row)[0])[1]
                  if (e[1], e[2], e[3]) == (row["event"], row["before"], row["after"])]
        return {"update": events[0][0] - 1} if len(events) == 1 else None

    columns.given("scaler_events", "seed")


def exact(of: perceptron.Training) -> bool:
    """Whether NumPy's network gives the same answers: all in FP32, or but for weights, whose steps are small then."""
    return of.precision.is_fp32() or (of.precision.narrows_weights_alone() and of.lr <= 1e-5)


def answers(training: perceptron.Training | None, run: Row) -> perceptron.Test | None:
    """The last test of a training, answer by answer; None if NumPy has another number of right ones."""
    if run["failed_at"] is not None:
        return perceptron.failed_test(run["test"])
    if training is None or not exact(training):
        return None
    test = perceptron.course(training).tests.get(training.steps)
    return test if test is not None and test.accuracy == run["test_accuracy"] else None


def doubts(runs: list[Row], than: list[Row], training: Callable[[Row], perceptron.Training | None]
           ) -> tuple[float, float] | None:
    """Of the differences of accuracies and of losses."""
    if runs == than:
        return 0.0, math.nan if any(r["failed_at"] is not None for r in runs) else 0.0
    tests = [[answers(training(run), run) for run in of] for of in (runs, than)]
    known = [[test for test in of if test is not None] for of in tests]
    if known != tests:
        return None
    return (standing.doubt(*(np.array([test.right for test in of]) for of in known)),
            standing.doubt(*(np.array([test.losses for test in of]) for of in known)))


ANSWERS = ("confidence intervals from the answers of trainings in NumPy, one by one: those in FP32, those with small steps "
           "of narrow weights, and those that fail; the report does not have the answers of others")


def add_standing(columns: Columns, table: str, margins: dict[str, str], compared: Callable[[Report, Row], Compared],
                 training_of: TrainingOf) -> None:
    """Checks of doubts and verdicts. margins: what the configuration calls those of verdict and loss_verdict."""
    of_losses = table != "summary" or "loss_verdict" in margins

    @columns.recompute(table, "doubt loss_doubt" if of_losses else "doubt", ANSWERS)
    def doubt(report: Report, row: Row) -> Row | None:
        found = doubts(*compared(report, row), lambda run: training_of(report, run))
        if found is None:
            return None
        of_answers = {"doubt": standing.as_reported(found[0])}
        known = of_losses and not 0 < found[1] < 1e-4  # a loss differs by as much as 1e-6 here
        return of_answers | ({"loss_doubt": Near(found[1], 5e-3, 1e-6)} if known else {})

    @columns.recompute(table, " ".join(margins), "the differences and doubts, compared with the margins of the configuration; the table runs")
    def verdicts(report: Report, row: Row) -> Row:
        runs, than = compared(report, row)
        margin = {name: float(report.config[of]) for name, of in margins.items()}
        found = {"verdict": standing.verdict(runs, than, row["to_fp32"], row["doubt"], margin["verdict"])}
        if "loss_verdict" in margins and standing.exploded(runs, than):
            found["loss_verdict"] = "above"
        elif "loss_verdict" in margins:
            found["loss_verdict"] = standing.verdict(runs, than, real(row["loss_to_fp32"]),
                                                     real(row["loss_doubt"]), margin["loss_verdict"], "above")
        return found


def add_swamped(columns: Columns, variant: str) -> None:
    @columns.recompute("summary", "swamped", "counts of the first seed in the table updates")
    def swamped(report: Report, row: Row) -> Row:
        rows = tables_of(report, variant).rows["updates"].get((row[variant], row["network"], report.config["seed"]), [])
        return {"swamped": Near(weighted([(u["swamped"], u["with_update"]) for u in rows]), 1e-12)}


def add_spikes_by_numpy(columns: Columns, variant: str, training_of: TrainingOf) -> None:
    @columns.recompute("spikes", "step value usual",
                       f"{NUMPY}; the definition of a spike, for trainings that have only one")
    def spikes(report: Report, row: Row) -> Row | None:
        training = training_of(report, row)
        found = perceptron.spikes(perceptron.course(training), row["of"]) if training else []
        if training is None or len(found) != 1 or len(tables_of(report, variant).of("spikes", row)) != 1:
            return None
        step, value, usual = found[0]
        near = tolerance(training, step)
        return {"step": step, "value": Near(value, near), "usual": Near(usual, near)}


def add_spikes_by_neighbours(columns: Columns, variant: str) -> None:
    columns.given("spikes", "step")

    @columns.recompute("spikes", "usual", "the same value as at a spike one step earlier, because a spike does not change the mean")
    def unchanged(report: Report, row: Row) -> Row | None:
        before = [s for s in tables_of(report, variant).of("spikes", row)
                  if s["of"] == row["of"] and s["step"] == row["step"] - 1]
        return {"usual": before[0]["usual"]} if before else None

    @columns.recompute("spikes", "value", "the largest norm in the same interval of the table curves, if the interval has no other spike")
    def largest(report: Report, row: Row) -> Row | None:
        of = tables_of(report, variant)
        norms = of.spikes(row, "gradient-norm")
        if row["of"] != "gradient-norm" or norms is None:
            return None
        for point in of.of("curves", row):
            begin, end = of.interval(point)
            # Near the limit of 4 times the usual a larger norm may be no spike: its usual is larger.
            if (begin < row["step"] <= end and sum(begin < s["step"] <= end for s in norms) == 1
                    and point["largest_norm"] > 5 * row["usual"]):
                return {"value": point["largest_norm"]}
        return None
