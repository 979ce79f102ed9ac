#include <halfulp/emulation/unit/gemm.hpp>

#include <halfulp/emulation/array/kernels.hpp>
#include <halfulp/emulation/matrix.hpp>
#include <halfulp/emulation/operation.hpp>
#include <halfulp/emulation/unit/panel.hpp>
#include <halfulp/emulation/unit/rules.hpp>

#include <tbb/blocked_range2d.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace halfulp {
namespace {

std::size_t scale_blocks(const MatrixUnit& unit, std::size_t k) {
  const auto block = static_cast<std::size_t>(unit.scale_block);
  return unit.scaled() ? (k + block - 1) / block : 0;
}

template <class D>
void check(const MatrixUnit& unit, const GemmOperands& x, std::span<const D> d) {
  const Checker checker{"mma_gemm"};
  if (const std::string why = refusal(unit); !why.empty()) checker.refuse(unit.name + ": " + why);
  if (x.k == 0) checker.refuse("k is at least 1");
  const CodeWords results(d);
  checker.each(x, [&](const std::string& name, const CodeWords& words, std::size_t rows, std::size_t columns,
                      std::size_t leading) {
    const FloatFormat& f = name == "A" ? unit.a : name == "B" ? unit.b : unit.accumulator;
    checker.words(name, words, rows, columns, leading, word_bits(f), format_name(f));
    const bool in_place = name == "C" && words.data() == results.data() && words.bytes() == results.bytes() &&
                          x.place_c().row == x.place_d().row;
    if (!in_place)
      checker.apart(name, words.data(), words.size() * static_cast<std::size_t>(words.bytes()), d.data(),
                    d.size_bytes());
  });
  const std::size_t blocks = scale_blocks(unit, x.k);
  checker.words("scales of A", x.scale_a, x.m, blocks, 0, unit.scaled() ? word_bits(unit.scale) : 64,
                unit.scaled() ? format_name(unit.scale) : "");
  checker.words("scales of B", x.scale_b, blocks, x.n, 0, unit.scaled() ? word_bits(unit.scale) : 64,
                unit.scaled() ? format_name(unit.scale) : "");
  checker.extent("D", d.size(), x.m, x.n, x.ldd);
}

/// Computes single outputs by the interpreter, and gathers the operands of each.
class Interpreter {
 public:
  Interpreter(const MatrixUnit& unit, const GemmOperands& x)
      : unit_(unit),
        x_(x),
        place_a_(x.place_a()),
        place_b_(x.place_b()),
        blocks_(scale_blocks(unit, x.k)),
        a_(x.k),
        b_(x.k),
        scale_a_(blocks_),
        scale_b_(blocks_) {}

  std::uint64_t operator()(std::size_t i, std::size_t j) {
    for (std::size_t k = 0; k < x_.k; ++k) a_[k] = x_.a[place_a_(i, k)], b_[k] = x_.b[place_b_(k, j)];
    for (std::size_t s = 0; s < blocks_; ++s)
      scale_a_[s] = x_.scale_a[i * blocks_ + s], scale_b_[s] = x_.scale_b[s * x_.n + j];
    return mma(unit_, {a_, b_, scale_a_, scale_b_}, x_.c.empty() ? 0 : x_.c[x_.place_c()(i, j)]);
  }

