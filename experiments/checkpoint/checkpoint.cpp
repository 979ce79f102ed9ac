#include <halfulp/experiments/checkpoint/checkpoint.hpp>

#include <halfulp/emulation/dot.hpp>
#include <halfulp/experiments/checkpoint/entries.hpp>
#include <halfulp/experiments/checkpoint/outputs.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/report/config.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>
#include <variant>

namespace halfulp {
namespace checkpoint {
namespace {

std::vector<Parameter> parameters() {
  std::vector<Parameter> all = entry_parameters("fp16,e4m3,e4m3-tensor,e4m3-row,mxfp8e4m3,nvfp4,int8,int4");
  all.push_back({"outliers", ParameterType::real, "4",
                 "a column is an outlier if its largest magnitude is so many times that of the median column, or more",
                 1, 1e6});
  for (Parameter& parameter : output_parameters()) all.push_back(std::move(parameter));
  return all;
}

std::string shape_words(const std::vector<std::uint64_t>& shape) {
  return shape.empty() ? "scalar" : fmt::format("{}", fmt::join(shape, " x "));
}

/// What is known of one format over several tensors.
struct Sum {
  Loss loss;
  std::uint64_t bytes = 0;
  void add(const Kept& kept) { loss.add(kept.loss), bytes += kept.bytes; }
  Json bits() const {
    return loss.elements ? number(8 * static_cast<double>(bytes) / static_cast<double>(loss.elements)) : Json();
  }
};

Json largest_error(const Loss& loss) { return loss.compared ? number(loss.largest_error) : Json(); }
std::uint64_t not_finite(const Loss& loss) { return loss.became_infinite + loss.became_nan; }

/// Whether a loses more than b: first of all finite elements that do not stay finite.
bool is_worse(const Loss& a, const Loss& b) {
  return std::pair(not_finite(a), a.relative_error()) > std::pair(not_finite(b), b.relative_error());
}

class Inspection {
 public:
  Inspection(Run& run, const Entries& entries)
      : run_(run),
        entries_(entries.all()),
        formats_(entries.formats()),
        others_(entries.others()),
        model_(entries.model()),
        elements_(entries.elements()),
        whole_(entries.are_whole()) {}

  void report() {
    report_formats();
    report_tensors();
    report_losses();
    report_sums("layers", "Each layer in every format", "layer", "Layer.", [](const Entry& e) { return e.layer; });
    report_sums("roles", "Each role in every format", "role", "What tensors are for, by their names.",
                [](const Entry& e) { return e.role; });
    report_exponents();
    std::vector<const StorageLayout*> layouts;
    for (const Entry& e : entries_)
      if (e.survey.tensor->encoded) layouts.push_back(e.survey.tensor->encoded->layout);
    report_layouts(run_, layouts);
    report_others();
    claim();
  }

 private:
  void report_formats() {
    Table& table = run_.report.table(
        "formats", "All tensors in each format",
        {{"format", "", "Format of every tensor."},
         {"bits", "bit", "Of an element, with its share of scales and zero points."},
         {"bytes", "byte", "Of all tensors: code words packed, scales, zero points."},
         {"relative_error", "1", "Norm of the errors over that of the values, of elements that stay finite."},
         {"sqnr", "dB", "Signal to quantization noise: -20 log10 of the relative error; null where nothing was lost."},
         {"worst_sqnr", "dB",
          "That of the tensor that loses most; null where none does, or where finite elements of it did not stay so."},
         {"worst_tensor", "",
          "That tensor: the one with the most elements that did not stay finite, or with the least ratio."},
         {"lossless", "tensor", "Tensors of which every element stays what it is."},
         {"saturated", "1", "Share of elements beyond the largest value that their block can hold."},
         {"to_zero", "1", "Share of elements that became zero."},
         {"not_finite", "1", "Share of finite elements that became infinite or NaN."}});
    for (std::size_t f = 0; f < formats_.size(); ++f) {
      Sum sum;
      std::uint64_t lossless = 0;
      const Entry* worst = nullptr;
      for (const Entry& e : entries_) {
        const Loss& loss = e.survey.kept[f].loss;
        sum.add(e.survey.kept[f]);
        lossless += loss.is_lossless();
        if ((not_finite(loss) || (loss.compared && loss.relative_error() > 0)) &&
            (!worst || is_worse(loss, worst->survey.kept[f].loss)))
          worst = &e;
      }
      const bool bounded = worst && not_finite(worst->survey.kept[f].loss) == 0;
      table.row({formats_[f].name, sum.bits(), sum.bytes, relative_error(sum.loss), sqnr(sum.loss),
                 bounded ? sqnr(worst->survey.kept[f].loss) : Json(), worst ? Json(worst->name()) : Json(), lossless,
                 share(sum.loss.saturated, sum.loss.elements), share(sum.loss.to_zero, sum.loss.elements),
                 share(not_finite(sum.loss), sum.loss.elements)});
    }
  }

