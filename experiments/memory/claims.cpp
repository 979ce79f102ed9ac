// Published figures of memory, each computed by the same functions as the tables.
#include <halfulp/experiments/memory/memory.hpp>
#include <halfulp/experiments/publications.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace halfulp::memory {
namespace {

using training::OptimizerKind, training::Policy;

std::string zero(std::string_view where) { return fmt::format("Rajbhandari et al. 2020, ZeRO, {}", where); }

ModelShape of_size(std::uint64_t parameters) {
  ModelShape m;
  m.name = "sized", m.parameters = parameters;
  return m;
}

/// Bytes of a rank without activations.
std::uint64_t rank_bytes(const ModelShape& m, const Policy& p, int stage, std::uint64_t ranks) {
  return total(on_a_rank(state_bytes(m, p, OptimizerKind::adam, false), stage, ranks));
}

/// Parameters, gradients, and what the optimizer keeps (master weights too): bytes a parameter.
Json split(const ModelShape& m, const Policy& p) {
  const StateBytes b = state_bytes(m, p, OptimizerKind::adamw, false);
  const auto count = static_cast<double>(parameter_count(m));
  const auto of = [&](MemoryState s) { return static_cast<double>(b[static_cast<std::size_t>(s)]) / count; };
  return {of(MemoryState::parameters), of(MemoryState::gradients),
          of(MemoryState::master) + of(MemoryState::first) + of(MemoryState::second) + of(MemoryState::compensation)};
}

/// ZeRO, table 1: GB a rank by ranks, of 7.5 B, 128 B and 1 T parameters at stages 1 to 3, and the unit of the last
/// place that is given.
struct Row {
  std::uint64_t ranks;
  double gb[9], unit[9];
};
constexpr Row table_1[] = {{1, {120, 120, 120, 2048, 2048, 2048, 16000, 16000, 16000}, {1, 1, 1, 1, 1, 1, 1, 1, 1}},
                           {4, {52.5, 41.3, 30, 896, 704, 512, 7000, 5500, 4000}, {.1, .1, 1, 1, 1, 1, 1, 1, 1}},
                           {16, {35.6, 21.6, 7.5, 608, 368, 128, 4750, 2875, 1000}, {.1, .1, .1, 1, 1, 1, 1, 1, 1}},
                           {64, {31.4, 16.6, 1.88, 536, 284, 32, 4187, 2218, 250}, {.1, .1, .01, 1, 1, 1, 1, 1, 1}},
                           {256, {30.4, 15.4, 0.47, 518, 263, 8, 4046, 2054, 62.5}, {.1, .1, .01, 1, 1, 1, 1, 1, .1}},
                           {1024, {30.1, 15.1, 0.12, 513, 257, 2, 4011, 2013, 15.6}, {.1, .1, .01, 1, 1, 1, 1, 1, .1}}};

/// A published figure comes out, or differs by what the numbers say.
const Basis by_tables = may_differ("counted from the tensors and formats in the tables, which say otherwise");

void zero_claims(Report& report, const Policy& mixed) {
  const ModelShape m = find_model("zero-7.5b");
  Json measured = Json::array();
  for (const int stage : {0, 1, 2, 3})
    measured.push_back(static_cast<double>((rank_bytes(m, mixed, stage, 64) + 50'000'000) / 100'000'000) /
                       10);  // tenths of a GB
  report.claim(
      {"zero-figure-1",
       "7.5 B parameters on 64 ranks, Adam in mixed precision: GB a rank, rounded to tenths, at stages 0, 1, 2 and 3.",
       zero("figure 1")},
      exactly({120.0, 31.4, 16.6, 1.9}, measured, "published"));
  double worst = 0;
  constexpr std::uint64_t sizes[] = {7'500'000'000, 128'000'000'000, 1'000'000'000'000};
  for (const Row& row : table_1)
    for (std::size_t i = 0; i < 9; ++i) {
      const double gb = static_cast<double>(
                            rank_bytes(of_size(sizes[i / 3]), mixed, static_cast<int>(i % 3) + 1, row.ranks)) /
                        1e9;
      worst = std::max(worst, std::fabs(gb - row.gb[i]) / row.unit[i]);
    }
  report.claim({"zero-table-1",
                "Model states of 7.5 B, 128 B and 1 T parameters on 1 to 1024 ranks: the largest difference from 54 "
                "published figures, in units of their last place, is below 1.",
                zero("table 1 (some figures are rounded, some cut off)")},
               at_most(1, worst, by_tables));
  Json largest = Json::array();
  for (const int stage : {0, 1, 2, 3}) {
    std::uint64_t low = 0, high = 1'000'000'000'000;  // what fits in 32 GB, and what does not
    while (high - low > 1) {
      const std::uint64_t middle = low + (high - low) / 2;
      (rank_bytes(of_size(middle), mixed, stage, 64) <= 32'000'000'000 ? low : high) = middle;
    }
    largest.push_back(static_cast<double>((low + 50'000'000) / 100'000'000) / 10);
  }
  report.claim(
      {"zero-table-2",
       "Largest models whose states fit 64 devices of 32 GB, in 10^9 parameters rounded to tenths: stages 0 to 3.",
       zero("table 2, MP = 1, theoretical")},
      exactly({2.0, 7.6, 14.4, 128.0}, largest, "published"));
}

void activation_claims(Report& report, const Policy& half) {
  const auto paper = [](std::string_view where) {
    return fmt::format("Korthikanti et al. 2022, Reducing Activation Recomputation, {}", where);
  };
  Json none = Json::object(), quadratic = Json::object(), saved = Json::object(), expected = Json::object();
  for (const char* name : {"gpt3-175b", "mt-nlg-530b"}) {
    const ModelShape& m = find_model(name);
    const std::uint64_t s = 2048, sbh = s * m.hidden;
    Json layers = Json::array();
    for (const auto how : {Recomputation::none, Recomputation::selective, Recomputation::full}) {
      std::uint64_t layer = 0;
      for (const ActivationTensor& t : activation_tensors(m, half, s, 1, how)) layer += t.inside ? t.bytes : 0;
      layers.push_back(layer);
    }
    none[name] = layers;
    expected[name] = {34 * sbh + 5 * m.heads * s * s, 34 * sbh, 2 * sbh};
    const std::uint64_t scores = layers[0].get<std::uint64_t>() - layers[1].get<std::uint64_t>();
    quadratic[name] = scores / sbh;
    saved[name] = (200 * scores / layers[0].get<std::uint64_t>() + 1) / 2;  // per cent, rounded
  }
  report.claim({"activations-by-formula",
                "A layer's tensors in 16 bits add up to s b h (34 + 5 a s / h), 34 s b h and 2 s b h bytes, "
                "with no, selective and full recomputation.",
                paper("equations 1, table 2")},
               exactly(expected, none, "published"));
  report.claim({"activations-of-scores",
                "What has the size of attention scores takes 80 s b h bytes in GPT-3 and 64 in MT-NLG: 5 a s / h.",
                paper("section 5")},
               exactly({{"gpt3-175b", 80}, {"mt-nlg-530b", 64}}, quadratic, "published"));
  report.claim({"activations-saved",
                "Per cent of a layer's activations that selective recomputation saves, in GPT-3 and MT-NLG.",
                paper("section 5")},
               exactly({{"gpt3-175b", 70}, {"mt-nlg-530b", 65}}, saved, "published"));
}

}  // namespace

void report_claims(Report& report) {
  Json published = Json::object(), counted = Json::object();
  for (const ModelShape& m : models()) {
    if (!m.published) continue;
    published[m.name] = m.published;
    counted[m.name] = (parameter_count(m) + m.published_unit / 2) / m.published_unit * m.published_unit;
  }
  report.claim({"parameter-counts",
                "Parameters of the named models, counted from layers, widths and vocabularies, as their papers "
                "and model cards give them.",
                "sources of each model: table models"},
               exactly(published, counted, "published"));

  const Policy mixed = training::find_policy("O2"), single = training::find_policy("fp32"),
               half = training::find_policy("pure-bf16");
  const ModelShape &bloom = find_model("bloom-176b"), &gpt2 = find_model("gpt2-xl");
  const auto parameters = static_cast<double>(
      state_bytes(bloom, half, OptimizerKind::adam, false)[static_cast<std::size_t>(MemoryState::parameters)]);
  report.claim({"bloom-352-gb", "BLOOM's 176 B parameters take 352 GB at 2 bytes each.",
                "BigScience, BLOOM: 176 x 10^9 parameters in bfloat16"},
               within(352, 0.5, parameters / 1e9, by_tables));
  report.claim({"bloom-checkpoint", "Its weights in BF16 are a file of 329 GB, which are GiB.",
                "bigscience/bloom, model card: checkpoint size"},
               within(329, 1, parameters / 0x1p30, by_tables));
  const StateBytes kept = state_bytes(bloom, mixed, OptimizerKind::adam, false);
  const std::uint64_t checkpoint = total(kept) - kept[static_cast<std::size_t>(MemoryState::gradients)];
  report.claim({"bloom-full-checkpoint",
                "With optimizer states and master weights, 14 bytes a parameter, they are 2.3 TB, which are TiB.",
                "bigscience/bloom, model card: checkpoint size"},
               within(2.3, 0.1, static_cast<double>(checkpoint) / 0x1p40, by_tables));
  report.claim({"sixteen-bytes-mixed",
                "Mixed precision with Adam takes 2 + 2 + 12 = 16 bytes a parameter: FP16 parameters and "
                "gradients, FP32 copy, mean and variance.",
                zero("section 3.1")},
               exactly({2.0, 2.0, 12.0}, split(gpt2, mixed), "published"));
  report.claim(
      {"adamw-eight-bytes", "FP32 with AdamW takes 4 + 4 + 8 bytes a parameter: the optimizer's two states are 8.",
       "Hugging Face Transformers, GPU memory usage: AdamW 8 bytes"},
      exactly({4.0, 4.0, 8.0}, split(gpt2, single), "published"));
  const Policy eight = training::parse_policy(
      {{"name", "adam-8bit"}, {"base", "fp32"}, {"optimizer", {{"state", "e4m3/1x2048/fp32"}}}}, "adam-8bit");
  const Json with_eight = split(of_size(7'500'000'000), eight);
  report.claim({"eight-bit-adam-two-bytes",
                "Two states of 8 bits, with an FP32 scale for 2048, take 2 bytes a parameter instead of 8.",
                "Dettmers et al. 2022, 8-bit Optimizers via Block-wise Quantization, section 2"},
               within(2, 0.01, with_eight[2].get<double>(), by_tables));
  const double qlora =
      static_cast<double>(storage_bits(training::parse_storage("e2m1/1x64/fp32", "qlora"), 1, 1 << 20)) / (1 << 20) - 4;
  report.claim({"qlora-constants", "Scales of FP32 for 64 weights of 4 bits take 0.5 bits a weight.",
                "Dettmers et al. 2023, QLoRA, section 3, double quantization"},
               within(0.5, 0.0005, qlora, by_tables));
  zero_claims(report, mixed);
  activation_claims(report, mixed);
  report_device_claims(report);

  std::size_t wrong = 0;
  const StateBytes whole = state_bytes(gpt2, training::find_policy("amp-bf16"), OptimizerKind::adam,
                                       false);  // which has copies
  for (const std::uint64_t ranks : {1u, 2u, 3u, 7u, 64u, 1000u, 4093u})
    for (std::size_t s = 0; s < whole.size(); ++s) {
      const std::uint64_t together = on_a_rank(whole, 3, ranks)[s] * ranks;
      wrong += together < whole[s] || together - whole[s] >= ranks;
    }
  report.claim({"shards-cover-the-whole",
                "Shards of parameters, copies, gradients or states that together hold less than the whole, or a "
                "byte a rank more than it.",
                "derived: a shard is ceil(bytes / N)"},
               exactly(0, wrong, "oracle"));
}

}  // namespace halfulp::memory
