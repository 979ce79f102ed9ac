#include <halfulp/emulation/witness/subject.hpp>

#include <halfulp/emulation/array/array.hpp>
#include <halfulp/emulation/dot.hpp>
#include <halfulp/support/spelling.hpp>

#include <algorithm>
#include <memory>
#include <stdexcept>

namespace halfulp::witness {
namespace {

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  for (std::size_t end; (end = text.find(':')) != std::string_view::npos; text.remove_prefix(end + 1))
    parts.emplace_back(text.substr(0, end));
  parts.emplace_back(text);
  return parts;
}

/// Whether a word is the name of an operation that gives a number.
bool is_operation(std::string_view name) {
  for (const OperationInfo& row : operations)
    if (row.name == name) return row.result != ResultKind::truth;
  return false;
}

constexpr const char* no_witness_of_stochastic =
    "stochastic rounding has no witness: its results depend on random bits; accepted: a deterministic mode";

/// `taken` names what was set so far.
void take_setting(Rounding& rounding, const std::string& word, std::vector<std::string>& taken) {
  const auto take = [&](const std::string& what) {
    if (std::find(taken.begin(), taken.end(), what) != taken.end())
      throw std::invalid_argument("'" + shown(word) + "': " + what + " is there twice; accepted: once");
    taken.push_back(what);
  };
  constexpr std::string_view flags[] = {"saturate", "flush-inputs", "flush-outputs", "tininess-before"};
  if (std::ranges::find(flags, word) != std::end(flags)) take(word);
  if (word == "saturate") rounding.overflow = Overflow::saturate;
  else if (word == "flush-inputs") rounding.flush_inputs = true;
  else if (word == "flush-outputs") rounding.flush_outputs = true;
  else if (word == "tininess-before") rounding.tininess = Tininess::before;
  else {
    std::vector<std::string> names = names_of(rounding_modes);
    names.pop_back();  // stochastic: two runs differ by their random bits
    if (word == "stochastic" || word == "sr") throw std::invalid_argument(no_witness_of_stochastic);
    for (const auto& table : {std::span<const Named<RoundingMode>>(rounding_modes),
                              std::span<const Named<RoundingMode>>(short_rounding_modes)})
      for (const auto& mode : table)
        if (mode.name == word) {
          take("a rounding mode");
          rounding.mode = mode.value;
          return;
        }
    names.insert(names.end(), std::begin(flags), std::end(flags));
    throw std::invalid_argument(unknown_name("setting", word, std::move(names)));
  }
}

Subject operation_subject(std::string_view text, const std::vector<std::string>& words) {
  OperationSubject what{parse_operation(words[0]), {}, {}, {}};
  const bool convert = what.operation == Operation::convert;
  const std::size_t formats = convert ? 2 : 1;
  if (words.size() < 1 + formats)
    throw std::invalid_argument("'" + shown(text) + "' lacks a format; accepted: " +
                                (convert ? "convert:FROM:TO[:MODE]" : words[0] + ":FORMAT[:MODE]"));
  what.format = parse_format(words[1]);
  what.to = convert ? parse_format(words[2]) : what.format;
  std::vector<std::string> taken;
  for (std::size_t i = 1 + formats; i < words.size(); ++i) take_setting(what.rounding, words[i], taken);
  Subject subject{std::string(text),
                  what,
                  {{}, std::vector<FloatFormat>(static_cast<std::size_t>(info(what.operation).arity), what.format)},
                  what.to,
                  {},
                  {}};
  if (const std::string why = halfulp::refusal(Task{what.operation, what.format, what.to, what.rounding}); !why.empty())
    throw std::invalid_argument(why);
  if (convert) {
    subject.evaluate = [what](std::span<const std::uint64_t> x) {
      return halfulp::convert(what.format, what.to, what.rounding, x[0]).code;
    };
    return subject;
  }
  subject.evaluate = [what](std::span<const std::uint64_t> x) {
    return halfulp::evaluate(what.operation, what.format, what.rounding, x[0], x.size() > 1 ? x[1] : 0,
                             x.size() > 2 ? x[2] : 0)
        .code;
  };
  const bool in_arrays = what.operation == Operation::add || what.operation == Operation::sub ||
                         what.operation == Operation::mul || what.operation == Operation::div;
  if (in_arrays && what.format.storage_bits() <= 16)
    subject.pairs = [what](std::span<const std::uint16_t> a, std::span<const std::uint16_t> b,
                           std::span<std::uint16_t> out) {
      halfulp::apply<std::uint16_t>(what.operation, what.format, what.rounding, a, b, {}, out);
    };
  return subject;
}

Subject cast_subject(std::string_view text, const std::vector<std::string>& words) {
  const Profile& profile = find_profile(words[0]);
  if (words.size() != 3)
    throw std::invalid_argument("'" + shown(text) + "' is no conversion; accepted: " + words[0] + ":FROM:TO");
  const FloatFormat from = parse_format(words[1]), to = parse_format(words[2]);
  const CastRule& rule = rule_for(profile, from, to);
  Subject subject{std::string(text), CastSubject{&profile, &rule, from}, {{}, {from}}, to, {}, {}};
  subject.evaluate = [&rule, from](std::span<const std::uint64_t> x) { return apply(rule, from, x[0]); };
  return subject;
}

bool is_stochastic(const DotModel& model) {
  for (const auto& stage : {model.product, std::optional(model.accumulator), model.promoted, model.output})
    if (stage && stage->rounding.mode == RoundingMode::stochastic) return true;
  return false;
}

Subject dot_subject(std::string_view text) {
  const bool products = text.starts_with("dot:");
  const ProductModel model = parse_product_model(text.substr(text.find(':') + 1));
  if (const auto* unit = std::get_if<MatrixUnit>(&model)) {
    if (unit->scaled())
      throw std::invalid_argument("dot products by " + unit->name + " need scales; accepted: " + unit->name +
                                  ", whose scales are operands");
    if (!products)
      throw std::invalid_argument("unit " + unit->name + " adds products, not numbers; accepted: dot:" + unit->name);
    Subject subject = unit_subject(unit->name, *unit);
    subject.evaluate = [sum = subject.evaluate, zero = unit->accumulator.zero()](std::span<const std::uint64_t> x) {
      std::vector<std::uint64_t> operands(x.begin(), x.end());
      operands.push_back(zero);
      return sum(operands);
    };
    return {std::string(text), DotSubject{model, true}, {{unit->a, unit->b}, {}}, subject.result, subject.evaluate, {}};
  }
  const DotModel& dots = std::get<DotModel>(model);
  if (is_stochastic(dots)) throw std::invalid_argument(no_witness_of_stochastic);
  Subject subject{std::string(text), DotSubject{model, products}, {{dots.input}, {}}, dots.result(), {}, {}};
  if (!products) {
    subject.evaluate = [dots](std::span<const std::uint64_t> x) { return sum(dots, x); };
    return subject;
  }
  subject.shape.repeated.push_back(dots.second());
  subject.evaluate = [dot = std::make_shared<PlainDots>(dots)](std::span<const std::uint64_t> x) {
    std::vector<std::uint64_t> a, b;
    for (std::size_t i = 0; i < x.size(); i += 2) a.push_back(x[i]), b.push_back(x[i + 1]);
    return (*dot)(a, b, {}, 0);
  };
  return subject;
}

}  // namespace

