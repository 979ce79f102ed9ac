// sample: an array of made-up gradients in a .npy file, for those who have none of their own.
#include <halfulp/commands/command_line.hpp>
#include <halfulp/commands/options.hpp>
#include <halfulp/commands/terminal.hpp>
#include <halfulp/data/distributions.hpp>
#include <halfulp/data/npy.hpp>
#include <halfulp/report/config.hpp>
#include <halfulp/support/files.hpp>
#include <halfulp/support/spelling.hpp>
#include <halfulp/support/work.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp::cli {
namespace {

constexpr std::uint64_t most_elements = 1 << 28;  // a file of a gigabyte
constexpr std::size_t most_dimensions = 32;       // of an array of NumPy before 2.0

struct SampleArguments {
  std::string out, shape = "256,64", distribution = "log-normal";
  double median = -17.5, sigma = 4;  // those of the experiment underflow
  std::uint64_t seed = 1;
};

/// "256,64" as the size of each dimension. Throws std::invalid_argument in one line that names the size that is none.
std::vector<std::uint64_t> read_sizes(std::string_view text) {
  const std::string accepted = fmt::format(
      "accepted: at most {} integers of at least 1, separated by commas, such as 256,64, at most {} elements in all",
      most_dimensions, most_elements);
  const auto refuse = [&](const std::string& what) {
    throw std::invalid_argument(fmt::format("--shape is '{}': {}; {}", shown(text), what, accepted));
  };
  std::vector<std::uint64_t> sizes;
  std::uint64_t count = 1;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view word = trimmed(text.substr(begin, end - begin));
    std::uint64_t size = 0;
    const auto [last, error] = std::from_chars(word.data(), word.data() + word.size(), size);
    const bool digits = last == word.data() + word.size() && error != std::errc::invalid_argument;
    if (word.empty()) refuse(fmt::format("size {} is empty", sizes.size() + 1));
    if (!digits) refuse(fmt::format("size {}, '{}', is no such integer", sizes.size() + 1, shown(word)));
    if (error == std::errc{} && size == 0) refuse(fmt::format("size {} is 0", sizes.size() + 1));
    if (error != std::errc{} || size > most_elements / count) refuse("too many elements");
    count *= size;
    sizes.push_back(size);
    if (sizes.size() > most_dimensions) refuse("too many sizes");
    begin = end + 1;
  }
  return sizes;
}

void sample(const CLI::App& command, const SampleArguments& arguments) {
  require_file("--out", arguments.out);
  Distribution d;
  d.shape = parse_shape(arguments.distribution);
  if (command.count("--sigma") != 0 && d.shape != Shape::log_normal && d.shape != Shape::log_uniform)
    throw std::invalid_argument("--sigma belongs to log-normal and log-uniform; the scale of " +
                                arguments.distribution + " is --median, its binary logarithm");
  d.log2_scale = arguments.median;
  d.log2_sigma = arguments.sigma;
  d.log2_low = arguments.median - 2 * arguments.sigma;
  d.log2_high = arguments.median + 2 * arguments.sigma;
  const std::vector<std::uint64_t> shape = read_sizes(arguments.shape);
  const std::uint64_t count = std::accumulate(shape.begin(), shape.end(), std::uint64_t{1}, std::multiplies<>());
  check_writable(arguments.out);
  const std::vector<float> values = parallel_map(
      count, [&](std::size_t i) { return static_cast<float>(d.sample(arguments.seed, i)); });
  write_npy(arguments.out, shape, values);
  write_output(fmt::format("{}: {} elements, fp32, {}: {}, seed {}\n", arguments.out, fmt::join(shape, " x "),
                           arguments.distribution, d.description(), arguments.seed));
}

}  // namespace

void add_sample_command(CLI::App& app, int&) {
  auto arguments = std::make_shared<SampleArguments>();
  auto* command = app.add_subcommand("sample", "made-up gradients as a tensor (.npy), for those who have none");
  command->add_option("--out", arguments->out, "file to write")->required()->type_name("FILE");
  command->add_option("--shape", arguments->shape, "size of each dimension, separated by commas")
      ->type_name("SIZE[,SIZE]")
      ->capture_default_str();
  command->add_option("--distribution", arguments->distribution, fmt::format("{}", fmt::join(shape_names(), ", ")))
      ->type_name("DISTRIBUTION")
      ->capture_default_str();
  add_real_option(*command, "--median", arguments->median, -100, 30,
                  "log2 of the median magnitude (log-normal, log-uniform) or of the scale (other distributions)")
      ->type_name("EXPONENT");
  add_real_option(
      *command, "--sigma", arguments->sigma, 0.01, 16,
      "width in binades: the standard deviation of log2|x| (log-normal), or a quarter of the range (log-uniform)")
      ->type_name("BINADES");
  add_number_option(*command, "--seed", arguments->seed, 0, UINT64_MAX, "the same seed gives the same bits everywhere")
      ->default_str("1");
  command->footer("Each element depends only on the seed and its place. Exit status: 0 written, 2 bad usage.");
  command->callback([arguments, command] { sample(*command, *arguments); });
}

}  // namespace halfulp::cli
