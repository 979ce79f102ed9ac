// Trainings: the same bits on any number of threads and after a checkpoint, and the trainer's work on gradients and
// steps.
#include "tiny_training.hpp"

#include <halfulp/training/trainer.hpp>

#include <tbb/global_control.h>

#include <map>

namespace trainer_test {

using namespace check;

const char* const all_networks[] = {"mlp", "cnn", "transformer", "lstm"};

TEST(Trainings, AreTheSameOnAnyNumberOfThreads) {
  for (const char* const network : all_networks)
    for (const Policy& policy : policies()) {
      std::string results[2];
      for (const std::size_t threads : {1, 2}) {
        const tbb::global_control control(tbb::global_control::max_allowed_parallelism, threads);
        Tiny t(policy, tiny(network, 3));
        t.trainer.run();
        results[threads - 1] = t.trainer.checkpoint().bytes();
      }
      EXPECT_EQ(results[0], results[1]) << network << ' ' << policy.name;
    }
}

TEST(Trainings, GoOnFromACheckpoint) {
  for (const char* const network : all_networks)
    for (const Policy& policy : policies()) {
      if (is_text(network) && policy.name != "fp8-hybrid" && policy.name != "bf16-sr" && policy.name != "amp-fp16")
        continue;
      TrainerSettings s = tiny(network, 7);
      s.options.dropout = 0.25;
      s.test_every = 2;
      s.warmup = 3;
      s.cosine = true;
      Tiny whole(policy, s);
      whole.trainer.run();
      EXPECT_TRUE(whole.trainer.record().diverged || whole.trainer.record().curve.size() == 4u);
      for (int intervals = 0; intervals <= 4; intervals += network == all_networks[0] ? 1 : 2) {
        Tiny first(policy, s), second(policy, s);
        for (int i = 0; i < intervals; ++i) first.trainer.run_interval();
        second.trainer.restore(Checkpoint::from_bytes(first.trainer.checkpoint().bytes(), "c"));
        EXPECT_EQ(second.trainer.steps(), first.trainer.steps());
        second.trainer.run();
        EXPECT_EQ(second.trainer.checkpoint().bytes(), whole.trainer.checkpoint().bytes())
            << network << ' ' << policy.name << " after " << intervals;
      }
    }
}

/// A scaler in the middle of its growth, gradients that overflow and recover, and the spikes' means.
TEST(Trainings, GoOnWithTheirScaler) {
  Policy policy = find_policy("amp-fp16");
  policy.loss_scaling->initial_scale = 0x1p30;
  policy.loss_scaling->growth_interval = 3;
  TrainerSettings s = tiny("mlp", 40);
  s.interval = 5;
  Tiny whole(policy, s);
  std::vector<std::vector<std::uint32_t>> weights;
  std::vector<std::uint64_t> left_out;
  whole.trainer.after_step = [&](Trainer& t) {
    weights.push_back(bits(t.parameters()[0]->value.values()));
    if (weights.size() > 1 && weights.end()[-1] == weights.end()[-2]) left_out.push_back(t.steps());
  };
  whole.trainer.run();
  const TrainingRecord& record = whole.trainer.record();
  std::uint64_t skipped = 0, grew = 0;
  for (const ScalerEvent& event : record.events)
    skipped += event.kind == ScalerEvent::Kind::skipped, grew += event.kind == ScalerEvent::Kind::grew;
  EXPECT_GT(skipped, 3u);
  EXPECT_GT(grew, 3u);
  EXPECT_EQ(record.skipped(), skipped);
  EXPECT_EQ(left_out.size() + 1, skipped) << "the first step's weights were not compared";
  EXPECT_GT(record.curve.front().skipped, record.curve.back().skipped);
  EXPECT_LT(record.curve.back().loss, record.curve.front().loss);
  EXPECT_EQ(record.curve.back().scale, whole.trainer.scale());
  ASSERT_TRUE(record.first_infinite);
  EXPECT_EQ(record.first_infinite->step, 0u);
  EXPECT_FALSE(record.diverged);
  for (int intervals : {1, 3}) {
    Tiny first(policy, s), second(policy, s);
    for (int i = 0; i < intervals; ++i) first.trainer.run_interval();
    second.trainer.restore(Checkpoint::from_bytes(first.trainer.checkpoint().bytes(), "c"));
    second.trainer.run();
    EXPECT_EQ(second.trainer.checkpoint().bytes(), whole.trainer.checkpoint().bytes());
  }
}

TEST(Trainings, RefuseOthersCheckpoints) {
  const Place place;
  const TrainerSettings s = tiny("mlp");
  Tiny t("bf16-kahan", s);
  t.trainer.run();
  write_checkpoint(place.path, t.trainer.checkpoint());
  EXPECT_EQ(refused([&] { read_checkpoint(place.path, t.trainer.identity()); }), "accepted");
  const auto other = [&](const Policy& policy, const TrainerSettings& settings) {
    const std::string why = refused([&] { read_checkpoint(place.path, Tiny(policy, settings).trainer.identity()); });
    EXPECT_TRUE(why.find("a checkpoint of another run: ") != why.npos && why.find('\n') == why.npos) << why;
  };
  other(find_policy("pure-bf16"), s);
  Policy changed = t.policy;
  changed.update.kahan = false;
  other(changed, s);
  changed = t.policy;
  changed.loss_scaling = LossScalerSettings{};
  other(changed, s);
  const auto setting = [&](auto&& change) {
    TrainerSettings with = s;
    change(with);
    other(t.policy, with);
  };
  setting([](TrainerSettings& x) { x.seed = 2; });
  setting([](TrainerSettings& x) { x.steps = 5; });
  setting([](TrainerSettings& x) { x.options.width = 9; });
  setting([](TrainerSettings& x) { x.options.dropout = 0.5; });
  setting([](TrainerSettings& x) { x.optimizer.lr = 1; });
  setting([](TrainerSettings& x) { x.clip_norm = 1; });
  setting([](TrainerSettings& x) { x.embedding_shrink = 0.1; });
  setting([](TrainerSettings& x) { x.skip_abnormal = 3; });
  setting([](TrainerSettings& x) { x.interval = 1; });
  const std::string bytes = t.trainer.checkpoint().bytes();
  for (std::size_t length = 0; length < bytes.size(); length += bytes.size() / 37 + 1) {
    const std::string why = refused([&] { Checkpoint::from_bytes(std::string_view(bytes).substr(0, length), "file"); });
    EXPECT_TRUE(why.starts_with("file: ") && why.find('\n') == why.npos) << why;
  }
  std::string spoiled = bytes;
  spoiled[bytes.size() / 2] ^= 1;
  EXPECT_TRUE(refused([&] { Checkpoint::from_bytes(spoiled, "file"); }).starts_with("file: "));
}

/// The learning rate of one step of SGD, computed from the change of the weight with the largest gradient.
TEST(Trainings, FollowTheSchedule) {
  TrainerSettings s = tiny("mlp", 10);
  s.optimizer.kind = OptimizerKind::sgd;
  s.optimizer.lr = 0.5;
  s.warmup = 4;
  for (const bool cosine : {false, true}) {
    s.cosine = cosine;
    Tiny t("fp32", s);
    std::vector<float> before;
    std::vector<double> rates;
    t.trainer.after_backward = [&](Trainer& x) {
      before.assign(x.parameters()[2]->value.values().begin(), x.parameters()[2]->value.values().end());
    };
    t.trainer.after_step = [&](Trainer& x) {
      const auto gradient = x.parameters()[2]->gradient.values();
      std::size_t at = 0;
      for (std::size_t i = 0; i < gradient.size(); ++i)
        if (std::fabs(gradient[i]) > std::fabs(gradient[at])) at = i;
      rates.push_back(static_cast<double>(before[at] - x.parameters()[2]->value[at]) /
                      static_cast<double>(gradient[at]));
    };
    t.trainer.run();
    ASSERT_EQ(rates.size(), 10u);
    for (int i = 0; i < 10; ++i) {
      double want = i < 4 ? 0.5 * (i + 1) / 4 : 0.5;
      if (cosine && i >= 4) want = 0.25 * (1 + std::cos(3.14159265358979 * (i - 4) / 6));
      EXPECT_NEAR(rates[static_cast<std::size_t>(i)], want, 1e-4) << i;
    }
  }
}

/// Gradients after one step, by parameter.
std::map<std::string, std::vector<float>> gradients_after(const TrainerSettings& s, CurvePoint* point = nullptr,
                                                          const char* policy = "fp32") {
  Tiny t(policy, s);
  t.trainer.run();
  std::map<std::string, std::vector<float>> all;
  for (TrainedParameter<float>* const p : t.trainer.parameters())
    all[p->name].assign(p->gradient.values().begin(), p->gradient.values().end());
  if (point) *point = t.trainer.record().curve.back();
  return all;
}

double norm(const std::vector<std::vector<float>>& tensors) {
  double sum = 0;
  for (const auto& tensor : tensors)
    for (const float v : tensor) sum += static_cast<double>(v) * static_cast<double>(v);
  return std::sqrt(sum);
}

TEST(Trainings, ClipAndShrinkGradients) {
  TrainerSettings s = tiny("transformer", 1);
  CurvePoint point;
  const auto plain = gradients_after(s, &point);
  std::vector<std::vector<float>> all;
  for (const auto& [name, values] : plain) all.push_back(values);
  const double whole = norm(all), table = norm({plain.at("embedding.table")});
  EXPECT_NEAR(point.gradient_norm, whole, 1e-9 * whole);
  EXPECT_EQ(point.clipped, 0u);
  for (const bool alone : {false, true}) {
    s.clip_embedding = alone;
    s.clip_norm = 100;
    gradients_after(s, &point);
    EXPECT_EQ(point.clipped, 0u);
    s.clip_norm = table / 4;
    const auto clipped = gradients_after(s, &point);
    EXPECT_EQ(point.clipped, 1u);
    EXPECT_NEAR(point.gradient_norm, whole, 1e-9 * whole) << "the norm is that before clipping";
    for (const auto& [name, values] : clipped) {
      const double factor = alone ? (name == "embedding.table" ? 0.25 : 1) : table / 4 / whole;
      for (std::size_t i = 0; i < values.size(); ++i)
        ASSERT_NEAR(values[i], factor * static_cast<double>(plain.at(name)[i]),
                    1e-4 * factor * std::fabs(plain.at(name)[i]))
            << name;
    }
  }
  s = tiny("transformer", 1);
  s.embedding_shrink = 0.1;
  for (const auto& [name, values] : gradients_after(s))
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(values[i], name == "embedding.table" ? 0.1f * plain.at(name)[i] : plain.at(name)[i]) << name;
  // Without a table nothing is clipped. Scaled gradients are unscaled first.
  s = tiny("mlp", 1);
  s.clip_norm = 1e-3, s.clip_embedding = true;
  gradients_after(s, &point);
  EXPECT_EQ(point.clipped, 0u);
  s.clip_embedding = false;
  std::vector<std::vector<float>> left;
  for (const auto& [name, values] : gradients_after(s, &point, "mixed_float16")) left.push_back(values);
  EXPECT_NEAR(norm(left), 1e-3, 1e-5);
}

TEST(Trainings, LeaveOutAbnormalSteps) {
  TrainerSettings s = tiny("mlp", 6);
  s.skip_abnormal = 1e-6;  // every norm after the first is abnormal
  Tiny t("fp32", s);
  std::vector<std::vector<std::uint32_t>> weights;
  t.trainer.after_step = [&](Trainer& x) { weights.push_back(bits(x.parameters()[0]->value.values())); };
  t.trainer.run();
  for (std::size_t i = 1; i < weights.size(); ++i) EXPECT_EQ(weights[i], weights[0]);
  EXPECT_EQ(t.trainer.record().curve[0].abnormal, 1u);
  EXPECT_EQ(t.trainer.record().curve[1].abnormal, 2u);
  s.skip_abnormal = 1e6;
  Tiny usual("fp32", s), without("fp32", tiny("mlp", 6));
  usual.trainer.run(), without.trainer.run();
  EXPECT_EQ(to_json(usual.trainer.record()), to_json(without.trainer.record()));
}

TEST(Trainings, LearnAndCountIntervals) {
  TrainerSettings s = tiny("mlp", 65);
  s.interval = 20;
  s.test_every = 2;
  Tiny t("fp32", s);
  double loss = 0;
  t.trainer.after_step = [&](Trainer& x) { loss += x.last_loss(); };
  t.trainer.run();
  const TrainingRecord& r = t.trainer.record();
  ASSERT_EQ(r.curve.size(), 4u);
  EXPECT_EQ(r.curve[0].step, 20u);
  EXPECT_EQ(r.curve[3].step, 65u);
  EXPECT_NEAR(20 * (r.curve[0].loss + r.curve[1].loss + r.curve[2].loss) + 5 * r.curve[3].loss, loss, 1e-9 * loss);
  EXPECT_TRUE(!r.curve[0].test && r.curve[1].test && !r.curve[2].test && r.curve[3].test);
  EXPECT_EQ(r.final.loss, r.curve[3].test->loss);
  EXPECT_GT(r.final.accuracy, 0.7);
  EXPECT_FALSE(t.trainer.run_interval());
  EXPECT_EQ(r.curve.size(), 4u);
}

}  // namespace trainer_test
