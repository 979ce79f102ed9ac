// Two checkpoints side by side: which tensors differ, by how much, and which cast made one of the other.
#include <halfulp/experiments/checkpoint/checkpoint.hpp>

#include <halfulp/emulation/array/array.hpp>
#include <halfulp/experiments/checkpoint/rounding.hpp>
#include <halfulp/experiments/checkpoint/shared.hpp>
#include <halfulp/experiments/losses.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/report/config.hpp>
#include <halfulp/support/work.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>

namespace halfulp {
namespace checkpoint {
namespace {

std::vector<Parameter> difference_parameters() {
  return {checkpoint_parameter(),
          checkpoint_parameter("against"),
          {"formats", ParameterType::text,
           "bf16,fp16,e4m3,e5m2,e4m3-tensor,e4m3-row,fp8-128x128,mxfp8e4m3,mxfp6e2m3,mxfp6e3m2,mxfp4,nvfp4,int8,int4",
           "casts to these are tried to explain a difference, in every rounding mode (blocks: to nearest even)"},
          {"tensors", ParameterType::text, "*", "globs of tensors' names, separated by commas: others are left out"}};
}

/// Whether two values are the same; zeros of both signs are.
template <class T>
bool is_same(T a, T b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

/// One way in which one tensor can have come from the other.
struct Cast {
  const ChosenFormat* format;
  Rounding rounding;
  std::string name;
};

std::vector<Cast> casts_to(const std::vector<ChosenFormat>& formats) {
  std::vector<Cast> casts;
  for (const ChosenFormat& f : formats) {
    if (f.block()) {
      if (!f.block()->whole) casts.push_back({&f, {}, f.name});
      continue;
    }
    for (const auto& mode : rounding_modes)
      for (const Overflow overflow : {Overflow::saturate, Overflow::ieee}) {
        if (mode.value == RoundingMode::stochastic) continue;
        Cast cast{&f, {}, fmt::format("{}, {}", f.name, mode.name)};
        cast.rounding.mode = mode.value, cast.rounding.overflow = overflow;
        casts.push_back(std::move(cast));
      }
  }
  return casts;
}

/// A tensor in both checkpoints.
struct Pair {
  const ModelTensor *ours, *theirs;
  bool same_bytes = false;
  std::uint64_t different = 0;  ///< values
  double ulps = 0;              ///< the most, of `ulps_of`
  FloatFormat ulps_of;
  Loss loss;            ///< from theirs to ours
  std::string because;  ///< the cast that explains it; empty: none is known
};

/// |a - b| in ulps of a format at b.
double ulps_between(double a, double b, const FloatFormat& f) {
  const int exponent = b == 0 ? f.emin() : std::max(std::ilogb(b), f.emin());
  return std::fabs(a - b) / FloatFormat::power_of_two(std::min(exponent, f.emax()) - f.fraction_bits);
}

/// The format with the coarser steps; of code words with scales fp32, in which their values are.
FloatFormat coarser(const ModelTensor& a, const ModelTensor& b) {
  const FloatFormat fa = a.format() ? *a.format() : fp32, fb = b.format() ? *b.format() : fp32;
  return fa.fraction_bits < fb.fraction_bits ? fa : fb;
}

/// Reads a part of a tensor: as doubles where they have to be exact, else as floats.
void read_part(const ModelTensor& tensor, const MatrixView& view, const Part& part, std::vector<float>& to) {
  gather(view, part, to, [&](std::uint64_t at, auto some) { tensor.read(at, some); });
}
void read_part(const ModelTensor& tensor, const MatrixView& view, const Part& part, std::vector<double>& to) {
  PartValues values;
  read_part(tensor, view, part, values);
  if (tensor.is_wide()) to = std::move(values.exact);
  else to.assign(values.floats.begin(), values.floats.end());
}

bool have_same_bytes(const TensorFiles& files, const StoredTensor& a, const TensorFiles& against,
                     const StoredTensor& b) {
  if (a.type != b.type || a.shape != b.shape) return false;
  constexpr std::uint64_t piece = std::uint64_t{1} << 22;
  const auto differ = parallel_map(static_cast<std::size_t>(a.bytes / piece + (a.bytes % piece != 0)),
                                   [&](std::size_t i) {
                                     const std::uint64_t at = i * piece, bytes = std::min(piece, a.bytes - at);
                                     std::vector<std::byte> x(bytes), y(bytes);
                                     files.read_bytes(a, at, x), against.read_bytes(b, at, y);
                                     return std::memcmp(x.data(), y.data(), bytes) == 0 ? 0 : 1;
                                   });
  return std::ranges::find(differ, 1) == differ.end();
}

/// How a part of one tensor differs from the same part of the other.
struct OfPart {
  std::uint64_t different = 0;
  double ulps = 0;
  Loss loss;
};
template <class T>
OfPart measure(const Pair& pair, const MatrixView& view, const Part& part) {
  OfPart of;
  std::vector<T> a, b;
  read_part(*pair.ours, view, part, a), read_part(*pair.theirs, view, part, b);
  for (std::size_t k = 0; k < a.size(); ++k) {
    if (is_same(a[k], b[k])) continue;
    ++of.different;
    if (std::isfinite(a[k]) && std::isfinite(b[k]))
      of.ulps = std::max(of.ulps, ulps_between(static_cast<double>(a[k]), static_cast<double>(b[k]), pair.ulps_of));
  }
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if constexpr (std::is_same_v<T, float>) {
    const ElementRun run = element_run({-infinity, infinity}, 1);
    add_losses(of.loss, b, a, one_block(a.size()), {&run, 1}, sum_of_squares(b));
  } else {
    for (std::size_t k = 0; k < a.size(); ++k) of.loss.count(b[k], a[k], {-infinity, infinity});
  }
  return of;
}

void measure(Pair& pair) {
  pair.ulps_of = coarser(*pair.ours, *pair.theirs);
  const MatrixView view = view_of(pair.ours->shape);
  const std::vector<Part> parts = pair.ours->count == 0 ? std::vector<Part>() : parts_of(view, {}, false);
  const bool wide = pair.ours->is_wide() || pair.theirs->is_wide();
  const auto all = parallel_map(parts.size(), [&](std::size_t i) {
    return tbb::this_task_arena::isolate(
        [&] { return wide ? measure<double>(pair, view, parts[i]) : measure<float>(pair, view, parts[i]); });
  });
  for (const OfPart& of : all)
    pair.different += of.different, pair.ulps = std::max(pair.ulps, of.ulps), pair.loss.add(of.loss);
}

/// Rows at the beginning of a part that show most casts to be wrong.
Part beginning(Part part, const BlockFormat* block) {
  constexpr std::uint64_t few = 4096;
  const std::uint64_t unit = block ? block->rows : 1;
  if (unit) part.rows = std::min(part.rows, std::max<std::uint64_t>(1, few / part.columns / unit) * unit);
  return part;
}

/// Whether `to` is `from` after a cast and the rounding to its own dtype: all of it, or as far as its beginning shows.
bool explains(const Cast& cast, const ModelTensor& from, const ModelTensor& to, bool beginning_only) {
  TensorRounding rounding(from, cast.format->format, cast.rounding);
  const BlockFormat* const block = cast.format->block();
  std::vector<Part> parts = rounding.parts();
  if (beginning_only) {
    if (block && (block->tensor_scale || by_value(cast.format->format)))
      return true;  // nothing can be said without the largest magnitude of all
    parts = {beginning(parts.front(), block)};
  } else {
    rounding.prepare();
  }
  std::atomic<bool> same = true;
  (void)parallel_map(parts.size(), [&](std::size_t i) {
    if (!same) return 0;
    tbb::this_task_arena::isolate([&] {
      RoundedPart part;
      rounding.round(parts[i], part);
      if (to.encoded) rounding.read_as(*to.encoded->layout, part);
      // What a dtype does not hold exactly was rounded to it.
      if (to.format() && *to.format() != fp64) quantize(*to.format(), {}, part.after, std::span<float>(part.after));
      const auto agrees = [&]<class T>(const std::vector<T>& made) {
        std::vector<T> wanted;
        read_part(to, rounding.view(), parts[i], wanted);
        return std::ranges::equal(wanted, made, is_same<T>);
      };
      if (to.is_wide() && part.after_exactly.empty()) part.after_exactly.assign(part.after.begin(), part.after.end());
      if (!(to.is_wide() ? agrees(part.after_exactly) : agrees(part.after))) same = false;
    });
    return 0;
  });
  return same;
}

/// Casts to the format in which a tensor is stored, which are the likeliest.
std::optional<ChosenFormat> own_format(const ModelTensor& t) {
  if (const FloatFormat* const f = t.format())
    return *f == fp64 ? std::nullopt : std::optional(ChosenFormat{format_name(*f), *f});
  try {
    return ChosenFormat{t.encoded->format, parse_block_format(t.encoded->format)};
  } catch (const std::invalid_argument&) { return {}; }  // a layout with offsets
}

/// The first cast that makes one tensor of the other.
void explain(Pair& pair, const std::vector<Cast>& casts) {
  if (pair.different == 0) {
    pair.because = pair.same_bytes                                      ? "the same bytes"
                   : pair.ours->stored_as() == pair.theirs->stored_as() ? "the same values"
                                                                        : "the same values, stored otherwise";
    return;
  }
  for (const bool forward : {true, false}) {
    const ModelTensor &from = forward ? *pair.theirs : *pair.ours, &to = forward ? *pair.ours : *pair.theirs;
    const std::optional<ChosenFormat> own = own_format(to);
    std::vector<Cast> all = own ? casts_to({*own}) : std::vector<Cast>();
    for (Cast& cast : all) cast.format = &*own;
    const std::size_t of_own = all.size();
    all.insert(all.end(), casts.begin(), casts.end());
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!explains(all[i], from, to, true) || !explains(all[i], from, to, false)) continue;
      pair.because = all[i].name;
      if (i >= of_own) pair.because += fmt::format(", stored as {}", to.stored_as());
      if (!forward) pair.because = fmt::format("the other one is this in {}", pair.because);
      return;
    }
  }
}

std::string described(const StoredTensor& t) { return fmt::format("{} [{}]", t.type->name, fmt::join(t.shape, ", ")); }
std::string described(const ModelTensor& t) { return fmt::format("{} [{}]", t.stored_as(), fmt::join(t.shape, ", ")); }

/// The table `differences`.
void report_differences(Run& run, const std::vector<Pair>& pairs) {
  Table& table = run.report.table(
      "differences", "Each tensor of both, the most different first",
      {{"tensor", "", "Name of the tensor."},
       {"stored_as", "", "How the checkpoint stores it."},
       {"against", "", "How the other one does."},
       {"elements", "value", "Its numbers."},
       {"different", "value", "Those that differ; zeros of both signs, and all NaN, are the same."},
       {"largest_ulps", "ulp", "The largest difference of finite values, in ulps at the other one's value."},
       {"ulps_of", "", "The format of these ulps: the coarser of both; null where nothing differs."},
       {"largest_error", "1", "The largest difference; null where nothing is finite in both."},
       {"relative_error", "1", "Norm of the differences over that of the other one's values."},
       {"sqnr", "dB", "The same as signal to noise; null where nothing differs."},
       {"because", "", "What makes one of the other, every value the same; null: none of the casts that were tried."}});
  std::vector<const Pair*> order;
  for (const Pair& p : pairs) order.push_back(&p);
  const auto error = [](const Pair* p) {
    const bool lost = p->loss.became_infinite || p->loss.became_nan ||
                      p->loss.infinite_before != p->loss.infinite_after;
    return lost || std::isnan(p->loss.relative_error()) ? std::numeric_limits<double>::infinity()
                                                        : p->loss.relative_error();
  };
  std::ranges::stable_sort(order, std::ranges::greater{}, error);
  for (const Pair* p : order)
    table.row({p->ours->name, p->ours->stored_as(), p->theirs->stored_as(), p->ours->count, p->different,
               number(p->ulps), p->different ? Json(format_name(p->ulps_of)) : Json(),
               p->loss.compared ? number(p->loss.largest_error) : Json(), relative_error(p->loss), sqnr(p->loss),
               p->because.empty() ? Json() : Json(p->because)});
}

/// The tables `causes` and `totals`, and the claim. `apart`, `others`: tensors outside the pairs.
void report_sums(Run& run, const std::vector<Pair>& pairs, std::uint64_t apart, std::uint64_t others) {
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> causes;
  std::uint64_t different = 0, unexplained = 0, elements = 0, compared = 0;
  for (const Pair& p : pairs) {
    auto& [tensors, values] = causes[p.because];
    ++tensors, values += p.ours->count;
    different += p.different > 0, unexplained += p.because.empty();
    elements += p.ours->count, compared += p.loss.elements;
  }
  Table& summary = run.report.table("causes", "What explains the tensors of both",
                                    {{"because", "", "A cast, or what is the same; null: none of the casts tried."},
                                     {"tensors", "tensor", "How many."},
                                     {"elements", "value", "Their numbers."}});
  for (const auto& [because, sums] : causes)
    summary.row({because.empty() ? Json() : Json(because), sums.first, sums.second});
  Table& totals = run.report.table("totals", "Both checkpoints",
                                   {{"tensors", "tensor", "Of floats, in both."},
                                    {"different", "tensor", "In which a value differs."},
                                    {"unexplained", "tensor", "Of these, that no cast explains."},
                                    {"apart", "tensor", "In one alone, or of other shapes or types."},
                                    {"others", "tensor", "Of integers and truth values, the same bytes in both."}});
  totals.row({pairs.size(), different, unexplained, apart, others});
  run.report.claim({"every-element-compared", "Every element of every tensor that both have was compared.",
                    "derived: the shapes in the files' headers"},
                   pairs.empty() ? "no tensor of floats is in both" : "",
                   [&] { return exactly(elements, compared, "oracle"); });
}

void compare(const Config& config, Run& run) {
  const ModelTensors ours(checkpoint_path(config)), theirs(checkpoint_path(config, "against"));
  const std::vector<ChosenFormat> formats = chosen_formats(config.text("formats"), "formats");
  const std::vector<Cast> casts = casts_to(formats);
  const NameGlobs wanted(config, "tensors", ours);

  Table& apart = run.report.table("apart", "Tensors of one checkpoint alone, or that cannot be compared",
                                  {{"tensor", "", "Name of the tensor."},
                                   {"checkpoint", "", "How the checkpoint stores it; null: it does not."},
                                   {"against", "", "How the other one stores it; null: it does not."}});
  std::map<std::string_view, const ModelTensor*> by_name;
  for (const ModelTensor& t : theirs.tensors())
    if (wanted.match(t.name)) by_name[t.name] = &t;
  std::vector<Pair> pairs;
  double elements = 0;
  for (const ModelTensor& t : ours.tensors()) {
    if (!wanted.match(t.name)) continue;
    const auto found = by_name.find(t.name);
    const ModelTensor* const other = found == by_name.end() ? nullptr : found->second;
    if (other) by_name.erase(found);
    if (other && other->shape == t.shape)
      pairs.push_back({&t, other, false, 0, 0, {}, {}, {}}), elements += static_cast<double>(t.count);
    else if (const StoredTensor* const stored = theirs.files().find(t.name); !other && stored)
      apart.row({t.name, described(t), described(*stored)});
    else apart.row({t.name, described(t), other ? Json(described(*other)) : Json()});
  }
  for (const ModelTensor& t : theirs.tensors())
    if (by_name.contains(t.name) && !ours.files().find(t.name)) apart.row({t.name, nullptr, described(t)});
  std::uint64_t others = 0;
  for (const StoredTensor* t : ours.others()) {
    if (!wanted.match(t->name)) continue;
    const StoredTensor* const other = theirs.files().find(t->name);
    if (other && have_same_bytes(ours.files(), *t, theirs.files(), *other)) {
      ++others;
      continue;
    }
    apart.row({t->name, described(*t), other ? Json(described(*other)) : Json()});
  }
  for (const StoredTensor* t : theirs.others())
    if (wanted.match(t->name) && !ours.files().find(t->name)) apart.row({t->name, nullptr, described(*t)});

  TimedProgress progress(run);
  (void)parallel_map(pairs.size(), [&](std::size_t i) {
    Pair& pair = pairs[i];
    const StoredTensor *const a = pair.ours->plain, *const b = pair.theirs->plain;
    pair.same_bytes = a && b && have_same_bytes(ours.files(), *a, theirs.files(), *b);
    measure(pair);
    explain(pair, casts);
    progress.advance(elements > 0 ? static_cast<double>(pair.ours->count) / elements : 0);
    return 0;
  });
  ours.files().check_unchanged(), theirs.files().check_unchanged();

  report_differences(run, pairs);
  report_sums(run, pairs, apart.to_json()["rows"].size(), others);
}

std::string finding_of_difference(const ReportTables& tables) {
  const auto rows = tables.rows("totals");
  if (rows.empty()) return {};
  const TableRow& all = rows.front();
  if (all.number("different") == 0 && all.number("apart") == 0) return "every value of every tensor is the same";
  return fmt::format("{} of {} tensors differ, {} of them as no cast explains; {} are in one alone",
                     all.whole("different"), all.whole("tensors"), all.whole("unexplained"), all.whole("apart"));
}

}  // namespace
}  // namespace checkpoint

Experiment checkpoint_difference_experiment() {
  return {"checkpoint_difference",
          "Two checkpoints side by side",
          "Which tensors differ, by how much, and which cast explains it?",
          checkpoint::difference_parameters,
          checkpoint::compare,
          checkpoint::finding_of_difference,
          {"causes", {"because", "tensors", "elements"}, {}, {}}};
}

}  // namespace halfulp
