// Bytes of a training: parameters, gradients, optimizer state, activations, under each precision policy and in ZeRO's
// shards.
#include <halfulp/experiments/memory/memory.hpp>
#include <halfulp/experiments/publications.hpp>
#include <halfulp/report/config.hpp>
#include <halfulp/training/runs/setup.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>

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
       "a JSON file with a model of your own: layers, hidden, heads, vocabulary, or parameters; more in "
       "docs/explanation/memory.md"},
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
      {"batches", Type::integers, "1,2,4,8,16,32,64", "the same as `batch` in the table `batch`", 1, 65536},
      {"weights", Type::text, "fp32,bf16,e4m3-tensor,int8,int4,mxfp4",
       "formats of weights at inference; a format with scales applies only to the layers' matrices, and all else is "
       "bf16"},
      {"caches", Type::text, "bf16,e4m3-tensor", "formats of keys and values at inference, for `batch` sequences"},
      {"device_gb", Type::integers, "40,80,141", "memory of a device, in 10^9 bytes", 1, 1e6},
      {"usable", Type::real, "0.9",
       "share of it that may be filled: the rest is for kernels and fragmentation (vLLM's gpu_memory_utilization)",
       0.01, 1},
  };
}

/// The storages of a list of formats.
std::vector<training::Storage> storages(const Config& config, const char* parameter) {
  std::vector<training::Storage> all;
  for (const std::string& name : name_list(config.text(parameter), ',', parameter))
    all.push_back(training::parse_storage(name, parameter));
  return all;
}

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
  for (const Policy& p : c.policies)
    if (std::ranges::any_of(p.rules, [](const Policy::Rule& rule) { return !rule.layers.empty(); }))
      throw std::invalid_argument(
          fmt::format("policies: {} has a rule for some layers; accepted: rules for operators, as all layers of a "
                      "model count alike",
                      p.name));
  const std::string optimizer = config.text("optimizer");
  c.momentum = optimizer == "sgd-momentum";
  c.optimizer = training::parse_optimizer(c.momentum ? "sgd" : optimizer);
  for (const std::string& stage : config.choices("stages")) c.stages.push_back(stage[0] - '0');
  c.ranks = config.integers("ranks");
  c.weights = storages(config, "weights"), c.caches = storages(config, "caches");
  c.batches = config.integers("batches"), c.devices = config.integers("device_gb");
  c.usable = config.real("usable");
  c.data_parallel = static_cast<std::uint64_t>(config.integer("data_parallel"));
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
  const std::uint64_t n = c.data_parallel;
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
  report_batches(c, run.report);
  report_devices(c, run.report);
  report_claims(run.report);
}

}  // namespace
}  // namespace memory

namespace {

/// The policies with the fewest and the most bytes a parameter of the first model.
std::string memory_finding(const ReportTables& tables) {
  const auto all = tables.rows("bytes_per_parameter");
  if (all.empty()) return {};
  const auto rows = tables.rows("bytes_per_parameter", {{"model", all.front()["model"]}});
  const TableRow *const least = smallest(rows, "total"), *const most = largest(rows, "total");
  if (!least) return {};
  if (least->number("total") == most->number("total"))
    return fmt::format("A parameter of {} takes {} bytes under {}.", least->text("model"),
                       in_words(least->number("total")), rows.size() > 1 ? "every policy" : least->text("policy"));
  return fmt::format("A parameter of {} takes {} bytes under {} and {} under {}.", least->text("model"),
                     in_words(least->number("total")), least->text("policy"), in_words(most->number("total")),
                     most->text("policy"));
}

}  // namespace

Experiment memory_experiment() {
  return {"memory",
          "Bytes of a training",
          "How many bytes does a training take under each policy?",
          memory::parameters,
          memory::run_memory,
          memory_finding,
          {"bytes", {"model", "policy", "stage", "gb", "gib"}, {}, {}},
          false,
          &publications::training_memory};
}

}  // namespace halfulp
