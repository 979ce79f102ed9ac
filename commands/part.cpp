#include <halfulp/commands/part.hpp>

#include <halfulp/commands/options.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/support/spelling.hpp>

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string_view>

namespace halfulp::cli {
namespace {

std::optional<std::uint64_t> environment_number(const char* name) {
  const char* const text = std::getenv(name);
  if (!text) return std::nullopt;
  std::uint64_t value = 0;
  const std::string_view all(text);
  const auto [end, error] = std::from_chars(all.data(), all.data() + all.size(), value);
  if (error != std::errc{} || end != all.data() + all.size()) return std::nullopt;
  return value;
}

/// What starts many processes tells each its number. An array of jobs comes first: its jobs have tasks of their own.
Part part_of_environment() {
  struct Names {
    const char *number, *of, *least, *step;
  };
  constexpr Names known[] = {
      {"SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_STEP"},
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", nullptr, nullptr},
      {"PMI_RANK", "PMI_SIZE", nullptr, nullptr},
      {"SLURM_PROCID", "SLURM_NTASKS", nullptr, nullptr}};
  std::string accepted;
  for (const auto& [number, of, least, step] : known) {
    accepted += fmt::format("{}{} and {}", accepted.empty() ? "" : ", ", number, of);
    if (!std::getenv(number)) continue;
    const auto n = environment_number(number), count = environment_number(of),
               first = least ? environment_number(least) : std::uint64_t{0};
    const std::uint64_t by = step ? environment_number(step).value_or(1) : 1;
    if (n && count && first && by > 0 && *n >= *first && (*n - *first) % by == 0 && (*n - *first) / by < *count)
      return {(*n - *first) / by + 1, *count};
    throw std::invalid_argument(fmt::format(
        "--part auto: {}={} is no part by {}{}{}; accepted: numbers from the least on in equal steps, or --part I/N",
        number, std::getenv(number), of, least ? std::string(", ") + least : "", step ? std::string(", ") + step : ""));
  }
  throw std::invalid_argument("--part auto: the environment does not say which part; accepted: in it " + accepted);
}

}  // namespace

CLI::Option* add_part_option(CLI::App& app, std::optional<std::string>& text) {
  return app.add_option("--part", text, "the I-th of N parts, for N processes; auto: as Slurm or MPI number this one")
      ->type_name("I/N|auto");
}

Part part_named(const std::string& text) {
  if (text == "auto") return part_of_environment();
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos)
    throw std::invalid_argument(
        fmt::format("--part is {}; accepted: I/N, such as 3/7, or auto", text.empty() ? "empty" : shown(text)));
  Part part;
  part.of = whole_number("--part I/N: N", text.substr(slash + 1), 1, 1'000'000);
  part.which = whole_number("--part I/N: I", text.substr(0, slash), 1, part.of);
  return part;
}

}  // namespace halfulp::cli
