#include <halfulp/evidence/probe/infer.hpp>

#include <halfulp/emulation/text.hpp>
#include <halfulp/emulation/unit/rules.hpp>
#include <halfulp/evidence/probe/search.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <stdexcept>

namespace halfulp::probe {
namespace {

std::vector<SumParameter> parameters_of(const Rule& rule) {
  std::vector<SumParameter> used;
  for (const ParameterInfo& row : parameters) {
    const SumParameter p = row.parameter;
    const bool of_all = p == SumParameter::grouping || p == SumParameter::direction || p == SumParameter::normalized;
    // These pass on the NaN that they are given.
    const bool own_nan = &rule != &rules::even_odd_chains && &rule != &rules::odd_even_pair &&
                         &rule != &rules::fp64_chain;
    const bool always = p == SumParameter::length || (p == SumParameter::nan && own_nan);
    if (rule.takes == RuleTakes::all || (rule.takes == RuleTakes::sum && !of_all) || always) used.push_back(p);
  }
  return used;
}

/// The topics in which a parameter shows most plainly.
bool shows(SumParameter p, Topic topic) {
  switch (p) {
    case SumParameter::length:
    case SumParameter::grouping:
    case SumParameter::direction: return topic == Topic::order;
    case SumParameter::alignment_bits:
    case SumParameter::alignment:
    case SumParameter::normalized: return topic == Topic::cancel;
    case SumParameter::least_exponent: return topic == Topic::small;
    case SumParameter::kept:
    case SumParameter::rounding: return topic == Topic::addend || topic == Topic::rounding;
    case SumParameter::flush_inputs:
    case SumParameter::flush_outputs: return topic == Topic::subnormal;
    case SumParameter::zero: return topic == Topic::zero;
    case SumParameter::nan: break;
  }
  return topic == Topic::special;
}

/// The first question of a plain topic that refutes another model; else the one that did.
Refutation witness(const Answers& answers, const MatrixUnit& other, SumParameter p, std::size_t refuting) {
  for (std::size_t i = 0; i < answers.size(); ++i)
    if (shows(p, answers.topic(i)) && answers.by_model(other, i) != answers[i]) {
      refuting = i;
      break;
    }
  return {refuting, answers[refuting], get(other.sum, p), answers.by_model(other, refuting)};
}

/// The questions that a parameter can matter to: a least exponent shows only in small sums.
QuestionOrder questions_about(const Answers& answers, const MatrixUnit& model, SumParameter p) {
  QuestionOrder order = answers.all();
  if (p != SumParameter::least_exponent || model.rule != &rules::fused) return order;
  QuestionOrder large = large_questions(answers, {model.sum.length, model.sum.grouping, model.sum.descending});
  order.clear();
  for (std::uint32_t i = 0, next = 0; i < answers.size(); ++i) {
    if (next < large.size() && large[next] == i) ++next;
    else order.push_back(i);
  }
  return order;
}

/// Ascending values as intervals of the candidates: no least exponent counts as the neighbour of the least one that is
/// tried.
std::vector<ValueRange> intervals(std::vector<std::int64_t> values, std::vector<std::int64_t> all) {
  std::sort(values.begin(), values.end()), std::sort(all.begin(), all.end());
  std::vector<ValueRange> result;
  std::size_t after = all.size();  // the place among all that would continue the last interval
  for (const std::int64_t v : values) {
    const auto at = static_cast<std::size_t>(std::lower_bound(all.begin(), all.end(), v) - all.begin());
    if (!result.empty() && at == after) result.back().last = v;
    else result.push_back({v, v});
    after = at + 1;
  }
  return result;
}

Finding finding_of(const Answers& answers, const MatrixUnit& model, SumParameter p) {
  const std::int64_t value = get(model.sum, p);
  Finding f{p, value, {{value, value}}, "", true, {}};
  if (p == SumParameter::nan) {
    const auto i = answers.first([&](std::size_t q) { return answers[q] == model.sum.nan; });
    if (i) f.witnesses.push_back({*i, answers[*i], value, answers[*i]});
    return f;
  }
  const std::vector<std::int64_t> all = candidates(answers.shape(), p);
  std::vector<std::int64_t> same{value};
  std::map<std::int64_t, std::size_t> excluded;  // and a question that does it
  MatrixUnit other = model;
  QuestionOrder order = questions_about(answers, model, p);
  for (const std::int64_t v : all) {
    if (v == value) continue;
    set(other.sum, p, v);
    if (model.rule == &rules::fused && !refusal(other).empty()) continue;
    const std::string why = same_for_all_operands(answers.shape(), model, p, v);
    // This parameter is not all that describes other lengths of other rules.
    const bool possible = p != SumParameter::length || model.rule == &rules::fused;
    if (!why.empty()) f.because = why;  // that of the largest value holds for the smaller ones
    else if (!possible || !answers.explained_by(other, order)) {
      if (possible) excluded[v] = order.front();
      continue;
    } else f.proven = false;
    same.push_back(v);
  }
  if (!f.proven) f.because = "none of the " + std::to_string(answers.size()) + " questions tells them apart";
  f.values = intervals(same, all);
  // The nearest excluded values on both sides.
  const auto above = excluded.upper_bound(value);
  for (const auto at : {above == excluded.begin() ? excluded.end() : std::prev(above), above}) {
    if (at == excluded.end()) continue;
    set(other.sum, p, at->first);
    f.witnesses.push_back(witness(answers, other, p, at->second));
  }
  return f;
}

std::vector<std::string> observations(const Answers& answers) {
  std::vector<std::string> lines;
  const int bits = surviving_bits(answers);
  lines.push_back("C alone comes through with " + std::to_string(bits) + " fraction bits");
  std::string text;
  for (const SumLayout& l : layouts(answers, bits))
    text += (text.empty() ? "" : ", or ") + std::to_string(l.length) + " " +
            std::string(name_in(groupings, l.grouping)) + " products" + (l.descending ? " from the last ones" : "");
  lines.push_back(text.empty() ? "no division of the products into sums agrees with the order in which they are added"
                               : "added at once: " + text);
  return lines;
}

void match_rows(const Answers& answers, Identification& found) {
  QuestionOrder order = answers.all();
  for (const MatrixUnit& row : matrix_units())
    if (shape_of(row) == answers.shape() && answers.explained_by(row, order)) found.rows.push_back(row.name);
  if (!found.rows.empty()) return;
  for (const MatrixUnit& row : matrix_units()) {
    if (!(shape_of(row) == answers.shape())) continue;
    const std::size_t differs = answers.differing(row);
    if (found.nearest.empty() || differs < found.nearest_differs)
      found.nearest = row.name, found.nearest_differs = differs;
  }
}

}  // namespace

bool Finding::holds(std::int64_t v) const {
  return std::any_of(values.begin(), values.end(), [&](const ValueRange& i) { return i.first <= v && v <= i.last; });
}

Identification infer(const MatrixShape& shape, const MatrixCases& cases, std::span<const std::uint64_t> d) {
  const Questions asked = ask(shape);
  const MatrixCases& q = asked.cases;
  if (cases.a != q.a || cases.b != q.b || cases.c != q.c || cases.scale_a != q.scale_a || cases.scale_b != q.scale_b)
    throw std::invalid_argument("these are not the " + std::to_string(q.size()) +
                                " questions of this version for this shape: ask the device again");
  if (d.size() != q.size())
    throw std::invalid_argument(std::to_string(d.size()) + " answers to " + std::to_string(q.size()) + " questions");
  const Answers answers(shape, asked, d);
  Identification found;
  found.questions = q.size();
  found.observed = observations(answers);
  std::vector<MatrixUnit> units = find_others(answers);
  if (const auto fused = find_fused(answers)) units.push_back(*fused);
  for (const MatrixUnit& unit : units) {
    InferredModel model{unit, {}, alternatives(answers, unit)};
    for (const SumParameter p : parameters_of(*unit.rule)) model.findings.push_back(finding_of(answers, unit, p));
    found.models.push_back(std::move(model));
  }
  match_rows(answers, found);
  if (found.models.empty()) found.unexplained = found.nearest.empty() ? found.questions : found.nearest_differs;
  return found;
}

int Alternative::least_exponent(const FusedSum& found, std::int64_t bits_there) const {
  if (!exponent_moves) return found.least_exponent;
  return found.least_exponent + static_cast<int>(bits_there) - found.alignment_bits;
}

std::vector<Alternative> alternatives(const Answers& answers, const MatrixUnit& model) {
  std::vector<Alternative> result;
  if (model.rule != &rules::fused) return result;
  QuestionOrder order = answers.all();
  for (const std::int64_t mode : candidates(answers.shape(), SumParameter::alignment))
    for (const auto& [normalized, moves] :
         {std::pair{false, false}, std::pair{true, false}, std::pair{false, true}, std::pair{true, true}}) {
      Alternative a{static_cast<RoundingMode>(mode), normalized, moves, {0, 0}};
      const bool own = a.alignment == model.sum.alignment && normalized == model.sum.normalized_products;
      if (moves ? model.sum.least_exponent == FusedSum::no_least_exponent || model.sum.length != 1 : own) continue;
      MatrixUnit other = model;
      const auto explains = [&](std::int64_t bits) {
        other.sum.alignment = a.alignment, other.sum.normalized_products = a.normalized;
        other.sum.alignment_bits = static_cast<int>(bits), other.sum.least_exponent = a.least_exponent(model.sum, bits);
        return answers.explained_by(other, order);
      };
      const std::vector<std::int64_t> bits = candidates(answers.shape(), SumParameter::alignment_bits);
      std::int64_t last = bits.back();
      while (last >= bits.front() && !explains(last)) --last;
      if (last < bits.front()) continue;
      // Fewer bits cut more: the first number that gives all answers lies between one that does and one that does not.
      std::int64_t wrong = bits.front() - 1, right = last;
      while (right - wrong > 1) {
        const std::int64_t middle = (wrong + right) / 2;
        (explains(middle) ? right : wrong) = middle;
      }
      a.bits = {right, last};
      const bool told = !result.empty() && moves && right == last &&
                        right == model.sum.alignment_bits;  // nothing moved
      if (!told) result.push_back(a);
    }
  return result;
}

// What no operands can show: arguments from the range of exponents and the bits that terms can have.

namespace {

struct Terms {
  Reach product, addend;
  int own;  ///< the most bits that one term has below its own exponent

