// The loss scaler against what torch.amp.GradScaler answered (tests/golden/torch_scaler.json, made by tests/peers/torch_scaler.py),
// and what it says of itself.
#include "check.hpp"
#include "peers.hpp"

#include <halfulp/experiments/report/tolerance.hpp>
#include <halfulp/experiments/training/gradient_clipping.hpp>

#include <fstream>

namespace {

using namespace halfulp;
using namespace halfulp::training;

float from_word(const Json& word) { return std::bit_cast<float>(static_cast<std::uint32_t>(std::stoul(word.get<std::string>(), nullptr, 16))); }

std::string to_word(float x) {
  char text[9];
  std::snprintf(text, sizeof text, "%08x", std::isnan(x) ? 0x7fc0'0000u : std::bit_cast<std::uint32_t>(x));
  return text;
}

using Tensors = std::vector<std::vector<float>>;

Tensors from_words(const Json& list) {
  Tensors tensors;
  for (const Json& words : list) {
    const std::string text = words.get<std::string>();
    for (auto& tensor = tensors.emplace_back(); tensor.size() * 8 < text.size();) tensor.push_back(from_word(text.substr(tensor.size() * 8, 8)));
  }
  return tensors;
}

Json to_words(const Tensors& tensors) {
  Json list = Json::array();
  for (const auto& tensor : tensors) {
    std::string text;
    for (const float x : tensor) text += to_word(x);
    list.push_back(text);
  }
  return list;
}

std::vector<std::span<float>> spans(Tensors& tensors) { return {tensors.begin(), tensors.end()}; }

LossScalerSettings settings_from(const Json& json, bool is_static = false) {
  LossScalerSettings s;
  s.dynamic = !is_static;
  for (const auto& [name, value] : json.items()) {
    if (name == "init_scale") s.initial_scale = *number_of(value);
    else if (name == "growth_factor") s.growth_factor = *number_of(value);
    else if (name == "backoff_factor") s.backoff_factor = *number_of(value);
    else if (name == "growth_interval") s.growth_interval = value.get<std::int64_t>();
    else if (name == "enabled") s.enabled = value.get<bool>();
    else ADD_FAILURE() << "a setting " << name;
  }
  return s;
}

struct Counts {
  std::size_t scenarios = 0, calls = 0, updates = 0, taken = 0, skipped = 0, refused = 0, gradients = 0;
};

/// One scenario of the trace: the same calls, and the same answers.
class Replay {
 public:
  Replay(const Json& scenario, Counts& counts)
      : name_(scenario["name"].get<std::string>()), scaler_(settings_from(scenario["settings"], scenario["static"].get<bool>())), optimizers_(scenario["optimizers"].get<std::size_t>()), counts_(counts) {
    ++counts.scenarios;
    for (const Json& operation : scenario["operations"]) {
      call(operation);
      if (::testing::Test::HasFailure()) return;
    }
  }

 private:
  void call(const Json& o) {
    ++counts_.calls;
    const auto& what = o[0].get_ref<const std::string&>();
    const std::string where = name_ + ", call " + std::to_string(counts_.calls) + ": " + o.dump().substr(0, 300);
    Json answer = o;
    while (!answer.empty() && answer.size() > inputs(what)) answer.erase(answer.size() - 1);
    const Json question = answer;
    try {
      ask(question, o, answer);
    } catch (const std::exception& refusal) {
      if (dynamic_cast<const std::logic_error*>(&refusal) == nullptr) throw;
      ++counts_.refused;
      answer = question;
      answer.push_back("error");
    }
    EXPECT_EQ(answer, o) << where;
  }

  static std::size_t inputs(const std::string& what) {
    if (what == "update" || what == "save") return 1;
    if (what == "clip" || what == "gradients" || what == "repeat") return 3;
    return 2;
  }

  void add_place(Json& answer) {
    answer.push_back(to_word(static_cast<float>(scaler_.current())));
    answer.push_back(scaler_.growth_tracker());
  }

  /// `answer` comes as the question and goes as the whole operation.
  void ask(const Json& question, const Json& told, Json& answer) {
    const auto& what = question[0].get_ref<const std::string&>();
    if (what == "scale") {
      answer.push_back(to_word(scaler_.scale(from_word(question[1]))));
    } else if (what == "gradients") {
      optimizers_[question[1].get<std::size_t>()] = from_words(question[2]);
    } else if (what == "update") {
      scaler_.update();
      ++counts_.updates;
      add_place(answer);
    } else if (what == "set") {
      scaler_.update(*number_of(question[1]));
      add_place(answer);
    } else if (what == "save") {
      Json state = scaler_.state();
      state.erase("history");
      answer.push_back(Json::object());
      for (const auto& [member, value] : state.items())
        if (number_of(value) == number_of(told[1].value(member, Json()))) answer[1][member] = told[1][member];  // 65536 and 65536.0
        else answer[1][member] = number_of(value) && std::isnan(*number_of(value)) ? Json("NaN") : value;
    } else if (what == "load") {
      scaler_.restore(question[1], "torch");
      add_place(answer);
    } else if (what == "new") {
      scaler_ = LossScaler(settings_from(question[1]));
    } else if (what == "repeat") {
      repeat(question, answer);
    } else {
      const auto id = question[1].get<int>();
      Tensors& tensors = optimizers_[static_cast<std::size_t>(id)];
      const Json before = to_words(tensors);
      const auto gradients = spans(tensors);
      if (what == "unscale") {
        scaler_.unscale(id, gradients);
        const auto found = scaler_.found_non_finite(id);
        answer.push_back(found ? Json(*found ? 1 : 0) : Json());
        answer.push_back(to_words(tensors));
      } else if (what == "step") {
        int taken = 0;
        const bool said = scaler_.step(id, gradients, [&] { ++taken; });
        EXPECT_EQ(taken, said ? 1 : 0);
        ++(taken ? counts_.taken : counts_.skipped);
        answer.push_back(taken);
        answer.push_back(to_words(tensors) == before ? Json() : to_words(tensors));
      } else if (what == "clip") {
        clip(tensors, question, told, answer);
      } else {
        ADD_FAILURE() << what;
      }
      for (const auto& tensor : tensors) counts_.gradients += tensor.size();
    }
  }

  /// torch sums squares in fp32, in an order of its own: norms agree to rounding, unless its squares overflow.
  void clip(Tensors& tensors, const Json& question, const Json& told, Json& answer) {
    const float norm = from_word(told[3]);
    const Tensors theirs = from_words(told[4]);
    const Clipping ours = clip_gradients(spans(tensors), from_word(question[2]));
    const auto close = [](double a, double b) { return (std::isnan(a) && std::isnan(b)) || a == b || std::abs(a - b) <= 1e-6 * std::abs(b); };
    const bool overflowed = std::isinf(norm) && std::isfinite(ours.norm);
    if (overflowed) { EXPECT_GT(ours.norm, 1e15); }
    else { EXPECT_TRUE(close(ours.norm, norm)) << ours.norm << " and " << norm; }
    for (std::size_t t = 0; !overflowed && t < theirs.size(); ++t)
      for (std::size_t i = 0; i < theirs[t].size(); ++i) { EXPECT_TRUE(close(tensors[t][i], theirs[t][i])) << tensors[t][i] << " and " << theirs[t][i]; }
    tensors = theirs;
    answer = told;
  }

  void repeat(const Json& question, Json& answer) {
    std::uint64_t mix = 0;
    const std::size_t before = counts_.taken;
    for (int i = 0; i < question[1].get<int>(); ++i) {
      for (const Json& inner : question[2]) {
        Json ignored = inner;
        ask(inner, inner, ignored);
      }
      mix = mix * 0x100'0000'01b3 ^ std::bit_cast<std::uint32_t>(static_cast<float>(scaler_.current()));
    }
    add_place(answer);
    answer.push_back(counts_.taken - before);
    char text[17];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(mix));
    answer.push_back(text);
  }

  std::string name_;
  LossScaler scaler_;
  std::vector<Tensors> optimizers_;
  Counts& counts_;
};

Counts replay(const std::string& path) {
  const Json trace = read_json(path);
  Counts counts;
  for (const Json& scenario : trace["scenarios"]) Replay(scenario, counts);
  std::printf("torch %s: %zu scenarios, %zu calls, %zu updates, %zu steps taken, %zu left out, %zu calls refused, %zu gradients\n", trace["torch"].get<std::string>().c_str(),
              counts.scenarios, counts.calls, counts.updates, counts.taken, counts.skipped, counts.refused, counts.gradients);
  return counts;
}

TEST(LossScaler, AnswersAsTorch) {
  const Counts counts = replay(HALFULP_GOLDEN "/torch_scaler.json");
  EXPECT_GT(counts.updates, 6000u);
  EXPECT_GT(counts.taken, 6000u);
  EXPECT_GT(counts.skipped, 300u);
  EXPECT_GT(counts.refused, 100u);
}

TEST(LossScaler, AnswersAsTorchLive) {
  if (!check::exhaustive()) GTEST_SKIP() << "asks torch in the exhaustive run alone";
  const auto peer = halfulp::testing::peer_python({"torch"});
  if (!peer.trouble.empty()) GTEST_SKIP() << "no torch: " << peer.trouble;
  const std::string path = ::testing::TempDir() + "torch_scaler_live.json";
  const auto made = halfulp::testing::run_program({peer.python, HALFULP_PEERS_SCRIPTS "/torch_scaler.py", "--out", path, "--random", "400", "--seed", "100000"});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_GT(replay(path).updates, 10'000u);
}

/// An iteration of one optimizer with these scaled gradients.
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
  EXPECT_EQ(description(events[1]), "step of optimizer 7 left out at scale 131072: 2 Inf and 1 NaN, the first in tensor 1, element 1");
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
  EXPECT_NE(description(last).find("-> 0: 166 updates in a row found Inf or NaN, 111 of them NaN; the first had 0 Inf and 1 NaN, the first in tensor 1, element 1 of optimizer 2"), std::string::npos) << description(last);
  // From here on a gradient of zero is NaN once unscaled, and nobody skips it.
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
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(description(a[i]) + std::to_string(a[i].update), description(b[i]) + std::to_string(b[i].update));
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
  EXPECT_EQ(changed("_growth_tracker", 1.5), "run.ckpt: '_growth_tracker' is 1.5; accepted: an integer from -2147483648 to 2147483647");
  EXPECT_EQ(changed("_growth_tracker", std::uint64_t{1} << 63), "run.ckpt: '_growth_tracker' is 9223372036854775808; accepted: an integer from -2147483648 to 2147483647");
  EXPECT_TRUE(changed("scael", 1).starts_with("run.ckpt: unknown member 'scael'; did you mean scale?")) << changed("scael", 1);
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
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal([](auto& s) { s.growth_factor = 1; }), "loss scaler: growth factor 1; accepted: above 1");
  EXPECT_EQ(refusal([](auto& s) { s.backoff_factor = 1; }), "loss scaler: backoff factor 1; accepted: below 1");
  EXPECT_EQ(refusal([](auto& s) { s.initial_scale = 1e39; }), "loss scaler: initial scale 1e+39; accepted: what fits fp32");
  EXPECT_EQ(refusal([](auto& s) { s.growth_factor = 1, s.enabled = false; }), "accepted");
}

