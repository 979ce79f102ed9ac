#include <halfulp/experiments/reproduce/reproduce.hpp>

#include <halfulp/report/experiment.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace halfulp::reproduction {

std::span<const Line> lines() {
  static const std::vector<Line> all{
      {"IEEE 754 binary16",
       "IEEE 754-2019, sections 3.6, 4.3.1 and 7.4",
       "FP16: largest number 65504, 65520 rounds to Infinity, subnormals down to 2^-24, integers exact to 2048",
       {{"underflow", "fp16-*"}, {"underflow", "zero-threshold"}, {"underflow", "overflow-threshold"}}},
      {"FP8, E4M3 and E5M2",
       "Micikevicius et al. 2022, FP8 Formats for Deep Learning, tables 1 and 2; OCP OFP8 1.0",
       "largest, smallest normal and smallest subnormal numbers; 464 rounds to 448, 61440 to Infinity",
       {{"underflow", "e4m3-*"}, {"underflow", "e5m2-*"}}},
      {"OCP MX elements and scales",
       "OCP Microscaling Formats 1.0, sections 5.2 to 5.4 and 6.3",
       "largest numbers 6, 28, 7.5 and 2^127 of E2M1, E3M2, E2M3 and E8M0; blocks of 32; scales rounded down saturate",
       {{"underflow", "mx-*"},
        {"attribution", "mx-*"},
        {"scaling", "bits-of-mx-elements"},
        {"scaling", "floor-is-the-mx-rule"}}},
      {"NVFP4",
       "NVIDIA 2025, Pretraining Large Language Models with NVFP4",
       "4.5 bits an element; less error than MXFP4",
       {{"scaling", "bits-of-nvfp4-elements"}, {"scaling", "nvfp4-beats-mxfp4"}}},
      {"Updates lost in FP16",
       "Micikevicius et al. 2018, Mixed Precision Training, section 3.1",
       "w + u at w = 1 is lost where w/u >= 2048 in FP16 (256 in BF16, 16 in E4M3, 8 in E5M2); without master weights "
       "accuracy is lost",
       {{"swamping", "published-2048"},
        {"swamping", "lost-at-one-*"},
        {"swamping", "tie-to-even-*"},
        {"swamping", "kept-below-two-*"},
        {"swamping", "lost-for-ever"},
        {"swamping", "training-without-master-weights"},
        {"training", "mlp-pure-fp16-worse"},
        {"optimizer", "mlp-fp16-alone-worse"},
        {"optimizer", "mlp-fp16-master-as-good"},
        {"optimizer", "mlp-master-decay-norm"}}},
      {"Gradients lost in FP16",
       "Micikevicius et al. 2018, Mixed Precision Training, sections 3.1 and 3.2",
       "gradients below 2^-24 vanish, a loss scale of 8 brings [2^-27, 2^-24) back; about 5 % of a speech model's, 67 "
       "% of a detector's activation gradients are zero",
       {{"underflow", "scale-8-restores"},
        {"underflow", "published-*"},
        {"loss_scaling", "mlp-unused-binades"},
        {"loss_scaling", "mlp-amp-fp16-scale-8"},
        {"loss_scaling", "mlp-amp-fp16-top"},
        {"loss_scaling", "mlp-amp-fp16-beyond"},
        {"loss_scaling", "mlp-amp-fp16-settles"}}},
      {"Mixed precision is as good as FP32",
       "Micikevicius et al. 2018, Mixed Precision Training, section 4",
       "FP16 products with FP32 weights and loss scaling reach FP32's accuracy",
       {{"training", "mlp-amp-fp16-as-fp32"},
        {"training", "mlp-o2-as-fp32"},
        {"loss_scaling", "mlp-amp-fp16-dynamic-as-fp32"},
        {"finetune", "mlp-amp-fp16-as-fp32"},
        {"finetune", "mlp-o2-as-fp32"}}},
      {"BF16 without loss scaling",
       "Kalamkar et al. 2019, A Study of BFLOAT16 for Deep Learning Training",
       "BF16 products and FP32 weights reach FP32's accuracy; BF16 weights alone do not",
       {{"training", "mlp-amp-bf16-as-fp32"}, {"optimizer", "mlp-bf16-alone-worse"}}},
      {"GradScaler",
       "PyTorch documentation, torch.amp.GradScaler",
       "starts at 65536, doubles every 2000 steps, halves at an overflow: 16 overflows in a row leave 1",
       {{"loss_scaling", "grad-scaler-defaults"},
        {"loss_scaling", "sixteen-overflows"},
        {"underflow", "grad-scaler-16-overflows"}}},
      {"Adam's constants",
       "Kingma & Ba 2015, Adam; Loshchilov & Hutter 2019, Decoupled Weight Decay Regularization",
       "eps 1e-8 is 0 in FP16 and survives above 2^-25; beta2 0.999 is 1 in BF16, so that 1 - beta2 is 0",
       {{"underflow", "adam-*"},
        {"optimizer", "fp16-*"},
        {"optimizer", "bf16-*"},
        {"optimizer", "mlp-eps-1e-8"},
        {"optimizer", "mlp-bf16-beta2"},
        {"optimizer", "mlp-bf16-decay"},
        {"optimizer", "mlp-fp32-decay-norm"}}},
      {"Position ids in 16 bits",
       "Baichuan and Llama position ids: huggingface/transformers #29285",
       "BF16: first clash at 257; 641, 769, 897, 1409 distinct ids of 2048, 4096, 8192, 131072; FP16: 2049, and 3073 "
       "of 4096",
       {{"position_ids", "bf16-*"}, {"position_ids", "fp16-*"}}},
      {"Rotary angles in FP16",
       "EleutherAI/gpt-neox #1003",
       "angle 1045 for 1044.2678; largest change of a cosine 0.7819, and 0.490 if the angle alone is cast",
       {{"position_ids", "gpt-neox-*"}}},
      {"ALiBi's slopes",
       "Press, Smith & Lewis 2022, section 3",
       "powers of two for 8 heads",
       {{"position_ids", "alibi-*"}}},
      {"Harmonic sums",
       "Higham 2002, Accuracy and Stability, problem 4.2; chop's demo_harmonic (Higham & Pranesh 2019)",
       "sums of 1/n stop at 7.0859375 (n = 513) in FP16, at 5.0625 (n = 65) in BF16",
       {{"accumulation", "harmonic-*"}}},
      {"Ones in BF16",
       "ml-explore/mlx #3909; huggingface/candle #3718",
       "70,000 ones add up to 256 in BF16, 20,000 to 2048 in FP16",
       {{"accumulation", "ones-*"}}},
      {"Uniform numbers in BF16",
       "jax-ml/ml_dtypes #63",
       "10^4 numbers in (0, 1) add up to 256",
       {{"accumulation", "uniform-bf16-*"}}},
      {"Error bounds of sums",
       "Higham 2002, chapter 4; Blanchard, Higham & Mary 2020; Higham & Mary 2019; Connolly, Higham & Mary 2021",
       "errors are below n u, typically about sqrt(n) u; stochastic rounding stays within sqrt(n) u where nearest "
       "stagnates",
       {{"accumulation", "*-error-below-proven-bound"},
        {"accumulation", "nearest-*"},
        {"accumulation", "stochastic-*"},
        {"collectives", "*"}}},
      {"Few random bits",
       "Croci et al. 2022, Stochastic rounding; Connolly, Higham & Mary 2021",
       "r bits, truncated and added, are biased by -2^-(r+1) ulp on average; all bits are unbiased",
       {{"swamping", "random-bits-bias-*"}, {"swamping", "stochastic-*"}}},
      {"FP8 sums on Hopper",
       "DeepSeek-V3 2024, section 3.3.2",
       "about 14 bits are kept, nearly 2 % largest relative error at K = 4096; promotion to FP32 every 128 repairs it",
       {{"accumulation", "deepseek-*"},
        {"accumulation", "hopper-*"},
        {"accumulation", "promotion-*"},
        {"attribution", "hopper-*"},
        {"attribution", "deepseek-*"},
        {"accumulation", "blackwell-*"}}},
      {"Outlier channels",
       "an earlier measurement of this project's, 32 x 1024 of N(0, 1), E4M3, repeated",
       "relative error of the other channels at 10^4: 3.0 / 2.6 / 3.0 % per tensor, 1x128, MX32; at 10^6: 100 / 24 / "
       "12 %; at 100 nothing",
       {{"scaling", "outlier-*"}}},
      {"Pure BF16 and its repairs",
       "Zamirai et al. 2021, Revisiting BFloat16 Training",
       "clearly worse than FP32; stochastic rounding or Kahan summation of updates come to within 0.2 %",
       {{"swamping", "training-*"},
        {"training", "mlp-pure-bf16-*"},
        {"training", "mlp-bf16-*"},
        {"finetune", "mlp-bf16-*-as-fp32"},
        {"finetune", "mlp-pure-bf16-stays"},
        {"optimizer", "mlp-kahan-decay-norm"}}},
      {"FP8 and MX training",
       "Micikevicius et al. 2022; DeepSeek-V3 2024, section 3.3; Rouhani et al. 2023, section 5",
       "products in FP8 and MXFP8 train as well as 16 bits",
       {{"training", "mlp-fp8-*"}, {"training", "mlp-mxfp8-*"}, {"finetune", "mlp-fp8-hybrid-as-fp32"}}},
      {"Optimizer states in 8 and 16 bits",
       "Dettmers et al. 2022, 8-bit Optimizers via Block-wise Quantization; DeepSeek-V3 2024, section 3.3.3",
       "moments in BF16 and in blocks of 8 bits train as well as in FP32",
       {{"optimizer", "mlp-bf16-states-as-good"},
        {"optimizer", "mlp-e4m3-states-as-good"},
        {"optimizer", "mlp-e5m2-states-as-good"},
        {"optimizer", "mlp-second-int8-worse"}}},
      {"Spikes of large models",
       "Zeng et al. 2022, GLM-130B, section 3.3; Chowdhery et al. 2022, PaLM, section 5.1",
       "a smaller gradient of the embedding, and leaving out batches around a spike, keep a training stable",
       {{"optimizer", "transformer-*"}}},
      {"Softmax and norms in FP16",
       "PyTorch documentation, torch.amp, operators that autocast to float32; NVIDIA/apex, amp lists",
       "exp overflows from ln 65520 = 11.0901 on, 256^2 is Infinity; these operators belong to FP32",
       {{"operators", "*"}}},
      {"Double rounding",
       "Figueroa 1995; Boldo & Melquiond 2008; issues of libraries that cast in two steps",
       "a cast through a wider format gives another result than the direct one on some inputs",
       {{"conversions", "*"}}},
      {"INT8 and INT4",
       "Dettmers et al. 2022, LLM.int8(); Wu et al. 2020, Integer Quantization; Jacob et al. 2018",
       "over 99.9 % of values in INT8 with outlier columns kept in 16 bits, and quality kept where plain INT8 loses it",
       {{"quantization", "*"}}},
      {"Memory of a training",
       "Rajbhandari et al. 2020, ZeRO, figure 1; BLOOM: 176 B parameters",
       "7.5 B parameters on 64 ranks: 120 / 31.4 / 16.6 / 1.9 GB; BLOOM's weights 352 GB",
       {{"memory", "*"}}},
  };
  return all;
}

