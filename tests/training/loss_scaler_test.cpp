// What the loss scaler reports, keeps and refuses; unscaling and clipping. torch_scaler_test compares it with
// PyTorch's.
#include "check.hpp"
#include "gradient_tensors.hpp"

#include <halfulp/support/json.hpp>
#include <halfulp/training/loss_scaler.hpp>

namespace loss_scaler_test {

using namespace halfulp;
using namespace halfulp::training;
using check::spans, check::Tensors, check::to_word;

/// One iteration of one optimizer with these scaled gradients.
bool iterate(LossScaler& scaler, std::vector<float> gradients, int optimizer = 0) {
  scaler.scale(1);
  Tensors tensors{{1, 1}, std::move(gradients)};
  const bool taken = scaler.step(optimizer, spans(tensors), [] {});
  scaler.update();
  return taken;
}

constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
using Kind = ScalerEvent::Kind;

TEST(LossScaler, SaysWhatHappened) {
  LossScalerSettings settings;
  settings.growth_interval = 1;
  LossScaler scaler(settings);
  iterate(scaler, {1});
  iterate(scaler, {1, infinity, nan, -infinity}, 7);
  auto events = scaler.take_events();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].kind, Kind::grew);
  EXPECT_EQ(events[0].before, 65536);
  EXPECT_EQ(events[0].after, 131072);
  EXPECT_EQ(events[1].kind, Kind::skipped);
  EXPECT_EQ(events[1].optimizer, 7);
  EXPECT_EQ(events[1].update, 1);
  EXPECT_EQ(events[1].found.infinite, 2u);
  EXPECT_EQ(events[1].found.nan, 1u);
  EXPECT_EQ(events[1].found.tensor, 1u);
  EXPECT_EQ(events[1].found.element, 1u);
  EXPECT_EQ(description(events[1]),
            "step of optimizer 7 left out at scale 131072: 2 Inf and 1 NaN, the first in tensor 1, element 1");
  EXPECT_EQ(events[2].kind, Kind::backed_off);
  EXPECT_EQ(description(events[2]), "scale 131072 -> 65536");
  EXPECT_TRUE(scaler.take_events().empty());
  scaler.update(0x1p127);
  iterate(scaler, {1});
  events = scaler.take_events();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].kind, Kind::set);
  EXPECT_EQ(events[1].kind, Kind::growth_refused);
  EXPECT_EQ(events[1].after, 0x1p127);
}

TEST(LossScaler, SaysWhyItCollapsed) {
  LossScaler scaler;
  iterate(scaler, {1});
  while (scaler.current() > 0) iterate(scaler, {0, scaler.updates() % 3 == 0 ? infinity : nan}, 2);
  const auto events = scaler.take_events();
  const ScalerEvent& last = events.back();
  EXPECT_EQ(last.kind, Kind::collapsed);
  EXPECT_EQ(last.before, 0x1p-149);
  EXPECT_EQ(last.streak.updates, 166);  // 2^16 to 2^-149, and 0
  EXPECT_EQ(last.streak.begun, 1);
  EXPECT_EQ(last.streak.with_nan, 111);
  EXPECT_EQ(last.streak.optimizer, 2);
  EXPECT_EQ(last.streak.first.nan, 1u);
  EXPECT_NE(
      description(last).find(
          "-> 0: 166 updates in a row found Inf or NaN, 111 of them NaN; the first had 0 Inf and 1 NaN, the first "
          "in tensor 1, element 1 of optimizer 2"),
      std::string::npos)
      << description(last);
  // From here on, unscaling turns a gradient of zero into NaN, and nobody skips the step.
  EXPECT_TRUE(iterate(scaler, {0, 1}));
  const auto after = scaler.take_events();
  ASSERT_EQ(after.size(), 1u);
  EXPECT_EQ(after[0].kind, Kind::unnoticed);
  EXPECT_EQ(after[0].found.nan, 1u);
  EXPECT_EQ(after[0].found.infinite, 3u);
}

TEST(LossScaler, StaticScales) {
  LossScaler skips(static_scale(1024)), takes(static_scale(1024, false));
  for (LossScaler* scaler : {&skips, &takes}) {
    for (int i = 0; i < 3000; ++i) EXPECT_TRUE(iterate(*scaler, {1}));
    EXPECT_EQ(iterate(*scaler, {nan}), scaler == &takes);
    EXPECT_EQ(scaler->current(), 1024);
  }
}

TEST(LossScaler, AStateGoesOnAsIfNothingHadHappened) {
  LossScalerSettings settings;
  settings.growth_interval = 3;
  LossScaler one(settings);
  for (int i = 0; i < 150; ++i) iterate(one, {i < 10 ? 1 : nan});
  LossScaler other(settings);
  other.restore(parse_json(one.state().dump(), "state"), "state");
  one.take_events();
  for (int i = 0; i < 50; ++i)
    for (LossScaler* scaler : {&one, &other}) iterate(*scaler, {nan});
  const auto a = one.take_events(), b = other.take_events();
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_EQ(description(a[i]) + std::to_string(a[i].update), description(b[i]) + std::to_string(b[i].update));
  EXPECT_EQ(one.state(), other.state());
}

