#!/usr/bin/env python3
"""Tiny checkpoints by the writers of encoded weights, and the values that their own dequantization gives in fp32.
tests/data/layouts_test.cpp compares data/layouts.hpp with them.

    python tests/peers/layouts.py OUT_FOLDER [WRITER...]

needs torch, safetensors, and per writer: compressed-tensors 0.20, nvidia-modelopt 0.47, torchao 0.18, mlx[cpu] 0.32.4,
transformers 5.24. Per writer WRITER.safetensors and WRITER.values.safetensors; config.json is MLX's.

Scales of 16 bits are handed to the writers' dequantization as fp32, so that it computes in fp32. Where a writer cannot
quantize on a CPU, code words and scales are random: "decoded only" below.
"""
import copy
import json
import os
import sys
import warnings

warnings.filterwarnings("ignore")
import torch
from safetensors.torch import save_file

torch.set_num_threads(1)


def weight(rows, columns, dtype=torch.bfloat16):
    """A few large columns and one zero row, so that groups differ."""
    w = torch.randn(rows, columns) * 0.05
    w[:, ::17] *= 8
    w[1] = 0
    return w.to(dtype)


def compressed_tensors():
    from compressed_tensors.compressors.base import BaseCompressor
    from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
    from compressed_tensors.compressors.format import infer_module_format
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from compressed_tensors.quantization.lifecycle.forward import dequantize
    from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam

    tensors, values = {}, {}

    def case(name, rows, columns, activations=None, weights=None):
        args = QuantizationArgs(**weights)
        scheme = QuantizationScheme(targets=["Linear"], weights=args, input_activations=activations)
        form = infer_module_format(torch.nn.Linear, scheme)
        compressor = BaseCompressor.get_value_from_registry(form.value)
        w = weight(rows, columns)
        if args.strategy == "tensor":
            parts, shape = w.reshape(1, -1), (1,)
        elif args.strategy == "channel":
            parts, shape = w, (rows, 1)
        elif args.strategy == "block":
            down, across = args.block_structure
            blocks = (-(-rows // down), -(-columns // across))
            padded = torch.zeros(blocks[0] * down, blocks[1] * across, dtype=w.dtype)
            padded[:rows, :columns] = w
            parts = padded.reshape(blocks[0], down, blocks[1], across).transpose(1, 2)
            parts = parts.reshape(blocks[0] * blocks[1], -1)
            shape = blocks
        else:
            parts, shape = w.reshape(-1, args.group_size), (rows, columns // args.group_size)
        state = {"weight": w}
        extra = {}
        if args.strategy == "tensor_group":
            extra["global_scale"] = state["weight_global_scale"] = generate_gparam(w.min().float(), w.max().float())
        scale, zero = calculate_qparams(parts.amin(1), parts.amax(1), args, **extra)
        state["weight_scale"], state["weight_zero_point"] = scale.reshape(shape), zero.reshape(shape)
        state = compressor.compress(state, scheme)
        for key, tensor in state.items():
            tensors[f"{name}.{key}"] = tensor.contiguous()
        exact = dict(state)
        if exact["weight_scale"].dtype in (torch.bfloat16, torch.float16):
            exact["weight_scale"] = exact["weight_scale"].float()
        if args.strategy == "tensor_group":  # whose decompress() rounds to bf16 at the end
            codes = unpack_fp4_from_uint8(exact["weight_packed"], rows, columns, dtype=torch.float32)
            out = dequantize(x_q=codes, scale=exact["weight_scale"].float(), args=args,
                             global_scale=exact["weight_global_scale"], dtype=torch.float32)
        else:
            out = compressor.decompress(exact, scheme)["weight"]
        values[f"{name}.weight"] = out.float().contiguous()
        print("compressed-tensors", name, form.value, {k: (str(t.dtype), list(t.shape)) for k, t in state.items()})

    eight = dict(num_bits=8, type="float")
    dynamic = dict(num_bits=8, type="float", strategy="token", dynamic=True)
    case("fp8_tensor", 4, 64, dynamic, dict(eight, strategy="tensor"))
    case("fp8_channel", 8, 64, dynamic, dict(eight, strategy="channel"))
    case("fp8_group", 4, 64, dynamic, dict(eight, strategy="group", group_size=32))
    case("fp8_block", 20, 40, dynamic, dict(eight, strategy="block", block_structure=[8, 16]))
    ints = dict(num_bits=8, type="int", strategy="token", dynamic=True)
    case("int8_channel", 8, 64, ints, dict(num_bits=8, strategy="channel"))
    case("int8_asymmetric", 8, 64, ints, dict(num_bits=8, strategy="channel", symmetric=False))
    for bits in (2, 3, 4, 5, 6, 7, 8):
        case(f"pack{bits}", 4, 64, None, dict(num_bits=bits, strategy="group", group_size=32))
    case("pack4_channel", 8, 64, None, dict(num_bits=4, strategy="channel"))
    case("pack4_tensor", 8, 64, None, dict(num_bits=4, strategy="tensor"))
    case("pack4_asymmetric", 20, 64, None, dict(num_bits=4, strategy="group", group_size=32, symmetric=False))
    case("pack3_asymmetric", 20, 64, None, dict(num_bits=3, strategy="group", group_size=32, symmetric=False))
    case("pack4_tensor_asymmetric", 8, 64, None, dict(num_bits=4, strategy="tensor", symmetric=False))
    case("nvfp4", 4, 128, None, dict(num_bits=4, type="float", strategy="tensor_group", group_size=16,
                                     scale_dtype=torch.float8_e4m3fn))
    mx = dict(type="float", strategy="group", group_size=32, scale_dtype=torch.uint8)
    case("mxfp4", 4, 128, None, dict(mx, num_bits=4))
    case("mxfp6", 4, 128, None, dict(mx, num_bits=6))
    case("mxfp8", 4, 128, None, dict(mx, num_bits=8))
    return tensors, values, None


def modelopt():
    import modelopt.torch.quantization as mtq
    from modelopt.torch.export.unified_export_hf import _export_quantized_weight
    from modelopt.torch.quantization.qtensor import (FP8QTensor, INT8QTensor, MXFP4QTensor, MXFP8QTensor, NVFP4QTensor)

    tensors, values = {}, {}

    def case(name, config, rows, columns, dequantize=None):
        """Without `dequantize` the values are what its fake quantization made of the weight."""
        linear = torch.nn.Linear(columns, rows, bias=False).to(torch.bfloat16)
        linear.weight.data = weight(rows, columns)
        model = torch.nn.Sequential(linear)
        x = torch.randn(8, columns).to(torch.bfloat16)
        model = mtq.quantize(model, copy.deepcopy(config), lambda m: [m(x) for _ in range(2)])
        fake = None if dequantize else model[0].weight_quantizer(model[0].weight.detach().float())
        _export_quantized_weight(model[0], torch.bfloat16)
        state = {k[2:]: v for k, v in model.state_dict().items() if "quantizer" not in k}
        for key, tensor in state.items():
            tensors[f"{name}.{key}"] = tensor.contiguous()
        exact = fake
        if dequantize:
            exact = dequantize(state["weight"], state["weight_scale"], state.get("weight_scale_2"), (rows, columns))
        values[f"{name}.weight"] = exact.detach().float().reshape(rows, columns).contiguous()
        print("modelopt", name, {k: (str(t.dtype), list(t.shape)) for k, t in state.items()})

    f32 = torch.float32

    def fp8(w, s, s2, shape, blocks=None):
        if s.dim() == 4:
            s = s[:, 0, :, 0]
        return FP8QTensor(torch.Size(shape), f32, w).dequantize(f32, scale=s[:, None] if s.dim() == 1 else s,
                                                                 block_sizes=blocks)

    def nvfp4(block):
        return lambda w, s, s2, shape: NVFP4QTensor(torch.Size(shape), f32, w).dequantize(
            f32, scale=s, double_scale=s2, block_sizes={-1: block})

    case("fp8", mtq.FP8_DEFAULT_CFG, 8, 64, fp8)
    case("fp8_channel", mtq.FP8_PER_CHANNEL_PER_TOKEN_CFG, 8, 64, fp8)
    blocks = copy.deepcopy(mtq.FP8_2D_BLOCKWISE_WEIGHT_ONLY_CFG)
    for entry in blocks["quant_cfg"]:
        if "weight_quantizer" in entry["quantizer_name"]:
            entry["cfg"]["block_sizes"] = {-1: 16, -2: 16}
    case("fp8_block", blocks, 32, 48, lambda w, s, s2, shape: fp8(w, s, s2, shape, {-1: 16, -2: 16}))
    case("int8", mtq.INT8_SMOOTHQUANT_CFG, 8, 64, lambda w, s, s2, shape: INT8QTensor(
        torch.Size(shape), f32, w).dequantize(f32, scale=s[:, None]))
    case("nvfp4", mtq.NVFP4_DEFAULT_CFG, 4, 128, nvfp4(16))
    case("w4a8_nvfp4", mtq.W4A8_NVFP4_FP8_CFG, 4, 128, nvfp4(32))
    case("mxfp8", mtq.MXFP8_DEFAULT_CFG, 4, 128, lambda w, s, s2, shape: MXFP8QTensor(
        torch.Size(shape), f32, w).dequantize(f32, scale=s))
    case("mxfp4", mtq.MXFP4_DEFAULT_CFG, 4, 128, lambda w, s, s2, shape: MXFP4QTensor(
        torch.Size(shape), f32, w).dequantize(f32, scale=s, block_sizes={-1: 32}))
    # It has no dequantization of this layout.
    case("int4_awq", mtq.INT4_BLOCKWISE_WEIGHT_ONLY_CFG, 4, 256)
    return tensors, values, None


def torchao():
    from torchao.prototype.mx_formats.mx_tensor import MXTensor
    from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor, per_tensor_amax_to_scale
    from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict
    from torchao.quantization import (Float8Tensor, Int8WeightOnlyConfig, IntxWeightOnlyConfig, quantize_)
    from torchao.quantization.granularity import PerBlock, PerGroup, PerRow, PerTensor

    weights, values = {}, {}

    def case(name, tensor, exact):
        weights[f"{name}.weight"], values[f"{name}.weight"] = tensor, exact.float().contiguous()

    def by_config(name, config, dtype=torch.float32):
        linear = torch.nn.Sequential(torch.nn.Linear(64, 8, bias=False, dtype=dtype))
        linear[0].weight.data = weight(8, 64, dtype)
        quantize_(linear, config)
        t = linear[0].weight
        case(name, t.data if type(t) is torch.nn.Parameter else t, t.dequantize())

    for name, granularity, shape in (("fp8_row", PerRow(), (8, 64)), ("fp8_tensor", PerTensor(), (8, 64)),
                                     ("fp8_block", PerBlock([16, 32]), (32, 64))):
        t = Float8Tensor.from_hp(weight(*shape), granularity=granularity)
        case(name, t, t.dequantize(torch.float32))
    by_config("int8", Int8WeightOnlyConfig(version=2))
    by_config("intx4", IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32)))
    for name, swizzled, shape in (("nvfp4", False, (4, 128)), ("nvfp4_swizzled", True, (130, 80))):
        w = weight(*shape)
        t = NVFP4Tensor.to_nvfp4(w, per_tensor_scale=per_tensor_amax_to_scale(w.abs().max().float()),
                                 is_swizzled_scales=swizzled)
        case(name, t, t.dequantize(torch.float32))
    t = NVFP4Tensor.to_nvfp4(weight(8, 64))
    case("nvfp4_one_level", t, t.dequantize(torch.float32))
    for name, kind, swizzled in (("mxfp8e4m3", torch.float8_e4m3fn, False), ("mxfp8e5m2", torch.float8_e5m2, False),
                                 ("mxfp4", torch.float4_e2m1fn_x2, False), ("mxfp6e2m3", "fp6_e2m3", False),
                                 ("mxfp6e3m2", "fp6_e3m2", False), ("mxfp8_swizzled", torch.float8_e4m3fn, True)):
        t = MXTensor.to_mx(weight(*((40, 160) if swizzled else (4, 64))), kind, 32, is_swizzled_scales=swizzled)
        case(name, t, t.dequantize(torch.float32))
    tensors, metadata = flatten_tensor_state_dict(weights)
    for key, tensor in tensors.items():
        print("torchao", key, str(tensor.dtype), list(tensor.shape))
    return {k: v.contiguous() for k, v in tensors.items()}, values, metadata


def mlx(folder):
    import mlx.core as mx
    import numpy

    mx.set_default_device(mx.cpu)
    tensors, values, quantization = {}, {}, {"group_size": 64, "bits": 4, "mode": "affine"}

    def case(name, dtype, mode, group, bits, global_scale=None):
        w = mx.array(weight(4, 128, torch.float32).numpy()).astype(dtype)
        options = dict(mode=mode, group_size=group, bits=bits)
        if global_scale:
            options["global_scale"] = mx.array(global_scale, dtype=mx.float32)
            tensors[f"{name}.global_scale"] = options["global_scale"]
        parts = mx.quantize(w, **options)
        for part, tensor in zip(("weight", "scales", "biases"), parts):
            tensors[f"{name}.{part}"] = tensor
        exact = parts if mode != "affine" else (parts[0], parts[1].astype(mx.float32), parts[2].astype(mx.float32))
        out = mx.dequantize(*exact, dtype=mx.float32, **options)
        values[f"{name}.weight"] = torch.from_numpy(numpy.array(out))
        quantization[name] = dict(group_size=group, bits=bits, mode=mode)
        print("mlx", name, [(str(p.dtype), p.shape) for p in parts])

    for bits in (2, 3, 4, 5, 6, 8):
        case(f"affine{bits}", mx.bfloat16, "affine", 64, bits)
    case("affine4_fp32", mx.float32, "affine", 32, 4)
    case("affine4_fp16", mx.float16, "affine", 128, 4)
    case("mxfp4", mx.bfloat16, "mxfp4", 32, 4)
    case("nvfp4", mx.bfloat16, "nvfp4", 16, 4)
    case("nvfp4_global", mx.bfloat16, "nvfp4", 16, 4, 3.3)
    case("mxfp8", mx.bfloat16, "mxfp8", 32, 8)
    mx.eval(*tensors.values())
    mx.save_safetensors(os.path.join(folder, "mlx.safetensors"), tensors, metadata={"format": "mlx"})
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump({"model_type": "made up", "quantization": quantization}, file, indent=2)
        file.write("\n")
    return None, values, None


def transformers():
    """transformers' own classes; quantization of FP8 blocks by its writer, FP4 experts and gpt-oss decoded only."""
    from types import SimpleNamespace
    from transformers.integrations import finegrained_fp8, mxfp4

    tensors, values = {}, {}

    def fp8(name, rows, columns, block, scale_format):
        config = SimpleNamespace(weight_block_size=block, scale_fmt=scale_format)
        quantizer = SimpleNamespace(quantization_config=config)
        state = finegrained_fp8.Fp8Quantize(quantizer).convert({f"{name}.weight": weight(rows, columns)})
        for key, tensor in state.items():
            tensors[key] = (tensor[0] if isinstance(tensor, list) else tensor).contiguous()
        decode(f"{name}.weight", f"{name}.weight_scale_inv")

    def decode(key, scale):
        operation = finegrained_fp8.Fp8Dequantize(SimpleNamespace(quantization_config=None))
        values[key] = operation._dequantize_one(tensors[key], tensors[scale], torch.float32)
        print("transformers", key, str(tensors[key].dtype), list(tensors[key].shape), str(tensors[scale].dtype),
              list(tensors[scale].shape))

    fp8("fp8", 32, 64, [16, 32], "float")
    fp8("fp8_ue8m0", 32, 64, [16, 32], "ue8m0")
    tensors["experts.gate_up_proj"] = torch.randint(-128, 128, (3, 4, 32), dtype=torch.int8)
    tensors["experts.gate_up_proj_scale_inv"] = torch.randint(110, 130, (3, 4, 2), dtype=torch.uint8)
    decode("experts.gate_up_proj", "experts.gate_up_proj_scale_inv")
    # gpt-oss. Its function gives [expert, in, out].
    blocks = torch.randint(0, 256, (2, 8, 3, 16), dtype=torch.uint8)
    scales = torch.randint(0, 255, (2, 8, 3), dtype=torch.uint8)
    tensors["mlp.experts.down_proj_blocks"], tensors["mlp.experts.down_proj_scales"] = blocks, scales
    out = mxfp4.convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)
    values["mlp.experts.down_proj"] = out.transpose(1, 2).contiguous()
    return tensors, values, None


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    writers = {"compressed_tensors": compressed_tensors, "modelopt": modelopt, "torchao": torchao,
               "mlx": lambda: mlx(folder), "transformers": transformers}
    for name in sys.argv[2:] or writers:
        torch.manual_seed(20261126)
        tensors, values, metadata = writers[name]()
        if tensors is not None:
            save_file(tensors, os.path.join(folder, f"{name}.safetensors"), metadata=metadata)
        save_file(values, os.path.join(folder, f"{name}.values.safetensors"))


if __name__ == "__main__":
    main()
