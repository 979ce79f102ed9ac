#include <halfulp/experiments/memory/memory.hpp>
#include <halfulp/support/record.hpp>
#include <halfulp/support/spelling.hpp>

#include <fmt/format.h>
#include <halfulp_models_text.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <numeric>
#include <stdexcept>

namespace halfulp::memory {
namespace {

using training::OperatorKind;

constexpr std::int64_t most_parameters = 1'000'000'000'000'000;
/// The largest extent of a model. Products of three extents and a count stay below 2^64 if the count of parameters
/// does.
constexpr std::int64_t most = 1'000'000'000;

bool one_line(const std::string& text, std::size_t length) {
  return !text.empty() && text.size() <= length &&
         std::none_of(text.begin(), text.end(), [](unsigned char c) { return std::iscntrl(c) != 0; });
}

constexpr const char* name_accepted = "one line of 1 to 40 ASCII characters (a model without one has its file's)";

void check_name(const JsonValue& where, const std::string& name) {
  // Terminals obey some characters beyond ASCII.
  if (!one_line(name, 40) || std::any_of(name.begin(), name.end(), [](char c) { return c < ' ' || c > '~'; }) ||
      name.find_first_not_of(' ') == std::string::npos)
    where.refuse(name_accepted);
}

void read_name(const JsonValue& json, std::string& name) { check_name(json, name = json.text()); }

/// 128 bits, because a user's numbers may ask for anything.
__extension__ using Wide = unsigned __int128;

constexpr std::array<Named<bool>, 2> norms{{{"layer", false}, {"rms", true}}};

}  // namespace

/// A field's default may follow from fields before it.
template <class V>
void fields(V& v, ModelShape& m) {
  constexpr Whole extent = whole(1, most), count = whole(1, most_parameters), some = whole(0, most);
  v("name", m.name, by(read_name, name_accepted), optional);
  v("title", m.title, otherwise(m.name));
  v("source", m.source, optional);
  v("published", m.published, count, optional);
  v("published_unit", m.published_unit, count, optional);
  v("parameters", m.parameters, count, optional);
  if (m.parameters) return;
  v("layers", m.layers, whole(1, 100'000));
  v("hidden", m.hidden, extent);
  v("heads", m.heads, whole(1, 1'000'000));
  v("vocabulary", m.vocabulary, extent);
  v("kv_heads", m.kv_heads, extent, otherwise(m.heads));
  v("head_size", m.head_size, extent, optional);
  v("ffn", m.ffn, extent, otherwise(std::min<std::uint64_t>(4 * m.hidden, most)));
  v("experts", m.experts, whole(0, 100'000), optional);
  v("experts_used", m.experts_used, whole(0, 100'000), otherwise(m.experts));
  v("positions", m.positions, some, optional);
  v("token_types", m.token_types, some, optional);
  v("context", m.context, extent, otherwise(m.positions ? m.positions : 2048));
  v("gated", m.gated, optional);
  v("tied", m.tied, optional);
  v("biases", m.biases, optional);
  v("embedding_norm", m.embedding_norm, optional);
  v("final_norm", m.final_norm, optional);
  v("pooler", m.pooler, optional);
  v("dropout", m.dropout, optional);
  v("norm", m.rms, chosen_from(norms), optional);
}

ModelShape parse_model(const Json& json, const std::string& where) {
  ModelShape m;
  m.name = std::filesystem::path(where).stem().string();
  if (!json.is_object())
    JsonValue(json, where).refuse("an object with layers, hidden, heads, vocabulary, ... or parameters");
  const Json name = m.name;
  if (!json.contains("name")) check_name({name, where + ".name"}, m.name);
  read_record(json, where, m);
  const auto fail = [&](const std::string& what) { throw std::invalid_argument(where + ": " + what); };
  if (!one_line(m.title, 400) || (!m.source.empty() && !one_line(m.source, 400)))
    fail("title and source are one line of at most 400 characters each");
  if (m.parameters) return m;
  if (m.heads % m.kv_heads != 0)
    fail(fmt::format("kv_heads is {}, which does not divide heads, {}; accepted: a divisor of heads", m.kv_heads,
                     m.heads));
  if (!m.head_size) {
    if (m.hidden % m.heads != 0)
      fail(fmt::format(
          "heads is {}, which does not divide hidden, {}; accepted: a divisor of hidden, or any heads with head_size",
          m.heads, m.hidden));
    m.head_size = m.hidden / m.heads;
  }
  if (m.experts_used > m.experts || (m.experts > 0 && m.experts_used == 0))
    fail(fmt::format("experts_used is {} and experts {}; accepted: 1 to experts", m.experts_used, m.experts));
  Wide all = 0;
  for (const ParameterTensor& t : parameter_tensors(m)) all += Wide{t.rows} * t.columns * t.copies;
  if (all > static_cast<Wide>(most_parameters)) fail(fmt::format("its parameters are more than {}", most_parameters));
  return m;
}

std::vector<ParameterTensor> parameter_tensors(const ModelShape& m) {
  if (!m.has_shape()) return {{"parameters", OperatorKind::linear, 1, m.parameters, 1, false}};
  std::vector<ParameterTensor> all;
  bool inside = false;
  const auto put = [&](const char* name, OperatorKind kind, std::uint64_t rows, std::uint64_t columns,
                       std::uint64_t copies) {
    if (rows && columns && copies) all.push_back({name, kind, rows, columns, copies, inside});
  };
  const OperatorKind norm = m.rms ? OperatorKind::rms_norm : OperatorKind::layer_norm;
  const auto put_norm = [&](const char* name, const char* bias, std::uint64_t copies) {
    put(name, norm, 1, m.hidden, copies);
    if (!m.rms) put(bias, norm, 1, m.hidden, copies);
  };
  // Weights are outputs x inputs.
  const auto put_linear = [&](const char* name, const char* bias, std::uint64_t outputs, std::uint64_t inputs,
                              std::uint64_t copies) {
    put(name, OperatorKind::linear, outputs, inputs, copies);
    if (m.biases) put(bias, OperatorKind::linear, 1, outputs, copies);
  };
  put("embedding", OperatorKind::embedding, m.vocabulary, m.hidden, 1);
  put("positions", OperatorKind::position, m.positions, m.hidden, 1);
  put("token types", OperatorKind::embedding, m.token_types, m.hidden, 1);
  if (m.embedding_norm) put_norm("embedding norm", "embedding norm bias", 1);
  inside = true;
  put_norm("norms", "norm biases", 2 * m.layers);
  put_linear("query", "query bias", m.q_width(), m.hidden, m.layers);
  put_linear("key", "key bias", m.kv_width(), m.hidden, m.layers);
  put_linear("value", "value bias", m.kv_width(), m.hidden, m.layers);
  put_linear("attention output", "attention output bias", m.hidden, m.q_width(), m.layers);
  const std::uint64_t networks = m.layers * std::max<std::uint64_t>(m.experts, 1);
  put("router", OperatorKind::linear, m.experts, m.hidden, m.layers);
  if (m.gated) put_linear("ffn gate", "ffn gate bias", m.ffn, m.hidden, networks);
  put_linear("ffn up", "ffn up bias", m.ffn, m.hidden, networks);
  put_linear("ffn down", "ffn down bias", m.hidden, m.ffn, networks);
  inside = false;
  if (m.final_norm) put_norm("final norm", "final norm bias", 1);
  if (m.pooler) put_linear("pooler", "pooler bias", m.hidden, m.hidden, 1);
  if (!m.tied) put("output", OperatorKind::linear, m.vocabulary, m.hidden, 1);
  return all;
}

std::uint64_t parameter_count(const ModelShape& m) {
  std::uint64_t all = 0;
  for (const ParameterTensor& t : parameter_tensors(m)) all += t.elements();
  return all;
}

const std::vector<ModelShape>& models() {
  static const std::vector<ModelShape> all = [] {
    std::vector<ModelShape> known;
    for (const Json& json : parse_json(models_text, "models.json"))
      known.push_back(parse_model(json, json.value("name", "models.json")));
    return known;
  }();
  return all;
}

const ModelShape& find_model(std::string_view name) {
  std::vector<std::string> names;
  for (const ModelShape& model : models()) {
    if (model.name == name) return model;
    names.push_back(model.name);
  }
  throw std::invalid_argument(unknown_name("model", name, names));
}

namespace {

using training::OperatorKind, training::Policy, training::Role, training::Storage;

__extension__ using Wide = unsigned __int128;

/// The storage of an operator's input: the operand of its product, or the result of its producer.
const Storage& kept(const training::OperatorPrecision& product, const training::OperatorPrecision& producer) {
  const Storage& operand = product.operand(Role::activation);
  return operand.keeps_floats() ? producer.result(Role::activation) : operand;
}

}  // namespace

std::vector<ActivationTensor> activation_tensors(const ModelShape& m, const Policy& policy, std::uint64_t sequence,
                                                 std::uint64_t batch, Recomputation recomputation) {
  std::vector<ActivationTensor> all;
  if (!m.has_shape()) return all;
  Wide sum = 0;
  bool inside = true;
  const auto put_bytes = [&](const char* name, Wide bytes, std::uint64_t layers) {
    sum += bytes * layers;
    if (sum > most_bytes)
      throw std::invalid_argument(fmt::format(
          "activations of {}: more than 2^56 bytes for a batch of {} sequences of {} tokens", m.name, batch, sequence));
    if (bytes) all.push_back({name, static_cast<std::uint64_t>(bytes), layers, inside});
  };
  // Checked before storage_bits multiplies: an element takes 4 bytes at most, with scales no more than 8.
  const auto put = [&](const char* name, const Storage& storage, std::uint64_t rows, std::uint64_t columns,
                       std::uint64_t layers) {
    if (Wide{rows} * columns > most_bytes) put_bytes(name, Wide{rows} * columns, layers);
    put_bytes(name, (Wide{storage_bits(storage, rows, columns)} + 7) / 8, layers);
  };
  const auto at = [&](OperatorKind kind) { return policy.at(kind, ""); };
  const auto linear = at(OperatorKind::linear), norm = at(m.rms ? OperatorKind::rms_norm : OperatorKind::layer_norm),
             residual = at(OperatorKind::residual), scores = at(OperatorKind::attention_scores),
             weighting = at(OperatorKind::attention_values), softmax = at(OperatorKind::softmax),
             gelu = at(OperatorKind::gelu), dropout = at(OperatorKind::dropout), loss = at(OperatorKind::cross_entropy);
  const std::uint64_t tokens = sequence * batch, networks = m.experts ? m.experts_used : 1;
  const auto result = [](const training::OperatorPrecision& p) -> const Storage& { return p.result(Role::activation); };

  const auto masks = [&](const char* name, std::uint64_t rows, std::uint64_t columns, std::uint64_t layers) {
    if (m.dropout) put_bytes(name, Wide{rows} * columns, layers);
  };
  if (recomputation == Recomputation::full) {
    put("layer input", result(residual), tokens, m.hidden, m.layers);
  } else {
    put("attention norm input", result(residual), tokens, m.hidden, m.layers);
    put("query, key, value input", kept(linear, norm), tokens, m.hidden, m.layers);
    put("queries", kept(scores, linear), tokens, m.q_width(), m.layers);
    put("keys", kept(scores, linear), tokens, m.kv_width(), m.layers);
    put("values", kept(weighting, linear), tokens, m.kv_width(), m.layers);
    if (recomputation == Recomputation::none) {
      const std::uint64_t score_rows = tokens * m.heads;
      put("softmax", result(softmax), score_rows, sequence, m.layers);
      masks("attention dropout mask", score_rows, sequence, m.layers);
      if (m.dropout || !(kept(weighting, softmax) == result(softmax)))
        put("attention weights", kept(weighting, dropout), score_rows, sequence, m.layers);
    }
    put("attention output input", kept(linear, weighting), tokens, m.q_width(), m.layers);
    masks("attention output dropout mask", tokens, m.hidden, m.layers);
    put("ffn norm input", result(residual), tokens, m.hidden, m.layers);
    put("ffn input", kept(linear, norm), tokens * networks, m.hidden, m.layers);
    if (m.gated) put("ffn gate", result(linear), tokens * networks, m.ffn, m.layers);
    put(m.gated ? "ffn up" : "activation input", result(linear), tokens * networks, m.ffn, m.layers);
    if (m.gated) put("activation", result(gelu), tokens * networks, m.ffn, m.layers);
    put("ffn down input", kept(linear, gelu), tokens * networks, m.ffn, m.layers);
    masks("ffn dropout mask", tokens, m.hidden, m.layers);
  }
  inside = false;
  if (m.embedding_norm) put("embedding norm input", result(residual), tokens, m.hidden, 1);
  masks("embedding dropout mask", tokens, m.hidden, 1);
  if (m.final_norm) put("final norm input", result(residual), tokens, m.hidden, 1);
  put("output input", kept(linear, norm), tokens, m.hidden, 1);
  put("logits", result(loss), tokens, m.vocabulary, 1);
  return all;
}

std::uint64_t activation_bytes(const std::vector<ActivationTensor>& tensors) {
  std::uint64_t all = 0;
  for (const ActivationTensor& t : tensors) all += t.bytes * t.layers;
  return all;
}

namespace {

using training::Policy, training::Role, training::Storage;

std::uint64_t bits_of(const Storage& storage, const ParameterTensor& t) {
  return storage_bits(storage, t.rows, t.columns) * t.copies;
}

/// Whether a matrix enters a product. A tied embedding is the matrix of the output layer.
bool enters_a_product(const ModelShape& m, const ParameterTensor& t) {
  return t.kind == training::OperatorKind::linear ? t.rows > 1 || !m.has_shape() : m.tied && t.name == "embedding";
}

/// Bits of the copies in which weights enter products; 0 where the weights themselves do.
std::uint64_t copy_bits(const ModelShape& model, const Policy& policy, const ParameterTensor& t) {
  const training::OperatorPrecision product = policy.at(training::OperatorKind::linear, t.name);
  const Storage& operand = product.operand(Role::weight);
  return enters_a_product(model, t) && !operand.keeps_floats() && operand.format != policy.update.weights.format
             ? bits_of(operand, t)
             : 0;
}

}  // namespace

std::uint64_t storage_bits(const Storage& storage, std::uint64_t rows, std::uint64_t columns) {
  const std::uint64_t elements = rows * columns;
  if (const FloatFormat* const plain = storage.plain())
    return elements * static_cast<std::uint64_t>(plain->storage_bits());
  const BlockFormat& f = *storage.block();
  const std::uint64_t down = f.rows ? ceil_divide(rows, f.rows) : 1,
                      across = f.columns ? ceil_divide(columns, f.columns) : 1;
  const auto shared = static_cast<std::uint64_t>(f.scale.storage_bits() +
                                                 (f.element.is_affine() ? f.element.bits() : 0));
  return elements * static_cast<std::uint64_t>(f.element.bits()) + down * across * shared + (f.tensor_scale ? 32 : 0);
}

StateBytes state_bytes(const ModelShape& model, const Policy& policy, training::OptimizerKind optimizer,
                       bool momentum) {
  StateBytes bits{};
  const training::UpdatePrecision& u = policy.update;
  const auto at = [&](MemoryState s) -> std::uint64_t& { return bits[static_cast<std::size_t>(s)]; };
  const bool adam = optimizer != training::OptimizerKind::sgd;
  for (const ParameterTensor& t : parameter_tensors(model)) {
    const training::OperatorPrecision p = policy.at(t.kind, t.name);
    const std::uint64_t weights = bits_of(u.weights, t);
    at(MemoryState::parameters) += weights;
    at(MemoryState::gradients) += std::max(weights, bits_of(p.result(Role::gradient_of_weight), t));
    if (u.master_weights) at(MemoryState::master) += bits_of(Storage{}, t);
    if (adam || momentum) at(MemoryState::first) += bits_of(u.first, t);
    if (adam) at(MemoryState::second) += bits_of(u.second, t);
    if (u.kahan) at(MemoryState::compensation) += weights;
    at(MemoryState::copies) += copy_bits(model, policy, t);
  }
  for (std::uint64_t& b : bits) b = ceil_divide(b, 8);
  return bits;
}

StateBytes on_a_rank(const StateBytes& whole, int stage, std::uint64_t ranks) {
  StateBytes part = whole;
  const auto divide = [&](MemoryState s) {
    part[static_cast<std::size_t>(s)] = ceil_divide(whole[static_cast<std::size_t>(s)], ranks);
  };
  if (stage >= 1)
    for (const MemoryState s :
         {MemoryState::master, MemoryState::first, MemoryState::second, MemoryState::compensation})
      divide(s);
  if (stage >= 2) divide(MemoryState::gradients);
  if (stage >= 3)
    for (const MemoryState s : {MemoryState::parameters, MemoryState::copies}) divide(s);
  return part;
}

std::uint64_t gathered_bytes(const ModelShape& model, const Policy& policy, int stage, std::uint64_t ranks) {
  if (stage < 3 || ranks == 1 || !model.has_shape()) return 0;
  std::uint64_t layer = 0, largest = 0;
  for (const ParameterTensor& t : parameter_tensors(model)) {
    const std::uint64_t bits = bits_of(policy.update.weights, t) + copy_bits(model, policy, t);
    if (t.inside) layer += bits / model.layers;
    else largest = std::max(largest, bits);
  }
  return ceil_divide(std::max(layer, largest), 8);
}

std::uint64_t total(const StateBytes& bytes) { return std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0}); }

}  // namespace halfulp::memory
