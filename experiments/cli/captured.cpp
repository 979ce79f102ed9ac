#include <halfulp/experiments/cli/captured.hpp>

#include <algorithm>
#include <cassert>

namespace halfulp::cli {
namespace {
Captured* living = nullptr;
}  // namespace

Captured::Captured(std::string_view input) : input_(input) {
  assert(!living);
  living = this;
}

Captured::~Captured() { living = nullptr; }

Captured* Captured::current() { return living; }

std::size_t Captured::read(std::span<char> block) {
  const std::size_t count = input_.copy(block.data(), block.size());
  input_.remove_prefix(count);
  return count;
}

}  // namespace halfulp::cli
