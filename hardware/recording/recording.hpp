// What a device answered to the suite, and the two files that keep it.
//
//   manifest.json   JSON: which device, when, by what; the sections in the order of their answers
//   answers.bin     "halfulpR", then little-endian: u32 format version, u32 suite version, u64 bytes of this file, u64 XXH3-64
//                   of manifest.json; the answers of section after section, each 1, 2, 4 or 8 bytes wide, and behind the
//                   answers of a section with operands of its own these, column by column; u64 XXH3-64 of all before it
//
// Operands of the other sections are not in the file: the suite makes them, and the manifest has their digest.
#pragma once

#include <halfulp/hardware/recording/suite.hpp>

#include <filesystem>
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
  std::string source;  ///< of the suite
  Task task;           ///< canonical, but with the device's NaN rule
  std::string route;   ///< the instructions that answered
  bool approximate = false;  ///< which need not be correctly rounded
  Columns operands;
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

/// The recording in a folder. Throws std::invalid_argument with one line that says what is wrong in which file: not there,
/// truncated, corrupted, of another format or suite version, a member of the manifest missing or wrong.
Recording read_recording(const std::filesystem::path& folder);

}  // namespace halfulp::recording
