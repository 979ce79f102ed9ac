// What was derived of each operator, beside the lists that others publish.
#include <halfulp/experiments/operators/operators.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace halfulp::operators {
namespace {

constexpr std::array<Named<Agreement>, 3> agreements{
    {{"agrees", Agreement::agrees}, {"on arithmetic", Agreement::on_arithmetic}, {"differs", Agreement::differs}}};

/// The operators of which PyTorch's FP32 list is asked in claims.
constexpr std::array<std::string_view, 10> asked{"softmax", "log-softmax",       "cross-entropy", "layer-norm", "norm",
                                                 "sum",     "sum-of-magnitudes", "prod",          "exp",        "pow"};

std::string in_words(const Need& n) {
  const OperatorErrors& e = n.there;
  if (e.non_finite > 0) return fmt::format("{} of {} not finite at scale {}", e.non_finite, e.outputs, n.scale);
  std::string words = fmt::format("{:.3g} u at scale {}", n.units, n.scale);
  if (e.outputs > 0 && e.vanished == e.outputs) words += e.outputs == 1 ? ", the output is 0" : ", all outputs are 0";
  if (e.overflow) words += fmt::format(", as {} inside is not finite", name_of(*e.overflow));
  return words;
}

/// Whether the lists speak of a format.
bool listed(const FloatFormat& f, std::size_t list) { return f == fp16 || (f == bf16 && list < 2); }

/// What was derived for an operator of PyTorch's FP32 list.
struct Judged {
  std::string_view name;
  Derived derived;
  bool borderline;
};

/// What a list for one format says of an operator.
struct ListVerdict {
  std::string format;
  std::string_view name;
  Where where;
  bool borderline;
};

/// Table `fp32_list`, and how many of its functions are no good with every operation in fp16.
void whole_fp32_list(const std::vector<ListVerdict>& verdicts, double budget, Report& report) {
  Table& table = report.table(
      "fp32_list",
      "PyTorch's whole FP32 list for CUDA, and what was derived for the operator that stands for each function",
      {{"format", "", "The low-precision format, of those that the list speaks of."},
       {"function", "", "The function, as PyTorch's documentation names it, in its order."},
       {"operator", "", "The operator of the table `autocast` that is computed for it."},
       {"derived", "", "What the budget allows: all, else tensors, else fp32."},
       {"verdict", "", "Borderline or clear, as in the table `autocast`."},
       {"cuda", "", "Against the list; on arithmetic: it must be FP32, while inputs and outputs need not."}});
  const auto functions = cuda_fp32_list();
  std::vector<std::string> formats;
  for (const ListVerdict& v : verdicts)
    if (std::find(formats.begin(), formats.end(), v.format) == formats.end()) formats.push_back(v.format);
  std::size_t missed = 0;
  std::string kept;
  for (const std::string& format : formats)
    for (const std::string_view function : functions) {
      const std::string_view name = standing_for(function);
      const auto v = std::find_if(verdicts.begin(), verdicts.end(),
                                  [&](const ListVerdict& x) { return x.format == format && x.name == name; });
      table.row({format, function, name, name_of(v->where), v->borderline ? "borderline" : "clear",
                 name_of(compare(Listed::fp32, v->where))});
      if (format != "fp16") continue;
      missed += v->where != Where::all;
      if (v->where == Where::all) kept += (kept.empty() ? "" : ", ") + std::string(function);
    }
  const bool asked_here = budget == usual_budget && std::find(formats.begin(), formats.end(), "fp16") != formats.end();
  report.claim({"autocast-fp32-list",
                fmt::format("No function of PyTorch's FP32 list keeps to {} u in every sample with every operation in "
                            "fp16.",
                            usual_budget),
                std::string(autocast_lists[0].source)},
               asked_here
                   ? exactly(functions.size(), missed, may_differ("kept: " + kept))
                   : skipped(fmt::format("formats does not contain fp16, or the budget is not {}", usual_budget)));
}

/// PyTorch's FP32 list against fp16: is FP32 needed inside, and outside?
void claims(const std::vector<Judged>& judged, double budget, Report& report) {
  const std::string source(autocast_lists[0].source);
  const std::string outside = fmt::format(
      "FP32 tensors too: fp16 around FP32 operations misses {} u for all of PyTorch's FP32 list that is asked here.",
      usual_budget);
  if (judged.empty() || budget != usual_budget) {
    const std::string reason = judged.empty()
                                   ? "formats does not contain fp16"
                                   : fmt::format("budget is {}; the list names none, and these claims are made at {}",
                                                 budget, usual_budget);
    std::string names;
    for (const std::string_view name : asked) names += (names.empty() ? "" : ", ") + std::string(name);
    report.claim(
        {"autocast-fp32",
         "With every operation in fp16, operators of PyTorch's FP32 list are not accurate enough: " + names + ".",
         source},
        skipped(reason));
    report.claim({"autocast-fp32-tensors", outside, source}, skipped(reason));
    return;
  }
  Json listed_as = Json::object(), derived = Json::object();
  std::string kept;
  for (const Judged& j : judged) {
    const std::string name(j.name);
    report.claim({"autocast-fp32-" + name,
                  fmt::format("PyTorch's FP32 list has {}: fp16 in every operation misses {} u here in some sample.",
                              name, usual_budget),
                  source},
                 exactly("missed", j.derived.where == Where::all ? "kept" : "missed",
                         may_differ(in_words(j.derived.all) + " at most")));
    listed_as[name] = "fp32", derived[name] = name_of(j.derived.where);
    if (j.derived.where != Where::fp32)
      kept += fmt::format("{}{} ({:.2g} u{})", kept.empty() ? "" : ", ", name, j.derived.tensors.units,
                          j.borderline ? ", borderline" : "");
  }
  report.claim({"autocast-fp32-tensors", outside, source},
               exactly(listed_as, derived,
                       may_differ("FP32 operations between fp16 tensors keep to the budget in every sample: " + kept)));
}

}  // namespace

