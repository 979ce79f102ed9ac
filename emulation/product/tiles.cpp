#include <halfulp/emulation/product/tiles.hpp>

#include <halfulp/emulation/array/array.hpp>
#include <halfulp/emulation/array/kernels.hpp>
#include <halfulp/emulation/operation.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/emulation/product/panels.hpp>
#include <halfulp/emulation/product/rules.hpp>

#include <tbb/blocked_range2d.h>
#include <tbb/enumerable_thread_specific.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace halfulp::products {
namespace {

/// A tile's operands: panels of floats, and of halves where there are.
struct Factors {
  const float *a, *b;
  const std::uint32_t *half_a, *half_b;
};

/// Adds one tile of outputs in the model's order.
class TileSum {
 public:
  TileSum(const DotModel& model, const TileRules& rules, std::size_t k, const Factors& x, const Draws& draws,
          const TileStream& stream, bool* watches)
      : model_(model), rules_(rules), k_(k), x_(x), draws_(draws), stream_(stream), watches_(watches) {}

  void run(float* out) {
    const auto lane_part = [&](std::size_t j, float* to, std::size_t) { part(j, k_, std::min(model_.width, k_), to); };
    const std::size_t block = model_.order == Order::sequential ? k_ : std::min(model_.block, k_),
                      blocks = k_ / block + (k_ % block != 0);
    const auto block_part = [&](std::size_t j, float* to, std::size_t) {
      part(j * block, j * block + std::min(block, k_ - j * block), 1, to);
    };
    if (model_.order == Order::interleaved) return halves(0, std::min(model_.width, k_), lane_part, out, 0);
    if (blocks == 1) return block_part(0, out, 0);
    if (model_.order == Order::pairwise) return halves(0, blocks, block_part, out, 0);
    if (model_.order == Order::tree) return tree(0, blocks, block_part, out, 0);
    block_part(0, out, 0);
    for (std::size_t j = 1; j < blocks; ++j) {
      block_part(j, room(0), 0);
      add(out, room(0));
    }
  }

  /// Adds x by a rule of the outer stage.
  void add(const StepRule& rule, float* to, const float* x) {
    set_direction(rule.direction);
    if (rule.direction == Direction::stochastic) add_tiles_stochastically(rule, drawn_++, stream_, to, x, to);
    else add_tiles(rule, to, x, to);
  }

 private:
  void part(std::size_t begin, std::size_t end, std::size_t step, float* out) {
    set_direction(rules_.running.direction);
    const std::size_t count = (end - begin - 1) / step + 1;
    if (rules_.running.direction == Direction::stochastic) {
      run_stochastic_tile(rules_.running, draws_, drawn_, stream_, count, x_.a + begin * panel_rows, step * panel_rows,
                          x_.b + begin * panel_columns, step * panel_columns, out);
      drawn_ += draws_.first_term + (count - 1) * draws_.term;
      return;
    }
    if (rules_.running.carrier == Carrier::half)
      return run_half_tile(rules_.running, count, x_.half_a + begin * half_rows, step * half_rows,
                           x_.half_b + begin * half_columns, step * half_columns, out);
    const auto run = [&](const StepRule& rule) {
      return run_tile(rule, count, x_.a + begin * panel_rows, step * panel_rows, x_.b + begin * panel_columns,
                      step * panel_columns, out);
    };
    if (*watches_ && rules_.running.watchable) {
      StepRule watched = rules_.running;
      watched.sum.fix = Fix::watched;
      *watches_ = run(watched);
      if (*watches_) return;
    }
    run(rules_.running);
  }
  void add(float* to, const float* x) { add(rules_.outer, to, x); }
  template <class Partial>
  void halves(std::size_t begin, std::size_t end, const Partial& partial, float* out, std::size_t level) {
    if (end - begin == 1) return partial(begin, out, level);
    const std::size_t middle = begin + (end - begin + 1) / 2;
    halves(begin, middle, partial, out, level);
    halves(middle, end, partial, room(level), level + 1);
    add(out, room(level));
  }
  template <class Partial>
  void tree(std::size_t begin, std::size_t end, const Partial& partial, float* out, std::size_t level) {
    const std::size_t count = end - begin;
    if (count == 1) return partial(begin, out, level);
    std::size_t below = 1;
    while (below <= (count - 1) / model_.width) below *= model_.width;
    const auto subtree = [&](std::size_t j, float* to, std::size_t at) {
      const std::size_t from = begin + j * below;
      tree(from, from + std::min(below, end - from), partial, to, at);
    };
    halves(0, (count - 1) / below + 1, subtree, out, level);
  }
  /// Memory for the second summand at a depth of the recursion.
  float* room(std::size_t level) {
    while (rooms_.size() <= level) rooms_.push_back(hwy::AllocateAligned<float>(tile_size));
    return rooms_[level].get();
  }

