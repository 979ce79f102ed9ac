// What is known and published of quantized networks, held to what came out.
#include <halfulp/experiments/quantization/quantization.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace halfulp::quantization {
namespace {

constexpr const char* whitepaper =
    "Krishnamoorthi 2018, Quantizing deep convolutional networks for efficient inference, arXiv:1806.08342";
constexpr const char* principles = "Wu et al. 2020, Integer Quantization for Deep Learning Inference, arXiv:2004.09602";
constexpr const char* llm_int8 = "Dettmers et al. 2022, LLM.int8(), arXiv:2208.07339";

/// The basis of a published figure: missed by no more than noise does, it decides nothing.
Basis published(const std::string& why, bool within_doubt = false) {
  if (!within_doubt) return may_differ(why);
  return {"published", Verdict::skipped, "within doubt: " + why + "; more seeds or test images tell"};
}

}  // namespace

void claim_network(const Config& config, const std::string& network, const NetworkOutcome& o, Report& report) {
  const std::string of = fmt::format(" ({}, mean of {} seeds).", network, config.integer("seeds"));
  const auto find = [&](int bits, bool per_channel, const Calibration& activations = {}) {
    const auto found = o.ptq.find({bits, per_channel, Method::max, activations});
    return found == o.ptq.end() ? nullptr : &found->second;
  };
  const auto aware = [&](int bits, bool per_channel) {
    const auto found = o.aware.find({bits, per_channel});
    return found == o.aware.end() ? nullptr : &found->second;
  };
  const auto claim = [&](const std::string& id, const std::string& statement, const Citation& source, bool there,
                         const std::string& absent, auto&& judge) {
    report.claim({network + "-" + id, statement + of, source},
                 !o.missing.empty() ? o.missing
                 : there            ? ""
                                    : absent,
                 judge);
  };
  const auto doubts = [](const trainings::Spread& a, const trainings::Spread& b) {
    const trainings::Standing s = trainings::standing(a, b);
    return fmt::format("the difference is {:+.4f}, the doubt {:.4f} ({} seeds, {} examples each)", s.difference,
                       s.doubt, a.count(), b.examples());
  };
  /// Accuracy no lower than another by more than is allowed; missed by less than the doubt it may be noise.
  const auto keeps = [&](const trainings::Spread& it, const trainings::Spread& other, double allowed) {
    const trainings::Standing s = trainings::standing(it, other);
    return at_least(other.mean() - allowed, it.mean(),
                    published(doubts(it, other), s.difference + s.doubt >= -allowed));
  };
  /// Accuracy lower than another by more than the doubt; a difference within it may be noise.
  const auto loses = [&](const trainings::Spread& it, const trainings::Spread& other, const std::string& more) {
    const trainings::Standing s = trainings::standing(it, other);
    return at_most(-s.doubt, s.difference, published(doubts(it, other) + more, s.difference <= s.doubt));
  };
  constexpr double half_a_point = 0.005;
  // Whoever knows nothing loses nothing: ten classes are guessed with 0.1, the most frequent character of a text is
  // about as often there.
  const bool learned = o.missing.empty() && o.fp32.mean() >= 0.2;
  const std::string not_tested = !learned
                                     ? "FP32 itself is right in less than one case of five: there is nothing to lose"
                                     : "bits, granularity, methods or weight_methods do not contain this";

  const std::string integers = "Products of quantized layers are those of exact integer sums";
  claim("integer-sums-exact", integers, "derived: sums below 2^24 are exact in FP32", o.integers.compared > 0,
        "no layer's sums are below 2^24 in every width", [&] { return exactly(0u, o.integers.differ, "oracle"); });

  const trainings::Spread* const eight = find(8, true);
  const std::string workflow = std::string(principles) + ", abstract and section 5";
  claim("int8-within-1-percent",
        "INT8 with a scale an output, calibrated by the largest magnitude, keeps 99 % of FP32's accuracy", workflow,
        learned && eight, not_tested, [&] { return keeps(*eight, o.fp32, 0.01 * o.fp32.mean()); });
  const std::string abstract = std::string(whitepaper) + ", abstract";
  claim("int8-within-2-points",
        "Per-channel INT8 weights and per-layer INT8 activations are within 2 points of FP32's accuracy", abstract,
        learned && eight, not_tested, [&] { return keeps(*eight, o.fp32, 0.02); });
  const trainings::Spread *const four = find(4, false), *const four_channel = find(4, true);
  const std::string sections = std::string(whitepaper) + ", sections 3.1 and 4";
  claim("int4-tensor-loses",
        "INT4 with one scale a tensor, calibrated by the largest magnitude, loses accuracy when it is applied after "
        "training",
        sections, learned && four, not_tested, [&] { return loses(*four, o.fp32, ""); });
  const std::string channels = std::string(principles) + ", section 4.1, and Krishnamoorthi 2018, section 3.1.4";
  claim("int4-channel-no-worse",
        "A scale for each output of INT4 weights is no worse than one for all, to within half a point, both by the "
        "largest magnitude",
        channels, learned && four && four_channel, not_tested,
        [&] { return trainings::judge_no_worse(*four_channel, *four, half_a_point, "one scale"); });
  const std::vector<double> percents = config.reals("percentiles");
  const Calibration tightest{Method::percentile, *std::min_element(percents.begin(), percents.end())};
  const trainings::Spread *const eight_clipped = find(8, true, tightest), *const four_clipped = find(4, true, tightest);
  const std::string trade =
      "derived: what is clipped is lost at every width, and a step of INT4 is 16 times as long as one of INT8";
  claim("int8-clipping-loses",
        fmt::format("In INT8 activations clipped at their percentile {:g} lose accuracy against the largest magnitude",
                    tightest.percent),
        trade, learned && eight && eight_clipped, not_tested, [&] { return loses(*eight_clipped, *eight, ""); });
  claim("int4-clipping-gains", "In INT4 the same clipping gains accuracy", trade,
        learned && four_channel && four_clipped, not_tested, [&] { return loses(*four_channel, *four_clipped, ""); });
  const AwareOutcome *const aware8 = aware(8, true), *const aware4 = aware(4, true);
  claim("int8-qat-within-1-point", "Quantization-aware training is within 1 point of FP32's accuracy in 8 bits",
        abstract, learned && aware8, not_tested, [&] { return keeps(aware8->qat, o.continued, 0.01); });
  claim("int4-qat-within-10-points",
        "Quantization-aware training in 4 bits loses at most 10 points, of weights and activations here", abstract,
        learned && aware4, not_tested, [&] { return keeps(aware4->qat, o.continued, 0.1); });
  const std::string jacob =
      "Jacob et al. 2018, Quantization and Training of Neural Networks, arXiv:1712.05877, section 3; Krishnamoorthi "
      "2018, section 4";
  const std::vector<std::int64_t> widths = config.integers("bits");
  const auto narrowest = static_cast<int>(*std::min_element(widths.begin(), widths.end()));
  for (const int bits : std::set{4, narrowest}) {
    const AwareOutcome* const one = aware(bits, false);
    const std::string id = fmt::format("int{}-qat-recovers", bits),
                      statement = fmt::format(
                          "INT{}, one scale a tensor: training on with the roundings narrows the gap to FP32", bits);
    const bool lost = one && trainings::standing(one->ptq, o.fp32).below();
    claim(id, statement, jacob, lost,
          one ? "quantizing after training lost nothing that seeds and answers could tell" : not_tested, [&] {
            return at_most(o.fp32.mean() - one->ptq.mean(), o.continued.mean() - one->qat.mean(),
                           published(doubts(one->qat, o.continued)));
          });
  }
  const std::string quality = std::string(llm_int8) + ", section 3.3";
  claim("llm-int8-keeps-quality",
        "LLM.int8() is as accurate as FP32 where INT8 without the split is not, to within half a point", quality,
        learned, not_tested, [&] {
          return trainings::judge_repair(o.as_trained.split, o.as_trained.vector_wise, o.fp32, half_a_point, "fp32");
        });
  if (network != "mlp") return;  // only there are outlier columns planted
  const std::string none = "outlier_features is 0, or they have no effect",
                    same = "derived: (2^k x) (2^-k w) = x w, and ReLU(2^k x) = 2^k ReLU(x)";
  bool exact = !o.planted.empty(), any = exact;
  double before = 0, after = 0, worst = 0;
  const NetworkOutcome::Planted* worst_of = nullptr;
  for (const auto& [ratio, p] : o.planted) {
    exact = exact && p.exact, any = any && p.with.outliers > 0;
    before += p.before.mean(), after += p.with.fp32.mean();
    const trainings::Standing s = trainings::standing(p.with.vector_wise, p.before);
    if (s.below() && (!worst_of || s.difference < worst)) worst = s.difference, worst_of = &p;
  }
  claim("planted-columns-change-nothing",
        "Scaling hidden units and the weights behind them by powers of two leaves FP32's accuracy as it was: its sum "
        "over the ratios",
        same, exact, "weights are near the ends of FP32's range",
        [&] { return exactly(number(before), number(after), "oracle"); });
  claim(
      "split-keeps-quality",
      "With outlier columns in FP16 a network that plain INT8 hurts is as accurate as in FP32, to within half a point",
      quality, any && worst_of, any ? "plain INT8 loses nothing that seeds and answers can tell" : none,
      [&] { return trainings::judge_no_worse(worst_of->with.split, worst_of->before, half_a_point, "fp32"); });
  const auto twenty = o.planted.find(20);
  claim("plain-int8-loses-quality",
        "INT8 without that split loses accuracy on a network with outliers 20 times as large as other values",
        std::string(llm_int8) + ", sections 1 and 3.3", any && twenty != o.planted.end(),
        any ? "planted does not contain 20" : none, [&] {
          const NetworkOutcome::Planted &p = twenty->second, &most = o.planted.rbegin()->second;
          std::string more;
          if (&most != &p)
            more = fmt::format("; with outliers {:g} times as large it is {:+.4f}", o.planted.rbegin()->first,
                               trainings::standing(most.with.vector_wise, most.before).difference);
          return loses(p.with.vector_wise, p.before, more);
        });
}

}  // namespace halfulp::quantization
