#include <halfulp/emulation/array/kernels.hpp>
#include <halfulp/emulation/array/scratch.hpp>
#include <halfulp/emulation/block/lanes.hpp>
#include <halfulp/emulation/block/product.hpp>
#include <halfulp/emulation/operation.hpp>
#include <halfulp/emulation/round_pack.hpp>
#include <halfulp/emulation/product/product.hpp>

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace halfulp {

std::vector<Segment> segments_of(std::size_t k, std::size_t block_a, std::size_t block_b, std::size_t promote_every) {
  const auto next = [k](std::size_t begin, std::size_t block) {
    return block == 0 ? k : std::min(k, (begin / block + 1) * block);
  };
  std::vector<Segment> segments;
  for (std::size_t begin = 0; begin < k;) {
    const std::size_t scales_end = std::min(next(begin, block_a), next(begin, block_b));
    for (; begin < scales_end; begin = segments.back().end) {
      const std::size_t end = promote_every && promote_every < scales_end - begin ? begin + promote_every : scales_end;
      segments.push_back({begin, end, end == scales_end});
    }
  }
  return segments;
}

void each_row(std::size_t rows, std::size_t cost, const std::function<void(std::size_t)>& f) {
  const std::size_t grain = std::max<std::size_t>(1, (std::size_t{1} << 14) / std::max<std::size_t>(1, cost));
  const auto run = [&](std::size_t begin, std::size_t end) {
    const array::DefaultEnvironment environment;
    for (std::size_t i = begin; i < end; ++i) f(i);
  };
  if (rows <= grain) return run(0, rows);
  tbb::parallel_for(tbb::blocked_range<std::size_t>(0, rows, grain), [&](const auto& r) { run(r.begin(), r.end()); });
}

namespace {

__extension__ using int128 = __int128;
constexpr float nan_of_floats = std::numeric_limits<float>::quiet_NaN();

/// Scales of the columns of B, segment by segment in a row of n; none where there are no scales.
std::vector<float> by_columns(const OperandScales& b, std::size_t n) {
  std::vector<float> scales(b.of_blocks.empty() ? 0 : b.grid.across * n);
  for (std::size_t i = 0; i < scales.size(); ++i)
    scales[i] = b.of_blocks[i % n / b.grid.block_rows * b.grid.across + i / n];
  return scales;
}

/// Sums by sums(segment, to), scaled and added in fp32.
template <class Sums>
void add_in_fp32(ScaleOrder order, const OperandScales& a, const OperandScales& b, std::size_t m, std::size_t n,
                 std::size_t k, std::span<float> d, Sums sums) {
  const auto block = [](const OperandScales& x) { return x.of_blocks.empty() ? 0 : x.grid.block_columns; };
  const std::vector<float> of_columns = by_columns(b, n), ones(b.of_blocks.empty() ? n : 0, 1.0f);
  add_segments(segments_of(k, block(a), block(b)), m, n, d, sums, [&](const Segment& s, std::size_t i, float* row) {
    const float of_row = a.of_blocks.empty() ? 1.0f : a.of_blocks[a.grid.index(i, s.begin)];
    const float* const columns = of_columns.empty() ? ones.data()
                                                    : of_columns.data() + s.begin / b.grid.block_columns * n;
    if (order == ScaleOrder::after)
      for (std::size_t j = 0; j < n; ++j) row[j] = row[j] * of_row * columns[j];
    else
      for (std::size_t j = 0; j < n; ++j) row[j] = row[j] * (of_row * columns[j]);
  });
  each_row(m, n, [&](std::size_t i) {
    for (float& v : d.subspan(i * n, n)) {
      v = v * a.of_tensor * b.of_tensor;
      if (v != v) v = nan_of_floats;  // Inf - Inf has another sign on other machines
    }
  });
}

// Arrays in block formats.

/// Rows of an array that meet those of another.
struct Rows {
  const BlockArray& array;
  std::size_t first, count;
  BlockGrid grid = block_grid(array.format, array.rows, array.columns);

  std::span<const std::uint8_t> codes() const {
    return std::span(array.codes).subspan(first * grid.columns, count * grid.columns);
  }
  std::size_t block(std::size_t row, std::size_t k) const { return grid.index(first + row, k); }
};

/// Exponent of the last bit that an element may have, and one above its largest.
int lowest(const BlockElement& e) {
  return e.is_integer() ? -e.fraction_bits : e.format.emin() - e.format.fraction_bits;
}
int above(const BlockElement& e) { return e.is_integer() ? e.integer_bits + 1 - e.fraction_bits : e.format.emax() + 1; }
int width(const BlockElement& e) { return above(e) - lowest(e); }

/// Arithmetic outside in fp32 to nearest, as this CPU does it.
struct InFp32 {
  using Value = float;

  float from(const FloatFormat& f, std::uint64_t code, std::size_t) const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(f == fp32 ? code : convert(f, fp32, {}, code).code));
  }
  void from(const FloatFormat& f, std::span<const std::uint32_t> codes, std::span<float> to) const {
    decode(f, codes, to);
  }
  float integer(int128 n, int exponent, std::size_t) const {
    const auto magnitude = static_cast<uint128>(n < 0 ? -n : n);
    return n == 0 ? 0 : from(fp32, round_pack<uint128>(fp32, {}, {n < 0, exponent, magnitude}).code, 0);
  }
  float number(double value, int, double unit, std::size_t) const { return static_cast<float>(value * unit); }
};

