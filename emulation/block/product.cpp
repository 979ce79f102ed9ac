#include <halfulp/emulation/array/kernels.hpp>
#include <halfulp/emulation/block/product.hpp>
#include <halfulp/emulation/operation.hpp>

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include <cstdlib>

namespace halfulp {
namespace {

/// Exponent of the last bit that an element may have, and one above its largest.
int lowest(const BlockElement& e) {
  return e.is_integer() ? -e.fraction_bits : e.format.emin() - e.format.fraction_bits;
}
int above(const BlockElement& e) { return e.is_integer() ? e.integer_bits + 1 - e.fraction_bits : e.format.emax() + 1; }

/// An element as an integer times 2^lowest, or what is no number.
struct Term {
  std::int64_t units = 0;
  double value = 0;
};

Term term(const BlockElement& e, std::uint8_t code, int zero) {
  if (e.is_integer()) return {e.integer(code) - zero, static_cast<double>(e.integer(code) - zero)};
  const FloatFormat& f = e.format;
  if (!f.is_finite(code)) return {0, f.value(code)};
  const auto units = static_cast<std::int64_t>(f.significand(code) << (f.exponent(code) - lowest(e)));
  return {f.sign(code) ? -units : units, f.value(code)};
}

/// One row of an array, ready for its products.
struct Row {
  const BlockArray& array;
  BlockGrid grid;
  std::size_t row;
  std::uint8_t code(std::size_t k) const { return array.codes[row * grid.columns + k]; }
  std::size_t block(std::size_t k) const { return grid.index(row, k); }
  int zero(std::size_t k) const { return array.zeros.empty() ? 0 : array.zeros[block(k)]; }
  std::size_t end_of_block(std::size_t k) const {
    return std::min(grid.columns, (k / grid.block_columns + 1) * grid.block_columns);
  }
  std::vector<std::uint64_t> codes(std::size_t begin, std::size_t end) const {
    std::vector<std::uint64_t> all;
    for (std::size_t k = begin; k < end; ++k) all.push_back(code(k));
    return all;
  }
};

class Dot {
 public:
  Dot(const BlockDot& dot, std::uint64_t stream) : dot_(dot), f_(dot.outer.format), stream_(stream) {}

  std::uint64_t operator()(const Row& a, const Row& b) {
    std::uint64_t sum = f_.zero();
    for (std::size_t k = 0, columns = a.grid.columns; k < columns;) {
      const std::size_t end = std::min(a.end_of_block(k), b.end_of_block(k));
      std::uint64_t p = segment(a, b, k, end);
      const std::uint64_t sa = scale(a.array, a.block(k)), sb = scale(b.array, b.block(k));
      p = dot_.order == ScaleOrder::after ? run(Operation::mul, run(Operation::mul, p, sa), sb)
                                          : run(Operation::mul, p, run(Operation::mul, sa, sb));
      sum = k == 0 ? p : run(Operation::add, sum, p);
      k = end;
    }
    for (const BlockArray* x : {&a.array, &b.array})
      if (x->format.tensor_scale) sum = run(Operation::mul, sum, outer(fp32, block::bits_of(x->tensor_scale)));
    return sum;
  }

 private:
  std::uint64_t random() {
    return dot_.outer.rounding.mode == RoundingMode::stochastic ? rounding_bits(dot_.seed, stream_, drawn_++) : 0;
  }
  std::uint64_t run(Operation op, std::uint64_t a, std::uint64_t b) {
    return evaluate(op, f_, dot_.outer.rounding, a, b, 0, random()).code;
  }
  std::uint64_t outer(const FloatFormat& from, std::uint64_t code) {
    return from == f_ ? code : convert(from, f_, dot_.outer.rounding, code, random()).code;
  }
  std::uint64_t scale(const BlockArray& x, std::size_t block) { return outer(x.format.scale, x.scales[block]); }

  std::uint64_t segment(const Row& a, const Row& b, std::size_t begin, std::size_t end) {
    if (dot_.unit) {
      const std::vector<std::uint64_t> x = a.codes(begin, end), y = b.codes(begin, end);
      return outer(dot_.unit->accumulator, mma(*dot_.unit, {x, y, {}, {}}, dot_.unit->accumulator.zero()));
    }
    if (dot_.inside) {
      DotModel model = *dot_.inside;
      model.input = a.array.format.element.format;
      return outer(model.result(),
                   dot(model, a.codes(begin, end), b.codes(begin, end), stream_ * a.grid.across + begin));
    }
    const BlockElement &ea = a.array.format.element, &eb = b.array.format.element;
    __extension__ __int128 sum = 0;
    double special = 0;
    for (std::size_t k = begin; k < end; ++k) {
      const Term x = term(ea, a.code(k), a.zero(k)), y = term(eb, b.code(k), b.zero(k));
      if (std::isfinite(x.value) && std::isfinite(y.value)) sum += static_cast<decltype(sum)>(x.units) * y.units;
      else special += x.value * y.value;
    }
    if (!std::isfinite(special)) return outer(fp64, std::bit_cast<std::uint64_t>(special));
    if (sum == 0) return f_.zero();
    const bool negative = sum < 0;
    const auto magnitude = static_cast<uint128>(negative ? -sum : sum);
    return round_pack<uint128>(f_, dot_.outer.rounding, {negative, lowest(ea) + lowest(eb), magnitude}, random()).code;
  }

