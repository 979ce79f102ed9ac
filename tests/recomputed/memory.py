"""memory: bytes counted from the published shapes of the models and from what each policy keeps, by hand.

Nothing is read from models.json or policies.json: widths are those of the models' papers and configurations, bytes an
element those of the policies' titles.
"""
from __future__ import annotations

from dataclasses import dataclass

from checks import Columns, Near, Report, Row

columns = Columns()
columns.given("bytes", "stage")
columns.given("ranks", "stage ranks")


@dataclass(frozen=True)
class Model:
    """A decoder of layers of width h; `gpt`: with biases, layer norms with biases, and a tied embedding."""

    layers: int
    h: int
    heads: int
    ffn: int
    vocabulary: int
    context: int
    gpt: bool = True
    positions: int = 0
    embedding_norm: bool = False
    dropout: bool = False


MODELS = {"gpt2": Model(12, 768, 12, 3072, 50257, 1024, positions=1024, dropout=True),
          "llama-7b": Model(32, 4096, 32, 11008, 32000, 2048, gpt=False),
          "bloom-176b": Model(70, 14336, 112, 57344, 250880, 2048, embedding_norm=True)}


@dataclass(frozen=True)
class Policy:
    """Bytes an element. stream: residuals and logits. operand: what enters linear products; 1: FP8 with an FP32 scale
    for 128 (activations) or 128 x 128 (weights). inner: other products and their results. softmax: attention's."""

    weights: int
    operand: int
    inner: int
    stream: int
    state: int
    master: int = 0
    kahan: int = 0


POLICIES = {"fp32": Policy(4, 4, 4, 4, 4), "amp-bf16": Policy(4, 2, 2, 4, 4), "O2": Policy(2, 2, 2, 2, 4, master=4),
            "pure-bf16": Policy(2, 2, 2, 2, 2), "bf16-kahan": Policy(2, 2, 2, 2, 2, kahan=2),
            "fp8-deepseek": Policy(4, 1, 2, 4, 2)}

Shape = tuple[int, int, int]  # rows, columns, copies


def shapes(m: Model) -> dict[str, Shape]:
    """All tensors of parameters, by the names of the report."""
    n, h = m.layers, m.h
    all_shapes: dict[str, Shape] = {"embedding": (m.vocabulary, h, 1), "norms": (1, h, 2 * n), "final norm": (1, h, 1)}
    if m.positions:
        all_shapes["positions"] = (m.positions, h, 1)
    if m.embedding_norm:
        all_shapes |= {"embedding norm": (1, h, 1), "embedding norm bias": (1, h, 1)}
    matrices = dict.fromkeys(("query", "key", "value", "attention output"), (h, h, n))
    matrices |= {"ffn up": (m.ffn, h, n), "ffn down": (h, m.ffn, n)}
    if m.gpt:
        all_shapes |= {f"{name} bias": (1, rows, n) for name, (rows, _, _) in matrices.items()}
        all_shapes |= {"norm biases": (1, h, 2 * n), "final norm bias": (1, h, 1)}
    else:
        matrices["ffn gate"] = (m.ffn, h, n)
        all_shapes["output"] = (m.vocabulary, h, 1)
    return all_shapes | matrices


def elements(shape: Shape) -> int:
    return shape[0] * shape[1] * shape[2]


def count(m: Model) -> int:
    """4 h^2 + 2 or 3 h f a layer, and what is beside these matrices."""
    h, f, n, v = m.h, m.ffn, m.layers, m.vocabulary
    if not m.gpt:
        return n * (4 * h * h + 3 * h * f + 2 * h) + 2 * v * h + h
    layer = 4 * h * h + 2 * h * f + (4 * h + f + h) + 4 * h
    return n * layer + v * h + m.positions * h + 2 * h + 2 * h * m.embedding_norm


