// A format for each tensor of a checkpoint: the mix that keeps a budget and loses least.
#include <halfulp/data/layout_writing.hpp>
#include <halfulp/experiments/byte_count.hpp>
#include <halfulp/experiments/checkpoint/checkpoint.hpp>
#include <halfulp/experiments/checkpoint/entries.hpp>
#include <halfulp/experiments/checkpoint/mix.hpp>
#include <halfulp/report/config.hpp>
#include <halfulp/support/spelling.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>

namespace halfulp {
namespace checkpoint {
namespace {

constexpr const char *as_stored = "stored", *packed = "packed";

std::vector<Parameter> choice_parameters() {
  using Type = ParameterType;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  std::vector<std::string> stores{packed};
  for (const std::string_view writer : layout_writers()) stores.emplace_back(writer);
  std::vector<Parameter> all = entry_parameters("e4m3-row,mxfp8e4m3,mxfp6e2m3,mxfp6e3m2,nvfp4,int8,int4");
  all.insert(all.end(),
             {{"bytes", Type::text, "",
               "the most bytes that the tensors may take, with a unit (900MB, 1.5GiB), or as a share of what they take "
               "now (0.3)"},
              {"bits", Type::real, "0", "the same in bits, on average over all numbers; 0: no such budget", 0, 64},
              {"sqnr", Type::real, "0",
               "the least ratio of signal to error that must be kept, in dB; the fewest bytes are sought. 0: no such "
               "budget",
               0, 400},
              {"measure",
               Type::choice,
               "absolute",
               "what adds up: squared errors as they are; or relative to each tensor's own mean square, times its "
               "elements (relative)",
               -infinity,
               infinity,
               {"absolute", "relative"}},
              {"layout", Type::choice, packed,
               "whose layout is to hold the tensors: bytes are those that it takes, and a tensor may have the formats "
               "that it holds; packed: any format, without gaps",
               -infinity, infinity, stores},
              {"keep", Type::text, "", "globs of tensors that stay as they are stored, separated by commas"},
              {"axes", Type::integer, "2", "tensors of fewer axes (norms, biases) stay as they are stored", 0, 8}});
  return all;
}

/// A tensor and its options; the last one leaves it as it is stored.
struct Tensor {
  const Entry* entry = nullptr;
  std::vector<MixOption> options = {};  ///< cost: bytes, loss: error
  std::vector<std::size_t> formats = {};
  std::string stays = {};  ///< why it has no other
};

/// Squared error of a tensor, in units of which a signal has `signal`.
struct Measured {
  double error = 0, signal = 0;
};
Measured measured(const Entry& entry, const Loss& loss, bool relative) {
  const double elements = static_cast<double>(entry.survey.tensor->count), squares = entry.survey.facts.squares;
  const double part = loss.relative_error() * loss.relative_error();
  return relative ? Measured{part * elements, elements} : Measured{part * squares, squares};
}

/// Whether a mix may contain a format with this loss: nothing becomes infinite or NaN, so that the error says it all.
bool is_usable(const Loss& loss) { return loss.keeps_specials() && std::isfinite(loss.relative_error()); }

/// Whether a tensor of the checkpoint other than this one has a name.
bool is_taken(const std::string& name, const ModelTensor& by, const ModelTensors& model) {
  const StoredTensor* const other = model.files().find(name);
  return other && other != by.plain &&
         (!by.encoded || std::ranges::find(by.encoded->parts, other) == by.encoded->parts.end());
}

/// The bytes of a tensor in that layout; none where it does not hold the tensor in this format beside all others.
std::optional<std::uint64_t> bytes_in(const std::string& layout, const ModelTensor& tensor, const ModelTensors& model,
                                      const Kept& kept, const ChosenFormat& format) {
  if (layout == packed) return kept.bytes;
  if (!format.block()) return {};
  try {
    const EncodedWeight weight(layout, tensor.name, tensor.shape, *format.block(), bf16);
    std::uint64_t bytes = 0;
    for (const StoredTensor& part : weight.parts()) {
      if (is_taken(part.name, tensor, model)) return {};
      bytes += part.bytes;
    }
    return bytes;
  } catch (const std::invalid_argument&) { return {}; }
}

/// Why a tensor without a usable format has none.
std::string why_unusable(const Facts& facts) {
  if (facts.nan) return "holds NaN";
  if (facts.infinite) return "holds infinities";
  return "fits no format and layout";
}

class Choice {
 public:
  Choice(const Config& config, Run& run, const Entries& entries)
      : config_(config), run_(run), entries_(entries), relative_(config.text("measure") == "relative") {
    const NameGlobs keep(config, "keep", entries.model());
    const auto axes = static_cast<std::size_t>(config.integer("axes"));
    const std::string layout = config.text("layout");
    std::size_t may_be_rounded = 0;
    for (const Entry& e : entries.all()) {
      const ModelTensor& t = *e.survey.tensor;
      signal_ += measured(e, {}, relative_).signal;
      elements_ += t.count, stored_ += t.bytes;
      // Tensors are rounded as floats: what fp32 does not hold stays, and quantize would refuse it.
      Tensor tensor{&e};
      tensor.stays = t.count == 0                 ? "is empty"
                     : t.shape.size() < axes      ? fmt::format("has fewer than {} axes", axes)
                     : keep.match(t.name)         ? "is named by keep"
                     : beyond_fp32(t, 0, t.count) ? "holds numbers that fp32 does not"
                                                  : "";
      may_be_rounded += tensor.stays.empty();
      for (std::size_t f = 0; f < entries.formats().size() && tensor.stays.empty(); ++f) {
        const Kept& k = e.survey.kept[f];
        const auto bytes = bytes_in(layout, t, entries.model(), k, entries.formats()[f]);
        if (!bytes || !is_usable(k.loss)) continue;
        tensor.options.push_back({static_cast<double>(*bytes), measured(e, k.loss, relative_).error});
        tensor.formats.push_back(f);
      }
      if (tensor.stays.empty() && tensor.options.empty()) tensor.stays = why_unusable(e.survey.facts);
      tensor.options.push_back({static_cast<double>(t.bytes), 0});
      tensor.formats.push_back(entries.formats().size());
      tensors_.push_back(std::move(tensor));
    }
    if (layout != packed && may_be_rounded &&
        std::ranges::all_of(tensors_, [](const Tensor& t) { return t.options.size() == 1; }))
      throw std::invalid_argument(fmt::format(
          "layout: {} holds no tensor that may be rounded in any of these formats; accepted: --formats of this layout "
          "(docs/how-to/inspect-a-checkpoint.md, Write it, has a table)",
          layout));
  }

