#!/usr/bin/env python3
"""Files that `halfulp quantize --layout` writes, read by the writers' own dequantization: no value may differ from what
halfulp reads (halfulp.open_checkpoint(...).decoded), and so from what it computed, for that it compares itself.

    python tests/peers/written_layouts.py [WRITER...]

needs the package halfulp, torch, safetensors, and per writer: compressed-tensors 0.20, nvidia-modelopt 0.47, mlx[cpu]
0.32.4. (torchao: python/tests/with_torch/test_torch_checkpoints.py.) Exit status: 1 if a value differs.
"""
import os
import sys
import tempfile
import warnings

warnings.filterwarnings("ignore")
import numpy as np
import torch
from safetensors.torch import load_file, save_file

import halfulp

ROWS, COLUMNS = 256, 256


def compressed_tensors(case):
    from compressed_tensors.compressors.base import BaseCompressor
    from compressed_tensors.compressors.format import infer_module_format
    from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from compressed_tensors.quantization.lifecycle.forward import dequantize

    def read(tensors, activations, weights):
        args = QuantizationArgs(**weights)
        scheme = QuantizationScheme(targets=["Linear"], weights=args, input_activations=activations)
        compressor = BaseCompressor.get_value_from_registry(infer_module_format(torch.nn.Linear, scheme).value)
        if tensors["weight_scale"].dtype == torch.bfloat16:  # or it would compute in bf16
            tensors["weight_scale"] = tensors["weight_scale"].float()
        if args.strategy == "tensor_group":  # whose decompress() rounds to bf16 at the end
            codes = unpack_fp4_from_uint8(tensors["weight_packed"], ROWS, COLUMNS, dtype=torch.float32)
            return dequantize(x_q=codes, scale=tensors["weight_scale"].float(), args=args,
                              global_scale=tensors["weight_global_scale"], dtype=torch.float32)
        return compressor.decompress(tensors, scheme)["weight"]

    def one(format, activations=None, **weights):
        case(format, lambda tensors: read(tensors, activations, weights))

    dynamic = dict(strategy="token", dynamic=True)
    eight, ints = dict(num_bits=8, type="float"), dict(num_bits=8, type="int", **dynamic)
    floats = dict(eight, **dynamic)
    one("e4m3-tensor", floats, **eight, strategy="tensor")
    one("e4m3-row", floats, **eight, strategy="channel")
    one("e4m3/1x32/fp32", floats, **eight, strategy="group", group_size=32)
    one("e4m3/8x16/fp32", floats, **eight, strategy="block", block_structure=[8, 16])
    one("fp8-128x128", floats, **eight, strategy="block", block_structure=[128, 128])
    one("int8", ints, num_bits=8, strategy="channel")
    one("int8affine/row/fp32", ints, num_bits=8, strategy="channel", symmetric=False)
    one("int8full/1x32/fp32", ints, num_bits=8, strategy="group", group_size=32)
    for bits in (2, 3, 4, 5, 6, 7):
        one(f"int{bits}full/1x32/bf16", num_bits=bits, strategy="group", group_size=32)
    one("int4/row/fp32", num_bits=4, strategy="channel")
    one("int4/tensor/fp32", num_bits=4, strategy="tensor")
    one("int4affine/1x32/bf16", num_bits=4, strategy="group", group_size=32, symmetric=False)
    one("int3affine/1x32/fp32", num_bits=3, strategy="group", group_size=32, symmetric=False)
    one("nvfp4", num_bits=4, type="float", strategy="tensor_group", group_size=16, scale_dtype=torch.float8_e4m3fn)
    mx = dict(type="float", strategy="group", group_size=32, scale_dtype=torch.uint8)
    for format, bits in (("mxfp4", 4), ("mxfp6e2m3", 6), ("mxfp8e4m3", 8)):
        one(format, num_bits=bits, **mx)


def modelopt(case):
    from modelopt.torch.quantization.qtensor import FP8QTensor, INT8QTensor, MXFP4QTensor, MXFP8QTensor, NVFP4QTensor
    shape, f32 = torch.Size((ROWS, COLUMNS)), torch.float32

    def fp8(blocks=None):
        def read(t):
            scale = t["weight_scale"]
            scale = scale[:, 0, :, 0] if scale.dim() == 4 else scale[:, None] if scale.dim() == 1 else scale
            return FP8QTensor(shape, f32, t["weight"]).dequantize(f32, scale=scale, block_sizes=blocks)
        return read

    case("e4m3-tensor", fp8())
    case("e4m3-row", fp8())
    case("fp8-128x128", fp8({-1: 128, -2: 128}))
    case("int8", lambda t: INT8QTensor(shape, f32, t["weight"]).dequantize(f32, scale=t["weight_scale"][:, None]))
    case("nvfp4", lambda t: NVFP4QTensor(shape, f32, t["weight"]).dequantize(
        f32, scale=t["weight_scale"], double_scale=t["weight_scale_2"], block_sizes={-1: 16}))
    case("mxfp8e4m3", lambda t: MXFP8QTensor(shape, f32, t["weight"]).dequantize(f32, scale=t["weight_scale"]))
    case("mxfp4", lambda t: MXFP4QTensor(shape, f32, t["weight"]).dequantize(f32, scale=t["weight_scale"],
                                                                            block_sizes={-1: 32}))


def mlx(case):
    import mlx.core as mx
    for format, mode, group, bits in (("mxfp4", "mxfp4", 32, 4), ("mxfp8e4m3", "mxfp8", 32, 8),
                                      ("e2m1/1x16/e4m3", "nvfp4", 16, 4)):
        case(format, lambda t: torch.from_numpy(np.array(mx.dequantize(
            mx.array(t["weight"].numpy()), mx.array(t["scales"].numpy()), group_size=group, bits=bits, mode=mode,
            dtype=mx.float32))))


def main():
    writers = {"compressed-tensors": compressed_tensors, "modelopt": modelopt, "mlx": mlx}
    differing = 0
    with tempfile.TemporaryDirectory() as folder:
        model, new = os.path.join(folder, "model.safetensors"), os.path.join(folder, "new.safetensors")
        torch.manual_seed(5)
        weight = torch.randn(ROWS, COLUMNS) * torch.exp(torch.randn(ROWS, 1))
        weight[3] = 0
        save_file({"a.weight": weight.bfloat16()}, model)
        for layout in sys.argv[1:] or writers:
            def case(format, read):
                nonlocal differing
                halfulp.quantize_checkpoint(model, new, format, layout=layout)
                ours = torch.from_numpy(halfulp.open_checkpoint(new).decoded("a.weight"))
                theirs = read({name.removeprefix("a."): t for name, t in load_file(new).items()})
                wrong = int((theirs.float().reshape(ROWS, COLUMNS) != ours).sum())
                differing += wrong
                print(f"{layout} {format}: {wrong} of {ours.numel()} values differ")
            writers[layout](case)
    return differing > 0


if __name__ == "__main__":
    sys.exit(main())
