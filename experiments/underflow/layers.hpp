// The gradients of a whole training, tensor by tensor: what `underflow` reads from a folder.
#pragma once

#include <halfulp/experiments/data/saved_gradients.hpp>
#include <halfulp/experiments/underflow/underflow_claims.hpp>

#include <memory>
#include <string>
#include <vector>

namespace halfulp {

/// A tensor of a folder, and what its values divided by its loss scale are. Filled as sources are read.
struct Layer {
  SavedGradient tensor;
  InputSummary summary = {};
};

class GradientLayers {
 public:
  /// Throws std::invalid_argument in one line: all that read_gradients refuses, and a tensor without elements.
  explicit GradientLayers(const std::string& folder);

  /// One source a kind of gradient, all tensors of the kind one after another, in fp64: dividing a float32 by a power of two is
  /// exact there, by another scale it rounds once. Precondition of report(): they were read to their ends.
  std::vector<GradientSource> sources() const;
  /// The table `layers`.
  void report(Run& run) const;
  /// All tensors of that kind together.
  InputSummary together(GradientKind kind) const;
  FolderShares shares() const;

 private:
  bool holds(GradientKind kind) const;
  /// "network mlp, policy fp16, seed 1"
  std::string about() const;

  GradientFolder found_;
  std::shared_ptr<std::vector<Layer>> layers_;
};

}  // namespace halfulp
