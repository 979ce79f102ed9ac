"""quantization: calibration of drawn and learned tensors, and networks and products in integers, all in NumPy."""
from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import integers
import numpy as np
import perceptron
import plans
import standing
import streams
import trainings
from checks import Columns, Near, Report, Row
from integers import Floats
from numpy.typing import NDArray
from plans import Plan, runs_of

columns = Columns()
VARIANT = "variant"
LAYERS = {"fc1": 784, "fc2": 256}
TESTED = perceptron.Training(0).test


def plan(report: Report, row: Row) -> Plan:
    config = report.config
    if row["variant"] == "fp32":
        return plans.usual_plan(report, row["network"])
    steps = config["qat_steps"] or round(config["qat_epochs"] * plans.steps_per_epoch(report))
    return plans.usual_plan(report, row["network"], steps=steps, learning_rate=config["qat_lr"],
                                straight_through=row["variant"] != "fp32-on")


def in_fp32(seed: int) -> perceptron.Training:
    return perceptron.Training(seed, interval=93, test_every=1)


def training(report: Report, row: Row) -> perceptron.Training | None:
    """In FP32, and from there on in FP32."""
    first = in_fp32(row["seed"])
    if row["variant"] not in ("fp32", "fp32-on") or row["network"] != "mlp":
        return None
    asked = plan(report, row)
    return first if row["variant"] == "fp32" else replace(first, steps=asked.steps, interval=asked.interval,
                                                          lr=asked.learning_rate, start=first)


trainings.add(columns, VARIANT, plan, training)


def learned(seed: int) -> perceptron.Values:
    return perceptron.course(in_fp32(seed)).values


@functools.cache
def inputs(seed: int, layer: str, batches: int) -> Floats:
    """What enters a layer of the trained network on the first training batches."""
    of, values = perceptron.Training(seed), learned(seed)
    x = np.concatenate([perceptron.batch_of(of, i)[0] for i in range(batches)])
    if layer == "fc1":
        return x
    return np.maximum(integers.product(x, values["fc1.weight"]) + values["fc1.bias"], 0)


# Calibration.

SAMPLES: dict[str, dict[str, Any]] = {
    "uniform": {"shape": "uniform"}, "normal": {"shape": "normal"}, "normal, rectified": {"shape": "normal"},
    "laplace": {"shape": "laplace"}, "student-t, 3 degrees": {"shape": "student-t", "degrees": 3}}


@functools.cache
def tensor(seed: int, layer: str, kind: str, batches: int) -> Floats:
    if kind == "values":
        drawn = streams.sample(seed=seed, index=np.arange(65536), **SAMPLES[layer]).astype(np.float32)
        return np.maximum(drawn, 0) if "rectified" in layer else drawn
    return (learned(seed)[f"{layer}.weight"] if kind == "weights" else inputs(seed, layer, batches)).ravel()


@functools.cache
def amax_of(seed: int, layer: str, kind: str, batches: int, bits: int, method: str) -> float:
    return integers.calibrated(tensor(seed, layer, kind, batches), bits, method)


@columns.recompute("calibration", "values amax to_max clipped mse sqnr",
                   "the definitions of the methods, on numbers of Philox and on NumPy's perceptron", 60)
def calibration(report: Report, row: Row) -> Row:
    key = (report.config["seed"], row["layer"], row["tensor"], report.config["calibration_batches"])
    x, amax = tensor(*key), amax_of(*key, row["bits"], row["method"])
    error, squares = (float(s) for s in (integers.squared_error(x, row["bits"], amax), (x.astype(np.float64)**2).sum()))
    exact = row["network"] == "sample"
    clipped = int((np.abs(x) > np.float32(amax)).sum())
    return {"values": x.size, "amax": Near(amax, 0 if exact else 1e-5),
            "to_max": Near(amax / float(np.abs(x).max()), 1e-15 if exact else 1e-5), "clipped": clipped / x.size,
            "mse": Near(error / x.size, 1e-9 if exact else 1e-4),
            "sqnr": Near(10 * math.log10(squares / error), 1e-9 if exact else 1e-5)}


columns.given("calibration", "bits")


# Networks in integers.

Multiply = Callable[[str, Floats], Floats]
Answers = NDArray[np.float64]  # of a test: 1 for each right one, 0 for each wrong one


def answers(values: perceptron.Values, multiply: Multiply) -> Answers:
    """Of a network to the test images, 500 at once, whose products are multiply(layer, inputs)."""
    x, labels = perceptron.images("t10k", TESTED, perceptron.ALL_CLASSES)
    right = np.zeros(len(labels))
    for at in range(0, len(labels), 500):
        hidden = np.maximum(multiply("fc1", x[at:at + 500]) + values["fc1.bias"], 0)
        logits = multiply("fc2", hidden) + values["fc2.bias"]
        right[at:at + 500] = logits.argmax(1) == labels[at:at + 500]
    return right


