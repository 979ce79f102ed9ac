#!/usr/bin/env python3
"""Scales and code words of block formats by other people's libraries, as digests: tests/golden/block_vectors.json.

    python tests/peers/block_vectors.py [--out FILE]        needs numpy, ml_dtypes, torch, torchao
    python tests/peers/block_vectors.py --check FILE        status 1 where a library has changed its mind

The blocks come from SplitMix64 by integer operations only, so that tests/emulation/block/block_vectors_test.cpp has the
same ones without Python. Where a library is known to leave its own definition, blocks are told apart by a stated
condition: their elements (or scales) are left out of the digests, and the first few are kept as witnesses, which the
test sees to differ from ours.
"""
import argparse, json, sys
import numpy as np

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mixed(z):
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def words(seed, count):
    """The output of SplitMix64 after that seed."""
    with np.errstate(over="ignore"):
        return mixed(np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * GOLDEN)


def digest(values, kept):
    """A sum over the kept elements of a mix of place and value."""
    places = np.nonzero(kept.ravel())[0].astype(np.uint64)
    with np.errstate(over="ignore"):
        return "%016x" % int(mixed(places * GOLDEN + values.ravel()[kept.ravel()].astype(np.uint64)).sum(dtype=np.uint64))


FRACTIONS = np.array([0, 1, 0x7FFFFF, 0x400000, 0x3FFFFF, 0x400001, 0x600000, 0x5FFFFF, 0x600001, 0x700000, 0x6FFFFF, 0x700001, 0x780000,
                      0x77FFFF, 0x780001, 0x7C0000, 0x7E0000, 0x7F0000, 0x0FFFFF, 0x200000], dtype=np.uint64)


def blocks(seed, count, size, low, high, special):
    """count x size floats. Each block's largest magnitude has an exponent field from low to high and a fraction from
    the table or at random. The others are smaller, many with few fraction bits, so that ties occur. With `special`, one
    block in 64 holds only zeros, one an infinity and one a NaN."""
    w = words(seed, count * size).reshape(count, size)
    v = words(seed + 1, count)
    u = np.uint64
    field = u(low) + v % u(high - low + 1)
    pick = (v >> u(20)) % u(len(FRACTIONS) * 2)
    fraction = np.where(pick < len(FRACTIONS), FRACTIONS[np.minimum(pick, u(len(FRACTIONS) - 1))], (v >> u(32)) & u(0x7FFFFF))
    below = (w >> u(48)) % u(14)
    e = np.maximum(field[:, None].astype(np.int64) - below.astype(np.int64), 0).astype(np.uint64)
    kept = np.array([23, 1, 2, 3, 4, 5, 6, 23], dtype=np.uint64)[(w >> u(40)) % u(8)]
    f = (w & u(0x7FFFFF)) >> (u(23) - kept) << (u(23) - kept)
    magnitude = np.minimum(e << u(23) | f, (field << u(23) | fraction)[:, None])
    rows, at = np.arange(count), (v >> u(56)) % u(size)
    magnitude[rows, at] = field << u(23) | fraction
    if special:
        kind = rows % 64
        magnitude[kind == 9] = 0
        magnitude[rows[kind == 19], at[kind == 19]] = 0x7F800000
        magnitude[rows[kind == 29], at[kind == 29]] = 0x7FC00000
    return (magnitude | (w >> u(63) << u(31))).astype(np.uint32).view(np.float32)


class Case:
    def __init__(self, library, fmt, x, scales, codes, rows, columns, inputs, tensor=None):
        self.library, self.format, self.x, self.inputs = library, fmt, x, inputs
        self.scales, self.codes, self.rows, self.columns, self.tensor = np.asarray(scales), np.asarray(codes), rows, columns, tensor
        self.deviations = []
        self.scale_kept = np.ones(self.scales.size, bool)
        self.code_kept = np.ones(self.codes.shape, bool)

    def leave_out(self, where, what, why):
        """Blocks (one per row of x) whose elements, or whose scale too, are not compared. `why` is a deviation or
        None."""
        where = np.asarray(where) & self.code_kept.all(axis=1)
        self.code_kept[where] = False
        if what == "scales":
            self.scale_kept[where] = False
        if why and where.any():
            self.deviations.append({"what": what, "why": why, "blocks": int(where.sum()), "witnesses": [int(i) for i in np.nonzero(where)[0]],
                                    "scales": [int(s) for s in self.scales[where]], "digest": digest(self.codes, np.repeat(where[:, None], self.codes.shape[1], 1))})

    def json(self):
        j = {"library": self.library, "format": self.format, "rows": self.rows, "columns": self.columns, **self.inputs,
             "scales": digest(self.scales, self.scale_kept), "scales_compared": int(self.scale_kept.sum()),
             "codes": digest(self.codes, self.code_kept), "codes_compared": int(self.code_kept.sum()),
             "left_out": [int(i) for i in np.nonzero(~self.code_kept.all(axis=1))[0]], "scales_left_out": [int(i) for i in np.nonzero(~self.scale_kept)[0]],
             "deviations": self.deviations}
        if self.tensor is not None:
            j["tensor_scale"] = int(np.float32(self.tensor).view(np.uint32))
        return j