  const DotModel& model_;
  const TileRules& rules_;
  std::size_t k_;
  Factors x_;
  Draws draws_;
  TileStream stream_;
  bool* watches_;            ///< whether sums beyond the largest value, which a tile would have to redo, are rare
  std::uint64_t drawn_ = 0;  ///< words of each output's stream so far
  std::vector<hwy::AlignedFreeUniquePtr<float[]>> rooms_;
};

/// An output computed by the scalar definition.
struct Redone {
  std::size_t i, j;
  std::uint64_t code;
};

/// The part of a product's work that does not depend on the tile.
template <class Words>
struct Work {
  const DotModel& model;
  const Plan& plan;
  const MatrixOperands<Words>& x;
  std::uint64_t first_stream;
  const RulesOfTiles& rules;
  const Panels &a, &b;
  const float* c;  ///< in the outer stage's format, m x n; or none
  float* d;        ///< values of the outer stage
  std::size_t ldd;
};

/// What a thread keeps from tile to tile.
template <class Words>
struct OfThread {
  std::optional<ScalarOutputs<Words>> scalar;
  std::vector<Redone> redone;
  TileRules rules;  ///< of a tile that needs its own
  bool watches = true;
};

/// Whether the result at row r and column j of a tile is -0, by the signs of its products.
bool negative_zero(const Plan& plan, const float* a, const float* b, std::size_t k) {
  bool all_negative = true, all_positive = true;
  for (std::size_t i = 0; i < k && (all_negative || all_positive); ++i) {
    const bool negative = std::signbit(a[i * panel_rows]) != std::signbit(b[i * panel_columns]);
    (negative ? all_positive : all_negative) = false;
  }
  return plan.negative_zero(all_negative, all_positive);
}

template <class Words>
void run_tile(const Work<Words>& w, std::size_t row_panel, std::size_t column_panel, OfThread<Words>& own) {
  const std::size_t top = row_panel * panel_rows, left = column_panel * panel_columns;
  const std::size_t rows = std::min(panel_rows, w.x.m - top), columns = std::min(panel_columns, w.x.n - left);
  const auto redo = [&](std::size_t r, std::size_t j) {
    set_direction(Direction::nearest);
    if (!own.scalar) own.scalar.emplace(w.model, w.x, w.first_stream);
    own.redone.push_back({top + r, left + j, (*own.scalar)(top + r, left + j)});
  };
  const TileRules* const rules = w.rules(w.a.extents[row_panel], w.b.extents[column_panel], own.rules);
  if (!rules) {
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t j = 0; j < columns; ++j) {
        w.d[(top + r) * w.ldd + left + j] = 0;
        redo(r, j);
      }
    return;
  }
  alignas(64) float out[tile_size], addend[tile_size];
  const float *a = w.a.panel(row_panel), *b = w.b.panel(column_panel);
  TileSum sum(w.model, *rules, w.x.k, {a, b, w.a.half_panel(row_panel), w.b.half_panel(column_panel)}, w.plan.draws,
              {w.model.seed, w.first_stream + top * w.x.n + left, w.x.n}, &own.watches);
  sum.run(out);

