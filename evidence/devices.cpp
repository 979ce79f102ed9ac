#include <halfulp/evidence/devices.hpp>

#include <halfulp/cuda/backend.hpp>
#include <halfulp/cuda/matrix_devices.hpp>
#include <halfulp/evidence/recording.hpp>
#include <halfulp/hardware/emulated.hpp>
#include <halfulp/hardware/x86/x86.hpp>
#include <halfulp/support/spelling.hpp>

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
  for (const std::string& recorded : recording::recording_names())
    names.push_back(std::string(recording::prefix) + recorded);
  throw std::invalid_argument(unknown_name("backend", name, std::move(names)));
}

namespace {

/// What lives as long as the program does.
MatrixDevices all_of(std::span<const MatrixDevice* const> devices, std::string reason) {
  MatrixDevices found;
  for (const MatrixDevice* device : devices) found.devices.emplace_back(std::shared_ptr<const MatrixDevice>(), device);
  if (found.devices.empty()) found.reason = std::move(reason);
  return found;
}

/// The devices of a GPU that is there for good.
struct GpuDevices {
  explicit GpuDevices(const cuda::Gpu& gpu) : owned(cuda::cuda_matrix_devices(gpu)) {
    for (const auto& device : owned) all.push_back(device.get());
  }
  std::vector<std::unique_ptr<const MatrixDevice>> owned;
  std::vector<const MatrixDevice*> all;
};

}  // namespace

MatrixDevices matrix_devices_of(std::string_view backend) {
  if (backend == "x86") return all_of(native_matrix_devices(backend), "this build has no matrix instructions of a CPU");
  if (backend == "cuda" || backend == "rehearsal")
    return all_of(native_matrix_devices(backend), "no matrix instructions of a GPU");
  if (backend.substr(0, recording::prefix.size()) == recording::prefix)
    return all_of(recording::find_recording(std::string(backend.substr(recording::prefix.size()))).matrix_devices(),
                  "the recording has no matrix instructions");
  throw std::invalid_argument(
      unknown_name("backend", backend, {"x86", "cuda", "rehearsal", "emulated:UNIT", "recorded:NAME"}));
}

std::span<const MatrixDevice* const> native_matrix_devices(std::string_view backend) {
  if (backend == "x86") return x86_matrix_devices();
  if (backend == "cuda") {
    static const GpuDevices cuda(cuda::native_gpu());
    return cuda.all;
  }
  if (backend == "rehearsal") {
    static const GpuDevices rehearsal(cuda::rehearsal_gpu());
    return rehearsal.all;
  }
  return {};
}

MatrixDevices find_matrix_devices(std::string_view name) {
  constexpr std::string_view emulated = "emulated:";
  if (name.substr(0, emulated.size()) == emulated)
    return {{emulated_matrix_device(find_unit(name.substr(emulated.size())))}, ""};
  // BACKEND:UNIT, and of a recording recorded:NAME:UNIT.
  const std::size_t begin = name.substr(0, recording::prefix.size()) == recording::prefix ? recording::prefix.size()
                                                                                          : 0;
  const std::size_t colon = name.find(':', begin);
  MatrixDevices found = matrix_devices_of(name.substr(0, colon));
  if (colon == std::string_view::npos || found.devices.empty()) return found;
  std::vector<std::string> names;
  for (const auto& device : found.devices) {
    if (device->name() == name) return {{device}, ""};
    names.push_back(device->name());
  }
  throw std::invalid_argument(unknown_name("matrix device", name, std::move(names)));
}

}  // namespace halfulp
