// What trainings leave behind: records, also of diverged trainings, and gradients.
#include "tiny_training.hpp"

#include <halfulp/data/saved_gradients.hpp>
#include <halfulp/training/trainer.hpp>
#include <halfulp/training/runs/runs.hpp>

#include <filesystem>
#include <fstream>
#include <limits>
#include <map>

namespace training_record_test {

using namespace check;

TEST(Trainings, EndWhenTheyDiverge) {
  const Place place;
  TrainerSettings s = tiny("mlp", 10);
  s.interval = 4;
  s.optimizer.kind = OptimizerKind::sgd;
  s.optimizer.lr = 1e38;
  for (const char* const policy : {"fp32", "fp8-hybrid", "amp-bf16"}) {
    std::filesystem::remove_all(place.path);
    Tiny t(policy, s);
    trainings::keep_gradients(t.trainer, place.path, {{"policy", policy}});
    t.trainer.run();
    const TrainingRecord& r = t.trainer.record();
    ASSERT_TRUE(r.diverged) << policy;
    EXPECT_LT(*r.diverged, 4u);
    EXPECT_EQ(r.curve.size(), 1u);
    EXPECT_EQ(t.trainer.steps(), *r.diverged + 1);
    EXPECT_TRUE(std::isnan(r.final.loss));
    EXPECT_EQ(r.final.accuracy, 0);
    EXPECT_FALSE(t.trainer.run_interval());
    Tiny again(policy, s);
    again.trainer.restore(Checkpoint::from_bytes(t.trainer.checkpoint().bytes(), "c"));
    EXPECT_FALSE(again.trainer.run_interval());
    EXPECT_EQ(again.trainer.checkpoint().bytes(), t.trainer.checkpoint().bytes());
    EXPECT_FALSE(read_gradients(place.path).gradients.empty()) << "the first step was saved";
  }
}

TEST(Trainings, SaveTheGradientsOfCountedSteps) {
  const Place place;
  TrainerSettings s = tiny("mlp", 5);
  std::map<std::pair<std::uint64_t, std::string>, std::vector<std::uint32_t>> want;
  Policy policy = find_policy("amp-fp16");
  Tiny kept(policy, s), seen(policy, s);
  seen.trainer.after_backward = [&](Trainer& t) {
    if (t.steps() == 0 || t.steps() == 1 || t.steps() == 3 || t.steps() == 4)
      for (const training::TrainedParameter<float>* const p : t.parameters())
        want[{t.steps(), p->name + ".gradient"}] = bits(p->gradient.values());
  };
  seen.trainer.microscope().spy = [&](const Sighting& x) {
    if (x.role != Role::gradient_of_activation || x.operand) return;
    std::string name = std::string(x.site.name) + ".activation-gradient";
    const std::uint64_t step = seen.trainer.steps();
    for (int i = 2; want.count({step, name}); ++i)
      name = std::string(x.site.name) + ".activation-gradient-" + std::to_string(i);
    want[{step, name}] = bits(x.values);
  };
  seen.trainer.run();
  trainings::keep_gradients(kept.trainer, place.path, {{"policy", "amp-fp16"}});
  kept.trainer.run();
  const GradientFolder folder = read_gradients(place.path);
  EXPECT_EQ(folder.gradients.size(), want.size());
  EXPECT_GT(want.size(), 4u * 5);
  for (const SavedGradient& g : folder.gradients) {
    ASSERT_TRUE(want.count({*g.step, g.name})) << g.name;
    EXPECT_EQ(g.scale, 65536);
    std::ifstream file(g.path, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), {});
    const auto& values = want.at({*g.step, g.name});
    ASSERT_GT(bytes.size(), values.size() * 4);
    EXPECT_EQ(bytes.substr(bytes.size() - values.size() * 4),
              std::string(reinterpret_cast<const char*>(values.data()), values.size() * 4))
        << g.name;
  }
}