def inputs(seed, count, size, low, high, special):
    return {"seed": seed, "blocks": count, "size": size, "low": low, "high": high, "special": special}


def torchao_mx():
    import torch
    from torchao.prototype.mx_formats.config import ScaleCalculationMode as Mode
    from torchao.prototype.mx_formats.mx_tensor import to_mx
    formats = {"mxfp8e4m3": (torch.float8_e4m3fn, 448), "mxfp8e5m2": (torch.float8_e5m2, 57344), "mxfp6e3m2": ("fp6_e3m2", 28),
               "mxfp6e2m3": ("fp6_e2m3", 7.5), "mxfp4": (torch.float4_e2m1fn_x2, 6)}
    for n, (name, (dtype, most)) in enumerate(formats.items()):
        for m, mode in enumerate([Mode.FLOOR, Mode.CEIL, Mode.EVEN, Mode.RCEIL]):
            given = inputs(1000 + 10 * n + m, 4096, 32, 0, 254, True)
            x = blocks(*given.values())
            scales, codes = to_mx(torch.from_numpy(x.copy()), dtype, 32, mode)
            scales = scales.view(torch.uint8).numpy().ravel()
            codes = codes.view(torch.uint8).numpy()
            if name == "mxfp4":  # packed, low nibble first
                codes = np.stack([codes & 15, codes >> 4], -1).reshape(x.shape)
            case = Case("torchao", name + "/" + mode.value, x, scales, codes, 4096, 32, given)
            amax = np.abs(x).max(axis=1)
            case.leave_out(np.isnan(amax), "codes", None)  # a NaN scale is enough
            if mode == Mode.RCEIL:
                q = (amax / np.float32(most)).astype(np.float32).view(np.uint32)
                f = q & 0x7FFFFF
                case.leave_out(np.isfinite(amax) & (f > 0) & (f <= 64) & (q >> 23 > 0), "scales",
                               "ceil(log2(q)) in float32: just above a power of two the logarithm is rounded to it, and the scale is half of RCEIL's")
                case.leave_out((scales == 0) & (amax > 0), "codes", "blocks with the scale 2^-127 are multiplied by 1")
            else:
                case.leave_out((scales == 0) & (amax > 0), "codes", "blocks with the scale 2^-127 are divided by 2^-126")
            yield case


def ml_dtypes_mx():
    """The rule floor by frexp; numpy divides and clips the elements, ml_dtypes casts them."""
    import ml_dtypes
    for n, (name, dtype) in enumerate({"mxfp8e4m3": ml_dtypes.float8_e4m3fn, "mxfp8e5m2": ml_dtypes.float8_e5m2, "mxfp6e3m2": ml_dtypes.float6_e3m2fn,
                                       "mxfp6e2m3": ml_dtypes.float6_e2m3fn, "mxfp4": ml_dtypes.float4_e2m1fn}.items()):
        given = inputs(2000 + n, 4096, 32, 0, 254, True)
        x = blocks(*given.values())
        most = np.float32(ml_dtypes.finfo(dtype).max)
        amax = np.abs(x).max(axis=1)
        k = np.frexp(np.where(np.isfinite(amax), amax, 1).astype(np.float64))[1] - 1 - (np.frexp(np.float64(most))[1] - 1)
        k = np.clip(np.where(np.isinf(amax), 128 - (np.frexp(np.float64(most))[1] - 1), np.where(amax == 0, -127, k)), -127, 127)
        scales = np.where(np.isnan(amax), 255, k + 127).astype(np.uint8)
        q = np.clip((x.astype(np.float64) / np.exp2(k.astype(np.float64))[:, None]), -most, most)
        case = Case("ml_dtypes", name, x, scales, q.astype(np.float32).astype(dtype).view(np.uint8), 4096, 32, given)
        case.leave_out(np.isnan(amax), "codes", None)
        yield case


