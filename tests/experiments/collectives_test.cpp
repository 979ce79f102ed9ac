// The experiment "collectives": algorithms against messages passed from rank to rank, and its odd configurations.
#include <halfulp/emulation/operation.hpp>
#include <halfulp/experiments/collectives/collectives.hpp>
#include <halfulp/data/distributions.hpp>
#include <halfulp/report/runner.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <gtest/gtest.h>

#include <deque>

namespace halfulp {
namespace collectives_test {

using namespace collectives;
using Codes = std::vector<std::uint64_t>;

Codes numbers(const FloatFormat& f, std::uint32_t ranks, std::uint64_t stream) {
  Codes x;
  for (std::uint32_t r = 0; r < ranks; ++r) x.push_back(encode(f, {}, normal_sample(7, stream, r)).code);
  return x;
}
std::uint64_t plus(const FloatFormat& f, std::uint64_t a, std::uint64_t b) {
  return evaluate(Operation::add, f, {}, a, b).code;
}
std::uint64_t reduce(Algorithm a, const FloatFormat& f, const Codes& of_rank, std::uint32_t chunk,
                     std::size_t node = 8) {
  Codes in_order;
  for (const std::uint32_t r : order_of(a, static_cast<std::uint32_t>(of_rank.size()), chunk))
    in_order.push_back(of_rank[r]);
  return Collective(a, f, node, 0, nullptr)(in_order).code;
}

TEST(Ring, IsAReduceScatterStepByStep) {
  // Buffers of N chunks, one number each. In step t every rank sends chunk r - t - 1 to the next rank, which adds it to
  // its own.
  for (const std::uint32_t n : {2u, 3u, 8u, 13u}) {
    std::vector<Codes> buffer;  // [rank][chunk]
    for (std::uint32_t r = 0; r < n; ++r) buffer.push_back(numbers(bf16, n, r));
    const std::vector<Codes> start = buffer;
    for (std::uint32_t t = 0; t + 1 < n; ++t) {
      const std::vector<Codes> sent = buffer;
      for (std::uint32_t r = 0; r < n; ++r) {
        const std::uint32_t chunk = (r + 2 * n - t - 1) % n, next = (r + 1) % n;
        buffer[next][chunk] = plus(bf16, sent[r][chunk], start[next][chunk]);
      }
    }
    for (std::uint32_t c = 0; c < n; ++c) {
      Codes of_rank;
      for (std::uint32_t r = 0; r < n; ++r) of_rank.push_back(start[r][c]);
      EXPECT_EQ(reduce(Algorithm::ring, bf16, of_rank, c), buffer[c][c]) << n << " ranks, chunk " << c;
    }
  }
}

TEST(Tree, AddsNeighboursLevelByLevel) {
  for (const std::uint32_t n : {2u, 8u, 64u}) {
    const Codes x = numbers(fp16, n, 3);
    std::deque<std::uint64_t> level(x.begin(), x.end());
    while (level.size() > 1) {  // a queue: neighbours of this level leave in front, their sums join behind
      for (std::size_t pairs = level.size() / 2; pairs > 0; --pairs) {
        const std::uint64_t a = level[0], b = level[1];
        level.erase(level.begin(), level.begin() + 2);
        level.push_back(plus(fp16, a, b));
      }
    }
    for (const std::uint32_t chunk : {0u, n - 1}) EXPECT_EQ(reduce(Algorithm::tree, fp16, x, chunk), level[0]);
  }
}

TEST(NodeTree, ChainsInsideNodes) {
  const Codes x = numbers(bf16, 8, 5);
  Codes node;
  for (std::size_t k = 0; k < 4; ++k) node.push_back(plus(bf16, x[2 * k], x[2 * k + 1]));
  EXPECT_EQ(reduce(Algorithm::node_tree, bf16, x, 0, 2),
            plus(bf16, plus(bf16, node[0], node[1]), plus(bf16, node[2], node[3])));
  std::uint64_t chain = x[0];
  for (std::size_t r = 1; r < 8; ++r) chain = plus(bf16, chain, x[r]);
  EXPECT_EQ(reduce(Algorithm::node_tree, bf16, x, 0, 8), chain);
}

/// Ranks that only do what the messages say come to the bits of the collective.
TEST(Messages, GiveTheSum) {
  for (const Algorithm a : {Algorithm::ring, Algorithm::tree, Algorithm::node_tree, Algorithm::one_shot})
    for (const std::uint32_t ranks : {2u, 3u, 7u, 8u, 16u, 21u}) {
      const std::size_t node = 4;
      Arithmetic in(bf16, {});
      std::vector<std::uint64_t> held, met;
      for (std::uint32_t r = 0; r < ranks; ++r) held.push_back(in.encode(1 / (3.0 + r)));
      for (const std::uint32_t r : order_of(a, ranks, 0)) met.push_back(held[r]);
      const std::vector<Message> messages = messages_of(a, ranks, node);
      ASSERT_EQ(messages.size(), ranks - 1) << "each rank's number goes in once";
      std::uint32_t round = 0;
      for (const Message& m : messages) {
        EXPECT_GE(m.round, round);
        round = m.round;
        held[m.to] = in.add(held[m.to], held[m.from]);
      }
      EXPECT_EQ(held[messages.back().to], Collective(a, bf16, node, 1, nullptr)(met).code)
          << name_of(a) << ' ' << ranks;
    }
}

TEST(OneShot, Fp32RoundsOnceAndExactRoundsOnce) {
  for (std::uint64_t stream = 0; stream < 200; ++stream) {
    const Codes x = numbers(bf16, 24, stream);
    float sum = 0;
    double exact = 0;  // 24 numbers of 8 bits within 40 binades: whole in a double
    for (const std::uint64_t code : x) sum += static_cast<float>(bf16.value(code)), exact += bf16.value(code);
    EXPECT_EQ(reduce(Algorithm::one_shot_fp32, bf16, x, 0), encode(bf16, {}, sum).code);
    EXPECT_EQ(reduce(Algorithm::exact, bf16, x, 11), encode(bf16, {}, exact).code);
  }
}

TEST(OneShot, RotatedBeginsWithTheRankItself) {
  EXPECT_EQ(order_of(Algorithm::one_shot, 4, 2), (std::vector<std::uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(order_of(Algorithm::one_shot_rotated, 4, 2), (std::vector<std::uint32_t>{2, 3, 0, 1}));
  EXPECT_EQ(order_of(Algorithm::ring, 4, 3), (std::vector<std::uint32_t>{0, 1, 2, 3}));
}

TEST(Overflow, IsSeenOnTheWay) {
  const std::uint64_t big = encode(fp16, {}, 60000).code, minus = encode(fp16, {}, -60000).code;
  EXPECT_TRUE(Collective(Algorithm::ring, fp16, 8, 0, nullptr)(Codes{big, big, minus, minus}).overflowed);
  EXPECT_FALSE(Collective(Algorithm::ring_fp32, fp16, 8, 0, nullptr)(Codes{big, big, minus, minus}).overflowed);
  EXPECT_TRUE(Collective(Algorithm::exact, e2m1, 8, 0, nullptr)(Codes{7, 7}).overflowed);  // 6 + 6
}

Json run(std::vector<std::string> assignments) {
  const Experiment& experiment = find_experiment("collectives");
  Config config(experiment.parameters());
  for (const std::string& a : assignments) config.set(a);
  Report report("collectives", "test", config);
  Trace trace;
  Run r{report, trace, [](double) {}};
  experiment.run(config, r);
  for (const Claim& c : report.claims())
    EXPECT_NE(c.verdict, Verdict::fail) << c.id << " " << c.measured << " " << c.expected;
  return report.to_json();
}

TEST(Averages, DivisionBeforeTheSumVanishesAndAfterItOverflows) {
  const Json report = run({"formats=fp16", "ranks=1024", "batch_scales=-20,9", "elements=16", "algorithms=ring"});
  std::map<std::string, Json> rows;
  for (const Json& row : report["results"]["batch"]["rows"]) rows[row[1].dump() + row[3].get<std::string>()] = row;
  EXPECT_EQ(rows["-20before"][6], 1.0);  // 2^-30 and below: nothing is left
  EXPECT_LT(rows["-20after"][6], 0.2);
  EXPECT_GT(rows["9after"][7], 0.3);  // 2^19
  EXPECT_EQ(rows["9before"][7], 0.0);
  EXPECT_EQ(rows["9split"][7], 0.0);
}

std::map<std::string, std::size_t> columns_of(const Json& table) {
  std::map<std::string, std::size_t> columns;
  for (const Json& column : table["columns"]) columns.emplace(column["name"], columns.size());
  return columns;
}

TEST(Errors, LargestIsNoLessThanTheRootMeanSquare) {
  const Json report = run({"formats=bf16,e4m3", "ranks=2,16,64", "elements=8", "permutations=2"});
  auto at = columns_of(report["results"]["errors"]);
  for (const Json& row : report["results"]["errors"]["rows"])
    if (!row[at["rms_error"]].is_null()) {
      EXPECT_GE(row[at["largest_error"]].get<double>(), row[at["rms_error"]].get<double>() * (1 - 1e-12)) << row;
    }
}

TEST(Growth, IsWhatTheClaimsMeasure) {
  const Json report = run({"formats=bf16", "algorithms=ring", "elements=16", "permutations=2"});
  auto at = columns_of(report["results"]["growth"]);
  for (const auto& [id, signal, last] : {std::tuple("bf16-ring-grows-as-sqrt-n", 0.0, 4096),
                                         std::tuple("bf16-ring-with-signal-grows-as-sqrt-n", 1.0, 128)}) {
    Json measured, shown, ranks;
    for (const Json& claim : report["claims"])
      if (claim["id"] == id) measured = claim["measured"];
    for (const Json& row : report["results"]["growth"]["rows"])
      if (row[at["signal"]] == signal) shown = row[at["exponent"]], ranks = row[at["last_ranks"]];
    EXPECT_EQ(measured, shown) << id;
    EXPECT_EQ(ranks, last) << id;  // 2^-7 sqrt(N) <= 1 up to 2^14; 2^-7 sqrt(N^2 + N) <= sqrt(2) up to 180
  }
}

TEST(Orders, RanksDisagreeOnlyWhereEachBeginsWithItsOwn) {
  const Json report = run({"formats=bf16", "algorithms=ring,tree,one-shot,one-shot-rotated,one-shot-fp32", "ranks=2",
                           "elements=16", "permutations=4"});
  auto at = columns_of(report["results"]["orders"]);
  for (const Json& row : report["results"]["orders"]["rows"]) {
    EXPECT_EQ(row[at["ranks_disagree"]] > 0, row[0] == "one-shot-rotated") << row;
    EXPECT_LT(row[at["largest_spread"]], 64)
        << row;  // 32 roundings of at most half an ulp of a few times the typical sum
  }
}

TEST(Collectives, OddConfigurations) {
  const std::vector<std::string> small{"elements=4", "permutations=2", "order_ranks=3"};
  for (const char* formats :
       {"e2m1", "e3m2,e2m3", "e4m3fnuz", "p3109k8p3", "fp32", "tf32", "e5m0finite", "e2m2", "e8m1", "e4m3b11fnuz"})
    for (const char* ranks : {"2", "3,5", "4,7,64"}) {
      auto set = small;
      set.push_back("formats=" + std::string(formats)), set.push_back("ranks=" + std::string(ranks));
      set.push_back(
          "algorithms=ring,ring-fp32,ring-stochastic,tree,node-tree,one-shot,one-shot-rotated,one-shot-fp32,exact");
      run(set);
      set.push_back("log2_scale=40"), set.push_back("signals=1000"), set.push_back("batch_scales=-40,40");
      run(set);
      set.push_back("log2_scale=-40"), set.push_back("node=1"), run(set);
    }
  for (const char* bad :
       {"formats=e8m0", "formats=fp64", "formats=e9m2", "ranks=1", "elements=1", "input=/nowhere.npy", "signals=-1"})
    EXPECT_THROW(run({bad}), std::invalid_argument) << bad;
  EXPECT_THROW(run({"elements=4096"}), std::invalid_argument);  // too much work
}

}  // namespace collectives_test
}  // namespace halfulp
