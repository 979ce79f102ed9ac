#include <halfulp/experiments/checkpoint/names.hpp>

#include <halfulp/report/config.hpp>

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <stdexcept>
#include <utility>

namespace halfulp::checkpoint {
namespace {

/// In this order: an attention's norm is a norm, a head of attention no head of the model.
constexpr std::array<std::pair<std::string_view, std::string_view>, 34> usual{{
    {"norm", "*norm*"},
    {"norm", "*ln_[0-9f]*"},
    {"norm", "*ln[0-9].*"},
    {"norm", "*.bn[0-9]*"},
    {"norm", "bn[0-9]*"},
    {"embedding", "*embed*"},
    {"embedding", "*wte*"},
    {"embedding", "*wpe*"},
    {"embedding", "*tok_emb*"},
    {"embedding", "*pos_emb*"},
    {"head", "*lm_head*"},
    {"head", "*score.weight"},
    {"head", "*classifier*"},
    {"head", "head.*"},
    {"head", "output.weight"},
    {"head", "fc.*"},
    {"attention", "*attn*"},
    {"attention", "*attention*"},
    {"attention", "*[qkvo]_proj*"},
    {"attention", "*qkv*"},
    {"attention", "*.w[qkvo].*"},
    {"mlp", "*mlp*"},
    {"mlp", "*expert*"},
    {"mlp", "*ffn*"},
    {"mlp", "*feed_forward*"},
    {"mlp", "*gate_proj*"},
    {"mlp", "*up_proj*"},
    {"mlp", "*down_proj*"},
    {"mlp", "*intermediate*"},
    {"mlp", "*.fc[0-9].*"},
    {"mlp", "*.w[123].*"},
    {"mlp", "*.linear[12].*"},
    {"convolution", "*conv*"},
    {"convolution", "*downsample*"},
}};

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

}  // namespace

bool matches(const std::string& glob, std::string_view name) {
  return ::fnmatch(glob.c_str(), std::string(name).c_str(), 0) == 0;
}

std::vector<RolePattern> parse_roles(const std::string& text) {
  std::vector<RolePattern> patterns;
  if (text.empty()) return patterns;
  for (const std::string& word : name_list(text, ';', "roles")) {
    const std::size_t equals = word.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == word.size())
      throw std::invalid_argument(
          fmt::format("roles: '{}'; accepted: ROLE=GLOB, separated by ';', such as attention=*attn*", word));
    patterns.push_back({word.substr(0, equals), word.substr(equals + 1)});
  }
  return patterns;
}

std::string role_of(std::string_view tensor, std::size_t axes, const std::vector<RolePattern>& own) {
  for (const RolePattern& pattern : own)
    if (matches(pattern.glob, tensor)) return pattern.role;
  const std::string name = lower(tensor);
  for (const auto& [role, glob] : usual)
    if (matches(std::string(glob), name)) return std::string(role);
  return axes >= 4 ? "convolution" : "other";
}

std::string layer_of(std::string_view tensor) {
  for (std::size_t begin = 0; begin < tensor.size();) {
    const std::size_t end = std::min(tensor.find('.', begin), tensor.size());
    const std::string_view word = tensor.substr(begin, end - begin);
    if (!word.empty() && begin > 0 &&
        std::all_of(word.begin(), word.end(), [](char c) { return std::isdigit(static_cast<unsigned char>(c)); }))
      return std::string(tensor.substr(0, end));
    begin = end + 1;
  }
  return std::string(tensor.substr(0, tensor.rfind('.')));
}

}  // namespace halfulp::checkpoint
