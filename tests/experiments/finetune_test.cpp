// Starting from values of another training, and the experiment "finetune".
#include "check.hpp"
#include "training_report.hpp"

#include <halfulp/training/trainer.hpp>

#include <filesystem>

namespace finetune_test {

using namespace training_report;
namespace t = halfulp::training;

/// Images of noise, a class each in turn.
ImageSet noise() {
  ImageSet set;
  check::Random random{3};
  for (LabelledImages* const images : {&set.train, &set.test}) {
    images->rows = images->columns = 28;
    for (int i = 0; i < 40; ++i) {
      images->labels.push_back(static_cast<std::uint8_t>(i % 10));
      for (int p = 0; p < 28 * 28; ++p) images->pixels.push_back(static_cast<std::uint8_t>(random() >> 56));
    }
  }
  return set;
}

t::TrainerSettings tiny() {
  t::TrainerSettings s;
  s.options.width = 8;
  s.steps = 4;
  s.interval = 2;
  return s;
}

TEST(StartFrom, ItsOwnValuesChangeNothing) {
  const ImageSet images = noise();
  for (const char* const name : {"fp32", "O2", "pure-bf16", "bf16-kahan", "bf16-sr", "fp8-hybrid"}) {
    const t::Policy policy = t::find_policy(name), fp32 = t::find_policy("fp32");
    const auto a_examples = t::image_examples(images, {8}), b_examples = t::image_examples(images, {8});
    t::Trainer first(tiny(), fp32, *a_examples), a(tiny(), policy, *a_examples), b(tiny(), policy, *b_examples);
    b.start_from(first.values());
    a.run();
    b.run();
    EXPECT_EQ(a.checkpoint().bytes(), b.checkpoint().bytes()) << name;
  }
}

TEST(StartFrom, MasterWeightsKeepWhatParametersRound) {
  const ImageSet images = noise();
  const t::Policy policy = t::find_policy("O2"), fp32 = t::find_policy("fp32");
  const auto examples = t::image_examples(images, {8});
  t::Trainer before(tiny(), fp32, *examples), after(tiny(), policy, *examples);
  before.run();
  const t::NetworkValues learned = before.values();
  after.start_from(learned);
  const t::NetworkValues values = after.values();
  std::size_t rounded = 0;
  for (const auto& entry : learned) {
    std::vector<float> master(entry.second.size());
    after.checkpoint().take("optimizer." + entry.first + ".master", std::span<float>(master));
    EXPECT_EQ(master, entry.second) << entry.first;
    for (std::size_t i = 0; i < master.size(); ++i) {
      const float want = static_cast<float>(fp16.value(encode(fp16, {}, static_cast<double>(entry.second[i])).code));
      EXPECT_EQ(values.at(entry.first)[i], want);
      rounded += want != entry.second[i];
    }
  }
  EXPECT_GT(rounded, 1000u);
}

TEST(StartFrom, RefusesOtherNetworksAndLateStarts) {
  const ImageSet images = noise();
  const t::Policy fp32 = t::find_policy("fp32");
  const auto examples = t::image_examples(images, {8});
  t::TrainerSettings wide = tiny();
  wide.options.width = 9;
  t::Trainer a(tiny(), fp32, *examples), b(wide, fp32, *examples);
  EXPECT_THROW(a.start_from(b.values()), std::invalid_argument);
  t::NetworkValues fewer = a.values();
  fewer.erase(fewer.begin());
  EXPECT_THROW(a.start_from(fewer), std::invalid_argument);
  a.run_interval();
  EXPECT_THROW(a.start_from(a.values()), std::logic_error);
}

TEST(Test, OfSomeClassesAddsUpToThatOfAll) {
  const ImageSet images = noise();
  const t::Policy fp32 = t::find_policy("fp32");
  const auto all = t::image_examples(images, {8}), some = t::image_examples(images, {8, 0, 0, {0, 1, 2, 3, 4}}),
             others = t::image_examples(images, {8, 0, 0, {5, 6, 7, 8, 9}});
  t::Trainer trainer(tiny(), fp32, *all);
  trainer.run();
  const t::TestResult whole = trainer.test(), a = trainer.test(*some), b = trainer.test(*others);
  EXPECT_NEAR(whole.loss, (a.loss + b.loss) / 2, 1e-6);
  EXPECT_NEAR(whole.accuracy, (a.accuracy + b.accuracy) / 2, 1e-12);
  EXPECT_NE(a.loss, b.loss);
}

const std::vector<std::string> small{
    "train_examples=256", "test_examples=100", "steps=6", "tune_steps=5",
    "intervals=2",        "width=16",          "seeds=2", "policies=fp32,O2,pure-bf16,bf16-sr,bf16-kahan,amp-fp16"};
std::vector<std::string> with(std::vector<std::string> more) {
  more.insert(more.begin(), small.begin(), small.end());
  return more;
}

TEST(Finetune, WithoutALearningRateNothingMoves) {
  if (!no_images().empty()) GTEST_SKIP() << no_images();
  const Json report = report_of("finetune", with({"tune_lr=0"}));
  expect_no_failure(report);
  for (const char* const policy : {"fp32", "O2", "pure-bf16", "bf16-sr", "bf16-kahan", "amp-fp16"}) {
    const auto of = [&](const char* column) { return cell(report, "summary", "policy", policy, column); };
    EXPECT_EQ(of("unmoved"), 1.0) << policy;
    EXPECT_EQ(of("moved"), 0.0) << policy;
    EXPECT_EQ(of("tuned"), of("tuned_before")) << policy;
    EXPECT_EQ(of("other"), of("other_before")) << policy;
  }
  EXPECT_EQ(cell(report, "summary", "policy", "fp32", "rounding_cost"), 0.0);
  EXPECT_EQ(cell(report, "summary", "policy", "fp32", "start_error"), 0.0);
  EXPECT_GT(cell(report, "summary", "policy", "pure-bf16", "start_error").get<double>(), 0.0005);
  EXPECT_GT(cell(report, "summary", "policy", "bf16-sr", "start_error"),
            cell(report, "summary", "policy", "pure-bf16", "start_error"));
  EXPECT_EQ(cell(report, "seeds", "policy", "fp32", "seed"), 1);
}

TEST(Finetune, SmallStepsMoveWeightsWhereTheyAreNotSwamped) {
  if (!no_images().empty()) GTEST_SKIP() << no_images();
  const Json report = report_of("finetune", with({"tune_lr=1e-5"}));
  expect_no_failure(report);
  const auto unmoved = [&](const char* policy) {
    return cell(report, "summary", "policy", policy, "unmoved").get<double>();
  };
  EXPECT_LT(unmoved("fp32"), 0.5);
  EXPECT_GT(unmoved("pure-bf16"), 0.8);
  EXPECT_LT(unmoved("bf16-sr"), unmoved("pure-bf16"));
  EXPECT_LT(unmoved("bf16-kahan"), unmoved("pure-bf16"));
  EXPECT_EQ(verdict(report, "mlp-pure-bf16-stays"), "pass");
}

TEST(Finetune, GoesOnFromCheckpoints) {
  if (!no_images().empty()) GTEST_SKIP() << no_images();
  const std::string folder = testing::TempDir() + "finetune_checkpoints";
  std::filesystem::remove_all(folder);
  const std::vector<std::string> settings = with({"checkpoints=" + folder, "seeds=1"});
  const Json first = report_of("finetune", settings), again = report_of("finetune", settings);
  EXPECT_EQ(first["results"], again["results"]);
  EXPECT_EQ(first["results"]["summary"], report_of("finetune", with({"seeds=1"}))["results"]["summary"]);
  std::filesystem::remove_all(folder);
}

TEST(Finetune, RefusesClassesThatLeaveNothing) {
  EXPECT_EQ(refused("finetune", {"classes=0,1,2,3,4,5,6,7,8,9"}),
            "classes: 10 of them; accepted: 1 to 9, so that some are tuned and some are not");
  EXPECT_NE(refused("finetune", {"classes=1,2,1"}).find("1 is there twice"), std::string::npos);
  EXPECT_NE(refused("finetune", {"classes=10"}).find("from 0 to 9"), std::string::npos);
}

}  // namespace finetune_test
