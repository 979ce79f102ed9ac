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
std::vector<Parameter> entry_parameters(const std::string& formats) {
  using Type = ParameterType;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  return {checkpoint_parameter(),
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
    : config_(config),
      model_(checkpoint_path(config)),
      progress_(run),
      formats_(chosen_formats(config.text("formats"), "formats")) {
  for (const ChosenFormat& f : formats_)
    if (const BlockFormat* const block = f.block(); block && block->whole)
      throw std::invalid_argument(
          fmt::format("formats: {} refuses blocks that a tensor's edge cuts short; accepted: without /whole", f.name));
  const std::vector<RolePattern> roles = parse_roles(config.text("roles"));
  for (const RolePattern& pattern : roles)  // a role may have globs for several families of models
    if (std::ranges::none_of(roles, [&](const RolePattern& p) {
          return p.role == pattern.role &&
                 std::ranges::any_of(model_.tensors(), [&](const ModelTensor& t) { return matches(p.glob, t.name); });
        }))
      refuse_unmatched("roles", pattern.glob, model_);
  const NameGlobs wanted(config, "tensors", model_);
  for (const ModelTensor& tensor : model_.tensors()) {
    if (!wanted.match(tensor.name)) continue;
    Entry& entry = entries_.emplace_back();
    entry.survey.tensor = &tensor;
    entry.layer = layer_of(tensor.name), entry.role = role_of(tensor.name, tensor.shape.size(), roles);
    elements_ += tensor.count;
  }
  for (const StoredTensor* tensor : model_.others())
    if (wanted.match(tensor->name)) others_.push_back(tensor);
}

bool Entries::are_whole() const {
  return entries_.size() == model_.tensors().size() && others_.size() == model_.others().size();
}

void Entries::look(double outliers) {
  const Overflow overflow = config_.text("overflow") == "ieee" ? Overflow::ieee : Overflow::saturate;
  const double twice = 2 * static_cast<double>(std::max<std::uint64_t>(1, elements_));  // as every element is read
  (void)parallel_map(entries_.size(), [&](std::size_t i) {
    Survey& s = entries_[i].survey;
    s = survey(*s.tensor, formats_, overflow, outliers,
               [&](std::uint64_t elements) { progress_.advance(static_cast<double>(elements) / twice); });
    return 0;
  });
  model_.files().check_unchanged();
}

}  // namespace halfulp::checkpoint
