// Collectives as sums over ranks: which order, and what is rounded where.
#pragma once

#include <halfulp/data/statistics.hpp>
#include <halfulp/emulation/dot.hpp>
#include <halfulp/experiments/sum_bounds.hpp>
#include <halfulp/report/trials.hpp>
#include <halfulp/report/trace.hpp>

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace halfulp::collectives {

/// How N ranks add their numbers. A rank holds numbers of the gradients' format; so does the result. An all-reduce is
/// its reduce-scatter and a broadcast of the results, which rounds nothing: every rank gets the same bits. With one
/// shot every rank gets all numbers and adds for itself: the same bits again if all add in the order of ranks, as
/// custom kernels take care to do; not if each begins with its own.
enum class Algorithm : std::uint8_t {
  ring,              ///< the sum travels from rank to rank, each adds its number and rounds to the format
  ring_fp32,         ///< the same with FP32 on the wire; the result is rounded to the format ("reduce in FP32")
  ring_stochastic,   ///< ring, rounded stochastically
  tree,              ///< a binary tree: halves of the ranks, halves of those; each edge rounds to the format
  node_tree,         ///< a chain through the ranks of each node, a binary tree over the nodes
  one_shot,          ///< every rank gets all numbers and adds them in the order of ranks, in the format
  one_shot_rotated,  ///< the same, but each rank begins with its own number and goes around
  one_shot_fp32,     ///< as one_shot, in FP32, rounded once to the format
  exact,             ///< as one_shot, exactly, rounded once: the same in any order
};

struct AlgorithmInfo {
  Algorithm algorithm;
  std::string_view name;
};
inline constexpr std::array<AlgorithmInfo, 9> algorithms{{{Algorithm::ring, "ring"},
                                                          {Algorithm::ring_fp32, "ring-fp32"},
                                                          {Algorithm::ring_stochastic, "ring-stochastic"},
                                                          {Algorithm::tree, "tree"},
                                                          {Algorithm::node_tree, "node-tree"},
                                                          {Algorithm::one_shot, "one-shot"},
                                                          {Algorithm::one_shot_rotated, "one-shot-rotated"},
                                                          {Algorithm::one_shot_fp32, "one-shot-fp32"},
                                                          {Algorithm::exact, "exact"}}};
constexpr std::string_view name_of(Algorithm a) { return algorithms[static_cast<std::size_t>(a)].name; }
/// The names, in order.
std::vector<std::string> algorithm_names();
/// Precondition: the name is one of them.
Algorithm algorithm_named(std::string_view name);

/// The sum as a DotModel on numbers of `format`. Precondition: not Algorithm::exact.
DotModel model_of(Algorithm a, const FloatFormat& format, std::size_t node, std::uint64_t seed);

/// The order in which numbers meet, the first first, for a chunk of the buffer or a rank that adds by itself. In a ring
/// the sum of chunk c sets out at rank c + 1 and ends at its owner, rank c; with one-shot-rotated rank r begins with
/// its own number and goes around; in trees and where all add in the order of ranks every chunk meets alike.
std::vector<std::uint32_t> order_of(Algorithm a, std::uint32_t ranks, std::uint32_t chunk);
/// Whether that order depends on the chunk (or rank).
constexpr bool depends_on_chunk(Algorithm a) {
  return a == Algorithm::ring || a == Algorithm::ring_fp32 || a == Algorithm::ring_stochastic ||
         a == Algorithm::one_shot_rotated;
}
/// Whether ranks add for themselves in orders of their own, so that they may disagree.
constexpr bool ranks_may_disagree(Algorithm a) { return a == Algorithm::one_shot_rotated; }

/// A sum sent from one rank to another, which adds its own to it.
struct Message {
  std::uint32_t round, from, to;
};
/// The messages of a collective by which one rank gets the sum (in a ring, that of chunk 0), round by round: what
/// `from` holds goes to `to`, which holds the sum of both afterwards. Those of a round do not wait for each other; the
/// last one completes the sum.
std::vector<Message> messages_of(Algorithm a, std::uint32_t ranks, std::size_t node);

/// One collective on one number a rank.
class Collective {
 public:
  Collective(Algorithm a, const FloatFormat& format, std::size_t node, std::uint64_t seed, Trace* trace);
  /// Numbers in the order in which they meet. `stream` tells apart the random bits of different sums.
  struct Sum {
    std::uint64_t code = 0;
    bool overflowed = false;  ///< an operation raised the flag
  };
  Sum operator()(std::span<const std::uint64_t> numbers, std::uint64_t stream = 0);
  const DotModel& model() const { return model_; }

 private:
  Algorithm algorithm_;
  FloatFormat format_;
  DotModel model_;
  Flags raised_ = 0;
  DotEngine<Arithmetic> engine_;
};

// The pieces of the experiment "collectives".

struct CollectiveSettings {
  std::vector<FormatChoice> formats;
  std::vector<Algorithm> algorithms;
  std::vector<std::uint32_t> ranks;  ///< ascending
  std::vector<double> signals;
  std::vector<std::int64_t> batch_scales;
  std::vector<double> gradient;  ///< G: one number an element
  double noise = 1;              ///< of one rank: its root mean square
  std::size_t elements = 0, node = 8, permutations = 16;
  std::uint32_t order_ranks = 64;
  std::uint64_t seed = 0;
};

/// All settings, for trials.
Json trial_item(const CollectiveSettings& settings);

/// What rank r has of element i: signal * G_i + noise * N(0, 1). It depends only on (seed, r, i).
double rank_gradient(const CollectiveSettings& s, double signal, std::uint32_t rank, std::size_t element);

/// Tables `errors` and `growth`, and the claims on them.
void reduction_errors(const CollectiveSettings& s, Run& run);

/// Table `batch`: averages over ranks by where the division stands, and what overflow and underflow make of them.
void averages(const CollectiveSettings& s, Run& run);

/// Table `orders`: how many results the orders of ranks have.
void rank_orders(const CollectiveSettings& s, Run& run);

/// Table `messages`: which ranks send to which.
void report_messages(const CollectiveSettings& s, Run& run);

/// Claims on sums whose every term is known, whatever the configuration.
void known_reductions(const CollectiveSettings& s, Run& run);

}  // namespace halfulp::collectives
