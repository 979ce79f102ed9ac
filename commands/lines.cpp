#include <halfulp/commands/lines.hpp>

#include <halfulp/commands/explanation.hpp>
#include <halfulp/commands/expression.hpp>
#include <halfulp/commands/guard.hpp>
#include <halfulp/commands/terminal.hpp>
#include <halfulp/emulation/random.hpp>
#include <halfulp/emulation/text.hpp>
#include <halfulp/support/spelling.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <vector>

namespace halfulp::cli {
namespace {

constexpr bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/// Value of a hexadecimal digit, 0xff for other characters.
constexpr auto digit_values = [] {
  std::array<std::uint8_t, 256> table{};
  for (auto& entry : table) entry = 0xff;
  for (int i = 0; i < 10; ++i) table[static_cast<std::size_t>('0' + i)] = static_cast<std::uint8_t>(i);
  for (int i = 0; i < 6; ++i)
    table[static_cast<std::size_t>('a' + i)] = table[static_cast<std::size_t>('A' + i)] = static_cast<std::uint8_t>(10 +
                                                                                                                    i);
  return table;
}();

constexpr int digits_of(int bits) { return (bits + 3) / 4; }

enum class Hex : std::uint8_t { fine, not_hexadecimal, too_wide };

Hex read(std::string_view word, int bits, std::uint64_t& code) {
  if (word.size() > 2 && word[0] == '0' && (word[1] | 0x20) == 'x') word.remove_prefix(2);
  bool lost = false;
  code = 0;
  for (const char c : word) {
    const std::uint8_t digit = digit_values[static_cast<unsigned char>(c)];
    if (digit == 0xff) return Hex::not_hexadecimal;
    lost = lost || (code >> 60) != 0;
    code = code << 4 | digit;
  }
  return lost || (bits < 64 && (code >> bits) != 0) ? Hex::too_wide : Hex::fine;
}

}  // namespace

std::string_view take_word(std::string_view& text) {
  std::size_t begin = 0;
  while (begin < text.size() && is_blank(text[begin])) ++begin;
  std::size_t end = begin;
  while (end < text.size() && !is_blank(text[end])) ++end;
  const std::string_view word = text.substr(begin, end - begin);
  text.remove_prefix(end);
  return word;
}

bool read_hex_word(std::string_view word, int bits, std::uint64_t& code) { return read(word, bits, code) == Hex::fine; }

std::string hex_word_refusal(std::string_view name, std::string_view word, int bits) {
  std::uint64_t code = 0;
  const bool wide = read(word, bits, code) == Hex::too_wide;
  const std::string why = wide ? fmt::format(", wider than {} bit{}", bits, bits == 1 ? "" : "s") : "";
  return fmt::format("{} is '{}'{}; accepted: {} hexadecimal digit{}", name, shown(word), why, digits_of(bits),
                     digits_of(bits) == 1 ? "" : "s");
}

void append_hex_word(std::string& out, std::uint64_t code, int bits) {
  char text[16];
  for (int i = digits_of(bits); i-- > 0; code >>= 4) text[i] = "0123456789ABCDEF"[code & 15];
  out.append(text, static_cast<std::size_t>(digits_of(bits)));
}

void LineStream::line(std::string_view text, std::string& out) {
  ++number_;
  try {
    if (text.size() > handler_.longest_line())
      throw std::invalid_argument(fmt::format("is longer than {} characters", handler_.longest_line()));
    handler_.numbered_line(number_, text, out);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(fmt::format("standard input, line {}: {}", number_, error.what()));
  }
}

void LineStream::feed(std::string_view block, std::string& out) {
  for (auto end = block.find('\n'); end != block.npos; end = block.find('\n')) {
    if (pending_.empty()) {
      line(block.substr(0, end), out);
    } else {
      pending_ += block.substr(0, end);
      const std::string whole = std::move(pending_);
      pending_.clear();
      line(whole, out);
    }
    block.remove_prefix(end + 1);
  }
  pending_ += block;
  if (pending_.size() > handler_.longest_line()) finish(out);  // refuses it, however much more would come
}

void LineStream::finish(std::string& out) {
  if (pending_.empty()) return;
  const std::string whole = std::move(pending_);
  pending_.clear();
  line(whole, out);
}

void answer_input(LineHandler& handler) {
  LineStream stream(handler);
  std::string out;
  const auto step = [&](auto&& answer) {
    try {
      answer();
    } catch (const std::invalid_argument&) {
      write_output(out);
      throw;
    }
    write_output(out);
    out.clear();
  };
  std::vector<char> block(1 << 16);
  while (true) {
    const std::size_t count = read_input(block);
    if (count == 0) break;
    step([&] { stream.feed({block.data(), count}, out); });
  }
  step([&] { stream.finish(out); });
}

void answer_cases(CaseHandler& handler, const CheckOptions& options, int& status) {
  answer_input(handler);
  if (options.check) conclude_check(handler, status);
}

void conclude_check(const CaseHandler& handler, int& status) {
  if (handler.cases() == 0) throw std::invalid_argument("nothing to check: no case on standard input");
  write_output(fmt::format("{} checked, {} differ\n", handler.cases(), handler.differing()));
  if (handler.differing() != 0) status = exit_status::failed;
}

namespace {

constexpr int flag_bits = 5;

}  // namespace

LineEvaluator::LineEvaluator(const EvalOptions& options)
    : options_(options), arity_(info(options.task.operation).arity) {
  const Task& task = options.task;
  if (std::string why = refusal(task); !why.empty()) throw std::invalid_argument(why);
  const auto column = [&](std::string name, int bits) {
    column_[static_cast<std::size_t>(columns_++)] = {std::move(name), bits};
  };
  for (int i = 0; i < arity_; ++i) column(fmt::format("operand {}", i + 1), storage_bits(task.from));
  const bool truth = info(task.operation).result == ResultKind::truth;
  column("the line's result", truth ? 1 : storage_bits(task.to));
  column("the line's flags", flag_bits);
  if (!options.check) columns_ = arity_;
}

bool LineEvaluator::same_result(std::uint64_t given, std::uint64_t result) const {
  if (given == result) return true;
  const auto* format = std::get_if<FloatFormat>(&options_.task.to);
  return format && !options_.strict_nan && info(options_.task.operation).result != ResultKind::truth &&
         format->is_nan(given) && format->is_nan(result);
}

Rounded LineEvaluator::evaluated(const std::uint64_t* operands) {
  const bool stochastic = options_.task.rounding.mode == RoundingMode::stochastic;
  const std::uint64_t random = stochastic ? rounding_bits(options_.seed, 0, cases_) : 0;
  ++cases_;
  return evaluate(options_.task, operands[0], arity_ > 1 ? operands[1] : 0, arity_ > 2 ? operands[2] : 0, random);
}

void LineEvaluator::write_operands(const std::uint64_t* operands, std::string& out) const {
  for (int i = 0; i < arity_; ++i) {
    append_hex_word(out, operands[i], column_[static_cast<std::size_t>(i)].bits);
    out += ' ';
  }
}

void LineEvaluator::write_result(const Rounded& result, bool flags, std::string& out) const {
  append_hex_word(out, result.code, 4 * options_.task.result_hex_digits());
  if (!flags) return;
  out += ' ';
  append_hex_word(out, result.flags, flag_bits);
}

void LineEvaluator::answer(const std::array<std::uint64_t, 3>& operands, std::string& out) {
  const Rounded result = evaluated(operands.data());
  write_operands(operands.data(), out);
  write_result(result, true, out);
  out += '\n';
}

void LineEvaluator::numbered_line(std::uint64_t number, std::string_view text, std::string& out) {
  std::array<std::uint64_t, 5> word{};
  int count = 0;
  for (std::string_view rest = text;; ++count) {
    const std::string_view token = take_word(rest);
    if (token.empty() || (count == 0 && token[0] == '#')) break;
    if (count == columns_) {
      count = columns_ + 1;
      break;
    }
    const Column& column = column_[static_cast<std::size_t>(count)];
    if (!read_hex_word(token, column.bits, word[static_cast<std::size_t>(count)]))
      throw std::invalid_argument(hex_word_refusal(column.name, token, column.bits));
  }
  if (count == 0) return;
  if (options_.check ? count <= arity_ || count > columns_ : count != arity_) {
    const auto operands = fmt::format("{} operand{}", arity_, arity_ == 1 ? "" : "s");
    throw std::invalid_argument(fmt::format(
        "{} {} code word{}; accepted: {}", info(options_.task.operation).name,
        count > columns_ ? fmt::format("got more than {}", columns_) : fmt::format("got {}", count),
        count == 1 ? "" : "s", options_.check ? operands + ", your result and, optionally, your flags" : operands));
  }

  if (!options_.check) return answer({word[0], word[1], word[2]}, out);

  const Rounded result = evaluated(word.data());
  const bool has_flags = count == arity_ + 2;
  const Rounded given{word[static_cast<std::size_t>(arity_)],
                      static_cast<Flags>(has_flags ? word[static_cast<std::size_t>(arity_) + 1] : 0)};
  if (same_result(given.code, result.code) && (!has_flags || given.flags == result.flags)) return;
  if (!shows_difference(options_)) return;
  out += fmt::format("line {}: ", number);
  write_operands(word.data(), out);
  out += " your result ";
  write_result(given, has_flags, out);
  out += ", halfulp's ";
  write_result(result, has_flags, out);
  out += '\n';
}

namespace {

constexpr std::size_t most_shown = 8;  ///< words of a case that a difference shows; more are counted

/// How many code words lie from one finite value to another, in the order of their values; both zeros are one.
std::uint64_t distance(const FloatFormat& f, std::uint64_t x, std::uint64_t y) {
  const std::uint64_t sign = std::uint64_t{1} << (f.storage_bits() - 1), below_x = x & ~sign, below_y = y & ~sign;
  if ((x & sign) != (y & sign)) return below_x + below_y;
  return below_x > below_y ? below_x - below_y : below_y - below_x;
}

}  // namespace

MmaEvaluator::MmaEvaluator(const MatrixUnit& unit, const MmaOptions& options) : unit_(unit), options_(options) {
  groups_ = {{"A", unit.a, false}, {"B", unit.b, false}, {"C", unit.accumulator, true}};
  if (unit.scaled())
    groups_.insert(groups_.end(), {{"scales of A", unit.scale, false, true}, {"scales of B", unit.scale, false, true}});
  if (options.check) groups_.push_back({"your D", unit.accumulator, true});
}

std::string MmaEvaluator::accepted() const {
  std::string text;
  for (const Group& group : groups_) text += (text.empty() ? "" : " | ") + group.name;
  return text;
}

std::string MmaEvaluator::overflows() const {
  if (overflows_ == 0) return {};
  return fmt::format("{} beyond {} format's range, the first in {}",
                     overflows_ == 1 ? "1 value is" : fmt::format("{} values are", overflows_),
                     overflows_ == 1 ? "its" : "their", first_overflow_);
}

std::uint64_t MmaEvaluator::read(const Group& group, std::string_view word) {
  const auto name = [&] {
    return group.one ? group.name : fmt::format("word {} of {}", group.words.size() + 1, group.name);
  };
  if (options_.values) try {
      const std::string_view magnitude = word.substr(word.starts_with('-') || word.starts_with('+'));
      std::uint64_t ignored = 0;
      if (is_code_word(magnitude) && cli::read(magnitude, 64, ignored) != Hex::not_hexadecimal)
        throw std::invalid_argument(fmt::format(
            "'{0}' is a code word; accepted: a number such as {0}p0; code words without --values", shown(word)));
      const std::optional<Rational> exact = expression_value(word);
      const Rounded value = exact ? round_exact(group.format, {}, *exact) : parse(group.format, {}, word);
      if (value.flags & flag::invalid)
        throw std::invalid_argument(fmt::format("'{}' is no value of {}", shown(word), format_name(group.format)));
      if (group.is_scale && group.format.sign(value.code))
        throw std::invalid_argument(fmt::format("'{}': scales are not negative", shown(word)));
      if ((value.flags & flag::overflow) && (exact || read_literal(word).kind != Kind::infinite) && ++overflows_ == 1) {
        const std::string all = print_exact(group.format, group.format.max_finite());
        first_overflow_ = fmt::format("line {}: {}, {} ({} ends at {})", line_, name(), shown(word),
                                      format_name(group.format),
                                      all.size() <= 8 ? all : print(group.format, group.format.max_finite()));
      }
      return code_word(group.format, value.code);
    } catch (const std::invalid_argument& error) { throw std::invalid_argument(name() + ": " + error.what()); }
  std::uint64_t code = 0;
  if (!read_hex_word(word, word_bits(group.format), code))
    throw std::invalid_argument(hex_word_refusal(name(), word, word_bits(group.format)));
  return code;
}

void MmaEvaluator::write(const FloatFormat& format, std::uint64_t word, std::string& out) const {
  if (options_.values) out += print_exact(format, word_code(format, word));
  else append_hex_word(out, word, word_bits(format));
}

void MmaEvaluator::write_difference(std::uint64_t number, std::uint64_t given, std::uint64_t d,
                                    std::string& out) const {
  const FloatFormat& format = unit_.accumulator;
  out += fmt::format("line {}: your D ", number);
  write(format, given, out);
  out += ", halfulp's ";
  write(format, d, out);
  const std::uint64_t given_code = word_code(format, given), code = word_code(format, d);
  if (format.is_finite(given_code) && format.is_finite(code)) {
    const std::uint64_t apart = distance(format, given_code, code);
    out += fmt::format(", {} code word{} apart", apart, apart == 1 ? "" : "s");
  }
  std::size_t words = 0;
  for (std::size_t g = 0; g + 1 < groups_.size(); ++g) words += groups_[g].words.size();
  if (words > most_shown) {
    out += fmt::format("; {} operands\n", words);
    return;
  }
  for (std::size_t g = 0; g + 1 < groups_.size(); ++g) {
    out += g == 0 ? ";" : " |";
    for (const std::uint64_t word : groups_[g].words) out += ' ', write(groups_[g].format, word, out);
  }
  out += '\n';
}

void MmaEvaluator::answer(const DotOperands& products, std::uint64_t c, std::string& out) {
  const auto group = [&](const FloatFormat& format, std::span<const std::uint64_t> words) {
    for (const std::uint64_t word : words) write(format, word, out), out += ' ';
    out += "| ";
  };
  group(unit_.a, products.a);
  group(unit_.b, products.b);
  group(unit_.accumulator, {&c, 1});
  if (unit_.scaled()) group(unit_.scale, products.scale_a), group(unit_.scale, products.scale_b);
  write(unit_.accumulator, mma(unit_, products, c), out);
  out += '\n';
  ++cases_;
}

void MmaEvaluator::numbered_line(std::uint64_t number, std::string_view text, std::string& out) {
  std::string_view rest = text;
  if (const std::string_view first = take_word(rest); first.empty() || first[0] == '#') return;
  line_ = number;

  const auto count = static_cast<std::size_t>(std::count(text.begin(), text.end(), '|')) + 1;
  if (count != groups_.size())
    throw std::invalid_argument(fmt::format("{} group{} between bars; {} takes {}: {}", count, count == 1 ? "" : "s",
                                            unit_.name, groups_.size(), accepted()));
  for (Group& group : groups_) {
    const std::size_t end = std::min(text.find('|'), text.size());
    std::string_view words = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    group.words.clear();
    for (std::string_view word = take_word(words); !word.empty(); word = take_word(words))
      group.words.push_back(read(group, word));
    if (group.one && group.words.size() != 1)
      throw std::invalid_argument(fmt::format("{}: {} words; accepted: 1", group.name, group.words.size()));
  }
  DotOperands products{groups_[0].words, groups_[1].words, {}, {}};
  if (unit_.scaled()) products.scale_a = groups_[3].words, products.scale_b = groups_[4].words;
  const std::uint64_t d = mma(unit_, products, groups_[2].words[0]);
  ++cases_;

  const FloatFormat& format = unit_.accumulator;
  if (options_.check) {
    const std::uint64_t given = groups_.back().words[0];
    if (d == given || (!options_.strict_nan && format.is_nan(d) && format.is_nan(given))) return;
    if (shows_difference(options_)) write_difference(number, given, d, out);
    return;
  }
  write(format, d, out);
  out += '\n';
}

}  // namespace halfulp::cli
