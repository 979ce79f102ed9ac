#include <halfulp/experiments/run/trace.hpp>

#include <halfulp/experiments/run/interrupt.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <algorithm>

namespace halfulp {
namespace {
bool same(const Task& x, const Task& y) {
  return x.operation == y.operation && x.from == y.from && x.to == y.to && x.rounding == y.rounding;
}
}  // namespace

Channel& Trace::channel(const Task& task) {
  for (Channel& c : channels_)
    if (same(c.task, task)) return c;
  channels_.push_back({task, limit_, {}, {}, {}});
  return channels_.back();
}

void Trace::append(const Trace& other) {
  for (const Channel& theirs : other.channels_) {
    Channel& ours = channel(theirs.task);
    const auto extend = [&](std::vector<std::uint64_t>& to, const std::vector<std::uint64_t>& from) {
      const std::size_t room = limit_ - std::min(limit_, to.size());
      to.insert(to.end(), from.begin(), from.begin() + static_cast<std::ptrdiff_t>(std::min(room, from.size())));
    };
    extend(ours.a, theirs.a);
    extend(ours.b, theirs.b);
    extend(ours.c, theirs.c);
  }
}

Arithmetic::Arithmetic(const FloatFormat& format, const Rounding& rounding, Trace* trace, Flags* raised)
    : format_(format), rounding_(rounding), trace_(rounding.mode == RoundingMode::stochastic ? nullptr : trace), raised_(raised) {}

std::uint64_t Arithmetic::run(Operation operation, std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t random) {
  stop_if_interrupted();
  if (trace_) {
    Channel*& channel = channels_[static_cast<std::size_t>(operation)];
    if (!channel) channel = &trace_->channel({operation, format_, format_, rounding_});
    channel->record(a, b, c);
  }
  return noted(evaluate(operation, format_, rounding_, a, b, c, random));
}

std::uint64_t Arithmetic::convert_from(const NumberType& from, std::uint64_t code, std::uint64_t random) {
  stop_if_interrupted();
  const Task task{Operation::convert, from, format_, rounding_};
  if (trace_) {
    Channel*& channel = channels_[static_cast<std::size_t>(Operation::convert)];
    if (!channel || channel->task.from != from) channel = &trace_->channel(task);
    channel->record(code);
  }
  return noted(evaluate(task, code, 0, 0, random));
}

std::uint64_t Arithmetic::encode(double value, std::uint64_t random) {
  return convert_from(fp64, std::bit_cast<std::uint64_t>(value), random);
}

}  // namespace halfulp