def microxcaling():
    """microsoft/microxcaling's published rules (mx/mx_ops.py, mx/elemwise_ops.py, mx/formats.py), written anew: the exponent is
    floor(log2 amax) - emax; elements are rounded to mbits of significand, or to integers, round = even, clamped to max_norm."""
    formats = {"mxfp8e4m3": (4, 3, 8, 448.0), "mxfp8e5m2": (5, 2, 15, 57344.0), "mxfp6e3m2": (3, 2, 4, 28.0), "mxfp6e2m3": (2, 3, 2, 7.5), "mxfp4": (2, 1, 2, 6.0), "mxint8": (0, 6, 0, 127 / 64)}
    for n, (name, (ebits, mbits, emax, most)) in enumerate(formats.items()):
        given = inputs(3000 + n, 4096, 32, 0, 254, False)
        x = blocks(*given.values())
        amax = np.abs(x).max(axis=1).astype(np.float64)
        k = np.maximum(np.where(amax == 0, -126, np.frexp(amax)[1] - 1) - emax, -127)
        q = x.astype(np.float64) / np.exp2(k.astype(np.float64))[:, None]
        low = np.maximum(np.frexp(q)[1] - 1, 2 - 2 ** (ebits - 1)) if ebits else np.zeros(q.shape, int)
        unit = np.exp2((low - mbits).astype(np.float64))
        a = np.abs(q) / unit
        rounded = np.floor(a + 0.5) - ((a - 0.5) % 2 == 0)
        value = np.sign(q) * np.minimum(rounded * unit, most)
        if ebits:  # values to code words, by their order
            bias = 2 ** (ebits - 1) - 1
            v = np.abs(value)
            e = np.where(v == 0, 1 - bias, np.maximum(np.frexp(v)[1] - 1, 1 - bias))
            units = np.rint(v / np.exp2((e - mbits).astype(np.float64))).astype(np.int64)
            codes = (units + ((e + bias - 1) << mbits)) | (np.signbit(q).astype(np.int64) << (ebits + mbits))
        else:
            codes = np.rint(value * 64).astype(np.int64) & 255
        yield Case("microxcaling's rules", name, x, k + 127, codes.astype(np.uint8), 4096, 32, given)


def torchao_nvfp4():
    import torch
    from torchao.prototype.mx_formats.nvfp4_tensor import nvfp4_quantize, per_tensor_amax_to_scale
    for n, (low, high) in enumerate([(120, 131), (60, 70), (116, 118), (150, 160)]):
        given = inputs(4000 + n, 8192, 16, low, high, False)
        x = blocks(*given.values())
        t = torch.from_numpy(x.copy())
        tensor = per_tensor_amax_to_scale(t.abs().max())
        scales, codes = nvfp4_quantize(t.reshape(1, -1), 16, tensor)
        codes = codes.numpy().reshape(-1, 8)
        yield Case("torchao", "nvfp4", x, scales.view(torch.uint8).numpy().ravel(), np.stack([codes & 15, codes >> 4], -1).reshape(x.shape), 8192, 16, given, tensor.item())
    given = inputs(4010, 8192, 16, 110, 140, False)
    x = blocks(*given.values())
    scales, codes = nvfp4_quantize(torch.from_numpy(x.copy()), 16)
    codes = codes.numpy().reshape(-1, 8)
    yield Case("torchao", "e2m1/1x16/e4m3/amax/reciprocal", x, scales.view(torch.uint8).numpy().ravel(), np.stack([codes & 15, codes >> 4], -1).reshape(x.shape), 8192, 16, given)


def torchao_float8():
    import torch
    from torchao.float8.config import ScalingGranularity
    from torchao.float8.float8_utils import tensor_to_scale, to_fp8_saturated
    from torchao.quantization.quant_primitives import _choose_scale_float8, _quantize_affine_float8
    for n, (name, dtype, size) in enumerate([("fp8-1x128", torch.float8_e4m3fn, 128), ("e5m2/1x128/fp32", torch.float8_e5m2, 128), ("e4m3-row", torch.float8_e4m3fn, 300), ("e5m2-row", torch.float8_e5m2, 300)]):
        given = inputs(5000 + n, 1024, size, 60, 200, False)
        x = blocks(*given.values())
        t = torch.from_numpy(x.copy())
        scales = _choose_scale_float8(t, [1, size], dtype)
        codes = _quantize_affine_float8(t, scales, dtype)
        yield Case("torchao", name, x, scales.numpy().view(np.uint32).ravel(), codes.view(torch.uint8).numpy(), 1024, size, given)
    given = inputs(5010, 1024, 128, 100, 150, False)
    x = blocks(*given.values())
    t = torch.from_numpy(x.copy())
    multiplier = tensor_to_scale(t, torch.float8_e4m3fn, scaling_granularity=ScalingGranularity.AXISWISE, axiswise_dim=1)
    codes, scales = to_fp8_saturated(t * multiplier, torch.float8_e4m3fn), 1.0 / multiplier
    yield Case("torchao", "e4m3/1x128/fp32/amax/multiplier", x, scales.contiguous().numpy().view(np.uint32).ravel(), codes.view(torch.uint8).numpy(), 1024, 128, given)


