// Two small models, every operator a stage of one program.
#include <halfulp/experiments/operators/operators.hpp>

#include <halfulp/formats/catalogue.hpp>

#include <array>
#include <cmath>

namespace halfulp::operators {
namespace {

constexpr std::size_t tokens = 8, width = 32, vocabulary = 64;

using Rows = std::vector<Values>;

/// A stage of its own that takes every row through a linear layer.
Rows linear_stage(OperatorProgram& p, std::string_view name, const Rows& x, std::size_t rows) {
  p.stage(name);
  const std::size_t n = x[0].size();
  Rows weights(rows), y(x.size());
  for (Values& w : weights) w = p.operand(Draw::weight, n, n);
  for (std::size_t t = 0; t < x.size(); ++t)
    for (const Values& w : weights) y[t].push_back(p.dot(x[t], w));
  return y;
}

template <class F>
Rows row_stage(OperatorProgram& p, std::string_view name, const Rows& x, F&& f) {
  p.stage(name);
  Rows y;
  for (const Values& row : x) y.push_back(f(row));
  return y;
}

template <class F>
Rows pointwise_stage(OperatorProgram& p, std::string_view name, const Rows& x, F&& f) {
  return row_stage(p, name, x, [&](const Values& row) {
    Values y;
    for (const Value v : row) y.push_back(f(v));
    return y;
  });
}

Rows residual_stage(OperatorProgram& p, std::string_view name, const Rows& x, const Rows& y) {
  p.stage(name);
  Rows z(x.size());
  for (std::size_t t = 0; t < x.size(); ++t)
    for (std::size_t i = 0; i < x[t].size(); ++i) z[t].push_back(p.add(x[t][i], y[t][i]));
  return z;
}

Rows embedding_stage(OperatorProgram& p, std::size_t rows) {
  p.stage("embedding");
  Rows x(rows);
  for (Values& row : x) row = p.operand(Draw::weight, width);
  return x;
}

void last_stages(OperatorProgram& p, const Rows& x) {
  const Rows logits = linear_stage(p, "linear-last", x, vocabulary);
  for (const Values& row : row_stage(p, "log-softmax", logits, [&](const Values& v) { return log_softmax(p, v); }))
    p.output(row);
}

void perceptron(OperatorProgram& p) {
  Rows x = embedding_stage(p, 4);
  x = linear_stage(p, "linear-1", x, 4 * width);
  x = pointwise_stage(p, "relu-1", x, [&](Value v) { return relu(p, v); });
  x = linear_stage(p, "linear-2", x, 4 * width);
  x = pointwise_stage(p, "relu-2", x, [&](Value v) { return relu(p, v); });
  last_stages(p, x);
}

/// Pre-norm (Xiong et al. 2020), one head, every token attends to all.
void transformer_block(OperatorProgram& p) {
  const auto norm_rows = [&](std::string_view name, const Rows& x) {
    return row_stage(p, name, x, [&](const Values& v) { return normalize(p, v); });
  };
  const Rows x = embedding_stage(p, tokens), normed = norm_rows("layer-norm-1", x);
  const Rows q = linear_stage(p, "linear-query", normed, width), k = linear_stage(p, "linear-key", normed, width),
             v = linear_stage(p, "linear-value", normed, width);
  p.stage("attention-scores");
  Rows scores(tokens);
  const Value root = p.constant(std::sqrt(static_cast<double>(width)));
  for (std::size_t t = 0; t < tokens; ++t)
    for (std::size_t u = 0; u < tokens; ++u) scores[t].push_back(p.div(p.dot(q[t], k[u]), root));
  const Rows weights = row_stage(p, "softmax", scores, [&](const Values& row) { return softmax(p, row); });
  p.stage("attention-values");
  Rows mixed(tokens);
  for (std::size_t t = 0; t < tokens; ++t)
    for (std::size_t d = 0; d < width; ++d) {
      Values column;
      for (std::size_t u = 0; u < tokens; ++u) column.push_back(v[u][d]);
      mixed[t].push_back(p.dot(weights[t], column));
    }
  const Rows middle = residual_stage(p, "residual-1", x, linear_stage(p, "linear-projection", mixed, width));
  const Rows wide = linear_stage(p, "linear-1", norm_rows("layer-norm-2", middle), 4 * width);
  const Rows active = pointwise_stage(p, "gelu", wide, [&](Value a) { return gelu(p, a); });
  last_stages(p, residual_stage(p, "residual-2", middle, linear_stage(p, "linear-2", active, width)));
}

constexpr std::array<OperatorModel, 2> all_models{
    {{"mlp", "4 inputs of 32 numbers, two hidden layers of 128, 64 classes", perceptron},
     {"transformer", "one pre-norm block, 8 tokens of width 32, one head, 64 classes", transformer_block}}};

}  // namespace

std::span<const OperatorModel> models() { return all_models; }

std::string_view operator_of(std::string_view stage) {
  std::string_view found;
  for (const ListedOperator& row : listed_operators())
    if (stage.starts_with(row.name) && row.name.size() > found.size()) found = row.name;
  return found;
}

std::vector<Precision> by_list(const OperatorProgram& p, std::size_t list, const FloatFormat& f) {
  std::vector<Precision> stages(p.stages().size(), Precision::of(Where::fp32, fp32));
  std::vector<bool> wide(stages.size());  // reads an FP32 tensor
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    for (const Node& n : p.nodes()) {
      if (n.stage != stage) continue;
      if (n.step == ElementaryOperation::input) wide[stage] = true;
      const std::array<std::uint32_t, 3> operands{n.a, n.b, n.c};
      for (int i = 0; i < reads(n.step); ++i) {
        const std::size_t from = p.nodes()[operands[static_cast<std::size_t>(i)]].stage;
        if (from != stage && stages[from].tensors == fp32) wide[stage] = true;
      }
    }
    const auto entry = find_listed(operator_of(p.stages()[stage]));
    const Listed listed = entry ? entry->lists[list] : Listed::unlisted;
    const bool lower = listed == Listed::lower ||
                       ((listed == Listed::unlisted || listed == Listed::widest) && !wide[stage]);
    if (lower) stages[stage] = Precision::of(Where::tensors, f);
  }
  return stages;
}

}  // namespace halfulp::operators