  void choose() {
    const bool by_sqnr = config_.real("sqnr") > 0;
    if (by_sqnr) {
      const double allowed = signal_ * std::pow(10.0, -config_.real("sqnr") / 10);
      mix_ = best_mix(turned(), allowed);
      std::swap(mix_.cost, mix_.loss);
      budget_ = allowed;
    } else {
      budget_ = byte_budget();
      std::vector<std::vector<MixOption>> options;
      for (const Tensor& t : tensors_) options.push_back(t.options);
      try {
        mix_ = best_mix(options, budget_);
      } catch (const std::invalid_argument&) {
        double least = 0;
        for (const Tensor& t : tensors_)
          least += std::min_element(t.options.begin(), t.options.end(), [](const MixOption& a, const MixOption& b) {
                     return a.cost < b.cost;
                   })->cost;
        throw std::invalid_argument(fmt::format(
            "{}: the tensors take {:.0f} bytes, {:.4g} bits an element, in the narrowest formats that they may have, "
            "and {:.0f} bytes are allowed{}",
            config_.real("bits") > 0 ? "bits" : "bytes", least, 8 * least / static_cast<double>(elements_), budget_,
            largest_that_stays()));
      }
    }
    report(by_sqnr);
  }

 private:
  /// Says what the largest tensor that cannot be rounded is like.
  std::string largest_that_stays() const {
    const Tensor* largest = nullptr;
    for (const Tensor& t : tensors_)
      if (!t.stays.empty() && (!largest || t.options.back().cost > largest->options.back().cost)) largest = &t;
    return largest ? fmt::format("; {} {} and stays as it is", shown_name(largest->entry->name()), largest->stays) : "";
  }

