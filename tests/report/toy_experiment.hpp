// A small experiment with all that a report can have, for the tests of reports, runner and commands.
#pragma once

#include <halfulp/emulation/text.hpp>
#include <halfulp/report/experiment.hpp>
#include <halfulp/support/work.hpp>
#include <halfulp/formats/catalogue.hpp>

namespace halfulp::toy {

inline std::vector<Parameter> parameters() {
  return {{"formats", ParameterType::formats, "fp16,bf16", "which formats"},
          {"count", ParameterType::integer, "50", "how many additions", 1, 1000}};
}

inline void run(const Config& config, Run& run) {
  Table& table = run.report.table("sums", "1 + 1/n",
                                  {{"format", "", "the format"}, {"n", "1", "n"}, {"sum", "1", "rounded"}});
  const auto count = static_cast<std::size_t>(config.integer("count"));
  for (const FormatChoice& choice : config.formats("formats")) {
    struct Part {
      Trace trace;
      std::uint64_t sum = 0;
    };
    const auto parts = parallel_map(count, [&](std::size_t i) {
      Part part;
      Arithmetic arithmetic(choice.format, {}, &part.trace);
      part.sum = arithmetic.add(arithmetic.encode(1), arithmetic.encode(1.0 / static_cast<double>(i + 1)));
      return part;
    });
    for (std::size_t i = 0; i < count; ++i) {
      run.progress(static_cast<double>(i) / static_cast<double>(count));
      run.trace.append(parts[i].trace);
      table.row({choice.name, i + 1, emulated(choice.format, parts[i].sum)});
    }
  }
  run.report.claim({"one-and-one", "1 + 1 is 2", "derived: both are representable"},
                   exactly(2.0, fp16.value(evaluate(Operation::add, fp16, {}, 0x3c00, 0x3c00).code), "oracle"));
  run.report.claim({"other", "something else", "derived: nothing"}, skipped("this configuration does not test it"));
}

inline std::string finding(const ReportTables& tables) {
  const auto rows = tables.rows("sums", {{"n", 2}});
  return rows.empty() ? "" : "1 + 1/2 is " + in_words(rows.front().number("sum")) + ".";
}

inline Experiment experiment() { return {"toy", "A toy", "What does a toy show?", parameters, run, finding}; }

}  // namespace halfulp::toy
