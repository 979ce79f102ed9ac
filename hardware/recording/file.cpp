// answers.bin, and both files together.
#include <halfulp/hardware/recording/manifest.hpp>

#include <halfulp/hardware/framed_file.hpp>
#include <halfulp/hardware/verify/digest.hpp>

#include <array>
#include <bit>
#include <cstring>
#include <fstream>
#include <stdexcept>

namespace halfulp::recording {
namespace {

static_assert(std::endian::native == std::endian::little, "recordings are little-endian");

using Words = std::vector<std::uint64_t>;

constexpr FramedFormat answers_format{"halfulpR", format_version, "the answers of a recording", 8};
constexpr std::size_t header_bytes = frame_header_bytes + 8, trailer_bytes = frame_trailer_bytes;  // the digest of the manifest as well
constexpr std::uintmax_t most_bytes = std::uintmax_t{1} << 30;

std::uint64_t hash(std::string_view bytes) { return verify::chunk_digest(std::as_bytes(std::span(bytes))); }

/// The digest of columns of words: verify::digest with a column for a chunk.
std::string digest(std::initializer_list<const Words*> columns) {
  Words chunks;
  for (const Words* column : columns)
    if (!column->empty()) chunks.push_back(verify::chunk_digest(std::as_bytes(std::span(*column))));
  return verify::digest(chunks);
}
std::string operands_digest(const Columns& x) { return digest({&x.a, &x.b, &x.c}); }
std::string operands_digest(const MatrixCases& x) { return digest({&x.a, &x.b, &x.c, &x.scale_a, &x.scale_b}); }

template <class T>
void append(std::string& bytes, T value, std::size_t width = sizeof(T)) {
  bytes.append(reinterpret_cast<const char*>(&value), width);
}
void append_words(std::string& bytes, const Words& words, int width) {
  for (const std::uint64_t word : words) append(bytes, word, static_cast<std::size_t>(width));
}

std::uint64_t word_at(std::string_view bytes, std::size_t at, std::size_t width = 8) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes.data() + at, width);
  return word;
}

std::vector<const Words*> columns_of(const Columns& x) {
  std::vector<const Words*> columns{&x.a};
  for (const Words* column : {&x.b, &x.c})
    if (!column->empty()) columns.push_back(column);
  return columns;
}

std::string read_file(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) throw std::invalid_argument(name + " is not there");
  if (std::filesystem::file_size(path, error) > most_bytes) throw std::invalid_argument(name + " is larger than 1 GiB; no recording is");
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in || in.bad()) throw std::invalid_argument(name + " cannot be read");
  return text;
}

/// Whether the file is whole and undamaged, by itself.
void check_answers(std::string_view bytes) {
  try {
    unframed(answers_format, bytes);
  } catch (const std::invalid_argument& problem) {
    throw std::invalid_argument(answers_file + (": " + std::string(problem.what())));
  }
}

/// Reads words of a section one column after the other.
class Reader {
 public:
  Reader(std::string_view bytes, const Place& place) : bytes_(bytes), at_(place.offset), count_(place.count) {}
  Words column(int width) {
    Words words(count_);
    for (std::uint64_t& word : words) {
      word = word_at(bytes_, at_, static_cast<std::size_t>(width));
      at_ += static_cast<std::size_t>(width);
    }
    return words;
  }

 private:
  std::string_view bytes_;
  std::size_t at_, count_;
};

void check_section(const std::string& what, const Place& place, std::size_t operands, const std::string& operands_digest, const Words& answers) {
  if (operands != place.count || operands_digest != place.operands_digest)
    throw std::invalid_argument(manifest_file + (": " + what) + ": the operands are not those of suite version " + std::to_string(suite_version));
  if (digest({&answers}) != place.answers_digest) throw std::invalid_argument(manifest_file + (": " + what) + ": the answers are not those of answers.bin");
}

