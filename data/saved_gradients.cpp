#include <halfulp/data/saved_gradients.hpp>

#include <halfulp/data/npy.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/support/files.hpp>
#include <halfulp/support/spelling.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <stdexcept>

namespace halfulp {
namespace {

namespace fs = std::filesystem;

constexpr const char* listing = "gradients.json";
constexpr std::int64_t version = 1;
constexpr std::int64_t most_steps = std::int64_t{1} << 53;  ///< what JSON readers hold as doubles
constexpr std::int64_t longest_extent = std::int64_t{1} << 53;

/// Names become files' names; a listing must not lead out of its folder.
bool names_a_file(std::string_view name) {
  const auto in = [](char c, char from, char to) { return c >= from && c <= to; };
  const auto fits = [&](char c) {
    return in(c, 'a', 'z') || in(c, 'A', 'Z') || in(c, '0', '9') || c == '_' || c == '-' || c == '.';
  };
  return !name.empty() && name.size() <= 200 && name.front() != '.' && std::all_of(name.begin(), name.end(), fits);
}

std::string folder_of(std::uint64_t step) { return fmt::format("step-{:06}", step); }

std::string path_of(const fs::path& folder, std::uint64_t step, const std::string& name) {
  return folder / folder_of(step) / (name + ".npy");
}

std::vector<std::uint64_t> shape_from(const Json& json, const Members& members) {
  if (!json.is_array()) members.refuse("shape", json, "an array of extents");
  std::vector<std::uint64_t> shape;
  for (const Json& extent : json) {
    if (!extent.is_number_integer() || extent.get<double>() < 0 ||
        extent.get<double>() > static_cast<double>(longest_extent))
      members.refuse("shape", json, "an array of extents");
    shape.push_back(extent.get<std::uint64_t>());
  }
  return shape;
}

SavedGradient gradient_from(const Json& json, const std::string& where, const fs::path& folder) {
  constexpr std::array<std::pair<std::string_view, GradientKind>, 2> kinds{
      {{name_of(GradientKind::of_weight), GradientKind::of_weight},
       {name_of(GradientKind::of_activation), GradientKind::of_activation}}};
  Members members(json, where);
  SavedGradient g;
  g.name = members.text("name");
  if (!names_a_file(g.name))
    members.refuse("name", json.at("name"), "letters, digits, '.', '_' and '-', no '.' at first");
  members.need("kind");
  g.kind = members.choice("kind", kinds, GradientKind::unknown);
  members.need("step");
  g.step = static_cast<std::uint64_t>(members.integer("step", 0, 0, most_steps));
  const Json& scale = members.need("scale");
  g.scale = members.real("scale", 1);
  if (!(g.scale >= 0) || std::isinf(g.scale))
    members.refuse("scale", scale, "the loss scale, a finite number of 0 or more");
  g.shape = shape_from(members.need("shape"), members);
  members.finish();
  g.path = path_of(folder, *g.step, g.name);
  return g;
}

/// What gradients.json says; no other file is opened.
GradientFolder read_listing(const fs::path& folder) {
  const std::string path = folder / listing;
  const Json json = read_json(path);
  Members members(json, path);
  if (const Json& found = members.need("version"); found != version)
    refuse_file(path, fmt::format("version is {}; accepted: {}",
                                  shown(found.dump(-1, ' ', false, Json::error_handler_t::replace)), version));
  GradientFolder found;
  found.listed = true;
  found.about = members.need("about");
  if (!found.about.is_object()) members.refuse("about", found.about, "an object");
  const Json& tensors = members.need("tensors");
  if (!tensors.is_array()) members.refuse("tensors", tensors, "an array of objects");
  members.finish();
  std::set<std::string> paths;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::string where = fmt::format("{}: tensors[{}]", path, i);
    found.gradients.push_back(gradient_from(tensors[i], where, folder));
    const SavedGradient& g = found.gradients.back();
    if (!paths.insert(g.path).second) refuse_file(where, fmt::format("{} of step {} is there twice", g.name, *g.step));
  }
  return found;
}

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

/// The user's own files, by name.
std::vector<SavedGradient> npy_files(const std::string& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    if (entry->path().extension() == ".npy" && is_file(entry->path())) paths.push_back(entry->path());
  if (error) refuse_file(folder, "cannot be read: " + error.message());
  std::sort(paths.begin(), paths.end());
  std::vector<SavedGradient> found;
  for (const fs::path& path : paths) {
    SavedGradient g;
    // Reports are JSON, which is UTF-8; names of files may be any bytes.
    g.name = Json::parse(Json(path.stem().string()).dump(-1, ' ', false, Json::error_handler_t::replace));
    g.path = path;
    found.push_back(std::move(g));
  }
  return found;
}

/// Whether these are the files of one step of a run, whose kinds and scales stand in the folder above.
bool is_step_of_a_run(const fs::path& folder) {
  std::error_code error;
  const fs::path whole = fs::canonical(folder, error);
  return !error && whole.filename().string().starts_with("step-") && is_file(whole.parent_path() / listing);
}

}  // namespace

