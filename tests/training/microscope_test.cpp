// What the microscope reports of a training: the sources of the first Inf and NaN, counts against brute force, spikes,
// examples.
#include "tiny_training.hpp"

#include <halfulp/training/microscope.hpp>

#include <limits>
#include <map>
#include <set>

namespace microscope_test {

using namespace check;

const float infinity = std::numeric_limits<float>::infinity();

std::string text_of(const std::optional<FirstNonFinite>& first) {
  if (!first) return "none";
  return std::to_string(first->step) + " " + std::string(name_of(first->kind)) + " " + first->name + " " +
         std::string(name_of(first->role));
}

TEST(FirstNonFinite, IsFoundWhereItIsPlanted) {
  // A weight becomes infinite after two steps. The first tensor with an Inf is that layer's output; the first NaN comes
  // later.
  for (const auto& planted : {std::pair{"fc1.weight", "fc1"}, {"fc2.weight", "fc2"}, {"fc2.bias", "fc2"}}) {
    const char *const parameter = planted.first, *const layer = planted.second;
    Tiny t("fp32", tiny("mlp", 5));
    t.trainer.after_step = [&](Trainer& x) {
      if (x.steps() != 2) return;
      for (float& v : t.parameter("fc1.bias").value.values()) v = 10;  // every unit is active: 0 times Inf is NaN
      t.parameter(parameter).value[0] = parameter[2] == '1' ? -infinity : infinity;
      if (parameter[2] == '1') {
        for (float& v : t.parameter("fc1.weight").value.values()) v = -infinity;
      }
    };
    t.trainer.run();
    EXPECT_EQ(text_of(t.trainer.record().first_infinite),
              parameter == std::string("fc1.weight") ? "none" : std::string("2 linear ") + layer + " activation")
        << parameter;
    EXPECT_TRUE(t.trainer.record().first_nan);
    if (parameter[2] == '1') {
      EXPECT_EQ(text_of(t.trainer.record().first_nan), "2 linear fc1 activation") << "zero pixels times Inf";
    }
    EXPECT_TRUE(t.trainer.record().diverged);
  }
  // Values that overflow only fp16.
  for (const auto& [policy, want] :
       {std::pair{"amp-fp16", "0 linear fc1 activation"}, {"amp-bf16", "none"}, {"fp32", "none"}}) {
    TrainerSettings s = tiny("mlp", 1);
    Tiny t(policy, s);
    for (float& v : t.parameter("fc1.weight").value.values()) v = 4000;
    t.trainer.run();
    EXPECT_EQ(text_of(t.trainer.record().first_infinite), want) << policy;
  }
  Tiny t("amp-fp16", tiny("transformer", 1));
  for (float& v : t.parameter("block1.fc2.weight").value.values()) v = 6e4f;
  for (float& v : t.parameter("block1.fc2.bias").value.values()) v = 6e4f;
  t.trainer.run();
  EXPECT_TRUE(text_of(t.trainer.record().first_infinite).starts_with("0 linear block1.fc2"))
      << text_of(t.trainer.record().first_infinite);
  // It survives a checkpoint.
  Tiny again("amp-fp16", tiny("transformer", 1));
  again.trainer.restore(Checkpoint::from_bytes(t.trainer.checkpoint().bytes(), "c"));
  EXPECT_EQ(text_of(again.trainer.microscope().first_infinite()), text_of(t.trainer.record().first_infinite));
  EXPECT_TRUE(has_non_finite(std::vector{1.0f, -infinity}) && has_non_finite(std::vector{std::nanf("")}) &&
              !has_non_finite(std::vector{std::numeric_limits<float>::max(), -0.0f}));
  // Blocks of 64, and what is left.
  for (const std::size_t at : {0, 63, 64, 127, 128, 129}) {
    std::vector values(130, -std::numeric_limits<float>::max());
    EXPECT_FALSE(has_non_finite(values));
    values[at] = at % 2 == 0 ? -infinity : std::nanf("");
    EXPECT_TRUE(has_non_finite(values)) << at;
  }
}

/// Updates of BF16 weights by SGD: what was added, and the result.
TEST(Updates, AreCounted) {
  TrainerSettings s = tiny("mlp", 6);
  s.interval = 3;
  s.optimizer.kind = OptimizerKind::sgd;
  s.optimizer.lr = 1e-3;
  Policy policy = find_policy("fp32");
  policy.update.weights.format = parse_format("bf16");
  Tiny t(policy, s);
  struct Counts {
    std::uint64_t updates = 0, swamped = 0, changed = 0;
  };
  std::vector<std::map<std::string, Counts>> intervals(2);
  std::map<std::string, std::vector<float>> before;
  t.trainer.after_backward = [&](Trainer& x) {
    for (const TrainedParameter<float>* const p : x.parameters())
      before[p->name].assign(p->value.values().begin(), p->value.values().end());
  };
  t.trainer.after_step = [&](Trainer& x) {
    const std::uint64_t step = x.steps() - 1;
    if (step != 0 && step != 2 && step != 5) return;
    for (const TrainedParameter<float>* const p : x.parameters())
      for (std::size_t i = 0; i < p->value.size(); ++i) {
        Counts& counts = intervals[step / 3][p->name];
        const bool update = p->gradient[i] * 1e-3f != 0, changed = p->value[i] != before[p->name][i];
        counts.updates += update, counts.swamped += update && !changed, counts.changed += changed;
      }
  };
  t.trainer.run();
  std::uint64_t swamped = 0;
  for (std::size_t interval = 0; interval < 2; ++interval) {
    const auto& rows = t.trainer.record().curve[interval].updates;
    ASSERT_EQ(rows.size(), 4u);
    for (const Microscope::UpdateRow& row : rows) {
      const Counts& want = intervals[interval].at(row.name);
      EXPECT_EQ(row.sum.elements, t.parameter(row.name).value.size() * (interval == 0 ? 2 : 1));
      EXPECT_EQ(row.sum.with_update, want.updates) << row.name;
      EXPECT_EQ(row.sum.swamped, want.swamped) << row.name;
      EXPECT_EQ(row.sum.changed, want.changed) << row.name;
      swamped += want.swamped;
    }
  }
  EXPECT_GT(swamped, 100u);
}

/// Sees the operands and the results of every rounding.
struct Brute : Observer {
  Microscope& microscope;
  std::vector<float> before_it;
  std::map<std::string, std::array<std::uint64_t, 4>> all = {};  ///< elements, zeros, made zero, made infinite
  explicit Brute(Microscope& m) : microscope(m) {}
  bool counts() const override { return true; }
  void before(const Site&, Role, const Storage&, std::span<const float> values) override {
    before_it.assign(values.begin(), values.end());
  }
  void see(const Sighting& s) override {
    microscope.see(s);
    if (s.operand) return;
    auto& c = all[std::string(name_of(s.site.kind)) + std::string(s.site.name) + std::string(name_of(s.role))];
    for (std::size_t i = 0; i < s.values.size(); ++i) {
      ++c[0];
      c[1] += s.values[i] == 0;
      c[2] += s.values[i] == 0 && before_it[i] != 0;
      c[3] += std::isinf(s.values[i]) && !std::isinf(before_it[i]);
    }
  }
};

TEST(Roundings, AreCounted) {
  const Policy policy = find_policy("pure-fp16");
  Microscope microscope;
  microscope.begin_step(0, true);
  Brute brute(microscope);
  PolicyNumerics numerics(policy, 1, &brute);
  numerics.begin_step(0);
  Random random{5};
  for (int pass = 0; pass < 3; ++pass)
    for (const Site site : {Site{OperatorKind::relu, "relu1"}, Site{OperatorKind::gelu, "gelu"},
                            Site{OperatorKind::linear, "fc1.bias"}}) {
      std::vector<float> values(500);
      for (float& v : values)
        v = random() % 9 == 0
                ? 0.0f
                : std::ldexp(1.0f + static_cast<float>(random() % 1000) / 1001, static_cast<int>(random() % 60) - 40);
      numerics.cast(site, pass == 1 ? Role::gradient_of_activation : Role::activation, values);
    }
  const auto rows = microscope.take_rows();
  ASSERT_EQ(rows.size(), brute.all.size());
  EXPECT_EQ(rows.size(), 6u);
  for (const Microscope::Row& row : rows) {
    const auto& c = brute.all.at(std::string(name_of(row.kind)) + row.name + std::string(name_of(row.role)));
    EXPECT_EQ(row.elements, c[0]);
    EXPECT_EQ(row.zeros, c[1]);
    EXPECT_EQ(row.underflowed, c[2]);
    EXPECT_EQ(row.overflowed, c[3]);
    EXPECT_GT(c[2], 0u);
    EXPECT_GT(c[3], 0u);
  }
  EXPECT_TRUE(microscope.take_rows().empty());
  EXPECT_EQ(text_of(microscope.first_infinite()), "0 relu relu1 activation");
  // While paused it sees nothing. Steps that are not counted leave no rows.
  microscope.pause(true);
  std::vector<float> values(10, 1.0f);
  numerics.cast({OperatorKind::relu, "relu1"}, Role::activation, values);
  EXPECT_TRUE(microscope.take_rows().empty());
}

TEST(Roundings, AreCountedInTheFirstStepAndTheLastOnesOfIntervals) {
  TrainerSettings s = tiny("mlp", 6);
  s.interval = 3;
  s.test_every = 1;
  Tiny t("amp-bf16", s);
  t.trainer.run();
  const auto elements = [&](std::size_t interval) {
    for (const Microscope::Row& row : t.trainer.record().curve[interval].tensors)
      if (row.name == "fc1" && row.role == Role::activation && !row.operand) return row.elements;
    return std::uint64_t{0};
  };
  EXPECT_EQ(elements(0), 2u * 8 * 8);
  EXPECT_EQ(elements(1), 8u * 8);
}

TEST(Spikes, OfAMadeSeries) {
  SpikeDetector detector;
  std::vector<Spike> spikes;
  double usual = 0;
  for (std::uint64_t step = 0; step < 20; ++step) {
    const double norm = 1 + static_cast<double>(step % 3);
    detector.see(step, step == 3 ? 100 : 2, step == 5 ? 1000 : norm, spikes);  // no spikes before 20 steps
    usual = step == 0 ? norm : usual + ((step == 5 ? 1000 : norm) - usual) / 20;
  }
  EXPECT_TRUE(spikes.empty());
  EXPECT_EQ(detector.usual_norm(), usual);
  SpikeDetector fresh;
  for (std::uint64_t step = 0; step < 30; ++step) fresh.see(step, 2, 1, spikes);
  EXPECT_TRUE(spikes.empty());
  fresh.see(30, 2.75, 4, spikes);
  EXPECT_TRUE(spikes.empty());
  SpikeDetector calm;
  for (std::uint64_t step = 0; step < 30; ++step) calm.see(step, 2, 1, spikes);
  SpikeDetector copy;
  copy.restore(parse_json(calm.state().dump(), "state"), "state");
  for (SpikeDetector* const d : {&calm, &copy}) {
    spikes.clear();
    d->see(30, 2, 4.01, spikes);
    d->see(31, std::nan(""), static_cast<double>(infinity), spikes);
    d->see(33, 2.751, 4.01, spikes);
    EXPECT_EQ(d->usual_norm(), 1) << "spikes are no part of the mean";
    ASSERT_EQ(spikes.size(), 3u);
    EXPECT_TRUE(!spikes[0].of_loss && spikes[0].step == 30 && spikes[0].value == 4.01 && spikes[0].usual == 1);
    EXPECT_TRUE(!spikes[1].of_loss && spikes[2].of_loss && spikes[2].step == 33 && spikes[2].usual == 2);
  }
  EXPECT_EQ(announced(spikes, 0), 1u);
  spikes = {{30, false, 5, 1}, {33, true, 5, 1}, {40, true, 5, 1}, {41, false, 5, 1}};
  EXPECT_EQ(announced(spikes, 2), 0u);
  EXPECT_EQ(announced(spikes, 3), 1u);
  EXPECT_EQ(announced(spikes, 10), 2u);
}

TEST(ImageExamples, ComeOnceAnEpochInAnotherOrder) {
  const ImageSet& set = tiny_image_set();
  const auto examples = image_examples(set, {10, 0, 0, {}});
  EXPECT_EQ(examples->steps_per_epoch(), 4u);
  const auto index_of = [&](const Batch& batch, std::size_t i) {
    std::vector<float> image(784);
    for (std::size_t j = 0; j < set.train.size(); ++j) {
      set.train.image(j, image);
      if (std::equal(image.begin(), image.end(), batch.x.row(i).begin())) {
        EXPECT_EQ(batch.labels[i], set.train.labels[j]);
        return j;
      }
    }
    return set.train.size();
  };
  std::vector<std::vector<std::size_t>> orders(2);
  Batch batch;
  for (std::uint64_t step = 0; step < 8; ++step) {
    examples->training(1, step, batch);
    ASSERT_EQ(batch.labels.size(), 10u);
    for (std::size_t i = 0; i < 10; ++i) orders[step / 4].push_back(index_of(batch, i));
  }
  for (const auto& order : orders) EXPECT_EQ(std::set<std::size_t>(order.begin(), order.end()).size(), 40u);
  EXPECT_NE(orders[0], orders[1]);
  // It depends only on seed and step, not on earlier calls.
  examples->training(1, 2, batch);
  EXPECT_EQ(index_of(batch, 0), orders[0][20]);
  std::vector<std::size_t> other;  // another seed's order
  for (std::uint64_t step = 0; step < 4; ++step) {
    examples->training(2, step, batch);
    for (std::size_t i = 0; i < 10; ++i) other.push_back(index_of(batch, i));
  }
  EXPECT_NE(other, orders[0]);
  examples->training(1, 7, batch);
  EXPECT_EQ(index_of(batch, 9), orders[1][39]);
}

TEST(ImageExamples, AreOfTheChosenClasses) {
  const ImageSet& set = tiny_image_set();
  const auto two = image_examples(set, {3, 6, 2, {1, 2}});
  EXPECT_EQ(two->steps_per_epoch(), 2u);
  Batch batch;
  std::vector<std::uint8_t> first;
  for (const std::uint8_t label : set.train.labels)
    if (first.size() < 6 && (label == 1 || label == 2)) first.push_back(label);
  std::multiset<int> met;
  for (std::uint64_t step = 0; step < 2; ++step) {
    two->training(1, step, batch);
    met.insert(batch.labels.begin(), batch.labels.end());
  }
  EXPECT_EQ(met, std::multiset<int>(first.begin(), first.end()));
  two->test(0, batch);
  EXPECT_LE(batch.labels.size(), 2u);
  const std::string why = refused([&] { image_examples(set, {49, 0, 0, {}}); });
  EXPECT_EQ(why, "48 images to learn from and 16 to test; accepted: a batch of 49 or more, and one or more");
  const auto all = image_examples(set, {8, 0, 0, {}});
  EXPECT_EQ(all->test_batches(), 1u);
  all->test(0, batch);
  EXPECT_EQ(batch.labels, std::vector<int>(set.test.labels.begin(), set.test.labels.end()));
}

TEST(TextExamples, AreWindowsAndTheirNextCharacters) {
  const CharacterText& text = tiny_text();
  const auto examples = text_examples(text, {4, 8, 9});
  EXPECT_EQ(examples->test_batches(), 3u);
  Batch batch;
  const auto& validation = text.validation()[0];
  std::size_t last = 0;  // where the last window is first found
  for (std::size_t i = 0; i < 3; ++i) {
    examples->test(i, batch);
    ASSERT_EQ(batch.labels.size(), (i < 2 ? 4u : 1u) * 8);
    for (std::size_t row = 0; row < batch.x.rows(); ++row) {
      const std::vector<float> window(batch.x.row(row).begin(), batch.x.row(row).end());
      for (std::size_t j = 0; j + 1 < 8; ++j) EXPECT_EQ(batch.labels[row * 8 + j], static_cast<int>(window[j + 1]));
      const auto is_here = [&](std::size_t at) {
        bool same = text.tokens()[at + 8] == batch.labels[row * 8 + 7];
        for (std::size_t j = 0; j < 8; ++j) same &= static_cast<float>(text.tokens()[at + j]) == window[j];
        return same;
      };
      last = validation.begin;
      while (last + 8 < validation.end && !is_here(last)) ++last;
      EXPECT_LT(last + 8, validation.end) << "a window of the validation part";
    }
  }
  EXPECT_GT(last, (validation.begin + validation.end) / 2) << "they are spread over all of it";
  examples->training(1, 0, batch);
  const auto first = std::vector<float>(batch.x.values().begin(), batch.x.values().end());
  examples->training(1, 1, batch);
  EXPECT_NE(first, std::vector<float>(batch.x.values().begin(), batch.x.values().end()));
  examples->training(1, 0, batch);
  EXPECT_EQ(first, std::vector<float>(batch.x.values().begin(), batch.x.values().end()));
}

}  // namespace microscope_test
