#!/usr/bin/env python3
"""What other people's libraries answer, for the cast profiles: digests over all inputs and tables of ranges.

Writes one file per profile into casts/ in this folder. halfulp's tests compare the profiles with them. Needs numpy
and xxhash; every library that is not there is skipped with the reason. With --check nothing is written: what the libraries
say is compared with the committed files, and the exit status is 1 where they differ.

  python3 -m venv VENV && VENV/bin/pip install numpy xxhash ml_dtypes onnx torch tensorflow-cpu
  VENV/bin/python tests/peers/profiles.py --check                      # what this environment has
  ... --cuda /usr/local/cuda/include --torch-legacy DIR                # DIR/include: the headers of an old PyTorch wheel
  ... --only ml_dtypes,onnx

A file: a line `# LIBRARY VERSION` for each library, then for each conversion

  = FROM TO  what was called
  digest D                     XXH3-128 of the chunk digests, XXH3-64 of each run of 2^24 results in input order;
                               code words as they are, NaNs too, one byte each, two (or four) where TO has more bits
  chunk I D                    the XXH3-64 of some chunks
  CODE RESULT                  from this input code on the result is that one (formats of at most 8 bits, not from fp64)

With --some, of fp32 only those chunks are asked (168 of 4295 million inputs, the edges of every range among them): a line
`some inputs` stands in the digest's place, and there are no ranges.

Inputs are all code words of FROM in order; of fp64 a fixed sample of 2^22 (`double_sample`).
"""
import argparse
import ctypes
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import xxhash

CHUNK = 1 << 24
KEPT_CHUNKS = (0x00, 0x38, 0x3F, 0x43, 0x47, 0x7F, 0x80, 0xB8, 0xC3, 0xFF)
WORD = {"fp64": np.uint64, "fp32": np.uint32, "fp16": np.uint16, "bf16": np.uint16}
FORMATS8 = ("e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz", "e4m3b11fnuz", "e4m3ieee", "e3m4", "e8m0", "e3m2", "e2m3", "e2m1")
SOURCES = ("fp32", "fp16", "bf16", "fp64")


def splitmix(i):
    z = (i + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def double_sample():
    """2^22 doubles around the boundaries of narrow formats: random words, few leading fraction bits, and their neighbours."""
    with np.errstate(over="ignore"):
        i = np.arange(1 << 22, dtype=np.uint64)
        a, b = splitmix(i * np.uint64(2)), splitmix(i * np.uint64(2) + np.uint64(1))
        exponent = np.uint64(1023 - 160) + b % np.uint64(320)
        fraction = a & np.uint64((1 << 52) - 1)
        dropped = np.uint64(52) - (np.uint64(1) + (b >> np.uint64(32)) % np.uint64(26))
        top = fraction >> dropped << dropped
        kind = b >> np.uint64(62)
        code = exponent << np.uint64(52) | np.where(kind == 0, fraction, top)
        code = np.where(kind == 2, code + np.uint64(1), np.where(kind == 3, code - np.uint64(1), code))
        rare = (b >> np.uint64(20)) % np.uint64(64)
        code = np.where(rare == 0, fraction, np.where(rare == 1, np.uint64(0x7FF << 52) | np.where(kind < 2, top, np.uint64(0)), code))
    return code | (a & np.uint64(1 << 63))


def chunks_of(source, some):
    if source == "fp64":
        yield double_sample()
    elif source == "fp32":
        for i in KEPT_CHUNKS if some else range(256):
            yield np.arange(i * CHUNK, (i + 1) * CHUNK, dtype=np.uint64).astype(np.uint32)
    else:
        yield np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)


