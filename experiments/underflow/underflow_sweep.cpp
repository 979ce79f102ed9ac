#include <halfulp/experiments/underflow/underflow_sweep.hpp>

#include <halfulp/emulation/random.hpp>
#include <halfulp/experiments/run/parallel.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <algorithm>
#include <cmath>

namespace halfulp {
namespace {

constexpr std::size_t piece_size = 2048;  ///< fixed, so that sums of doubles are taken in one order
constexpr std::size_t pieces_at_once = 8;
constexpr std::uint64_t gradient_stream = 512, update_stream = 513;  ///< of stochastic rounding; shapes use lower ones

struct Piece {
  std::vector<Case> cases;
  InputSummary input;
  Trace trace{0};
};

void count(Tally& tally, Fate fate, double exact, double rounded) {
  ++tally.fates[static_cast<std::size_t>(fate)];
  tally.mass += std::fabs(exact);
  if (fate == Fate::zero) tally.lost += std::fabs(exact);
  if (fate == Fate::subnormal || fate == Fate::normal) {
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
  for (Case& c : piece.cases) {
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
      const Fate fate = fate_of(f, g, [&] { return evaluate(to_narrow, inputs[i], 0, 0, r).flags; });
      count(c.gradient, fate, x, f.value(g));
      if (nearest && limits.fate(x) != fate) ++c.gradient.mispredicted;

      const std::uint64_t s = stochastic ? rounding_bits(options.seed, update_stream, begin + i) : 0;
      const std::uint64_t u = narrow.mul(lr, g, s);
      const Fate update = fate == Fate::overflow ? fate
          : fate_of(f, u, [&] { return evaluate(Operation::mul, f, rounding, lr, g, 0, s).flags; });
      count(c.update, update, options.lr * x, f.value(u));
    }
  }
  return piece;
}

}  // namespace

std::vector<std::uint64_t> summarize(const FloatFormat& container, std::span<const std::uint64_t> codes, InputSummary& input) {
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

double Tally::relative_error() const { return std::sqrt(squared_error / static_cast<double>(kept())); }

void Tally::merge(const Tally& other) {
  for (std::size_t i = 0; i < fates.size(); ++i) fates[i] += other.fates[i];
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
  for (const Case& c : options.cases)
    if (std::find(scales.begin(), scales.end(), c.scale) == scales.end()) scales.push_back(c.scale);

  std::vector<std::uint64_t> codes(piece_size * pieces_at_once);
  std::uint64_t done = 0;
  while (const std::size_t n = source.read(codes)) {
    const auto pieces = parallel_map((n + piece_size - 1) / piece_size, [&](std::size_t p) {
      const std::size_t begin = p * piece_size;
      const std::uint64_t start = done + begin;
      const std::size_t limit = start < options.trace_limit ? 2 * piece_size : 0;  // scale 0 and another
      return measure(source.container, std::span(codes).subspan(begin, std::min(piece_size, n - begin)), start, options, limit,
                     scales[start / piece_size % scales.size()]);
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

}  // namespace halfulp
