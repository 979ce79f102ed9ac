// The published layouts, a row each: what find_encoded() looks for, and `--layout` writes.
#include <halfulp/data/layouts.hpp>

#include <halfulp/formats/catalogue.hpp>

#include <string_view>

namespace halfulp {
namespace {

constexpr PartNames plain{"weight", "weight_scale", {}, "weight_zero_point"};
constexpr PartNames packed{"weight_packed", "weight_scale", "weight_global_scale", "weight_zero_point"};
constexpr PartNames modelopt{"weight", "weight_scale", "weight_scale_2"};
constexpr PartNames modelopt_experts{"", "_weight_scale", "_weight_scale_2"};
constexpr PartNames scale_inv{"", "_scale_inv"};  // of any parameter, "weight" too
constexpr PartNames gpt_oss{"_blocks", "_scales"};
constexpr PartNames gpt_oss_original{".blocks", ".scales"};
constexpr PartNames ao_new{torchao_codes, "_scale", "_per_tensor_scale", "_zero_point"};
constexpr PartNames ao_old{":qdata", ":scale", ":per_tensor_scale", ":zero_point"};
constexpr PartNames mlx{"weight", "scales", "global_scale", "biases"};
constexpr PartNames marlin{"weight_packed", "scale_packed"};
constexpr PartNames bitmask{".compressed", ".bitmask"};

constexpr std::string_view fp8 = "F8_E4M3 F8_E5M2";

constexpr CodeForm opaque{{}, Packing::opaque}, fp8_codes{fp8}, int8_codes{"I8", Packing::dense, ints(8)};
constexpr CodeForm fp4_bytes{"U8", Packing::dense, floats(e2m1)}, fp4_words{"U32", Packing::dense, floats(e2m1)};
constexpr ScaleForm of_floats{any_float}, matrix_of_floats{any_float, ScaleShape::matrix};
constexpr ScaleForm vector_of_floats{any_float, ScaleShape::vector};
constexpr ScaleForm of_16{"F8_E4M3", {}, 1, 16}, of_32{"U8 F8_E8M0", {}, 1, 32, e8m0};

constexpr TensorScale factor{TensorScale::multiply}, divisor{TensorScale::divide};
constexpr TensorScale factor_if_there{TensorScale::multiply, false};
// MLX keeps the largest magnitude itself: 448 times 6 is what it is scaled to.
constexpr TensorScale largest_if_there{TensorScale::multiply, false, 2688};

constexpr const char* ct_naive = "compressed-tensors 0.20, compressors/naive_quantized/base.py";
constexpr const char* ct_pack = "compressed-tensors 0.20, compressors/pack_quantized/base.py";
constexpr const char* ct_nvfp4 = "compressed-tensors 0.20, compressors/nvfp4/base.py";
constexpr const char* ct_mx = "compressed-tensors 0.20, compressors/mx_utils.py";
constexpr const char* ct_legacy = "compressed-tensors 0.20, config/base.py, legacy formats";
constexpr const char* mo = "NVIDIA ModelOpt 0.47, torch/export/quant_utils.py, to_quantized_weight";
constexpr const char* mo_nvfp4 = "NVIDIA ModelOpt 0.47, torch/quantization/qtensor/nvfp4_tensor.py";
constexpr const char* mo_experts = "NVIDIA ModelOpt 0.47, torch/export/unified_export_hf.py";
constexpr const char* ao = "torchao 0.18, prototype/safetensors/, quantization/quantize_/workflows/";
constexpr const char* ao_mx = "torchao 0.18, prototype/safetensors/, prototype/mx_formats/";
constexpr const char* mlx_source = "ml-explore/mlx 0.32, mlx/backend/cpu/quantized.cpp";
constexpr const char* deepseek = "DeepSeek-V3, inference/kernel.py; transformers 5.24, integrations/finegrained_fp8.py";
constexpr const char* fp4_experts = "transformers 5.24, integrations/finegrained_fp8.py, _unpack_fp4";
constexpr const char* oss = "openai/gpt-oss, gpt_oss/torch/weights.py; transformers 5.24, integrations/mxfp4.py";

// clang-format off
constexpr StorageLayout table[] = {
  {"compressed-tensors marlin-24", ct_legacy, {marlin}, opaque},
  {"compressed-tensors sparse-bitmask", ct_legacy, {bitmask}, opaque},
  {"compressed-tensors float-quantized", ct_naive, {plain}, fp8_codes, matrix_of_floats},
  {"compressed-tensors int-quantized", ct_naive, {plain}, int8_codes, matrix_of_floats, {}, ZeroUse::subtract},
  {"compressed-tensors pack-quantized", ct_pack, {packed}, {"I32", Packing::words}, matrix_of_floats, {},
   ZeroUse::subtract},
  {"compressed-tensors nvfp4-pack-quantized", ct_nvfp4, {packed}, fp4_bytes, of_16, divisor},
  {"compressed-tensors mxfp4-pack-quantized", ct_mx, {packed}, fp4_bytes, of_32},
  {"compressed-tensors mxfp6-pack-quantized", ct_mx, {packed}, {"U8", Packing::dense, floats(e2m3)}, of_32},
  {"compressed-tensors mxfp8-quantized, ModelOpt MXFP8", ct_mx, {modelopt, modelopt_experts}, fp8_codes, of_32},
  {"ModelOpt FP8", mo, {modelopt, modelopt_experts}, fp8_codes, vector_of_floats},
  {"ModelOpt INT8", mo, {modelopt, modelopt_experts}, int8_codes, vector_of_floats},
  {"ModelOpt NVFP4", mo_nvfp4, {modelopt, modelopt_experts}, fp4_bytes, of_16, factor},
  {"ModelOpt NVFP4, transposed experts", mo_experts, {modelopt, modelopt_experts}, {"U8", Packing::rows, floats(e2m1)},
   {"F8_E4M3", {}, 16, 1}, factor},
  {"ModelOpt W4A8_NVFP4_FP8", mo_nvfp4, {modelopt, modelopt_experts}, fp4_bytes, {"F8_E4M3", {}, 1, 32}, factor},
  {"ModelOpt MXFP4", mo, {modelopt, modelopt_experts}, fp4_bytes, of_32},
  // In W4A8_AWQ a tensor of the name weight_scale_2 belongs to the kernel: weights are without it.
  {"ModelOpt INT4 AWQ", mo, {modelopt, modelopt_experts}, {"U8", Packing::rows, ints(4)}, {any_float, {}, 1}},
  {"DeepSeek-V3 FP8", deepseek, {scale_inv}, fp8_codes, {"F32 BF16 F16 U8 F8_E8M0", {}, 0, 0, e8m0}},
  {"transformers FP4 experts", fp4_experts, {scale_inv}, {"I8", Packing::dense, floats(e2m1)},
   {"F32 BF16 F16 U8 F8_E8M0", {}, 1, 32, e8m0}},
  {"gpt-oss MXFP4", oss, {gpt_oss, gpt_oss_original}, {"U8", Packing::groups, floats(e2m1)}, of_32},
  {"torchao Float8Tensor", ao, {ao_new, ao_old}, fp8_codes, of_floats, {}, {}, "Float8Tensor"},
  {"torchao Int8Tensor", ao, {ao_new, ao_old}, int8_codes, of_floats, {}, ZeroUse::subtract, "Int8Tensor"},
  {"torchao IntxUnpackedToInt8Tensor", ao, {ao_new, ao_old}, {"I8", Packing::bytes, ints(8)}, of_floats, {},
   ZeroUse::subtract, "IntxUnpackedToInt8Tensor"},
  {"torchao Int4Tensor", ao, {ao_new, ao_old}, {"I8 U8", Packing::dense, ints(4)},
   {any_float, ScaleShape::transposed, 1}, {}, ZeroUse::add, "Int4Tensor"},
  {"torchao Int4PlainInt32Tensor", ao, {ao_new, ao_old}, opaque, {}, {}, {}, "Int4PlainInt32Tensor"},
  {"torchao Int4TilePackedTo4dTensor", ao, {ao_new, ao_old}, opaque, {}, {}, {}, "Int4TilePackedTo4dTensor"},
  {"torchao NVFP4Tensor", ao_mx, {ao_new, ao_old}, fp4_bytes, of_16, factor_if_there, {}, "NVFP4Tensor"},
  {"torchao MXTensor FP8", ao_mx, {ao_new, ao_old}, fp8_codes, of_32, {}, {}, "MXTensor"},
  {"torchao MXTensor FP6 E2M3", ao_mx, {ao_new, ao_old}, {"U8", Packing::bytes, floats(e2m3)}, of_32, {}, {},
   "MXTensor", "fp6_e2m3"},
  {"torchao MXTensor FP6 E3M2", ao_mx, {ao_new, ao_old}, {"U8", Packing::bytes, floats(e3m2)}, of_32, {}, {},
   "MXTensor", "fp6_e3m2"},
  {"torchao MXTensor FP4", ao_mx, {ao_new, ao_old}, fp4_bytes, of_32, {}, {}, "MXTensor", "float4_e2m1fn_x2"},
  {"MLX affine", mlx_source, {mlx}, {"U32", Packing::affine}, {"F32 BF16 F16", {}, 1}, {}, ZeroUse::add},
  {"MLX mxfp4", mlx_source, {mlx}, fp4_words, of_32},
  {"MLX nvfp4", mlx_source, {mlx}, fp4_words, {"U8", {}, 1, 16, e4m3}, largest_if_there},
  {"MLX mxfp8", mlx_source, {mlx}, {"U32", Packing::dense, floats(e4m3)}, of_32},
};
// clang-format on

}  // namespace

std::span<const StorageLayout> layouts() { return table; }

}  // namespace halfulp
