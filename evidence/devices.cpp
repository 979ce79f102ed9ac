#include <halfulp/evidence/devices.hpp>

#include <halfulp/cuda/gpu_device.hpp>
#include <halfulp/evidence/recording.hpp>
#include <halfulp/hardware/x86/x86.hpp>
#include <halfulp/support/spelling.hpp>

#include <array>
#include <stdexcept>

namespace halfulp {

std::span<const Device* const> devices() {
  static const Device* const all[] = {&emulated_device(), &x86_device(), &cuda_device()};
  return all;
}

namespace {

/// What people call a device by its kind.
constexpr auto kinds = std::to_array<Synonym>({{"gpu", "cuda"},
                                               {"nvidia", "cuda"},
                                               {"cpu", "x86"},
                                               {"intel", "x86"},
                                               {"native", "x86"},
                                               {"emulation", "emulated"}});

}  // namespace

const Device& find_device(std::string_view name, DeviceUse use) {
  if (name.starts_with(recording::prefix))
    return recording::find_recording(std::string(name.substr(recording::prefix.size()))).device();
  std::vector<std::string> names;
  for (const Device* device : devices()) {
    if (device->name() == name) return *device;
    if (use == DeviceUse::experiment || device != &emulated_device()) names.emplace_back(device->name());
  }
  if (name == rehearsal_device().name()) return rehearsal_device();
  if (use != DeviceUse::experiment) names.emplace_back(rehearsal_device().name());
  if (use != DeviceUse::record)
    for (const std::string& recorded : recording::recording_names())
      names.push_back(std::string(recording::prefix) + recorded);
  throw std::invalid_argument(unknown_name("backend", name, names, names.size(), name_for(kinds, name)));
}

std::string matrix_name(const Device& device, const MatrixTask& task) {
  return std::string(device.name()) + ":" + task.unit;
}

MatrixTasks find_matrix_tasks(std::string_view name) {
  constexpr std::string_view emulated = "emulated:";
  if (name.starts_with(emulated)) {
    std::shared_ptr<const Device> model = emulated_device_with(find_unit(name.substr(emulated.size())));
    return {model, model->matrix_tasks(), ""};
  }
  // DEVICE:UNIT, and for a recording recorded:NAME:UNIT.
  const bool recorded = name.starts_with(recording::prefix);
  const std::size_t colon = name.find(':', recorded ? recording::prefix.size() : 0);
  const std::string_view device_name = name.substr(0, colon);
  if (!recorded && device_name != "x86" && device_name != "cuda" && device_name != "rehearsal")
    throw std::invalid_argument(unknown_name("backend", device_name,
                                             {"x86", "cuda", "rehearsal", "emulated:UNIT", "recorded:NAME"}, 5,
                                             name_for(kinds, device_name)));
  // It lives as long as the program.
  const std::shared_ptr<const Device> device(std::shared_ptr<const Device>(), &find_device(device_name));
  MatrixTasks found{device, device->matrix_tasks(), ""};
  if (found.tasks.empty()) found.reason = "the recording has no matrix instructions";
  if (colon == std::string_view::npos || found.tasks.empty()) return found;
  std::vector<std::string> names;
  for (const MatrixTask& task : found.tasks) {
    names.push_back(matrix_name(*device, task));
    if (names.back() == name) return {device, {task}, ""};
  }
  throw std::invalid_argument(unknown_name("matrix device", name, std::move(names)));
}

}  // namespace halfulp
