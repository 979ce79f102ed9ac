#include <halfulp/experiments/underflow/underflow_claims.hpp>

#include <fmt/format.h>

namespace halfulp {
namespace {

constexpr const char* weights_id = "published-share-below-2-24";
constexpr const char* weights_statement = "About 5 % of the weight gradients of a speech model lie below 2^-24.";
constexpr const char* weights_source = "Micikevicius et al., Mixed Precision Training, ICLR 2018, section 3.1";
constexpr const char* activations_id = "published-activation-gradients";
constexpr const char* activations_statement = "67 % of the activation gradients of a Multibox SSD network are zero.";
constexpr const char* activations_source = "Micikevicius et al., Mixed Precision Training, ICLR 2018, section 3.2";
constexpr double printed = 0.005;  ///< both are whole percents

std::uint64_t below_2_24(const InputSummary& in) {
  std::uint64_t below = 0;
  for (const auto& [binade, n] : in.binades)
    if (binade < -24) below += n;
  return below;
}

/// `part` of `of` gradients, of which the folder holds some or none.
struct Share {
  std::uint64_t part, of;
  std::string what;  ///< the part in words
  std::string none;  ///< why there is nothing to compare, if `of` is 0
};

/// A folder's share beside a published one.
void claim_share(const char* id, const char* statement, const char* source, double expected, const Share& share, const std::string& about, Run& run) {
  if (share.of == 0) return run.report.claim(skipped(id, statement, source, "needs that network's gradients; " + share.none));
  const double measured = static_cast<double>(share.part) / static_cast<double>(share.of);
  Claim claim = within(id, statement, source, expected, printed, measured, "published", Verdict::differs);
  if (claim.verdict == Verdict::differs)
    claim.reason = fmt::format("another network{}: {} of {} {}", about.empty() ? "" : " (" + about + ")", share.part, share.of, share.what);
  run.report.claim(std::move(claim));
}

}  // namespace

void claim_published_shares(const SweepResult* input, Run& run) {
  std::string reason = "needs that network's gradients: synthetic ones have whatever share their parameters say";
  if (input && input->input.finite_nonzero() == 0) reason = "needs that network's gradients; the input file holds no finite non-zero ones";
  else if (input) {
    const double share = static_cast<double>(below_2_24(input->input)) / static_cast<double>(input->input.finite_nonzero());
    reason = fmt::format("needs that network's gradients; in the input file the share is {:.3g} %", 100 * share);
  }
  run.report.claim(skipped(weights_id, weights_statement, weights_source, reason));
  run.report.claim(skipped(activations_id, activations_statement, activations_source, "needs that network's gradients"));
}

void claim_published_shares(const FolderShares& folder, Run& run) {
  const auto none = [&](bool there, const char* nothing_to_count, const char* no_tensor) -> std::string {
    if (!folder.listed) return "the folder has no gradients.json, which says what its gradients are of";
    return there ? nothing_to_count : no_tensor;
  };
  const InputSummary weights = folder.weights.value_or(InputSummary{}), activations = folder.activations.value_or(InputSummary{});
  claim_share(weights_id, weights_statement, weights_source, 0.05,
              {below_2_24(weights), weights.finite_nonzero(), "finite non-zero weight gradients lie below 2^-24",
               none(folder.weights.has_value(), "no weight gradient of the folder is finite and non-zero", "the folder holds no weight gradients")},
              folder.about, run);
  claim_share(activations_id, activations_statement, activations_source, 0.67,
              {activations.zero, activations.zero + activations.finite_nonzero(), "finite activation gradients are zero",
               none(folder.activations.has_value(), "no activation gradient of the folder is finite", "the folder holds no activation gradients")},
              folder.about, run);
}

}  // namespace halfulp
