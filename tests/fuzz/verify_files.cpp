// The files of `halfulp verify`: ledgers, their entries' tasks and inputs, and states, which have a checksum that fits.
#include "fuzz_json.hpp"

#include <halfulp/commands/verification.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/hardware/operands.hpp>

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <span>

using namespace halfulp;

namespace {

std::string file(const char* kind) {
  static const char* const folder = std::getenv("TMPDIR");
  return std::string(folder ? folder : "/tmp") + "/halfulp-fuzz-" + std::to_string(getpid()) + "." + kind;
}

void write(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

/// What a state of this task is read into.
std::vector<cli::Verification> one_run() {
  std::vector<cli::Verification> run(1);
  run[0].task.operation = Operation::add;
  run[0].task.from = run[0].task.to = e4m3;
  run[0].operands = all_operands(run[0].task);
  run[0].reference = &verify::oracle_device();
  return run;
}

}  // namespace

/// One byte says what the JSON behind it is: a ledger, an entry of one, or the runs of a state.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  read_json_bytes(data + 1, size - 1, [&](Json json) {
    try {
      switch (data[0] % 3) {
        case 0: {
          const std::string path = file("ledger");
          write(path, json.dump());
          const Json entries = cli::read_ledger(path);
          if (!entries.empty()) (void)cli::enter(path, entries.front());
          demand(cli::read_ledger(path) == entries, "an entry takes the place of itself");
          break;
        }
        case 1: {
          const Task task = cli::task_from_json(json.at("task"));
          const Json same = cli::task_to_json(task);
          demand(cli::task_to_json(cli::task_from_json(same)) == same, "a task reads itself back");
          const Json inputs = cli::operands_to_json(cli::operands_from_json(task, json.at("inputs")));
          demand(cli::operands_to_json(cli::operands_from_json(task, inputs)) == inputs, "inputs read themselves back");
          break;
        }
        default: {
          const std::string path = file("state");
          std::vector<cli::Verification> run = one_run();
          if (json.is_array() && json.size() == 1 && json[0].is_object())
            json[0]["question"] = cli::question(run[0]), json[0]["program"] = cli::program(run[0]);
          const std::string runs = json.dump();
          write(path, Json({{"kind", "halfulp verify state"},
                            {"version", 1},
                            {"runs", json},
                            {"checksum", cli::hex_word(verify::chunk_digest(std::as_bytes(std::span(runs))))}})
                          .dump());
          cli::load_state(path, run);
          cli::save_state(path, run);
          std::vector<cli::Verification> again = one_run();
          cli::load_state(path, again);
          demand(again[0].chunks.size() == run[0].chunks.size(), "a state reads itself back");
        }
      }
    } catch (const Json::exception&) {  // which the commands turn into one line
    }
    return std::string();
  });
  std::remove(file("ledger").c_str()), std::remove(file("state").c_str());
  return 0;
}