/// Arithmetic outside in any stage, on code words. Every output counts the random bits that it draws.
class InStage {
 public:
  using Value = std::uint64_t;
  InStage(const BlockDot& dot, std::size_t outputs, std::uint64_t first_stream)
      : stage_(dot.outer),
        seed_(dot.seed),
        first_stream_(first_stream),
        drawn_(dot.outer.rounding.mode == RoundingMode::stochastic ? outputs : 0) {}

  std::uint64_t run(Operation op, std::uint64_t a, std::uint64_t b, std::size_t output) {
    return evaluate(op, stage_.format, stage_.rounding, a, b, 0, random(output)).code;
  }
  std::uint64_t from(const FloatFormat& f, std::uint64_t code, std::size_t output) {
    return f == stage_.format ? code : convert(f, stage_.format, stage_.rounding, code, random(output)).code;
  }
  void from(const FloatFormat& f, std::span<const std::uint32_t> codes, std::span<std::uint64_t> to) {
    for (std::size_t o = 0; o < to.size(); ++o) to[o] = from(f, codes[o], o);
  }
  std::uint64_t integer(int128 n, int exponent, std::size_t output) {
    if (n == 0) return stage_.format.zero();
    const auto magnitude = static_cast<uint128>(n < 0 ? -n : n);
    return round_pack<uint128>(stage_.format, stage_.rounding, {n < 0, exponent, magnitude}, random(output)).code;
  }
  std::uint64_t number(double value, int exponent, double, std::size_t output) {
    if (std::isfinite(value)) return integer(static_cast<int128>(value), exponent, output);
    return from(fp64, std::bit_cast<std::uint64_t>(value), output);
  }

 private:
  std::uint64_t random(std::size_t output) {
    return drawn_.empty() ? 0 : rounding_bits(seed_, first_stream_ + output, drawn_[output]++);
  }

  Stage stage_;
  std::uint64_t seed_, first_stream_;
  std::vector<std::uint64_t> drawn_;
};

/// Exact sums of elements, rounded once.
class ExactSums {
 public:
  ExactSums(const Rows& a, const Rows& b) : m_(a.count), n_(b.count), k_(a.grid.columns) {
    const BlockElement &x = a.array.format.element, &y = b.array.format.element;
    exponent_ = lowest(x) + lowest(y);
    bits_of_product_ = width(x) + width(y);
    a_ = elements(a), b_ = elements(b);
    columns_ = array::Scratch<double>(n_ * k_);
    constexpr std::size_t tile = 16;  // lines of the cache, read and written
    for (std::size_t first = 0; first < n_; first += tile)
      for (std::size_t k = 0; k < k_; ++k)
        for (std::size_t j = first; j < std::min(n_, first + tile); ++j)
          columns_.data()[k * n_ + j] = b_.data()[j * k_ + k];
  }

