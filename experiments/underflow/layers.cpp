#include <halfulp/experiments/underflow/layers.hpp>

#include <halfulp/experiments/data/npy.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/formats/nearest.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <set>
#include <stdexcept>

namespace halfulp {
namespace {

constexpr std::array<GradientKind, 3> kinds{GradientKind::of_weight, GradientKind::of_activation, GradientKind::unknown};

/// Names of sources, which claims begin with.
std::string name_of_all(GradientKind kind) {
  return kind == GradientKind::of_weight ? "weight-gradients" : kind == GradientKind::of_activation ? "activation-gradients" : "gradients";
}

/// Code words of fp64, divided by the scale. Division is the machine's own, which is IEEE 754's.
void to_double(const SavedGradient& tensor, std::span<std::uint64_t> codes) {
  for (std::uint64_t& code : codes) code = std::bit_cast<std::uint64_t>(tensor.format.value(code) / tensor.scale);
}

/// Reads tensors one after another as if they were one, and keeps what each of them holds.
class Chain {
 public:
  Chain(std::shared_ptr<std::vector<Layer>> layers, GradientKind kind) : layers_(std::move(layers)), kind_(kind) {}

  std::size_t read(std::span<std::uint64_t> codes) {
    std::size_t done = 0;
    while (done < codes.size() && at_ < layers_->size()) {
      Layer& layer = (*layers_)[at_];
      std::size_t n = 0;
      if (layer.tensor.kind == kind_) {
        if (!reader_) reader_ = std::make_shared<NpyReader>(layer.tensor.path);
        const auto rest = codes.subspan(done);
        n = reader_->read(rest);
        to_double(layer.tensor, rest.first(n));
        InputSummary summary;
        summarize(fp64, rest.first(n), summary);
        layer.summary.merge(summary);
      }
      done += n;
      if (n == 0) {
        reader_.reset();
        ++at_;
      }
    }
    return done;
  }

 private:
  std::shared_ptr<std::vector<Layer>> layers_;
  GradientKind kind_;
  std::shared_ptr<NpyReader> reader_;
  std::size_t at_ = 0;
};

/// Magnitudes with exponents from `from` to `to`.
std::uint64_t counted(const InputSummary& in, int from, int to) {
  std::uint64_t values = 0;
  for (const auto& [binade, n] : in.binades)
    if (binade >= from && binade <= to) values += n;
  return values;
}

void add_row(Table& table, const Json& tensor, GradientKind kind, const Json& step, const Json& scale, const InputSummary& in) {
  constexpr int least = -2000, most = 2000;  // beyond all doubles
  const std::uint64_t finite = in.elements - in.nan - in.infinite;
  const auto share = [&](std::uint64_t n) { return finite ? number(static_cast<double>(n) / static_cast<double>(finite)) : Json(); };
  const bool any = !in.binades.empty();
  table.row({tensor, name_of(kind), step, scale, finite, in.nan + in.infinite, share(in.zero), share(counted(in, least, -25)),
             share(counted(in, -24, -15)), share(counted(in, -14, most)), any ? Json(in.binades.begin()->first) : Json(),
             any ? Json(in.binades.rbegin()->first) : Json()});
}

}  // namespace

GradientLayers::GradientLayers(const std::string& folder)
    : found_(read_gradients(folder)), layers_(std::make_shared<std::vector<Layer>>()) {
  for (const SavedGradient& tensor : found_.gradients) {
    if (std::find(tensor.shape.begin(), tensor.shape.end(), 0u) != tensor.shape.end())
      throw std::invalid_argument(
          fmt::format("{}: an array of shape {} holds no gradients; accepted: at least one", tensor.path, shape_text(tensor.shape)));
    layers_->push_back({tensor});
  }
}

bool GradientLayers::holds(GradientKind kind) const {
  return std::any_of(layers_->begin(), layers_->end(), [&](const Layer& layer) { return layer.tensor.kind == kind; });
}

std::string GradientLayers::about() const {
  std::string text;
  for (const char* name : {"network", "policy", "seed"})
    if (const auto found = found_.about.find(name); found != found_.about.end() && found->is_primitive() && !found->is_null())
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, shown(found->is_string() ? found->get<std::string>() : found->dump()));
  return text;
}

