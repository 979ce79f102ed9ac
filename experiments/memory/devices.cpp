// Inference, and how many devices hold a model's training or its inference; activations by the micro-batch.
#include <halfulp/experiments/memory/memory.hpp>
#include <halfulp/report/report.hpp>

#include <fmt/format.h>

#include <bit>
#include <stdexcept>

namespace halfulp::memory {
namespace {

using training::OperatorKind, training::Policy, training::Storage;

__extension__ using Wide = unsigned __int128;
constexpr std::uint64_t most_ranks = 1'000'000, most_batch = 1 << 20;

bool is_layers_matrix(const ParameterTensor& t) { return t.inside && t.kind == OperatorKind::linear && t.rows > 1; }

/// The smallest number from `low` to `high` for which `enough` holds, which holds for all above it too; nothing if it
/// holds for none.
template <class Enough>
std::optional<std::uint64_t> smallest(std::uint64_t low, std::uint64_t high, Enough&& enough) {
  if (!enough(high)) return std::nullopt;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (enough(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

const Column model_column{"model", "", "Name of the model; those without a shape are left out."},
    policy_column{"policy", "", "Precision policy."},
    recomputation_column{"recomputation", "", "What is computed again in the backward pass, as in `activations`."},
    device_column{"device_gb", "GB", "Memory of a device, in 10^9 bytes."};

}  // namespace

std::uint64_t weight_bytes(const ModelShape& m, const Storage& storage) {
  const Storage whole = storage.block() ? Storage{bf16} : storage;
  std::uint64_t bits = 0;
  for (const ParameterTensor& t : parameter_tensors(m))
    bits += storage_bits(is_layers_matrix(t) ? storage : whole, t.rows, t.columns) * t.copies;
  return ceil_divide(bits, 8);
}

std::uint64_t cache_bytes(const ModelShape& m, const Storage& storage, std::uint64_t context, std::uint64_t batch) {
  if (!m.has_shape() || m.pooler) return 0;
  const Wide rows = Wide{2} * m.layers * m.kv_heads * context * batch;
  if (rows * m.head_size > most_bytes)  // an element takes a bit or more; with scales no more than 64
    throw std::invalid_argument(fmt::format(
        "keys and values of {}: more than 2^56 for a batch of {} sequences of {} tokens", m.name, batch, context));
  return ceil_divide(storage_bits(storage, static_cast<std::uint64_t>(rows), m.head_size), 8);
}

std::optional<std::uint64_t> fewest_ranks(const ModelShape& m, const Policy& p, const StateBytes& whole, bool gathers,
                                          std::uint64_t own, std::uint64_t room) {
  const auto fits = [&](std::uint64_t n) {
    return total(on_a_rank(whole, 3, n)) + (gathers ? gathered_bytes(m, p, 3, n) : 0) + own <= room;
  };
  // A single rank gathers nothing: it may hold what two do not.
  return fits(1) ? 1 : smallest(2, most_ranks, fits);
}

std::optional<std::uint64_t> batch_above(const ModelShape& m, const Policy& p, std::uint64_t sequence,
                                         Recomputation how, std::uint64_t others) {
  const auto above = [&](std::uint64_t batch) {
    return activation_bytes(activation_tensors(m, p, sequence, batch, how)) > others;
  };
  // By doubling, so that no batch is asked for that is much too large.
  std::uint64_t high = 1;
  while (high < most_batch && !above(high)) high *= 2;
  return smallest(1, high, above);
}

void report_devices(const MemorySettings& c, Report& report) {
  const Column weights{"weights", "", "Format of the layers' matrices; of everything if it has no scales."},
      cache{"cache", "", "Format of keys and values."};
  Table& inference = report.table(
      "inference", fmt::format("Bytes at inference, batch {}", c.batch),
      {model_column,
       weights,
       cache,
       {"weight_bytes", "byte", "Weights with their scales; beside the layers' matrices in bf16 if there are scales."},
       {"cache_bytes", "byte", "Keys and values of all tokens of the batch, with their scales; 0 for encoders."},
       {"gb", "GB", "Both, in 10^9 bytes."},
       {"bits_a_weight", "bit", "Bits that a parameter takes on average."},
       {"cache_share", "1", "Share of keys and values."}});
  Table& servers = report.table(
      "inference_devices", fmt::format("Devices that hold them, {} of each filled", c.usable),
      {model_column,
       weights,
       cache,
       device_column,
       {"devices", "1", "The fewest devices that hold weights, keys and values, evenly spread."},
       {"power_of_two", "1", "The fewest if their number is a power of two, as matrices are usually split."}});
  Table& trainers = report.table(
      "training_devices",
      fmt::format("Devices that hold a training at stage 3, batch {}, {} of each filled", c.batch, c.usable),
      {model_column,
       policy_column,
       recomputation_column,
       device_column,
       {"shared", "byte", "Parameters, gradients, states and copies of the whole model, which all ranks share."},
       {"own", "byte", "Activations of a micro-batch, of which every rank has its own."},
       {"for_states", "rank", "The fewest ranks that hold what is shared; null if a million do not."},
       {"devices", "rank",
        "The fewest if a rank also holds its activations and what it gathers; null if these alone are too much."}});
  for (const ModelShape& m : c.models) {
    if (!m.has_shape()) continue;
    const auto parameters = static_cast<double>(parameter_count(m));
    for (const Storage& w : c.weights)
      for (const Storage& k : c.caches) {
        const std::uint64_t kept = weight_bytes(m, w), keys = cache_bytes(m, k, c.tokens(m), c.batch);
        const std::string format = training::text_of(w), cached = training::text_of(k);
        inference.row({m.name, format, cached, kept, keys, gigabytes(kept + keys),
                       number(8 * static_cast<double>(kept) / parameters), share(keys, kept + keys)});
        for (const std::int64_t gb : c.devices) {
          const std::uint64_t n = ceil_divide(kept + keys, c.room(gb));
          servers.row({m.name, format, cached, gb, n, std::bit_ceil(n)});
        }
      }
    for (const Policy& p : c.policies) {
      const StateBytes whole = c.states(m, p);
      for (std::size_t r = 0; r < recomputation_names.size(); ++r) {
        const std::uint64_t own = activation_bytes(
            activation_tensors(m, p, c.tokens(m), c.batch, static_cast<Recomputation>(r)));
        for (const std::int64_t gb : c.devices)
          trainers.row({m.name, p.name, recomputation_names[r], gb, total(whole), own,
                        or_null(fewest_ranks(m, p, whole, false, 0, c.room(gb))),
                        or_null(fewest_ranks(m, p, whole, true, own, c.room(gb)))});
      }
    }
  }
}

void report_batches(const MemorySettings& c, Report& report) {
  Table& batches = report.table(
      "batch", "Activations by the micro-batch",
      {model_column,
       policy_column,
       recomputation_column,
       {"batch", "1", "Sequences of a micro-batch."},
       {"activations", "byte", "What they leave for the backward pass; null above 2^55."},
       {"share", "1", "Share of activations in all memory of one rank that shares nothing."},
       {"sharded", "1",
        fmt::format("The same where {} ranks share all else at stage 3, on the fullest.", c.data_parallel)}});
  Table& half = report.table(
      "batch_half", "The micro-batch from which on activations are more than half",
      {model_column,
       policy_column,
       recomputation_column,
       {"states", "byte", "Parameters, gradients, states and copies, nothing shared."},
       {"sequence", "byte", "Activations of one sequence."},
       {"from", "1", "The smallest micro-batch whose activations take more than the states; null above 2^20."},
       {"sharded_from", "1", "The same where all else is shared at stage 3; null above 2^20."}});
  for (const ModelShape& m : c.models) {
    if (!m.has_shape()) continue;
    for (const Policy& p : c.policies) {
      const StateBytes whole = c.states(m, p);
      const std::uint64_t states = total(whole), shard = total(on_a_rank(whole, 3, c.data_parallel)) +
                                                         gathered_bytes(m, p, 3, c.data_parallel);
      for (std::size_t r = 0; r < recomputation_names.size(); ++r) {
        const auto how = static_cast<Recomputation>(r);
        const std::uint64_t one = activation_bytes(activation_tensors(m, p, c.tokens(m), 1, how));
        for (const std::int64_t batch : c.batches) {
          // Twice what one sequence takes, times the batch, is more than all tensors' bytes rounded up.
          const auto count = static_cast<std::uint64_t>(batch);
          if (one > most_bytes / 2 / count) {
            batches.row({m.name, p.name, recomputation_names[r], batch, nullptr, nullptr, nullptr});
            continue;
          }
          const std::uint64_t kept = activation_bytes(activation_tensors(m, p, c.tokens(m), count, how));
          batches.row({m.name, p.name, recomputation_names[r], batch, kept, share(kept, kept + states),
                       share(kept, kept + shard)});
        }
        half.row({m.name, p.name, recomputation_names[r], states, one,
                  or_null(batch_above(m, p, c.tokens(m), how, states)),
                  or_null(batch_above(m, p, c.tokens(m), how, shard))});
      }
    }
  }
}

namespace {

/// Linear in the batch, and more than half from where the published formulas say.
void claim_batches(Report& report) {
  const Policy half = training::find_policy("pure-bf16"), mixed = training::find_policy("O2");
  Json bent = Json::array(), counted = Json::object(), derived = Json::object();
  for (const ModelShape& m : models())
    for (std::size_t r = 0; r < recomputation_names.size(); ++r) {
      const auto at = [&](std::uint64_t batch) {
        return activation_bytes(activation_tensors(m, half, m.context, batch, static_cast<Recomputation>(r)));
      };
      if (m.has_shape() && at(64) != 64 * at(1)) bent.push_back(m.name);
    }
  report.claim({"activations-linear",
                "Activations of 64 sequences are 64 times those of one, in every named model: all else stays.",
                "derived: no tensor that is kept spans sequences"},
               exactly(Json::array(), bent, "oracle"));
  for (const char* const name : {"gpt3-175b", "mt-nlg-530b"}) {
    const ModelShape& m = find_model(name);
    const std::uint64_t h = m.hidden, s = 2048, l = m.layers, v = m.vocabulary, bytes = 16;
    const std::uint64_t states = bytes * (12 * l * h * h + 13 * l * h + (v + s) * h + 2 * h),
                        outside = s * (5 * h + 2 * v);
    derived[name] = {states / (l * (34 * s * h + 5 * m.heads * s * s) + outside) + 1,
                     states / (l * 34 * s * h + outside) + 1, states / (l * 2 * s * h + outside) + 1};
    Json all = Json::array();
    for (const auto how : {Recomputation::none, Recomputation::selective, Recomputation::full})
      all.push_back(
          or_null(batch_above(m, mixed, s, how, total(state_bytes(m, mixed, training::OptimizerKind::adam, false)))));
    counted[name] = all;
  }
  report.claim({"activations-half",
                "The micro-batch from which on activations take more than all 16 bytes a parameter, with no, selective "
                "and full recomputation, in GPT-3 and MT-NLG.",
                "derived: s b h (34 + 5 a s / h), 34 s b h or 2 s b h bytes a layer (Korthikanti et al. 2022) and "
                "s b (5 h + 2 v) outside, against 16 (12 l h^2 + 13 l h + (v + s) h + 2 h)"},
               exactly(derived, counted, "oracle"));
}

}  // namespace

void report_device_claims(Report& report) {
  const Basis by_tables = may_differ("counted from the tensors and formats in the tables, which say otherwise");
  const auto storage = [](const char* format) { return training::parse_storage(format, "claims"); };
  const ModelShape& bloom = find_model("bloom-176b");
  report.claim(
      {"cache-800-kb", "Keys and values of one token take 800 KB, which are KiB, in 16 bits: 40 layers of width 5120.",
       "Kwon et al. 2023, PagedAttention, section 3 (OPT-13B, whose layers are LLaMA-13B's in number and width)"},
      exactly(800.0, static_cast<double>(cache_bytes(find_model("llama-13b"), storage("fp16"), 1, 1)) / 1024,
              by_tables));
  report.claim(
      {"cache-9-gb", "Keys and values of 2048 tokens take 9 GB, which are GiB, in a GPT of 175 B parameters.",
       "Frantar et al. 2022, GPTQ, section 4 (OPT-175B, whose layers are GPT-3's in number and width)"},
      exactly(9.0, static_cast<double>(cache_bytes(find_model("gpt3-175b"), storage("fp16"), 2048, 1)) / 0x1p30,
              by_tables));
  const auto devices = [&](const char* format, std::uint64_t gb) {
    const std::uint64_t bytes = weight_bytes(bloom, storage(format)) + cache_bytes(bloom, storage("bf16"), 2048, 1);
    return std::bit_ceil(ceil_divide(bytes, gb * 900'000'000));
  };
  report.claim(
      {"bloom-inference-devices",
       "BLOOM with 2048 tokens needs 8 devices of 80 GB in BF16, 16 of 40 GB, and in INT8 4 of 80 GB: powers of "
       "two, of which nine tenths are filled.",
       "Bekman & Gugger 2022, Incredibly Fast BLOOM Inference with DeepSpeed and Accelerate (Hugging Face)"},
      exactly({8, 16, 4}, Json::array({devices("bf16", 80), devices("bf16", 40), devices("int8", 80)}), by_tables));
  const Policy mixed = training::find_policy("O2");
  const StateBytes states = state_bytes(bloom, mixed, training::OptimizerKind::adam, false);
  Json fewest = Json::array(), derived = Json::array();
  for (const std::uint64_t gb : {40u, 80u, 141u}) {
    fewest.push_back(or_null(fewest_ranks(bloom, mixed, states, false, 0, gb * 1'000'000'000)));
    derived.push_back(ceil_divide(16 * bloom.published, gb * 1'000'000'000));
  }
  report.claim(
      {"bloom-training-devices",
       "The states alone of BLOOM's training fill 71 devices of 40 GB, 36 of 80 GB or 20 of 141 GB to the last byte "
       "(the table `training_devices` fills nine tenths).",
       "derived: 16 bytes for each of its 176,247,271,424 parameters"},
      exactly(derived, fewest, "oracle"));
  const std::uint64_t own = activation_bytes(activation_tensors(bloom, mixed, 2048, 1, Recomputation::full));
  report.claim(
      {"bloom-replica",
       "48 devices of 80 GB, nine tenths filled, hold BLOOM's training with full recomputation: no more than "
       "BigScience gave each replica.",
       "bigscience/bloom on Hugging Face, discussion 128: 384 devices of 80 GB, 48 a replica"},
      at_most(48,
              static_cast<double>(fewest_ranks(bloom, mixed, states, true, own, 72'000'000'000).value_or(most_ranks)),
              by_tables));
  claim_batches(report);
}

}  // namespace halfulp::memory