  template <class Outside>
  void operator()(Outside& outside, const Segment& s, std::span<typename Outside::Value> to) const {
    const std::size_t length = s.end - s.begin;
    // Doubles hold every sum, and the values that these stand for.
    const bool in_doubles = bits_of_product_ + std::bit_width(length) <= 53 && std::abs(exponent_) < 900;
    if (in_doubles) {
      constexpr std::size_t together = 16;
      const double unit = FloatFormat::power_of_two(exponent_);
      each_row((m_ + together - 1) / together, together * n_ * length, [&](std::size_t group) {
        const std::size_t first = group * together, rows = std::min(together, m_ - first), outputs = rows * n_;
        array::Scratch<double> sums(outputs);
        block::sums_of_products(a_.data() + first * k_ + s.begin, rows, k_, length, columns_.data() + s.begin * n_, n_,
                                sums.data());
        for (std::size_t o = 0; o < outputs; ++o)
          to[first * n_ + o] = outside.number(sums.data()[o], exponent_, unit, first * n_ + o);
      });
      return;
    }
    each_row(m_, n_ * length, [&](std::size_t i) {
      const double* const a = a_.data() + i * k_;
      for (std::size_t j = 0; j < n_; ++j) {
        const double* const b = b_.data() + j * k_;
        int128 sum = 0;
        double special = 0;
        for (std::size_t k = s.begin; k < s.end; ++k)
          if (std::isfinite(a[k]) && std::isfinite(b[k]))
            sum += static_cast<int128>(static_cast<std::int64_t>(a[k])) * static_cast<std::int64_t>(b[k]);
          else special += a[k] * b[k];
        const std::size_t output = i * n_ + j;
        to[output] = std::isfinite(special) ? outside.integer(sum, exponent_, output)
                                            : outside.from(fp64, std::bit_cast<std::uint64_t>(special), output);
      }
    });
  }

 private:
  /// As multiples of the lowest bit, the zero points taken off; Inf and NaN as they are.
  static array::Scratch<double> elements(const Rows& x) {
    const BlockElement& e = x.array.format.element;
    double table[256];
    for (unsigned code = 0; code < 256; ++code) {
      const double value = e.value(code & ((1u << e.bits()) - 1));
      table[code] = std::isfinite(value) ? std::ldexp(value, -lowest(e)) : value;
    }
    const std::span<const std::uint8_t> codes = x.codes();
    array::Scratch<double> all(codes.size());
    for (std::size_t i = 0; i < codes.size(); ++i) all.data()[i] = table[codes[i]];
    for (std::size_t i = 0; i < codes.size() && !x.array.zeros.empty(); ++i)
      all.data()[i] -= x.array.zeros[x.block(i / x.grid.columns, i % x.grid.columns)];
    return all;
  }

  std::size_t m_, n_, k_;
  int exponent_, bits_of_product_;
  array::Scratch<double> a_, b_, columns_;  ///< columns_: B with columns side by side
};

/// Sums of elements by a product model.
class ModelSums {
 public:
  ModelSums(const BlockDot& dot, const Rows& a, const Rows& b, std::uint64_t first_stream)
      : model_(*dot.inside), first_stream_(first_stream) {
    if (auto* const dots = std::get_if<DotModel>(&model_)) dots->input = a.array.format.element.format;
    x_.m = a.count, x_.n = b.count, x_.k = a.grid.columns;
    x_.a = a.codes(), x_.b = b.codes(), x_.transpose_b = true;
  }

  template <class Outside>
  void operator()(Outside& outside, const Segment& s, std::span<typename Outside::Value> to) {
    const FloatFormat& f = format_of_result(model_);
    const auto multiply = [&]<class Word>(std::vector<Word>& words) {
      words.resize(to.size());
      gemm<Word>(model_, x_.along_k(s.begin, s.end), words, first_stream_ + s.begin * to.size());
    };
    if (f.storage_bits() <= 32) {
      multiply(words_);
      outside.from(f, words_, to);
    } else {
      std::vector<std::uint64_t> words;
      multiply(words);
      for (std::size_t o = 0; o < to.size(); ++o) to[o] = outside.from(f, words[o], o);
    }
  }

 private:
  ProductModel model_;
  std::uint64_t first_stream_;
  GemmOperands x_;
  std::vector<std::uint32_t> words_;
};

