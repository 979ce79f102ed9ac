// Published figures of memory, each computed by the same functions as the tables.
#include <halfulp/experiments/memory/memory.hpp>
#include <halfulp/experiments/publications.hpp>

#include <halfulp/report/config.hpp>
#include <halfulp/training/runs/setup.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

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

// Bytes of a training: parameters, gradients, optimizer state, activations, under each precision policy and in ZeRO's
// shards.

namespace halfulp {
namespace memory {
namespace {

using training::Policy;

std::vector<Parameter> parameters() {
  using Type = ParameterType;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  std::string known;
  for (const ModelShape& model : models()) known += (known.empty() ? "" : ", ") + model.name;
  return {
      {"models", Type::text, "gpt2,llama-7b,bloom-176b",
       "models, separated by commas: " + known + "; may be empty where `model` is a file"},
      {"model", Type::path, "",
       "a JSON file with a model of your own: layers, hidden, heads, vocabulary, or parameters; more in README"},
      {"policies", Type::text, "fp32,amp-bf16,O2,pure-bf16,bf16-kahan,fp8-deepseek",
       "precision policies: names (halfulp policies), files that end in .json, or all"},
      {"optimizer",
       Type::choice,
       "adamw",
       "optimizer: adam and adamw keep two states, sgd-momentum one, sgd none",
       -infinity,
       infinity,
       {"adamw", "adam", "sgd-momentum", "sgd"}},
      {"stages",
       Type::choices,
       "0,1,2,3",
       "stages of ZeRO: what is in shards: nothing, optimizer states, gradients too, parameters and their copies too",
       -infinity,
       infinity,
       {"0", "1", "2", "3"}},
      {"data_parallel", Type::integer, "64", "ranks N among which shards are spread, in the table `bytes`", 1, 1e6},
      {"ranks", Type::integers, "1,4,16,64,256,1024", "the same in the table `ranks`", 1, 1e6},
      {"sequence", Type::integer, "0", "tokens of a sequence; 0: the model's context", 0, 1048576},
      {"batch", Type::integer, "1", "sequences that a rank computes at once", 1, 65536},
      {"recomputation",
       Type::choice,
       "none",
       "activations that are computed again: none, those of the size of attention scores, all but the layers' inputs",
       -infinity,
       infinity,
       {recomputation_names.begin(), recomputation_names.end()}},
  };
}

struct MemorySettings {
  std::vector<ModelShape> models;
  std::vector<Policy> policies;
  training::OptimizerKind optimizer = training::OptimizerKind::adamw;
  bool momentum = false;
  std::vector<int> stages;
  std::vector<std::int64_t> ranks;
  std::uint64_t sequence, batch;
  Recomputation recomputation = Recomputation::none;