  std::vector<std::vector<MixOption>> turned() const {
    std::vector<std::vector<MixOption>> options;
    for (const Tensor& t : tensors_) {
      options.emplace_back();
      for (const MixOption& o : t.options) options.back().push_back({o.loss, o.cost});
    }
    return options;
  }

  double byte_budget() const {
    if (config_.real("bits") > 0) return std::floor(config_.real("bits") * static_cast<double>(elements_) / 8);
    const auto written = parse_written_number(config_.text("bytes"));
    if (!written || (!written->is_bytes && written->value > 1))
      throw std::invalid_argument("bytes: " + shown(config_.text("bytes")) +
                                  "; accepted: bytes with a unit, such as 900MB or 1.5GiB, or a share from 0 to 1");
    return std::floor(written->is_bytes ? written->value : written->value * static_cast<double>(stored_));
  }

  std::string format_name(std::size_t format) const {
    return format == entries_.formats().size() ? as_stored : entries_.formats()[format].name;
  }
  Json decibels(double error) const { return error > 0 ? sqnr(std::sqrt(error / signal_)) : Json(); }

  void report(bool by_sqnr) {
    Table& choice = run_.report.table("choice", "The format of each tensor",
                                      {{"tensor", "", "Name of the tensor."},
                                       {"layer", "", "Its layer."},
                                       {"role", "", "What it is for."},
                                       {"format", "", "The format chosen; `stored`: it stays as it is."},
                                       {"bytes", "byte", "Of the tensor in that format."},
                                       {"sqnr", "dB", "Of the tensor; null where nothing is lost."},
                                       {"narrower", "", "The next narrower option; null where there is none."},
                                       {"narrower_sqnr", "dB", "Of the tensor in that."},
                                       {"stays", "", "Why it cannot be rounded; null where it can."}});
    Json chosen = Json::object();
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const Tensor& t = tensors_[i];
      const std::size_t option = mix_.chosen[i], format = t.formats[option];
      const auto of_option = [&](std::size_t o) {
        return t.formats[o] == entries_.formats().size() ? Json() : sqnr(t.entry->survey.kept[t.formats[o]].loss);
      };
      std::size_t narrower = option;
      for (std::size_t o = 0; o < t.options.size(); ++o)
        if (t.options[o].cost < t.options[option].cost &&
            (narrower == option || t.options[o].cost > t.options[narrower].cost))
          narrower = o;
      choice.row({t.entry->name(), t.entry->layer, t.entry->role, format_name(format), whole(t.options[option].cost),
                  of_option(option), narrower == option ? Json() : Json(format_name(t.formats[narrower])),
                  narrower == option ? Json() : of_option(narrower), t.stays.empty() ? Json() : Json(t.stays)});
      if (format < entries_.formats().size()) chosen[t.entry->name()] = format_name(format);
    }
    report_totals();
    Table& mix = run_.report.table("mix", "The mix, as a file has it",
                                   {{"mix", "", "JSON: the format of each tensor that is rounded."}});
    mix.row({Json({{"version", 1}, {"tensors", chosen}}).dump(-1, ' ', false, Json::error_handler_t::replace)});
    claim(by_sqnr);
  }

  static std::uint64_t whole(double bytes) { return static_cast<std::uint64_t>(bytes); }

  /// The mix, and every single format under the same rules.
  void report_totals() {
    Table& table = run_.report.table(
        "totals", "The mix beside single formats",
        {{"format", "", "The mix, one format for all tensors that may be rounded, or everything as it is stored."},
         {"bits", "bit", "Of an element of all tensors, on average."},
         {"bytes", "byte", "Of all tensors of numbers."},
         {"sqnr", "dB", "By the measure of the choice; null where nothing is lost."},
         {"rounded", "tensor", "Tensors that are rounded."}});
    const auto row = [&](const std::string& name, double bytes, double error, std::size_t rounded) {
      table.row({name, elements_ ? number(8 * bytes / static_cast<double>(elements_)) : Json(), whole(bytes),
                 decibels(error), rounded});
    };
    std::size_t rounded = 0;
    for (std::size_t i = 0; i < tensors_.size(); ++i)
      rounded += tensors_[i].formats[mix_.chosen[i]] != entries_.formats().size();
    row("mix", mix_.cost, mix_.loss, rounded);
    for (std::size_t f = 0; f <= entries_.formats().size(); ++f) {
      const Single one = single(f);
      row(format_name(f), one.bytes, one.error, one.rounded);
    }
  }

