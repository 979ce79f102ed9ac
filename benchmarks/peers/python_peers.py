#!/usr/bin/env python3
"""Times halfulp's Python package, numpy, ml_dtypes, torch, torchao, qtorch, gfloat and pychop on the rows of `bench`.

usage: python_peers.py MEASURED.json OUT.json [--quick] [--trouble TEXT]

MEASURED.json comes from bench. This script measures its rows and no others. OUT.json has the same shape (Google
Benchmark's), with medians and coefficients of variation. The context lists a package that cannot be imported as
skipped, with the reason and with TEXT, the trouble with its installation. Exit status 2 for bad usage or input.
"""
import argparse
import json
import os
import signal
import statistics
import sys
import time

ROW = ("work", "format", "mode", "size", "data", "threads")


class NumpyPeer:
    """numpy, and packages that add types to it."""

    def __init__(self, version, dtypes):
        import numpy as np
        np.seterr(all="ignore")
        self.version, self.dtypes, self.np = version, dtypes, np

    def empty(self, count, dtype=None):
        return self.np.empty(count, dtype or self.np.float32)

    def copy(self, out, values):
        self.np.copyto(out, values, casting="unsafe")

    def narrow(self, values, dtype):
        return values.astype(dtype)

    def function(self, work, dtype):
        return {"add": self.np.add, "mul": self.np.multiply, "div": self.np.divide, "sqrt": self.np.sqrt}.get(work)

    def blocks(self, values, dtype, narrow):
        """MX blocks of 32 by the rule floor, as users of these packages write them."""
        import ml_dtypes
        np, most = self.np, self.np.float32(ml_dtypes.finfo(dtype).max)
        emax, blocks = int(np.frexp(most)[1]), values.reshape(-1, 32)

        def call():
            k = np.clip(np.frexp(np.abs(blocks).max(axis=1))[1] - emax, -127, 127)
            np.copyto(narrow.reshape(-1, 32), np.clip(np.ldexp(blocks, -k[:, None]), -most, most), casting="unsafe")
            return (k + 127).astype(np.uint8)
        return call


class TorchPeer:
    """torch on the CPU with one thread. It has no arithmetic in 8 bits."""

    def __init__(self, torch, dtypes):
        torch.set_num_threads(1)
        self.version, self.dtypes, self.torch = torch.__version__, dtypes, torch

    def empty(self, count, dtype=None):
        return self.torch.empty(count, dtype=dtype or self.torch.float32)

    def copy(self, out, values):
        out.copy_(values if isinstance(values, self.torch.Tensor) else self.torch.from_numpy(values))

    def narrow(self, values, dtype):
        return self.torch.from_numpy(values).to(dtype)

    def function(self, work, dtype):
        if dtype not in (self.torch.float16, self.torch.bfloat16):
            return None
        return {"add": self.torch.add, "mul": self.torch.mul, "div": self.torch.div, "sqrt": self.torch.sqrt}.get(work)


class OurPackage:
    """halfulp from Python with one thread: the cost of a call, compared with the same work from C++."""

    def __init__(self, halfulp):
        halfulp.set_threads(1)
        self.version, self.halfulp = halfulp.__version__, halfulp
        self.dtypes = {name: halfulp.Format(name) for name in ("fp16", "bf16", "e4m3", "e5m2", "e2m1")}

    def call(self, work, format, operands):
        import numpy as np
        values = np.empty(len(operands[0]), np.float32)
        if work == "quantize":
            return lambda: self.halfulp.quantize(operands[0], format, out=values)
        if work.startswith("block-"):
            return None
        codes = [self.halfulp.encode(x, format) for x in operands]
        if work == "encode":
            return lambda: self.halfulp.encode(operands[0], format, out=codes[0])
        if work == "decode":
            return lambda: self.halfulp.decode(codes[0], format, out=values)
        function = getattr(self.halfulp, work, None) if work in ("add", "mul", "div", "sqrt") else None
        return function and (lambda: function(*codes, format, codes=True))


class FunctionPeer:
    """A package with one function that rounds an array's values; make(format) returns it."""

    def __init__(self, version, formats, make, most=1 << 60):
        self.version, self.dtypes, self.make, self.most = version, formats, make, most

    def call(self, work, format, operands):
        if work != "quantize" or len(operands[0]) > self.most:
            return None
        function = self.make(format)
        return lambda: function(operands[0])


