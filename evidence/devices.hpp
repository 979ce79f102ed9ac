// All devices by name, and their matrix instructions.
#pragma once

#include <halfulp/hardware/device.hpp>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp {

/// Every device this build knows, the emulation first. They may be missing here: ask available().
std::span<const Device* const> devices();

/// What a device is for: which names the message about an unknown one lists.
enum class DeviceUse { experiment, check, record };
/// The device of that name; "recorded:NAME" is a recording (recording.hpp), and "rehearsal" is known as well. Throws
/// std::invalid_argument naming the nearest ones, or saying what is wrong with the recording.
const Device& find_device(std::string_view name, DeviceUse use = DeviceUse::experiment);

/// Matrix instructions of a device.
struct MatrixTasks {
  std::shared_ptr<const Device> device;
  std::vector<MatrixTask> tasks;  ///< those that do not run here included
  std::string reason;             ///< why there are none; empty where there are
};

/// emulated:UNIT is the model of a unit of the table; x86, cuda, rehearsal and recorded:NAME are devices, and with
/// :UNIT behind it one of their instructions. Throws std::invalid_argument in one line for other names, naming the
/// nearest ones.
MatrixTasks find_matrix_tasks(std::string_view name);

/// "x86:x86.avx512.bf16.fp32", the name that find_matrix_tasks reads.
std::string matrix_name(const Device& device, const MatrixTask& task);

}  // namespace halfulp
