#include <halfulp/training/runs/setup.hpp>

#include <halfulp/data/distributions.hpp>
#include <halfulp/report/config.hpp>
#include <halfulp/training/runs/tables.hpp>
#include <halfulp/support/files.hpp>
#include <halfulp/support/spelling.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>

namespace halfulp::trainings {
namespace {

using training::OptimizerKind;

/// What a preset says of a network.
struct Preset {
  std::size_t train, test;  ///< images; 0: all
  double epochs;            ///< of images
  std::uint64_t steps;      ///< of text
  std::size_t batch;
  double lr;
};

Preset preset_of(const Config& config, const std::string& network) {
  const std::size_t size = config.text("preset") == "small" ? 0 : config.text("preset") == "medium" ? 1 : 2;
  if (network == "mlp")
    return std::array{Preset{6000, 2000, 2, 0, 64, 0.001}, Preset{12000, 0, 2, 0, 64, 0.001},
                      Preset{0, 0, 3, 0, 64, 0.001}}[size];
  if (network == "cnn")
    return std::array{Preset{1280, 500, 1, 0, 64, 0.001}, Preset{6400, 2000, 1, 0, 64, 0.001},
                      Preset{12800, 2000, 1, 0, 64, 0.001}}[size];
  return std::array{Preset{0, 0, 0, 100, 16, 0.003}, Preset{0, 0, 0, 400, 16, 0.003},
                    Preset{0, 0, 0, 1000, 16, 0.003}}[size];
}

template <class T>
T otherwise(T given, T preset) {
  return given != 0 ? given : preset;
}

std::vector<std::string> network_names() {
  std::vector<std::string> names;
  for (const training::NetworkInfo& info : training::networks()) names.emplace_back(info.name);
  return names;
}

}  // namespace

bool is_text(const std::string& network) { return network == "transformer" || network == "lstm"; }

std::vector<Parameter> parameters(const Defaults& defaults) {
  using Type = ParameterType;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  std::vector<std::string> initialisations{}, optimizers{};
  for (const auto& info : training::initialisations) initialisations.emplace_back(info.name);
  for (const auto& kind : training::optimizer_kinds) optimizers.emplace_back(kind.name);
  return {
      {"preset",
       Type::choice,
       "small",
       "small: a part of the images, or 100 steps of text, enough to beat a model that counts pairs of characters; "
       "medium: all test images, enough to tell half a point, or 400 steps of text; full: 3 epochs of all images "
       "(mlp), "
       "one of 12,800 (cnn), 1000 steps of text. On two cores training's default takes one, two and about ten minutes; "
       "a training of a transformer six seconds, 20 and 50",
       -infinity,
       infinity,
       {"small", "medium", "full"}},
      {"networks", Type::choices, defaults.networks, "what is trained", -infinity, infinity, network_names()},
      {"policies", Type::text, defaults.policies,
       "precision policies: names (halfulp policies lists them) or files that end in .json, separated by commas; all: "
       "every named one"},
      {"seeds", Type::integer, defaults.seeds, "trainings of each policy, with seeds seed, seed + 1, ...", 1, 100},
      {"seed", Type::integer, "1",
       "the first seed: of first values, the order of examples, dropout, stochastic rounding", 0, largest_seed},
      {"data", Type::path, "",
       "a folder with the four IDX files of Fashion-MNIST or another MNIST; empty: Debian's dataset-fashion-mnist"},
      {"text", Type::path, "", "a text for transformer and lstm; empty: licence texts of Debian's base-files"},
      {"train_examples", Type::integer, "0", "images to learn from, the first of the file; 0: the preset's", 0, 1e7},
      {"test_examples", Type::integer, "0", "images to test with; 0: the preset's", 0, 1e7},
      {"epochs", Type::real, "0", "epochs of images; 0: the preset's", 0, 1000},
      {"steps", Type::integer, "0", "steps, instead of epochs; 0: the preset's", 0, 1e8},
      {"batch", Type::integer, "0", "examples a step; 0: the preset's", 0, 4096},
      {"context", Type::integer, "64", "characters of a window of text; images have none", 2, 1024},
      {"width", Type::integer, "0", "hidden units, channels, width of the model; 0: the network's", 0, 4096},
      {"depth", Type::integer, "0", "hidden layers of mlp, blocks of transformer; 0: the network's", 0, 64},
      {"optimizer", Type::choice, "adam", "optimizer", -infinity, infinity, optimizers},
      {"lr", Type::real, "0", "learning rate; 0: the preset's", 0, 100},
      {"momentum", Type::real, "0", "momentum of sgd; adam has beta1 instead", 0, 0.999999},
      {"beta1", Type::real, "0.9", "Adam's beta1", 0, 0.999999},
      {"beta2", Type::real, "0.999", "Adam's beta2", 0, 0.99999999},
      {"eps", Type::real, "1e-8", "Adam's eps", 0, 1},
      {"weight_decay", Type::real, "0", "weight decay", 0, 10},
      {"warmup", Type::integer, "0", "steps in which the learning rate grows linearly", 0, 1e7},
      {"schedule",
       Type::choice,
       "constant",
       "of the learning rate, after warmup",
       -infinity,
       infinity,
       {"constant", "cosine"}},
      {"init", Type::choice, "default", "first values of weights", -infinity, infinity, initialisations},
      {"init_scale", Type::real, "0",
       "standard deviation of gaussian, half-width of uniform, factor of xavier and he; 0: the usual one", 0, 100},
      {"dropout", Type::real, "0", "dropout", 0, 0.95},
      {"clip_norm", Type::real, "0", "most norm of the gradients; 0: any", 0, 1e6},
      {"clip", Type::choice, "all", "which gradients are clipped", -infinity, infinity, {"all", "embedding"}},
      {"embedding_shrink", Type::real, "1", "factor of the embedding's gradient (GLM-130B: 0.1)", 0, 1},
      {"skip_abnormal", Type::real, "0",
       "a step is left out if the gradients' norm is so many times its running mean; 0: none is", 0, 1e6},
      {"intervals", Type::integer, "8", "points of a curve; in the last step of each, roundings are counted", 1, 1000},
      {"checkpoints", Type::path, "",
       "a folder: each training is saved there after each interval, and goes on from there when run again"},
      {"save_gradients", Type::path, "",
       "a folder for .npy files with the gradients of the first training's counted steps, which underflow reads"},
  };
}

Parameter accuracy_margin() {
  return {"margin", ParameterType::real,
          "0.005",  "how far below fp32 an accuracy may lie, its doubt included, and still count as within",
          0,        1};
}

Parameter loss_margin() {
  return {
      "loss_margin", ParameterType::real, "0.02", "how far above fp32 a test loss may lie likewise, in nat", 0, 100};
}

Data::Data(const Config& config, const std::vector<std::string>& networks) {
  bool text = false, images = false;
  for (const std::string& network : networks) (is_text(network) ? text : images) = true;
  users_folder_ = config.text("data"), users_text_ = config.text("text");
  if (images) {
    auto loaded = shared_images(config.text("data"));
    if (auto* const missing = std::get_if<NotInstalled>(&loaded)) no_images_ = missing->reason;
    else images_ = std::get<std::shared_ptr<const ImageSet>>(loaded);
    if (images_ && (images_->train.rows != 28 || images_->train.columns != 28))
      throw std::invalid_argument(fmt::format("{}: images of {} x {}; accepted: 28 x 28", config.text("data"),
                                              images_->train.rows, images_->train.columns));
  }
  // What no network of these reads must be there all the same: it is in the report's configuration.
  if (std::error_code error; !images && !users_folder_.empty() && !std::filesystem::is_directory(users_folder_, error))
    throw std::invalid_argument(users_folder_ + ": no such folder");
  if (!text && !users_text_.empty()) (void)open_input(users_text_, "a text");
  if (text) {
    auto loaded = load_text(static_cast<std::size_t>(config.integer("context")), config.text("text"));
    if (auto* const missing = std::get_if<NotInstalled>(&loaded)) no_text_ = missing->reason;
    else text_ = std::move(std::get<CharacterText>(loaded));
  }
}

const std::string& Data::missing(const std::string& network) const { return is_text(network) ? no_text_ : no_images_; }

std::size_t batch_size(const Config& config, const std::string& network) {
  return otherwise(static_cast<std::size_t>(config.integer("batch")), preset_of(config, network).batch);
}

std::unique_ptr<training::Examples> Data::examples(const Config& config, const std::string& network,
                                                   const std::vector<int>& classes, std::size_t batch) const {
  const Preset preset = preset_of(config, network);
  if (batch == 0) batch = batch_size(config, network);
  if (is_text(network))
    return training::text_examples(*text_, {batch, static_cast<std::size_t>(config.integer("context")), 64});
  try {
    return training::image_examples(
        *images_, {batch, otherwise(static_cast<std::size_t>(config.integer("train_examples")), preset.train),
                   otherwise(static_cast<std::size_t>(config.integer("test_examples")), preset.test), classes});
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(fmt::format("train_examples, test_examples, batch: {}", error.what()));
  }
}

void Data::report(Report& report) const {
  Table& table = report.table(
      "data", "What the files hold; the table `runs` says how much of it is used",
      {{"data", "", "Images or text."},
       {"from", "", "Folder or files, or why there is none."},
       {"train", "example",
        "Images, or characters, that there are to learn from; `runs` says how many a training takes."},
       {"test", "example", "Images, or characters, that there are to test with; `runs` says how many a test takes."},
       {"digest", "", "XXH3-128 of what was read; null if nothing was."}});
  if (images_)
    table.row({"images", !users_folder_.empty() ? "the folder that `data` names" : "Debian's dataset-fashion-mnist",
               images_->train.size(), images_->test.size(), images_->digest});
  else if (!no_images_.empty()) table.row({"images", no_images_, 0, 0, nullptr});
  const auto characters = [](const std::vector<TextRange>& ranges) {
    std::size_t count = 0;
    for (const TextRange& range : ranges) count += range.end - range.begin;
    return count;
  };
  if (text_)
    table.row(
        {"text",
         fmt::format("{}; {} different characters",
                     users_text_.empty() ? "licences in /usr/share/common-licenses" : "the text that `text` names",
                     text_->vocabulary().size()),
         characters(text_->training()), characters(text_->validation()), text_->digest()});
  else if (!no_text_.empty()) table.row({"text", no_text_, 0, 0, nullptr});
  if (!text_) return;
  const CountedModels models = counted_models(*text_);
  Table& counted = report.table(
      "text_models", "What a network that reads text must beat: models that only count",
      {{"model", "", "Unigram: a character by its frequency; bigram: by what came before it. Counts plus one."},
       {"loss", "nat", "Mean of -ln p over the characters for testing."},
       {"bits", "bit", "The same in bits a character."}});
  constexpr double bit = 0.693147180559945309;
  counted.row({"unigram", number(models.unigram), number(models.unigram / bit)});
  counted.row({"bigram", number(models.bigram), number(models.bigram / bit)});
}

Json Data::identity() const {
  return {{"images", images_ ? Json(images_->digest) : Json()}, {"text", text_ ? Json(text_->digest()) : Json()}};
}

Json Data::identity(const std::string& network) const { return identity().at(is_text(network) ? "text" : "images"); }

training::TrainerSettings settings(const Config& config, const std::string& network, std::uint64_t seed,
                                   const Data& data, std::uint64_t steps_per_epoch) {
  const Preset preset = preset_of(config, network);
  training::TrainerSettings s;
  s.network = network;
  s.seed = seed;
  s.options.width = static_cast<std::size_t>(config.integer("width"));
  s.options.depth = static_cast<std::size_t>(config.integer("depth"));
  s.options.dropout = config.real("dropout");
  if (is_text(network)) s.options.inputs = data.characters();
  s.initialisation = {training::parse_initialisation(config.text("init")), config.real("init_scale")};
  s.optimizer.kind = training::parse_optimizer(config.text("optimizer"));
  s.optimizer.lr = otherwise(config.real("lr"), preset.lr);
  s.optimizer.momentum = config.real("momentum");
  s.optimizer.beta1 = config.real("beta1"), s.optimizer.beta2 = config.real("beta2"),
  s.optimizer.eps = config.real("eps");
  s.optimizer.weight_decay = config.real("weight_decay");
  const double epochs = otherwise(config.real("epochs"), preset.epochs);
  s.steps = static_cast<std::uint64_t>(config.integer("steps"));
  if (s.steps == 0)
    s.steps = is_text(network) && config.real("epochs") == 0
                  ? preset.steps
                  : static_cast<std::uint64_t>(std::llround(epochs * static_cast<double>(steps_per_epoch)));
  s.steps = std::max<std::uint64_t>(1, s.steps);
  s.warmup = static_cast<std::uint64_t>(config.integer("warmup"));
  s.cosine = config.text("schedule") == "cosine";
  const auto intervals = static_cast<std::uint64_t>(config.integer("intervals"));
  s.interval = std::max<std::uint64_t>(1, (s.steps + intervals - 1) / intervals);
  s.test_every = std::max<std::uint64_t>(1, (intervals + 3) / 4);
  s.clip_norm = config.real("clip_norm");
  s.clip_embedding = config.text("clip") == "embedding";
  s.embedding_shrink = config.real("embedding_shrink");
  s.skip_abnormal = config.real("skip_abnormal");
  return s;
}

std::vector<training::Policy> chosen_policies(const Config& config) {
  std::vector<training::Policy> all;
  const std::string names = config.text("policies");
  if (names.empty())
    throw std::invalid_argument("policies is empty; accepted: names of policies or files, separated by commas, or all");
  for (const std::string& name : name_list(names, ',', "policies")) {
    if (name == "all") {
      for (const training::Policy& policy : training::policies()) all.push_back(policy);
      continue;
    }
    try {
      all.push_back(training::find_policy(name));
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(std::string("policies: ") + error.what());
    }
  }
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (kebab_case(all[i].name) == kebab_case(all[j].name))
        throw std::invalid_argument(
            "policies: " + shown(all[i].name) +
            (all[i].name == all[j].name ? " is there twice" : " and " + shown(all[j].name) + " read alike") +
            "; accepted: names that differ in letters or digits (of a file: its member name)");
  return all;
}

}  // namespace halfulp::trainings
