// `halfulp eval`: any bytes are refused in one line or evaluated; what was evaluated passes its own check.
#include "fuzz_target.hpp"

#include <halfulp/commands/lines.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <stdexcept>
#include <string>

using namespace halfulp;
using namespace halfulp::cli;

namespace {

/// An evaluator's whole answer to `input`. `message` is the error that ended it, if any.
std::string evaluated(LineEvaluator& evaluator, std::string_view input, std::size_t block, std::string& message) {
  LineStream stream(evaluator);
  std::string out;
  try {
    for (; !input.empty(); input.remove_prefix(std::min(block, input.size()))) stream.feed(input.substr(0, block), out);
    stream.finish(out);
  } catch (const std::invalid_argument& error) {
    message = error.what();
    demand(!message.empty() && message.find('\n') == message.npos, "an error is one line");
  }
  return out;
}

}  // namespace

/// Four bytes choose operation, formats, rounding and block size; the rest is the input.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 4) return 0;
  const FloatFormat from = catalogue()[data[1] % catalogue().size()].format,
                    to = catalogue()[data[1] / 16 % catalogue().size()].format;
  EvalOptions options;
  Task& task = options.task;
  task.operation = operations[data[0] % operations.size()].operation;
  task.from = from;
  task.to = task.operation == Operation::convert ? NumberType(to) : NumberType(from);
  task.rounding.mode = static_cast<RoundingMode>(data[2] % rounding_modes.size());
  task.rounding.flush_inputs = (data[2] & 0x40) != 0;
  task.rounding.flush_outputs = (data[2] & 0x80) != 0;
  options.strict_nan = true;
  if (!refusal(task).empty()) return 0;

  const std::string_view input(reinterpret_cast<const char*>(data) + 4, size - 4);
  std::string message, again;
  LineEvaluator evaluator(options), whole(options);
  const std::string out = evaluated(evaluator, input, data[3] % 64 + 1u, message);
  demand(evaluated(whole, input, input.size() + 1, again) == out, "blocks make no difference");
  options.check = true;
  LineEvaluator checker(options);
  message.clear();
  demand(evaluated(checker, out, 4096, message).empty() && message.empty(), "results pass their own check");
  demand(checker.cases() == evaluator.cases() && checker.differing() == 0, "every case is checked");

  // With --check, any input is judged or refused.
  LineEvaluator judge(options);
  evaluated(judge, input, 4096, message);
  demand(judge.differing() <= judge.cases(), "no more cases differ than there are");
  return 0;
}
