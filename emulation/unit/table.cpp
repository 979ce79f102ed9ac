// The table of matrix units: one row per instruction family, expanded over its operand formats.
#include <halfulp/emulation/unit/rules.hpp>

#include <halfulp/support/spelling.hpp>

#include <array>
#include <stdexcept>
#include <vector>

namespace halfulp {
namespace {

constexpr FloatFormat e8m13{8, 13, 127, NonFinite::ieee};  // the bits that FP8 units keep of an FP32 sum
constexpr std::uint64_t nvidia_nan32 = 0x7fff'ffff, nvidia_nan16 = 0x7fff, ieee_nan32 = 0x7fc0'0000,
                        ieee_nan64 = 0x7ff8'0000'0000'0000;

constexpr std::string_view KM = "Khattak & Mikaitis, arXiv 2512.07004";
constexpr std::string_view MS = "Xie et al., MMA-Sim, arXiv 2511.10909";
constexpr std::string_view both = "arXiv 2512.07004 and arXiv 2511.10909";
constexpr std::string_view dumps =
    "arXiv 2512.07004 and arXiv 2511.10909; dumps: MATLAB-tensor-core, 5000 rows a format";

/// A fused sum that truncates, with an FP32 accumulator.
FusedSum f32(int length, int bits, int least) {
  return {.length = length, .alignment_bits = bits, .least_exponent = least};
}
FusedSum e8m13_sum(int length, int least) {
  FusedSum s = f32(length, 13, least);
  s.kept = e8m13;
  return s;
}
/// A fused sum rounded once to FP16, to nearest.
FusedSum f16(int length, int bits, int least) {
  FusedSum s = f32(length, bits, least);
  s.kept = fp16, s.rounding = RoundingMode::nearest_even, s.nan = nvidia_nan16;
  return s;
}
FusedSum nan_is(std::uint64_t nan, int length = 1) { return {.length = length, .nan = nan}; }

/// A format's spelling in the names of units and in an instruction.
struct Input {
  std::string_view name, spelling;
  FloatFormat format;
};
constexpr Input half_input{"fp16", "f16", fp16}, bfloat_input{"bf16", "bf16", bf16}, tf32_input{"tf32", "tf32", tf32};
constexpr Input fp8_inputs[] = {{"e4m3", "e4m3", e4m3}, {"e5m2", "e5m2", e5m2}};
constexpr Input small_inputs[] = {{"e4m3", "e4m3", e4m3},
                                  {"e5m2", "e5m2", e5m2},
                                  {"e3m2", "e3m2", e3m2},
                                  {"e2m3", "e2m3", e2m3},
                                  {"e2m1", "e2m1", e2m1}};
constexpr Input mx_inputs[] = {{"mxe4m3", "e4m3", e4m3},
                               {"mxe5m2", "e5m2", e5m2},
                               {"mxe3m2", "e3m2", e3m2},
                               {"mxe2m3", "e2m3", e2m3},
                               {"mxe2m1", "e2m1", e2m1}};
constexpr Input fnuz_inputs[] = {{"e4m3fnuz", "fp8", e4m3fnuz}, {"e5m2fnuz", "bf8", e5m2fnuz}};

/// One instruction of an architecture. In `instruction`, {a} {b} stand for the operands, {d} for the accumulator.
struct Family {
  std::string_view prefix;  ///< architecture.instruction
  std::string_view instruction;
  int m, n, k;
  const Rule* rule;
  FusedSum sum;
  std::string_view evidence, source;
  FloatFormat scale = {};
  int scale_block = 0;
};

std::string filled(std::string text, const std::string& hole, std::string_view with) {
  for (std::size_t at; (at = text.find(hole)) != std::string::npos;) text.replace(at, hole.size(), with);
  return text;
}

class Table {
 public:
  void add(const Family& f, const Input& a, const Input& b, const FloatFormat& accumulator) {
    const std::string d = format_name(accumulator);
    const std::string inputs = std::string(a.name) + (a.name == b.name ? "" : "-" + std::string(b.name));
    std::string instruction = filled(filled(std::string(f.instruction), "{a}", a.spelling), "{b}", b.spelling);
    instruction = filled(std::move(instruction), "{d}", "f" + d.substr(2));
    rows_.push_back({std::string(f.prefix) + "." + inputs + "." + d, std::move(instruction), a.format, b.format,
                     accumulator, f.m, f.n, f.k, f.rule, f.sum, f.scale, f.scale_block, std::string(f.evidence),
                     std::string(f.source)});
  }
  void add(const Family& f, const Input& both, const FloatFormat& accumulator) { add(f, both, both, accumulator); }
  void add_pairs(const Family& f, std::span<const Input> inputs, const FloatFormat& accumulator) {
    for (const Input& a : inputs)
      for (const Input& b : inputs) add(f, a, b, accumulator);
  }
  std::vector<MatrixUnit> rows() && { return std::move(rows_); }

