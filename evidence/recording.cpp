// answers.bin, and both files together.
#include <halfulp/evidence/recording.hpp>

#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/files.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/support/spelling.hpp>

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

void check_section(const std::string& what, const Place& place, std::size_t operands,
                   const std::string& operands_digest, const Words& answers) {
  if (operands != place.count || operands_digest != place.operands_digest)
    throw std::invalid_argument(manifest_file + (": " + what) + ": the operands are not those of suite version " +
                                std::to_string(suite_version));
  if (digest({&answers}) != place.answers_digest)
    throw std::invalid_argument(manifest_file + (": " + what) + ": the answers are not those of answers.bin");
}

void fill(Manifest& manifest, std::string_view bytes) {
  std::uint64_t expected = header_bytes;
  for (const Place& place : manifest.places) {
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
    const Place& place = manifest.places[i++];
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
    const Place& place = manifest.places[i++];
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
      for (const Words* column : columns_of(section.operands))
        append_words(payload, *column, bytes_of(section.task.from));
  }
  for (const MatrixSection& section : recording.matrices)
    place(section.answers, word_bytes(section.shape.accumulator)).operands_digest = operands_digest(section.cases);
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

namespace {

constexpr const char* kind = "halfulp recording";

// --- writing
// ----------------------------------------------------------------------------------------------------------

Json to_json(const Place& place) {
  Json json;
  json["count"] = place.count;
  json["width"] = place.answer_bytes;
  json["offset"] = place.offset;
  json["operands"] = place.operands_digest;
  json["answers"] = place.answers_digest;
  return json;
}

Json to_json(const TaskSection& section, const Place& place) {
  const Rounding& r = section.task.rounding;
  constexpr Rounding plain;
  Json json;
  json["source"] = section.source;
  json["operation"] = info(section.task.operation).name;
  json["from"] = number_type_name(section.task.from);
  json["to"] = number_type_name(section.task.to);
  json["round"] = name_of(r.mode);
  // What is not there is at its default: most of it is, in a thousand sections.
  if (r.overflow != plain.overflow) json["overflow"] = name_of(r.overflow);
  if (r.flush_inputs) json["flush_inputs"] = true;
  if (r.flush_outputs) json["flush_outputs"] = true;
  if (r.tininess != plain.tininess) json["tininess"] = name_in(tininess_rules, r.tininess);
  if (r.int_overflow != plain.int_overflow) json["int_overflow"] = name_in(int_overflow_rules, r.int_overflow);
  json["nan"] = name_of(r.nan);
  json["route"] = section.route;
  if (section.approximate) json["approximate"] = true;
  json.update(to_json(place));
  return json;
}

Json to_json(const MatrixSection& section, const Place& place) {
  const MatrixShape& s = section.shape;
  Json json;
  json["source"] = section.source;
  json["unit"] = section.unit;
  json["description"] = section.description;
  json["a"] = format_name(s.a);
  json["b"] = format_name(s.b);
  json["accumulator"] = format_name(s.accumulator);
  json["k"] = s.k;
  json["scale"] = s.scale_block ? Json(format_name(s.scale)) : Json();
  json["scale_block"] = s.scale_block;
  json["depth"] = section.cases.k;
  json.update(to_json(place));
  return json;
}

// --- reading
// ----------------------------------------------------------------------------------------------------------

Origin origin_of(Members& m) {
  return {m.text("backend"), m.text("device"),  m.text("driver"), m.text("toolkit"),
          m.text("system"),  m.text("halfulp"), m.text("date")};
}

std::uint64_t number(Members& m, const char* name, std::int64_t most = std::int64_t{1} << 48) {
  return static_cast<std::uint64_t>(m[name].integer(0, most));
}

std::string digest_of(Members& m, const char* name) {
  return m[name].parsed([](const std::string& text) {
    if (text.size() != 32 || text.find_first_not_of("0123456789abcdef") != std::string::npos)
      throw std::invalid_argument("no digest; accepted: 32 hexadecimal digits");
    return text;
  });
}

void read_place(Members& m, Place& place) {
  place.count = number(m, "count", std::int64_t{1} << 32);
  if (number(m, "width") != static_cast<std::uint64_t>(place.answer_bytes))
    m.fail("'width' is not the width of these answers; accepted: " + std::to_string(place.answer_bytes));
  place.offset = number(m, "offset");
  place.operands_digest = digest_of(m, "operands");
  place.answers_digest = digest_of(m, "answers");
}

template <class Source>
std::string source_of(Members& m, std::span<const Source> sources) {
  const std::string source = m.text("source");
  std::string names;
  for (const Source& one : sources) {
    if (one.name == source) return source;
    names += (names.empty() ? "" : ", ") + std::string(one.name);
  }
  m.fail("'source' is '" + shown(source) + "', which this program's suite does not have; accepted: " + names);
}

void read_task(Members& m, Manifest& manifest) {
  TaskSection section;
  section.source = source_of(m, task_sources());
  Task& task = section.task;
  task.operation = m["operation"].parsed([](const std::string& s) { return parse_operation(s); });
  task.from = m["from"].parsed([](const std::string& s) { return parse_number_type(s); });
  task.to = m["to"].parsed([](const std::string& s) { return parse_number_type(s); });
  task.rounding.mode = m["round"].named(rounding_modes);
  constexpr Rounding plain;
  task.rounding.overflow = m.choice("overflow", overflow_rules, plain.overflow);
  task.rounding.flush_inputs = m.boolean("flush_inputs", false);
  task.rounding.flush_outputs = m.boolean("flush_outputs", false);
  task.rounding.tininess = m.choice("tininess", tininess_rules, plain.tininess);
  task.rounding.int_overflow = m.choice("int_overflow", int_overflow_rules, plain.int_overflow);
  task.rounding.nan = m["nan"].named(nan_rules);
  if (const std::string why = refusal(task); !why.empty()) m.fail(why);
  if (task.operation != Operation::convert && task.from != task.to)
    m.fail("'to' is not 'from', and only conversions have two types");
  section.route = m.text("route");
  section.approximate = m.boolean("approximate", false);
  Place place;
  place.answer_bytes = answer_bytes(task);
  place.operand_bytes = bytes_of(task.from);
  if (!find_task_source(section.source)->operands) place.columns = info(task.operation).arity;
  read_place(m, place);
  manifest.recording.tasks.push_back(std::move(section));
  manifest.places.push_back(std::move(place));
}

void read_matrix(Members& m, Manifest& manifest) {
  const auto format = [&](const char* name) {
    return m[name].parsed([](const std::string& s) { return parse_format(s); });
  };
  MatrixSection section;
  section.source = source_of(m, matrix_sources());
  section.unit = m.text("unit");
  section.description = m.text("description");
  MatrixShape& s = section.shape;
  s.a = format("a");
  s.b = format("b");
  s.accumulator = format("accumulator");
  s.k = static_cast<int>(number(m, "k", 1024));
  s.scale_block = static_cast<int>(number(m, "scale_block", 1024));
  if (s.scale_block) s.scale = format("scale");
  section.cases.k = number(m, "depth", 1 << 20);
  if (s.k == 0 || section.cases.k == 0) m.fail("'k' or 'depth' is 0; accepted: a positive number");
  Place place;
  place.answer_bytes = word_bytes(s.accumulator);
  read_place(m, place);
  manifest.recording.matrices.push_back(std::move(section));
  manifest.places.push_back(std::move(place));
}

Manifest read_manifest(const Json& json) {
  Members m(json, "");
  if (const std::string given = m.text("kind"); given != kind)
    m.fail("'kind' is '" + shown(given) + "'; accepted: " + kind);
  const std::uint64_t version = number(m, "version"), suite = number(m, "suite");
  if (version != format_version)
    m.fail("format version " + std::to_string(version) +
           (version > format_version ? ", written by a newer halfulp" : "") +
           "; accepted: " + std::to_string(format_version));
  if (suite != suite_version)
    m.fail("answers to suite version " + std::to_string(suite) +
           ", whose operands this program does not make; accepted: " + std::to_string(suite_version));
  Manifest manifest;
  manifest.recording.origin = origin_of(m);
  manifest.answer_file_bytes = number(m, "answer_file_bytes");
  const Json &missing = m["missing"].list(), &sections = m["sections"].list();
  for (std::size_t i = 0; i < missing.size(); ++i) {
    Members one(missing[i], "missing[" + std::to_string(i) + "]");
    manifest.recording.missing.push_back({one.text("what"), one.text("reason")});
  }
  for (std::size_t i = 0; i < sections.size(); ++i) {
    Members one(sections[i], "sections[" + std::to_string(i) + "]");
    if (sections[i].contains("unit")) {
      read_matrix(one, manifest);
    } else if (manifest.recording.matrices.empty()) {
      read_task(one, manifest);
    } else {
      one.fail("a task behind matrix sections; accepted: tasks first");
    }
  }
  return manifest;
}

}  // namespace

int bytes_of(const NumberType& type) {
  const int bits = storage_bits(type);
  return bits <= 8 ? 1 : bits <= 16 ? 2 : bits <= 32 ? 4 : 8;
}
int answer_bytes(const Task& task) { return info(task.operation).result == ResultKind::truth ? 1 : bytes_of(task.to); }
int word_bytes(const FloatFormat& f) { return (word_bits(f) + 7) / 8; }

std::string manifest_text(const Manifest& manifest) {
  const Recording& recording = manifest.recording;
  Json json;
  json["kind"] = kind;
  json["version"] = format_version;
  json["suite"] = suite_version;
  const Origin& origin = recording.origin;
  json["backend"] = origin.backend;
  json["device"] = origin.device;
  json["driver"] = origin.driver;
  json["toolkit"] = origin.toolkit;
  json["system"] = origin.system;
  json["halfulp"] = origin.program;
  json["date"] = origin.date;
  json["answer_file_bytes"] = manifest.answer_file_bytes;
  std::string text = json.dump(1);
  text.resize(text.size() - 2);  // the last line follows below
  // One line each: that is what people look for and versions differ in.
  const auto list = [&](const char* name, const std::vector<Json>& lines) {
    text += ",\n \"" + std::string(name) + "\": [";
    for (std::size_t i = 0; i < lines.size(); ++i) text += (i ? ",\n  " : "\n  ") + lines[i].dump();
    text += lines.empty() ? "]" : "\n ]";
  };
  std::vector<Json> missing, sections;
  for (const Missing& m : recording.missing) missing.push_back(Json{{"what", m.what}, {"reason", m.reason}});
  for (const TaskSection& section : recording.tasks)
    sections.push_back(to_json(section, manifest.places[sections.size()]));
  for (const MatrixSection& section : recording.matrices)
    sections.push_back(to_json(section, manifest.places[sections.size()]));
  list("missing", missing);
  list("sections", sections);
  return text + "\n}\n";
}

Manifest parse_manifest(const std::string& text) {
  const Json json = parse_json(text, manifest_file);
  try {
    return read_manifest(json);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(std::string(manifest_file) + ": " + error.what());
  }
}

}  // namespace halfulp::recording
