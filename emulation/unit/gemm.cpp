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

std::uint64_t addend(const GemmOperands& x, std::size_t i, std::size_t j) {
  return x.c.size() == 0 ? 0 : x.c[x.place_c()(i, j)];
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
    return mma(unit_, {a_, b_, scale_a_, scale_b_}, addend(x_, i, j));
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
  explicit Accumulators(const MatrixUnit& unit) : f_(unit.accumulator), nan_(unit.sum.nan) {}
  float value(std::uint64_t code) const {
    return f_ == fp32 ? std::bit_cast<float>(static_cast<std::uint32_t>(code)) : static_cast<float>(f_.value(code));
  }
  std::uint64_t code(float value) const {
    if (value != value) return nan_;
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if (f_ == fp32) return bits;
    const std::uint64_t sign = bits >> 31 ? f_.sign_mask() : 0;
    const std::uint32_t magnitude = bits & 0x7fff'ffff;
    if (magnitude == 0x7f80'0000) return sign | f_.infinity();
    const int exponent = static_cast<int>(magnitude >> 23) - 127, cut = 23 - f_.fraction_bits;
    if (exponent >= f_.emin())
      return sign | ((magnitude >> cut) - (static_cast<std::uint64_t>(127 - f_.bias) << f_.fraction_bits));
    return sign | static_cast<std::uint64_t>(std::bit_cast<float>(magnitude) *
                                             FloatFormat::power_of_two(f_.fraction_bits - f_.emin()));
  }

 private:
  FloatFormat f_;
  std::uint64_t nan_;
};

/// The sum to nearest in a format of at most 11 bits of precision: rounding the float sum again is then harmless (24 >=
/// 2 * 11 + 2).
float nearest_sum(const FloatFormat& f, float a, float b) {
  const float sum = a + b;
  if (f == fp32) return sum;
  return static_cast<float>(
      f.value(evaluate({Operation::convert, fp32, f, {}}, std::bit_cast<std::uint32_t>(sum)).code));
}

template <class D>
void by_panels(const MatrixUnit& unit, const units::VectorBody& body, const GemmOperands& x, std::span<D> d) {
  using units::panel_columns, units::panel_rows, units::Body;
  const units::PanelRule& rule = body.rule;
  const std::vector<std::size_t> order = units::order_of(unit, x.k);
  const units::Prepared a = units::prepare_rows(unit, body, x, order), b = units::prepare_columns(unit, body, x, order);
  const std::size_t depth = order.size(), panels = (x.n + panel_columns - 1) / panel_columns;
  const Accumulators accumulators(unit);
  // The sums of each of Hopper's FP8 mma.sync start from 0, and C is added to them.
  const bool apart = unit.rule == &rules::halves_apart;
  const std::size_t steps = apart ? depth / static_cast<std::size_t>(unit.depth()) : 1;

  const auto tile = [&](std::size_t first, std::size_t rows, std::size_t panel, Interpreter& interpret) {
    const std::size_t left = panel * panel_columns, columns = std::min(panel_columns, x.n - left);
    alignas(64) float out[panel_rows * panel_columns] = {}, sums[panel_rows * panel_columns];
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t j = 0; j < columns; ++j)
        out[r * panel_columns + j] = accumulators.value(addend(x, first + r, left + j));
    const std::size_t b_at = panel * panel_columns * depth;
    for (std::size_t s = 0; s < steps; ++s) {
      const std::size_t begin = s * (depth / steps), count = depth / steps;
      const std::size_t from_a = first * depth + begin, from_b = b_at + begin * panel_columns;
      if (apart) std::fill(std::begin(sums), std::end(sums), 0.0f);
      float* to = apart ? sums : out;
      switch (body.body) {
        case Body::parts:
          units::fused_panel(rule, rows, count, depth, a.parts(from_a), b.parts(from_b), to, panel_columns);
          break;
        case Body::powers:
          units::fused_panel(rule, rows, count, depth, a.powers(from_a), b.powers(from_b), to, panel_columns);
          break;
        case Body::groups:
          units::grouped_panel(rule, rows, count, depth, a.groups(from_a, rule.group), b.groups(from_b, rule.group), to,
                               panel_columns);
          break;
      }
      if (apart)
        for (std::size_t i = 0; i < rows * panel_columns; ++i) out[i] = nearest_sum(unit.accumulator, out[i], sums[i]);
    }
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t j = 0; j < columns; ++j) {
        const std::size_t at = x.place_d()(first + r, left + j);
        const bool special = a.special[first + r] || b.special[left + j];
        d[at] = static_cast<D>(special ? interpret(first + r, left + j)
                                       : accumulators.code(out[r * panel_columns + j]));
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