bool is_published(std::string_view source) {
  return !source.starts_with("derived") && !source.starts_with("this project");
}

bool names(const Evidence& evidence, std::string_view experiment, std::string_view claim, std::string_view source) {
  if (evidence.experiment != experiment) return false;
  if (evidence.claim == "*") return is_published(source);
  const std::size_t star = evidence.claim.find('*');
  if (star == std::string_view::npos) return evidence.claim == claim;
  const std::string_view before = evidence.claim.substr(0, star), after = evidence.claim.substr(star + 1);
  return claim.size() >= before.size() + after.size() && claim.starts_with(before) && claim.ends_with(after);
}

const Line* line_of(std::string_view experiment, std::string_view claim, std::string_view source) {
  for (const Line& line : lines())
    if (std::any_of(line.evidence.begin(), line.evidence.end(),
                    [&](const Evidence& e) { return names(e, experiment, claim, source); }))
      return &line;
  return nullptr;
}

}  // namespace halfulp::reproduction

// reproduce: what others have published, beside what the experiments measure.

namespace halfulp {
namespace {

using namespace reproduction;

constexpr std::string_view own_name = "reproduce";

std::vector<Parameter> parameters() {
  std::vector<std::string> names{};
  for (const Experiment& experiment : experiments())
    if (experiment.name != own_name) names.emplace_back(experiment.name);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  return {{"experiments", ParameterType::choices, fmt::format("{}", fmt::join(names, ",")),
           "experiments that are run, each with its defaults; all of them take a minute or two on two cores", -infinity,
           infinity, names}};
}

/// How the figures of one line came out.
struct Outcome {
  std::string source, set_up;
  std::size_t held = 0, differ = 0, failed = 0, skipped = 0;
  std::vector<std::string> differing = {},
                           reasons = {};  ///< claims that do not hold; why others were skipped, each once

