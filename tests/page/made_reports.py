"""Reports for the tests of the page: those in tests/golden with all other members of a report, and odd ones."""
from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
sys.path.insert(0, str(ROOT / "python"))

ENVIRONMENT = {
    "version": "0.1.0", "revision": "0123456789ab", "dirty": False, "compiler": "gcc 12.2.0", "flags": "-O2", "build_type": "Release", "cpu": "a CPU", "cpu_features": ["f16c"], "os": "an OS",
    "cores": 2, "threads": 1, "date": "2026-01-02T03:04:05Z", "command": "halfulp run all",
    "backends": [{"name": "emulated", "description": "integers", "available": True, "reason": None}, {"name": "x86", "description": "a CPU", "available": True, "reason": None},
                 {"name": "cuda", "description": "NVIDIA GPU", "available": False, "reason": "built without CUDA"}]}

WORD = {"code": "0x3c00", "value": 1.0}


def claim(id: str, verdict: str, **more: Any) -> dict[str, Any]:
    skipped = verdict == "skipped"
    return {"id": id, "statement": f"Statement of {id}.", "source": "derived: by hand", "expected": None if skipped else {"fp16": 2048}, "tolerance": None if skipped else "exact",
            "measured": None if skipped else {"fp16": 2048}, "verdict": verdict, "reason": "why it is so" if verdict in ("skipped", "differs") else None,
            "independence": None if skipped else "oracle", **more}


def comparison(operation: str, differing: int = 0) -> dict[str, Any]:
    witnesses = [{"operands": [WORD], "emulated": WORD, "device": {"code": "0x7e00", "value": "NaN"}}] if differing else []
    return {"backend": "x86", "independence": "silicon", "operation": operation, "from": "fp32", "to": "fp16", "rounding": "nearest-even", "overflow": "ieee", "flush_inputs": False,
            "flush_outputs": False, "nan_rule": "propagate", "route": "VCVTPS2PH", "compared": 1000, "differing": differing, "classes": {"last place": differing} if differing else {},
            "witnesses": witnesses, "skipped": None}


def report(experiment: str, results: dict[str, Any], **more: Any) -> dict[str, Any]:
    claims = [claim("first-" + experiment.replace("_", "-"), "pass"), claim("second", "differs"), claim("third", "skipped")]
    skipped = {"backend": "cuda", "independence": "silicon", "tasks": ["convert fp32 to fp16"], "skipped": "built without CUDA"}
    return {"schema_version": 2, "experiment": experiment, "title": f"Title of {experiment}", "finding": f"{experiment} found 12 %.", "status": "pass", "config": {"seed": 1, "formats": ["fp16", "bf16"], "text": "a b>c", "empty": ""},
            "environment": copy.deepcopy(ENVIRONMENT), "claims": claims, "results": results, "comparisons": [comparison("convert"), comparison("rcp", 3), skipped], **more}


def table(columns: list[tuple[str, str]], rows: list[list[Any]], title: str = "A table") -> dict[str, Any]:
    return {"title": title, "columns": [{"name": n, "unit": u, "description": f"Description of {n}."} for n, u in columns], "rows": rows}


def golden() -> list[dict[str, Any]]:
    """A report of every experiment with a golden case, and one of a checkpoint."""
    found = [report(file.name.split(".")[0], json.loads((GOLDEN / f"{file.name.split('.')[0]}.json").read_text(encoding="utf-8"))) for file in sorted(GOLDEN.glob("*.config.json"))]
    return found if any(r["experiment"] == "checkpoint" for r in found) else found + [checkpoint()]


QUALITY = {"fp16": (16.0, 73.5), "e4m3": (8.0, 31.5), "nvfp4": (4.5, 20.25), "int4": (4.25, 19.0)}  # bits, and SQNR of the first layer


