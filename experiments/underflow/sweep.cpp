#include <halfulp/data/npy.hpp>
#include <halfulp/emulation/random.hpp>
#include <halfulp/experiments/underflow/underflow.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/spelling.hpp>
#include <halfulp/support/work.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <stdexcept>

namespace halfulp::underflow {
namespace {

constexpr std::size_t piece_size = 2048;  ///< fixed, so that sums of doubles are taken in one order
constexpr std::size_t pieces_at_once = 8;
constexpr std::uint64_t gradient_stream = 512, update_stream = 513;  ///< of stochastic rounding; shapes use lower ones

struct Piece {
  std::vector<SweepCase> cases;
  InputSummary input;
  Trace trace{0};
};

void count(RangeTally& tally, RangeClass range, double exact, double rounded) {
  ++tally.counts[static_cast<std::size_t>(range)];
  tally.mass += std::fabs(exact);
  if (range == RangeClass::zero) tally.lost += std::fabs(exact);
  if (range == RangeClass::subnormal || range == RangeClass::normal) {
    const double error = (rounded - exact) / exact;
    tally.squared_error += error * error;
  }
}

/// All cases on the gradients of one piece. Of the loss scales, only scale 0 and `traced_scale` are recorded: each
/// piece another one, so that the trace holds every scale without holding everything.
Piece measure(const FloatFormat& container, std::span<const std::uint64_t> codes, std::uint64_t begin,
              const SweepOptions& options, std::size_t limit, int traced_scale) {
  Piece piece{options.cases, {}, Trace(limit)};
  const std::vector<std::uint64_t> gradients = summarize(container, codes, piece.input);
  std::map<int, std::vector<std::uint64_t>> scaled;
  for (SweepCase& c : piece.cases) {
    Trace* trace = c.scale == 0 || c.scale == traced_scale ? &piece.trace : nullptr;
    std::vector<std::uint64_t>& inputs = scaled[c.scale];
    if (inputs.empty() && !gradients.empty()) {
      Arithmetic wide(container, {}, trace);
      const std::uint64_t factor = wide.encode(FloatFormat::power_of_two(c.scale));
      for (const std::uint64_t g : gradients) inputs.push_back(c.scale == 0 ? g : wide.mul(g, factor));
    }
    const FloatFormat& f = c.format.format;
    Rounding rounding = options.rounding;
    rounding.mode = c.mode;
    Arithmetic narrow(f, rounding, trace);
    const std::uint64_t lr = encode(f, Rounding{}, options.lr).code;
    const Task to_narrow{Operation::convert, container, f, rounding};
    const bool stochastic = c.mode == RoundingMode::stochastic, nearest = c.mode == RoundingMode::nearest_even;
    const NearestEvenLimits limits(f);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const double x = container.value(inputs[i]);
      const std::uint64_t r = stochastic ? rounding_bits(options.seed, gradient_stream, begin + i) : 0;
      const std::uint64_t g = narrow.convert_from(container, inputs[i], r);
      const RangeClass range = range_class_of(f, g, [&] { return evaluate(to_narrow, inputs[i], 0, 0, r).flags; });
      count(c.gradient, range, x, f.value(g));
      if (nearest && limits.classify(x) != range) ++c.gradient.mispredicted;

      const std::uint64_t s = stochastic ? rounding_bits(options.seed, update_stream, begin + i) : 0;
      const std::uint64_t u = narrow.mul(lr, g, s);
      const RangeClass update = range == RangeClass::overflow ? range : range_class_of(f, u, [&] {
        return evaluate(Operation::mul, f, rounding, lr, g, 0, s).flags;
      });
      count(c.update, update, options.lr * x, f.value(u));
    }
  }
  return piece;
}

}  // namespace

std::vector<std::uint64_t> summarize(const FloatFormat& container, std::span<const std::uint64_t> codes,
                                     InputSummary& input) {
  std::vector<std::uint64_t> kept;
  kept.reserve(codes.size());
  input.elements = codes.size();
  for (const std::uint64_t code : codes) {
    if (container.is_nan(code)) ++input.nan;
    else if (container.is_infinite(code)) ++input.infinite;
    else if (container.is_zero(code)) ++input.zero;
    else {
      const double magnitude = std::fabs(container.value(code));
      input.smallest = kept.empty() ? magnitude : std::min(input.smallest, magnitude);
      input.largest = std::max(input.largest, magnitude);
      ++input.binades[std::ilogb(magnitude)];
      kept.push_back(code);
    }
  }
  return kept;
}

double RangeTally::relative_error() const { return std::sqrt(squared_error / static_cast<double>(kept())); }

void RangeTally::merge(const RangeTally& other) {
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += other.counts[i];
  mispredicted += other.mispredicted;
  mass += other.mass;
  lost += other.lost;
  squared_error += other.squared_error;
}

void InputSummary::merge(const InputSummary& other) {
  if (other.finite_nonzero() != 0) smallest = finite_nonzero() ? std::min(smallest, other.smallest) : other.smallest;
  largest = std::max(largest, other.largest);
  elements += other.elements;
  nan += other.nan;
  infinite += other.infinite;
  zero += other.zero;
  for (const auto& [binade, n] : other.binades) binades[binade] += n;
}