  void report_tensors() {
    Table& table = run_.report.table(
        "tensors", "What is in each tensor",
        {{"tensor", "", "Name of the tensor."},
         {"layer", "", "Its layer: the name up to the first number."},
         {"role", "", "What it is for, by its name."},
         {"stored_as", "", "Its dtype as safetensors has it, or the block format of its code words and scales."},
         {"shape", "", "Its extents."},
         {"elements", "value", "Its numbers."},
         {"bytes", "byte", "Of all that is stored for it."},
         {"amax", "1", "Largest finite magnitude."},
         {"rms", "1", "Root mean square of the finite elements; null if there is none."},
         {"zeros", "1", "Share of elements that are zero."},
         {"nan", "value", "Elements that are NaN."},
         {"infinite", "value", "Elements that are infinite."},
         {"outlier_columns", "column",
          "Columns (input channels) whose largest magnitude is far above the median column's; null of one row."},
         {"outlier_share", "1", "Their share of the columns."}});
    for (const Entry& e : entries_) {
      const ModelTensor& t = *e.survey.tensor;
      const Facts& f = e.survey.facts;
      const std::uint64_t finite = t.count - f.nan - f.infinite;
      table.row({t.name, e.layer, e.role, t.stored_as(), shape_words(t.shape), t.count, t.bytes, number(f.amax),
                 finite ? number(std::sqrt(f.squares / static_cast<double>(finite))) : Json(), share(f.zeros, t.count),
                 f.nan, f.infinite, f.columns ? Json(f.outlier_columns) : Json(),
                 f.columns ? share(f.outlier_columns, f.columns) : Json()});
    }
  }

  void report_losses() {
    Table& table = run_.report.table(
        "losses", "Each tensor in each format, the worst first",
        {{"format", "", "Format of the tensor."},
         {"tensor", "", "Name of the tensor."},
         {"layer", "", "Its layer."},
         {"role", "", "What it is for."},
         {"bits", "bit", "Of an element, with its share of scales and zero points; null of no elements."},
         {"bytes", "byte", "Of code words, scales and zero points."},
         {"relative_error", "1", "Norm of the errors over that of the values; null where nothing stays finite."},
         {"sqnr", "dB", "Signal to quantization noise; null where nothing was lost."},
         {"largest_error", "1", "Largest error of an element."},
         {"saturated", "value", "Elements beyond the largest value that their block can hold."},
         {"to_zero", "value", "Elements that became zero."},
         {"not_finite", "value", "Finite elements that became infinite or NaN."}});
    for (std::size_t f = 0; f < formats_.size(); ++f) {
      std::vector<const Entry*> order;
      for (const Entry& e : entries_) order.push_back(&e);
      std::stable_sort(order.begin(), order.end(), [f](const Entry* a, const Entry* b) {
        return is_worse(a->survey.kept[f].loss, b->survey.kept[f].loss);
      });
      for (const Entry* e : order) {
        const Kept& k = e->survey.kept[f];
        table.row({formats_[f].name, e->name(), e->layer, e->role, k.loss.elements ? number(k.bits) : Json(), k.bytes,
                   relative_error(k.loss), sqnr(k.loss), largest_error(k.loss), k.loss.saturated, k.loss.to_zero,
                   not_finite(k.loss)});
      }
    }
  }

