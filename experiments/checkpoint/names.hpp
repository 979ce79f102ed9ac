// What the name of a tensor says about its place in a model.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace halfulp::checkpoint {

/// A name of a role, and the names of tensors that have it, as globs: '*' any text, '?' any character, [abc].
struct RolePattern {
  std::string role, glob;
};

/// "attention=*attn*;mlp=*ffn*": the user's patterns, in order. Throws std::invalid_argument in one line that begins
/// with "roles".
std::vector<RolePattern> parse_roles(const std::string& text);

/// The role of a tensor: of the user's patterns the first that matches, else of the usual names (Hugging Face's,
/// Llama's, GPT-2's, BERT's, ViT's, torchvision's, DeepSeek's): "embedding", "head", "norm", "attention", "mlp",
/// "convolution", "other". Case does not matter.
std::string role_of(std::string_view tensor, std::size_t axes, const std::vector<RolePattern>& own);

/// The layer of a tensor: its name up to the first number ("model.layers.17", "h.0"); without one, up to the last point
/// ("model.norm"), or the whole.
std::string layer_of(std::string_view tensor);

/// Whether a glob matches the whole name.
bool matches(const std::string& glob, std::string_view name);

}  // namespace halfulp::checkpoint