std::string_view name_of(Agreement agreement) { return name_in(agreements, agreement); }

Derived derive(const OperatorSettings& s, std::span<const SampleErrors> samples, std::size_t format, double budget) {
  const std::vector<CandidateFormat> all = candidates(s);
  Derived d;
  for (const Where where : {Where::all, Where::tensors}) {
    Need& need = where == Where::all ? d.all : d.tensors;
    for (std::size_t c = 0; c < all.size(); ++c) {
      if (all[c].format != s.formats[format].name || all[c].where != where) continue;
      const double unit = FloatFormat::power_of_two(-all[c].f.precision());
      for (std::size_t i = 0; i < samples.size() * s.scales.size(); ++i) {
        const std::size_t k = i % s.scales.size();
        const OperatorErrors& e = samples[i / s.scales.size()][k][c];
        const double units = e.relative() / unit;
        if (i == 0 || units > need.units) need = {units, s.scales[k], e};
      }
    }
  }
  d.where = d.all.units <= budget ? Where::all : d.tensors.units <= budget ? Where::tensors : Where::fp32;
  return d;
}

Firmness firmness(const OperatorSettings& s, std::span<const SampleErrors> samples, std::size_t format, double budget) {
  const auto at = [&](double b) { return derive(s, samples, format, b).where; };
  const Where where = at(budget);
  Firmness firm;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const Derived d = derive(s, samples.subspan(i, 1), format, budget);
    firm.agree += d.where == where;
    firm.least = i == 0 ? d.all.units : std::min(firm.least, d.all.units);
  }
  firm.borderline = firm.agree < samples.size() || at(budget / 2) != where || at(2 * budget) != where;
  return firm;
}

Agreement compare(Listed listed, Where derived) {
  if (listed == Listed::fp32 || listed == Listed::refused) {
    if (derived == Where::fp32) return Agreement::agrees;
    return derived == Where::tensors ? Agreement::on_arithmetic : Agreement::differs;
  }
  return derived == Where::fp32 ? Agreement::differs : Agreement::agrees;
}

void autocast_report(const OperatorSettings& s, const AllErrors& errors, double budget, Run& run) {
  Table& table = run.report.table(
      "autocast",
      fmt::format("The cheapest precision within {} unit roundoffs in {}, beside published lists", budget,
                  s.samples == 1 ? std::string("one sample") : fmt::format("each of {} samples", s.samples)),
      {{"format", "", "The low-precision format; its unit roundoff u is 2^-p."},
       {"operator", "", "Operator of the table `operators`."},
       {"all", "1",
        "Largest relative error over samples and scales, in units of u, with every operation in the format; Infinity "
        "if an output is not finite where FP32's is."},
       {"all_least", "1", "The least over samples of a sample's largest over scales."},
       {"tensors", "1", "The largest with FP32 inside, inputs and outputs in the format."},
       {"derived", "", "What the budget allows in every sample: all, else tensors, else fp32."},
       {"agree", "1", "How many of the samples derive that by themselves."},
       {"verdict", "",
        "Borderline if not all samples agree, or if half or twice the budget derives something else; clear otherwise."},
       {"pytorch_cuda", "",
        "PyTorch's autocast list for CUDA: 16 bits, fp32, widest (of the inputs), unlisted (assumed stable), refused; "
        "null if it has no such function."},
       {"cuda", "", "Against that list; on arithmetic: it must be FP32, while inputs and outputs need not."},
       {"pytorch_cpu", "", "PyTorch's autocast list for CPUs."},
       {"cpu", "", "Against that list."},
       {"apex_o1", "", "NVIDIA apex's list of optimization level O1, for fp16 alone."},
       {"apex", "", "Against that list."},
       {"why", "", "The figures that decided."}});
  const auto operators = operator_table();
  std::vector<ListVerdict> verdicts;
  std::vector<Judged> judged;  // of the operators asked, in fp16
  bool has_fp16 = false;
  for (std::size_t f = 0; f < s.formats.size(); ++f) {
    const FloatFormat& format = s.formats[f].format;
    if (format == fp32) continue;
    for (std::size_t i = 0; i < operators.size(); ++i) {
      const Derived d = derive(s, errors[i], f, budget);
      const Firmness firm = firmness(s, errors[i], f, budget);
      const auto entry = find_listed(operators[i].name);
      std::vector<Json> row{
          s.formats[f].name,       operators[i].name, number(d.all.units), number(firm.least),
          number(d.tensors.units), name_of(d.where),  firm.agree,          firm.borderline ? "borderline" : "clear"};
      for (std::size_t list = 0; list < autocast_lists.size(); ++list) {
        const bool has = entry && listed(format, list);
        row.push_back(has ? Json(name_of(entry->lists[list])) : Json());
        row.push_back(has ? Json(name_of(compare(entry->lists[list], d.where))) : Json());
      }
      row.push_back(d.where == Where::all ? "all: " + in_words(d.all)
                                          : "all: " + in_words(d.all) + "; tensors: " + in_words(d.tensors));
      table.row(std::move(row));
      if (listed(format, 0)) verdicts.push_back({s.formats[f].name, operators[i].name, d.where, firm.borderline});
      if (format == fp16 && !has_fp16 && std::find(asked.begin(), asked.end(), operators[i].name) != asked.end())
        judged.push_back({operators[i].name, d, firm.borderline});
    }
    has_fp16 = has_fp16 || format == fp16;
  }
  whole_fp32_list(verdicts, budget, run.report);
  claims(judged, budget, run.report);
}

}  // namespace halfulp::operators