def checkpoint(layers: int = 5, formats: dict[str, tuple[float, float]] = QUALITY, exact: tuple[str, ...] = ()) -> dict[str, Any]:
    """A model whose layers lose a little more each, in the order of files: layer 10 after layer 1. Formats in `exact` lose nothing."""
    names = sorted(f"model.layers.{i}" for i in range(layers))
    roles = ["attention", "mlp"][:layers]

    def lost(name: str, place: int) -> tuple[float, float | None]:
        sqnr = formats[name][1] - place / 16
        return (0.0, None) if name in exact else (10 ** (-sqnr / 20), sqnr)

    def sums(places: dict[str, int]) -> list[list[Any]]:
        return [[of, name, 1, 64, 64 * formats[name][0] / 8, *lost(name, place)] for of, place in places.items() for name in formats]

    columns = [("format", ""), ("tensors", "tensor"), ("elements", "value"), ("bytes", "byte"), ("relative_error", "1"), ("sqnr", "dB")]
    worst = f"model.layers.{layers - 1}"
    return report("checkpoint", {
        "formats": table([("format", ""), ("bits", "bit"), ("bytes", "byte"), ("relative_error", "1"), ("sqnr", "dB"), ("worst_sqnr", "dB"), ("worst_tensor", ""), ("lossless", "tensor"), ("not_finite", "1")],
                         [[name, bits, 8 * bits * layers, *lost(name, 0), *((None, None) if name in exact else (lost(name, layers - 1)[1], f"{worst}.weight")), 0, 0.0] for name, (bits, _) in formats.items()] if layers else []),
        "layers": table([("layer", ""), *columns], sums({name: int(name.rsplit(".", 1)[1]) for name in names})),
        "roles": table([("role", ""), *columns], sums({role: i for i, role in enumerate(roles)})),
        "exponents": table([("tensor", ""), ("role", ""), ("exponent", "1"), ("elements", "value")],
                           [[f"{name}.weight", role, exponent, count] for name, role in zip(names, roles * layers) for exponent, count in ((None, 1), (-20, 1), (-8, 30), (-7, 32))])})


def short() -> list[dict[str, Any]]:
    """The same report with a few rows of each table."""
    return [{**r, "results": {name: {**t, "rows": t["rows"][:30]} for name, t in r["results"].items()}} for r in golden()]


def emptied(source: dict[str, Any]) -> dict[str, Any]:
    """The same tables without rows."""
    return {**source, "results": {name: {**t, "rows": []} for name, t in source["results"].items()}}


def without_numbers(source: dict[str, Any], value: Any) -> dict[str, Any]:
    """The same tables, every number replaced."""
    return {**source, "results": {name: {**t, "rows": [[value if isinstance(c, (int, float, dict)) else c for c in row] for row in t["rows"]]} for name, t in source["results"].items()}}


def without_columns(source: dict[str, Any], kept: int) -> dict[str, Any]:
    return {**source, "results": {name: {**t, "columns": t["columns"][:kept], "rows": [row[:kept] for row in t["rows"]]} for name, t in source["results"].items()}}


NASTY = "<script>alert('x')</script>& \"quoted\" $x^2$ ü ∞ \u202e " + "long " * 40


def nasty() -> dict[str, Any]:
    """Puts markup, formulas, Unicode and 200 characters wherever a report has text."""
    rows = [[NASTY, 1.0, "NaN", None, True, WORD], ["", "Infinity", "-Infinity", 10 ** 400, False, {"code": "0x7e00", "value": "NaN"}]]
    results = {"things": table([("name", ""), ("x", "1"), ("y", NASTY), ("z", "1"), ("flag", ""), ("word", "1")], rows, NASTY), "nothing": table([("name", "")], [])}
    more = report("somebodys_own", results, title=NASTY)
    more["claims"] += [claim("nasty", "fail", statement=NASTY, source=NASTY, expected={NASTY: [1, {"a": None}]}, measured="-Infinity")]
    more["environment"]["cpu"] = NASTY
    more["config"]["text"] = NASTY
    return more


def swamping_with(ratios: list[list[Any]]) -> dict[str, Any]:
    """A report with the one table that the first picture of swamping needs."""
    columns = [("format", ""), ("rounding", ""), ("form", ""), ("asked_ratio", "1"), ("arrived", "1")]
    return report("swamping", {"ratios": table(columns, ratios)})