@functools.cache
def weights(seed: int, layer: str, bits: int, by_row: bool, method: str) -> tuple[Floats, Floats]:
    """A layer's weights as integers, and their scales."""
    w = learned(seed)[f"{layer}.weight"]
    rows = w if by_row else w.reshape(1, -1)
    amax = integers.by_mse(rows, bits) if method == "mse" else np.abs(rows).max(1, keepdims=True)
    q, scale = integers.rounded(rows, bits, amax)
    return q.reshape(w.shape), scale.reshape(1, -1)


def in_integers(seed: int, batches: int, bits: int, by_row: bool, of_weights: str, of_activations: str,
                only: str | None = None) -> Answers:
    values = learned(seed)

    def multiply(layer: str, x: Floats) -> Floats:
        if only not in (None, layer):
            return integers.product(x, values[f"{layer}.weight"])
        a, of_a = integers.rounded(x, bits, amax_of(seed, layer, "activations", batches, bits, of_activations))
        b, of_b = weights(seed, layer, bits, by_row, of_weights)
        return integers.product(a, b) * of_a * of_b

    return answers(values, multiply)


def seeds(report: Report) -> range:
    return range(report.config["seed"], report.config["seed"] + report.config["seeds"])


def told(report: Report, of: list[Answers]) -> Row:
    """Networks of all seeds against those in FP32."""
    right = np.array(of)
    fp32 = np.array([perceptron.course(in_fp32(seed)).tests[186].right for seed in seeds(report)])
    return {"accuracy": Near(right.mean(), 1e-12), "to_fp32": Near((right - fp32).mean(), 1e-12, 1e-12),
            "doubt": standing.as_reported(standing.doubt(right, fp32))}


@columns.recompute("accuracy", "accuracy to_fp32 doubt", "networks in integers by NumPy", 20)
def after_training(report: Report, row: Row) -> Row:
    batches = report.config["calibration_batches"]
    if row["bits"] == 32:
        return told(report, [perceptron.course(in_fp32(seed)).tests[186].right for seed in seeds(report)])
    return told(report, [in_integers(seed, batches, row["bits"], row["granularity"] == "channel", row["weights"],
                                     row["activations"]) for seed in seeds(report)])


@columns.recompute("layers", "features accuracy to_fp32 doubt", "networks with one layer in integers by NumPy")
def one_layer(report: Report, row: Row) -> Row:
    method = report.config["qat_method"]
    return told(report, [in_integers(seed, report.config["calibration_batches"], row["bits"], True, method, method,
                                     row["layer"]) for seed in seeds(report)]) | {"features": LAYERS[row["layer"]]}


columns.given("accuracy", "bits")
columns.given("layers", "bits")
columns.given("qat", "bits")


def mean(runs: list[Row]) -> float:
    return float(np.mean([r["test_accuracy"] for r in runs]))


@columns.recompute("qat", "fp32 ptq qat recovered to_continued steps", "the tables runs and accuracy")
def aware(report: Report, row: Row) -> Row:
    method = report.config["qat_method"]
    same = [r["accuracy"] for r in report.tables["accuracy"] if (r["bits"], r["granularity"]) == (
        row["bits"], row["granularity"]) and r["weights"] in (None, method) and r["activations"] in (None, method)]
    variant = "fp32-on" if row["bits"] == 32 else f"int{row['bits']}-{row['granularity']}-{method}-{method}"
    after, on, fp32 = (runs_of(report, row, VARIANT, name) for name in (variant, "fp32-on", "fp32"))
    return {"fp32": Near(mean(fp32), 1e-12), "ptq": same[0], "qat": Near(mean(after), 1e-12),
            "recovered": Near(mean(after) - same[0], 1e-12, 1e-12),
            "to_continued": Near(mean(after) - mean(on), 1e-12, 1e-12), "steps": after[0]["steps"]}


columns.without("qat", "doubt", "the report does not have the answers, one by one, of trainings with roundings")


# Outlier columns.

METHODS: dict[str, Callable[[Floats, Floats, float], Floats]] = {
    "fp32": lambda x, w, _: integers.product(x, w), "fp16": lambda x, w, _: integers.fp16_product(x, w),
    "int8 tensor": lambda x, w, _: integers.int8_product(x, w, False),
    "int8 vector-wise": lambda x, w, _: integers.int8_product(x, w, True), "split": integers.split_product}


@functools.cache
def planted_network(seed: int, batches: int, units: int, ratio: float | None) -> perceptron.Values:
    """The units that are above zero most often give 2^k times as much, and the next layer takes 2^-k of that. As it is
    without a ratio."""
    values = {name: value.copy() for name, value in learned(seed).items()}
    if ratio is None:
        return values
    hidden = inputs(seed, "fc2", batches)
    order = np.argsort(-(hidden > 0).sum(0), kind="stable")
    others = float(hidden[:, order[units:]].max())
    for unit in order[:units]:
        factor = np.float32(2.0 ** max(0, math.ceil(math.log2(ratio * others / float(hidden[:, unit].max())))))
        values["fc1.weight"][unit] *= factor
        values["fc1.bias"][unit] *= factor
        values["fc2.weight"][:, unit] /= factor
    return values