class BlocksPeer:
    """A package that makes MX blocks of 32; make(format) returns its function of an array of rows."""

    def __init__(self, version, formats, make):
        self.version, self.dtypes, self.make = version, formats, make

    def call(self, work, format, operands):
        if work != "block-encode":
            return None
        function, rows = self.make(format), operands[0].reshape(-1, 1024 if len(operands[0]) >= 1 << 20 else 128)
        return lambda: function(rows)


class AbsentPeer:
    dtypes = {}

    def __init__(self, why, trouble):
        self.version = f"skipped: {why}" + (f" ({trouble})" if trouble else "")


def import_peers(trouble):
    """{name: peer}"""
    def numpy():
        import numpy as np
        return NumpyPeer(np.__version__, {"fp16": np.float16})

    def ml_dtypes():
        import ml_dtypes as m
        names = {"bf16": "bfloat16", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2", "e2m1": "float4_e2m1fn",
                 "mxfp8e4m3": "float8_e4m3fn", "mxfp6e2m3": "float6_e2m3fn", "mxfp4": "float4_e2m1fn"}
        return NumpyPeer(m.__version__, {f: getattr(m, n) for f, n in names.items() if hasattr(m, n)})

    def torch():
        import torch as t
        names = {"fp16": "float16", "bf16": "bfloat16", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}
        return TorchPeer(t, {f: getattr(t, n) for f, n in names.items() if hasattr(t, n)})

    def gfloat():
        import gfloat as g
        from importlib.metadata import version
        import gfloat.formats as known
        names = {"fp16": "binary16", "bf16": "bfloat16", "e4m3": "ocp_e4m3", "e5m2": "ocp_e5m2", "e2m1": "ocp_e2m1"}
        return FunctionPeer(version("gfloat"), {f: getattr(known, "format_info_" + n) for f, n in names.items()},
                            lambda info: lambda x: g.round_ndarray(info, x), most=1 << 20)  # a microsecond per element

    def pychop():
        os.environ["chop_backend"] = "numpy"
        import pychop as p
        return FunctionPeer(p.__version__, {"fp16": (5, 10), "bf16": (8, 7), "e5m2": (5, 2)}, lambda bits: p.Chop(*bits))

    def qtorch():
        import torch
        from importlib.metadata import version
        from qtorch.quant import float_quantize
        return FunctionPeer(version("qtorch"), {"fp16": (5, 10), "bf16": (8, 7), "e4m3": (4, 3), "e5m2": (5, 2)},
                            lambda bits: lambda x: float_quantize(torch.from_numpy(x), *bits, rounding="nearest"))

    def torchao():
        import torch
        from importlib.metadata import version
        from torchao.prototype.mx_formats.mx_tensor import to_mx
        return BlocksPeer(version("torchao"), {"mxfp8e4m3": torch.float8_e4m3fn},
                          lambda dtype: lambda rows: to_mx(torch.from_numpy(rows), dtype, 32))

    def halfulp():
        import halfulp as h
        return OurPackage(h)

    peers = {}
    for load in (halfulp, numpy, ml_dtypes, torch, torchao, qtorch, gfloat, pychop):
        who = "ours Python" if load is halfulp else load.__name__
        try:
            peers[who] = load()
        except (ImportError, AttributeError, OSError, RuntimeError) as why:
            peers[who] = AbsentPeer(" ".join(str(why).split())[:200], trouble if load in (numpy, ml_dtypes) else "")
    return peers


def call_of(peer, work, dtype, operands):
    """The function to call repeatedly for one row; None where the peer lacks it."""
    if hasattr(peer, "call"):
        return peer.call(work, dtype, operands)
    count = len(operands[0])
    narrow, wide = peer.empty(count, dtype), peer.empty(count)
    if work == "encode":
        return lambda: peer.copy(narrow, operands[0])
    if work == "quantize":
        return lambda: (peer.copy(narrow, operands[0]), peer.copy(wide, narrow))
    if work == "block-encode":
        return hasattr(peer, "blocks") and peer.blocks(operands[0], dtype, narrow)
    if work.startswith("block-"):
        return None
    codes = [peer.narrow(x, dtype) for x in operands]
    if work == "decode":
        return lambda: peer.copy(wide, codes[0])
    function = peer.function(work, dtype)
    return function and (lambda: function(*codes, out=narrow))


