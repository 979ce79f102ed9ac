// Something that computes tasks on code words: the emulation, this CPU, a GPU.
#pragma once

#include <halfulp/emulation/operation.hpp>

#include <algorithm>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp {

/// Whether something can be done here. `reason` says why not; `route` names the instructions that do it.
struct Support {
  bool yes = false;
  std::string reason;        ///< empty where yes: "this CPU has no AVX512-FP16", "no instruction rounds to odd"
  std::string route;         ///< "VCVTPS2PH (F16C)"; empty where no
  bool approximate = false;  ///< the route need not be correctly rounded: that it differs is a finding, and no failure

  static Support by(std::string route, bool approximate = false) { return {true, {}, std::move(route), approximate}; }
  static Support no(std::string reason) { return {false, std::move(reason), {}, false}; }
};

/// Operand code words, one case an index. Spans an operation does not take are empty; the others have one length.
struct Operands {
  std::span<const std::uint64_t> a, b, c;
  std::size_t size() const { return a.size(); }
  Operands slice(std::size_t begin, std::size_t count) const {
    const auto part = [&](auto s) { return s.empty() ? s : s.subspan(begin, count); };
    return {part(a), part(b), part(c)};
  }
};

/// A device that could not answer: no memory left, a fault, no end. One line; thrown by run() of backends and matrix
/// devices.
class DeviceFailure : public std::runtime_error {
 public:
  explicit DeviceFailure(const std::string& what, bool is_lost = true) : std::runtime_error(what), lost(is_lost) {}
  bool lost;  ///< it is not to be asked again; otherwise a smaller or another question may have an answer
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;    ///< as on the command line: "x86"
  virtual std::string description() const = 0;  ///< one line: which device, which instruction sets
  virtual Support available() const = 0;        ///< is the device here at all?
  virtual Support supports(const Task& task) const = 0;
  virtual NanRule nan_rule(const Task& task) const = 0;  ///< which NaN the device returns: comparisons take it over
  virtual std::string_view independence() const = 0;     ///< "silicon", "emulation", "recorded"
  /// Tasks beyond those that every device is asked (recording/suite.hpp): what this one has instructions for.
  virtual std::vector<Task> own_tasks() const { return {}; }
  /// results[i] = task on operands[i]. Preconditions: supports(task).yes, results.size() == operands.size().
  virtual void run(const Task& task, const Operands& operands, std::span<std::uint64_t> results) const = 0;
  /// known[i] = whether run() has a result of operands[i]: a recording has those it was asked for, and its other
  /// results mean nothing. Preconditions as of run().
  virtual void answered(const Task&, const Operands&, std::span<char> known) const {
    std::fill(known.begin(), known.end(), 1);
  }
};

/// Every backend this build knows, the emulation first. Their devices may be missing: ask available().
std::span<const Backend* const> backends();

/// The backend of that name; "recorded:NAME" is a recording (recording/replay.hpp). Throws std::invalid_argument naming
/// the nearest ones, or saying what is wrong with the recording.
const Backend& find_backend(std::string_view name);

}  // namespace halfulp