  Terms(const MatrixShape& s, const Rule* rule, bool normalized)
      : product(product_reach(s, normalized)), addend(addend_reach(s, normalized)) {
    if (rule == &rules::halves_apart) addend = product;  // sums begin from 0 and go on from sums; C is added afterwards
    const int scale = s.scale_block != 0 ? 2 * s.scale.fraction_bits : 0;
    own = std::max(s.a.fraction_bits + s.b.fraction_bits + scale + (normalized ? 1 + (scale > 0) : 0),
                   s.accumulator.fraction_bits);
  }
  int last() const { return std::min(product.last, addend.last); }
  int least() const { return std::min(product.least, addend.least); }
  /// The alignment bits with which nothing is cut off.
  int span(int length) const {
    return std::max({own, product.largest - addend.last, addend.largest - product.last,
                     length > 1 ? product.largest - product.last : 0});
  }
};

/// A least exponent that changes nothing, and why.
std::string inert_exponent(const Terms& t, int bits, std::int64_t e0) {
  if (e0 <= t.least()) return "no term but zero has an exponent below " + std::to_string(t.least());
  if (e0 - bits <= t.last()) return "no term has a bit below 2^" + std::to_string(t.last());
  return {};
}

bool never_cuts(const Terms& t, const FusedSum& s, std::int64_t bits) {
  return bits >= t.span(s.length) && !inert_exponent(t, static_cast<int>(bits), s.least_exponent).empty();
}

/// The lowest bit that a sum can have.
int lowest(const Terms& t, const FusedSum& s) {
  return std::max(std::max(t.least(), s.least_exponent) - s.alignment_bits, t.last());
}

/// n such that every sum is below 2^(emax + n): an addend is below 2 * 2^emax, and so is a normalised product.
int carry(const MatrixShape& shape, const FusedSum& s) {
  const int scales = shape.scale_block != 0 && shape.scale.fraction_bits > 0 ? 4 : 1;
  const double product = s.normalized_products ? 2 : scales * (2 - shape.a.epsilon()) * (2 - shape.b.epsilon());
  return static_cast<int>(std::ceil(std::log2(s.length * product + 2)));
}

/// Whether every sum is a number with that many fraction bits, or tiny and flushed.
bool always_fits(const MatrixShape& shape, const Terms& t, const FusedSum& s, std::int64_t kept) {
  return kept + 1 >= carry(shape, s) + s.alignment_bits &&
         (s.flush_outputs || lowest(t, s) >= shape.accumulator.emin() - kept);
}

/// The largest exponent such that sums of smaller terms all become 0, and the same 0; none if that is not so of any.
int vanishing(const MatrixShape& shape, const FusedSum& s) {
  const bool nearest = s.rounding == RoundingMode::nearest_even || s.rounding == RoundingMode::nearest_away ||
                       s.rounding == RoundingMode::nearest_to_zero;
  if (s.zero != ZeroSign::positive || !(s.flush_outputs || nearest || s.rounding == RoundingMode::toward_zero))
    return FusedSum::no_least_exponent;
  const int emin = shape.accumulator.emin();
  // Half of what rounds up to the smallest number.
  return (s.flush_outputs ? emin - 1 : emin - s.kept.fraction_bits - 1) - carry(shape, s);
}

/// Whether no result but zero is below the normal numbers.
bool never_tiny(const MatrixShape& shape, const Terms& t, const FusedSum& s) {
  const int emin = shape.accumulator.emin();
  // Without subnormal addends: where products do not cancel they are multiples of a number so large that C, to cancel
  // them, has no tiny last bit either; where they do, only C is left.
  return lowest(t, s) >= emin || (s.flush_inputs && t.product.last - 1 - shape.accumulator.fraction_bits >= emin);
}

}  // namespace

std::string same_for_all_operands(const MatrixShape& shape, const MatrixUnit& model, SumParameter p,
                                  std::int64_t value) {
  const FusedSum& s = model.sum;
  // Group sums of scaled_groups and operands of halves_apart are not these terms; their exponents lie in the same
  // range.
  const bool fused = model.rule == &rules::fused;
  const Terms t(shape, model.rule, s.normalized_products || !fused);
  if (p == SumParameter::least_exponent) {
    const auto why = [&](std::int64_t e0) {
      const std::string inert = inert_exponent(t, s.alignment_bits, e0);
      if (!inert.empty() || !fused || e0 > vanishing(shape, s)) return inert;
      return "sums of terms below 2^" + std::to_string(vanishing(shape, s)) + " are 0 anyhow";
    };
    return why(s.least_exponent).empty() ? std::string() : why(value);
  }
  if (p == SumParameter::flush_outputs && model.rule == &rules::halves_apart && t.last() >= shape.accumulator.emin())
    return "no sum but zero is below the smallest normal number";
  if (!fused) return {};
  const auto if_holds = [](bool holds, const std::string& why) { return holds ? why : std::string(); };
  const std::string nothing_cut = "terms have no bits more than " + std::to_string(t.span(s.length)) +
                                  " below the largest exponent: nothing is ever cut";
  switch (p) {
    case SumParameter::grouping:
      if (s.length == 1) return "a sum takes one product";
      [[fallthrough]];
    case SumParameter::direction: return if_holds(s.length == shape.k, "one sum takes all products of the instruction");
    case SumParameter::alignment_bits:
      return if_holds(never_cuts(t, s, value) && never_cuts(t, s, s.alignment_bits), nothing_cut);
    case SumParameter::alignment: return if_holds(never_cuts(t, s, s.alignment_bits), nothing_cut);
    case SumParameter::normalized:
      return if_holds(never_cuts(Terms(shape, model.rule, false), s, s.alignment_bits) &&
                          never_cuts(Terms(shape, model.rule, true), s, s.alignment_bits),
                      nothing_cut);
    case SumParameter::kept:
      return if_holds(always_fits(shape, t, s, value) && always_fits(shape, t, s, s.kept.fraction_bits),
                      "every sum has fewer bits: nothing is rounded");
    case SumParameter::rounding:
      return if_holds(always_fits(shape, t, s, s.kept.fraction_bits), "every sum is a number of the result's format");
    case SumParameter::flush_outputs:
      return if_holds(never_tiny(shape, t, s), "no sum but zero is below the smallest normal number");
    default: return {};
  }
}

// Identification in words.

namespace {

/// A value exactly: a short decimal, a power of two times a small odd number, or hexadecimal.
std::string number(const FloatFormat& f, std::uint64_t word) {
  const std::uint64_t code = word_code(f, word);
  if (!f.is_finite(code) || f.is_zero(code)) return print(f, code);
  std::string exact = print_exact(f, code);
  if (exact.size() <= 6) return exact;
  const std::uint64_t significand = f.significand(code);
  const int zeros = std::countr_zero(significand), exponent = f.exponent(code) + zeros;
  const std::uint64_t odd = significand >> zeros;
  const std::string sign = f.sign(code) ? "-" : "";
  if (odd == 1) return sign + "2^" + std::to_string(exponent);
  // 2^e + 2^last, where that is all
  if (const std::uint64_t top = std::bit_floor(odd); odd - top == 1) {
    const auto power = [](int e) { return e >= 0 && e < 4 ? std::to_string(1 << e) : "2^" + std::to_string(e); };
    return sign + "(" + power(static_cast<int>(std::bit_width(odd)) - 1 + exponent) + " + " + power(exponent) + ")";
  }
  return odd < 1000 ? sign + std::to_string(odd) + "*2^" + std::to_string(exponent) : print_hex(f, code);
}

std::string value_text(const MatrixShape& shape, SumParameter p, const ValueRange& i) {
  if (i.first == i.last) return text(shape, p, i.first);
  const bool open = p == SumParameter::least_exponent && i.first == FusedSum::no_least_exponent;
  if (open) return "none to " + text(shape, p, i.last);
  if (i.last - i.first == 1) return text(shape, p, i.first) + " or " + text(shape, p, i.last);
  if (p == SumParameter::alignment || p == SumParameter::rounding) {
    std::string all;
    for (std::int64_t v = i.first; v <= i.last; ++v) all += (all.empty() ? "" : ", ") + text(shape, p, v);
    return all;
  }
  return text(shape, p, i.first) + " to " + text(shape, p, i.last);
}

}  // namespace

std::string sentence(const MatrixShape& shape, const Finding& f) {
  std::string values;
  for (const ValueRange& i : f.values) values += (values.empty() ? "" : ", ") + value_text(shape, f.parameter, i);
  std::string line = std::string(info(f.parameter).name) + " = " + text(shape, f.parameter, f.value) + ": " +
                     std::string(info(f.parameter).meaning);
  if (f.because.empty()) return line;
  return line + ". Any of " + values + " gives the same: " + f.because;
}

std::string operands_text(const MatrixShape& shape, const MatrixCases& cases, std::size_t question) {
  constexpr int most = 4;
  const DotOperands x = cases.products(question);
  std::string line;
  int shown = 0;
  for (std::size_t i = 0; i < x.a.size(); ++i) {
    if (shape.a.is_zero(word_code(shape.a, x.a[i])) && shape.b.is_zero(word_code(shape.b, x.b[i]))) continue;
    if (++shown > most) continue;
    const std::string at = "[" + std::to_string(i) + "]";
    line += "a" + at + "*b" + at + " = " + number(shape.a, x.a[i]) + "*" + number(shape.b, x.b[i]) + ", ";
  }
  if (shown > most) line += "... (" + std::to_string(shown) + " products), ";
  const std::uint64_t one = shape.scale_block != 0
                                ? static_cast<std::uint64_t>(shape.scale.bias) << shape.scale.fraction_bits
                                : 0;
  for (const auto& [name, scales] : {std::pair{"a", x.scale_a}, std::pair{"b", x.scale_b}})
    for (std::size_t i = 0; i < scales.size(); ++i)
      if (scales[i] != one)
        line += "scale of " + std::string(name) + " [" + std::to_string(i) + "] = " + number(shape.scale, scales[i]) +
                ", ";
  return line + "c = " + number(shape.accumulator, cases.c[question]);
}

}  // namespace halfulp::probe