  /// Sums over the tensors that `group` gives one name, in the order of the first.
  template <class Group>
  void report_sums(const char* name, const char* title, const char* column, const char* help, Group group) {
    Table& table = run_.report.table(
        name, title,
        {{column, "", help},
         {"format", "", "Format of its tensors."},
         {"tensors", "tensor", "How many."},
         {"elements", "value", "Their numbers."},
         {"bytes", "byte", "Of code words, scales and zero points."},
         {"relative_error", "1", "Norm of the errors over that of the values; null where nothing stays finite."},
         {"sqnr", "dB", "Signal to quantization noise; null where nothing was lost."},
         {"not_finite", "value", "Finite elements that became infinite or NaN."}});
    std::vector<std::string> names;
    std::map<std::string, std::vector<const Entry*>> groups;
    for (const Entry& e : entries_) {
      std::vector<const Entry*>& members = groups[group(e)];
      if (members.empty()) names.push_back(group(e));
      members.push_back(&e);
    }
    for (const std::string& of : names)
      for (std::size_t f = 0; f < formats_.size(); ++f) {
        Sum sum;
        for (const Entry* e : groups[of]) sum.add(e->survey.kept[f]);
        table.row({of, formats_[f].name, groups[of].size(), sum.loss.elements, sum.bytes, relative_error(sum.loss),
                   sqnr(sum.loss), not_finite(sum.loss)});
      }
  }

  void report_exponents() {
    Table& table = run_.report.table("exponents", "How many elements have which binary exponent",
                                     {{"tensor", "", "Name of the tensor."},
                                      {"role", "", "What it is for."},
                                      {"exponent", "1", "floor(log2 |x|); null: zeros."},
                                      {"elements", "value", "How many."}});
    for (const Entry& e : entries_) {
      if (e.survey.facts.zeros) table.row({e.name(), e.role, nullptr, e.survey.facts.zeros});
      for (const auto& [exponent, count] : e.survey.facts.exponents) table.row({e.name(), e.role, exponent, count});
    }
  }

  void report_others() {
    Table& table = run_.report.table("others", "Tensors that are no floats, and stay as they are",
                                     {{"tensor", "", "Name of the tensor."},
                                      {"dtype", "", "How it is stored."},
                                      {"shape", "", "Its extents."},
                                      {"bytes", "byte", "Of its data."}});
    for (const StoredTensor* t : others_) table.row({t->name, t->type->name, shape_words(t->shape), t->bytes});
  }

