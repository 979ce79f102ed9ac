// A device answers tasks on code words: the emulation, this CPU, a GPU, a recording of one.
#pragma once

#include <halfulp/emulation/operation.hpp>
#include <halfulp/emulation/unit/unit.hpp>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp {

/// Whether a device can do something here. `reason` says why not; `route` names the instructions that do it.
struct Support {
  bool yes = false;
  std::string reason;        ///< empty where yes: "this CPU has no AVX512-FP16", "no instruction rounds to odd"
  std::string route;         ///< "VCVTPS2PH (F16C)"; empty where no
  bool approximate = false;  ///< the route need not be correctly rounded: a difference is a finding, not a failure

  static Support by(std::string route, bool approximate = false) { return {true, {}, std::move(route), approximate}; }
  static Support no(std::string reason) { return {false, std::move(reason), {}, false}; }
};

/// Operand code words, one case per index. Spans that an operation does not take are empty; the others have one length.
struct Operands {
  std::span<const std::uint64_t> a, b, c;
  std::size_t size() const { return a.size(); }
  Operands slice(std::size_t begin, std::size_t count) const {
    const auto part = [&](auto s) { return s.empty() ? s : s.subspan(begin, count); };
    return {part(a), part(b), part(c)};
  }
  /// The operands of case i; 0 for those that the operation does not take.
  std::array<std::uint64_t, 3> operator[](std::size_t i) const {
    return {a[i], b.empty() ? 0 : b[i], c.empty() ? 0 : c[i]};
  }
};

/// Operands with memory of their own. Columns that an operation does not take are empty.
struct OperandColumns {
  std::vector<std::uint64_t> a, b, c;
  std::size_t size() const { return a.size(); }
  Operands view() const { return {a, b, c}; }
  void push(int arity, std::uint64_t x, std::uint64_t y = 0, std::uint64_t z = 0);
};

/// What a matrix instruction takes and gives; how it adds is not part of it.
struct MatrixShape {
  FloatFormat a, b, accumulator;
  int k = 1;  ///< products of one instruction
  FloatFormat scale = {};
  int scale_block = 0;  ///< products that share a scale; 0: none
  bool operator==(const MatrixShape&) const = default;
};
MatrixShape shape_of(const MatrixUnit& unit);

/// Many outputs of one depth: case i has words a[i * k] ... a[i * k + k - 1], b likewise, c[i], and k / scale_block
/// scales (rounded up) of A and of B where the shape has them.
struct MatrixCases {
  std::size_t k = 0;
  std::vector<std::uint64_t> a, b, c, scale_a, scale_b;
  std::size_t size() const { return c.size(); }
  /// Operands of case i. Precondition: i < size().
  DotOperands products(std::size_t i) const;
  /// Adds a case. Precondition: it has the lengths of the others.
  void add(const DotOperands& products, std::uint64_t addend);
};

/// A matrix instruction of a device: outputs c + a[0] b[0] + a[1] b[1] + ... of any depth. A depth that is no multiple
/// of the instruction's is padded with zeros; longer ones chain instructions.
struct MatrixTask {
  std::string unit;         ///< the unit of the table that models it: "hopper.wgmma.e4m3.fp32"
  MatrixShape shape;        ///< of one instruction
  std::string description;  ///< one line: which instruction, and on which device
  Support here;             ///< whether it runs here
};

/// A device that could not answer: no memory left, a fault, a kernel that does not end. what() is one line.
class DeviceFailure : public std::runtime_error {
 public:
  explicit DeviceFailure(const std::string& what, bool is_lost = true) : std::runtime_error(what), lost(is_lost) {}
  bool lost;  ///< do not ask it again; otherwise it may answer a smaller or another question
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string_view name() const = 0;          ///< as on the command line: "x86"
  virtual std::string description() const = 0;        ///< one line: which device, which instruction sets
  virtual Support available() const = 0;              ///< is it here at all?
  virtual std::string_view independence() const = 0;  ///< "silicon", "emulation", "recorded", "oracle", "third-party"

  // Element-wise tasks.

  virtual Support supports(const Task& task) const = 0;
  virtual NanRule nan_rule(const Task& task) const = 0;  ///< which NaN it returns: comparisons take the rule over
  /// Tasks that it has instructions for beyond those that every device is asked (suite_tasks in evidence/suite.hpp).
  virtual std::vector<Task> own_tasks() const { return {}; }
  /// results[i] = task on operands[i]. Preconditions: supports(task).yes, results.size() == operands.size(). Throws
  /// DeviceFailure.
  virtual void run(const Task& task, const Operands& operands, std::span<std::uint64_t> results) const = 0;
  /// known[i] = whether run() has a result for operands[i]: a recording has only those that were recorded, and its
  /// other results mean nothing. Preconditions as for run().
  virtual void answered(const Task&, const Operands&, std::span<char> known) const {
    std::fill(known.begin(), known.end(), 1);
  }

  // Matrix instructions.

  /// All of them, also those that do not run here.
  virtual std::vector<MatrixTask> matrix_tasks() const { return {}; }
  /// d[i] = the output of case i. Preconditions: `task` is one of matrix_tasks(), task.here.yes, d.size() ==
  /// cases.size(), cases.k >= 1. Throws DeviceFailure.
  virtual void multiply(const MatrixTask& task, const MatrixCases& cases, std::span<std::uint64_t> d) const;
  /// known[i] = whether multiply() has an output for case i. Preconditions as for multiply().
  virtual void answered(const MatrixTask&, const MatrixCases&, std::span<char> known) const {
    std::fill(known.begin(), known.end(), 1);
  }
};

/// "emulated": integer arithmetic on this CPU, and the models of all matrix units of the table. Other devices are held
/// against it.
const Device& emulated_device();
/// The same with one unit in place of the table. Keeps a copy of it.
std::unique_ptr<Device> emulated_device_with(const MatrixUnit& unit);

}  // namespace halfulp
