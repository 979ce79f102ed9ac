// The loss scaler against the answers of torch.amp.GradScaler: tests/golden/torch_scaler.json, made by
// tests/peers/torch_scaler.py.
#include "check.hpp"
#include "gradient_tensors.hpp"
#include "peers.hpp"

#include <halfulp/report/report.hpp>
#include <halfulp_test_paths.hpp>

#include <halfulp/training/loss_scaler.hpp>

namespace torch_scaler_test {

using namespace halfulp;
using namespace halfulp::training;
using check::spans, check::Tensors, check::to_word;

float from_word(const Json& word) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(std::stoul(word.get<std::string>(), nullptr, 16)));
}

Tensors from_words(const Json& list) {
  Tensors tensors;
  for (const Json& words : list) {
    const std::string text = words.get<std::string>();
    for (auto& tensor = tensors.emplace_back(); tensor.size() * 8 < text.size();)
      tensor.push_back(from_word(text.substr(tensor.size() * 8, 8)));
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

/// One scenario of the trace: the same calls must give the same answers.
class Replay {
 public:
  Replay(const Json& scenario, Counts& counts)
      : name_(scenario["name"].get<std::string>()),
        scaler_(settings_from(scenario["settings"], scenario["static"].get<bool>())),
        optimizers_(scenario["optimizers"].get<std::size_t>()),
        counts_(counts) {
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

  /// `answer` holds the question at first and the whole operation at the end.
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
        if (number_of(value) == number_of(told[1].value(member, Json())))
          answer[1][member] = told[1][member];  // 65536 and 65536.0
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

  /// torch sums squares in fp32 in its own order, so norms agree up to rounding unless torch's squares overflow.
  void clip(Tensors& tensors, const Json& question, const Json& told, Json& answer) {
    const float norm = from_word(told[3]);
    const Tensors theirs = from_words(told[4]);
    const Clipping ours = clip_gradients(spans(tensors), from_word(question[2]));
    const auto close = [](double a, double b) {
      return (std::isnan(a) && std::isnan(b)) || a == b || std::abs(a - b) <= 1e-6 * std::abs(b);
    };
    const bool overflowed = std::isinf(norm) && std::isfinite(ours.norm);
    if (overflowed) {
      EXPECT_GT(ours.norm, 1e15);
    } else {
      EXPECT_TRUE(close(ours.norm, norm)) << ours.norm << " and " << norm;
    }
    for (std::size_t t = 0; !overflowed && t < theirs.size(); ++t)
      for (std::size_t i = 0; i < theirs[t].size(); ++i) {
        EXPECT_TRUE(close(tensors[t][i], theirs[t][i])) << tensors[t][i] << " and " << theirs[t][i];
      }
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
  std::printf(
      "torch %s: %zu scenarios, %zu calls, %zu updates, %zu steps taken, %zu left out, %zu calls refused, %zu "
      "gradients\n",
      trace["torch"].get<std::string>().c_str(), counts.scenarios, counts.calls, counts.updates, counts.taken,
      counts.skipped, counts.refused, counts.gradients);
  return counts;
}

TEST(TorchScaler, CommittedTrace) {
  const Counts counts = replay(HALFULP_GOLDEN "/torch_scaler.json");
  EXPECT_GT(counts.updates, 6000u);
  EXPECT_GT(counts.taken, 6000u);
  EXPECT_GT(counts.skipped, 300u);
  EXPECT_GT(counts.refused, 100u);
}

TEST(TorchScaler, Live) {
  if (!check::exhaustive()) GTEST_SKIP() << "asks torch in the exhaustive run alone";
  const auto peer = halfulp::tests::peer_python({"torch"});
  if (!peer.trouble.empty()) GTEST_SKIP() << "no torch: " << peer.trouble;
  const std::string path = ::testing::TempDir() + "torch_scaler_live.json";
  const auto made = halfulp::tests::run_program(
      {peer.python, HALFULP_PEERS_SCRIPTS "/torch_scaler.py", "--out", path, "--random", "400", "--seed", "100000"});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_GT(replay(path).updates, 10'000u);
}

}  // namespace torch_scaler_test
