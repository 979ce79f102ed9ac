#include <halfulp/emulation/text.hpp>
#include <halfulp/evidence/probe/search.hpp>

#include <algorithm>
#include <numeric>

namespace halfulp::probe {
namespace {

constexpr std::array<RoundingMode, 7> modes{RoundingMode::toward_zero,     RoundingMode::nearest_even,
                                            RoundingMode::nearest_away,    RoundingMode::nearest_to_zero,
                                            RoundingMode::toward_negative, RoundingMode::toward_positive,
                                            RoundingMode::to_odd};

}  // namespace

std::int64_t get(const FusedSum& s, SumParameter p) {
  switch (p) {
    case SumParameter::length: return s.length;
    case SumParameter::grouping: return static_cast<std::int64_t>(s.grouping);
    case SumParameter::direction: return s.descending;
    case SumParameter::alignment_bits: return s.alignment_bits;
    case SumParameter::alignment: return static_cast<std::int64_t>(s.alignment);
    case SumParameter::normalized: return s.normalized_products;
    case SumParameter::least_exponent: return s.least_exponent;
    case SumParameter::kept: return s.kept.fraction_bits;
    case SumParameter::rounding: return static_cast<std::int64_t>(s.rounding);
    case SumParameter::flush_inputs: return s.flush_inputs;
    case SumParameter::flush_outputs: return s.flush_outputs;
    case SumParameter::zero: return static_cast<std::int64_t>(s.zero);
    case SumParameter::nan: break;
  }
  return static_cast<std::int64_t>(s.nan);
}

void set(FusedSum& s, SumParameter p, std::int64_t value) {
  switch (p) {
    case SumParameter::length: s.length = static_cast<int>(value); return;
    case SumParameter::grouping: s.grouping = static_cast<Grouping>(value); return;
    case SumParameter::direction: s.descending = value != 0; return;
    case SumParameter::alignment_bits: s.alignment_bits = static_cast<int>(value); return;
    case SumParameter::alignment: s.alignment = static_cast<RoundingMode>(value); return;
    case SumParameter::normalized: s.normalized_products = value != 0; return;
    case SumParameter::least_exponent: s.least_exponent = static_cast<int>(value); return;
    case SumParameter::kept: s.kept.fraction_bits = static_cast<int>(value); return;
    case SumParameter::rounding: s.rounding = static_cast<RoundingMode>(value); return;
    case SumParameter::flush_inputs: s.flush_inputs = value != 0; return;
    case SumParameter::flush_outputs: s.flush_outputs = value != 0; return;
    case SumParameter::zero: s.zero = static_cast<ZeroSign>(value); return;
    case SumParameter::nan: s.nan = static_cast<std::uint64_t>(value); return;
  }
}

std::vector<std::int64_t> candidates(const MatrixShape& shape, SumParameter p) {
  std::vector<std::int64_t> values;
  const auto range = [&](int first, int last) {
    for (int v = first; v <= last; ++v) values.push_back(v);
  };
  switch (p) {
    case SumParameter::length:
      for (int length = 1; length <= shape.k; ++length)
        if (shape.k % length == 0) values.push_back(length);
      break;
    case SumParameter::alignment_bits: range(0, 60); break;
    case SumParameter::alignment:
    case SumParameter::rounding:
      for (const RoundingMode mode : modes) values.push_back(static_cast<std::int64_t>(mode));
      break;
    case SumParameter::least_exponent:
      values.push_back(FusedSum::no_least_exponent);
      range(std::min(product_reach(shape, true).least, addend_reach(shape, true).least) - 1, 0);
      break;
    case SumParameter::kept:
      for (int bits = shape.accumulator.fraction_bits; bits >= 1; --bits) values.push_back(bits);
      break;
    case SumParameter::nan: break;
    default: range(0, 1);
  }
  return values;
}

std::string text(const MatrixShape& shape, SumParameter p, std::int64_t value) {
  switch (p) {
    case SumParameter::grouping: return std::string(name_in(groupings, static_cast<Grouping>(value)));
    case SumParameter::direction: return value != 0 ? "descending" : "ascending";
    case SumParameter::alignment:
    case SumParameter::rounding: return std::string(name_of(static_cast<RoundingMode>(value)));
    case SumParameter::zero: return std::string(name_in(zero_signs, static_cast<ZeroSign>(value)));
    case SumParameter::nan: return print_code(shape.accumulator, static_cast<std::uint64_t>(value));
    case SumParameter::least_exponent: return value == FusedSum::no_least_exponent ? "none" : std::to_string(value);
    case SumParameter::normalized:
    case SumParameter::flush_inputs:
    case SumParameter::flush_outputs: return value != 0 ? "yes" : "no";
    default: return std::to_string(value);
  }
}

Reach product_reach(const MatrixShape& s, bool normalized) {
  Reach r{s.a.emin() + s.b.emin(), s.a.emax() + s.b.emax() + normalized,
          s.a.emin() + s.b.emin() - s.a.fraction_bits - s.b.fraction_bits};
  if (s.scale_block != 0) {
    r.least += 2 * s.scale.emin(), r.largest += 2 * s.scale.emax() + (s.scale.fraction_bits > 0 && normalized);
    r.last += 2 * (s.scale.emin() - s.scale.fraction_bits);
  }
  if (normalized) r.least = r.last;
  return r;
}

Reach addend_reach(const MatrixShape& s, bool normalized) {
  const FloatFormat& d = s.accumulator;
  const int last = d.emin() - d.fraction_bits;
  return {normalized ? last : d.emin(), d.emax(), last};
}

QuestionOrder Answers::chosen(const std::function<bool(std::size_t)>& predicate) const {
  QuestionOrder order;
  for (std::size_t i = 0; i < size(); ++i)
    if (predicate(i)) order.push_back(static_cast<std::uint32_t>(i));
  return order;
}

QuestionOrder Answers::all() const {
  QuestionOrder order(size());
  std::iota(order.begin(), order.end(), 0U);
  return order;
}

std::optional<std::size_t> Answers::first(const std::function<bool(std::size_t)>& predicate) const {
  for (std::size_t i = 0; i < size(); ++i)
    if (predicate(i)) return i;
  return std::nullopt;
}

bool Answers::explained_by(const MatrixUnit& model, QuestionOrder& order) const {
  for (auto at = order.begin(); at != order.end(); ++at) {
    if (by_model(model, *at) == d_[*at]) continue;
    std::rotate(order.begin(), at, at + 1);
    return false;
  }
  return true;
}

std::size_t Answers::differing(const MatrixUnit& model) const {
  std::size_t count = 0;
  for (std::size_t i = 0; i < size(); ++i) count += by_model(model, i) != d_[i];
  return count;
}

MatrixUnit model_of(const MatrixShape& s, const Rule& rule, const FusedSum& sum) {
  return {"probed", "", s.a, s.b, s.accumulator, 1, 1, s.k, &rule, sum, s.scale, s.scale_block, "", ""};
}

}  // namespace halfulp::probe
