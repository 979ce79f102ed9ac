// answers.bin, and both files together.
#include <halfulp/evidence/recording.hpp>

#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/files.hpp>
#include <halfulp/support/input_file.hpp>
#include <halfulp/support/record.hpp>
#include <halfulp/support/spelling.hpp>

#include <array>
#include <bit>
#include <cstring>
#include <stdexcept>

namespace halfulp::recording {
namespace {

static_assert(std::endian::native == std::endian::little, "recordings are little-endian");

using Words = std::vector<std::uint64_t>;

constexpr FramedFormat answers_format{"halfulpR", format_version, "the answers of a recording", 8};
constexpr std::size_t header_bytes = frame_header_bytes + 8,
                      trailer_bytes = frame_trailer_bytes;  // the digest of the manifest as well
constexpr std::uintmax_t most_bytes = std::uintmax_t{1} << 30;

std::uint64_t hash(std::string_view bytes) { return verify::chunk_digest(std::as_bytes(std::span(bytes))); }

/// The digest of columns of words: verify::digest with a column for a chunk.
std::string digest(std::initializer_list<const Words*> columns) {
  Words chunks;
  for (const Words* column : columns)
    if (!column->empty()) chunks.push_back(verify::chunk_digest(std::as_bytes(std::span(*column))));
  return verify::digest(chunks);
}
std::string operands_digest(const OperandColumns& x) { return digest({&x.a, &x.b, &x.c}); }
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

std::vector<const Words*> columns_of(const OperandColumns& x) {
  std::vector<const Words*> columns{&x.a};
  for (const Words* column : {&x.b, &x.c})
    if (!column->empty()) columns.push_back(column);
  return columns;
}

std::string read_file(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) throw std::invalid_argument(name + " is not there");
  if (std::filesystem::file_size(path, error) > most_bytes)
    throw std::invalid_argument(name + " is larger than 1 GiB; no recording is");
  try {
    const InputFile file(path.string(), "a file of a recording");
    return file.text(0, file.size());
  } catch (const std::invalid_argument&) { throw std::invalid_argument(name + " cannot be read"); }
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
  Reader(std::string_view bytes, const SectionPlace& place) : bytes_(bytes), at_(place.offset), count_(place.count) {}
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

void check_section(const std::string& what, const SectionPlace& place, std::size_t operands,
                   const std::string& operands_digest, const Words& answers) {
  if (operands != place.count || operands_digest != place.operands_digest)
    throw std::invalid_argument(manifest_file + (": " + what) + ": the operands are not those of suite version " +
                                std::to_string(suite_version));
  if (digest({&answers}) != place.answers_digest)
    throw std::invalid_argument(manifest_file + (": " + what) + ": the answers are not those of answers.bin");
}

void fill(Manifest& manifest, std::string_view bytes) {
  std::uint64_t expected = header_bytes;
  for (const SectionPlace& place : manifest.places) {
    if (place.offset != expected || place.bytes() > bytes.size() - trailer_bytes - expected)
      throw std::invalid_argument(manifest_file +
                                  (": sections[" + std::to_string(&place - manifest.places.data()) + "]") +
                                  ": 'offset' or 'count' does not fit answers.bin");
    expected += place.bytes();
  }
  if (expected + trailer_bytes != bytes.size())
    throw std::invalid_argument(std::string(manifest_file) + ": 'sections' do not fill answers.bin");
  std::size_t i = 0;
  for (TaskSection& section : manifest.recording.tasks) {
    const SectionPlace& place = manifest.places[i++];
    Reader reader(bytes, place);
    section.answers = reader.column(place.answer_bytes);
    const TaskSource& source = *find_task_source(section.source);
    if (source.operands) {
      section.operands = source.operands(canonical(section.task));
    } else {
      for (int column = 0; column < place.columns; ++column)
        (column == 0   ? section.operands.a
         : column == 1 ? section.operands.b
                       : section.operands.c) = reader.column(place.operand_bytes);
    }
    check_section(section.source + ", " + section.task.description(), place, section.operands.size(),
                  operands_digest(section.operands), section.answers);
  }
  for (MatrixSection& section : manifest.recording.matrices) {
    const SectionPlace& place = manifest.places[i++];
    section.answers = Reader(bytes, place).column(place.answer_bytes);
    const std::size_t depth = section.cases.k;
    section.cases = find_matrix_source(section.source)->cases(section.shape);
    check_section(section.source + ", " + section.unit, place, depth == section.cases.k ? section.cases.size() : 0,
                  operands_digest(section.cases), section.answers);
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
  const auto place = [&](const Words& answers, int width) -> SectionPlace& {
    SectionPlace& p = manifest.places.emplace_back();
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
      for (const Words* column : columns_of(section.operands))
        append_words(payload, *column, bytes_of(section.task.from));
  }
  for (const MatrixSection& section : recording.matrices)
    place(section.answers, word_bytes(section.shape.accumulator)).operands_digest = operands_digest(section.cases);
  manifest.answer_file_bytes = header_bytes + payload.size() + trailer_bytes;

  Files files;
  files.manifest = manifest_text(std::move(manifest));
  std::string content;
  append(content, hash(files.manifest));
  files.answers = framed(answers_format, suite_version, content + payload);
  return files;
}

Recording read_recording(const std::filesystem::path& folder) {
  try {
    std::error_code error;
    if (!std::filesystem::is_directory(folder, error))
      throw std::invalid_argument("is no folder; accepted: a folder that halfulp record made");
    const std::string text = read_file(folder / manifest_file);
    Manifest manifest = parse_manifest(text);
    const std::string bytes = read_file(folder / answers_file);
    check_answers(bytes);
    if (manifest.answer_file_bytes != bytes.size())
      throw std::invalid_argument(std::string(manifest_file) + ": 'answer_file_bytes' is " +
                                  std::to_string(manifest.answer_file_bytes) + ", not the size of answers.bin, " +
                                  std::to_string(bytes.size()));
    fill(manifest, bytes);
    if (word_at(bytes, 24) != hash(text))
      throw std::invalid_argument(std::string(manifest_file) +
                                  ": was changed after the recording: its checksum is not the one in answers.bin");
    return std::move(manifest.recording);
  } catch (const std::invalid_argument& problem) {
    throw std::invalid_argument("recording '" + folder.string() + "': " + problem.what());
  }
}

template <class V>
void fields(V& v, Missing& m) {
  v("what", m.what);
  v("reason", m.reason);
}

namespace {

constexpr const char* kind = "halfulp recording";
constexpr Whole any_place = whole(0, std::int64_t{1} << 48), any_count = whole(0, std::int64_t{1} << 32);

[[noreturn]] void fail(const std::string& what) { throw std::invalid_argument(what); }

void read_kind(const JsonValue& json, std::string& text) {
  text = json.text();
  if (text != kind) fail("'kind' is '" + shown(text) + "'; accepted: " + kind);
}

void read_version(const JsonValue& json, int& version) {
  const std::int64_t given = json.integer(0, any_place.most);
  if (given != format_version)
    fail("format version " + std::to_string(given) + (given > format_version ? ", written by a newer halfulp" : "") +
         "; accepted: " + std::to_string(format_version));
  version = format_version;
}

void read_suite(const JsonValue& json, int& suite) {
  const std::int64_t given = json.integer(0, any_place.most);
  if (given != suite_version)
    fail("answers to suite version " + std::to_string(given) +
         ", whose operands this program does not make; accepted: " + std::to_string(suite_version));
  suite = suite_version;
}

std::string digest_from(const std::string& text) {
  if (text.size() != 32 || text.find_first_not_of("0123456789abcdef") != std::string::npos)
    fail("no digest; accepted: 32 hexadecimal digits");
  return text;
}

template <class V>
void fields(V& v, SectionPlace& p) {
  const auto digest = spelled(digest_from, [](const std::string& text) { return text; }, "32 hexadecimal digits");
  v("count", p.count, any_count);
  v("width", p.answer_bytes, whole(0, 1 << 20));
  v("offset", p.offset, any_place);
  v("operands", p.operands_digest, digest);
  v("answers", p.answers_digest, digest);
}

/// A section with its place, which are one object.
struct PlacedTask {
  TaskSection& section;
  SectionPlace& place;
};
struct PlacedMatrix {
  MatrixSection& section;
  SectionPlace& place;
};

template <class V>
void fields(V& v, PlacedTask& x) {
  const auto type = spelled([](const std::string& name) { return parse_number_type(name); },
                            [](const NumberType& t) { return number_type_name(t); }, "a type's name");
  const auto operation = spelled([](const std::string& name) { return parse_operation(name); },
                                 [](Operation o) { return info(o).name; }, "an operation's name");
  Task& task = x.section.task;
  Rounding& r = task.rounding;
  constexpr Rounding plain;
  v("source", x.section.source);
  v("operation", task.operation, operation);
  v("from", task.from, type);
  v("to", task.to, type);
  v("round", r.mode, named_in(rounding_modes));
  // Most of these have their defaults in a thousand sections, and are then left out.
  v("overflow", r.overflow, chosen_from(overflow_rules), unless(r.overflow, plain.overflow));
  v("flush_inputs", r.flush_inputs, unless(r.flush_inputs, false));
  v("flush_outputs", r.flush_outputs, unless(r.flush_outputs, false));
  v("tininess", r.tininess, chosen_from(tininess_rules), unless(r.tininess, plain.tininess));
  v("int_overflow", r.int_overflow, chosen_from(int_overflow_rules), unless(r.int_overflow, plain.int_overflow));
  v("nan", r.nan, named_in(nan_rules));
  v("route", x.section.route);
  v("approximate", x.section.approximate, unless(x.section.approximate, false));
  fields(v, x.place);
}

template <class V>
void fields(V& v, PlacedMatrix& x) {
  constexpr auto format = spelled([](const std::string& name) { return parse_format(name); },
                                  [](const FloatFormat& f) { return format_name(f); }, "a format's name");
  MatrixShape& s = x.section.shape;
  // Units without scales have null there.
  const auto scale = by(
      [&](const JsonValue& json, FloatFormat& f) {
        if (!json.json().is_null()) format.read(json, f);
      },
      [&](const FloatFormat& f) { return s.scale_block ? Json(format_name(f)) : Json(); }, "a format's name, or null");
  v("source", x.section.source);
  v("unit", x.section.unit);
  v("description", x.section.description);
  v("a", s.a, format);
  v("b", s.b, format);
  v("accumulator", s.accumulator, format);
  v("k", s.k, whole(1, 1024));
  v("scale", s.scale, scale, optional);
  v("scale_block", s.scale_block, whole(0, 1024));
  v("depth", x.section.cases.k, whole(1, 1 << 20));
  fields(v, x.place);
}

template <class Source>
void check_source(const std::string& source, std::span<const Source> sources, const std::string& where) {
  std::string names;
  for (const Source& one : sources) {
    if (one.name == source) return;
    names += (names.empty() ? "" : ", ") + std::string(one.name);
  }
  fail(where + ": 'source' is '" + shown(source) + "', which this program's suite does not have; accepted: " + names);
}

void check_width(const SectionPlace& place, int width, const std::string& where) {
  if (place.answer_bytes != width)
    fail(where + ": 'width' is not the width of these answers; accepted: " + std::to_string(width));
}

void read_task(const JsonValue& json, Manifest& manifest) {
  TaskSection& section = manifest.recording.tasks.emplace_back();
  SectionPlace& place = manifest.places.emplace_back();
  PlacedTask both{section, place};
  read_record(json.json(), json.where(), both);
  const Task& task = section.task;
  check_source(section.source, task_sources(), json.where());
  if (const std::string why = refusal(task); !why.empty()) fail(json.where() + ": " + why);
  if (task.operation != Operation::convert && task.from != task.to)
    fail(json.where() + ": 'to' is not 'from', and only conversions have two types");
  check_width(place, answer_bytes(task), json.where());
  place.operand_bytes = bytes_of(task.from);
  if (!find_task_source(section.source)->operands) place.columns = info(task.operation).arity;
}

void read_matrix(const JsonValue& json, Manifest& manifest) {
  MatrixSection& section = manifest.recording.matrices.emplace_back();
  SectionPlace& place = manifest.places.emplace_back();
  PlacedMatrix both{section, place};
  read_record(json.json(), json.where(), both);
  check_source(section.source, matrix_sources(), json.where());
  const MatrixShape& s = section.shape;
  if (s.scale_block && s.scale == FloatFormat{}) fail(json.where() + ".scale is null; accepted: a format's name");
  check_width(place, word_bytes(s.accumulator), json.where());
}

void read_sections(const JsonValue& json, Manifest& manifest) {
  const Json& sections = json.list();
  for (std::size_t i = 0; i < sections.size(); ++i) {
    const JsonValue one(sections[i], json.where() + "[" + std::to_string(i) + "]");
    if (!one.json().is_object()) one.refuse("an object");
    if (one.json().contains("unit")) read_matrix(one, manifest);
    else if (manifest.recording.matrices.empty()) read_task(one, manifest);
    else fail(one.where() + ": a task behind matrix sections; accepted: tasks first");
  }
}

/// The whole manifest, with what it says of itself.
struct Document {
  Manifest& manifest;
  std::string says = kind;
  int version = format_version, suite = suite_version;
};

template <class V>
void fields(V& v, Document& x) {
  constexpr Needed in_lines{.written = false};  // manifest_text writes these lists
  Origin& o = x.manifest.recording.origin;
  v("kind", x.says, by(read_kind, [](const std::string& s) { return Json(s); }, kind));
  v("version", x.version, by(read_version, [](int n) { return Json(n); }, std::to_string(format_version)));
  v("suite", x.suite, by(read_suite, [](int n) { return Json(n); }, std::to_string(suite_version)));
  v("backend", o.backend);
  v("device", o.device);
  v("driver", o.driver);
  v("toolkit", o.toolkit);
  v("system", o.system);
  v("halfulp", o.program);
  v("date", o.date);
  v("answer_file_bytes", x.manifest.answer_file_bytes, any_place);
  v("missing", x.manifest.recording.missing, in_lines);
  v("sections", x.manifest, by(read_sections, "a list of sections"), in_lines);
}

}  // namespace

int bytes_of(const NumberType& type) {
  const int bits = storage_bits(type);
  return bits <= 8 ? 1 : bits <= 16 ? 2 : bits <= 32 ? 4 : 8;
}
int answer_bytes(const Task& task) { return info(task.operation).result == ResultKind::truth ? 1 : bytes_of(task.to); }
int word_bytes(const FloatFormat& f) { return (word_bits(f) + 7) / 8; }

std::string manifest_text(Manifest manifest) {
  std::string text = record_json(Document{manifest}).dump(1);
  text.resize(text.size() - 2);  // the last line follows below
  // One line each: people look for sections, and versions differ in them.
  const auto list = [&](const char* name, const std::vector<Json>& lines) {
    text += ",\n \"" + std::string(name) + "\": [";
    for (std::size_t i = 0; i < lines.size(); ++i) text += (i ? ",\n  " : "\n  ") + lines[i].dump();
    text += lines.empty() ? "]" : "\n ]";
  };
  std::vector<Json> missing, sections;
  Recording& recording = manifest.recording;
  for (const Missing& m : recording.missing) missing.push_back(record_json(m));
  for (TaskSection& section : recording.tasks)
    sections.push_back(record_json(PlacedTask{section, manifest.places[sections.size()]}));
  for (MatrixSection& section : recording.matrices)
    sections.push_back(record_json(PlacedMatrix{section, manifest.places[sections.size()]}));
  list("missing", missing);
  list("sections", sections);
  return text + "\n}\n";
}

Manifest parse_manifest(const std::string& text) {
  const Json json = parse_json(text, manifest_file);
  try {
    Manifest manifest;
    Document document{manifest};
    read_record(json, "", document);
    return manifest;
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(std::string(manifest_file) + ": " + error.what());
  }
}

}  // namespace halfulp::recording
