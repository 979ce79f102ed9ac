#include <halfulp/experiments/checkpoint/entries.hpp>

#include <halfulp/experiments/checkpoint/names.hpp>
#include <halfulp/report/config.hpp>
#include <halfulp/support/spelling.hpp>
#include <halfulp/support/work.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace halfulp::checkpoint {
namespace {

std::string path_in(const Config& config) {
  std::string path = config.text("checkpoint");
  if (path.empty())
    throw std::invalid_argument(
        "checkpoint: a file is missing; accepted: a .safetensors file, an index of shards, a "
        ".npy file, or a folder of these");
  return path;
}

}  // namespace

std::vector<Parameter> entry_parameters(const std::string& formats) {
  using Type = ParameterType;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  return {
      {"checkpoint", Type::path, "",
       "a .safetensors file, NAME.safetensors.index.json with its shards beside it, a .npy file, or a folder of these"},
      {"formats", Type::text, formats,
       "formats and block formats (halfulp formats lists them), separated by commas; blocks run along rows"},
      {"tensors", Type::text, "*",
       "globs of tensors' names, separated by commas: what none of them matches is left out"},
      {"overflow",
       Type::choice,
       "saturate",
       "what becomes of values beyond a plain format",
       -infinity,
       infinity,
       {"saturate", "ieee"}},
      {"roles", Type::text, "",
       "patterns of names before the usual ones, ROLE=GLOB, separated by ';', such as attention=*attn*;mlp=*ffn*"}};
}

Entries::Entries(const Config& config, Run& run)
    : config_(config), run_(run), model_(path_in(config)), formats_(chosen_formats(config.text("formats"), "formats")) {
  for (const ChosenFormat& f : formats_)
    if (const BlockFormat* const block = f.block(); block && block->whole)
      throw std::invalid_argument(
          fmt::format("formats: {} refuses blocks that a tensor's edge cuts short; accepted: without /whole", f.name));
  const std::vector<RolePattern> roles = parse_roles(config.text("roles"));
  const std::vector<std::string> globs = name_list(config.text("tensors"), ',', "tensors");
  const auto wanted = [&](const std::string& name) {
    return std::any_of(globs.begin(), globs.end(), [&](const std::string& g) { return matches(g, name); });
  };
  require_matches("tensors", globs);
  for (const ModelTensor& tensor : model_.tensors()) {
    if (!wanted(tensor.name)) continue;
    entries_.push_back({{&tensor, {}, {}}, layer_of(tensor.name), role_of(tensor.name, tensor.shape.size(), roles)});
    elements_ += tensor.count;
  }
  for (const StoredTensor* tensor : model_.others())
    if (wanted(tensor->name)) others_.push_back(tensor);
}

void Entries::require_matches(std::string_view parameter, const std::vector<std::string>& globs) const {
  for (const std::string& glob : globs) {
    const auto is_one = [&](const std::string& name) { return matches(glob, name); };
    if (std::none_of(model_.tensors().begin(), model_.tensors().end(), [&](const auto& t) { return is_one(t.name); }) &&
        std::none_of(model_.others().begin(), model_.others().end(), [&](const auto* t) { return is_one(t->name); }))
      throw std::invalid_argument(
          fmt::format("{}: no tensor of {} matches {}; the first is {}", parameter, model_.files().path(), shown(glob),
                      model_.tensors().empty() ? "none" : shown_name(model_.tensors()[0].name)));
  }
}

bool Entries::are_whole() const {
  return entries_.size() == model_.tensors().size() && others_.size() == model_.others().size();
}

void Entries::look(double outliers) {
  const Overflow overflow = config_.text("overflow") == "ieee" ? Overflow::ieee : Overflow::saturate;
  (void)parallel_map(entries_.size(), [&](std::size_t i) {
    Survey& s = entries_[i].survey;
    s = survey(*s.tensor, formats_, overflow, outliers, [&](std::uint64_t elements) { advance(elements); });
    return 0;
  });
  model_.files().check_unchanged();
}

/// Every element is looked at twice. Called from any thread.
void Entries::advance(std::uint64_t elements) {
  const std::uint64_t done = done_.fetch_add(elements) + elements;
  const std::unique_lock<std::mutex> alone(progress_, std::try_to_lock);
  if (!alone || elements_ == 0) return;
  const double share = std::min(1.0, static_cast<double>(done) / (2 * static_cast<double>(elements_)));
  if (run_.note && share > 0.02) {
    const std::chrono::duration<double> since = std::chrono::steady_clock::now() - start_;
    const double left = since.count() * (1 - share) / share;
    run_.note(left < 90 ? fmt::format("{:.0f} s left", left) : fmt::format("{:.0f} min left", left / 60));
  }
  run_.progress(share);
}

}  // namespace halfulp::checkpoint
