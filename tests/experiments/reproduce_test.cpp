// The suite of published results: every line has claims that are there, no claim is lost, and verdicts are those of the
// experiments.
#include <halfulp/experiments/reproduce/reproduce.hpp>

#include <halfulp/report/experiment.hpp>
#include <halfulp/report/runner.hpp>

#include <gtest/gtest.h>

#include <set>

using namespace halfulp;
using namespace halfulp::reproduction;

namespace {

TEST(Lines, HaveNamesOfTheirOwnAndExperimentsThatExist) {
  std::set<std::string_view> seen;
  for (const Line& line : lines()) {
    EXPECT_TRUE(seen.insert(line.name).second) << line.name;
    EXPECT_FALSE(line.source.empty() || line.set_up.empty() || line.evidence.empty()) << line.name;
    EXPECT_LE(line.name.size(), 36u) << line.name;
    for (const Evidence& e : line.evidence) EXPECT_NO_THROW((void)find_experiment(e.experiment)) << line.name;
  }
}

TEST(Lines, PatternsMeanWhatTheyMatch) {
  const auto match = [](std::string_view pattern, std::string_view claim) {
    return names({"x", pattern}, "x", claim, "A paper");
  };
  EXPECT_TRUE(match("a-b", "a-b"));
  EXPECT_FALSE(match("a-b", "a-bc"));
  EXPECT_TRUE(match("a-*", "a-"));
  EXPECT_TRUE(match("a-*-z", "a-m-z"));
  EXPECT_FALSE(match("a-*-z", "a-z"));
  EXPECT_TRUE(match("*", "anything"));
  EXPECT_FALSE(names({"x", "*"}, "y", "anything", "A paper"));
  EXPECT_FALSE(names({"x", "*"}, "x", "anything", "derived: from the format"));
  EXPECT_TRUE(names({"x", "any*"}, "x", "anything", "derived: from the format"));
  EXPECT_EQ(line_of("position_ids", "bf16-first-clash", "A paper")->name, "Position ids in 16 bits");
  EXPECT_EQ(line_of("position_ids", "nothing-like-it", "A paper"), nullptr);
}

/// An experiment's report, as `run all` would have made it before.
Report report_of(const std::string& name) {
  const Experiment& experiment = find_experiment(name);
  return run_experiment(experiment, Config(experiment.parameters()), {});
}

TEST(Reproduce, TellsWhatTheExperimentsClaim) {
  const Report other = report_of("position_ids");
  const Experiment& suite = find_experiment("reproduce");
  Config config(suite.parameters());
  config.set("experiments=position_ids");
  RunOptions options;
  std::size_t asked = 0;
  const Report made = run_experiment(suite, config, options);
  options.made_before = [&](std::string_view name, const Json& its) -> const Report* {
    ++asked;
    EXPECT_EQ(name, "position_ids");
    EXPECT_EQ(its, other.config());
    return &other;
  };
  const Report found = run_experiment(suite, config, options);
  EXPECT_EQ(asked, 1u);
  EXPECT_EQ(found.to_json()["results"], made.to_json()["results"]);  // from a report made before or now
  const Json figures = found.to_json()["results"]["figures"]["rows"];
  std::size_t published = 0;
  for (const Claim& claim : other.claims()) {
    const bool here = line_of("position_ids", claim.id, claim.source) || is_published(claim.source);
    published += here;
    const auto row = std::find_if(figures.begin(), figures.end(), [&](const Json& r) { return r[2] == claim.id; });
    ASSERT_EQ(row != figures.end(), here) << claim.id;
    if (!here) continue;
    EXPECT_EQ((*row)[5], claim.expected.is_structured() ? Json(claim.expected.dump()) : claim.expected);
    EXPECT_EQ((*row)[7], claim.measured.is_structured() ? Json(claim.measured.dump()) : claim.measured);
    EXPECT_EQ((*row)[0], line_of("position_ids", claim.id, claim.source)
                             ? line_of("position_ids", claim.id, claim.source)->name
                             : std::string_view("Further: position_ids"));
    EXPECT_EQ((*row)[8], name_of(claim.verdict));
  }
  EXPECT_GT(published, 8u);
  EXPECT_EQ(figures.size(), published);
}

/// A report with one claim of each verdict, in the place of an experiment's.
TEST(Reproduce, ALineIsAsGoodAsItsWorstFigure) {
  const Experiment& suite = find_experiment("reproduce");
  const Experiment& experiment = find_experiment("position_ids");
  const Config defaults(experiment.parameters());
  Config config(suite.parameters());
  config.set("experiments=position_ids");
  const auto verdicts = [&](const std::vector<Claim>& claims) {
    Report other("position_ids", "made up", defaults);
    for (const Claim& claim : claims) other.claim(claim);
    RunOptions options;
    options.made_before = [&](std::string_view, const Json&) { return &other; };
    return run_experiment(suite, config, options);
  };
  const Claim held = exactly("bf16-held", "One.", "A paper", 1, 1, "published"),
              failed = exactly("bf16-failed", "Two.", "derived: x", 1, 2, "oracle");
  const Claim differs = within("bf16-differs", "Three.", "A paper", 1, 0, 2, "published", Verdict::differs),
              left = skipped("bf16-left", "Four.", "A paper", "no such format");
  const auto verdict = [&](const std::vector<Claim>& claims) { return verdicts(claims).claims().at(0).verdict; };
  EXPECT_EQ(verdict({held}), Verdict::pass);
  EXPECT_EQ(verdict({held, left}), Verdict::pass);
  EXPECT_EQ(verdict({held, differs, left}), Verdict::differs);
  EXPECT_EQ(verdict({differs, failed, held}), Verdict::fail);
  EXPECT_EQ(verdict({left}), Verdict::skipped);
  EXPECT_EQ(verdicts({left}).claims().at(0).reason, "no such format");
  EXPECT_EQ(verdicts({held, failed}).status(), "fail");
  const Claim unnamed = exactly("published-elsewhere", "Five.", "A paper", 1, 1, "published"),
              ours = exactly("our-own", "Six.", "derived: x", 1, 1, "oracle");
  const Report further = verdicts({unnamed, ours});
  ASSERT_EQ(further.claims().size(), 1u);
  EXPECT_EQ(further.claims().at(0).id, "further-position-ids");
}

}  // namespace