/// The same on floats, where these hold all elements and results: nothing is converted between segments.
class FloatSums {
 public:
  static bool serves(const DotModel& model, const FloatFormat& element) {
    return holds(fp32, element) && holds(fp32, model.second()) && holds(fp32, model.result());
  }
  FloatSums(DotModel model, const Rows& a, const Rows& b, std::uint64_t first_stream)
      : first_stream_(first_stream), m_(a.count), n_(b.count), k_(a.grid.columns), a_(values(a)), b_(values(b)) {
    model.input = a.array.format.element.format;
    model_ = model;
  }

  void operator()(InFp32&, const Segment& s, std::span<float> to) const {
    FloatOperands x{m_, n_, k_, a_, b_};
    x.transpose_b = true;
    gemm(model_, x.along_k(s.begin, s.end), to, first_stream_ + s.begin * to.size());
  }

 private:
  static std::vector<float> values(const Rows& x) {
    std::vector<float> all(x.codes().size());
    decode(x.array.format.element.format, x.codes(), std::span(all));
    return all;
  }

  ProductModel model_;
  std::uint64_t first_stream_;
  std::size_t m_, n_, k_;
  std::vector<float> a_, b_;
};

/// The scales as fp32.
std::vector<float> fp32_scales(const Rows& x) {
  const BlockGrid& g = x.grid;
  const std::size_t begin = x.first / g.block_rows * g.across,
                    count = (x.count + g.block_rows - 1) / g.block_rows * g.across;
  std::vector<float> values;
  for (const std::uint32_t code : std::span(x.array.scales).subspan(begin, count))
    values.push_back(InFp32{}.from(x.array.format.scale, code, 0));
  return values;
}

bool is_plain_fp32(const Stage& s) {
  const Rounding& r = s.rounding;
  return s.format == fp32 && r.mode == RoundingMode::nearest_even && r.overflow == Overflow::ieee &&
         r.nan == NanRule::canonical && !r.flush_inputs && !r.flush_outputs;
}

template <class Sums>
void multiply_in_fp32(const BlockDot& dot, const Rows& a, const Rows& b, Sums&& sums, std::span<std::uint64_t> c) {
  const std::vector<float> of_a = fp32_scales(a), of_b = fp32_scales(b);
  const auto scales = [](const Rows& x, std::span<const float> of_blocks) {
    return OperandScales{x.grid, of_blocks, x.array.format.tensor_scale ? x.array.tensor_scale : 1};
  };
  std::vector<float> d(c.size());
  InFp32 outside;
  add_in_fp32(dot.order, scales(a, of_a), scales(b, of_b), a.count, b.count, a.grid.columns, d,
              [&](const Segment& s, std::span<float> to) { sums(outside, s, to); });
  std::transform(d.begin(), d.end(), c.begin(), [](float v) { return std::bit_cast<std::uint32_t>(v); });
}

template <class Sums>
void multiply_in_stage(const BlockDot& dot, const Rows& a, const Rows& b, std::uint64_t stream, Sums&& sums,
                       std::span<std::uint64_t> c) {
  const std::size_t n = b.count;
  InStage outside(dot, c.size(), stream);
  const auto scale = [&](const Segment& s, std::size_t i, std::uint64_t* row) {
    for (std::size_t j = 0; j < n; ++j) {
      const std::size_t o = i * n + j;
      const std::uint64_t sa = outside.from(a.array.format.scale, a.array.scales[a.block(i, s.begin)], o),
                          sb = outside.from(b.array.format.scale, b.array.scales[b.block(j, s.begin)], o);
      row[j] = dot.order == ScaleOrder::after
                   ? outside.run(Operation::mul, outside.run(Operation::mul, row[j], sa, o), sb, o)
                   : outside.run(Operation::mul, row[j], outside.run(Operation::mul, sa, sb, o), o);
    }
  };
  add_segments<std::uint64_t>(
      segments_of(a.grid.columns, a.grid.block_columns, b.grid.block_columns), a.count, n, c,
      [&](const Segment& s, std::span<std::uint64_t> to) { sums(outside, s, to); }, scale,
      [&](std::size_t i, std::uint64_t* to, const std::uint64_t* x) {
        for (std::size_t j = 0; j < n; ++j) to[j] = outside.run(Operation::add, to[j], x[j], i * n + j);
      });
  for (const Rows* x : {&a, &b})
    for (std::size_t o = 0; o < c.size() && x->array.format.tensor_scale; ++o)
      c[o] = outside.run(Operation::mul, c[o], outside.from(fp32, block::bits_of(x->array.tensor_scale), o), o);
}

