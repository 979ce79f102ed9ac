// A recording as a backend and as matrix devices: what a device answered once, where it was asked the same.
#pragma once

#include <halfulp/hardware/recording/recording.hpp>

#include <memory>

namespace halfulp::recording {

/// Answers by operands. Its backend and devices live as long as it does, and may be used by several threads.
class Replay {
 public:
  /// `name` as behind "recorded:" on the command line.
  Replay(std::string name, Recording recording);
  ~Replay();
  const Recording& recording() const { return recording_; }
  /// "recorded:NAME", independence "recorded". Operands that were not recorded are not answered (Backend::answered).
  const Backend& backend() const;
  /// "recorded:NAME:x86.avx512.bf16.fp32", one a unit.
  std::span<const MatrixDevice* const> matrix_devices() const;

 private:
  class Answers;
  class Device;
  Recording recording_;
  std::unique_ptr<Answers> backend_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<const MatrixDevice*> views_;
};

inline constexpr std::string_view prefix = "recorded:";

/// Names of the recordings that came with the program: those of its source tree, else those installed beside it.
std::vector<std::string> recording_names();
/// The recording of that name, or in the folder of that path (with a slash, or none of those names). Read once, then kept.
/// Throws std::invalid_argument with one line: no such recording, or what is wrong in its files.
const Replay& find_recording(const std::string& name);

}  // namespace halfulp::recording