def deepseek():
    """inference/kernel.py of DeepSeek-V3 (act_quant, weight_quant): s = amax / 448, y = x / s, with torch's operations and casts;
    and its powers of two as DeepGEMM has them: the exponent field of s, plus one where the fraction is not zero."""
    import torch
    for n, (name, size) in enumerate([("fp8-1x128", 128), ("fp8-1x128-pow2", 128), ("fp8-128x128", 16384), ("fp8-128x128-pow2", 16384)]):
        given = inputs(6000 + n, 1024 if size == 128 else 16, size, 60, 200, False)
        x = blocks(*given.values())
        t = torch.from_numpy(x.copy())
        s = t.abs().amax(dim=1, keepdim=True) / 448.0
        if "pow2" in name:
            b = s.view(torch.int32)
            s = (((b >> 23) + (b & 0x7FFFFF).ne(0).to(torch.int32)) << 23).view(torch.float32)
        codes = (t / s).to(torch.float8_e4m3fn).view(torch.uint8).numpy()
        rows, columns = (1024, 128) if size == 128 else (16 * 128, 128)
        yield Case("DeepSeek's rules, torch's casts", name, x, s.numpy().view(np.uint32).ravel(), codes, rows, columns, given)


def torchao_integers():
    import torch
    from torchao.quantization.quant_primitives import MappingType, choose_qparams_affine, quantize_affine
    for n, (name, kind, dtype, low, high, size) in enumerate([
            ("int8", MappingType.SYMMETRIC, torch.int8, -127, 127, 257), ("int8-affine", MappingType.ASYMMETRIC, torch.int8, -128, 127, 257),
            ("int4", MappingType.SYMMETRIC, torch.int8, -8, 7, 128), ("int4-affine", MappingType.ASYMMETRIC, torch.uint8, 0, 15, 128)]):
        given = inputs(7000 + n, 1024, size, 60, 200, False)
        x = blocks(*given.values())
        if "affine" in name:  # every fourth block has one sign
            x[::4] = np.abs(x[::4])
            x[1::4] = -np.abs(x[1::4])
        t = torch.from_numpy(x.copy())
        scales, zeros = choose_qparams_affine(t, kind, (1, size), dtype, low, high)
        codes = quantize_affine(t, (1, size), scales, zeros, dtype, low, high).numpy()
        bits = 8 if "int8" in name else 4
        case = Case("torchao", name, x, scales.numpy().view(np.uint32).ravel(), codes.astype(np.int64).astype(np.uint8) & (2 ** bits - 1), 1024, size, given)
        if "affine" in name:
            case.zeros = digest((zeros.numpy().ravel().astype(np.int64) + 1000).astype(np.uint64), np.ones(1024, bool))
        yield case


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", default="tests/golden/block_vectors.json")
    options.add_argument("--check", help="compare with this file instead of writing one")
    given = options.parse_args()
    import ml_dtypes, torch, torchao
    cases = []
    for source in (torchao_mx, ml_dtypes_mx, microxcaling, torchao_nvfp4, torchao_float8, deepseek, torchao_integers):
        for case in source():
            j = case.json()
            if hasattr(case, "zeros"):
                j["zeros"] = case.zeros
            cases.append(j)
    versions = {"numpy": np.__version__, "ml_dtypes": ml_dtypes.__version__, "torch": torch.__version__, "torchao": torchao.__version__}
    if given.check:
        with open(given.check) as f:
            known = json.load(f)["cases"]
        differing = [c["library"] + " " + c["format"] for c, k in zip(cases, known) if c != k] + ["number of cases"] * (len(cases) != len(known))
        print("%d cases, %d differ from %s%s" % (len(cases), len(differing), given.check, ": " + ", ".join(differing) if differing else ""))
        sys.exit(1 if differing else 0)
    with open(given.out, "w") as f:
        f.write(json.dumps({"made_by": "tests/peers/block_vectors.py", "versions": versions, "cases": cases}, separators=(",", ":")).replace('{"library"', '\n{"library"') + "\n")
    print("%d cases, %d scales, %d codes" % (len(cases), sum(c["scales_compared"] for c in cases), sum(c["codes_compared"] for c in cases)))


if __name__ == "__main__":
    main()