void fill(Manifest& manifest, std::string_view bytes) {
  std::uint64_t expected = header_bytes;
  for (const Place& place : manifest.places) {
    if (place.offset != expected || place.bytes() > bytes.size() - trailer_bytes - expected)
      throw std::invalid_argument(manifest_file + (": sections[" + std::to_string(&place - manifest.places.data()) + "]") + ": 'offset' or 'count' does not fit answers.bin");
    expected += place.bytes();
  }
  if (expected + trailer_bytes != bytes.size()) throw std::invalid_argument(std::string(manifest_file) + ": 'sections' do not fill answers.bin");
  std::size_t i = 0;
  for (TaskSection& section : manifest.recording.tasks) {
    const Place& place = manifest.places[i++];
    Reader reader(bytes, place);
    section.answers = reader.column(place.answer_bytes);
    const TaskSource& source = *find_task_source(section.source);
    if (source.operands) {
      section.operands = source.operands(canonical(section.task));
    } else {
      for (int column = 0; column < place.columns; ++column) (column == 0 ? section.operands.a : column == 1 ? section.operands.b : section.operands.c) = reader.column(place.operand_bytes);
    }
    check_section(section.source + ", " + section.task.description(), place, section.operands.size(), operands_digest(section.operands), section.answers);
  }
  for (MatrixSection& section : manifest.recording.matrices) {
    const Place& place = manifest.places[i++];
    section.answers = Reader(bytes, place).column(place.answer_bytes);
    const std::size_t depth = section.cases.k;
    section.cases = find_matrix_source(section.source)->cases(section.shape);
    check_section(section.source + ", " + section.unit, place, depth == section.cases.k ? section.cases.size() : 0, operands_digest(section.cases), section.answers);
  }
}

}  // namespace

std::size_t Recording::answers() const {
  std::size_t count = 0;
  for (const TaskSection& section : tasks) count += section.answers.size();
  for (const MatrixSection& section : matrices) count += section.answers.size();
  return count;
}

Files to_files(const Recording& recording) {
  Manifest manifest;
  manifest.recording = recording;
  std::string payload;
  const auto place = [&](const Words& answers, int width) -> Place& {
    Place& p = manifest.places.emplace_back();
    p.offset = header_bytes + payload.size();
    p.count = answers.size();
    p.answer_bytes = width;
    p.answers_digest = digest({&answers});
    append_words(payload, answers, width);
    return p;
  };
  for (const TaskSection& section : recording.tasks) {
    place(section.answers, answer_bytes(section.task)).operands_digest = operands_digest(section.operands);
    if (!find_task_source(section.source)->operands)
      for (const Words* column : columns_of(section.operands)) append_words(payload, *column, bytes_of(section.task.from));
  }
  for (const MatrixSection& section : recording.matrices) place(section.answers, word_bytes(section.shape.accumulator)).operands_digest = operands_digest(section.cases);
  manifest.answer_file_bytes = header_bytes + payload.size() + trailer_bytes;

  Files files;
  files.manifest = manifest_text(manifest);
  std::string content;
  append(content, hash(files.manifest));
  files.answers = framed(answers_format, suite_version, content + payload);
  return files;
}

Recording read_recording(const std::filesystem::path& folder) {
  try {
    std::error_code error;
    if (!std::filesystem::is_directory(folder, error)) throw std::invalid_argument("is no folder; accepted: a folder that halfulp record made");
    const std::string text = read_file(folder / manifest_file);
    Manifest manifest = parse_manifest(text);
    const std::string bytes = read_file(folder / answers_file);
    check_answers(bytes);
    if (manifest.answer_file_bytes != bytes.size())
      throw std::invalid_argument(std::string(manifest_file) + ": 'answer_file_bytes' is " + std::to_string(manifest.answer_file_bytes) + ", not the size of answers.bin, " + std::to_string(bytes.size()));
    fill(manifest, bytes);
    if (word_at(bytes, 24) != hash(text)) throw std::invalid_argument(std::string(manifest_file) + ": was changed after the recording: its checksum is not the one in answers.bin");
    return std::move(manifest.recording);
  } catch (const std::invalid_argument& problem) {
    throw std::invalid_argument("recording '" + folder.string() + "': " + problem.what());
  }
}

}  // namespace halfulp::recording