GradientFolder read_gradients(const std::string& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error))
    refuse_file(folder, fmt::format("no {}folder; accepted: a folder of .npy files, or of gradients that a run saved",
                                    fs::exists(folder, error) ? "" : "such "));
  GradientFolder found;
  if (fs::exists(fs::symlink_status(fs::path(folder) / listing, error))) {
    found = read_listing(folder);
    if (found.gradients.empty())
      refuse_file(fs::path(folder) / listing, "lists no tensors; accepted: at least one saved step");
  } else {
    if (is_step_of_a_run(folder))
      refuse_file(folder,
                  "one step of a training; accepted: the folder above it, whose gradients.json has the loss scales");
    found.gradients = npy_files(folder);
    if (found.gradients.empty())
      refuse_file(folder, "no .npy file; accepted: a folder with gradients.json, or with .npy files");
  }
  for (SavedGradient& g : found.gradients) {
    const NpyHeader header = NpyReader(g.path).header();
    if (found.listed && header.shape != g.shape)
      refuse_file(g.path, fmt::format("its shape is {}, in {} it is {}", shape_text(header.shape), listing,
                                      shape_text(g.shape)));
    g.shape = header.shape;
    g.format = header.format;
  }
  return found;
}

SavedGradients::SavedGradients(std::string folder, Json about, std::uint64_t first_step)
    : folder_(std::move(folder)), about_(std::move(about)) {
  if (!about_.is_object()) throw std::logic_error("gradients: about is no object");
  const fs::path path = folder_;
  std::error_code error;
  if (!fs::exists(fs::status(path, error))) {
    if (!fs::create_directory(path, error)) refuse_file(folder_, "cannot make the folder: " + error.message());
  } else if (!fs::is_directory(path, error)) {
    refuse_file(folder_, "not a folder; accepted: a new folder, an empty one, or one of saved gradients");
  }
  std::vector<SavedGradient> dropped;
  const bool empty = fs::is_empty(path, error);
  if (error) refuse_file(folder_, "cannot be read: " + error.message());
  if (!empty) {
    if (!is_file(path / listing))
      refuse_file(
          folder_,
          fmt::format("it holds other files and no {}; accepted: a new folder, an empty one, or one of saved gradients",
                      listing));
    const GradientFolder earlier = read_listing(path);
    for (const SavedGradient& g : earlier.gradients) (*g.step < first_step ? gradients_ : dropped).push_back(g);
    if (earlier.about != about_) refuse_file(path / listing, "of another training; accepted: a new folder");
  }
  // First the listing, so that at no time it names a file that is not there.
  list();
  for (const SavedGradient& g : dropped) {
    fs::remove(g.path, error);
    fs::remove(fs::path(g.path).parent_path(), error);  // which does nothing until it is empty
  }
}

void SavedGradients::add(std::uint64_t step, std::string_view name, GradientKind kind, double scale,
                         std::span<const std::uint64_t> extents, std::span<const float> values) {
  const std::string id(name);
  if (!names_a_file(name)) throw std::logic_error("gradients: '" + id + "' is no name for a file");
  if (kind == GradientKind::unknown || !(scale >= 0) || std::isinf(scale) || step > std::uint64_t{most_steps})
    throw std::logic_error("gradients: " + id + " has no kind, no step or no scale");
  if (!gradients_.empty() && step < *gradients_.back().step) throw std::logic_error("gradients: steps must ascend");
  if (gradients_.empty() || step != *gradients_.back().step) list();
  for (auto g = gradients_.rbegin(); g != gradients_.rend() && *g->step == step; ++g)
    if (g->name == id) throw std::logic_error("gradients: " + id + " was saved in this step already");
  const fs::path made = fs::path(folder_) / folder_of(step);
  std::error_code error;
  fs::create_directory(made, error);
  if (error) refuse_file(made, "cannot make the folder: " + error.message());
  SavedGradient g{id, kind, step, scale, {extents.begin(), extents.end()}, {}, path_of(folder_, step, id)};
  write_npy(g.path, g.shape, values);
  gradients_.push_back(std::move(g));
}

void SavedGradients::add_activation(std::uint64_t step, std::string_view layer, double scale,
                                    std::span<const std::uint64_t> extents, std::span<const float> values) {
  const std::string first = layer.empty() ? "activation-gradient" : std::string(layer) + ".activation-gradient";
  std::string name = first;
  const auto there = [&](const SavedGradient& g) { return *g.step == step && g.name == name; };
  for (int times = 2; std::any_of(gradients_.rbegin(), gradients_.rend(), there); ++times)
    name = fmt::format("{}-{}", first, times);
  add(step, name, GradientKind::of_activation, scale, extents, values);
}

void SavedGradients::list() {
  if (listed_ == gradients_.size() && listed_ != 0) return;
  Json tensors = Json::array();
  for (const SavedGradient& g : gradients_)
    tensors.push_back(
        {{"name", g.name}, {"kind", name_of(g.kind)}, {"step", *g.step}, {"scale", g.scale}, {"shape", g.shape}});
  write_file(fs::path(folder_) / listing,
             pretty({{"version", version}, {"about", about_}, {"tensors", std::move(tensors)}}) + "\n");
  listed_ = gradients_.size();
}

}  // namespace halfulp
