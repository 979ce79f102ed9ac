// Very short trainings: small networks, a few noisy images with a pattern, a short text.
#pragma once

#include "check.hpp"

#include <halfulp/training/trainer.hpp>

#include <bit>
#include <filesystem>

#include <unistd.h>

namespace check {

using namespace halfulp::training;

/// 48 training images and 16 test images: noise, and a bright row that shows the class.
inline LabelledImages tiny_images(std::size_t count, std::uint64_t seed) {
  Random random{seed};
  LabelledImages images;
  images.rows = images.columns = 28;
  for (std::size_t i = 0; i < count; ++i) {
    const auto label = static_cast<std::uint8_t>(random() % 10);
    images.labels.push_back(label);
    for (std::size_t pixel = 0; pixel < 784; ++pixel)
      images.pixels.push_back(static_cast<std::uint8_t>(pixel / 28 / 2 == label ? 200 + random() % 50 : random() % 60));
  }
  return images;
}
inline const ImageSet& tiny_image_set() {
  static const ImageSet set{tiny_images(48, 1), tiny_images(16, 2), "tiny", "0"};
  return set;
}
inline std::string tiny_letters() {
  std::string text;
  Random random{3};
  while (text.size() < 2000) text += random() % 3 ? "abc " : random() % 2 ? "bad " : "cab\n";
  return text;
}
inline const CharacterText& tiny_text() {
  static const CharacterText text({tiny_letters()});
  return text;
}

inline bool is_text(const std::string& network) { return network == "transformer" || network == "lstm"; }

inline std::unique_ptr<Examples> tiny_examples(const std::string& network) {
  if (is_text(network)) return text_examples(tiny_text(), {4, 8, 8});
  return image_examples(tiny_image_set(), {8, 0, 0, {}});
}

inline TrainerSettings tiny(const std::string& network, std::uint64_t steps = 4) {
  TrainerSettings s;
  s.network = network;
  s.options.width = network == "cnn" ? 2 : 8;
  s.options.depth = 1;
  s.options.heads = 2;
  if (is_text(network)) s.options.inputs = tiny_text().vocabulary().size();
  s.steps = steps;
  s.interval = 2;
  s.optimizer.lr = 0.01;
  return s;
}

/// A trainer that owns its examples and its policy.
struct Tiny {
  Policy policy;
  std::unique_ptr<Examples> examples;
  Trainer trainer;
  Tiny(const Policy& its_policy, const TrainerSettings& settings)
      : policy(its_policy), examples(tiny_examples(settings.network)), trainer(settings, policy, *examples) {}
  Tiny(const std::string& name, const TrainerSettings& settings) : Tiny(find_policy(name), settings) {}
  TrainedParameter<float>& parameter(const std::string& name) {
    for (TrainedParameter<float>* const p : trainer.parameters())
      if (p->name == name) return *p;
    throw std::logic_error("no parameter " + name);
  }
};

/// A temporary file or folder.
struct Place {
  std::filesystem::path path = std::filesystem::path(::testing::TempDir()) /
                               ("halfulp-trainer-" + std::to_string(::getpid()));
  Place() { std::filesystem::remove_all(path); }
  ~Place() { std::filesystem::remove_all(path); }
};

/// The message of f's exception; "accepted" if f throws none.
template <class F>
std::string refused(F&& f) {
  try {
    f();
    return "accepted";
  } catch (const std::invalid_argument& error) { return error.what(); }
}

}  // namespace check
