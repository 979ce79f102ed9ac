// Reports of the toy experiment, and wrong or absent backends, for the tests of code that makes and reads reports.
#pragma once

#include "toy_experiment.hpp"

#include <halfulp/report/schema.hpp>
#include <halfulp/report/runner.hpp>
#include <halfulp/evidence/devices.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace halfulp::toy {

/// Flips the last bit of every result: a device that is wrong about everything.
class Broken final : public Device {
 public:
  std::string_view name() const override { return "broken"; }
  std::string description() const override { return "always one off"; }
  Support available() const override { return Support::by("imagination"); }
  Support supports(const Task& task) const override {
    if (task.operation == Operation::add) return Support::by("imagination");
    return Support::no("does not convert to " + number_type_name(task.to));
  }
  NanRule nan_rule(const Task& task) const override { return task.rounding.nan; }
  std::string_view independence() const override { return "silicon"; }
  void run(const Task& task, const Operands& operands, std::span<std::uint64_t> results) const override {
    emulated_device().run(task, operands, results);
    for (std::uint64_t& result : results) result ^= 1;
  }
};

/// A backend whose device is not here.
class Absent final : public Device {
 public:
  std::string_view name() const override { return "absent"; }
  std::string description() const override { return "nothing"; }
  Support available() const override { return Support::no("no such device"); }
  Support supports(const Task&) const override { return Support::no("no such device"); }
  NanRule nan_rule(const Task& task) const override { return task.rounding.nan; }
  std::string_view independence() const override { return "silicon"; }
  void run(const Task&, const Operands&, std::span<std::uint64_t>) const override {
    FAIL() << "the device is not here";
  }
};

inline Json toy_report(std::vector<const Device*> backends = {}, int threads = 0, const char* setting = "count=50") {
  Config config(parameters());
  config.set(setting);
  RunOptions options;
  options.backends = std::move(backends);
  options.threads = threads;
  return run_experiment(experiment(), config, options).to_json();
}

/// The errors of a report of the toy.
inline std::vector<std::string> toy_errors(const Json& report) {
  const Experiment toy = experiment();
  return report_errors(report, {&toy, 1});
}

inline std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

}  // namespace halfulp::toy