def operands_of(row, count):
    """The same operands as bench's: normal numbers or random bits, a million of them repeated; positive for square
    roots."""
    import numpy as np
    values = []
    for k in range(2 if row["work"] in ("add", "mul", "div") else 1):
        random = np.random.default_rng(k + 1)
        distinct = min(count, 1 << 20)
        if row["data"] == "bits":
            x = random.integers(0, 1 << 32, distinct, dtype=np.uint32).view(np.float32)
        else:
            x = random.standard_normal(distinct, dtype=np.float32)
        values.append(np.resize(np.abs(x) if row["work"] == "sqrt" else x, count))
    return values


def seconds_a_call(call, least, repetitions):
    """The mean of each repetition, which makes as many calls as fill `least` seconds."""
    call()
    calls = 1
    while True:
        start = time.perf_counter()
        for _ in range(calls):
            call()
        spent = time.perf_counter() - start
        if spent >= least:
            break
        calls = max(calls + 1, min(10 * calls, int(1.2 * calls * least / max(spent, 1e-9))))
    means = []
    for _ in range(repetitions if spent < 2 else 2):  # two are enough where a call takes seconds
        start = time.perf_counter()
        for _ in range(calls):
            call()
        means.append((time.perf_counter() - start) / calls)
    return means


def rows_of(measured):
    """(name, row, elements, bytes) of each row that halfulp measured with one thread and rounding to nearest even."""
    seen = {}
    for entry in measured["benchmarks"]:
        parts = entry["run_name"].split("/")
        if entry.get("aggregate_name") != "median" or len(parts) < 7 or not parts[6].startswith("ours "):
            continue
        row = dict(zip(ROW, parts))
        if row["threads"] == "1" and row["mode"] in ("nearest-even", "exact"):
            seen["/".join(parts[:6])] = (row, int(entry["elements"]), int(entry.get("bytes", 0)))
    return [(name, *what) for name, what in seen.items()]


def measure(peers, rows, quick):
    least, repetitions = (0.01, 3) if quick else (0.1, 5)
    benchmarks = []
    for name, row, count, size in rows:
        for who, peer in peers.items():
            dtype = peer.dtypes.get(row["format"])
            call = dtype and call_of(peer, row["work"], dtype, operands_of(row, count))
            if not call:
                continue
            try:
                times = seconds_a_call(call, least, repetitions)
            except Exception as why:  # whatever a package raises: e2m1 has no NaN, which gfloat refuses to round to it
                print(f"{name}/{who}  cannot: {type(why).__name__} {why}", file=sys.stderr)
                continue
            median, variation = statistics.median(times), statistics.stdev(times) / statistics.mean(times)
            print(f"{name}/{who}  {median / count * 1e9:.3f} ns an element", file=sys.stderr)
            shared = {"run_name": f"{name}/{who}", "run_type": "aggregate", "repetitions": repetitions, "elements": count} | ({"bytes": size} if size else {})
            benchmarks.append(shared | {"aggregate_name": "median", "real_time": median * 1e9, "time_unit": "ns"})
            benchmarks.append(shared | {"aggregate_name": "cv", "real_time": variation, "time_unit": "ns"})
    return benchmarks


def main():
    parser = argparse.ArgumentParser(description="Python packages on the rows that bench measured")
    parser.add_argument("measured")
    parser.add_argument("out")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--trouble", default="")
    options = parser.parse_args()
    try:
        with open(options.measured, encoding="utf-8") as file:
            rows = rows_of(json.load(file))
    except (OSError, ValueError, KeyError, TypeError) as why:
        print(f"python_peers.py: {options.measured}: not what bench writes: {type(why).__name__} {why}", file=sys.stderr)
        return 2
    peers = import_peers(options.trouble)
    context = {f"peer {name}": peer.version for name, peer in peers.items()}
    context["python"] = sys.version.split()[0]
    context["packages"] = " ".join(name for name in peers if not name.startswith("ours "))
    result = {"context": context, "benchmarks": measure(peers, rows, options.quick)}
    with open(options.out + ".part", "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
    os.replace(options.out + ".part", options.out)
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without a traceback
    sys.exit(main())