  const auto each = [&](auto f) {
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t j = 0; j < columns; ++j) f(r, j, out[r * panel_columns + j]);
  };
  const bool unknown_zeros = rules->signless_zeros && !rules->signs_tell;
  if (rules->signless_zeros && oddities_of(out).zero)
    each([&](std::size_t r, std::size_t j, float& v) {
      if (v == 0)
        v = unknown_zeros ? std::numeric_limits<float>::quiet_NaN()
                          : std::copysign(0.0f, negative_zero(w.plan, a + r, b + j, w.x.k) ? -1.0f : 1.0f);
    });
  if (w.c) {
    std::fill(std::begin(addend), std::end(addend), 0.0f);
    for (std::size_t r = 0; r < rows; ++r)
      std::copy_n(w.c + (top + r) * w.x.n + left, columns, addend + r * panel_columns);
    // Stochastic rounding truncates: floats hide what is beyond them.
    if (w.plan.outer.direction == Direction::stochastic && w.plan.outer.rounder.way == Way::linear)
      each([&](std::size_t r, std::size_t j, float v) {
        const double c = addend[r * panel_columns + j];
        if (std::isfinite(v) && std::isfinite(c) && std::abs(v) + std::abs(c) >= 0x1p127) redo(r, j);
      });
    sum.add(w.plan.addend_rule(), out, addend);
  }
  const Oddities oddities = oddities_of(out);
  if (oddities.nan)
    each([&](std::size_t r, std::size_t j, float& v) {
      if (v == v) return;
      v = std::numeric_limits<float>::quiet_NaN();
      if (w.plan.redo_nan || unknown_zeros) redo(r, j);
    });
  if (oddities.zero && !w.plan.outer.format.has_negative_zero())
    each([](std::size_t, std::size_t, float& v) { v = v == 0 ? 0 : v; });
  for (std::size_t r = 0; r < rows; ++r) std::copy_n(out + r * panel_columns, columns, w.d + (top + r) * w.ldd + left);
}

template <class Words>
std::vector<Redone> run_tiles(const Work<Words>& w) {
  tbb::enumerable_thread_specific<OfThread<Words>> all;
  const std::size_t row_panels = w.a.extents.size(), column_panels = w.b.extents.size();
  tbb::parallel_for(tbb::blocked_range2d<std::size_t>(0, column_panels, 1, 0, row_panels, 8), [&](const auto& range) {
    const array::DefaultEnvironment environment;
    OfThread<Words>& own = all.local();
    for (std::size_t j = range.rows().begin(); j != range.rows().end(); ++j)
      for (std::size_t i = range.cols().begin(); i != range.cols().end(); ++i) run_tile(w, i, j, own);
  });
  std::vector<Redone> redone;
  for (const OfThread<Words>& own : all) redone.insert(redone.end(), own.redone.begin(), own.redone.end());
  return redone;
}

/// The rounding of outer values into the result's format, including its NaN rule.
Rounding into_result(const DotModel& model, const Plan& plan) {
  Rounding rounding;
  if (model.output && model.output->format != model.outer().format) rounding = model.output->rounding;
  else rounding.nan = plan.nan;
  rounding.flush_inputs = false;  // no result of a stage that flushes is subnormal
  return rounding;
}

/// Rounds values to the words of D.
template <class Code>
void store(const DotModel& model, const Rounding& rounding, const float* values, std::size_t m, std::size_t n,
           std::size_t ldd, std::span<Code> d) {
  const FloatFormat& f = model.result();
  const std::size_t lines = ldd == n ? 1 : m, length = ldd == n ? m * n : n;
  const auto nan = static_cast<Code>(fresh_nan(fp32, rounding));
  for (std::size_t i = 0; i < lines; ++i) {
    const std::span<const float> from(values + i * n, length);
    const std::span<Code> to = d.subspan(i * ldd, length);
    if (f == fp32 && model.outer().format == fp32) {
      for (std::size_t j = 0; j < length; ++j)
        to[j] = from[j] == from[j] ? static_cast<Code>(std::bit_cast<std::uint32_t>(from[j])) : nan;
    } else if constexpr (sizeof(Code) == 8) {
      for (std::size_t j = 0; j < length; ++j)
        to[j] = convert(fp32, f, rounding, std::bit_cast<std::uint32_t>(from[j])).code;
    } else {
      encode(f, rounding, from, to);
    }
  }
}

/// Copies a matrix to floats without gaps. NaN becomes the usual one: rounding by integers would carry out of others.
void copy_rows(std::span<const float> x, const FloatFormat&, std::size_t m, std::size_t n, std::size_t leading,
               float* to) {
  for (std::size_t i = 0; i < m; ++i)
    std::replace_copy_if(
        x.data() + i * leading, x.data() + i * leading + n, to + i * n, [](float v) { return v != v; },
        std::numeric_limits<float>::quiet_NaN());
}
void copy_rows(const CodeWords& x, const FloatFormat& f, std::size_t m, std::size_t n, std::size_t leading, float* to) {
  x.visit([&](const auto* words) {
    using Code = std::remove_cvref_t<decltype(*words)>;
    for (std::size_t i = 0; i < m; ++i) {
      if constexpr (sizeof(Code) == 8) {
        for (std::size_t j = 0; j < n; ++j) to[i * n + j] = value_of(f, words[i * leading + j]);
      } else {
        decode(f, std::span<const Code>(words + i * leading, n), std::span(to + i * n, n));
      }
    }
  });
}

