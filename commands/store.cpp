// `halfulp store`: what a store of trials holds, whether it is whole, and what can go.
#include <halfulp/commands/command_line.hpp>
#include <halfulp/commands/options.hpp>
#include <halfulp/commands/guard.hpp>
#include <halfulp/commands/run.hpp>
#include <halfulp/commands/terminal.hpp>
#include <halfulp/report/trial_store.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/support/work.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace halfulp::cli {
namespace {

namespace fs = std::filesystem;

struct StoreArguments {
  std::string folder, show, remove;
  bool check = false, prune = false, json = false;
};

struct KindCount {
  std::uint64_t records = 0, bytes = 0;
};

std::map<std::string, KindCount> count(const std::vector<TrialStore::Entry>& entries) {
  std::map<std::string, KindCount> kinds;
  for (const auto& [key, path] : entries) {
    std::error_code error;
    KindCount& kind = kinds[key.substr(0, key.find('/'))];
    ++kind.records;
    if (const auto bytes = fs::file_size(path, error); !error) kind.bytes += bytes;
  }
  return kinds;
}

/// What is wrong with a record, and whether that is for good.
struct Problem {
  std::string line;  ///< empty: nothing
  bool damaged = false;
};
std::vector<Problem> problems(const std::vector<TrialStore::Entry>& entries) {
  return parallel_map(entries.size(), [&](std::size_t i) -> Problem {
    try {
      (void)TrialStore::read(entries[i]);
      return {};
    } catch (const TrialStore::Damaged& problem) {
      return {problem.what(), true};
    } catch (const std::invalid_argument& problem) { return {problem.what(), false}; }
  });
}

void remove(const std::string& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) throw std::invalid_argument(fmt::format("cannot remove {}: {}", path, error.message()));
}

/// Of a process that may still be writing.
bool is_recent(const std::string& path) {
  std::error_code error;
  const auto written = fs::last_write_time(path, error);
  return error || fs::file_time_type::clock::now() - written < std::chrono::hours(1);
}

int show(const TrialStore& store, const std::string& key) {
  const std::vector<TrialStore::Entry> entries = store.entries();
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const auto& entry) { return entry.key == key; });
  if (found == entries.end())
    throw std::invalid_argument(
        fmt::format("--show {}: not in {}; accepted: a key of halfulp trials --all", shown(key), store.folder()));
  write_output(pretty(TrialStore::read(*found)));
  return exit_status::done;
}

int look_at(const StoreArguments& arguments) {
  if (!arguments.show.empty() && (arguments.check || arguments.prune || arguments.json || !arguments.remove.empty()))
    throw std::invalid_argument("--show KEY writes one record; accepted: without another option");
  const TrialStore store = open_store(arguments.folder, TrialStore::IfAbsent::refuse);
  if (!arguments.show.empty()) return show(store, arguments.show);
  note_interrupts();
  std::vector<TrialStore::Entry> entries = store.entries();
  Json removed = Json::array();
  const auto take_away = [&](const std::string& path) {
    remove(path);
    removed.push_back(path);
  };
  if (!arguments.remove.empty()) {
    const auto of_kind = [&](const auto& entry) { return entry.key.starts_with(arguments.remove + "/"); };
    if (std::none_of(entries.begin(), entries.end(), of_kind))
      throw std::invalid_argument(fmt::format("--remove {}: the store has none of them; accepted: a kind that it lists",
                                              shown(arguments.remove)));
    for (const auto& entry : entries)
      if (of_kind(entry)) take_away(entry.path);
    std::erase_if(entries, of_kind);
  }
  std::vector<std::string> damaged;
  bool unmended = false;
  if (arguments.check || arguments.prune) {
    const std::vector<Problem> all = problems(entries);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].line.empty()) continue;
      if (arguments.prune && all[i].damaged) take_away(entries[i].path);
      else unmended = true;
      damaged.push_back(all[i].line);
    }
  }
  const std::vector<std::string> left = store.left_behind();
  if (arguments.prune) {
    for (const std::string& path : left)
      if (!is_recent(path)) take_away(path);
    entries = store.entries();
  }
  const auto kinds = count(entries);
  if (arguments.json) {
    Json json{{"store", store.folder()}, {"kinds", Json::array()}, {"left_behind", left.size()}, {"removed", removed}};
    for (const auto& [name, kind] : kinds)
      json["kinds"].push_back({{"kind", name}, {"records", kind.records}, {"bytes", kind.bytes}});
    if (arguments.check || arguments.prune) json["damaged"] = damaged;
    write_output(pretty(json));
  } else {
    std::vector<std::vector<std::string>> rows{{"kind", "records", "bytes"}};
    for (const auto& [name, kind] : kinds)
      rows.push_back({name, fmt::format("{}", kind.records), fmt::format("{}", kind.bytes)});
    std::string text = kinds.empty() ? "no records\n" : aligned(rows, 0);
    for (const std::string& line : damaged) text += line + "\n";
    if (arguments.check && damaged.empty()) text += fmt::format("all {} records are whole\n", entries.size());
    if (!left.empty() && !arguments.prune)
      text += fmt::format(
          "{} files of runs that were killed, or that are writing now; --prune removes those older than "
          "an hour\n",
          left.size());
    if (!removed.empty()) text += fmt::format("{} files removed\n", removed.size());
    write_output(text);
  }
  return unmended ? exit_status::failed : exit_status::done;
}

}  // namespace

void add_store_command(CLI::App& app, int& status) {
  const auto arguments = std::make_shared<StoreArguments>();
  CLI::App* store = app.add_subcommand("store", "show, check and tidy a store of trials");
  store->add_option("folder", arguments->folder, "the store")->type_name("DIR")->option_text("DIR")->required();
  store->add_flag("--check", arguments->check, "read every record and compare it with its checksum and its name");
  store->add_flag("--prune", arguments->prune,
                  "remove records that --check finds damaged, and what killed runs left behind");
  add_text_option(*store, "--remove", arguments->remove, "remove all records of a kind, such as training-1",
                  "a kind that the store lists")
      ->type_name("KIND");
  add_text_option(*store, "--show", arguments->show,
                  "the record of a key as JSON: what it depends on, where it was made", "a key of halfulp trials --all")
      ->type_name("KEY");
  store->add_flag("--json", arguments->json, "the summary as JSON");
  store->footer("Exit status: 0 all is whole, 1 damaged records, 2 bad usage.");
  store->callback([arguments, &status] { status = look_at(*arguments); });
}

}  // namespace halfulp::cli