 private:
  std::vector<MatrixUnit> rows_;
};

constexpr std::string_view published = "matches published hardware dumps in every row; ";

// clang-format off
void add_nvidia(Table& t) {
  const auto mma = "mma.sync.aligned.m16n8k16.row.col.{d}.{a}.{b}.{d}", mma_tf32 = "mma.sync.aligned.m16n8k8.row.col.{d}.{a}.{b}.{d}",
             mma_fp8 = "mma.sync.aligned.m16n8k32.row.col.{d}.{a}.{b}.{d}", mma_fp64 = "mma.sync.aligned.m8n8k4.row.col.{d}.{a}.{b}.{d}";
  const Input fp64_input{"fp64", "f64", fp64};
  const FusedSum dmma = nan_is(ieee_nan64);
  const std::string_view unprobed_fp64 = "a chain of FMAs by the paper; NaNs assumed to be as on an H100", one_source = "one source, no dump";

  const Family volta{"volta.mma", "mma.sync.aligned.m8n8k4.row.col.{d}.{a}.{b}.{d}", 8, 8, 4, &rules::fused, f32(4, 23, -131), "matches published V100 results (paper); e0 by one source", KM};
  t.add(volta, half_input, fp32);
  t.add({"volta.mma", volta.instruction, 8, 8, 4, &rules::fused, f16(4, 23, -19), "L and F as above; e0 disputed: -19 or -20", both}, half_input, fp16);

  const Family turing{"turing.mma", "mma.sync.aligned.m16n8k8.row.col.{d}.{a}.{b}.{d}", 16, 8, 8, &rules::fused, f32(8, 24, -132), one_source, MS};
  t.add(turing, half_input, fp32);
  t.add({"turing.mma", turing.instruction, 16, 8, 8, &rules::fused, f16(8, 24, -21), one_source, MS}, half_input, fp16);

  const std::string disputed = "e0 disputed: -20 (arXiv 2512.07004) or -21; on an H100 that paper is right";
  for (const std::string_view prefix : {"ampere.mma", "ada.mma"}) {
    const bool ampere = prefix == "ampere.mma";
    const std::string evidence = ampere ? std::string(published) + "e0 by two sources, untested" : "matches published L40S results (paper)";
    const std::string_view source = ampere ? dumps : both;
    t.add({prefix, mma, 16, 8, 16, &rules::fused, f32(8, 24, -132), evidence, source}, half_input, fp32);
    t.add({prefix, mma, 16, 8, 16, &rules::fused, f16(8, 24, -20), (ampere ? std::string(published) : "") + disputed, source}, half_input, fp16);
    t.add({prefix, mma, 16, 8, 16, &rules::fused, f32(8, 24, -132), evidence, source}, bfloat_input, fp32);
    t.add({prefix, mma_tf32, 16, 8, 8, &rules::fused, f32(4, 24, -132), evidence, source}, tf32_input, fp32);
    t.add({prefix, mma_fp64, 8, 8, 4, &rules::fp64_chain, dmma, unprobed_fp64, MS}, fp64_input, fp64);
  }
  t.add_pairs({"ada.mma", mma_fp8, 16, 8, 32, &rules::fused, e8m13_sum(16, -132), "matches published L40S results (paper)", both}, fp8_inputs, fp32);
  t.add_pairs({"ada.mma", mma_fp8, 16, 8, 32, &rules::fused, f16(16, 13, -21), "matches published L40S results (paper)", both}, fp8_inputs, fp16);

  const std::string_view h100 = "an H100 gives the same in every recorded case", h100_and_dumps = "an H100 gives the same in every recorded case, and published dumps in every row";
  t.add({"hopper.mma", mma, 16, 8, 16, &rules::fused, f32(16, 25, -133), h100_and_dumps, dumps}, half_input, fp32);
  t.add({"hopper.mma", mma, 16, 8, 16, &rules::fused, f16(16, 25, -21), h100_and_dumps, dumps}, half_input, fp16);
  t.add({"hopper.mma", mma, 16, 8, 16, &rules::fused, f32(16, 25, -133), h100_and_dumps, dumps}, bfloat_input, fp32);
  t.add({"hopper.mma", mma_tf32, 16, 8, 8, &rules::fused, f32(8, 25, -133), h100_and_dumps, dumps}, tf32_input, fp32);
  t.add({"hopper.mma", mma_fp64, 8, 8, 4, &rules::fp64_chain, dmma, h100, MS}, fp64_input, fp64);
  t.add({"hopper.mma-m8n8k4", "mma.sync.aligned.m8n8k4.row.col.{d}.{a}.{b}.{d}", 8, 8, 4, &rules::product_chain, nan_is(nvidia_nan32, 4), h100, "machine code of ptxas 13.0"}, half_input, fp32);
  const std::string_view halves = "machine code of ptxas 13.0";
  t.add_pairs({"hopper.mma", mma_fp8, 16, 8, 32, &rules::halves_apart, f32(16, 25, -133), "an H100 gives the same in every recorded case; 4,786 of 10,000 rows of published dumps differ, see docs/explanation/evidence.md", halves}, fp8_inputs, fp32);
  t.add_pairs({"hopper.mma", mma_fp8, 16, 8, 32, &rules::halves_apart, f16(16, 25, -21), h100_and_dumps, halves}, fp8_inputs, fp16);
  const auto wgmma = "wgmma.mma_async.sync.aligned.m64n256k16.{d}.{a}.{b}", wgmma_tf32 = "wgmma.mma_async.sync.aligned.m64n256k8.{d}.{a}.{b}",
             wgmma_fp8 = "wgmma.mma_async.sync.aligned.m64n256k32.{d}.{a}.{b}";
  t.add({"hopper.wgmma", wgmma, 64, 256, 16, &rules::fused, f32(16, 25, -133), h100, both}, half_input, fp32);
  t.add({"hopper.wgmma", wgmma, 64, 256, 16, &rules::fused, f16(16, 25, -21), h100, MS}, half_input, fp16);
  t.add({"hopper.wgmma", wgmma, 64, 256, 16, &rules::fused, f32(16, 25, -133), h100, both}, bfloat_input, fp32);
  t.add({"hopper.wgmma", wgmma_tf32, 64, 256, 8, &rules::fused, f32(8, 25, -133), h100, both}, tf32_input, fp32);
  t.add_pairs({"hopper.wgmma", wgmma_fp8, 64, 256, 32, &rules::fused, e8m13_sum(32, FusedSum::no_least_exponent), h100_and_dumps, dumps}, fp8_inputs, fp32);
  t.add_pairs({"hopper.wgmma", wgmma_fp8, 64, 256, 32, &rules::fused, f16(32, 13, FusedSum::no_least_exponent), h100, MS}, fp8_inputs, fp16);

  for (const std::string_view prefix : {"blackwell.mma", "blackwell.tcgen05"}) {
    const bool mma_sync = prefix == "blackwell.mma";
    const std::string_view evidence = "matches published B200 results (paper)";
    const std::string_view tcgen05 = "tcgen05.mma.cta_group::1.kind::f16 {a} {b} -> {d}";
    t.add({prefix, mma_sync ? mma : tcgen05, mma_sync ? 16 : 128, 8, 16, &rules::fused, f32(16, 25, -133), evidence, both}, half_input, fp32);
    t.add({prefix, mma_sync ? mma : tcgen05, mma_sync ? 16 : 128, 8, 16, &rules::fused, f16(16, 25, -21), "e0 assumed to be as on an H100", both}, half_input, fp16);
    t.add({prefix, mma_sync ? mma : tcgen05, mma_sync ? 16 : 128, 8, 16, &rules::fused, f32(16, 25, -133), evidence, both}, bfloat_input, fp32);
    t.add({prefix, mma_sync ? std::string_view(mma_tf32) : "tcgen05.mma.cta_group::1.kind::tf32 {a} {b} -> {d}", mma_sync ? 16 : 128, 8, 8, &rules::fused, f32(8, 25, -133), evidence, both}, tf32_input, fp32);
  }
  const std::string_view assumed_halves = "two f16 instructions and an addition, decoded from machine code; their sums assumed to be as on Hopper";
  t.add_pairs({"blackwell.mma", mma_fp8, 16, 8, 32, &rules::halves_apart, f32(16, 25, -133), assumed_halves, "ptxas 13.0"}, fp8_inputs, fp32);
  t.add_pairs({"blackwell.mma", mma_fp8, 16, 8, 32, &rules::halves_apart, f16(16, 25, -21), assumed_halves, "ptxas 13.0"}, fp8_inputs, fp16);
  t.add({"blackwell.mma", mma_fp64, 8, 8, 4, &rules::fp64_chain, dmma, unprobed_fp64, MS}, fp64_input, fp64);
  for (const auto& [prefix, plain, scaled, fp4] : {std::array<std::string_view, 4>{"blackwell.tcgen05", "tcgen05.mma.cta_group::1.kind::f8f6f4 {a} {b} -> {d}", "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale {a} {b} -> {d}", "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale {a} {b} -> {d}"},
                                           std::array<std::string_view, 4>{"rtx-blackwell.mma", "mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.{d}.{a}.{b}.{d}", "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.{d}.{a}.{b}.{d}.ue8m0", "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.{d}.{a}.{b}.{d}"}}) {
    const int m = prefix == "rtx-blackwell.mma" ? 16 : 128;
    t.add_pairs({prefix, plain, m, 8, 32, &rules::fused, f32(32, 25, -133), one_source, MS}, small_inputs, fp32);
    t.add_pairs({prefix, plain, m, 8, 32, &rules::fused, f16(32, 25, -133), one_source, MS}, small_inputs, fp16);
    t.add_pairs({prefix, scaled, m, 8, 32, &rules::fused, f32(32, 25, -133), one_source, MS, e8m0, 32}, mx_inputs, fp32);
    t.add({prefix, fp4, m, 8, 64, &rules::scaled_groups, f32(64, 35, -139), one_source, MS, e8m0, 32}, {"mxfp4", "e2m1", e2m1}, fp32);
    t.add({prefix, fp4, m, 8, 64, &rules::scaled_groups, f32(64, 35, -139), one_source, MS, e4m3, 16}, {"nvfp4", "e2m1", e2m1}, fp32);
  }
}

void add_amd(Table& t) {
  const Input fp32_input{"fp32", "f32", fp32}, fp64_input{"fp64", "f64", fp64};
  const std::string_view secondary = "two papers' models, not tested here; the NaN code is assumed", disputed = "the second paper's model; the first cuts the sum of products at another place below the last one; the NaN code is assumed";
  t.add({"cdna1.mfma", "v_mfma_f32_16x16x16f16", 16, 16, 16, &rules::exact_sum, nan_is(ieee_nan32, 4), secondary, both}, half_input, fp32);
  t.add({"cdna1.mfma", "v_mfma_f32_16x16x8bf16", 16, 16, 8, &rules::exact_sum, nan_is(ieee_nan32, 2), secondary, both}, bfloat_input, fp32);
  t.add({"cdna2.mfma", "v_mfma_f32_16x16x16f16", 16, 16, 16, &rules::flushed_tree, nan_is(ieee_nan32, 4), secondary, both}, half_input, fp32);
  t.add({"cdna2.mfma", "v_mfma_f32_16x16x8bf16", 16, 16, 8, &rules::flushed_tree, nan_is(ieee_nan32, 2), secondary, both}, bfloat_input, fp32);
  t.add({"cdna2.mfma-1k", "v_mfma_f32_16x16x16bf16_1k", 16, 16, 16, &rules::flushed_tree, nan_is(ieee_nan32, 4), secondary, both}, bfloat_input, fp32);
  t.add({"cdna3.mfma", "v_mfma_f32_16x16x16_f16", 16, 16, 16, &rules::sum_then_addend, nan_is(ieee_nan32, 8), disputed, both}, half_input, fp32);
  t.add({"cdna3.mfma", "v_mfma_f32_16x16x16_bf16", 16, 16, 16, &rules::sum_then_addend, nan_is(ieee_nan32, 8), disputed, both}, bfloat_input, fp32);
  t.add({"cdna3.mfma", "v_mfma_f32_16x16x8_xf32", 16, 16, 8, &rules::sum_then_addend, nan_is(ieee_nan32, 4), disputed, both}, tf32_input, fp32);
  t.add_pairs({"cdna3.mfma", "v_mfma_f32_16x16x32_{a}_{b}", 16, 16, 32, &rules::even_odd_then_addend, nan_is(ieee_nan32, 16), disputed, both}, fnuz_inputs, fp32);
  for (const std::string_view prefix : {"cdna1.mfma", "cdna2.mfma", "cdna3.mfma"}) {
    t.add({prefix, "v_mfma_f32_16x16x4f32", 16, 16, 4, &rules::fma_chain, nan_is(ieee_nan32), secondary, MS}, fp32_input, fp32);
    if (prefix != "cdna1.mfma")
      t.add({prefix, "v_mfma_f64_16x16x4f64", 16, 16, 4, &rules::fma_chain, nan_is(ieee_nan64), secondary, MS}, fp64_input, fp64);
  }
}

void add_cpus(Table& t) {
  t.add({"x86.avx512", "VDPBF16PS", 1, 16, 2, &rules::odd_even_pair, nan_is(ieee_nan32, 2), "held against this CPU's instruction by the tests where there is one", "Intel SDM, vol. 2"}, bfloat_input, fp32);
  t.add({"x86.amx", "TDPBF16PS", 16, 16, 32, &rules::even_odd_chains, nan_is(ieee_nan32, 32), "one million tiles of a CPU; held against the instruction by the tests where there is one", "Intel SDM, vol. 2"}, bfloat_input, fp32);
  t.add({"arm.bfdot", "BFDOT (FEAT_EBF16 off)", 1, 4, 2, &rules::to_odd_pair, nan_is(ieee_nan32, 2), "from the architecture manual's text, never run", "Arm ARM, BFDotAdd"}, bfloat_input, fp32);
}
// clang-format on

}  // namespace

std::span<const MatrixUnit> matrix_units() {
  static const std::vector<MatrixUnit> units = [] {
    Table table;
    add_nvidia(table);
    add_amd(table);
    add_cpus(table);
    return std::move(table).rows();
  }();
  return units;
}

std::string spelled_as_in_units(std::string_view name) {
  std::string text = lowered(name);
  for (const std::string_view mx : {"mxfp8", "mxfp6", "mxfp4"}) {
    const std::size_t at = text.find(mx);
    if (at == std::string::npos) continue;
    if (at + mx.size() < text.size() && text[at + mx.size()] == 'e') text.replace(at, mx.size(), "mx");
    else if (mx != "mxfp4") text.replace(at, mx.size(), mx == "mxfp8" ? "mxe4m3" : "mxe3m2");  // as `halfulp formats`
  }
  return text;
}

const MatrixUnit& find_unit(std::string_view name) {
  std::vector<std::string> names;
  const std::string spelled = spelled_as_in_units(name);
  for (const MatrixUnit& unit : matrix_units()) {
    if (unit.name == spelled) return unit;
    names.push_back(unit.name);
  }
  throw std::invalid_argument(unknown_name("unit", name, std::move(names), 6));
}

}  // namespace halfulp
