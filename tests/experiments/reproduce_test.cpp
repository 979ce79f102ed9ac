// The suite of published results: no claim is lost, and verdicts are those of the experiments.
#include <halfulp/experiments/publications.hpp>
#include <halfulp/report/experiment.hpp>
#include <halfulp/report/runner.hpp>

#include <gtest/gtest.h>

#include <set>

namespace reproduce_test {

using namespace halfulp;

TEST(Publications, HaveNamesOfTheirOwn) {
  std::set<std::string_view> seen;
  for (const Publication* const p : publications::all) {
    EXPECT_TRUE(seen.insert(p->name).second) << p->name;
    EXPECT_FALSE(p->source.empty() || p->set_up.empty()) << p->name;
    EXPECT_LE(p->name.size(), 36u) << p->name;
  }
}

TEST(Publications, AreThoseOfOthers) {
  EXPECT_TRUE(Citation("A paper").is_published());
  EXPECT_FALSE(Citation("derived: from the format").is_published());
  EXPECT_FALSE(Citation("this project: measured before").is_published());
}

/// An experiment's report, as `run all` would have made it before.
Report report_of(const std::string& name) {
  const Experiment& experiment = find_experiment(name);
  return run_experiment(experiment, Config(experiment.parameters()), {});
}

TEST(Reproduce, TellsWhatTheExperimentsClaim) {
  const Report other = report_of("scaling");
  const Experiment& suite = find_experiment("reproduce");
  Config config(suite.parameters());
  config.set("experiments=scaling");
  RunOptions options;
  std::size_t asked = 0;
  const Report made = run_experiment(suite, config, options);
  options.made_before = [&](std::string_view name, const Json& its) -> const Report* {
    ++asked;
    EXPECT_EQ(name, "scaling");
    EXPECT_EQ(its, other.config());
    return &other;
  };
  const Report found = run_experiment(suite, config, options);
  EXPECT_EQ(asked, 1u);
  EXPECT_EQ(found.to_json()["results"], made.to_json()["results"]);  // from a report made before or now
  const Json figures = found.to_json()["results"]["figures"]["rows"];
  std::size_t published = 0;
  for (const Claim& claim : other.claims()) {
    const Publication* const publication = claim.source.publication;
    const bool here = publication || claim.source.is_published();
    published += here;
    const auto row = std::find_if(figures.begin(), figures.end(), [&](const Json& r) { return r[2] == claim.id; });
    ASSERT_EQ(row != figures.end(), here) << claim.id;
    if (!here) continue;
    EXPECT_EQ((*row)[5], claim.expected.is_structured() ? Json(claim.expected.dump()) : claim.expected);
    EXPECT_EQ((*row)[7], claim.measured.is_structured() ? Json(claim.measured.dump()) : claim.measured);
    EXPECT_EQ((*row)[0], publication ? publication->name : std::string_view("Further: scaling"));
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
    for (const Claim& claim : claims) other.claim(claim, claim);
    RunOptions options;
    options.made_before = [&](std::string_view, const Json&) { return &other; };
    return run_experiment(suite, config, options);
  };
  const Citation paper{publications::position_ids, "A paper"};
  const Claim held{{"held", "One.", paper}, exactly(1, 1, "published")},
      failed{{"failed", "Two.", {publications::position_ids, "derived: x"}}, exactly(1, 2, "oracle")};
  const Claim differs{{"differs", "Three.", paper}, within(1, 0, 2, may_differ())},
      left{{"left", "Four.", paper}, skipped("no such format")};
  const auto verdict = [&](const std::vector<Claim>& claims) { return verdicts(claims).claims().at(0).verdict; };
  EXPECT_EQ(verdict({held}), Verdict::pass);
  EXPECT_EQ(verdict({held, left}), Verdict::pass);
  EXPECT_EQ(verdict({held, differs, left}), Verdict::differs);
  EXPECT_EQ(verdict({differs, failed, held}), Verdict::fail);
  EXPECT_EQ(verdict({left}), Verdict::skipped);
  EXPECT_EQ(verdicts({left}).claims().at(0).reason, "no such format");
  EXPECT_EQ(verdicts({held, failed}).status(), "fail");
  const Claim unnamed{{"published-elsewhere", "Five.", "A paper"}, exactly(1, 1, "published")},
      ours{{"our-own", "Six.", "derived: x"}, exactly(1, 1, "oracle")};
  const Report further = verdicts({unnamed, ours});
  ASSERT_EQ(further.claims().size(), 1u);
  EXPECT_EQ(further.claims().at(0).id, "further-position-ids");
}

}  // namespace reproduce_test
