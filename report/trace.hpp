// Arithmetic that records its operands, so that the same operations can be replayed on devices.
#pragma once

#include <halfulp/emulation/found.hpp>

#include <deque>
#include <vector>

namespace halfulp {

/// The operands one task met, in order, up to a limit.
struct Channel {
  Task task;
  std::size_t limit = 0;
  std::vector<std::uint64_t> a, b, c;

  void record(std::uint64_t x, std::uint64_t y = 0, std::uint64_t z = 0) {
    if (a.size() >= limit) return;
    const int arity = info(task.operation).arity;
    a.push_back(x);
    if (arity > 1) b.push_back(y);
    if (arity > 2) c.push_back(z);
  }
};

/// All channels of an experiment. Not safe for several threads: give each its own and `append` them in order.
class Trace {
 public:
  explicit Trace(std::size_t limit_per_channel = 100'000) : limit_(limit_per_channel) {}
  /// The channel of a task, made when first asked for; the reference stays valid.
  Channel& channel(const Task& task);
  /// Adds another trace's operands behind this one's, channel by channel, within the limit.
  void append(const Trace& other);
  /// Whether `append` would add anything of such channels: one of them is new here, or not full.
  bool has_room_for(const Trace& other) const;
  /// There are channels, and none takes more operands.
  bool is_full() const;
  const std::deque<Channel>& channels() const { return channels_; }
  std::size_t limit() const { return limit_; }

 private:
  std::size_t limit_;
  std::deque<Channel> channels_;
};

/// One format under one rounding: operations on code words, recorded in a trace unless the rounding is stochastic
/// (no device has our random bits). Throws Interrupted from any operation after Ctrl-C.
class Arithmetic {
 public:
  /// `raised` collects the flags of every operation until its owner clears it.
  Arithmetic(const FloatFormat& format, const Rounding& rounding, Trace* trace = nullptr, Flags* raised = nullptr);

  const FloatFormat& format() const { return format_; }
  const Rounding& rounding() const { return rounding_; }
  double value(std::uint64_t code) const { return format_.value(code); }

  std::uint64_t add(std::uint64_t a, std::uint64_t b, std::uint64_t random = 0) {
    return run(Operation::add, a, b, 0, random);
  }
  std::uint64_t sub(std::uint64_t a, std::uint64_t b, std::uint64_t random = 0) {
    return run(Operation::sub, a, b, 0, random);
  }
  std::uint64_t mul(std::uint64_t a, std::uint64_t b, std::uint64_t random = 0) {
    return run(Operation::mul, a, b, 0, random);
  }
  std::uint64_t div(std::uint64_t a, std::uint64_t b, std::uint64_t random = 0) {
    return run(Operation::div, a, b, 0, random);
  }
  std::uint64_t sqrt(std::uint64_t a, std::uint64_t random = 0) { return run(Operation::sqrt, a, 0, 0, random); }
  std::uint64_t fma(std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t random = 0) {
    return run(Operation::fma, a, b, c, random);
  }
  /// A code word of `from` in this format.
  std::uint64_t convert_from(const NumberType& from, std::uint64_t code, std::uint64_t random = 0);
  /// A double in this format (`convert_from` fp64).
  std::uint64_t encode(double value, std::uint64_t random = 0);

 private:
  std::uint64_t run(Operation operation, std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t random);
  /// Notes the flags of a result and returns its code word.
  std::uint64_t noted(const Rounded& result) {
    if (raised_) *raised_ |= result.flags;
    return result.code;
  }

  FloatFormat format_;
  Rounding rounding_;
  Trace* trace_;
  Flags* raised_;
  // Found once, not at each operation.
  std::array<Channel*, operations.size()> channels_{};
  std::array<FoundOperation, operations.size()> found_{};
  NumberType from_;  ///< of the last conversion
  FoundConversion conversion_ = nullptr;
};

}  // namespace halfulp