TEST(Records, ReadBackAsTheyWere) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  TrainingRecord r;
  CurvePoint point;
  point.step = 7, point.loss = nan, point.gradient_norm = 0.1, point.largest_norm = infinity, point.scale = 0x1p-149,
  point.skipped = 1, point.abnormal = 2, point.clipped = 3;
  point.test = TestResult{-infinity, 1.0 / 3};
  point.tensors = {{OperatorKind::gelu, "g\"elu", Role::communication, true, 1, 2, 3, 4, 5, 6}};
  point.updates = {{"fc1.weight", {}}};
  UpdateReport& u = point.updates[0].sum;
  u.elements = 1, u.with_update = 2, u.swamped = 3, u.changed = 4, u.zero_gradients = 5, u.second_underflowed = 6,
  u.zero_denominators = 7, u.non_finite = 8, u.weight_norm = 0.1, u.gradient_norm = nan, u.update_norm = 1e-300;
  r.curve = {point, {}};
  ScalerEvent event;
  event.kind = ScalerEvent::Kind::collapsed, event.update = -1, event.before = 0x1p-149, event.after = 0,
  event.optimizer = 3;
  r.events = {event};
  r.spikes = {{5, true, 2.5, 0.1}};
  r.first_infinite = FirstNonFinite{3, OperatorKind::optimizer, "fc1.bias", Role::gradient_of_weight};
  r.diverged = 0;
  r.final = {nan, 0};
  const Json json = to_json(r);
  const TrainingRecord again = record_from_json(parse_json(json.dump(), "record"), "record");
  EXPECT_EQ(to_json(again), json);
  ASSERT_EQ(again.curve.size(), 2u);
  const CurvePoint& p = again.curve[0];
  EXPECT_TRUE(std::isnan(p.loss) && p.largest_norm == infinity && p.test->loss == -infinity &&
              p.test->accuracy == 1.0 / 3 && p.scale == 0x1p-149);
  EXPECT_TRUE(p.step == 7 && p.skipped == 1 && p.abnormal == 2 && p.clipped == 3 && !again.curve[1].test);
  EXPECT_EQ(p.tensors[0].name, "g\"elu");
  EXPECT_TRUE(p.tensors[0].operand && p.tensors[0].kind == OperatorKind::gelu &&
              p.tensors[0].role == Role::communication);
  EXPECT_TRUE(p.tensors[0].elements == 1 && p.tensors[0].zeros == 2 && p.tensors[0].underflowed == 3 &&
              p.tensors[0].overflowed == 4 && p.tensors[0].subnormal == 5 && p.tensors[0].nan == 6);
  const UpdateReport& v = p.updates[0].sum;
  EXPECT_TRUE(v.elements == 1 && v.with_update == 2 && v.swamped == 3 && v.changed == 4 && v.zero_gradients == 5 &&
              v.second_underflowed == 6 && v.zero_denominators == 7 && v.non_finite == 8);
  EXPECT_TRUE(v.weight_norm == 0.1 && std::isnan(v.gradient_norm) && v.update_norm == 1e-300);
  EXPECT_TRUE(again.events[0].kind == event.kind && again.events[0].update == -1 &&
              again.events[0].before == 0x1p-149 && again.events[0].optimizer == 3);
  EXPECT_TRUE(again.spikes[0].of_loss && again.spikes[0].step == 5 && again.spikes[0].value == 2.5 &&
              again.spikes[0].usual == 0.1);
  EXPECT_TRUE(again.first_infinite->name == "fc1.bias" && again.first_infinite->role == Role::gradient_of_weight &&
              !again.first_nan && again.diverged == 0u);
}

/// All places of a JSON value, itself first.
void places(Json& json, std::vector<Json*>& all) {
  all.push_back(&json);
  if (json.is_structured())
    for (Json& inside : json) places(inside, all);
}

/// A checkpoint with a checksum that fits, and a state that no training wrote: refused in one line, never believed.
class CraftedCheckpoints : public ::testing::Test {
 protected:
  static const TrainerSettings& settings() {
    static const TrainerSettings s = tiny("mlp", 6);
    return s;
  }
  static Policy policy() {
    return parse_policy(parse_json(R"({"name": "mine", "base": "amp-fp16", "rules": [{"operators": "linear", "operands":
      {"weight": {"format": "e4m3-tensor", "delayed": {"length": 3}}}}]})",
                                   "policy"),
                        "policy");
  }
  static const Checkpoint& good() {
    static const Checkpoint checkpoint = [] {
      Tiny t(policy(), settings());
      t.trainer.run_interval();
      t.trainer.run_interval();
      return t.trainer.checkpoint();
    }();
    return checkpoint;
  }
  /// What a trainer says of a file with this state; it goes on if it takes it.
  static std::string refusal(const Json& state) {
    Checkpoint crafted = good();
    crafted.state = state;
    return refused([&] {
      const Checkpoint read = Checkpoint::from_bytes(crafted.bytes(), "run.ckpt");
      Tiny t(policy(), settings());
      t.trainer.restore(read);
      t.trainer.run();
    });
  }
  static std::string changed(const char* pointer, const Json& value) {
    Json state = good().state;
    state.at(Json::json_pointer(pointer)) = value;
    return refusal(state);
  }
};

