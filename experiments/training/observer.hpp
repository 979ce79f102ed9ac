// Who looks on while a network is trained.
#pragma once

#include <halfulp/emulation/array.hpp>
#include <halfulp/experiments/training/site.hpp>
#include <halfulp/experiments/training/storage.hpp>

#include <span>

namespace halfulp::training {

/// One tensor as it was rounded.
struct Sighting {
  Site site;
  Role role;
  bool operand;                   ///< on its way into a product; else a result
  std::span<const float> values;  ///< after rounding
  const Tally* tally;             ///< what rounding did; null unless counts are wanted
};

class Observer {
 public:
  virtual ~Observer() = default;
  /// Whether this step's roundings are to be counted, which takes time.
  virtual bool counts() const = 0;
  /// What is about to be rounded.
  virtual void before(const Storage&, std::span<const float>) {}
  /// Every tensor, in the order in which it comes into being; its name is not to be kept.
  virtual void see(const Sighting& sighting) = 0;
};

}  // namespace halfulp::training
