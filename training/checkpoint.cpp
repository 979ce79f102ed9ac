#include <halfulp/training/checkpoint.hpp>

#include <halfulp/support/files.hpp>
#include <halfulp/report/config.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <type_traits>

namespace halfulp::training {
namespace {

constexpr FramedFormat format{"halfulpC", 1, "a checkpoint of a training", 8};
constexpr std::size_t most_bytes = std::size_t{4} << 30, piece = std::size_t{1} << 22;

template <class T>
constexpr const char* type_name = std::is_same_v<T, float> ? "float32" : "float64";

const CheckpointArray* find(const std::vector<CheckpointArray>& arrays, std::string_view name) {
  const auto at = std::find_if(arrays.begin(), arrays.end(),
                               [&](const CheckpointArray& array) { return array.name == name; });
  return at == arrays.end() ? nullptr : &*at;
}

/// The first place where two differ, in the order of ours: "policy.weights is "fp16", here "bf16"".
std::optional<std::string> difference(const Json& theirs, const Json& ours, const std::string& path = {}) {
  if (theirs == ours) return std::nullopt;
  const auto below = [&](const std::string& member) { return path.empty() ? member : path + "." + member; };
  if (theirs.is_object() && ours.is_object()) {
    for (const auto& [member, value] : ours.items()) {
      if (!theirs.contains(member)) return fmt::format("{} is not in it", below(member));
      if (auto found = difference(theirs[member], value, below(member))) return found;
    }
    for (const auto& [member, value] : theirs.items())
      if (!ours.contains(member)) return fmt::format("{} is in it", below(member));
    return std::nullopt;  // the same members in another order
  }
  if (theirs.is_array() && ours.is_array()) {
    if (theirs.size() != ours.size())
      return fmt::format("{} has {} elements, here {}", path, theirs.size(), ours.size());
    for (std::size_t i = 0; i < ours.size(); ++i)
      if (auto found = difference(theirs[i], ours[i], fmt::format("{}[{}]", path, i))) return found;
    return std::nullopt;
  }
  return fmt::format("{} is {}, here {}", path.empty() ? "identity" : path, shown_value(theirs), shown_value(ours));
}

/// Reads the content of a frame from its front.
class Reader {
 public:
  explicit Reader(std::string_view content) : left_(content) {}
  std::string_view take(std::uint64_t count) {
    if (count > left_.size()) throw std::invalid_argument("its lengths do not fit its size");
    const std::string_view bytes = left_.substr(0, count);
    left_.remove_prefix(count);
    return bytes;
  }
  template <class T>
  std::vector<T> array(std::uint64_t count) {
    if (count > left_.size() / sizeof(T)) throw std::invalid_argument("its lengths do not fit its size");
    std::vector<T> values(count);
    const std::string_view bytes = take(count * sizeof(T));
    if (count > 0) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  bool at_end() const { return left_.empty(); }

 private:
  std::string_view left_;
};

const Json& member(const Json& object, const char* name) {
  if (!object.is_object() || !object.contains(name))
    throw std::invalid_argument(fmt::format("its description has no '{}'", name));
  return object[name];
}

std::string read_bytes(const std::string& path) {
  const auto stream = open_input(path, std::string(format.kind));
  std::string bytes;
  for (;;) {
    const std::size_t before = bytes.size();
    bytes.resize(before + piece);
    stream->read(bytes.data() + before, static_cast<std::streamsize>(piece));
    bytes.resize(before + static_cast<std::size_t>(stream->gcount()));
    if (bytes.size() < before + piece) return bytes;
    if (bytes.size() > most_bytes) throw std::invalid_argument(path + ": larger than 4 GiB; no checkpoint is");
  }
}

}  // namespace

template <class T>
void Checkpoint::add_values(std::string name, std::span<const T> values) {
  if (find(arrays_, name)) throw std::logic_error("checkpoint: an array '" + name + "' is there");
  arrays_.push_back({std::move(name), std::vector<T>(values.begin(), values.end())});
}

template <class T>
void Checkpoint::take_values(std::string_view name, std::span<T> values) const {
  const auto refuse = [&](const std::string& why) {
    throw std::invalid_argument(
        fmt::format("{}: array '{}' {}; accepted: {} numbers of {}", source_, name, why, values.size(), type_name<T>));
  };
  const CheckpointArray* const array = find(arrays_, name);
  if (!array) return refuse("is missing");
  const auto* const kept = std::get_if<std::vector<T>>(&array->values);
  if (!kept) return refuse("is of another type");
  if (kept->size() != values.size()) return refuse(fmt::format("has {} numbers", kept->size()));
  if (!kept->empty()) std::memcpy(values.data(), kept->data(), kept->size() * sizeof(T));
}

void Checkpoint::add(std::string name, std::span<const float> values) { add_values(std::move(name), values); }
void Checkpoint::add(std::string name, std::span<const double> values) { add_values(std::move(name), values); }
void Checkpoint::take(std::string_view name, std::span<float> values) const { take_values(name, values); }
void Checkpoint::take(std::string_view name, std::span<double> values) const { take_values(name, values); }

std::string Checkpoint::bytes() const {
  Json description{{"identity", identity}, {"state", state}, {"arrays", Json::array()}};
  std::string data;
  for (const CheckpointArray& array : arrays_)
    std::visit(
        [&]<class T>(const std::vector<T>& values) {
          description["arrays"].push_back({{"name", array.name}, {"type", type_name<T>}, {"count", values.size()}});
          data.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
        },
        array.values);
  const std::string text = description.dump();
  const std::uint64_t length = text.size();
  return framed(format, 0, std::string(reinterpret_cast<const char*>(&length), sizeof length) + text + data);
}

Checkpoint Checkpoint::from_bytes(std::string_view file, const std::string& name) {
  try {
    Reader reader(unframed(format, file));
    std::uint64_t length = 0;
    std::memcpy(&length, reader.take(sizeof length).data(), sizeof length);
    const Json description = parse_json(std::string(reader.take(length)), "its description");
    Checkpoint checkpoint;
    checkpoint.source_ = name;
    checkpoint.identity = member(description, "identity");
    checkpoint.state = member(description, "state");
    const Json& arrays = member(description, "arrays");
    if (!arrays.is_array()) throw std::invalid_argument("its 'arrays' are no list");
    for (const Json& array : arrays) {
      const Json &id = member(array, "name"), &type = member(array, "type"), &count = member(array, "count");
      if (!id.is_string() || !count.is_number_unsigned() || (type != "float32" && type != "float64"))
        throw std::invalid_argument(
            fmt::format("its arrays[{}] is not described by a name, a type (float32, float64) and a count",
                        checkpoint.arrays_.size()));
      if (find(checkpoint.arrays_, id.get_ref<const std::string&>()))
        throw std::invalid_argument(fmt::format("its arrays[{}] has the name of another", checkpoint.arrays_.size()));
      CheckpointArray& kept = checkpoint.arrays_.emplace_back();
      kept.name = id.get<std::string>();
      if (type == "float32") kept.values = reader.array<float>(count.get<std::uint64_t>());
      else kept.values = reader.array<double>(count.get<std::uint64_t>());
    }
    if (!reader.at_end()) throw std::invalid_argument("its lengths do not fit its size");
    return checkpoint;
  } catch (const std::invalid_argument& problem) { throw std::invalid_argument(name + ": " + problem.what()); }
}

void write_checkpoint(const std::string& path, const Checkpoint& checkpoint) { write_file(path, checkpoint.bytes()); }

Checkpoint read_checkpoint(const std::string& path, const Json& identity) {
  Checkpoint checkpoint = Checkpoint::from_bytes(read_bytes(path), path);
  if (const auto differs = difference(checkpoint.identity, identity))
    throw std::invalid_argument(fmt::format(
        "{}: a checkpoint of another run: {}; accepted: one of this run, or no file, to start anew", path, *differs));
  return checkpoint;
}

}  // namespace halfulp::training