 private:
  const MatrixUnit& unit_;
  const GemmOperands& x_;
  Placement place_a_, place_b_;
  std::size_t blocks_;
  std::vector<std::uint64_t> a_, b_, scale_a_, scale_b_;
};

/// Converts words of the accumulator to floats and back, exactly. A NaN becomes the unit's.
class Accumulators {
 public:
  explicit Accumulators(const MatrixUnit& unit)
      : is_float_(unit.accumulator == fp32),
        cut_(23 - unit.accumulator.fraction_bits),
        sign_shift_(32 - unit.accumulator.storage_bits()),
        sign_(static_cast<std::uint32_t>(unit.accumulator.sign_mask())),
        infinity_(static_cast<std::uint32_t>(unit.accumulator.infinity())),
        nan_(static_cast<std::uint32_t>(unit.sum.nan)),
        offset_(static_cast<std::uint32_t>(127 - unit.accumulator.bias) << 23),
        min_normal_(static_cast<std::uint32_t>(unit.accumulator.min_normal())),
        unit_(static_cast<float>(FloatFormat::power_of_two(unit.accumulator.emin() - unit.accumulator.fraction_bits))),
        aligner_(static_cast<float>(FloatFormat::power_of_two(unit.accumulator.emin() + cut_))) {}

  template <class Code>
  void values(const Code* codes, std::size_t count, float* out) const {
    if (is_float_)
      for (std::size_t i = 0; i < count; ++i) out[i] = std::bit_cast<float>(static_cast<std::uint32_t>(codes[i]));
    else
      for (std::size_t i = 0; i < count; ++i) out[i] = value(static_cast<std::uint32_t>(codes[i]));
  }
  template <class Code>
  void codes(const float* values, std::size_t count, Code* out) const {
    if (is_float_)
      for (std::size_t i = 0; i < count; ++i) {
        const auto bits = std::bit_cast<std::uint32_t>(values[i]);
        out[i] = static_cast<Code>(values[i] == values[i] ? bits : nan_);
      }
    else
      for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<Code>(code(values[i]));
  }

 private:
  // Both of two results are computed, so that these loops run on vectors.
  float value(std::uint32_t code) const {
    const std::uint32_t magnitude = code & (sign_ - 1), sign = (code ^ magnitude) << sign_shift_;
    const auto small = std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int32_t>(magnitude)) * unit_);
    const std::uint32_t normal = (magnitude << cut_) + offset_, special = 0x7f80'0000 + (magnitude - infinity_);
    const std::uint32_t large = magnitude < infinity_ ? normal : special;
    return std::bit_cast<float>((magnitude < min_normal_ ? small : large) | sign);
  }
  std::uint32_t code(float value) const {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = bits & 0x7fff'ffff, sign = (bits >> sign_shift_) & sign_;
    // Beside the aligner a subnormal's last place is the float's.
    const auto small = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + aligner_) -
                       std::bit_cast<std::uint32_t>(aligner_);
    const std::uint32_t normal = (magnitude - offset_) >> cut_;
    const std::uint32_t finite = magnitude < (min_normal_ << cut_) + offset_ ? small : normal;
    const std::uint32_t number = (magnitude < 0x7f80'0000 ? finite : infinity_) | sign;
    return magnitude > 0x7f80'0000 ? nan_ : number;
  }

  bool is_float_;
  int cut_, sign_shift_;
  std::uint32_t sign_, infinity_, nan_, offset_, min_normal_;
  float unit_, aligner_;
};

