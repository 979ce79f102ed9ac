#include <halfulp/cuda/matrix_instructions.hpp>

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace halfulp::cuda {
namespace {

/// Units whose names begin alike, and the GPUs that have them. Machine code of sm_80 runs on all of 8.x; 8.9 has its
/// own.
struct Family {
  std::string_view prefix;
  MatrixKind kind;
  int sm_first, sm_last;
  std::string_view target;
};
constexpr Family families[] = {
    {"ampere.mma.", MatrixKind::mma, 80, 88, "sm_80"},      {"ada.mma.", MatrixKind::mma, 89, 89, "sm_89"},
    {"hopper.mma.", MatrixKind::mma, 90, 90, "sm_90a"},     {"hopper.mma-m8n8k4.", MatrixKind::mma, 90, 90, "sm_90a"},
    {"hopper.wgmma.", MatrixKind::wgmma, 90, 90, "sm_90a"}, {"blackwell.mma.", MatrixKind::mma, 100, 100, "sm_100a"},
};

constexpr std::string_view spelling(Element e) {
  constexpr std::string_view names[] = {"f16", "bf16", "tf32", "e4m3", "e5m2", "f32", "f64"};
  return names[static_cast<std::size_t>(e)];
}

bool computes(const MatrixInstruction& x, MatrixKind kind, const MatrixUnit& unit) {
  const bool n = x.n == unit.n || kind == MatrixKind::wgmma;
  const bool elements = x.a == element_of(unit.a) && x.b == element_of(unit.b) && x.d == element_of(unit.accumulator);
  return x.kind == kind && x.m == unit.m && n && x.k == unit.k && elements;
}

}  // namespace

Element element_of(const FloatFormat& format) {
  if (format == fp16) return Element::f16;
  if (format == bf16) return Element::bf16;
  if (format == tf32) return Element::tf32;
  if (format == e4m3) return Element::e4m3;
  if (format == e5m2) return Element::e5m2;
  if (format == fp32) return Element::f32;
  if (format == fp64) return Element::f64;
  throw std::logic_error("no element of a matrix instruction");
}

std::string spelling(const MatrixInstruction& x) {
  const bool mma = x.kind == MatrixKind::mma;
  const auto number = [](char letter, int size) { return letter + std::to_string(size); };
  const std::string size = number('m', x.m) + number('n', x.n) + number('k', x.k);
  std::string text = mma ? "mma.sync.aligned." + size + ".row.col" : "wgmma.mma_async.sync.aligned." + size;
  for (const Element e : {x.d, x.a, x.b}) text += '.', text += spelling(e);
  return mma ? text + '.' + std::string(spelling(x.d)) : text;
}

std::span<const MatrixRow> matrix_rows() {
  static const std::vector<MatrixRow> rows = [] {
    std::vector<MatrixRow> all;
    for (const Family& family : families)
      for (const MatrixUnit& unit : matrix_units()) {
        if (unit.name.compare(0, family.prefix.size(), family.prefix) != 0) continue;
        const auto* found = std::find_if(std::begin(matrix_instructions), std::end(matrix_instructions),
                                         [&](const MatrixInstruction& x) { return computes(x, family.kind, unit); });
        if (found != std::end(matrix_instructions))
          all.push_back({&unit, static_cast<std::size_t>(found - matrix_instructions), family.sm_first, family.sm_last,
                         family.target});
      }
    return all;
  }();
  return rows;
}

}  // namespace halfulp::cuda
