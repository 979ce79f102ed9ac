#include <halfulp/cuda/backend.hpp>
#include <halfulp/formats/nearest.hpp>
#include <halfulp/hardware/emulated.hpp>
#include <halfulp/hardware/x86.hpp>

#include <stdexcept>

namespace halfulp {

std::span<const Backend* const> backends() {
  static const Backend* const all[] = {&emulated_backend(), &x86_backend(), &cuda_backend()};
  return all;
}

const Backend& find_backend(std::string_view name) {
  std::vector<std::string> names;
  for (const Backend* backend : backends()) {
    if (backend->name() == name) return *backend;
    names.emplace_back(backend->name());
  }
  throw std::invalid_argument(unknown_name("backend", name, std::move(names)));
}

}  // namespace halfulp
