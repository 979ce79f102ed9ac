#include <halfulp/experiments/cli/mma_lines.hpp>

#include <halfulp/emulation/text.hpp>
#include <halfulp/experiments/cli/hex_word.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <stdexcept>

namespace halfulp::cli {

MmaEvaluator::MmaEvaluator(const MatrixUnit& unit, const MmaOptions& options) : unit_(unit), options_(options) {
  groups_ = {{"A", unit.a, false}, {"B", unit.b, false}, {"C", unit.accumulator, true}};
  if (unit.scaled()) groups_.insert(groups_.end(), {{"scales of A", unit.scale, false}, {"scales of B", unit.scale, false}});
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
      return code_word(group.format, parse(group.format, {}, word).code);
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

void MmaEvaluator::line(std::string_view text, std::string& out) {
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
    for (std::size_t g = 0; g + 1 < groups_.size(); ++g) {
      if (g > 0) out += "| ";
      for (const std::uint64_t word : groups_[g].words) write(groups_[g].format, word, out), out += ' ';
    }
    out += " expected ";
    write(format, expected, out);
    out += "  got ";
  }
  write(format, d, out);
  out += '\n';
}

}  // namespace halfulp::cli
