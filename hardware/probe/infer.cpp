#include <halfulp/hardware/probe/infer.hpp>

#include <halfulp/emulation/text.hpp>
#include <halfulp/emulation/units/rules.hpp>
#include <halfulp/hardware/probe/alternatives.hpp>
#include <halfulp/hardware/probe/layout.hpp>
#include <halfulp/hardware/probe/search.hpp>

#include <algorithm>
#include <map>
#include <stdexcept>

namespace halfulp::probe {
namespace {

std::vector<Parameter> parameters_of(const Rule& rule) {
  std::vector<Parameter> used;
  for (const ParameterInfo& row : parameters) {
    const Parameter p = row.parameter;
    const bool of_all = p == Parameter::grouping || p == Parameter::direction || p == Parameter::normalized;
    // Two rules of x86 hand the NaN on that they are given.
    const bool own_nan = &rule != &rules::even_odd_chains && &rule != &rules::odd_even_pair;
    const bool always = p == Parameter::length || (p == Parameter::nan && own_nan);
    if (rule.takes == RuleTakes::all || (rule.takes == RuleTakes::sum && !of_all) || always) used.push_back(p);
  }
  return used;
}

/// The topics in which a parameter shows most plainly.
bool shows(Parameter p, Topic topic) {
  switch (p) {
    case Parameter::length: case Parameter::grouping: case Parameter::direction: return topic == Topic::order;
    case Parameter::alignment_bits: case Parameter::alignment: case Parameter::normalized: return topic == Topic::cancel;
    case Parameter::least_exponent: return topic == Topic::small;
    case Parameter::kept: case Parameter::rounding: return topic == Topic::addend || topic == Topic::rounding;
    case Parameter::flush_inputs: case Parameter::flush_outputs: return topic == Topic::subnormal;
    case Parameter::zero: return topic == Topic::zero;
    case Parameter::nan: break;
  }
  return topic == Topic::special;
}

/// The first question of a plain topic that refutes another model; else the one that did.
Witness witness(const Answers& answers, const MatrixUnit& other, Parameter p, std::size_t refuting) {
  for (std::size_t i = 0; i < answers.size(); ++i)
    if (shows(p, answers.topic(i)) && answers.by_model(other, i) != answers[i]) {
      refuting = i;
      break;
    }
  return {refuting, answers[refuting], get(other.sum, p), answers.by_model(other, refuting)};
}

/// The questions that a parameter can matter to: a least exponent shows in small sums alone.
Order questions_about(const Answers& answers, const MatrixUnit& model, Parameter p) {
  Order order = answers.all();
  if (p != Parameter::least_exponent || model.rule != &rules::fused) return order;
  Order large = large_questions(answers, {model.sum.length, model.sum.grouping, model.sum.descending});
  order.clear();
  for (std::uint32_t i = 0, next = 0; i < answers.size(); ++i) {
    if (next < large.size() && large[next] == i) ++next;
    else order.push_back(i);
  }
  return order;
}

/// Ascending values as intervals of the candidates: no least exponent stands beside the least one that is tried.
std::vector<Interval> intervals(std::vector<std::int64_t> values, std::vector<std::int64_t> all) {
  std::sort(values.begin(), values.end()), std::sort(all.begin(), all.end());
  std::vector<Interval> result;
  std::size_t after = all.size();  // the place among all that would continue the last interval
  for (const std::int64_t v : values) {
    const auto at = static_cast<std::size_t>(std::lower_bound(all.begin(), all.end(), v) - all.begin());
    if (!result.empty() && at == after) result.back().last = v;
    else result.push_back({v, v});
    after = at + 1;
  }
  return result;
}

Finding finding_of(const Answers& answers, const MatrixUnit& model, Parameter p) {
  const std::int64_t value = get(model.sum, p);
  Finding f{p, value, {{value, value}}, "", true, {}};
  if (p == Parameter::nan) {
    const auto i = answers.first([&](std::size_t q) { return answers[q] == model.sum.nan; });
    if (i) f.witnesses.push_back({*i, answers[*i], value, answers[*i]});
    return f;
  }
  const std::vector<std::int64_t> all = candidates(answers.shape(), p);
  std::vector<std::int64_t> same{value};
  std::map<std::int64_t, std::size_t> excluded;  // and a question that does it
  MatrixUnit other = model;
  Order order = questions_about(answers, model, p);
  for (const std::int64_t v : all) {
    if (v == value) continue;
    set(other.sum, p, v);
    if (model.rule == &rules::fused && !refusal(other).empty()) continue;
    const std::string why = same_for_all_operands(answers.shape(), model, p, v);
    // Other lengths of other rules are not described by this parameter alone.
    const bool possible = p != Parameter::length || model.rule == &rules::fused;
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
  for (const Layout& l : layouts(answers, bits))
    text += (text.empty() ? "" : ", or ") + std::to_string(l.length) + " " + std::string(name_in(groupings, l.grouping)) + " products" +
            (l.descending ? " from the last ones" : "");
  lines.push_back(text.empty() ? "no division of the products into sums agrees with the order in which they are added" : "added at once: " + text);
  return lines;
}

void match_rows(const Answers& answers, Findings& found) {
  Order order = answers.all();
  for (const MatrixUnit& row : matrix_units())
    if (shape_of(row) == answers.shape() && answers.explained_by(row, order)) found.rows.push_back(row.name);
  if (!found.rows.empty()) return;
  for (const MatrixUnit& row : matrix_units()) {
    if (!(shape_of(row) == answers.shape())) continue;
    const std::size_t differs = answers.differing(row);
    if (found.nearest.empty() || differs < found.nearest_differs) found.nearest = row.name, found.nearest_differs = differs;
  }
}

}  // namespace

bool Finding::holds(std::int64_t v) const {
  return std::any_of(values.begin(), values.end(), [&](const Interval& i) { return i.first <= v && v <= i.last; });
}

Findings infer(const MatrixShape& shape, const MatrixCases& cases, std::span<const std::uint64_t> d) {
  const Questions asked = ask(shape);
  const MatrixCases& q = asked.cases;
  if (cases.a != q.a || cases.b != q.b || cases.c != q.c || cases.scale_a != q.scale_a || cases.scale_b != q.scale_b)
    throw std::invalid_argument("these are not the " + std::to_string(q.size()) + " questions of this version for this shape: ask the device again");
  if (d.size() != q.size()) throw std::invalid_argument(std::to_string(d.size()) + " answers to " + std::to_string(q.size()) + " questions");
  const Answers answers(shape, asked, d);
  Findings found;
  found.questions = q.size();
  found.observed = observations(answers);
  std::vector<MatrixUnit> units = find_others(answers);
  if (const auto fused = find_fused(answers)) units.push_back(*fused);
  for (const MatrixUnit& unit : units) {
    Model model{unit, {}, alternatives(answers, unit)};
    for (const Parameter p : parameters_of(*unit.rule)) model.findings.push_back(finding_of(answers, unit, p));
    found.models.push_back(std::move(model));
  }
  match_rows(answers, found);
  if (found.models.empty()) found.unexplained = found.nearest.empty() ? found.questions : found.nearest_differs;
  return found;
}

}  // namespace halfulp::probe
