#include <halfulp/experiments/cli/eval_lines.hpp>

#include <halfulp/emulation/random.hpp>
#include <halfulp/experiments/cli/hex_word.hpp>

#include <fmt/core.h>

#include <stdexcept>

namespace halfulp::cli {
namespace {

constexpr int flag_bits = 5;

}  // namespace

LineEvaluator::LineEvaluator(const EvalOptions& options)
    : options_(options), arity_(info(options.task.operation).arity) {
  const Task& task = options.task;
  if (std::string why = refusal(task); !why.empty()) throw std::invalid_argument(why);
  const auto column = [&](std::string name, int bits) { column_[static_cast<std::size_t>(columns_++)] = {std::move(name), bits}; };
  for (int i = 0; i < arity_; ++i) column(fmt::format("operand {}", i + 1), storage_bits(task.from));
  const bool truth = info(task.operation).result == ResultKind::truth;
  column("the expected result", truth ? 1 : storage_bits(task.to));
  column("the expected flags", flag_bits);
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
    if (!read_hex_word(token, column.bits, word[static_cast<std::size_t>(count)]))
      throw std::invalid_argument(hex_word_refusal(column.name, token, column.bits));
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
    append_hex_word(out, word[static_cast<std::size_t>(i)], column_[static_cast<std::size_t>(i)].bits);
    out += ' ';
  }
  const int bits = 4 * options_.task.result_hex_digits();
  if (options_.check) {
    out += " expected ";
    append_hex_word(out, expected, bits);
    if (has_flags) {
      out += ' ';
      append_hex_word(out, expected_flags, flag_bits);
    }
    out += "  got ";
  }
  append_hex_word(out, result.code, bits);
  if (has_flags || !options_.check) {
    out += ' ';
    append_hex_word(out, result.flags, flag_bits);
  }
  out += '\n';
}

}  // namespace halfulp::cli
