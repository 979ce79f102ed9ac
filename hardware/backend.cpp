#include <halfulp/cuda/backend.hpp>
#include <halfulp/formats/nearest.hpp>
#include <halfulp/hardware/emulated.hpp>
#include <halfulp/hardware/recording/replay.hpp>
#include <halfulp/hardware/x86.hpp>

#include <stdexcept>

namespace halfulp {

std::span<const Backend* const> backends() {
  static const Backend* const all[] = {&emulated_backend(), &x86_backend(), &cuda_backend()};
  return all;
}

const Backend& find_backend(std::string_view name) {
  if (name.substr(0, recording::prefix.size()) == recording::prefix)
    return recording::find_recording(std::string(name.substr(recording::prefix.size()))).backend();
  std::vector<std::string> names;
  for (const Backend* backend : backends()) {
    if (backend->name() == name) return *backend;
    names.emplace_back(backend->name());
  }
  if (name == rehearsal_backend().name()) return rehearsal_backend();
  for (const std::string& recorded : recording::recording_names()) names.push_back(std::string(recording::prefix) + recorded);
  throw std::invalid_argument(unknown_name("backend", name, std::move(names)));
}

}  // namespace halfulp