/// `stream` is that of the first output.
void multiply(const BlockDot& dot, const Rows& a, const Rows& b, std::uint64_t stream, std::span<std::uint64_t> c) {
  const auto with = [&](auto&& sums) {
    if (is_plain_fp32(dot.outer)) multiply_in_fp32(dot, a, b, sums, c);
    else multiply_in_stage(dot, a, b, stream, sums, c);
  };
  if (!dot.inside) return with(ExactSums(a, b));
  const std::uint64_t first_stream = stream * a.grid.across;
  const auto* const dots = std::get_if<DotModel>(&*dot.inside);
  if (dots && is_plain_fp32(dot.outer) && FloatSums::serves(*dots, a.array.format.element.format))
    return multiply_in_fp32(dot, a, b, FloatSums(*dots, a, b, first_stream), c);
  with(ModelSums(dot, a, b, first_stream));
}

bool draws_inside(const BlockDot& dot) {
  const auto* const model = dot.inside ? std::get_if<DotModel>(&*dot.inside) : nullptr;
  if (!model) return false;
  const auto draws = [](const Stage& s) { return s.rounding.mode == RoundingMode::stochastic; };
  return draws(model->accumulator) || draws(model->outer()) || (model->product && draws(*model->product)) ||
         (model->output && draws(*model->output));
}

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
  if (!dot.inside) {
    // 2^60 terms of such products, as a 128-bit integer.
    if (width(a.element) > 62 || width(b.element) > 62 || width(a.element) + width(b.element) > 96)
      return "products of " + element_name(a.element) + " and " + element_name(b.element) +
             " span too many bits to be summed exactly; give a dot model";
    return {};
  }
  if (a.element.is_integer() || b.element.is_integer())
    return "elements " + element_name(a.element) + " and " + element_name(b.element) +
           " are summed exactly: they take no dot model or unit";
  if (const auto* const unit = std::get_if<MatrixUnit>(&*dot.inside)) {
    if (unit->scaled()) return unit->name + " takes scales of its own";
    if (!(unit->a == a.element.format && unit->b == b.element.format))
      return unit->name + " does not take " + element_name(a.element) + " and " + element_name(b.element);
    return refusal(*unit);
  }
  if (!(a.element == b.element))
    return "a dot model takes elements of one format, not " + element_name(a.element) + " and " +
           element_name(b.element);
  DotModel model = std::get<DotModel>(*dot.inside);
  model.input = a.element.format;
  return dot_refusal(model);
}

std::uint64_t block_dot(const BlockDot& dot, const BlockArray& a, std::size_t row_a, const BlockArray& b,
                        std::size_t row_b, std::uint64_t stream) {
  require(dot, a, b);
  if (row_a >= a.rows || row_b >= b.rows)
    refuse("row " + std::to_string(row_a >= a.rows ? row_a : row_b) + " is not there");
  std::uint64_t c = 0;
  multiply(dot, {a, row_a, 1}, {b, row_b, 1}, stream, std::span(&c, 1));
  return c;
}

void block_gemm(const BlockDot& dot, const BlockArray& a, const BlockArray& b, std::span<std::uint64_t> c) {
  require(dot, a, b);
  if (c.size() != a.rows * b.rows)
    refuse("the result has " + std::to_string(c.size()) + " elements, not " + std::to_string(a.rows) + " x " +
           std::to_string(b.rows));
  if (!draws_inside(dot)) return multiply(dot, {a, 0, a.rows}, {b, 0, b.rows}, 0, c);
  // Streams inside are an output's own.
  tbb::parallel_for(std::size_t{0}, c.size(),
                    [&](std::size_t o) { multiply(dot, {a, o / b.rows, 1}, {b, o % b.rows, 1}, o, c.subspan(o, 1)); });
}

void block_gemm(const ProductModel& model, const FloatOperands& x, const OperandScales& a, const OperandScales& b,
                std::span<float> d, std::uint64_t first_stream) {
  add_in_fp32(ScaleOrder::after, a, b, x.m, x.n, x.k, d, [&](const Segment& s, std::span<float> to) {
    gemm(model, x.along_k(s.begin, s.end), to, first_stream + s.begin * x.m * x.n);
  });
}

}  // namespace halfulp