  void claim() {
    std::uint64_t counted = 0, changed = 0, wide = 0, bounded = 0, beyond = 0;
    for (const Entry& e : entries_) {
      const Facts& facts = e.survey.facts;
      counted += facts.zeros + facts.nan + facts.infinite;
      for (const auto& [exponent, count] : facts.exponents) counted += count;
      for (std::size_t f = 0; f < formats_.size(); ++f) {
        const auto* const plain = std::get_if<FloatFormat>(&formats_[f].format);
        const Loss& loss = e.survey.kept[f].loss;
        if (!plain) continue;
        if (const FloatFormat* const stored = e.survey.tensor->format();
            stored && *stored != fp64 && holds(*plain, *stored) && facts.infinite == 0)  // infinities may saturate
          ++wide, changed += !loss.is_lossless();
        const bool in_range = loss.saturated == 0 && not_finite(loss) == 0 &&
                              (facts.exponents.empty() || facts.exponents.begin()->first >= plain->emin());
        if (loss.compared == 0 || !in_range) continue;
        ++bounded, beyond += loss.relative_error() > FloatFormat::power_of_two(-plain->precision());
      }
    }
    run_.report.claim(
        {"every-element-counted", "Every element of a tensor of floats is zero, NaN, infinite, or has one exponent.",
         "derived: the shapes in the file's header"},
        entries_.empty() ? "there is no tensor of floats" : "", [&] { return exactly(elements_, counted, "oracle"); });
    run_.report.claim(
        {"lossless-casts", "A cast of finite values to a format that holds all of theirs changes nothing.",
         "derived: rounding gives back what a format holds"},
        wide == 0 ? "no plain format holds all values of the format of a tensor that is finite" : "",
        [&] { return exactly(0, changed, "oracle"); });
    run_.report.claim({"errors-within-half-an-ulp",
                       "A tensor whose values all lie in the normal range of a plain format has a relative error of "
                       "at most 2^-p there, p being the format's precision.",
                       "derived: Higham 2002, Accuracy and Stability of Numerical Algorithms, theorem 2.2"},
                      bounded == 0 ? "no tensor lies in the normal range of a plain format" : "",
                      [&] { return exactly(0, beyond, "oracle"); });
    run_.report.claim({"bytes-add-up", "The data of a safetensors file are its tensors, without gaps.",
                       "derived: huggingface/safetensors, README.md, Format"},
                      whole_ ? "" : "not all tensors were looked at",
                      [&] { return exactly(file_bytes(), tensor_bytes(), "oracle"); });
  }

  std::uint64_t file_bytes() const {
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < model_.files().files().size(); ++i) {
      std::uint64_t first = model_.files().files()[i].size();
      for (const StoredTensor& t : model_.files().tensors())
        if (t.file == i) first = std::min(first, t.offset);
      bytes += model_.files().files()[i].size() - first;
    }
    return bytes;
  }
  std::uint64_t tensor_bytes() const {
    std::uint64_t bytes = 0;
    for (const Entry& e : entries_) bytes += e.survey.tensor->bytes;
    for (const StoredTensor* t : others_) bytes += t->bytes;
    return bytes;
  }

  Run& run_;
  const std::vector<Entry>& entries_;
  const std::vector<ChosenFormat>& formats_;
  const std::vector<const StoredTensor*>& others_;
  const ModelTensors& model_;
  std::uint64_t elements_;
  bool whole_;
};

void inspect(const Config& config, Run& run) {
  check_outputs(config);
  Entries entries(config, run);
  entries.look(config.real("outliers"));
  Inspection(run, entries).report();
  report_outputs(config, run, entries);
}

/// The format of the fewest bits, and what it does to the worst tensor.
std::string finding(const ReportTables& tables) {
  const auto rows = tables.rows("formats");
  const TableRow* const least = smallest(rows, "bits");
  if (!least) return {};
  if (const double share = least->number("not_finite"); share > 0)
    return fmt::format("in {} ({:.3g} bits) {:.3g} % of the elements become infinite or NaN, most in {}",
                       least->text("format"), least->number("bits"), 100 * share, least->text("worst_tensor"));
  if ((*least)["sqnr"].is_null())
    return fmt::format("{} keeps every {}", least->text("format"),
                       least->number("lossless") == static_cast<double>(tables.rows("tensors").size())
                           ? "value"
                           : "finite value, but not infinities and NaN as they are");
  return fmt::format("{} ({:.3g} bits) keeps {:.1f} dB, in its worst tensor {:.1f} dB: {}", least->text("format"),
                     least->number("bits"), least->number("sqnr"), least->number("worst_sqnr"),
                     least->text("worst_tensor"));
}

}  // namespace
}  // namespace checkpoint

Experiment checkpoint_experiment() {
  return {"checkpoint",
          "A checkpoint of one's own in other formats",
          "What would each format keep of this checkpoint, and where does it lose most?",
          checkpoint::parameters,
          checkpoint::inspect,
          checkpoint::finding,
          {"formats", {"format", "bits", "bytes", "sqnr", "worst_sqnr", "worst_tensor"}, {}, {}}};
}

}  // namespace halfulp