  std::uint64_t tokens(const ModelShape& m) const { return sequence ? sequence : m.context; }
  StateBytes states(const ModelShape& m, const Policy& p) const { return state_bytes(m, p, optimizer, momentum); }
};

MemorySettings read(const Config& config) {
  MemorySettings c;
  const std::string file = config.text("model"), names = config.text("models");
  if (!file.empty()) c.models.push_back(parse_model(read_json(file), file));
  if (!names.empty() || file.empty())
    for (const std::string& name : name_list(names, ',', "models")) {
      try {
        c.models.push_back(find_model(name));
      } catch (const std::invalid_argument& error) {
        throw std::invalid_argument(std::string("models: ") + error.what());
      }
    }
  if (!file.empty() && std::any_of(c.models.begin() + 1, c.models.end(),
                                   [&](const ModelShape& m) { return m.name == c.models.front().name; }))
    throw std::invalid_argument(fmt::format("model: {} has the name {}, which is in models too; accepted: another name",
                                            file, c.models.front().name));
  c.policies = trainings::chosen_policies(config);
  const std::string optimizer = config.text("optimizer");
  c.momentum = optimizer == "sgd-momentum";
  c.optimizer = training::parse_optimizer(c.momentum ? "sgd" : optimizer);
  for (const std::string& stage : config.choices("stages")) c.stages.push_back(stage[0] - '0');
  c.ranks = config.integers("ranks");
  c.sequence = static_cast<std::uint64_t>(config.integer("sequence")),
  c.batch = static_cast<std::uint64_t>(config.integer("batch"));
  const std::string recomputation = config.text("recomputation");
  c.recomputation = static_cast<Recomputation>(
      std::find(recomputation_names.begin(), recomputation_names.end(), recomputation) - recomputation_names.begin());
  if (const std::size_t rows = c.models.size() * c.policies.size() * c.stages.size() * c.ranks.size(); rows > 100'000)
    throw std::invalid_argument(
        fmt::format("models, policies, stages and ranks ask for {} rows; at most 100000", rows));
  return c;
}

Json gigabytes(std::uint64_t bytes) { return number(static_cast<double>(bytes) / 1e9); }
Json gibibytes(std::uint64_t bytes) { return number(static_cast<double>(bytes) / 0x1p30); }

void report_parameters(const MemorySettings& c, Report& report) {
  Table& known = report.table(
      "models", "What is trained",
      {{"model", "", "Name of the model."},
       {"title", "", "What it is."},
       {"source", "", "Where its configuration is from; empty for a file that does not say."},
       {"parameters", "parameter", "Parameters, counted tensor by tensor."},
       {"published", "parameter", "The count that its source gives; null if it gives none."},
       {"context", "token", "Tokens of a sequence in the tables of activations; null without a shape."}});
  Table& tensors = report.table("parameters", "Parameters by tensor",
                                {{"model", "", "Name of the model."},
                                 {"tensor", "", "Name of the tensor, of all layers together."},
                                 {"operator", "", "Operator whose precision a policy says."},
                                 {"rows", "1", "Outputs of a weight."},
                                 {"columns", "1", "Inputs of a weight; elements of a vector."},
                                 {"copies", "1", "Layers, times experts, that have one."},
                                 {"elements", "parameter", "Parameters in all of them."},
                                 {"share", "1", "Share of the model's parameters."}});
  for (const ModelShape& m : c.models) {
    const std::uint64_t all = parameter_count(m);
    known.row({m.name, m.title, m.source, all, m.published ? Json(m.published) : Json(),
               m.has_shape() ? Json(c.tokens(m)) : Json()});
    for (const ParameterTensor& t : parameter_tensors(m))
      tensors.row({m.name, t.name, training::name_of(t.kind), t.rows, t.columns, t.copies, t.elements(),
                   number(static_cast<double>(t.elements()) / static_cast<double>(all))});
  }
}

void report_bytes(const Config& config, const MemorySettings& c, Report& report) {
  const auto n = static_cast<std::uint64_t>(config.integer("data_parallel"));
  const Column model{"model", "", "Name of the model."}, policy{"policy", "", "Precision policy."},
      stage{"stage", "1", "Stage of ZeRO; 0 shares nothing."};
  std::vector<Column> each{model, policy};
  Table& bytes = report.table(
      "bytes",
      fmt::format("Bytes on the fullest of {} ranks, {}, batch {}, recomputation {}", n, config.text("optimizer"),
                  c.batch, recomputation_names[static_cast<std::size_t>(c.recomputation)]),
      {model,
       policy,
       stage,
       {"gb", "GB", "All of it, in 10^9 bytes."},
       {"gib", "GiB", "The same in 2^30 bytes."},
       {"parameters", "byte", "Parameters as forward and backward read them; in shards of ceil(bytes / N) at stage 3."},
       {"gradients", "byte",
        "Gradients, in the wider of the parameters' format and the policy's; in shards from stage 2 on."},
       {"master", "byte", "FP32 copies that updates change; in shards from stage 1 on."},
       {"states", "byte", "The optimizer's states and Kahan summation's; in shards from stage 1 on."},
       {"copies", "byte",
        "Weights in the format in which they enter products, where that is another: as autocast caches them; in shards "
        "at stage 3."},
       {"gathered", "byte",
        "At stage 3 the largest layer, or tensor outside layers, whole, with its copies: gathered for its products and "
        "let go; null without a shape."},
       {"activations", "byte", "What a micro-batch leaves for backward; null for models without a shape."},
       {"total", "byte", "All of it."}});
  for (std::size_t s = 0; s < state_names.size(); ++s) {
    constexpr std::array<const char*, state_names.size()> what{
        "Parameters.",
        "Gradients.",
        "FP32 master weights.",
        "The optimizer's first state: the mean of gradients.",
        "Its second: the mean of their squares.",
        "What Kahan summation keeps.",
        "Weights in the format in which they enter products, where that is another."};
    each.push_back({std::string(state_names[s]), "byte", what[s]});
  }
  each.push_back({"total", "byte", "All of it, copies too."});
  Table& per_parameter = report.table("bytes_per_parameter", "Bytes a parameter, nothing shared", std::move(each));
  Table& ranks = report.table(
      "ranks", "Bytes on a rank without activations, by stage and number of ranks",
      {model,
       policy,
       stage,
       {"ranks", "rank", "Ranks N that share."},
       {"bytes", "byte",
        "Parameters, gradients, states, master weights, copies and what stage 3 gathers, on the fullest rank."},
       {"gb", "GB", "The same in 10^9 bytes."},
       {"gib", "GiB", "The same in 2^30 bytes."}});
  for (const ModelShape& m : c.models)
    for (const Policy& p : c.policies) {
      const StateBytes whole = c.states(m, p);
      const auto count = static_cast<double>(parameter_count(m));
      std::vector<Json> cells{m.name, p.name};
      for (const std::uint64_t b : whole) cells.push_back(number(static_cast<double>(b) / count));
      cells.push_back(number(static_cast<double>(total(whole)) / count));
      per_parameter.row(std::move(cells));
      const std::uint64_t activations = activation_bytes(
          activation_tensors(m, p, c.tokens(m), c.batch, c.recomputation));
      for (const int at : c.stages) {
        const StateBytes part = on_a_rank(whole, at, n);
        const auto of = [&](MemoryState s) { return part[static_cast<std::size_t>(s)]; };
        const std::uint64_t gathered = gathered_bytes(m, p, at, n), all = total(part) + gathered + activations;
        bytes.row({m.name, p.name, at, gigabytes(all), gibibytes(all), of(MemoryState::parameters),
                   of(MemoryState::gradients), of(MemoryState::master),
                   of(MemoryState::first) + of(MemoryState::second) + of(MemoryState::compensation),
                   of(MemoryState::copies), m.has_shape() ? Json(gathered) : Json(),
                   m.has_shape() ? Json(activations) : Json(), all});
        for (const std::int64_t count_of_ranks : c.ranks) {
          const auto sharers = static_cast<std::uint64_t>(count_of_ranks);
          const std::uint64_t b = total(on_a_rank(whole, at, sharers)) + gathered_bytes(m, p, at, sharers);
          ranks.row({m.name, p.name, at, count_of_ranks, b, gigabytes(b), gibibytes(b)});
        }
      }
    }
}

void report_activations(const MemorySettings& c, Report& report) {
  Table& table = report.table(
      "activations", "What a micro-batch leaves for backward, by recomputation",
      {{"model", "", "Name of the model; those without a shape are left out."},
       {"policy", "", "Precision policy."},
       {"recomputation", "",
        "What is computed again: nothing, what has the size of attention scores, all but layers' inputs."},
       {"layer", "byte", "One layer."},
       {"layers", "byte", "All layers."},
       {"outside", "byte", "The embedding's norm and dropout, the last norm, the output layer and its logits."},
       {"formula", "byte",
        "All layers in 16 bits by s b h (34 + 5 a s / h), 34 s b h, 2 s b h: of a GPT with dropout and a feed-forward "
        "network of 4 h, whatever this model has."},
       {"gb", "GB", "All of it, in 10^9 bytes."}});
  Table& tensors = report.table("activation_tensors", "The same tensor by tensor, as `recomputation` says",
                                {{"model", "", "Name of the model."},
                                 {"policy", "", "Precision policy."},
                                 {"tensor", "", "What is kept."},
                                 {"bytes", "byte", "Of one layer, or of the part outside layers."},
                                 {"layers", "1", "Layers that keep one; 1 outside layers."},
                                 {"total", "byte", "Of all of them."}});
  for (const ModelShape& m : c.models) {
    if (!m.has_shape()) continue;
    const std::uint64_t s = c.tokens(m);
    for (const Policy& p : c.policies) {
      for (std::size_t r = 0; r < recomputation_names.size(); ++r) {
        const auto how = static_cast<Recomputation>(r);
        const std::vector<ActivationTensor> kept = activation_tensors(m, p, s, c.batch, how);
        std::uint64_t layer = 0, outside = 0;
        for (const ActivationTensor& t : kept) (t.inside ? layer : outside) += t.bytes;
        const std::uint64_t sbh = s * c.batch * m.hidden,
                            scores = 5 * m.heads * s * s * c.batch;  // a few times what is kept, which is below 2^56
        const std::uint64_t formula = m.layers * (how == Recomputation::full        ? 2 * sbh
                                                  : how == Recomputation::selective ? 34 * sbh
                                                                                    : 34 * sbh + scores);
        const std::uint64_t all = activation_bytes(kept);
        table.row({m.name, p.name, recomputation_names[r], layer, layer * m.layers, outside, formula, gigabytes(all)});
        if (how == c.recomputation)
          for (const ActivationTensor& t : kept)
            tensors.row({m.name, p.name, t.name, t.bytes, t.layers, t.bytes * t.layers});
      }
    }
  }
}

void run_memory(const Config& config, Run& run) {
  const MemorySettings c = read(config);
  report_parameters(c, run.report);
  report_bytes(config, c, run.report);
  report_activations(c, run.report);
  report_claims(run.report);
}

}  // namespace
}  // namespace memory

Experiment memory_experiment() {
  return {"memory",
          "Bytes of a training",
          "How many bytes do parameters, gradients, optimizer states and activations take under each policy and ZeRO "
          "stage?",
          memory::parameters,
          memory::run_memory,
          {"bytes", {"model", "policy", "stage", "gb", "gib"}, {}, {}},
          false,
          &publications::training_memory};
}

}  // namespace halfulp
