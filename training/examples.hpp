// Examples: batches of images or of text, to learn from and to test with.
#pragma once

#include <halfulp/data/images.hpp>
#include <halfulp/data/text.hpp>
#include <halfulp/training/layers/tensor.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace halfulp::training {

struct Batch {
  Tensor<float> x;
  std::vector<int> labels;  ///< one per row of logits
};

class Examples {
 public:
  virtual ~Examples() = default;
  /// Steps after which every example was used once; for text, as many as its characters allow.
  virtual std::uint64_t steps_per_epoch() const = 0;
  /// The batch of step `step`, a function of (seed, step).
  virtual void training(std::uint64_t seed, std::uint64_t step, Batch& batch) = 0;
  /// Numbers of images; of text, the characters to learn from and the windows of a test.
  virtual std::size_t train_size() const = 0;
  virtual std::size_t test_size() const = 0;
  virtual std::size_t test_batches() const = 0;
  virtual void test(std::size_t index, Batch& batch) const = 0;
};

struct ImageSelection {
  std::size_t batch = 64;
  std::size_t train = 0, test = 0;  ///< take only the first images of the chosen classes; 0: all
  std::vector<int> classes = {};    ///< empty: all. Labels do not change
};
/// Images in a new random order each epoch; an incomplete last batch is dropped. `images` outlives this. Throws
/// std::invalid_argument if fewer images than a batch are chosen.
std::unique_ptr<Examples> image_examples(const ImageSet& images, const ImageSelection& selection);

struct TextSelection {
  std::size_t batch = 16, context = 64;
  std::size_t test_windows = 64;  ///< evenly spaced
};
/// New random windows of a text in each step. `text` outlives this.
std::unique_ptr<Examples> text_examples(const CharacterText& text, const TextSelection& selection);

}  // namespace halfulp::training
