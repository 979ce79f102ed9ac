// What a device answered to the recording suite, and the two files that keep it.
//
//   manifest.json   JSON: which device, when, by what; the sections in the order of their answers
//   answers.bin     "halfulpR", then little-endian: u32 format version, u32 suite version, u64 bytes of this file, u64
//   XXH3-64
//                   of manifest.json; the answers of section after section, each 1, 2, 4 or 8 bytes wide, and behind
//                   the answers of a section with operands of its own these, column by column; u64 XXH3-64 of all
//                   before it
//
// Operands of the other sections are not in the file: the suite makes them, and the manifest has their digest.
#pragma once

#include <halfulp/evidence/suite.hpp>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace halfulp::recording {

inline constexpr int format_version = 1;
inline constexpr const char* manifest_file = "manifest.json";
inline constexpr const char* answers_file = "answers.bin";

/// Who answered. Text that is not known is "unknown"; `driver` is a GPU's driver or a CPU's microcode.
struct Origin {
  std::string backend, device, driver, toolkit, system, program, date;
  bool operator==(const Origin&) const = default;
};

struct TaskSection {
  std::string source;        ///< of the suite
  Task task;                 ///< canonical, but with the device's NaN rule
  std::string route;         ///< the instructions that answered
  bool approximate = false;  ///< which need not be correctly rounded
  OperandColumns operands;
  std::vector<std::uint64_t> answers;
};

struct MatrixSection {
  std::string source;
  std::string unit;         ///< as devices are named, without the backend: "x86.avx512.bf16.fp32"
  std::string description;  ///< the device's own
  MatrixShape shape;
  MatrixCases cases;
  std::vector<std::uint64_t> answers;
};

/// What was not here to be asked.
struct Missing {
  std::string what, reason;
  bool operator==(const Missing&) const = default;
};

struct Recording {
  Origin origin;
  std::vector<Missing> missing;
  std::vector<TaskSection> tasks;
  std::vector<MatrixSection> matrices;
  /// Answers of all sections together.
  std::size_t answers() const;
};

/// Both files as they are written.
struct Files {
  std::string manifest, answers;
};
Files to_files(const Recording& recording);

/// The recording in a folder. Throws std::invalid_argument with one line that says what is wrong in which file: not
/// there, truncated, corrupted, of another format or suite version, a member of the manifest missing or wrong.
Recording read_recording(const std::filesystem::path& folder);

// manifest.json and the sections it describes.

/// Where a section's answers lie in answers.bin, and how wide operands and answers are.
struct SectionPlace {
  std::uint64_t offset = 0, count = 0;
  int answer_bytes = 0, operand_bytes = 0;
  int columns = 0;  ///< of operands that lie behind the answers
  std::uint64_t bytes() const { return count * static_cast<std::uint64_t>(answer_bytes + columns * operand_bytes); }
  std::string operands_digest, answers_digest;  ///< 32 hexadecimal digits (verify/digest.hpp), of 64-bit words
};

/// A recording without answers and operands, and where they lie: tasks first, then matrices.
struct Manifest {
  Recording recording;
  std::vector<SectionPlace> places;
  std::uint64_t answer_file_bytes = 0;
};

std::string manifest_text(Manifest manifest);
/// Throws std::invalid_argument with one line: "manifest.json: sections[3]: 'count' is missing; accepted: a whole
/// number".
Manifest parse_manifest(const std::string& text);

/// Bytes of the answers to a task, and of code words of a type.
int answer_bytes(const Task& task);
int bytes_of(const NumberType& type);
int word_bytes(const FloatFormat& f);

// Making one.

/// Operands for a source that makes none itself; the recording keeps them.
struct Asked {
  std::string source;
  Task task;
  OperandColumns operands;
};

/// What the device answers to the suite and to `asked`, as far as it supports the tasks; sections in the order of the
/// suite. `progress` is called with [0, 1] and may throw. Fills in only the device in the origin. Precondition:
/// device.available().yes.
Recording record(const Device& device, const std::vector<Asked>& asked, const std::function<void(double)>& progress);

// A recording as a device: what a device answered once, where it was asked the same.

/// Answers by operands. Its device lives as long as it does, and may be used by several threads.
class Replay {
 public:
  /// `name` as behind "recorded:" on the command line.
  Replay(std::string name, Recording recording);
  ~Replay();
  const Recording& recording() const { return recording_; }
  /// All that the device was asked of a task, each case once, in the order of its code words.
  OperandColumns operands(const Task& task) const;
  /// "recorded:NAME", independence "recorded". It has no answer to operands that were not recorded (Device::answered).
  const Device& device() const;

 private:
  class Answers;
  Recording recording_;
  std::unique_ptr<Answers> device_;
};

inline constexpr std::string_view prefix = "recorded:";

/// Names of the recordings that came with the program: those of its source tree, else those installed beside it.
std::vector<std::string> recording_names();
/// The recording of that name, or in the folder of that path (one with a slash, or one that is none of those names).
/// Read once, then kept. Throws std::invalid_argument with one line: no such recording, or what is wrong in its files.
const Replay& find_recording(const std::string& name);

}  // namespace halfulp::recording