class Conversion:
    def __init__(self, source, target, called, function):
        self.source, self.target, self.called, self.function = source, target, called, function

    def lines(self, some):
        some = some and self.source == "fp32"
        digests, ranges, last, at = [], [], None, 0
        wide = self.target in ("fp16", "bf16", "fp32")
        for codes in chunks_of(self.source, some):
            results = np.ascontiguousarray(self.function(codes))
            assert results.dtype.itemsize == (4 if self.target == "fp32" else 2 if wide else 1) and results.size == codes.size
            digests.append(xxhash.xxh3_64_intdigest(results.tobytes()))
            if not wide and self.source != "fp64" and not some:
                changes = np.flatnonzero(results[1:] != results[:-1]) + 1
                if last is None or results[0] != last:
                    changes = np.concatenate([[0], changes])
                ranges += [(at + int(c), int(results[c])) for c in changes]
                last = results[-1]
            at += codes.size
        text = np.array(digests, dtype="<u8").tobytes()
        lines = [f"= {self.source} {self.target}  {self.called}", "some inputs" if some else f"digest {xxhash.xxh3_128_hexdigest(text)}"]
        if len(digests) > 1:
            lines += [f"chunk {i} {digests[k if some else i]:016x}" for k, i in enumerate(KEPT_CHUNKS)]
        digits = 8 if self.source == "fp32" else 4
        return lines + [f"{code:0{digits}x} {result:02x}" for code, result in ranges]


def conversions_to(names, called, convert):
    """Conversions from every source to the other formats of {name: type}. called(type) names the function; convert(x,
    source, type) returns an array of the target's code words as integers."""
    def conversion(source, target, kind):
        word = np.uint16 if target in ("bf16", "fp16") else np.uint8
        return Conversion(source, target, called(kind), lambda x: convert(x, source, kind).view(word))
    return [conversion(source, target, kind) for target, kind in names.items() for source in SOURCES if source != target]


def ml_dtypes_profile():
    import ml_dtypes as m
    names = {"e4m3": m.float8_e4m3fn, "e5m2": m.float8_e5m2, "e4m3fnuz": m.float8_e4m3fnuz, "e5m2fnuz": m.float8_e5m2fnuz,
             "e4m3b11fnuz": m.float8_e4m3b11fnuz, "e4m3ieee": m.float8_e4m3, "e3m4": m.float8_e3m4, "e8m0": m.float8_e8m0fnu,
             "e3m2": m.float6_e3m2fn, "e2m3": m.float6_e2m3fn, "e2m1": m.float4_e2m1fn, "bf16": m.bfloat16, "fp16": np.float16}
    floats = {"fp64": np.float64, "fp32": np.float32, "fp16": np.float16, "bf16": m.bfloat16}
    conversions = conversions_to(names, lambda kind: f"numpy.astype({np.dtype(kind).name})", lambda x, source, kind: x.view(floats[source]).astype(kind))
    return [("ml_dtypes", m.__version__), ("numpy", np.__version__)], conversions


def torch_tensors(torch):
    words = {"fp64": torch.int64, "fp32": torch.int32, "fp16": torch.int16, "bf16": torch.int16}
    floats = {"fp64": torch.float64, "fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
    signed = {"fp64": np.int64, "fp32": np.int32, "fp16": np.int16, "bf16": np.int16}
    return lambda x, source: torch.from_numpy(x.view(signed[source])).view(floats[source]), words


def pytorch_profile():
    import torch
    torch.set_num_threads(1)
    tensor, _ = torch_tensors(torch)
    names = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "e4m3fnuz": torch.float8_e4m3fnuz, "e5m2fnuz": torch.float8_e5m2fnuz,
             "e8m0": torch.float8_e8m0fnu, "bf16": torch.bfloat16, "fp16": torch.float16}
    wide = (torch.bfloat16, torch.float16)
    conversions = conversions_to(names, lambda kind: f"Tensor.to({kind}), CPU {torch.backends.cpu.get_cpu_capability()}",
                                 lambda x, source, kind: tensor(x, source).to(kind).view(torch.int16 if kind in wide else torch.uint8).numpy())
    return [("torch", torch.__version__)], conversions


