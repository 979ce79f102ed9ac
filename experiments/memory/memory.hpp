// The memory of a training: a transformer's parameters, states and activations, from the numbers of its configuration.
#pragma once

#include <halfulp/report/experiment.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/training/layers/numerics.hpp>
#include <halfulp/training/policy.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp::memory {

/// More bytes than this are refused.
inline constexpr std::uint64_t most_bytes = std::uint64_t{1} << 56;

constexpr std::uint64_t ceil_divide(std::uint64_t a, std::uint64_t b) { return a / b + (a % b != 0); }

/// One tensor of parameters: `copies` of rows x columns, one copy per layer and expert.
struct ParameterTensor {
  std::string name;
  training::OperatorKind kind;  ///< whose policy it follows
  std::uint64_t rows = 1, columns = 1, copies = 1;
  bool inside = false;  ///< belongs to layers, which have equal shares of the copies
  std::uint64_t elements() const { return rows * columns * copies; }
};

/// Names are those of published configurations. A model that states only its number of parameters has the shape 0.
struct ModelShape {
  std::string name, title, source;
  std::uint64_t parameters = 0;  ///< stated instead of a shape
  std::uint64_t published = 0,
                published_unit = 1;  ///< the count of a paper or model card, rounded to this unit; 0: none
  std::uint64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_size = 0, ffn = 0, vocabulary = 0;
  std::uint64_t positions = 0, token_types = 0;  ///< learned embeddings; 0: none
  std::uint64_t experts = 0, experts_used = 0;   ///< 0: one feed-forward network for all tokens, without a router
  std::uint64_t context = 0;
  bool gated = false;  ///< three matrices in the feed-forward network: gate, up, down
  bool tied = true;    ///< the output layer is the embedding
  bool biases = true, embedding_norm = false, final_norm = true, pooler = false, dropout = true, rms = false;

  bool has_shape() const { return layers != 0; }
  std::uint64_t kv_width() const { return kv_heads * head_size; }
  std::uint64_t q_width() const { return heads * head_size; }
};

/// Reads
///
///   {"name": "mine", "layers": 12, "hidden": 768, "heads": 12, "vocabulary": 50257, "ffn": 4 hidden, "kv_heads":
///   heads, "head_size": hidden / heads,
///    "gated": false, "experts": 0, "experts_used": experts, "positions": 0, "token_types": 0, "context": positions or
///    2048, "tied": true, "biases": true, "norm": "layer" | "rms", "embedding_norm": false, "final_norm": true,
///    "pooler": false, "dropout": true, "title": "", "source": "", "published": COUNT, "published_unit": 1}
///
/// or {"name", "parameters": COUNT}. The values shown are defaults, except those of layers, hidden, heads and
/// vocabulary. The default name is that of the file `where` without its ending. Throws std::invalid_argument in one
/// line that begins with `where`.
ModelShape parse_model(const Json& json, const std::string& where);

/// The named models, in the order of models.json.
const std::vector<ModelShape>& models();
/// Throws std::invalid_argument that names the nearest ones.
const ModelShape& find_model(std::string_view name);

/// All tensors of parameters that have elements.
std::vector<ParameterTensor> parameter_tensors(const ModelShape& model);
std::uint64_t parameter_count(const ModelShape& model);

// Activations: what a layer keeps for its backward pass, tensor by tensor (Korthikanti et al. 2022, Reducing Activation
// Recomputation, sections 4.1 and 5).

/// Which activations are computed again instead of kept.
enum class Recomputation : std::uint8_t {
  none,
  selective,  ///< those as large as the attention scores: softmax, its dropout, the weights of values
  full,       ///< all except the input of every layer
};
inline constexpr std::array<std::string_view, 3> recomputation_names{"none", "selective", "full"};

/// One tensor that is kept, in each layer or once per model.
struct ActivationTensor {
  std::string name;
  std::uint64_t bytes = 0;  ///< of one layer
  std::uint64_t layers = 1;
  bool inside = true;  ///< a layer
};

/// The activations of a micro-batch of `batch` sequences. The operand of a product is kept in the format in which it
/// enters the product, everything else in its own; dropout keeps one byte per element of a mask. Empty for models
/// without a shape. Throws std::invalid_argument in one line for more than 2^56 bytes.
std::vector<ActivationTensor> activation_tensors(const ModelShape& model, const training::Policy& policy,
                                                 std::uint64_t sequence, std::uint64_t batch,
                                                 Recomputation recomputation);

/// Their sum.
std::uint64_t activation_bytes(const std::vector<ActivationTensor>& tensors);

// States: the bytes of parameters, gradients and optimizer states under a precision policy, whole and in ZeRO's shards.
// All arithmetic is in integers.

/// Bits of rows x columns elements in a storage, including scales.
std::uint64_t storage_bits(const training::Storage& storage, std::uint64_t rows, std::uint64_t columns);

