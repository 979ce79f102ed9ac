#include <halfulp/training/examples.hpp>

#include <halfulp/data/distributions.hpp>
#include <halfulp/training/layers/initialisation.hpp>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace halfulp::training {
namespace {

constexpr std::size_t test_batch = 500;  ///< images at once in a test

/// The indices of the chosen images, in their order.
std::vector<std::uint32_t> chosen(const LabelledImages& images, const std::vector<int>& classes, std::size_t most) {
  std::vector<std::uint32_t> all;
  for (std::size_t i = 0; i < images.size() && (most == 0 || all.size() < most); ++i)
    if (classes.empty() || std::find(classes.begin(), classes.end(), int{images.labels[i]}) != classes.end())
      all.push_back(static_cast<std::uint32_t>(i));
  return all;
}

class Images : public Examples {
 public:
  Images(const ImageSet& images, const ImageSelection& selection)
      : images_(images),
        batch_(selection.batch),
        train_(chosen(images.train, selection.classes, selection.train)),
        test_(chosen(images.test, selection.classes, selection.test)) {
    if (train_.size() < batch_ || test_.empty())
      throw std::invalid_argument(std::to_string(train_.size()) + " images to learn from and " +
                                  std::to_string(test_.size()) + " to test; accepted: a batch of " +
                                  std::to_string(batch_) + " or more, and one or more");
  }
  std::uint64_t steps_per_epoch() const override { return train_.size() / batch_; }
  void training(std::uint64_t seed, std::uint64_t step, Batch& batch) override {
    const std::uint64_t epoch = step / steps_per_epoch(), first = step % steps_per_epoch() * batch_;
    if (order_.empty() || epoch != epoch_ || seed != seed_) {
      order_ = shuffled(static_cast<std::uint32_t>(train_.size()), seed, stream_of("order", epoch));
      epoch_ = epoch, seed_ = seed;
    }
    fill(images_.train, batch_, [&](std::size_t i) { return train_[order_[first + i]]; }, batch);
  }
  std::size_t train_size() const override { return train_.size(); }
  std::size_t test_size() const override { return test_.size(); }
  std::size_t test_batches() const override { return (test_.size() + test_batch - 1) / test_batch; }
  void test(std::size_t index, Batch& batch) const override {
    const std::size_t first = index * test_batch;
    fill(
        images_.test, std::min(test_batch, test_.size() - first), [&](std::size_t i) { return test_[first + i]; },
        batch);
  }

 private:
  template <class Which>
  static void fill(const LabelledImages& from, std::size_t count, Which&& which, Batch& batch) {
    batch.x.resize({count, from.rows * from.columns});
    batch.labels.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      from.image(which(i), batch.x.row(i));
      batch.labels[i] = from.labels[which(i)];
    }
  }
  const ImageSet& images_;
  std::size_t batch_;
  std::vector<std::uint32_t> train_, test_, order_;
  std::uint64_t epoch_ = 0, seed_ = 0;
};

class Text : public Examples {
 public:
  Text(const CharacterText& text, const TextSelection& selection) : text_(text), of_(selection) {}
  std::uint64_t steps_per_epoch() const override {
    return std::max<std::uint64_t>(1, window_count(text_.training(), of_.context) / (of_.batch * of_.context));
  }
  void training(std::uint64_t seed, std::uint64_t step, Batch& batch) override {
    shape(of_.batch, batch);
    draw_windows(text_, text_.training(), of_.context, seed, step, batch.x.values(), batch.labels);
  }
  std::size_t train_size() const override {
    std::size_t characters = 0;
    for (const TextRange& range : text_.training()) characters += range.end - range.begin;
    return characters;
  }
  std::size_t test_size() const override { return windows(); }
  std::size_t test_batches() const override { return (windows() + of_.batch - 1) / of_.batch; }
  void test(std::size_t index, Batch& batch) const override {
    const std::size_t first = index * of_.batch, count = std::min(of_.batch, windows() - first);
    const std::uint64_t all = window_count(text_.validation(), of_.context);
    shape(count, batch);
    for (std::size_t i = 0; i < count; ++i)
      take_window(text_, text_.validation(), of_.context, (first + i) * all / windows(), batch.x.row(i),
                  std::span(batch.labels).subspan(i * of_.context, of_.context));
  }

 private:
  void shape(std::size_t count, Batch& batch) const {
    batch.x.resize({count, of_.context});
    batch.labels.resize(count * of_.context);
  }
  std::size_t windows() const {
    return static_cast<std::size_t>(
        std::min<std::uint64_t>(of_.test_windows, window_count(text_.validation(), of_.context)));
  }
  const CharacterText& text_;
  TextSelection of_;
};

}  // namespace

std::unique_ptr<Examples> image_examples(const ImageSet& images, const ImageSelection& selection) {
  return std::make_unique<Images>(images, selection);
}
std::unique_ptr<Examples> text_examples(const CharacterText& text, const TextSelection& selection) {
  return std::make_unique<Text>(text, selection);
}

}  // namespace halfulp::training