def onnx_cast(saturate):
    import ml_dtypes as m
    import onnx
    from onnx.reference.ops.op_cast import cast_to
    T = onnx.TensorProto
    names = {"e4m3": T.FLOAT8E4M3FN, "e5m2": T.FLOAT8E5M2, "e4m3fnuz": T.FLOAT8E4M3FNUZ, "e5m2fnuz": T.FLOAT8E5M2FNUZ,
             "e8m0": T.FLOAT8E8M0, "e2m1": T.FLOAT4E2M1, "bf16": T.BFLOAT16, "fp16": T.FLOAT16}
    floats = {"fp64": np.float64, "fp32": np.float32, "fp16": np.float16, "bf16": m.bfloat16}
    if not saturate:  # the attribute does not concern these
        for target in ("bf16", "fp16", "e2m1"):
            del names[target]
    conversions = conversions_to(names, lambda kind: f"onnx.reference Cast, saturate={int(saturate)}",
                                 lambda x, source, kind: np.asarray(cast_to(x.view(floats[source]), kind, saturate, "up")))
    return [("onnx", onnx.__version__), ("ml_dtypes", m.__version__), ("numpy", np.__version__)], conversions


def tensorflow_profile():
    import ml_dtypes as m
    import tensorflow as tf
    tf.config.threading.set_intra_op_parallelism_threads(1)
    names = {"e4m3": tf.dtypes.experimental.float8_e4m3fn, "e5m2": tf.dtypes.experimental.float8_e5m2, "bf16": tf.bfloat16, "fp16": tf.float16}
    for target in ("e4m3fnuz", "e5m2fnuz", "e4m3b11fnuz"):
        kind = getattr(tf.dtypes.experimental, "float8_" + target, None)
        if kind is not None:
            names[target] = kind
    floats = {"fp64": np.float64, "fp32": np.float32, "fp16": np.float16, "bf16": m.bfloat16}
    conversions = conversions_to(names, lambda kind: f"tf.cast(x, {kind.name}), CPU",
                                 lambda x, source, kind: tf.cast(tf.constant(x.view(floats[source])), kind).numpy())
    return [("tensorflow", tf.__version__), ("ml_dtypes", m.__version__)], conversions


def microxcaling_profile():
    pairs = [("fp32", t) for t in ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1", "bf16", "fp16")]
    return [("microxcaling", "re-derived from microsoft/microxcaling 4adf988")], native(["-DPEER_MICROXCALING"], "microxcaling", pairs, "re-derived: _quantize_elemwise_core, round nearest")


def native(source_flags, how, pairs, called):
    here = pathlib.Path(__file__).resolve().parent
    library = pathlib.Path(tempfile.mkdtemp()) / "peer.so"
    subprocess.run(["g++", "-std=c++20", "-O2", "-shared", "-fPIC", *source_flags, str(here / "native_casts.cpp"), "-o", str(library)], check=True)
    convert = ctypes.CDLL(str(library)).convert
    convert.argtypes = [ctypes.c_char_p] * 3 + [ctypes.c_void_p] * 2 + [ctypes.c_uint64]

    def run(x, source, target):
        out = np.empty(x.size, np.uint32 if target == "fp32" else np.uint16 if target in ("fp16", "bf16") else np.uint8)
        assert convert(how.encode(), source.encode(), target.encode(), x.ctypes.data, out.ctypes.data, x.size), (how, source, target)
        return out

    return [Conversion(s, t, called, lambda x, s=s, t=t: run(x, s, t)) for s, t in pairs]


def cuda_profile(how, include):
    header = (pathlib.Path(include) / "cuda_runtime_api.h").read_text()
    version = int(next(line.split()[2] for line in header.splitlines() if line.startswith("#define CUDART_VERSION")))
    pairs = [(s, t) for t in ("e4m3", "e5m2") for s in SOURCES] + [(s, "e8m0") for s in ("fp32", "bf16", "fp64")]
    pairs += [(s, t) for t in ("e3m2", "e2m3", "e2m1") for s in SOURCES] if how == "cuda-satfinite" else [(s, t) for t in ("fp16", "bf16") for s in ("fp32", "fp64")]
    conversions = native(["-DPEER_CUDA", "-isystem", include], how, pairs, "host code of cuda_fp8.h, cuda_fp6.h, cuda_fp4.h" if how == "cuda-satfinite" else "host code of cuda_fp8.h, cuda_fp16.h, cuda_bf16.h")
    return [("CUDA headers", f"{version // 1000}.{version // 10 % 100}")], conversions


def x86_profile():
    model = next(line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))
    return [("instructions of", model)], native(["-DPEER_X86", "-mf16c", "-mavx512bf16", "-mavx512vl"], "x86", [("fp32", "fp16"), ("fp32", "bf16"), ("fp64", "fp32")],
                                                "VCVTPS2PH, VCVTNEPS2BF16, CVTSD2SS")


