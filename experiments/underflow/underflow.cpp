// underflow: which gradients vanish in each format, and what a loss scale does about it.
#include <halfulp/data/npy.hpp>
#include <halfulp/experiments/underflow/underflow.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <stdexcept>

namespace halfulp {
namespace underflow {
namespace {

std::vector<Parameter> parameters() {
  using Type = ParameterType;
  return {
      {"formats", Type::formats, "fp16,bf16,e5m2,e4m3", "formats the gradients are rounded to"},
      {"roundings", Type::roundings, "nearest-even,toward-zero,toward-positive,toward-negative,stochastic",
       "rounding modes of the table `fates`; the loss scale is swept under the first"},
      {"overflow", Type::choice, "ieee", "what happens beyond the largest finite value", {}, {}, {"ieee", "saturate"}},
      {"random_bits", Type::integer, "32", "random bits of stochastic rounding", 1, max_random_bits},
      {"input", Type::path, "",
       "a .npy file (float16, float32 or float64) with gradients, or a folder of them, as a training saves it; empty: "
       "the synthetic distributions"},
      {"distributions",
       Type::choices,
       "log-normal,normal,student-t,log-uniform",
       "shapes of the synthetic gradients",
       {},
       {},
       shape_names()},
      {"count", Type::integer, "65536", "gradients drawn from each distribution", 1, 1e8},
      {"seed", Type::integer, "1", "seed of the synthetic gradients and of stochastic rounding", 0, largest_seed},
      {"log2_median", Type::real, "-17.5", "log-normal: log2 of the median magnitude", -100, 30},
      {"log2_sigma", Type::real, "4", "log-normal: standard deviation of log2|g|, in binades", 0.01, 16},
      {"log2_scale", Type::real, "-16", "normal, laplace, student-t, uniform: log2 of sigma, b, scale, half-width",
       -100, 30},
      {"degrees", Type::integer, "2", "student-t: degrees of freedom", 1, 30},
      {"log2_low", Type::real, "-40", "log-uniform: log2 of the smallest magnitude", -120, 30},
      {"log2_high", Type::real, "0", "log-uniform: log2 of the largest magnitude", -120, 30},
      {"lr", Type::real, "0.001", "learning rate of the update lr * g; it is rounded to the format too", 1e-30, 1e6},
      {"scale_from", Type::integer, "0", "smallest k of the loss scales 2^k", -60, 60},
      {"scale_to", Type::integer, "32", "largest k", -60, 60},
      {"scale_step", Type::integer, "1", "step of k", 1, 120},
  };
}

std::vector<GradientSource> synthetic_sources(const Config& config) {
  std::vector<GradientSource> sources;
  const auto count = static_cast<std::uint64_t>(config.integer("count"));
  const auto seed = static_cast<std::uint64_t>(config.integer("seed"));
  for (const std::string& name : config.choices("distributions")) {
    Distribution d;
    d.shape = parse_shape(name);
    d.log2_scale = config.real(d.shape == Shape::log_normal ? "log2_median" : "log2_scale");
    d.log2_sigma = config.real("log2_sigma");
    d.degrees = static_cast<int>(config.integer("degrees"));
    d.log2_low = config.real("log2_low");
    d.log2_high = config.real("log2_high");
    if (d.log2_low >= d.log2_high)
      throw std::invalid_argument(
          fmt::format("log2_low is {} and log2_high {}; accepted: a lower one first", d.log2_low, d.log2_high));
    // FP32 first: that is what a framework computes gradients in when it can afford to.
    const auto read = [d, seed, count, next = std::uint64_t{0}](std::span<std::uint64_t> codes) mutable {
      std::size_t n = 0;
      for (; n < codes.size() && next < count; ++n, ++next)
        codes[n] = encode(fp32, Rounding{}, d.sample(seed, next)).code;
      return n;
    };
    sources.push_back({name, d.description(), fp32, count, d, "", read});
  }
  return sources;
}

GradientSource file_source(const std::string& path) {
  auto reader = std::make_shared<NpyReader>(path);
  const NpyHeader& header = reader->header();
  if (header.count == 0)
    throw std::invalid_argument(fmt::format("{}: an array of shape {} holds no gradients; accepted: at least one", path,
                                            shape_text(header.shape)));
  const FloatFormat container = header.format == fp64 ? fp64 : fp32;
  const auto read = [reader, container](std::span<std::uint64_t> codes) {
    const std::size_t n = reader->read(codes);
    if (reader->header().format == fp16)
      for (std::uint64_t& code : codes.first(n)) code = convert(fp16, container, Rounding{}, code).code;
    return n;
  };
  return {
      "input",
      fmt::format("{} of shape {}", format_name(header.format), shape_text(header.shape)),
      container,
      header.count,
      {},
      header.format == fp16
          ? "what vanished when the gradients were rounded to fp16 for this file is among its zeros, which are left out"
          : "",
      read};
}

/// Scale 0 under every rounding, the other scales under the first; scales ascend within a format and rounding.
std::vector<SweepCase> cases_of(const Config& config) {
  const auto from = config.integer("scale_from"), to = config.integer("scale_to"), step = config.integer("scale_step");
  if (from > to)
    throw std::invalid_argument(fmt::format("scale_from is {}, more than scale_to, which is {}", from, to));
  const auto formats = config.formats("formats");
  const auto modes = config.roundings("roundings");
  if (formats.size() > 32) throw std::invalid_argument("formats: at most 32 in one run");
  std::vector<int> scales{0};
  for (auto k = from; k <= to; k += step)
    if (k != 0) scales.push_back(static_cast<int>(k));
  std::sort(scales.begin(), scales.end());
  std::vector<SweepCase> cases;
  for (const FormatChoice& format : formats) {
    if (!format.format.has_zero)
      throw std::invalid_argument("formats: " + format.name +
                                  " holds scales and has no zero; accepted: formats with arithmetic");
    for (const RoundingMode mode : modes)
      for (const int k : scales)
        if (k == 0 || mode == modes.front()) cases.push_back({format, mode, k});
  }
  return cases;
}

struct Tables {
  Table &inputs, &fates, &sweep, &best, &histogram;
};

Tables declare_tables(Report& report) {
  const Column source{"source", "", "Distribution of the gradients, or `input` for the user's file."},
      format{"format", "", "Format they are rounded to."};
  return {
      report.table("inputs", "The gradients before any rounding to the formats",
                   {source,
                    {"description", "", "Parameters of the distribution, or type and shape of the file."},
                    {"elements", "value", "How many numbers were read."},
                    {"nan", "value", "NaNs among them, left out of all shares."},
                    {"infinite", "value", "Infinities among them, left out of all shares."},
                    {"zero", "value", "Exact zeros among them, left out of all shares."},
                    {"smallest", "1", "Smallest magnitude of those that are left; null if there are none."},
                    {"largest", "1", "Largest magnitude of those that are left; null if there are none."}}),
      report.table(
          "fates", "What becomes of gradients g and updates lr * g without a loss scale",
          {source,
           format,
           {"rounding", "", "Rounding mode."},
           {"quantity", "", "Gradient g, or update lr * g with lr, g and the product each rounded."},
           {"zero", "1", "Share that vanishes, of the finite non-zero gradients; null if there are none."},
           {"subnormal", "1", "Share that becomes subnormal and loses precision."},
           {"normal", "1", "Share that keeps full precision."},
           {"overflow", "1", "Share that overflows."},
           {"lost", "1", "What vanished as a share of the sum of all magnitudes: many zeros can be little signal."},
           {"relative_error", "1",
            "Root mean square of the relative error of what neither vanished nor overflowed; null if nothing is "
            "left."}}),
      report.table("scale_sweep", "The same under loss scales of 2^k, for the first rounding",
                   {source,
                    format,
                    {"k", "binade", "Log2 of the loss scale."},
                    {"gradient_zero", "1", "Share of scaled gradients g * 2^k that vanish; null if there are none."},
                    {"gradient_subnormal", "1", "Share of scaled gradients that become subnormal."},
                    {"gradient_overflow", "1", "Share of scaled gradients that overflow."},
                    {"update_zero", "1", "Share of scaled updates lr * (g * 2^k) that vanish."},
                    {"update_subnormal", "1", "Share of scaled updates that become subnormal."},
                    {"update_overflow", "1", "Share of scaled updates that overflow."},
                    {"relative_error", "1",
                     "Root mean square of the relative error of scaled gradients that neither vanished nor overflowed; "
                     "null if nothing is left."}}),
      report.table("best_scale",
                   "The best loss scale: no overflow allowed; of those the fewest zeros, then the fewest subnormals, "
                   "then the smallest k",
                   {source,
                    format,
                    {"best_k", "binade",
                     "Log2 of the best scale of the sweep; null if every scale overflows or no gradient is finite and "
                     "non-zero."},
                    {"from_k", "binade", "Smallest k without overflow and with as few zeros."},
                    {"to_k", "binade", "Largest k without overflow and with as few zeros."},
                    {"zero_unscaled", "1", "Share of gradients that vanish without a scale."},
                    {"zero_at_best", "1", "Share that vanishes at the best scale."},
                    {"subnormal_at_best", "1", "Share that is subnormal at the best scale."},
                    {"grad_scaler_k", "binade",
                     "Largest k of the sweep up to 16 without overflow: where a GradScaler that starts at 2^16 and "
                     "halves at each overflow settles; null if nowhere."}}),
      report.table("histogram", "How many gradients have which magnitude",
                   {source,
                    {"binade", "binade", "Magnitude: floor(log2|g|)."},
                    {"values", "value", "Gradients in this binade."}}),
  };
}

// Of no gradients there is no share, no error and no scale: null.
Json share_of(const RangeTally& t, RangeClass range) { return share(t[range], t.total()); }
Json lost(const RangeTally& t) { return t.mass > 0 ? number(t.lost_share()) : Json(); }
Json relative_error(const RangeTally& t) { return t.kept() ? number(t.relative_error()) : Json(); }

void report_cases(const GradientSource& source, const SweepResult& result, RoundingMode first, Tables& tables) {
  const InputSummary& in = result.input;
  const bool any = in.finite_nonzero() != 0;
  const std::string hint = in.zero != 0 && !source.zeros.empty() ? "; " + source.zeros : "";
  tables.inputs.row({source.name, source.description + hint, in.elements, in.nan, in.infinite, in.zero,
                     any ? number(in.smallest) : Json(), any ? number(in.largest) : Json()});
  for (const auto& [binade, n] : in.binades) tables.histogram.row({source.name, binade, n});
  for (const SweepCase& c : result.cases) {
    if (c.scale == 0)
      for (const auto& [quantity, t] :
           {std::pair<const char*, const RangeTally&>{"gradient", c.gradient}, {"update", c.update}}) {
        tables.fates.row({source.name, c.format.name, name_of(c.mode), quantity, share_of(t, RangeClass::zero),
                          share_of(t, RangeClass::subnormal), share_of(t, RangeClass::normal),
                          share_of(t, RangeClass::overflow), lost(t), relative_error(t)});
      }
    if (c.mode == first)
      tables.sweep.row({source.name, c.format.name, c.scale, share_of(c.gradient, RangeClass::zero),
                        share_of(c.gradient, RangeClass::subnormal), share_of(c.gradient, RangeClass::overflow),
                        share_of(c.update, RangeClass::zero), share_of(c.update, RangeClass::subnormal),
                        share_of(c.update, RangeClass::overflow), relative_error(c.gradient)});
  }
}

void report_best(const GradientSource& source, const SweepResult& result, const std::vector<FormatChoice>& formats,
                 RoundingMode first, Tables& tables) {
  for (const FormatChoice& format : formats) {
    std::vector<const SweepCase*> cases;
    for (const SweepCase& c : result.cases)
      if (c.format.format == format.format && c.mode == first) cases.push_back(&c);
    const BestScale best = best_scale(cases);
    const SweepCase *unscaled = nullptr, *at_best = nullptr;
    std::optional<int> scaler;
    for (const SweepCase* c : cases) {
      if (c->scale == 0) unscaled = c;
      if (best.best && c->scale == *best.best) at_best = c;
      if (c->scale <= 16 && c->gradient.total() != 0 && c->gradient[RangeClass::overflow] == 0) scaler = c->scale;
    }
    tables.best.row({source.name, format.name, or_null(best.best), best.best ? Json(best.lowest_equal) : Json(),
                     best.best ? Json(best.highest_equal) : Json(), share_of(unscaled->gradient, RangeClass::zero),
                     at_best ? share_of(at_best->gradient, RangeClass::zero) : Json(),
                     at_best ? share_of(at_best->gradient, RangeClass::subnormal) : Json(), or_null(scaler)});
  }
}

void run(const Config& config, Run& run) {
  const auto formats = config.formats("formats");
  const RoundingMode first = config.roundings("roundings").front();
  const std::string path = config.text("input");
  std::optional<GradientLayers> layers;
  if (std::error_code error; std::filesystem::is_directory(path, error)) layers.emplace(path);
  const std::vector<GradientSource> sources = layers         ? layers->sources()
                                              : path.empty() ? synthetic_sources(config)
                                                             : std::vector{file_source(path)};

  SweepOptions options;
  options.cases = cases_of(config);
  options.lr = config.real("lr");
  options.rounding.overflow = config.text("overflow") == "saturate" ? Overflow::saturate : Overflow::ieee;
  options.rounding.random_bits = static_cast<int>(config.integer("random_bits"));
  options.seed = static_cast<std::uint64_t>(config.integer("seed"));
  options.trace_limit = run.trace.limit() / sources.size();

  report_limits(formats, run);
  Tables tables = declare_tables(run.report);
  double total = 0, done = 0;
  for (const GradientSource& source : sources) total += static_cast<double>(source.count);
  std::optional<SweepResult> input;
  for (const GradientSource& source : sources) {
    SweepResult result = sweep_gradients(source, options, run.trace, [&](std::uint64_t elements) {
      run.progress((done + static_cast<double>(elements)) / std::max(total, 1.0));
    });
    done += static_cast<double>(source.count);
    report_cases(source, result, first, tables);
    report_best(source, result, formats, first, tables);
    claim_sweep(source, result, first, run);
    if (!source.distribution) input = std::move(result);
  }
  if (layers) {
    layers->report(run);
    claim_published_shares(layers->shares(), run);
  } else {
    claim_published_shares(input ? &*input : nullptr, run);
  }
  report_constants(run);
}

}  // namespace
}  // namespace underflow

namespace {

/// The first format that loses gradients, and what its best scale does about it.
std::string underflow_finding(const ReportTables& tables) {
  for (const TableRow& row : tables.rows("best_scale")) {
    if (!(row.number("zero_unscaled") > 0) || !row["best_k"].is_number()) continue;
    const double left = row.number("zero_at_best");
    double largest = row.number("best_k");  // of the sweep
    for (const TableRow& tried : tables.rows("scale_sweep", {{"source", row["source"]}, {"format", row["format"]}}))
      largest = std::max(largest, tried.number("k"));
    const bool at_end = left > 0 && row.number("to_k") >= largest;
    return fmt::format("{} loses {} of these gradients to zero; a loss scale of 2^{}{} {}.", row.text("format"),
                       percent(row.number("zero_unscaled")), row.whole("best_k"),
                       at_end ? ", the largest that was tried," : "",
                       left == 0                             ? "saves all"
                       : left >= row.number("zero_unscaled") ? "saves none"
                                                             : "saves all but " + percent(left));
  }
  return {};
}

}  // namespace

Experiment underflow_experiment() {
  return {"underflow",
          "Gradient underflow and loss scaling",
          "Which gradients vanish, and which loss scale brings them back?",
          underflow::parameters,
          underflow::run,
          underflow_finding,
          {"best_scale", {"source", "format", "best_k", "from_k", "to_k", "zero_unscaled", "zero_at_best"}}};
}

}  // namespace halfulp
