// A text as characters for a language model: licence texts that Debian and Ubuntu ship, or a file of the user's.
#pragma once

#include <halfulp/data/images.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace halfulp {

/// Consecutive characters of a text, of one file.
struct TextRange {
  std::size_t begin = 0, end = 0;
};

class CharacterText {
 public:
  /// `files` are the texts one after the other; of each the last tenth is for validation.
  explicit CharacterText(const std::vector<std::string>& files);

  /// The bytes that occur, ascending; token i is vocabulary()[i].
  const std::string& vocabulary() const { return vocabulary_; }
  const std::vector<std::uint8_t>& tokens() const { return tokens_; }
  const std::vector<TextRange>& training() const { return training_; }
  const std::vector<TextRange>& validation() const { return validation_; }
  /// verify::digest of the bytes as one chunk. Licence texts may differ between releases: a report says which it read.
  const std::string& digest() const { return digest_; }

 private:
  std::string vocabulary_, digest_;
  std::vector<std::uint8_t> tokens_;
  std::vector<TextRange> training_, validation_;
};

/// What a language model must beat: mean of -ln p in nat, over the characters for validation that follow another one.
struct CountedModels {
  double unigram = 0, bigram = 0;  ///< p of a character alone, and after the one before it
};
/// Probabilities are counts in the characters for training, each plus one (Laplace's rule of succession).
/// Precondition: a range for validation with two characters.
CountedModels counted_models(const CharacterText& text);

/// How many windows of context + 1 characters lie within ranges.
std::uint64_t window_count(std::span<const TextRange> ranges, std::size_t context);
/// Where window `index` begins, counted through the ranges. index < window_count.
std::size_t window_start(std::span<const TextRange> ranges, std::size_t context, std::uint64_t index);

/// What a step of training sees: window by window, `inputs` are context characters and `targets` those that follow
/// each, as token numbers; both have batch * context places. Each step draws new windows, which depend only on seed,
/// step and place in the batch.
void draw_windows(const CharacterText& text, std::span<const TextRange> ranges, std::size_t context, std::uint64_t seed,
                  std::uint64_t step, std::span<float> inputs, std::span<int> targets);
/// Window `index`, as one row of them.
void take_window(const CharacterText& text, std::span<const TextRange> ranges, std::size_t context, std::uint64_t index,
                 std::span<float> inputs, std::span<int> targets);

/// Package base-files has them here, in Debian and Ubuntu alike.
inline constexpr const char* licence_folder = "/usr/share/common-licenses";
/// Those whose bytes are the same in Debian 12 (base-files 12.4), Debian 13 (13.8) and Ubuntu 24.04 (13ubuntu10); the
/// others lost or kept a postal address. Only ASCII, 126,643 characters.
inline constexpr const char* licence_files[] = {"Apache-2.0", "CC0-1.0", "GFDL-1.3", "GPL-3",
                                                "LGPL-3",     "MPL-1.1", "MPL-2.0"};
/// The digest of these.
inline constexpr const char* licence_digest = "d94acd08039f43f78413e3beb14acc4e";

/// The file of that path (gzip too), of no path the licence texts; of these, what is not there is NotInstalled. Throws
/// std::invalid_argument in one line: a file that cannot be read, is larger than 64 MiB, holds a NUL byte (where), or
/// has no window of `context` + 1 characters for training or for validation.
std::variant<CharacterText, NotInstalled> load_text(std::size_t context, const std::string& path = {});

}  // namespace halfulp
