#include <halfulp/experiments/checkpoint/survey.hpp>

#include <halfulp/emulation/array/array.hpp>
#include <halfulp/emulation/block/packed.hpp>
#include <halfulp/experiments/checkpoint/rounding.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/work.hpp>

#include <tbb/enumerable_thread_specific.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

namespace halfulp::checkpoint {
namespace {

constexpr std::uint32_t infinite_bits = 0x7f80'0000;

std::uint32_t magnitude_bits(float x) { return std::bit_cast<std::uint32_t>(x) & 0x7fff'ffff; }

/// What a thread gathers of a tensor. Sums of whole numbers and maxima do not depend on who gathers what.
struct Gathered {
  std::vector<std::uint64_t> codes;            ///< of types up to 16 bits: how often each code word occurs
  std::vector<std::int32_t> columns;           ///< largest magnitude of each, as bits; NaN is left out
  std::vector<std::uint64_t> exponent_fields;  ///< of wider types: of fp32's exponent field, and at 256 of zeros
  std::map<int, std::uint64_t> subnormals;     ///< of wider types, by exponent
  std::vector<std::uint64_t> wide_exponents;   ///< of fp64: of its exponent field, of what is finite and not 0
  std::uint32_t amax = 0;                      ///< of what is finite, as bits
  double wide_amax = 0;                        ///< of fp64
  std::uint64_t nan = 0, infinite = 0;
};

/// The first pass over a tensor: facts, and what the second one has to know.
class FirstPass {
 public:
  FirstPass(const ModelTensor& tensor, const MatrixView& view) : tensor_(tensor), view_(view) {
    // Tables of code words are for tensors that are not small beside them.
    const int bits = tensor.format() ? tensor.format()->storage_bits() : 32;
    by_code_ = bits <= 8 || (bits <= 16 && tensor.count >= (std::uint64_t{1} << 14));
    row_magnitudes_.resize(view.matrices * view.rows);
  }

  bool by_code() const { return by_code_; }
  const std::vector<std::uint64_t>& codes() const { return codes_; }
  /// The largest magnitude of a row; NaN if it has one.
  float row_amax(std::uint64_t row) const { return std::bit_cast<float>(row_magnitudes_[row]); }
  /// The largest magnitude, infinity included, NaN left out.
  float amax_with_infinity() const { return facts_.infinite ? std::numeric_limits<float>::infinity() : amax_; }
  const Facts& facts() const { return facts_; }

  void run(const std::vector<Part>& parts, double outliers, const std::function<void(std::uint64_t)>& done) {
    tbb::enumerable_thread_specific<Gathered> all;
    const std::vector<double> squares = parallel_map(parts.size(), [&](std::size_t i) {
      const double sum = tbb::this_task_arena::isolate([&] { return look(parts[i], all.local()); });
      done(parts[i].elements());
      return sum;
    });
    Gathered sum;
    for (Gathered& g : all) add(sum, g);
    for (const double s : squares) facts_.squares += s;
    conclude(sum, outliers);
    codes_ = std::move(sum.codes);
  }

 private:
  template <class T>
  static void add(std::vector<T>& to, const std::vector<T>& from) {
    if (to.empty()) to.resize(from.size());
    for (std::size_t i = 0; i < from.size(); ++i) to[i] += from[i];
  }
  static void add(Gathered& to, const Gathered& from) {
    add(to.codes, from.codes), add(to.exponent_fields, from.exponent_fields);
    add(to.wide_exponents, from.wide_exponents);
    to.columns.resize(std::max(to.columns.size(), from.columns.size()));
    for (std::size_t i = 0; i < from.columns.size(); ++i) to.columns[i] = std::max(to.columns[i], from.columns[i]);
    for (const auto& [exponent, count] : from.subnormals) to.subnormals[exponent] += count;
    to.amax = std::max(to.amax, from.amax), to.wide_amax = std::max(to.wide_amax, from.wide_amax);
    to.nan += from.nan, to.infinite += from.infinite;
  }

  /// Counts a part; gives the sum of its squares, of wide types.
  double look(const Part& part, Gathered& to) {
    thread_local PartValues of_part;
    thread_local std::vector<std::uint16_t> codes;
    std::vector<float>& values = of_part.floats;
    if (by_code_) {
      gather(view_, part, codes,
             [&](std::uint64_t at, auto some) { tensor_.files->read_codes(*tensor_.plain, at, some); });
      to.codes.resize(std::size_t{1} << tensor_.format()->storage_bits());
      for (const std::uint16_t code : codes) ++to.codes[code];
      values.resize(codes.size());
      decode<std::uint16_t>(*tensor_.format(), codes, values);
    } else {
      read_part(tensor_, view_, part, of_part);
    }
    for (std::uint64_t row = 0; row < part.rows; ++row) {
      const std::span<const float> of_row = std::span(values).subspan(row * part.columns, part.columns);
      if (view_.matrices * view_.rows > 1) add_columns(of_row, part.column, to.columns);
      // Parts of one row may be in two threads' hands.
      std::atomic_ref<std::uint32_t> most(row_magnitudes_[part.matrix * view_.rows + part.row + row]);
      const std::uint32_t own = magnitude_bits(largest_magnitude(of_row));
      for (std::uint32_t before = most.load(); before < own && !most.compare_exchange_weak(before, own);) {}
    }
    if (by_code_) return 0;
    const double squares = count_values(values, !tensor_.is_wide(), to);
    return tensor_.is_wide() ? count_wide(of_part.exact, to) : squares;
  }

  /// What floats do not say of fp64.
  static double count_wide(const std::vector<double>& values, Gathered& to) {
    constexpr std::size_t fields = std::size_t{1} << 11;
    to.wide_exponents.resize(fields);
    double squares = 0;
    for (const double x : values) {
      if (!std::isfinite(x) || x == 0) continue;
      to.wide_amax = std::max(to.wide_amax, std::fabs(x));
      squares += x * x;
      const auto field = static_cast<std::size_t>(std::bit_cast<std::uint64_t>(x) >> 52 & (fields - 1));
      if (field) ++to.wide_exponents[field];
      else ++to.subnormals[std::ilogb(x)];
    }
    return squares;
  }

  static double count_values(const std::vector<float>& values, bool counts_subnormals, Gathered& to) {
    to.exponent_fields.resize(257);
    bool finite = true;
    for (const float x : values) {
      const std::uint32_t bits = magnitude_bits(x);
      ++to.exponent_fields[bits == 0 ? 256 : bits >> 23];
      if (bits < infinite_bits) to.amax = std::max(to.amax, bits);
      else finite = false, ++(bits == infinite_bits ? to.infinite : to.nan);
      if (counts_subnormals && bits && bits < 0x80'0000) ++to.subnormals[std::bit_width(bits) - 150];
    }
    if (finite) return sum_of_squares(values);
    std::vector<float> kept;
    std::copy_if(values.begin(), values.end(), std::back_inserter(kept), [](float x) { return std::isfinite(x); });
    return sum_of_squares(kept);
  }

  static void add_columns(std::span<const float> row, std::uint64_t first, std::vector<std::int32_t>& columns) {
    if (columns.size() < first + row.size()) columns.resize(first + row.size());
    std::int32_t* const most = columns.data() + first;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const auto bits = static_cast<std::int32_t>(magnitude_bits(row[i]));
      const std::int32_t counted = bits > static_cast<std::int32_t>(infinite_bits) ? 0 : bits;
      most[i] = most[i] < counted ? counted : most[i];
    }
  }

  void conclude(const Gathered& sum, double outliers) {
    Facts& f = facts_;
    f.nan = sum.nan, f.infinite = sum.infinite;
    amax_ = std::bit_cast<float>(sum.amax), f.amax = tensor_.is_wide() ? sum.wide_amax : static_cast<double>(amax_);
    if (tensor_.is_wide()) {
      for (std::size_t field = 1; field < sum.wide_exponents.size(); ++field)
        if (sum.wide_exponents[field]) f.exponents[static_cast<int>(field) - 1023] = sum.wide_exponents[field];
    } else {
      for (std::size_t field = 1; field < sum.exponent_fields.size() && field < 255; ++field)
        if (sum.exponent_fields[field]) f.exponents[static_cast<int>(field) - 127] = sum.exponent_fields[field];
    }
    for (const auto& [exponent, count] : sum.subnormals) f.exponents[exponent] += count;
    if (!sum.exponent_fields.empty()) f.zeros = sum.exponent_fields[256];
    for (std::size_t code = 0; code < sum.codes.size(); ++code) {
      const std::uint64_t count = sum.codes[code];
      if (count == 0) continue;
      const double value = tensor_.format()->value(code);
      if (std::isnan(value)) f.nan += count;
      else if (std::isinf(value)) f.infinite += count;
      else if (value == 0) f.zeros += count;
      else {
        f.exponents[std::ilogb(value)] += count;
        f.squares += static_cast<double>(count) * (value * value);
        f.amax = std::max(f.amax, std::fabs(value));
      }
    }
    if (!sum.codes.empty()) amax_ = static_cast<float>(f.amax);
    if (sum.columns.empty()) return;
    std::vector<std::int32_t> sorted = sum.columns;
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    const auto value = [](std::int32_t bits) { return static_cast<double>(std::bit_cast<float>(bits)); };
    f.columns = sum.columns.size();
    f.outlier_columns = static_cast<std::uint64_t>(
        std::count_if(sum.columns.begin(), sum.columns.end(),
                      [&](std::int32_t most) { return most > 0 && value(most) >= outliers * value(*middle); }));
  }

  const ModelTensor& tensor_;
  MatrixView view_;
  bool by_code_;
  float amax_ = 0;  ///< of the floats
  std::vector<std::uint32_t> row_magnitudes_;
  std::vector<std::uint64_t> codes_;
  Facts facts_;
};

Rounding rounding_of(Overflow overflow) {
  Rounding rounding;
  rounding.overflow = overflow;
  return rounding;
}

/// The loss of values in a candidate that gives every element the same step. `times`: how often each value occurs;
/// empty: once.
Loss loss_by_value(const ChosenFormat& c, std::span<const float> values, std::span<const std::uint64_t> times,
                   Overflow overflow, float amax) {
  Loss loss;
  if (values.empty()) return loss;
  std::vector<float> after(values.size());
  ValueRange range;
  if (const BlockFormat* const f = c.block()) {
    BlockOptions options;
    if (!f->element.is_affine()) options.amax = amax;
    const BlockArray array = quantize_blocks(*f, {}, values, 1, values.size(), options);
    dequantize_blocks(array, after);
    const BlockStep step = array.step(0);
    const ValueRange element = range_of(f->element);
    range = value_range(element, step);
  } else {
    const auto& plain = std::get<FloatFormat>(c.format);
    quantize(plain, rounding_of(overflow), values, std::span<float>(after));
    const double most = plain.value(plain.max_finite());
    range = {plain.is_signed ? -most : -INFINITY, most};
  }
  for (std::size_t i = 0; i < values.size(); ++i)
    loss.count(static_cast<double>(values[i]), static_cast<double>(after[i]), range, times.empty() ? 1 : times[i]);
  return loss;
}

/// Some rows of a tensor, as in PartValues.
struct Rows {
  std::span<const float> floats;
  std::span<const double> exact;

  Rows part(std::uint64_t first, std::uint64_t count) const {
    return {floats.subspan(first, count), exact.empty() ? exact : exact.subspan(first, count)};
  }
  /// Not finite if a number is not; of exact numbers it is not asked for.
  double squares() const { return exact.empty() ? sum_of_squares(floats) : 0; }
};

/// Memory that a thread keeps from part to part.
struct Workspace {
  std::vector<float> after;
  std::vector<double> exactly;
  std::vector<ElementRun> runs;
  std::vector<ValueRange> ranges;
  BlockArray array;
  ScalesApart apart;
};

/// One part of a tensor in one candidate, by vectors where everything is finite.
class PartLoss {
 public:
  PartLoss(const ChosenFormat& c, Overflow overflow) : c_(c), overflow_(overflow) {
    thread_local Workspace own;
    work_ = &own;
  }

  /// `squares`: of these rows. `amax`: of all that share a step, where it is known.
  void add(Loss& loss, const Rows& some, std::uint64_t rows, double squares, std::optional<float> amax) {
    const auto& [values, exact] = some;
    const std::size_t count = values.size(), columns = count / rows;
    auto& [after, exactly, runs, ranges, array, apart] = *work_;
    after.resize(count), runs.clear(), ranges.clear();
    if (const BlockFormat* const f = c_.block()) {
      BlockOptions options;
      if (amax && !f->element.is_affine()) options.amax = amax;
      const ValueRange range = range_of(f->element);
      const BlockGrid grid = block_grid(*f, rows, columns);
      if (f->element.is_affine()) {
        quantize_blocks(*f, {}, values, rows, columns, array, options);
        dequantize_blocks(array, after);
        for (std::size_t i = 0; i < grid.count(); ++i) {
          const BlockStep step = array.step(i);
          runs.push_back(value_run(range, step));
          if (!exact.empty()) ranges.push_back(value_range(range, step));
        }
      } else {
        apart.of_blocks = true;
        quantize_block_values(*f, {}, values, rows, columns, after, options, &apart);
        for (const float of_block : apart.blocks) {
          BlockStep step;
          step.value = f->tensor_scale ? of_block * apart.tensor : of_block;
          runs.push_back(element_run(range, step.value));
          if (!exact.empty()) ranges.push_back(value_range(range, step));
        }
      }
      if (exact.empty()) return add_losses(loss, values, after, grid, runs, squares);
      return add_losses(loss, exact, after, grid, runs, ranges);
    }
    const auto& plain = std::get<FloatFormat>(c_.format);
    const double most = plain.value(plain.max_finite());
    if (!exact.empty()) {
      exactly.resize(count);
      quantize(plain, rounding_of(overflow_), exact, std::span<double>(exactly));
      for (std::size_t i = 0; i < count; ++i)
        loss.count(exact[i], exactly[i], {plain.is_signed ? -most : -INFINITY, most});
      return;
    }
    quantize(plain, rounding_of(overflow_), values, std::span<float>(after));
    runs.push_back(element_run({plain.is_signed ? -most : -INFINITY, most}, 1));
    add_losses(loss, values, after, one_block(count), runs, squares);
  }

 private:
  const ChosenFormat& c_;
  Overflow overflow_;
  Workspace* work_;
};

/// The second pass: what each candidate loses of a part.
class SecondPass {
 public:
  SecondPass(const ModelTensor& tensor, const MatrixView& view, const std::vector<ChosenFormat>& candidates,
             Overflow overflow, const FirstPass& first)
      : tensor_(tensor), view_(view), candidates_(candidates), overflow_(overflow), first_(first) {}

  /// Of candidates that the first pass's code words do not answer.
  bool looks_at(const ChosenFormat& c) const { return !first_.by_code() || !by_value(c.format); }

  std::vector<Loss> part(const Part& part) const {
    thread_local PartValues of_part;
    read_part(tensor_, view_, part, of_part);
    const Rows values{of_part.floats, of_part.exact};
    std::vector<Loss> losses(candidates_.size());
    // Parts of rows are looked at one by one: each has the largest magnitude of its own whole row.
    const std::uint64_t few = part.columns != view_.columns ? 1 : std::max<std::uint64_t>(1, piece_size / part.columns);
    for (std::uint64_t row = 0; row < part.rows; row += few) {
      const std::uint64_t rows = std::min(few, part.rows - row);
      const Rows some = values.part(row * part.columns, rows * part.columns);
      const double squares = some.squares();
      for (std::size_t i = 0; i < candidates_.size(); ++i)
        if (looks_at(candidates_[i]) && !is_tall(candidates_[i]))
          flat(candidates_[i], part, row, rows, some, squares, losses[i]);
    }
    for (std::size_t i = 0; i < candidates_.size(); ++i)
      if (looks_at(candidates_[i]) && is_tall(candidates_[i])) tall(candidates_[i], part, values, losses[i]);
    return losses;
  }

 private:
  static bool is_tall(const ChosenFormat& c) {
    const BlockFormat* const f = c.block();
    return f && f->rows != 1 && !(f->rows == 0 && f->columns == 0);
  }

  /// Blocks of one row, or one step for all.
  void flat(const ChosenFormat& c, const Part& part, std::uint64_t row, std::uint64_t rows, const Rows& values,
            double squares, Loss& loss) const {
    PartLoss of(c, overflow_);
    const BlockFormat* const f = c.block();
    if (!f) return of.add(loss, values, rows, squares, {});
    if (f->tensor_scale) return of.add(loss, values, rows, squares, first_.amax_with_infinity());
    if (by_value(c.format))
      return of.add(loss, values, rows, squares,
                    first_.facts().nan ? std::numeric_limits<float>::quiet_NaN() : first_.amax_with_infinity());
    if (f->columns == 0 && part.columns != view_.columns)
      return of.add(loss, values, rows, squares, first_.row_amax(part.matrix * view_.rows + part.row + row));
    of.add(loss, values, rows, squares, {});
  }

  /// Blocks of several rows, some columns of blocks at a time.
  void tall(const ChosenFormat& c, const Part& part, const Rows& values, Loss& loss) const {
    PartLoss of(c, overflow_);
    const BlockFormat& f = *c.block();
    const std::uint64_t block = f.columns ? std::min<std::uint64_t>(f.columns, part.columns) : part.columns;
    const std::uint64_t width = std::max<std::uint64_t>(1, piece_size / part.rows / block) * block;
    thread_local PartValues columns_of;
    for (std::uint64_t column = 0; column < part.columns; column += width) {
      const std::uint64_t columns = std::min(width, part.columns - column);
      const auto take = [&](auto from, auto& to) {
        to.resize(from.empty() ? 0 : part.rows * columns);
        for (std::uint64_t row = 0; row < part.rows && !from.empty(); ++row)
          std::copy_n(from.data() + row * part.columns + column, columns, to.data() + row * columns);
      };
      take(values.floats, columns_of.floats), take(values.exact, columns_of.exact);
      const Rows some{columns_of.floats, columns_of.exact};
      of.add(loss, some, part.rows, some.squares(),
             f.tensor_scale ? std::optional(first_.amax_with_infinity()) : std::nullopt);
    }
  }

  const ModelTensor& tensor_;
  MatrixView view_;
  const std::vector<ChosenFormat>& candidates_;
  Overflow overflow_;
  const FirstPass& first_;
};

}  // namespace

Survey survey(const ModelTensor& tensor, const std::vector<ChosenFormat>& candidates, Overflow overflow,
              double outliers, const std::function<void(std::uint64_t)>& done) {
  Survey survey;
  survey.tensor = &tensor;
  if (tensor.count == 0) {  // extents beside a 0 may be anything
    for (const ChosenFormat& c : candidates) survey.kept.push_back(size_in(c.format, {0, 0, 0}));
    return survey;
  }
  const MatrixView view = view_of(tensor.shape);
  std::vector<const AnyFormat*> formats;
  for (const ChosenFormat& c : candidates) formats.push_back(&c.format);
  const std::vector<Part> parts = parts_of(view, formats, tensor.plain != nullptr);
  FirstPass first(tensor, view);
  first.run(parts, outliers, done);
  survey.facts = first.facts();
  for (const ChosenFormat& c : candidates) survey.kept.push_back(size_in(c.format, view));
  const SecondPass second(tensor, view, candidates, overflow, first);
  if (std::any_of(candidates.begin(), candidates.end(), [&](const ChosenFormat& c) { return second.looks_at(c); })) {
    const auto losses = parallel_map(parts.size(), [&](std::size_t i) {
      auto of_part = tbb::this_task_arena::isolate([&] { return second.part(parts[i]); });
      done(parts[i].elements());
      return of_part;
    });
    for (const std::vector<Loss>& of_part : losses)
      for (std::size_t i = 0; i < candidates.size(); ++i) survey.kept[i].loss.add(of_part[i]);
  } else {
    done(tensor.count);
  }
  if (!first.by_code()) return survey;
  std::vector<float> values;
  std::vector<std::uint64_t> times;
  for (std::size_t code = 0; code < first.codes().size(); ++code)
    if (const std::uint64_t count = first.codes()[code])
      values.push_back(static_cast<float>(tensor.format()->value(code))), times.push_back(count);
  const float amax = survey.facts.nan ? std::numeric_limits<float>::quiet_NaN() : first.amax_with_infinity();
  for (std::size_t i = 0; i < candidates.size(); ++i)
    if (by_value(candidates[i].format))
      survey.kept[i].loss = loss_by_value(candidates[i], values, times, overflow, amax);
  return survey;
}

Kept size_in(const AnyFormat& format, const MatrixView& view) {
  Kept kept;
  const std::uint64_t elements = view.matrices * view.rows * view.columns;
  const auto whole_bytes = [](std::uint64_t count, int bits) { return packed_size(count, bits); };
  if (const auto* const plain = std::get_if<FloatFormat>(&format)) {
    kept.bytes = whole_bytes(elements, plain->storage_bits());
    kept.bits = plain->storage_bits();
    return kept;
  }
  const auto& f = std::get<BlockFormat>(format);
  const bool one = f.rows == 0 && f.columns == 0;
  const BlockGrid grid = block_grid(f, view.rows, view.columns);
  const std::uint64_t scales = elements == 0 ? 0 : one ? 1 : view.matrices * grid.count();
  kept.bytes = whole_bytes(elements, f.element.bits()) + whole_bytes(scales, f.scale.storage_bits()) +
               (f.element.is_affine() ? whole_bytes(scales, f.element.bits()) : 0) + (f.tensor_scale ? 4 : 0);
  kept.bits = elements == 0 ? f.element.bits() : 8 * static_cast<double>(kept.bytes) / static_cast<double>(elements);
  return kept;
}

}  // namespace halfulp::checkpoint