bool output_rounds(const DotModel& model) { return model.output && model.output->format != model.outer().format; }

}  // namespace

template <class Words, class D>
void gemm_by_vectors(const DotModel& model, const Plan& plan, const MatrixOperands<Words>& x, std::span<D> d,
                     std::uint64_t first_stream) {
  const auto lines = [](bool transposed, std::size_t rows, std::size_t columns, const Placement& place,
                        bool rows_are_vectors) {
    if (transposed) return Lines{columns, rows, place.column, !rows_are_vectors};
    return Lines{rows, columns, place.row, rows_are_vectors};
  };
  const RulesOfTiles rules(plan, model, x.k);
  const Panels a = pack(x.a, model.input, lines(x.transpose_a, x.m, x.k, x.place_a(), true), panel_rows, plan.flushed_a,
                        rules.takes_halves());
  const Panels b = pack(x.b, model.second(), lines(x.transpose_b, x.k, x.n, x.place_b(), false), panel_columns,
                        plan.flushed_b, rules.takes_halves());
  array::Scratch<float> c, values;
  if (x.c.size() != 0) {
    c = array::Scratch<float>(x.m * x.n);
    copy_rows(x.c, model.result(), x.m, x.n, x.place_c().row, c.data());
    const std::span<float> all(c.data(), x.m * x.n);
    Rounding rounding = model.outer().rounding;
    // Of another NaN the payload would be rounded.
    rounding.nan = NanRule::canonical;
    const bool flushes = std::exchange(rounding.flush_inputs, false);  // here that means floats
    if (output_rounds(model)) {
      if (flushes) flush_below(least_normal(model.result()), all, model.result().has_negative_zero());
      quantize(model.outer().format, rounding, std::span<const float>(all), all);
    }
    if (flushes) flush_below(least_normal(model.outer().format), all, model.outer().format.has_negative_zero());
  }
  const bool direct = std::is_same_v<D, float> && !output_rounds(model);
  Work<Words> work{model, plan, x, first_stream, rules, a, b, c.data(), nullptr, x.n};
  if constexpr (std::is_same_v<D, float>) work.d = d.data(), work.ldd = x.place_d().row;
  if (!direct) {
    values = array::Scratch<float>(x.m * x.n);
    work.d = values.data(), work.ldd = x.n;
  }
  const std::vector<Redone> redone = run_tiles(work);
  const std::size_t ldd = x.place_d().row;
  if constexpr (std::is_same_v<D, float>) {
    Rounding rounding = into_result(model, plan);
    rounding.nan = NanRule::canonical;
    if (!direct)
      for (std::size_t i = 0; i < x.m; ++i)
        quantize(model.result(), rounding, std::span<const float>(values.data() + i * x.n, x.n),
                 d.subspan(i * ldd, x.n));
    for (const Redone& r : redone) d[r.i * ldd + r.j] = value_of(model.result(), r.code);
  } else {
    store(model, into_result(model, plan), values.data(), x.m, x.n, ldd, d);
    for (const Redone& r : redone) d[r.i * ldd + r.j] = static_cast<D>(r.code);
  }
}

template void gemm_by_vectors(const DotModel&, const Plan&, const GemmOperands&, std::span<std::uint8_t>,
                              std::uint64_t);
template void gemm_by_vectors(const DotModel&, const Plan&, const GemmOperands&, std::span<std::uint16_t>,
                              std::uint64_t);
template void gemm_by_vectors(const DotModel&, const Plan&, const GemmOperands&, std::span<std::uint32_t>,
                              std::uint64_t);
template void gemm_by_vectors(const DotModel&, const Plan&, const GemmOperands&, std::span<std::uint64_t>,
                              std::uint64_t);
template void gemm_by_vectors(const DotModel&, const Plan&, const FloatOperands&, std::span<float>, std::uint64_t);

}  // namespace halfulp::products