std::vector<GradientSource> GradientLayers::sources() const {
  std::vector<GradientSource> sources;
  for (const GradientKind kind : kinds) {
    std::uint64_t count = 0, tensors = 0;
    std::set<std::uint64_t> steps;
    bool half = false;
    for (const Layer& layer : *layers_) {
      if (layer.tensor.kind != kind) continue;
      std::uint64_t elements = 1;
      for (const std::uint64_t extent : layer.tensor.shape) elements *= extent;
      count += elements;
      ++tensors;
      if (layer.tensor.step) steps.insert(*layer.tensor.step);
      half = half || layer.tensor.format == fp16;
    }
    if (tensors == 0) continue;
    std::string description = fmt::format("{} {} of the folder", tensors, tensors == 1 ? "file" : "files");
    if (found_.listed) {
      description = fmt::format("{} saved at {} {}", name_of_all(kind), steps.size(), steps.size() == 1 ? "step" : "steps");
      std::replace(description.begin(), description.end(), '-', ' ');
      description += fmt::format(", {} {}, divided by their loss scales", tensors, tensors == 1 ? "tensor" : "tensors");
      if (const std::string what = about(); !what.empty()) description += "; " + what;
    }
    const std::string zeros = found_.listed
        ? "what vanished in the formats that backward computed in is among the zeros, which are left out"
        : half ? "what vanished when the gradients were rounded to fp16 for these files is among their zeros, which are left out" : "";
    const auto read = [chain = Chain(layers_, kind)](std::span<std::uint64_t> codes) mutable { return chain.read(codes); };
    sources.push_back({name_of_all(kind), description, fp64, count, {}, zeros, read});
  }
  return sources;
}

InputSummary GradientLayers::together(GradientKind kind) const {
  InputSummary all;
  for (const Layer& layer : *layers_)
    if (layer.tensor.kind == kind) all.merge(layer.summary);
  return all;
}

FolderShares GradientLayers::shares() const {
  FolderShares shares;
  if (holds(GradientKind::of_weight)) shares.weights = together(GradientKind::of_weight);
  if (holds(GradientKind::of_activation)) shares.activations = together(GradientKind::of_activation);
  shares.listed = found_.listed;
  shares.about = about();
  return shares;
}

void GradientLayers::report(Run& run) const {
  Table& table = run.report.table("layers", "The folder's gradients by tensor and step, divided by their loss scales", {
      {"tensor", "", "Name of the tensor; `all` are all of the kind together."},
      {"kind", "", "What the gradients are of: weights or activations; unknown where no gradients.json says so."},
      {"step", "step", "Step of the training; null for all steps together, and where none is known."},
      {"scale", "1", "Loss scale that the file carries and that values were divided by; null for several files together."},
      {"values", "value", "Finite values, which the shares are of."},
      {"not_finite", "value", "NaNs and Infinities, left out of all shares."},
      {"zero", "1", "Share that is exactly zero; null if no value is finite."},
      {"below_2_24", "1", "Share below 2^-24, fp16's smallest number, and not zero."},
      {"from_2_24", "1", "Share from 2^-24 up to 2^-14, where fp16 is subnormal."},
      {"from_2_14", "1", "Share of 2^-14 and above."},
      {"smallest_exponent", "binade", "Smallest floor(log2|g|); null if no value is finite and non-zero."},
      {"largest_exponent", "binade", "Largest floor(log2|g|)."}});
  for (const GradientKind kind : kinds)
    if (holds(kind)) add_row(table, "all", kind, {}, {}, together(kind));

  std::vector<Layer> over_steps;
  std::vector<std::size_t> files;
  for (const Layer& layer : *layers_) {
    if (!layer.tensor.step) continue;
    const auto same = std::find_if(over_steps.begin(), over_steps.end(),
        [&](const Layer& other) { return other.tensor.name == layer.tensor.name && other.tensor.kind == layer.tensor.kind; });
    const auto at = static_cast<std::size_t>(same - over_steps.begin());
    if (same == over_steps.end()) {
      over_steps.push_back(layer);
      files.push_back(1);
    } else {
      over_steps[at].summary.merge(layer.summary);
      ++files[at];
    }
  }
  for (std::size_t i = 0; i < over_steps.size(); ++i)
    if (files[i] > 1) add_row(table, over_steps[i].tensor.name, over_steps[i].tensor.kind, {}, {}, over_steps[i].summary);

  for (const Layer& layer : *layers_) {
    const SavedGradient& tensor = layer.tensor;
    add_row(table, tensor.name, tensor.kind, tensor.step ? Json(*tensor.step) : Json(), number(tensor.scale), layer.summary);
  }
}

}  // namespace halfulp
