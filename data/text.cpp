#include <halfulp/data/text.hpp>

#include <halfulp/data/distributions.hpp>
#include <halfulp/data/elementary.hpp>
#include <halfulp/data/images.hpp>
#include <halfulp/support/files.hpp>
#include <halfulp/support/work.hpp>

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <stdexcept>

namespace halfulp {
namespace {

constexpr std::size_t most_text_bytes = std::size_t{64} << 20;
constexpr std::uint64_t window_stream = 0x7465'7874'7769'6e64;  // "textwind"

std::string read_characters(const std::string& path) {
  UnpackingReader reader(open_input(path, "a text file"), path);
  std::string text;
  std::vector<char> piece(std::size_t{1} << 20);
  while (const std::size_t count = reader.read(piece)) {
    stop_if_interrupted();
    text.append(piece.data(), count);
    if (text.size() > most_text_bytes)
      throw std::invalid_argument(path + ": larger than 64 MiB; accepted: a text of at most that");
  }
  if (const auto nul = text.find('\0'); nul != text.npos)
    throw std::invalid_argument(fmt::format("{}: a NUL byte at byte {}; accepted: a text", path, nul));
  return text;
}

}  // namespace

CharacterText::CharacterText(const std::vector<std::string>& files) {
  std::string all;
  for (const std::string& file : files) {
    const std::size_t begin = all.size(), split = begin + file.size() - file.size() / 10;
    all += file;
    training_.push_back({begin, split});
    validation_.push_back({split, all.size()});
  }
  std::array<int, 256> token{};
  for (const char c : all) token[static_cast<unsigned char>(c)] = 1;
  for (int c = 0; c < 256; ++c)
    if (token[static_cast<std::size_t>(c)]) {
      token[static_cast<std::size_t>(c)] = static_cast<int>(vocabulary_.size());
      vocabulary_ += static_cast<char>(c);
    }
  tokens_.reserve(all.size());
  for (const char c : all) tokens_.push_back(static_cast<std::uint8_t>(token[static_cast<unsigned char>(c)]));
  digest_ = verify::digest(std::array{verify::chunk_digest(std::as_bytes(std::span(all)))});
}

CountedModels counted_models(const CharacterText& text) {
  const std::size_t letters = text.vocabulary().size();
  std::vector<std::uint64_t> alone(letters, 1), before(letters, letters), pairs(letters * letters, 1);
  std::uint64_t all = letters;
  const std::vector<std::uint8_t>& tokens = text.tokens();
  for (const TextRange& range : text.training())
    for (std::size_t i = range.begin; i < range.end; ++i) {
      ++alone[tokens[i]], ++all;
      if (i > range.begin) ++before[tokens[i - 1]], ++pairs[tokens[i - 1] * letters + tokens[i]];
    }
  const auto surprise = [](std::uint64_t part, std::uint64_t whole) {
    return -deterministic_log(static_cast<double>(part) / static_cast<double>(whole));
  };
  CountedModels models;
  std::uint64_t count = 0;
  for (const TextRange& range : text.validation())
    for (std::size_t i = range.begin + 1; i < range.end; ++i, ++count) {
      models.unigram += surprise(alone[tokens[i]], all);
      models.bigram += surprise(pairs[tokens[i - 1] * letters + tokens[i]], before[tokens[i - 1]]);
    }
  models.unigram /= static_cast<double>(count), models.bigram /= static_cast<double>(count);
  return models;
}

std::uint64_t window_count(std::span<const TextRange> ranges, std::size_t context) {
  std::uint64_t count = 0;
  for (const TextRange& range : ranges)
    if (range.end - range.begin > context) count += range.end - range.begin - context;
  return count;
}

std::size_t window_start(std::span<const TextRange> ranges, std::size_t context, std::uint64_t index) {
  for (const TextRange& range : ranges) {
    const std::size_t count = range.end - range.begin > context ? range.end - range.begin - context : 0;
    if (index < count) return range.begin + index;
    index -= count;
  }
  throw std::logic_error("no window of that index");
}

void take_window(const CharacterText& text, std::span<const TextRange> ranges, std::size_t context, std::uint64_t index,
                 std::span<float> inputs, std::span<int> targets) {
  const std::uint8_t* const from = text.tokens().data() + window_start(ranges, context, index);
  for (std::size_t i = 0; i < context; ++i) {
    inputs[i] = from[i];
    targets[i] = from[i + 1];
  }
}

void draw_windows(const CharacterText& text, std::span<const TextRange> ranges, std::size_t context, std::uint64_t seed,
                  std::uint64_t step, std::span<float> inputs, std::span<int> targets) {
  const std::uint64_t windows = window_count(ranges, context);
  const std::size_t batch = context ? inputs.size() / context : 0;
  for (std::size_t i = 0; i < batch; ++i)
    take_window(text, ranges, context, random_below(windows, seed, window_stream + i, step),
                inputs.subspan(i * context, context), targets.subspan(i * context, context));
}

std::variant<CharacterText, NotInstalled> load_text(std::size_t context, const std::string& path) {
  std::vector<std::string> files;
  if (!path.empty()) files.push_back(read_characters(path));
  for (const char* name : licence_files) {
    if (!path.empty()) break;
    const std::string file = (std::filesystem::path(licence_folder) / name).string();
    std::error_code error;
    if (!std::filesystem::exists(file, error))
      return NotInstalled{fmt::format(
          "no {}, which Debian 12, Debian 13 and Ubuntu 24.04 have (package base-files): name a text file of your own",
          file)};
    files.push_back(read_characters(file));
  }
  CharacterText text(files);
  for (const auto* ranges : {&text.training(), &text.validation()})
    if (window_count(*ranges, context) == 0)
      throw std::invalid_argument(
          fmt::format("{}: a text of {} characters; accepted: at least {}, for {} and one more in the last tenth, "
                      "which is for validation",
                      path.empty() ? licence_folder : path, text.tokens().size(), 10 * (context + 1), context));
  return text;
}

}  // namespace halfulp