  const BlockDot& dot_;
  const FloatFormat& f_;
  std::uint64_t stream_, drawn_ = 0;
};

[[noreturn]] void refuse(const std::string& why) { throw std::invalid_argument(why); }

/// What does not depend on the rows.
void require(const BlockDot& dot, const BlockArray& a, const BlockArray& b) {
  if (const std::string why = refusal(dot, a.format, b.format); !why.empty()) refuse(why);
  if (a.columns != b.columns)
    refuse("rows of " + std::to_string(a.columns) + " and " + std::to_string(b.columns) +
           " elements are not multiplied");
  for (const BlockArray* x : {&a, &b})
    if (x->codes.size() != x->rows * x->columns ||
        x->scales.size() != block_grid(x->format, x->rows, x->columns).count())
      refuse("an array of " + std::to_string(x->rows) + " x " + std::to_string(x->columns) +
             " elements lacks code words or scales");
}

}  // namespace

std::string refusal(const BlockDot& dot, const BlockFormat& a, const BlockFormat& b) {
  const FloatFormat& f = dot.outer.format;
  for (const BlockFormat* x : {&a, &b})
    if (const std::string why = defect(*x); !why.empty()) return "a block format that " + why;
  if (!f.has_zero || !f.is_signed) return format_name(f) + " has no zero or no sign: nothing is added in it";
  const bool integers = a.element.is_integer() || b.element.is_integer();
  if (dot.inside && dot.unit) return "a dot model and a matrix unit inside: one of them";
  if (dot.inside || dot.unit) {
    if (integers)
      return "elements " + element_name(a.element) + " and " + element_name(b.element) +
             " are summed exactly: they take no dot model or unit";
    if (dot.unit && dot.unit->scaled()) return dot.unit->name + " takes scales of its own";
    if (dot.unit && !(dot.unit->a == a.element.format && dot.unit->b == b.element.format))
      return dot.unit->name + " does not take " + element_name(a.element) + " and " + element_name(b.element);
    if (dot.inside) {
      if (!(a.element == b.element))
        return "a dot model takes elements of one format, not " + element_name(a.element) + " and " +
               element_name(b.element);
      DotModel model = *dot.inside;
      model.input = a.element.format;
      return dot_refusal(model);
    }
    return {};
  }
  // 2^60 terms of such products, as a 128-bit integer.
  if (above(a.element) - lowest(a.element) > 62 || above(b.element) - lowest(b.element) > 62 ||
      above(a.element) + above(b.element) - lowest(a.element) - lowest(b.element) > 96)
    return "products of " + element_name(a.element) + " and " + element_name(b.element) +
           " span too many bits to be summed exactly; give a dot model";
  return {};
}

std::uint64_t block_dot(const BlockDot& dot, const BlockArray& a, std::size_t row_a, const BlockArray& b,
                        std::size_t row_b, std::uint64_t stream) {
  require(dot, a, b);
  if (row_a >= a.rows || row_b >= b.rows)
    refuse("row " + std::to_string(row_a >= a.rows ? row_a : row_b) + " is not there");
  return Dot(dot, stream)({a, block_grid(a.format, a.rows, a.columns), row_a},
                          {b, block_grid(b.format, b.rows, b.columns), row_b});
}

void block_gemm(const BlockDot& dot, const BlockArray& a, const BlockArray& b, std::span<std::uint64_t> c) {
  require(dot, a, b);
  if (c.size() != a.rows * b.rows)
    refuse("the result has " + std::to_string(c.size()) + " elements, not " + std::to_string(a.rows) + " x " +
           std::to_string(b.rows));
  const BlockGrid grid_a = block_grid(a.format, a.rows, a.columns), grid_b = block_grid(b.format, b.rows, b.columns);
  tbb::parallel_for(tbb::blocked_range<std::size_t>(0, c.size(), 16), [&](const auto& r) {
    for (std::size_t i = r.begin(); i < r.end(); ++i)
      c[i] = Dot(dot, i)({a, grid_a, i / b.rows}, {b, grid_b, i % b.rows});
  });
}

}  // namespace halfulp
