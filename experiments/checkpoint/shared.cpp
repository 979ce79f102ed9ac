#include <halfulp/experiments/checkpoint/shared.hpp>

#include <halfulp/experiments/checkpoint/names.hpp>
#include <halfulp/report/config.hpp>
#include <halfulp/support/spelling.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <stdexcept>
#include <utility>

namespace halfulp::checkpoint {

Parameter checkpoint_parameter(const char* name) {
  return {
      name, ParameterType::path, "",
      "a .safetensors file, NAME.safetensors.index.json with its shards beside it, a .npy file, or a folder of these"};
}

std::string checkpoint_path(const Config& config, const char* name) {
  std::string path = config.text(name);
  if (path.empty())
    throw std::invalid_argument(fmt::format(
        "{}: a file is missing; accepted: a .safetensors file, an index of shards, a .npy file, or a folder of these",
        name));
  return path;
}

void refuse_unmatched(std::string_view parameter, const std::string& glob, const ModelTensors& model) {
  if (model.tensors().empty())
    throw std::invalid_argument(
        fmt::format("{}: {} has no tensor that a format can hold", parameter, model.files().path()));
  throw std::invalid_argument(fmt::format("{}: no tensor of {} matches {}; the first is {}", parameter,
                                          model.files().path(), shown(glob), shown_name(model.tensors()[0].name)));
}

NameGlobs::NameGlobs(const Config& config, std::string_view parameter, const ModelTensors& model) {
  if (config.text(parameter).empty()) return;
  globs_ = name_list(config.text(parameter), ',', parameter);
  for (const std::string& glob : globs_) {
    const auto is_one = [&](const std::string& name) { return matches(glob, name); };
    if (std::ranges::none_of(model.tensors(), is_one, &ModelTensor::name) &&
        std::ranges::none_of(model.others(), [&](const StoredTensor* t) { return is_one(t->name); }))
      refuse_unmatched(parameter, glob, model);
  }
}

std::optional<double> beyond_fp32(const ModelTensor& tensor, std::uint64_t first, std::uint64_t count) {
  if (!tensor.is_wide()) return {};
  constexpr std::uint64_t at_once = std::uint64_t{1} << 16;
  std::vector<double> wide;
  for (const std::uint64_t end = first + count; first < end; first += wide.size()) {
    wide.resize(std::min(at_once, end - first));
    tensor.read(first, std::span(wide));
    for (const double x : wide)
      if (const auto narrow = static_cast<float>(x); (std::isinf(narrow) && !std::isinf(x)) || (narrow == 0 && x != 0))
        return x;
  }
  return {};
}

bool NameGlobs::match(std::string_view name) const {
  return std::ranges::any_of(globs_, [&](const std::string& glob) { return matches(glob, name); });
}

void TimedProgress::advance(double share) {
  const double all = [&] {
    const std::lock_guard alone(adding_);
    return done_ += share;
  }();
  const std::unique_lock<std::mutex> alone(showing_, std::try_to_lock);
  if (!alone) return;
  const double done = std::min(1.0, all);
  if (run_.note && done > 0.02) {
    const std::chrono::duration<double> since = std::chrono::steady_clock::now() - start_;
    const double left = since.count() * (1 - done) / done;
    run_.note(left < 90 ? fmt::format("{:.0f} s left", left) : fmt::format("{:.0f} min left", left / 60));
  }
  run_.progress(done);
}

void report_layouts(Run& run, const std::vector<const StorageLayout*>& layouts) {
  Table& table = run.report.table("layouts", "How code words and scales are stored",
                                  {{"layout", "", "Who stores weights so, and in which of their formats."},
                                   {"tensors", "tensor", "How many are."},
                                   {"citation", "", "Where the layout is defined."}});
  std::vector<std::pair<const StorageLayout*, std::uint64_t>> counts;
  for (const StorageLayout* const layout : layouts) {
    const auto found = std::ranges::find(counts, layout, &std::pair<const StorageLayout*, std::uint64_t>::first);
    if (found == counts.end()) counts.emplace_back(layout, 1);
    else ++found->second;
  }
  for (const auto& [layout, count] : counts) table.row({layout->name, count, layout->citation});
}

}  // namespace halfulp::checkpoint
