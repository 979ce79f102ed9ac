// What a training learns from: batches of images or of text, and what it is tested on.
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
  std::vector<int> labels;  ///< one a row of logits
};

class Examples {
 public:
  virtual ~Examples() = default;
  /// Steps in which every example is met once; for text as many as characters allow.
  virtual std::uint64_t steps_per_epoch() const = 0;
  /// What step `step` sees: a function of (seed, step).
  virtual void training(std::uint64_t seed, std::uint64_t step, Batch& batch) = 0;
  /// Images, or windows of text that a test has; what a text's training draws from: characters.
  virtual std::size_t train_size() const = 0;
  virtual std::size_t test_size() const = 0;
  virtual std::size_t test_batches() const = 0;
  virtual void test(std::size_t index, Batch& batch) const = 0;
};

struct ImageSelection {
  std::size_t batch = 64;
  std::size_t train = 0, test = 0;  ///< the first so many of the chosen classes; 0: all
  std::vector<int> classes = {};    ///< empty: all. Labels stay what they are
};
/// Images in an order drawn anew each epoch; a last batch that is not full is left out. `images` outlives this. Throws
/// std::invalid_argument if fewer images than a batch are chosen.
std::unique_ptr<Examples> image_examples(const ImageSet& images, const ImageSelection& selection);

struct TextSelection {
  std::size_t batch = 16, context = 64;
  std::size_t test_windows = 64;  ///< evenly spaced
};
/// Windows of a text, drawn anew each step. `text` outlives this.
std::unique_ptr<Examples> text_examples(const CharacterText& text, const TextSelection& selection);

}  // namespace halfulp::training