TEST_F(CraftedCheckpoints, AreRefusedInOneLine) {
  EXPECT_EQ(refusal(good().state), "accepted");
  EXPECT_EQ(changed("/step", std::uint64_t{1} << 63),
            "run.ckpt: state.step is 9223372036854775808; accepted: an integer from 0 to 6");
  EXPECT_EQ(changed("/step", 7), "run.ckpt: state.step is 7; accepted: an integer from 0 to 6");
  EXPECT_EQ(changed("/step", "4"), "run.ckpt: state.step is \"4\"; accepted: an integer from 0 to 6");
  EXPECT_EQ(changed("/step", 3), "run.ckpt: state: record.curve ends at step 4, not at step 3");
  EXPECT_EQ(changed("/record/0", Json::array()), "run.ckpt: state: record.curve ends at step 0, not at step 4");
  EXPECT_EQ(changed("/record/0/0/0", 4), "run.ckpt: state: the steps of record.curve do not grow");
  EXPECT_EQ(changed("/record/5", 4), "run.ckpt: state: record.diverged is 4, which is no step of 4");
  EXPECT_EQ(changed("/record/0/1/1", true),
            "run.ckpt: state.record.curve[1].loss is true; accepted: a number, \"NaN\", \"Infinity\" or \"-Infinity\"");
  EXPECT_EQ(changed("/record/0/1/9/0/0", 21),
            "run.ckpt: state.record.curve[1].tensors[0].operator is 21; accepted: an integer from 0 to 20");
  EXPECT_EQ(changed("/record/0/1/9/0/2", 7),
            "run.ckpt: state.record.curve[1].tensors[0].role is 7; accepted: an integer from 0 to 6");
  EXPECT_EQ(changed("/record/0/1/9/0/4", 1.5),
            "run.ckpt: state.record.curve[1].tensors[0].elements is 1.5; accepted: an integer from 0 to "
            "9007199254740992");
  EXPECT_EQ(changed("/record/6", {1, 2, 3}), "run.ckpt: state.record.final has 3 values; accepted: 2, loss, accuracy");
  EXPECT_EQ(changed("/record/1", {{-1, 0, 1, 1, 0, {0, 0, 0, 0}, {0, 0, 0, 0, {0, 0, 0, 0}}}}),
            "run.ckpt: state.record.events[0].kind is -1; accepted: an integer from 0 to 6");
  EXPECT_EQ(changed("/microscope/first_nan", {{"step", 1}, {"operator", 99}, {"name", "x"}, {"role", 0}}),
            "run.ckpt: state.microscope.first_nan.operator is 99; accepted: an integer from 0 to 20");
  EXPECT_EQ(changed("/microscope", 1), "run.ckpt: state.microscope is 1; accepted: an object");
  EXPECT_EQ(changed("/spikes/1", -1),
            "run.ckpt: state.spikes.losses is -1; accepted: an integer from 0 to 9007199254740992");
  EXPECT_TRUE(changed("/scaler/scale", {}).starts_with("run.ckpt: state.scaler: 'scale' is null"));
  EXPECT_EQ(changed("/optimizer/steps", -1).substr(0, 40), "run.ckpt: state.optimizer.steps is -1; a");
  EXPECT_TRUE(changed("/numerics/fc1/weight/kind", "liner")
                  .starts_with("run.ckpt: state.numerics.fc1.weight.kind: unknown operator 'liner'; did you mean"));
  EXPECT_EQ(changed("/numerics/fc1/weight/kind", "gelu"),
            "run.ckpt: state.numerics.fc1.weight: policy mine has no delayed scale here");
  EXPECT_EQ(changed("/numerics/fc1/weight/magnitudes", {1, 1, 1, 1}),
            "run.ckpt: state.numerics.fc1.weight: magnitudes are 4; accepted: at most 3");
  EXPECT_EQ(changed("/numerics/fc1/weight/magnitudes", {1e300}),
            "run.ckpt: state.numerics.fc1.weight.magnitudes is 1e+300; accepted: a number that fits fp32, \"NaN\" or "
            "\"Infinity\"");
  Json state = good().state;
  state["numerics"]["fc1"]["wieght"] = state["numerics"]["fc1"]["weight"];
  EXPECT_TRUE(refusal(state).starts_with("run.ckpt: state.numerics.fc1: unknown role 'wieght'; did you mean weight?"));
  state = good().state;
  state["numerics"]["fc1"]["activation"] = state["numerics"]["fc1"]["weight"];
  EXPECT_EQ(refusal(state), "run.ckpt: state.numerics.fc1.activation: policy mine has no delayed scale here");
  state = good().state;
  state.erase("record");
  EXPECT_EQ(refusal(state), "run.ckpt: state: record is missing");
  state = good().state;
  state["more"] = 1;
  EXPECT_TRUE(refusal(state).starts_with("run.ckpt: state: unknown member 'more'; accepted: "));
  EXPECT_EQ(refusal(7), "run.ckpt: state is 7; accepted: an object");
}

TEST_F(CraftedCheckpoints, MutationsAreTakenOrRefusedInOneLine) {
  Random random{11};
  const std::vector<Json> values{nullptr,
                                 true,
                                 0,
                                 -1,
                                 1.5,
                                 99,
                                 1e300,
                                 "",
                                 "NaN",
                                 "linear",
                                 Json::array(),
                                 Json::object(),
                                 Json::array({1, 2}),
                                 std::uint64_t{1} << 63,
                                 std::numeric_limits<std::int64_t>::min()};
  int taken = 0, refusals = 0;
  for (int trial = 0; trial < 400; ++trial) {
    Json state = good().state;
    std::vector<Json*> where;
    places(state, where);
    Json& at = *where[random() % where.size()];
    if (at.is_structured() && !at.empty() && random() % 2) at.erase(at.begin());
    else at = values[random() % values.size()];
    const std::string why = refusal(state);
    (why == "accepted" ? taken : refusals)++;
    EXPECT_EQ(why.find('\n'), std::string::npos) << why;
    if (why != "accepted") { EXPECT_TRUE(why.starts_with("run.ckpt: ")) << why; }
  }
  EXPECT_GT(taken, 20);
  EXPECT_GT(refusals, 100);
}

}  // namespace training_record_test