def copy_bytes(m: Model, p: Policy, name: str, shape: Shape) -> int:
    """Of a matrix that enters products in another format than its own: every one but an untied embedding."""
    rows, inner, copies = shape
    if rows == 1 or name == "positions" or (name == "embedding" and not m.gpt) or p.operand == p.weights:
        return 0
    scales = -(-rows // 128) * -(-inner // 128) * 4 if p.operand == 1 else 0
    return (rows * inner * p.operand + scales) * copies


def kept(m: Model, p: Policy) -> dict[str, int]:
    """Bytes of the whole model by state."""
    n = count(m)
    return {"parameters": n * p.weights, "gradients": n * p.weights, "master": n * p.master, "first": n * p.state,
            "second": n * p.state, "compensation": n * p.kahan,
            "copies": sum(copy_bytes(m, p, name, shape) for name, shape in shapes(m).items())}


FIRST_SHARED = {"master": 1, "first": 1, "second": 1, "compensation": 1, "gradients": 2, "parameters": 3, "copies": 3}


def on_a_rank(m: Model, p: Policy, stage: int, ranks: int) -> dict[str, int]:
    """ZeRO: each stage shares more, in shards of ceil(bytes / N); stage 3 gathers the largest piece again."""
    share = {name: -(-n // ranks) if stage >= FIRST_SHARED[name] else n for name, n in kept(m, p).items()}
    pieces = {name: elements(s) * p.weights + copy_bytes(m, p, name, s) for name, s in shapes(m).items()}
    layer = sum(n for name, n in pieces.items() if shapes(m)[name][2] > 1) // m.layers
    outside = max(n for name, n in pieces.items() if shapes(m)[name][2] == 1)
    return share | {"gathered": max(layer, outside) if stage == 3 and ranks > 1 else 0}


def activations(m: Model, p: Policy, tokens: int, batch: int, recomputation: str) -> dict[str, tuple[int, int]]:
    """Bytes of what is kept for backward, and of how many layers, by the names of the report."""
    rows, a = tokens * batch, m.heads * tokens * tokens * batch

    def operand(width: int) -> int:
        return rows * (width * p.operand + (-(-width // 128) * 4 if p.operand == 1 else 0))

    outside = {"final norm input": rows * m.h * p.stream, "output input": operand(m.h),
               "logits": rows * m.vocabulary * p.stream}
    if m.embedding_norm:
        outside["embedding norm input"] = rows * m.h * p.stream
    if m.dropout:
        outside["embedding dropout mask"] = rows * m.h
    layer = {"layer input": rows * m.h * p.stream}
    if recomputation != "full":
        layer = {"attention norm input": rows * m.h * p.stream, "query, key, value input": operand(m.h),
                 "queries": rows * m.h * p.inner, "keys": rows * m.h * p.inner, "values": rows * m.h * p.inner,
                 "attention output input": operand(m.h), "ffn norm input": rows * m.h * p.stream,
                 "ffn input": operand(m.h), "ffn down input": operand(m.ffn)}
        if m.gpt:
            layer["activation input"] = rows * m.ffn * p.inner
        else:
            layer |= dict.fromkeys(("ffn gate", "ffn up", "activation"), rows * m.ffn * p.inner)
        if m.dropout:
            layer |= dict.fromkeys(("attention output dropout mask", "ffn dropout mask"), rows * m.h)
    if recomputation == "none":
        layer["softmax"] = a * p.stream
        if m.dropout or p.stream != p.inner:  # after dropout, or in the format of the product with values
            layer["attention weights"] = a * p.inner
        if m.dropout:
            layer["attention dropout mask"] = a
    return {name: (n, m.layers) for name, n in layer.items()} | {name: (n, 1) for name, n in outside.items()}


def activation_total(report: Report, row: Row, recomputation: str) -> dict[str, tuple[int, int]]:
    m = MODELS[row["model"]]
    return activations(m, POLICIES[row["policy"]], report.config["sequence"] or m.context, report.config["batch"],
                       recomputation)


@columns.recompute("models", "parameters published context", "a closed form in h, f and the size of the vocabulary")
def models(_: Report, row: Row) -> Row:
    m = MODELS[row["model"]]
    return {"parameters": count(m), "published": count(m), "context": m.context}


@columns.recompute("parameters", "rows columns copies elements share", "published shapes")
def parameters(_: Report, row: Row) -> Row:
    m = MODELS[row["model"]]
    shape = shapes(m)[row["tensor"]]
    return {"rows": shape[0], "columns": shape[1], "copies": shape[2], "elements": elements(shape),
            "share": Near(elements(shape) / count(m), 1e-15)}


@columns.recompute("bytes", "gb gib parameters gradients master states copies gathered activations total",
                   "bytes per parameter for each policy, shards for each stage")
def rank_bytes(report: Report, row: Row) -> Row:
    m, p = MODELS[row["model"]], POLICIES[row["policy"]]
    part = on_a_rank(m, p, row["stage"], report.config["data_parallel"])
    left = sum(n * layers for n, layers in activation_total(report, row, report.config["recomputation"]).values())
    total = sum(part.values()) + left
    return {name: part[name] for name in ("parameters", "gradients", "master", "copies", "gathered")} | {
        "states": part["first"] + part["second"] + part["compensation"], "activations": left, "total": total,
        "gb": Near(total / 1e9, 1e-15), "gib": total / 2**30}


@columns.recompute("bytes_per_parameter", "parameters gradients master first second compensation copies total",
                   "bytes per parameter for each policy")
def bytes_per_parameter(_: Report, row: Row) -> Row:
    m = MODELS[row["model"]]
    parts = kept(m, POLICIES[row["policy"]])
    return {name: Near(n / count(m), 1e-15) for name, n in (parts | {"total": sum(parts.values())}).items()}


@columns.recompute("ranks", "bytes gb gib", "bytes per parameter for each policy, shards for each stage")
def ranks(_: Report, row: Row) -> Row:
    total = sum(on_a_rank(MODELS[row["model"]], POLICIES[row["policy"]], row["stage"], row["ranks"]).values())
    return {"bytes": total, "gb": Near(total / 1e9, 1e-15), "gib": total / 2**30}


@columns.recompute("activations", "layer layers outside formula gb", "sizes of the tensors, written out; Korthikanti's formulas")
def activation_sums(report: Report, row: Row) -> Row:
    m = MODELS[row["model"]]
    tensors = activation_total(report, row, row["recomputation"])
    layer = sum(n for n, layers in tensors.values() if layers > 1)
    outside = sum(n for n, layers in tensors.values() if layers == 1)
    s, b, h = report.config["sequence"] or m.context, report.config["batch"], m.h
    formula = {"none": s * b * h * 34 + 5 * m.heads * s * s * b, "selective": 34 * s * b * h, "full": 2 * s * b * h}
    return {"layer": layer, "layers": layer * m.layers, "outside": outside,
            "formula": formula[row["recomputation"]] * m.layers, "gb": Near((layer * m.layers + outside) / 1e9, 1e-15)}


@columns.recompute("activation_tensors", "bytes layers total", "sizes of the tensors, written out")
def activation_tensors(report: Report, row: Row) -> Row:
    n, layers = activation_total(report, row, report.config["recomputation"])[row["tensor"]]
    return {"bytes": n, "layers": layers, "total": n * layers}


def left(report: Report, row: Row, batch: int) -> int:
    """Bytes of a micro-batch's activations."""
    m = MODELS[row["model"]]
    kept_tensors = activations(m, POLICIES[row["policy"]], report.config["sequence"] or m.context, batch,
                               row["recomputation"])
    return sum(n * layers for n, layers in kept_tensors.values())


SCALED = {"e4m3-tensor": (1.0, 0, 4), "int8": (1.0, 10**9, 4), "int4": (0.5, 128, 4), "mxfp4": (0.5, 32, 1)}
PLAIN = {"fp32": 4, "bf16": 2}


def in_format(name: str, rows: int, inner: int) -> int:
    """Bytes of a matrix: elements, and a scale for so many of a row (0: one for all)."""
    if name in PLAIN:
        return rows * inner * PLAIN[name]
    size, block, scale = SCALED[name]
    return int(rows * inner * size) + (rows * -(-inner // block) if block else 1) * scale


def served(report: Report, row: Row) -> tuple[int, int]:
    """Bytes of weights and of keys and values: matrices of layers in the format, all else in BF16 if it has scales."""
    m, name = MODELS[row["model"]], row["weights"]
    weights = 0
    for tensor, (rows, inner, copies) in shapes(m).items():
        layers = copies > 1 and rows > 1
        weights += in_format(name if layers or name in PLAIN else "bf16", rows, inner) * copies
    tokens = (report.config["sequence"] or m.context) * report.config["batch"]
    return weights, in_format(row["cache"], 2 * m.layers * m.heads * tokens, m.h // m.heads)


@columns.recompute("inference", "weight_bytes cache_bytes gb bits_a_weight cache_share", "published shapes, by hand")
def inference(report: Report, row: Row) -> Row:
    weights, cache = served(report, row)
    return {"weight_bytes": weights, "cache_bytes": cache, "gb": Near((weights + cache) / 1e9, 1e-15),
            "bits_a_weight": Near(8 * weights / count(MODELS[row["model"]]), 1e-15),
            "cache_share": Near(cache / (weights + cache), 1e-15)}


columns.given("inference_devices", "device_gb")
columns.given("training_devices", "device_gb")
columns.given("batch", "batch")


@columns.recompute("inference_devices", "devices power_of_two", "the same, divided by the memory of a device")
def inference_devices(report: Report, row: Row) -> Row:
    n = -(-sum(served(report, row)) // int(row["device_gb"] * 1e9 * report.config["usable"]))
    return {"devices": n, "power_of_two": next(2**k for k in range(64) if 2**k >= n)}


@columns.recompute("training_devices", "shared own for_states devices", "counting up from one device")
def training_devices(report: Report, row: Row) -> Row:
    m, p = MODELS[row["model"]], POLICIES[row["policy"]]
    room, own = int(row["device_gb"] * 1e9 * report.config["usable"]), left(report, row, report.config["batch"])
    gathered = on_a_rank(m, p, 3, 2)["gathered"]
    parts = kept(m, p).values()

    def fewest(alone: int, gathers: int) -> int | None:
        for n in range(1, 10_000):
            if sum(-(-b // n) for b in parts) + alone + (gathers if n > 1 else 0) <= room:
                return n
        return None

    return {"shared": sum(parts), "own": own, "for_states": fewest(0, 0), "devices": fewest(own, gathered)}


def others(report: Report, row: Row) -> tuple[int, int]:
    """Bytes besides activations: nothing shared, and on a rank of stage 3."""
    m, p = MODELS[row["model"]], POLICIES[row["policy"]]
    return sum(kept(m, p).values()), sum(on_a_rank(m, p, 3, report.config["data_parallel"]).values())


@columns.recompute("batch", "activations share sharded", "sizes of the tensors, written out, bytes per parameter for each policy")
def batch(report: Report, row: Row) -> Row:
    n, (whole, shard) = left(report, row, row["batch"]), others(report, row)
    return {"activations": n, "share": Near(n / (n + whole), 1e-15), "sharded": Near(n / (n + shard), 1e-15)}


@columns.recompute("batch_half", "states sequence from sharded_from", "the same; activations in proportion to the batch")
def batch_half(report: Report, row: Row) -> Row:
    one, (whole, shard) = left(report, row, 1), others(report, row)
    return {"states": whole, "sequence": one, "from": whole // one + 1, "sharded_from": shard // one + 1}