Subject unit_subject(std::string name, MatrixUnit described) {
  const auto unit = std::make_shared<const MatrixUnit>(std::move(described));
  Subject subject{
      std::move(name), UnitSubject{unit}, {{unit->a, unit->b}, {unit->accumulator}}, unit->accumulator, {}, {}};
  if (unit->scaled()) subject.shape.fixed.insert(subject.shape.fixed.end(), 2, unit->scale);
  subject.evaluate = [unit](std::span<const std::uint64_t> x) {
    // tf32 fills the upper bits of a 32-bit word: operands are code words here.
    std::vector<std::uint64_t> a, b, scales_a, scales_b;
    const std::size_t vector = x.size() - (unit->scaled() ? 3 : 1);
    for (std::size_t i = 0; i < vector; i += 2)
      a.push_back(code_word(unit->a, x[i])), b.push_back(code_word(unit->b, x[i + 1]));
    if (unit->scaled()) {
      const std::size_t block = static_cast<std::size_t>(unit->scale_block), blocks = (a.size() + block - 1) / block;
      scales_a.assign(blocks, x[vector + 1]), scales_b.assign(blocks, x[vector + 2]);
    }
    return mma(*unit, {a, b, scales_a, scales_b}, x[vector]);
  };
  return subject;
}

Subject parse_subject(std::string_view text) {
  const std::vector<std::string> words = split(text);
  if (is_operation(words[0])) return operation_subject(text, words);
  for (const Profile& profile : profiles())
    if (profile.name == words[0]) return cast_subject(text, words);
  if (words.size() > 1 && (words[0] == "dot" || words[0] == "sum")) return dot_subject(text);
  if (words.size() == 1 && text.find('.') != std::string_view::npos)
    return unit_subject(std::string(text), find_unit(text));
  std::vector<std::string> names{"dot", "sum"};
  for (const OperationInfo& row : operations)
    if (row.result != ResultKind::truth) names.emplace_back(row.name);
  for (const Profile& profile : profiles()) names.emplace_back(profile.name);
  throw std::invalid_argument(unknown_name("operation, sum or profile", words[0], std::move(names)) +
                              ", or the name of a matrix unit");
}

std::string refusal(const Subject& a, const Subject& b) {
  const auto text = [](const Subject& s) {
    std::string formats;
    for (const FloatFormat& f : s.shape.repeated) formats += (formats.empty() ? "" : ", ") + format_name(f);
    if (!formats.empty()) formats = "vectors of " + formats;
    for (const FloatFormat& f : s.shape.fixed) formats += (formats.empty() ? "" : ", ") + format_name(f);
    return formats + " to " + format_name(s.result);
  };
  if (a.shape == b.shape && a.result == b.result) return {};
  const auto scaled = [](const Subject& s) { return !s.shape.repeated.empty() && s.shape.fixed.size() == 3; };
  if (scaled(a) != scaled(b) && a.shape.repeated == b.shape.repeated && a.result == b.result)
    return (scaled(a) ? a.name + " takes scales, " + b.name : b.name + " takes scales, " + a.name) +
           " does not; accepted: two with scales, or a file {\"based_on\": ..., \"scale\": null} for the first";
  // A unit has an addend; its dot products have none. Models know units by name, and no files.
  const auto unit_beside_products = [](const Subject& unit, const Subject& products) {
    return std::holds_alternative<UnitSubject>(unit.what) && !unit.name.ends_with(".json") &&
           std::holds_alternative<DotSubject>(products.what);
  };
  const Subject* const unit = unit_beside_products(a, b) ? &a : unit_beside_products(b, a) ? &b : nullptr;
  return a.name + " takes " + text(a) + ", " + b.name + " takes " + text(b) +
         "; accepted: two with the same operands and result" + (unit ? ", as dot:" + unit->name + " has" : "");
}

}  // namespace halfulp::witness