  /// One format for every tensor that may be rounded to it.
  struct Single {
    double bytes = 0, error = 0;
    std::size_t rounded = 0;
  };
  Single single(std::size_t format) const {
    Single sum;
    for (const Tensor& t : tensors_) {
      const auto found = std::find(t.formats.begin(), t.formats.end(), format);
      const MixOption& o = found == t.formats.end() ? t.options.back()
                                                    : t.options[static_cast<std::size_t>(found - t.formats.begin())];
      sum.bytes += o.cost, sum.error += o.loss;
      sum.rounded += found != t.formats.end() && format != entries_.formats().size();
    }
    return sum;
  }

  void claim(bool by_sqnr) {
    const Citation source = "derived: the budget that was given";
    if (by_sqnr)
      run_.report.claim({"mix-keeps-the-budget", "The mix keeps the signal that was asked for.", source},
                        at_most(budget_, mix_.loss, "oracle"));
    else
      run_.report.claim({"mix-keeps-the-budget", "The mix takes no more bytes than were given.", source},
                        at_most(budget_, mix_.cost, "oracle"));
    const double reached = by_sqnr ? mix_.cost : mix_.loss;
    run_.report.claim({"mix-is-the-best", "No other choice of these formats keeps the budget and is better.",
                       "derived: Lagrangian bound and search; Sinha & Zoltners 1979, Operations Research 27(3)"},
                      mix_.proven ? ""
                                  : fmt::format("the search ended early: none is better by more than a share of {:.2g}",
                                                reached > 0 ? (reached - mix_.bound) / reached : 0),
                      [&] { return exactly(number(mix_.bound), number(reached), "oracle"); });
    std::uint64_t better = 0;
    for (std::size_t f = 0; f <= entries_.formats().size(); ++f) {
      const Single one = single(f);
      better += by_sqnr ? one.error <= budget_ && one.bytes < mix_.cost : one.bytes <= budget_ && one.error < mix_.loss;
    }
    run_.report.claim({"no-single-format-is-better", "No single format within the budget is better than the mix.",
                       "derived: a single format is one of the mixes"},
                      exactly(0, better, "oracle"));
  }

  const Config& config_;
  Run& run_;
  const Entries& entries_;
  bool relative_;
  std::vector<Tensor> tensors_;
  double signal_ = 0, budget_ = 0;
  std::uint64_t elements_ = 0, stored_ = 0;
  Mix mix_;
};

void run_choice(const Config& config, Run& run) {
  const int budgets = !config.text("bytes").empty() + (config.real("bits") > 0) + (config.real("sqnr") > 0);
  if (budgets != 1)
    throw std::invalid_argument(
        fmt::format("{} given; accepted: one of bytes (900MB, 0.3), bits (such as 5) and sqnr (such as 30)",
                    budgets == 0 ? "no budget above 0 is" : "several budgets are"));
  Entries entries(config, run);
  entries.look(4);
  Choice(config, run, entries).choose();
}

std::string finding_of_choice(const ReportTables& tables) {
  const auto rows = tables.rows("totals");
  if (rows.empty()) return {};
  return fmt::format("{:.3g} bits an element keep {} of all tensors, of which {} {} rounded", rows[0].number("bits"),
                     rows[0]["sqnr"].is_null() ? "everything" : fmt::format("{:.1f} dB", rows[0].number("sqnr")),
                     rows[0].whole("rounded"), rows[0].number("rounded") == 1 ? "is" : "are");
}

}  // namespace
}  // namespace checkpoint

Experiment checkpoint_choice_experiment() {
  return {"checkpoint_choice",
          "A format for each tensor of a checkpoint",
          "Which mix of formats keeps a budget and loses least?",
          checkpoint::choice_parameters,
          checkpoint::run_choice,
          checkpoint::finding_of_choice,
          {"totals", {"format", "bits", "bytes", "sqnr", "rounded"}, {}, {}}};
}

}  // namespace halfulp