@functools.cache
def by_method(seed: int, batches: int, units: int, ratio: float | None, method: str, threshold: float
              ) -> tuple[Answers, dict[str, float]]:
    """Answers, and of each layer the outlier columns of its inputs, mean over batches."""
    values = planted_network(seed, batches, units, ratio)
    found: dict[str, list[int]] = {"fc1": [], "fc2": []}

    def multiply(layer: str, x: Floats) -> Floats:
        found[layer].append(int(integers.outlier_columns(x, threshold).sum()))
        return METHODS[method](x, values[f"{layer}.weight"], threshold)

    return answers(values, multiply), {layer: sum(counts) / len(counts) for layer, counts in found.items()}


def methods_row(report: Report, row: Row, ratio: float | None, layers: dict[str, float]) -> Row:
    """The layers of which columns are counted, with their columns."""
    config, method, columns_of_all = report.config, row["method"], sum(layers.values())
    found = [by_method(seed, config["calibration_batches"], config["outlier_features"], ratio, method,
                       config["threshold"]) for seed in seeds(report)]
    split = sum(of_layer[layer] for _, of_layer in found for layer in layers) / len(found)
    wide = {"fp32": columns_of_all, "fp16": columns_of_all, "split": split}.get(method, 0.0)
    return told(report, [right for right, _ in found]) | {"outliers": wide / len(layers), "in_int8": Near(1 - wide / columns_of_all, 1e-11)}


@columns.recompute("planted", "outliers in_int8 accuracy to_fp32 doubt", "networks with planted columns by NumPy")
def planted(report: Report, row: Row) -> Row:
    return methods_row(report, row, row["ratio"], {"fc2": 256.0})


@columns.recompute("as_trained", "outliers in_int8 accuracy to_fp32 doubt", "networks in INT8 and FP16 by NumPy")
def as_trained(report: Report, row: Row) -> Row:
    return methods_row(report, row, None, {"fc1": 784.0, "fc2": 256.0})


columns.given("planted", "ratio")


@functools.cache
def normals(seed: int, stream: int, count: int) -> Floats:
    return streams.normal(seed, stream, np.arange(count))


def drawn(report: Report, features: int) -> Floats:
    """Normal activations, and in some columns, in a share of the rows, large numbers of one sign a column."""
    config = report.config
    seed, rows, columns_ = config["seed"], config["rows"], config["outlier_features"]
    x = normals(seed, 1, rows * config["features"])[:rows * features].astype(np.float32).reshape(rows, features)
    places = np.arange(rows * columns_)
    there = (streams.uniform(seed, 3, places) < config["outlier_rows"]).reshape(rows, columns_)
    sizes = (config["outlier_magnitude"] * (1 + streams.uniform(seed, 4, places)) / 2).reshape(rows, columns_)
    for o in range(columns_):
        column = x[:, (2 * o + 1) * features // (2 * columns_)]
        column[there[:, o]] = sizes[there[:, o], o] * (1 if o % 2 == 0 else -1)
    return x


@functools.cache
def operands(report: Report, source: str) -> tuple[Floats, Floats]:
    config = report.config
    if source == "sample":
        features, outputs = config["features"], config["outputs"]
        w = normals(config["seed"], 2, outputs * features) / math.sqrt(features)
        return drawn(report, features), w.astype(np.float32).reshape(outputs, features)
    layer = source.split()[1]
    x = inputs(config["seed"], layer, config["calibration_batches"])
    return x[:256], learned(config["seed"])[f"{layer}.weight"]


@functools.cache
def error_of(report: Report, source: str, method: str, threshold: float) -> float:
    x, w = operands(report, source)
    return integers.relative_error(METHODS[method](x, w, threshold), x, w)


@columns.recompute("outliers", "features outliers in_int8 error to_fp16",
                   "the products by NumPy, of numbers of Philox and of a trained network")
def outliers(report: Report, row: Row) -> Row:
    x, _ = operands(report, row["source"])
    features = x.shape[1]
    wide = {"fp16": features, "split": int(integers.outlier_columns(x, row["threshold"] or 0).sum())}.get(
        row["method"], 0)
    error = error_of(report, row["source"], row["method"], row["threshold"] or 0)
    near = 1e-4 if row["source"] == "sample" else 1e-3  # a few weights of the network round the other way
    return {"features": features, "outliers": wide, "in_int8": 1 - wide / features, "error": Near(error, near),
            "to_fp16": Near(error / error_of(report, row["source"], "fp16", 0), near)}


columns.given("outliers", "threshold")


@columns.recompute("shares", "outliers in_int8 in_block", "activations drawn at random; the share of a block's weights that they multiply, 7 of 12")
def shares(report: Report, row: Row) -> Row:
    wide = int(integers.outlier_columns(drawn(report, row["features"]), report.config["threshold"]).sum())
    part = wide / row["features"]
    return {"outliers": wide, "in_int8": Near(1 - part, 1e-15), "in_block": Near(1 - part * (3 + 4) / (3 + 1 + 4 + 4),
                                                                                  1e-15)}


columns.given("shares", "features")
