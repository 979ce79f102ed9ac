#include <halfulp/experiments/cli/eval_lines.hpp>

#include <halfulp/emulation/random.hpp>
#include <halfulp/formats/nearest.hpp>

#include <fmt/core.h>

#include <stdexcept>

namespace halfulp::cli {
namespace {

constexpr int flag_digits = 2;

constexpr bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/// Value of a hexadecimal digit, 0xff for other characters.
constexpr auto digit_values = [] {
  std::array<std::uint8_t, 256> table{};
  for (auto& entry : table) entry = 0xff;
  for (int i = 0; i < 10; ++i) table[static_cast<std::size_t>('0' + i)] = static_cast<std::uint8_t>(i);
  for (int i = 0; i < 6; ++i)
    table[static_cast<std::size_t>('a' + i)] = table[static_cast<std::size_t>('A' + i)] = static_cast<std::uint8_t>(10 + i);
  return table;
}();

void append_hex(std::string& out, std::uint64_t code, int digits) {
  char text[16];
  for (int i = digits; i-- > 0; code >>= 4) text[i] = "0123456789ABCDEF"[code & 15];
  out.append(text, static_cast<std::size_t>(digits));
}

/// Takes the next word off the front of a line; empty at its end.
std::string_view take_word(std::string_view& text) {
  std::size_t begin = 0;
  while (begin < text.size() && is_blank(text[begin])) ++begin;
  std::size_t end = begin;
  while (end < text.size() && !is_blank(text[end])) ++end;
  const std::string_view word = text.substr(begin, end - begin);
  text.remove_prefix(end);
  return word;
}

enum class Hex : std::uint8_t { fine, not_hexadecimal, too_wide };

Hex read_hex(std::string_view word, int bits, std::uint64_t& code) {
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

LineEvaluator::LineEvaluator(const EvalOptions& options)
    : options_(options), arity_(info(options.task.operation).arity) {
  const Task& task = options.task;
  if (std::string why = refusal(task); !why.empty()) throw std::invalid_argument(why);
  const auto column = [&](std::string name, int bits, int digits) {
    column_[static_cast<std::size_t>(columns_++)] = {std::move(name), bits, digits};
  };
  for (int i = 0; i < arity_; ++i) column(fmt::format("operand {}", i + 1), storage_bits(task.from), hex_digits(task.from));
  const bool truth = info(task.operation).result == ResultKind::truth;
  column("the expected result", truth ? 1 : storage_bits(task.to), task.result_hex_digits());
  column("the expected flags", 5, flag_digits);
  if (!options.check) columns_ = arity_;
}

bool LineEvaluator::same_result(std::uint64_t expected, std::uint64_t result) const {
  if (expected == result) return true;
  const auto* format = std::get_if<FloatFormat>(&options_.task.to);
  return format && !options_.strict_nan && info(options_.task.operation).result != ResultKind::truth &&
         format->is_nan(expected) && format->is_nan(result);
}

void LineEvaluator::line(std::string_view text, std::string& out) {
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
    switch (read_hex(token, column.bits, word[static_cast<std::size_t>(count)])) {
      case Hex::fine: break;
      case Hex::not_hexadecimal:
        throw std::invalid_argument(fmt::format("{} is '{}'; accepted: {} hexadecimal digits", column.name, shown(token), column.digits));
      case Hex::too_wide:
        throw std::invalid_argument(fmt::format("{} is '{}', wider than {} bit{}; accepted: {} hexadecimal digit{}", column.name,
                                                shown(token), column.bits, column.bits == 1 ? "" : "s", column.digits,
                                                column.digits == 1 ? "" : "s"));
    }
  }
  if (count == 0) return;
  if (options_.check ? count <= arity_ || count > columns_ : count != arity_) {
    const auto operands = fmt::format("{} operand{}", arity_, arity_ == 1 ? "" : "s");
    throw std::invalid_argument(fmt::format(
        "{} {} code word{}; accepted: {}", info(options_.task.operation).name,
        count > columns_ ? fmt::format("got more than {}", columns_) : fmt::format("got {}", count), count == 1 ? "" : "s",
        options_.check ? operands + ", the expected result and, optionally, the expected flags" : operands));
  }

  const bool stochastic = options_.task.rounding.mode == RoundingMode::stochastic;
  const std::uint64_t random = stochastic ? rounding_bits(options_.seed, 0, cases_) : 0;
  const Rounded result = evaluate(options_.task, word[0], arity_ > 1 ? word[1] : 0, arity_ > 2 ? word[2] : 0, random);
  ++cases_;

  const std::uint64_t expected = word[static_cast<std::size_t>(arity_)];
  const std::uint64_t expected_flags = word[static_cast<std::size_t>(arity_) + 1];
  const bool has_flags = count == arity_ + 2;
  if (options_.check) {
    if (same_result(expected, result.code) && (!has_flags || expected_flags == result.flags)) return;
    ++differing_;
  }
  for (int i = 0; i < arity_; ++i) {
    append_hex(out, word[static_cast<std::size_t>(i)], column_[static_cast<std::size_t>(i)].digits);
    out += ' ';
  }
  const int digits = options_.task.result_hex_digits();
  if (options_.check) {
    out += " expected ";
    append_hex(out, expected, digits);
    if (has_flags) {
      out += ' ';
      append_hex(out, expected_flags, flag_digits);
    }
    out += "  got ";
  }
  append_hex(out, result.code, digits);
  if (has_flags || !options_.check) {
    out += ' ';
    append_hex(out, result.flags, flag_digits);
  }
  out += '\n';
}

void LineStream::line(std::string_view text, std::string& out) {
  ++number_;
  try {
    if (text.size() > max_line) throw std::invalid_argument(fmt::format("is longer than {} characters", max_line));
    evaluator_.line(text, out);
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
  if (pending_.size() > max_line) finish(out);  // refuses it, however much more would come
}

void LineStream::finish(std::string& out) {
  if (pending_.empty()) return;
  const std::string whole = std::move(pending_);
  pending_.clear();
  line(whole, out);
}

}  // namespace halfulp::cli