/// What is kept through a training step besides activations.
///
/// parameters: what forward and backward read, in the policy's storage of weights.
/// gradients: in the wider of that format and the policy's results for gradients of weights, as .grad has the type of
/// its parameter. master: the copy in FP32 that updates change, where the policy has one. first, second: the
/// optimizer's states; compensation: Kahan summation's. copies: weights of products in their operands' format where
/// that is not the parameters' own; autocast keeps them through a step.
enum class MemoryState : std::uint8_t { parameters, gradients, master, first, second, compensation, copies };
inline constexpr std::array<std::string_view, 7> state_names{"parameters", "gradients",    "master", "first",
                                                             "second",     "compensation", "copies"};

/// Bytes by state, each rounded up.
using StateBytes = std::array<std::uint64_t, state_names.size()>;

/// The states of the whole model, on one rank that shares nothing.
StateBytes state_bytes(const ModelShape& model, const training::Policy& policy, training::OptimizerKind optimizer,
                       bool momentum);

/// What the fullest of N ranks holds at a stage of ZeRO (Rajbhandari et al. 2020). Stages from 1 on shard states,
/// master weights and compensation; stages from 2 on gradients too; stage 3 also parameters and their copies. A shard
/// is ceil(bytes / N).
StateBytes on_a_rank(const StateBytes& whole, int stage, std::uint64_t ranks);

/// What a rank of stage 3 holds in addition if there are several ranks: it gathers the parameters of one layer, or of
/// one tensor outside layers, and drops them after the products. This is the largest of these, with its copies. 0 at
/// other stages and for models without a shape.
std::uint64_t gathered_bytes(const ModelShape& model, const training::Policy& policy, int stage, std::uint64_t ranks);

std::uint64_t total(const StateBytes& bytes);

// Inference, and how many devices hold a model.

/// The weights at inference. A format with scales is that of the layers' matrices; embeddings, the output layer, norms
/// and biases are in bf16 then, as LLM.int8() and GPTQ leave them in 16 bits. Any other format is that of all.
std::uint64_t weight_bytes(const ModelShape& model, const training::Storage& storage);

/// Keys and values of `batch` sequences of `context` tokens: for each layer, token and head one row of head_size each.
/// 0 for encoders (models with a pooler) and for models without a shape. Throws std::invalid_argument in one line for
/// more than 2^56 bytes.
std::uint64_t cache_bytes(const ModelShape& model, const training::Storage& storage, std::uint64_t context,
                          std::uint64_t batch);

/// The smallest number of ranks whose fullest one holds no more than `room` bytes at stage 3: its shards, what it
/// gathers (if `gathers`), and `own` bytes that nobody shares. Nothing if a million ranks are too few.
std::optional<std::uint64_t> fewest_ranks(const ModelShape& model, const training::Policy& policy,
                                          const StateBytes& whole, bool gathers, std::uint64_t own, std::uint64_t room);

/// The smallest micro-batch whose activations take more than `others`, of at most 2^20; nothing without one.
std::optional<std::uint64_t> batch_above(const ModelShape& model, const training::Policy& policy,
                                         std::uint64_t sequence, Recomputation recomputation, std::uint64_t others);

// The pieces of the experiment "memory".

struct MemorySettings {
  std::vector<ModelShape> models;
  std::vector<training::Policy> policies;
  training::OptimizerKind optimizer = training::OptimizerKind::adamw;
  bool momentum = false;
  std::vector<int> stages;
  std::vector<std::int64_t> ranks;
  std::uint64_t data_parallel = 1, sequence = 0, batch = 1;
  Recomputation recomputation = Recomputation::none;
  std::vector<training::Storage> weights, caches;  ///< of inference
  std::vector<std::int64_t> batches, devices;      ///< devices by their size in GB
  double usable = 1;                               ///< share of a device

  std::uint64_t tokens(const ModelShape& m) const { return sequence ? sequence : m.context; }
  StateBytes states(const ModelShape& m, const training::Policy& p) const {
    return state_bytes(m, p, optimizer, momentum);
  }
  /// Usable bytes of a device.
  std::uint64_t room(std::int64_t gb) const {
    return static_cast<std::uint64_t>(static_cast<double>(gb) * 1e9 * usable);
  }
};

/// 10^9 bytes.
inline Json gigabytes(std::uint64_t bytes) { return number(static_cast<double>(bytes) / 1e9); }

/// The tables `inference`, `inference_devices` and `training_devices`.
void report_devices(const MemorySettings& settings, Report& report);
/// The tables `batch` and `batch_half`.
void report_batches(const MemorySettings& settings, Report& report);

/// Claims about published figures and identities, which do not depend on the configuration.
void report_claims(Report& report);
/// Those about inference, devices and batches, called by report_claims.
void report_device_claims(Report& report);

}  // namespace halfulp::memory
