// What the published lists of automatic mixed precision say.
#include <halfulp/experiments/operators/operators.hpp>

#include <array>

namespace halfulp::operators {

namespace {

constexpr std::array<Named<Listed>, 5> listed_names{{{"16 bits", Listed::lower},
                                                     {"fp32", Listed::fp32},
                                                     {"widest", Listed::widest},
                                                     {"unlisted", Listed::unlisted},
                                                     {"refused", Listed::refused}}};

}  // namespace

std::string_view name_of(Listed listed) { return name_in(listed_names, listed); }

std::span<const ListedOperator> listed_operators() {
  using enum Listed;
  // clang-format off
  static constexpr std::array<ListedOperator, 69> rows{{
    {"relu",              "relu",                             {unlisted, unlisted, unlisted}},
    {"gelu",              "gelu",                             {unlisted, unlisted, unlisted}},
    {"sigmoid",           "sigmoid",                          {unlisted, unlisted, unlisted}},
    {"tanh",              "tanh",                             {unlisted, unlisted, unlisted}},
    {"mul",               "mul",                              {unlisted, unlisted, widest}},
    {"residual",          "add",                              {unlisted, unlisted, widest}},
    {"exp",               "exp",                              {fp32,     unlisted, fp32}},
    {"log",               "log",                              {fp32,     unlisted, fp32}},
    {"pow",               "pow",                              {fp32,     unlisted, fp32}},
    {"reciprocal",        "reciprocal",                       {fp32,     unlisted, fp32}},
    {"rsqrt",             "rsqrt",                            {fp32,     unlisted, fp32}},
    {"sum",               "sum",                              {fp32,     unlisted, fp32}},
    {"sum-of-magnitudes", "sum",                              {fp32,     unlisted, fp32}},
    {"mean",              "mean",                             {unlisted, unlisted, unlisted}},  // apex: fp32 before torch 1.1
    {"prod",              "prod",                             {fp32,     fp32,     fp32}},
    {"norm",              "norm",                             {fp32,     unlisted, fp32}},
    {"layer-norm",        "layer_norm",                       {fp32,     unlisted, fp32}},
    {"rms-norm",          "rms_norm",                         {unlisted, unlisted, unlisted}},
    {"batch-norm",        "batch_norm",                       {unlisted, unlisted, unlisted}},
    {"softmax",           "softmax",                          {fp32,     unlisted, fp32}},
    {"log-softmax",       "log_softmax",                      {fp32,     unlisted, fp32}},
    {"cross-entropy",     "cross_entropy",                    {fp32,     fp32,     fp32}},  // the CPU's list: cross_entropy_loss
    {"bce",               "binary_cross_entropy",             {refused,  fp32,     refused}},
    {"bce-with-logits",   "binary_cross_entropy_with_logits", {fp32,     fp32,     fp32}},
    {"mse",               "mse_loss",                         {fp32,     fp32,     fp32}},
    {"linear",            "linear",                           {lower,    lower,    lower}},
    {"conv2d",            "conv2d",                           {lower,    lower,    lower}},
    {"attention-scores",  "bmm",                              {lower,    lower,    lower}},  // apex: since CUDA 9.1
    {"attention-values",  "bmm",                              {lower,    lower,    lower}},
    {"embedding",         "embedding",                        {unlisted, unlisted, unlisted}},
    {"max-pool",          "max_pool2d",                       {unlisted, unlisted, unlisted}},  // the CPU's list has max_pool3d
    {"average-pool",      "avg_pool2d",                       {unlisted, unlisted, unlisted}},  // and avg_pool3d: fp32
    {"lstm-cell",         "LSTMCell",                         {lower,    unlisted, lower}},
    {"rnn-cell",          "RNNCell",                          {lower,    unlisted, lower}},
    {"rdiv",                   "__rdiv__",                           {fp32, unlisted, widest}},
    {"rpow",                   "__rpow__",                           {fp32, unlisted, fp32}},
    {"acos",                   "acos",                               {fp32, unlisted, fp32}},
    {"asin",                   "asin",                               {fp32, unlisted, fp32}},
    {"tan",                    "tan",                                {fp32, unlisted, fp32}},
    {"cosh",                   "cosh",                               {fp32, unlisted, fp32}},
    {"sinh",                   "sinh",                               {fp32, unlisted, fp32}},
    {"erfinv",                 "erfinv",                             {fp32, unlisted, fp32}},
    {"expm1",                  "expm1",                              {fp32, unlisted, fp32}},
    {"log10",                  "log10",                              {fp32, unlisted, fp32}},
    {"log1p",                  "log1p",                              {fp32, unlisted, unlisted}},
    {"log2",                   "log2",                               {fp32, unlisted, fp32}},
    {"softplus",               "softplus",                           {fp32, unlisted, fp32}},
    {"softmin",                "softmin",                            {fp32, unlisted, fp32}},
    {"cumsum",                 "cumsum",                             {fp32, unlisted, fp32}},
    {"cumprod",                "cumprod",                            {fp32, unlisted, fp32}},
    {"group-norm",             "group_norm",                         {fp32, unlisted, fp32}},
    {"normalize",              "normalize",                          {fp32, unlisted, fp32}},
    {"renorm",                 "renorm",                             {fp32, unlisted, fp32}},
    {"cosine-similarity",      "cosine_similarity",                  {fp32, unlisted, fp32}},
    {"dist",                   "dist",                               {fp32, unlisted, fp32}},
    {"cdist",                  "cdist",                              {fp32, fp32, unlisted}},
    {"pdist",                  "pdist",                              {fp32, unlisted, unlisted}},
    {"cosine-embedding-loss",  "cosine_embedding_loss",              {fp32, fp32, fp32}},
    {"hinge-embedding-loss",   "hinge_embedding_loss",               {fp32, fp32, fp32}},
    {"kl-div",                 "kl_div",                             {fp32, fp32, fp32}},
    {"l1-loss",                "l1_loss",                            {fp32, fp32, fp32}},
    {"smooth-l1-loss",         "smooth_l1_loss",                     {fp32, unlisted, fp32}},
    {"margin-ranking-loss",    "margin_ranking_loss",                {fp32, fp32, fp32}},
    {"multi-margin-loss",      "multi_margin_loss",                  {fp32, fp32, fp32}},
    {"multilabel-margin-loss", "multilabel_margin_loss",             {fp32, fp32, fp32}},
    {"nll-loss",               "nll_loss",                           {fp32, fp32, fp32}},
    {"poisson-nll-loss",       "poisson_nll_loss",                   {fp32, fp32, fp32}},
    {"soft-margin-loss",       "soft_margin_loss",                   {fp32, fp32, fp32}},
    {"triplet-margin-loss",    "triplet_margin_loss",                {fp32, fp32, fp32}},
  }};
  // clang-format on
  return rows;
}

std::optional<ListedOperator> find_listed(std::string_view name) {
  for (const ListedOperator& row : listed_operators())
    if (row.name == name) return row;
  return std::nullopt;
}

std::span<const std::string_view> cuda_fp32_list() {
  static constexpr std::array<std::string_view, 51> names{"__pow__",
                                                          "__rdiv__",
                                                          "__rpow__",
                                                          "__rtruediv__",
                                                          "acos",
                                                          "asin",
                                                          "binary_cross_entropy_with_logits",
                                                          "cosh",
                                                          "cosine_embedding_loss",
                                                          "cdist",
                                                          "cosine_similarity",
                                                          "cross_entropy",
                                                          "cumprod",
                                                          "cumsum",
                                                          "dist",
                                                          "erfinv",
                                                          "exp",
                                                          "expm1",
                                                          "group_norm",
                                                          "hinge_embedding_loss",
                                                          "kl_div",
                                                          "l1_loss",
                                                          "layer_norm",
                                                          "log",
                                                          "log_softmax",
                                                          "log10",
                                                          "log1p",
                                                          "log2",
                                                          "margin_ranking_loss",
                                                          "mse_loss",
                                                          "multilabel_margin_loss",
                                                          "multi_margin_loss",
                                                          "nll_loss",
                                                          "norm",
                                                          "normalize",
                                                          "pdist",
                                                          "poisson_nll_loss",
                                                          "pow",
                                                          "prod",
                                                          "reciprocal",
                                                          "rsqrt",
                                                          "sinh",
                                                          "smooth_l1_loss",
                                                          "soft_margin_loss",
                                                          "softmax",
                                                          "softmin",
                                                          "softplus",
                                                          "sum",
                                                          "renorm",
                                                          "tan",
                                                          "triplet_margin_loss"};
  return names;
}

std::string_view standing_for(std::string_view function) {
  if (function == "__pow__") return "pow";
  if (function == "__rtruediv__") return "rdiv";
  for (const ListedOperator& row : listed_operators())
    if (row.function == function) return row.name;
  return "";
}

}  // namespace halfulp::operators