def legacy_profile(folder):
    version = next(line.split("'")[1] for line in (pathlib.Path(folder) / "version.py").read_text().splitlines() if line.startswith("__version__"))
    pairs = [(s, t) for t in ("e4m3", "e5m2") for s in ("fp32", "fp16", "bf16")]
    return [("torch", version)], native(["-DPEER_TORCH", "-isystem", str(pathlib.Path(folder) / "include")], "pytorch-legacy", pairs, "constructors of c10/util, host code of the wheel's headers")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--some", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--cuda", default="/usr/local/cuda/include")
    parser.add_argument("--torch-legacy", default="")
    parser.add_argument("--out", default=str(pathlib.Path(__file__).resolve().parent / "casts"))
    options = parser.parse_args()
    profiles = {"ml_dtypes": ml_dtypes_profile, "pytorch": pytorch_profile, "onnx": lambda: onnx_cast(True), "onnx-nosaturate": lambda: onnx_cast(False),
                "tensorflow": tensorflow_profile, "microxcaling": microxcaling_profile, "cuda-satfinite": lambda: cuda_profile("cuda-satfinite", options.cuda),
                "cuda-nosat": lambda: cuda_profile("cuda-nosat", options.cuda), "x86": x86_profile,
                "pytorch-legacy": lambda: legacy_profile(options.torch_legacy)}
    only = options.only.split(",") if options.only else list(profiles)
    failed = False
    np.seterr(all="ignore")
    for name in only:
        path = pathlib.Path(options.out) / f"{name}.txt"
        try:
            versions, conversions = profiles[name]()
        except Exception as error:  # a library that is missing, of another age, or for another machine
            print(f"{name}: skipped: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
            continue
        committed = path.read_text().split("\n= ") if options.check and path.exists() else []
        lines = [f"# {library} {version}" for library, version in versions]
        for conversion in conversions:
            try:
                mine = conversion.lines(options.some)
            except Exception as error:
                print(f"{name} {conversion.source} {conversion.target}: skipped: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}", flush=True)
                continue
            if options.check:
                # The called function and the version may change; results may not.
                theirs = next((block for block in committed if block.split("  ")[0] == f"{conversion.source} {conversion.target}"), None)
                known = theirs.strip().split("\n")[1:] if theirs is not None else []
                # Only chunks where either side has no more.
                part = "some inputs" in known or "some inputs" in mine
                same = [x for x in known if not part or x.startswith("chunk")] == [x for x in mine[1:] if not part or x.startswith("chunk")] and theirs is not None
                failed |= not same
                print(f"{name} {conversion.source} {conversion.target}: {'same' if same else 'not committed' if theirs is None else 'DIFFERS'}", flush=True)
            lines += mine
        if not options.check:
            path.write_text("\n".join(lines) + "\n")
            print(f"{name}: {len(conversions)} conversions, {', '.join(f'{a} {b}' for a, b in versions)}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