TEST(Unscale, LongTensorsAsOneByOne) {
  check::Random random{5};
  for (const float factor : {0x1p-16f, 0.3f, 1.0f, 1e10f, infinity, nan, 0.0f})
    for (const std::size_t size : {0, 1, 63, 64, 65, 1000}) {
      std::vector<float> x(size);
      for (float& value : x) value = std::bit_cast<float>(static_cast<std::uint32_t>(random() >> (random() % 97 == 0 ? 33 : 32)) & (random() % 50 ? 0xbfff'ffffu : ~0u));
      if (size > 100) x[70] = infinity, x[99] = nan, x[500] = -infinity;
      std::vector<float> y = x;
      const Unscaled result = unscale_in_place(y, factor, 3);
      NonFiniteGradients before, appeared;
      for (std::size_t i = 0; i < size; ++i) {
        const float product = x[i] * factor;
        ASSERT_EQ(to_word(y[i]), to_word(product)) << i;
        if (std::isnan(y[i])) { ASSERT_EQ(std::bit_cast<std::uint32_t>(y[i]), 0x7fc0'0000u); }
        NonFiniteGradients one{std::isinf(x[i]), std::isnan(x[i]), 3, i}, late{std::isinf(product) && std::isfinite(x[i]), std::isnan(product) && std::isfinite(x[i]), 3, i};
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
  Tensors huge{{3e38f, 3e38f}};  // squares beyond fp32, and a norm as well
  EXPECT_DOUBLE_EQ(clip_gradients(spans(huge), 1).norm, std::sqrt(2.0) * static_cast<double>(3e38f));
  EXPECT_EQ(huge, (Tensors{{0, 0}}));
}

}  // namespace
