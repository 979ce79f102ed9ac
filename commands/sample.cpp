// sample: an array of made-up gradients in a .npy file, for those who have none of their own.
#include <halfulp/commands/command_line.hpp>
#include <halfulp/commands/options.hpp>
#include <halfulp/commands/terminal.hpp>
#include <halfulp/data/distributions.hpp>
#include <halfulp/data/npy.hpp>
#include <halfulp/support/files.hpp>
#include <halfulp/support/work.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace halfulp::cli {
namespace {

constexpr std::uint64_t most_elements = 1 << 28;  // a file of a gigabyte

struct SampleArguments {
  std::string out, distribution = "log-normal";
  std::vector<std::uint64_t> shape{256, 64};
  double median = -17.5, sigma = 4;  // those of the experiment underflow
  std::uint64_t seed = 1;
};

std::uint64_t elements(const std::vector<std::uint64_t>& shape) {
  std::uint64_t count = 1;
  for (const std::uint64_t size : shape) {
    if (size == 0 || size > most_elements / count)
      throw std::invalid_argument(
          fmt::format("--shape is {}; accepted: sizes of at least 1, at most {} elements in all", fmt::join(shape, ","),
                      most_elements));
    count *= size;
  }
  return count;
}

void sample(const SampleArguments& arguments) {
  Distribution d;
  d.shape = parse_shape(arguments.distribution);
  d.log2_scale = arguments.median;
  d.log2_sigma = arguments.sigma;
  d.log2_low = arguments.median - 2 * arguments.sigma;
  d.log2_high = arguments.median + 2 * arguments.sigma;
  const std::uint64_t count = elements(arguments.shape);
  check_writable(arguments.out);
  const std::vector<float> values = parallel_map(
      count, [&](std::size_t i) { return static_cast<float>(d.sample(arguments.seed, i)); });
  write_npy(arguments.out, arguments.shape, values);
  write_output(fmt::format("{}: {} elements, fp32, {}: {}, seed {}\n", arguments.out, fmt::join(arguments.shape, " x "),
                           arguments.distribution, d.description(), arguments.seed));
}

}  // namespace

void add_sample_command(CLI::App& app, int&) {
  auto arguments = std::make_shared<SampleArguments>();
  auto* command = app.add_subcommand("sample", "made-up gradients as a tensor (.npy), for those who have none");
  command->add_option("--out", arguments->out, "file to write")->required()->type_name("FILE");
  command->add_option("--shape", arguments->shape, "size of each dimension, separated by commas")
      ->delimiter(',')
      ->type_name("SIZE[,SIZE]")
      ->default_str("256,64");
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
  command->callback([arguments] { sample(*arguments); });
}

}  // namespace halfulp::cli
