#include <halfulp/experiments/cli/mma_lines.hpp>

#include <halfulp/emulation/text.hpp>
#include <halfulp/experiments/cli/hex_word.hpp>
#include <halfulp/formats/nearest.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <stdexcept>

namespace halfulp::cli {
namespace {

constexpr std::size_t most_operands = 8;  ///< words of a case that a difference shows; more are counted

/// How many code words lie from one finite value to another, in the order of their values; both zeros are one.
std::uint64_t distance(const FloatFormat& f, std::uint64_t x, std::uint64_t y) {
  const std::uint64_t sign = std::uint64_t{1} << (f.storage_bits() - 1), below_x = x & ~sign, below_y = y & ~sign;
  if ((x & sign) != (y & sign)) return below_x + below_y;
  return below_x > below_y ? below_x - below_y : below_y - below_x;
}

}  // namespace

MmaEvaluator::MmaEvaluator(const MatrixUnit& unit, const MmaOptions& options) : unit_(unit), options_(options) {
  groups_ = {{"A", unit.a, false}, {"B", unit.b, false}, {"C", unit.accumulator, true}};
  if (unit.scaled()) groups_.insert(groups_.end(), {{"scales of A", unit.scale, false, true}, {"scales of B", unit.scale, false, true}});
  if (options.check) groups_.push_back({"the expected D", unit.accumulator, true});
}

std::string MmaEvaluator::accepted() const {
  std::string text;
  for (const Group& group : groups_) text += (text.empty() ? "" : " | ") + group.name;
  return text;
}

std::uint64_t MmaEvaluator::read(const Group& group, std::string_view word) const {
  const auto name = [&] { return group.one ? group.name : fmt::format("word {} of {}", group.words.size() + 1, group.name); };
  if (options_.values) try {
      const Rounded value = parse(group.format, {}, word);
      if (value.flags & flag::invalid) throw std::invalid_argument(fmt::format("'{}' is no value of {}", shown(word), format_name(group.format)));
      if (group.is_scale && group.format.sign(value.code)) throw std::invalid_argument(fmt::format("'{}': scales are not negative", shown(word)));
      return code_word(group.format, value.code);
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(name() + ": " + error.what());
    }
  std::uint64_t code = 0;
  if (!read_hex_word(word, word_bits(group.format), code)) throw std::invalid_argument(hex_word_refusal(name(), word, word_bits(group.format)));
  return code;
}

void MmaEvaluator::write(const FloatFormat& format, std::uint64_t word, std::string& out) const {
  if (options_.values) out += print_exact(format, word_code(format, word));
  else append_hex_word(out, word, word_bits(format));
}

void MmaEvaluator::write_difference(std::uint64_t number, std::uint64_t d, std::uint64_t expected, std::string& out) const {
  const FloatFormat& format = unit_.accumulator;
  out += fmt::format("line {}: got ", number);
  write(format, d, out);
  out += ", expected ";
  write(format, expected, out);
  const std::uint64_t got_code = word_code(format, d), expected_code = word_code(format, expected);
  if (format.is_finite(got_code) && format.is_finite(expected_code)) {
    const std::uint64_t apart = distance(format, got_code, expected_code);
    out += fmt::format(", {} code word{} apart", apart, apart == 1 ? "" : "s");
  }
  std::size_t words = 0;
  for (std::size_t g = 0; g + 1 < groups_.size(); ++g) words += groups_[g].words.size();
  if (words > most_operands) {
    out += fmt::format("; {} operands\n", words);
    return;
  }
  for (std::size_t g = 0; g + 1 < groups_.size(); ++g) {
    out += g == 0 ? ";" : " |";
    for (const std::uint64_t word : groups_[g].words) out += ' ', write(groups_[g].format, word, out);
  }
  out += '\n';
}

void MmaEvaluator::numbered_line(std::uint64_t number, std::string_view text, std::string& out) {
  std::string_view rest = text;
  if (const std::string_view first = take_word(rest); first.empty() || first[0] == '#') return;

  const auto count = static_cast<std::size_t>(std::count(text.begin(), text.end(), '|')) + 1;
  if (count != groups_.size())
    throw std::invalid_argument(fmt::format("{} group{} between bars; {} takes {}: {}", count, count == 1 ? "" : "s", unit_.name, groups_.size(), accepted()));
  for (Group& group : groups_) {
    const std::size_t end = std::min(text.find('|'), text.size());
    std::string_view words = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    group.words.clear();
    for (std::string_view word = take_word(words); !word.empty(); word = take_word(words)) group.words.push_back(read(group, word));
    if (group.one && group.words.size() != 1) throw std::invalid_argument(fmt::format("{}: {} words; accepted: 1", group.name, group.words.size()));
  }
  Products products{groups_[0].words, groups_[1].words, {}, {}};
  if (unit_.scaled()) products.scale_a = groups_[3].words, products.scale_b = groups_[4].words;
  const std::uint64_t d = mma(unit_, products, groups_[2].words[0]);
  ++cases_;

  const FloatFormat& format = unit_.accumulator;
  if (options_.check) {
    const std::uint64_t expected = groups_.back().words[0];
    if (d == expected || (!options_.strict_nan && format.is_nan(d) && format.is_nan(expected))) return;
    ++differing_;
    return write_difference(number, d, expected, out);
  }
  write(format, d, out);
  out += '\n';
}

}  // namespace halfulp::cli