SweepResult sweep_gradients(const GradientSource& source, const SweepOptions& options, Trace& trace,
                            const std::function<void(std::uint64_t)>& progress) {
  SweepResult result{options.cases, {}};
  std::vector<int> scales;
  for (const SweepCase& c : options.cases)
    if (std::find(scales.begin(), scales.end(), c.scale) == scales.end()) scales.push_back(c.scale);

  std::vector<std::uint64_t> codes(piece_size * pieces_at_once);
  std::uint64_t done = 0;
  while (const std::size_t n = source.read(codes)) {
    const auto pieces = parallel_map((n + piece_size - 1) / piece_size, [&](std::size_t p) {
      const std::size_t begin = p * piece_size;
      const std::uint64_t start = done + begin;
      const std::size_t limit = start < options.trace_limit ? 2 * piece_size : 0;  // scale 0 and another
      return measure(source.container, std::span(codes).subspan(begin, std::min(piece_size, n - begin)), start, options,
                     limit, scales[start / piece_size % scales.size()]);
    });
    for (const Piece& piece : pieces) {
      for (std::size_t i = 0; i < result.cases.size(); ++i) {
        result.cases[i].gradient.merge(piece.cases[i].gradient);
        result.cases[i].update.merge(piece.cases[i].update);
      }
      result.input.merge(piece.input);
      trace.append(piece.trace);
    }
    done += n;
    progress(done);
  }
  return result;
}

namespace {

constexpr std::array<GradientKind, 3> kinds{GradientKind::of_weight, GradientKind::of_activation,
                                            GradientKind::unknown};

/// Names of sources, which claims begin with.
std::string name_of_all(GradientKind kind) {
  return kind == GradientKind::of_weight       ? "weight-gradients"
         : kind == GradientKind::of_activation ? "activation-gradients"
                                               : "gradients";
}

/// Code words of fp64, divided by the scale. Division is the machine's own, which is IEEE 754's.
void to_double(const SavedGradient& tensor, std::span<std::uint64_t> codes) {
  for (std::uint64_t& code : codes) code = std::bit_cast<std::uint64_t>(tensor.format.value(code) / tensor.scale);
}

/// Reads tensors one after another as if they were one, and keeps what each of them holds.
class LayerChain {
 public:
  LayerChain(std::shared_ptr<std::vector<Layer>> layers, GradientKind kind) : layers_(std::move(layers)), kind_(kind) {}

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

void add_row(Table& table, const Json& tensor, GradientKind kind, const Json& step, const Json& scale,
             const InputSummary& in) {
  constexpr int least = -2000, most = 2000;  // beyond all doubles
  const std::uint64_t finite = in.elements - in.nan - in.infinite;
  const auto of_finite = [&](std::uint64_t n) { return share(n, finite); };
  const bool any = !in.binades.empty();
  table.row({tensor, name_of(kind), step, scale, finite, in.nan + in.infinite, of_finite(in.zero),
             of_finite(counted(in, least, -25)), of_finite(counted(in, -24, -15)), of_finite(counted(in, -14, most)),
             any ? Json(in.binades.begin()->first) : Json(), any ? Json(in.binades.rbegin()->first) : Json()});
}

}  // namespace

GradientLayers::GradientLayers(const std::string& folder)
    : found_(read_gradients(folder)), layers_(std::make_shared<std::vector<Layer>>()) {
  for (const SavedGradient& tensor : found_.gradients) {
    if (std::find(tensor.shape.begin(), tensor.shape.end(), 0u) != tensor.shape.end())
      throw std::invalid_argument(fmt::format("{}: an array of shape {} holds no gradients; accepted: at least one",
                                              tensor.path, shape_text(tensor.shape)));
    layers_->push_back({tensor});
  }
}

bool GradientLayers::holds(GradientKind kind) const {
  return std::any_of(layers_->begin(), layers_->end(), [&](const Layer& layer) { return layer.tensor.kind == kind; });
}

std::string GradientLayers::about() const {
  std::string text;
  for (const char* name : {"network", "policy", "seed"})
    if (const auto found = found_.about.find(name);
        found != found_.about.end() && found->is_primitive() && !found->is_null())
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name,
                          shown(found->is_string() ? found->get<std::string>() : found->dump()));
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
      description = fmt::format("{} saved at {} {}", name_of_all(kind), steps.size(),
                                steps.size() == 1 ? "step" : "steps");
      std::replace(description.begin(), description.end(), '-', ' ');
      description += fmt::format(", {} {}, divided by their loss scales", tensors, tensors == 1 ? "tensor" : "tensors");
      if (const std::string what = about(); !what.empty()) description += "; " + what;
    }
    const std::string zeros =
        found_.listed ? "what vanished in the formats that backward computed in is among the zeros, which are left out"
        : half ? "what vanished when the gradients were rounded to fp16 for these files is among their zeros, which "
                 "are left out"
               : "";
    const auto read = [chain = LayerChain(layers_, kind)](std::span<std::uint64_t> codes) mutable {
      return chain.read(codes);
    };
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
  Table& table = run.report.table(
      "layers", "The folder's gradients by tensor and step, divided by their loss scales",
      {{"tensor", "", "Name of the tensor; `all` are all of the kind together."},
       {"kind", "", "What the gradients are of: weights or activations; unknown where no gradients.json says so."},
       {"step", "step", "Step of the training; null for all steps together, and where none is known."},
       {"scale", "1",
        "Loss scale that the file carries and that values were divided by; null for several files together."},
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
    const auto same = std::find_if(over_steps.begin(), over_steps.end(), [&](const Layer& other) {
      return other.tensor.name == layer.tensor.name && other.tensor.kind == layer.tensor.kind;
    });
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
    if (files[i] > 1)
      add_row(table, over_steps[i].tensor.name, over_steps[i].tensor.kind, {}, {}, over_steps[i].summary);

  for (const Layer& layer : *layers_) {
    const SavedGradient& tensor = layer.tensor;
    add_row(table, tensor.name, tensor.kind, or_null(tensor.step), number(tensor.scale), layer.summary);
  }
}

}  // namespace halfulp::underflow