template <class D>
void by_panels(const MatrixUnit& unit, const units::VectorBody& body, const GemmOperands& x, std::span<D> d) {
  using units::panel_columns, units::panel_rows, units::Body;
  const units::PanelRule& rule = body.rule;
  const std::vector<std::size_t> order = units::order_of(unit, x.k);
  const units::Prepared a = units::prepare_rows(unit, body, x, order), b = units::prepare_columns(unit, body, x, order);
  const std::size_t depth = order.size(), panels = (x.n + panel_columns - 1) / panel_columns;
  const Accumulators accumulators(unit);
  const auto has_special = [](const units::Prepared& p) {
    return std::find(p.special.begin(), p.special.end(), 1) != p.special.end();
  };
  const bool any_special = has_special(a) || has_special(b),
             stepped = body.body != Body::terms && body.body != Body::groups;

  const auto tile = [&](std::size_t first, std::size_t rows, std::size_t panel, Interpreter& interpret) {
    const std::size_t left = panel * panel_columns, columns = std::min(panel_columns, x.n - left);
    alignas(64) float out[panel_rows * panel_columns] = {};
    if (!x.c.empty())
      x.c.visit([&](const auto* c) {
        for (std::size_t r = 0; r < rows; ++r)
          accumulators.values(c + x.place_c()(first + r, left), columns, out + r * panel_columns);
      });
    const std::size_t a_at = first * depth, b_at = left * depth;
    const units::Terms rows_of_a = a.terms(a_at, rule.span), columns_of_b = b.terms(b_at, rule.span);
    if (body.body == Body::terms) units::fused_panel(rule, rows, depth, rows_of_a, columns_of_b, out);
    else if (body.body == Body::groups)
      units::grouped_panel(rule, rows, depth, a.groups(a_at, rule.span), b.groups(b_at, rule.span), out);
    else units::stepped_panel(body.body, rule, rows, depth, rows_of_a, columns_of_b, out);
    for (std::size_t r = 0; r < rows; ++r) {
      const float* values = out + r * panel_columns;
      D codes[panel_columns];  // D may be C, which the interpreter reads
      accumulators.codes(values, columns, codes);
      for (std::size_t j = 0; (any_special || stepped) && j < columns; ++j)
        if (a.special[first + r] || b.special[left + j] || (stepped && values[j] != values[j]))
          codes[j] = static_cast<D>(interpret(first + r, left + j));
      std::copy_n(codes, columns, d.data() + x.place_d()(first + r, left));
    }
  };
  const std::size_t row_tiles = (x.m + panel_rows - 1) / panel_rows;
  tbb::parallel_for(tbb::blocked_range2d<std::size_t>(0, panels, 1, 0, row_tiles, 16), [&](const auto& range) {
    const array::DefaultEnvironment environment;
    Interpreter interpret(unit, x);
    for (std::size_t panel = range.rows().begin(); panel != range.rows().end(); ++panel)
      for (std::size_t t = range.cols().begin(); t != range.cols().end(); ++t)
        tile(t * panel_rows, std::min(panel_rows, x.m - t * panel_rows), panel, interpret);
  });
}

template <class D>
void by_interpreter(const MatrixUnit& unit, const GemmOperands& x, std::span<D> d) {
  tbb::parallel_for(tbb::blocked_range<std::size_t>(0, x.m), [&](const auto& range) {
    const array::DefaultEnvironment environment;
    Interpreter interpret(unit, x);
    for (std::size_t i = range.begin(); i != range.end(); ++i)
      for (std::size_t j = 0; j < x.n; ++j) d[x.place_d()(i, j)] = static_cast<D>(interpret(i, j));
  });
}

template <class D>
void gemm(const MatrixUnit& unit, const GemmOperands& x, std::span<D> d) {
  if (word_bits(unit.accumulator) > static_cast<int>(8 * sizeof(D)))
    throw std::invalid_argument("mma_gemm: words of D are too narrow for " + format_name(unit.accumulator));
  check(unit, x, std::span<const D>(d));
  if (x.m == 0 || x.n == 0) return;
  const array::DefaultEnvironment environment;
  if (const auto body = units::vector_body(unit)) by_panels(unit, *body, x, d);
  else by_interpreter(unit, x, d);
}

}  // namespace

void mma_gemm(const MatrixUnit& unit, const GemmOperands& operands, std::span<std::uint16_t> d) {
  gemm(unit, operands, d);
}
void mma_gemm(const MatrixUnit& unit, const GemmOperands& operands, std::span<std::uint32_t> d) {
  gemm(unit, operands, d);
}
void mma_gemm(const MatrixUnit& unit, const GemmOperands& operands, std::span<std::uint64_t> d) {
  gemm(unit, operands, d);
}

bool has_vector_body(const MatrixUnit& unit) { return units::vector_body(unit).has_value(); }

}  // namespace halfulp