  void add(const std::string& claim, const Claim& c) {
    switch (c.verdict) {
      case Verdict::pass: ++held; return;
      case Verdict::differs: ++differ; break;
      case Verdict::fail: ++failed; break;
      case Verdict::skipped:
        ++skipped;
        if (std::find(reasons.begin(), reasons.end(), c.reason) == reasons.end()) reasons.push_back(c.reason);
        return;
    }
    differing.push_back(claim);
  }
  std::size_t measured() const { return held + differ + failed; }
  Verdict verdict() const {
    return failed ? Verdict::fail : differ ? Verdict::differs : held ? Verdict::pass : Verdict::skipped;
  }
};

/// "Harmonic sums" as a claim's id.
std::string id_of(std::string_view name) {
  std::string id;
  for (const char c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'), capital = c >= 'A' && c <= 'Z';
    if (letter || capital) id += static_cast<char>(capital ? c - 'A' + 'a' : c);
    else if (!id.empty() && id.back() != '-') id += '-';
  }
  return id;
}

/// What a table can hold: lists and objects as text.
Json cell(const Json& value) { return value.is_structured() ? Json(value.dump()) : value; }

Claim claim_of(const std::string& name, const Outcome& o) {
  const std::string statement = fmt::format("{}: {}.", name, o.set_up);
  if (o.verdict() == Verdict::skipped)
    return skipped(id_of(name), statement, o.source, fmt::format("{}", fmt::join(o.reasons, "; ")));
  Claim claim{id_of(name), statement, o.source, o.measured(), "exact", o.held, o.verdict(), "", "published"};
  if (claim.verdict == Verdict::differs)
    claim.reason = fmt::format("{} of {} figures differ: {}; the table `figures` has them", o.differ, o.measured(),
                               fmt::join(o.differing, ", "));
  return claim;
}

void run_reproduce(const Config& config, Run& run) {
  Table& summary = run.report.table(
      "lines", "Published results, and how many of their figures come out",
      {{"line", "", "What was published."},
       {"held", "claim", "Figures that the measurement confirms."},
       {"differ", "claim", "Published figures that it does not reproduce."},
       {"failed", "claim", "Figures that follow from a format or model and do not come out."},
       {"skipped", "claim", "Figures that this machine or the defaults cannot test."},
       {"verdict", "",
        "Pass: all that were measured hold; differs: some published figure does not; skipped: none could be measured."},
       {"source", "", "Where it was published."},
       {"set_up", "", "What was computed, and what is said to come out."}});
  Table& figures = run.report.table(
      "figures", "Every figure, with the claim that measures it",
      {{"line", "", "The published result that it belongs to."},
       {"experiment", "", "Experiment that measures it: halfulp run, with its defaults."},
       {"claim", "", "Id of the claim in that experiment's report."},
       {"statement", "", "What is claimed."},
       {"source", "", "Paper, specification or issue; derived: what follows from the format."},
       {"expected", "", "What the source has, or what was derived."},
       {"tolerance", "", "How near the measurement must come; null if it was skipped."},
       {"measured", "", "What came out; null if it was skipped."},
       {"verdict", "", "Pass, fail, differs or skipped."},
       {"independence", "", "What the expected value was obtained from; null if it was skipped."},
       {"reason", "", "Why it differs or was skipped; null otherwise."}});

  std::map<std::string, Outcome> outcomes;
  std::vector<std::string> further;  // lines that no publication has of its own, in the order in which they came
  const std::vector<std::string> chosen = config.choices("experiments");
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const Experiment& experiment = find_experiment(chosen[i]);
    const Config defaults(experiment.parameters());
    const auto part = [&](std::size_t of) { return static_cast<double>(of) / static_cast<double>(chosen.size()); };
    if (run.note) run.note(chosen[i]);
    run.with_report(experiment, defaults, part(i), part(i + 1), [&](const Report& report) {
      for (const Claim& claim : report.claims()) {
        const Line* const line = line_of(chosen[i], claim.id, claim.source);
        if (!line && !is_published(claim.source)) continue;
        const std::string name = line ? std::string(line->name) : "Further: " + chosen[i];
        const auto [found, made] = outcomes.try_emplace(name);
        if (made && line) found->second.source = line->source, found->second.set_up = line->set_up;
        if (made && !line) {
          found->second.source = "the sources in the table `figures`";
          found->second.set_up = "other published figures that " + chosen[i] + " measures";
          further.push_back(name);
        }
        found->second.add(chosen[i] + " " + claim.id, claim);
        const auto text = [](const std::string& words) { return words.empty() ? Json() : Json(words); };
        figures.row({name, chosen[i], claim.id, claim.statement, claim.source, cell(claim.expected),
                     text(claim.tolerance), cell(claim.measured), name_of(claim.verdict), text(claim.independence),
                     text(claim.reason)});
      }
    });
  }
  const auto tell = [&](const std::string& name) {
    const auto found = outcomes.find(name);
    if (found == outcomes.end()) return;
    const Outcome& o = found->second;
    summary.row({name, o.held, o.differ, o.failed, o.skipped, name_of(o.verdict()), o.source, o.set_up});
    run.report.claim(claim_of(name, o));
  };
  for (const Line& line : lines()) tell(std::string(line.name));
  for (const std::string& name : further) tell(name);
}

}  // namespace

Experiment reproduce_experiment() {
  return {own_name,
          "Published results, reproduced",
          "Which published figures of low precision come out here, and which do not?",
          parameters,
          run_reproduce,
          {"lines", {"line", "held", "differ", "failed", "skipped", "verdict"}},
          true};
}

}  // namespace halfulp
