// manifest.json and the sections it describes.
#pragma once

#include <halfulp/hardware/recording/recording.hpp>

namespace halfulp::recording {

/// Where a section's answers lie in answers.bin, and how wide operands and answers are.
struct Place {
  std::uint64_t offset = 0, count = 0;
  int answer_bytes = 0, operand_bytes = 0;
  int columns = 0;  ///< of operands that lie behind the answers
  std::uint64_t bytes() const { return count * static_cast<std::uint64_t>(answer_bytes + columns * operand_bytes); }
  std::string operands_digest, answers_digest;  ///< 32 hexadecimal digits (verify/digest.hpp), of 64-bit words
};

/// A recording without answers and operands, and where they lie: tasks first, then matrices.
struct Manifest {
  Recording recording;
  std::vector<Place> places;
  std::uint64_t answer_file_bytes = 0;
};

std::string manifest_text(const Manifest& manifest);
/// Throws std::invalid_argument with one line: "manifest.json: sections[3]: 'count' is missing; accepted: a whole number".
Manifest parse_manifest(const std::string& text);

/// Bytes of the answers to a task, and of code words of a type.
int answer_bytes(const Task& task);
int bytes_of(const NumberType& type);
int word_bytes(const FloatFormat& f);

}  // namespace halfulp::recording