TEST(LossScaler, RefusesStatesInOneLine) {
  LossScaler scaler;
  iterate(scaler, {infinity});
  const Json good = scaler.state();
  const auto refusal = [&](const Json& state) -> std::string {
    try {
      scaler.restore(state, "run.ckpt");
    } catch (const std::invalid_argument& error) {
      EXPECT_EQ(scaler.state(), good) << "changed by a state that was refused";
      return error.what();
    }
    return "accepted";
  };
  const auto changed = [&](const std::string& member, const Json& value) {
    Json state = good;
    state[member] = value;
    return refusal(state);
  };
  EXPECT_EQ(refusal(good), "accepted");
  EXPECT_EQ(refusal(Json::object()), "run.ckpt: the empty state of a scaler that was disabled");
  EXPECT_EQ(refusal(Json::array()), "run.ckpt: not an object");
  EXPECT_EQ(changed("scale", "big"), "run.ckpt: 'scale' is \"big\"; accepted: a number");
  EXPECT_EQ(changed("scale", 1e39), "run.ckpt: 'scale' is 1e+39; accepted: what fits fp32");
  EXPECT_EQ(changed("_growth_tracker", 1.5),
            "run.ckpt: '_growth_tracker' is 1.5; accepted: an integer from -2147483648 to 2147483647");
  EXPECT_EQ(changed("_growth_tracker", std::uint64_t{1} << 63),
            "run.ckpt: '_growth_tracker' is 9223372036854775808; accepted: an integer from -2147483648 to 2147483647");
  EXPECT_TRUE(changed("scael", 1).starts_with("run.ckpt: unknown member 'scael'; did you mean scale?"))
      << changed("scael", 1);
  EXPECT_EQ(changed("history", Json::object()), "run.ckpt: history: 'updates' is missing");
  Json less = good;
  less.erase("growth_factor");
  EXPECT_EQ(refusal(less), "run.ckpt: 'growth_factor' is missing");
}

TEST(LossScaler, RefusesSettingsInOneLine) {
  const auto refusal = [](auto change) -> std::string {
    LossScalerSettings settings;
    change(settings);
    try {
      LossScaler scaler(settings);
    } catch (const std::invalid_argument& error) { return error.what(); }
    return "accepted";
  };
  EXPECT_EQ(refusal([](auto& s) { s.growth_factor = 1; }), "loss scaler: growth factor 1; accepted: above 1");
  EXPECT_EQ(refusal([](auto& s) { s.backoff_factor = 1; }), "loss scaler: backoff factor 1; accepted: below 1");
  EXPECT_EQ(refusal([](auto& s) { s.initial_scale = 1e39; }),
            "loss scaler: initial scale 1e+39; accepted: what fits fp32");
  EXPECT_EQ(refusal([](auto& s) { s.growth_factor = 1, s.enabled = false; }), "accepted");
}

TEST(Unscale, LongTensorsAsOneByOne) {
  check::Random random{5};
  for (const float factor : {0x1p-16f, 0.3f, 1.0f, 1e10f, infinity, nan, 0.0f})
    for (const std::size_t size : {0, 1, 63, 64, 65, 1000}) {
      std::vector<float> x(size);
      for (float& value : x)
        value = std::bit_cast<float>(static_cast<std::uint32_t>(random() >> (random() % 97 == 0 ? 33 : 32)) &
                                     (random() % 50 ? 0xbfff'ffffu : ~0u));
      if (size > 100) x[70] = infinity, x[99] = nan, x[500] = -infinity;
      std::vector<float> y = x;
      const Unscaled result = unscale_in_place(y, factor, 3);
      NonFiniteGradients before, appeared;
      for (std::size_t i = 0; i < size; ++i) {
        const float product = x[i] * factor;
        ASSERT_EQ(to_word(y[i]), to_word(product)) << i;
        if (std::isnan(y[i])) { ASSERT_EQ(std::bit_cast<std::uint32_t>(y[i]), 0x7fc0'0000u); }
        NonFiniteGradients one{std::isinf(x[i]), std::isnan(x[i]), 3, i},
            late{std::isinf(product) && std::isfinite(x[i]), std::isnan(product) && std::isfinite(x[i]), 3, i};
        before.add(one), appeared.add(late);
      }
      for (const auto& [got, want] : {std::pair{result.before, before}, {result.appeared, appeared}}) {
        EXPECT_EQ(got.infinite, want.infinite);
        EXPECT_EQ(got.nan, want.nan);
        EXPECT_EQ(got.tensor, want.tensor);
        EXPECT_EQ(got.element, want.element);
      }
    }
}

TEST(Clipping, ByTheCommonNorm) {
  Tensors tensors{{3, 0}, {0, -4}};
  const auto clipped = clip_gradients(spans(tensors), 1);
  EXPECT_EQ(clipped.norm, 5);
  EXPECT_NEAR(tensors[0][0], 0.6, 1e-6);
  EXPECT_NEAR(tensors[1][1], -0.8, 1e-6);
  Tensors small{{3, 0}, {0, -4}};
  EXPECT_EQ(clip_gradients(spans(small), 6).coefficient, 1);
  EXPECT_EQ(small, (Tensors{{3, 0}, {0, -4}}));
  Tensors huge{{3e38f, 3e38f}};  // the squares and the norm overflow fp32
  EXPECT_DOUBLE_EQ(clip_gradients(spans(huge), 1).norm, std::sqrt(2.0) * static_cast<double>(3e38f));
  EXPECT_EQ(huge, (Tensors{{0, 0}}));
}

}  // namespace loss_scaler_test
