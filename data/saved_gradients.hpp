// Gradients of a training as a folder of .npy files: written step by step, and read again, by the experiments or by
// NumPy.
//
//   gradients.json             {"version": 1, "about": {...}, "tensors": [{"name", "kind", "step", "scale", "shape"},
//   ...]} step-000100/NAME.npy       float32 in C order
//
// Files hold what backward produced, and `scale` the loss scale that it carries: the gradient is the quotient. Both can
// be studied so, what a format lost under that scale and what it would lose without.
#pragma once

#include <halfulp/formats/format.hpp>
#include <halfulp/support/json.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp {

/// What a gradient is of. The names are those of training::Role.
enum class GradientKind : std::uint8_t { of_weight, of_activation, unknown };
inline constexpr std::array<std::string_view, 3> gradient_kind_names{"gradient-of-weight", "gradient-of-activation",
                                                                     "unknown"};
constexpr std::string_view name_of(GradientKind kind) { return gradient_kind_names[static_cast<std::size_t>(kind)]; }

/// One file of such a folder. Of a user's own files, which no gradients.json lists, kind and step are unknown and the
/// scale is 1.
struct SavedGradient {
  std::string name;  ///< as the trainer has it ("fc1.weight.gradient"): the file's name without .npy
  GradientKind kind = GradientKind::unknown;
  std::optional<std::uint64_t> step = {};
  double scale = 1;
  std::vector<std::uint64_t> shape = {};
  FloatFormat format = {};  ///< of the file; unknown until it was opened
  std::string path = {};
};

struct GradientFolder {
  bool listed = false;          ///< by a gradients.json
  Json about = Json::object();  ///< network, policy, seed, as they were handed to the writer
  std::vector<SavedGradient> gradients = {};
};

/// What a folder holds, in the order of its gradients.json; without one every *.npy in it, sorted by name. Every file
/// is opened and its header read. Throws std::invalid_argument in one line: no folder, no .npy, a listing that is
/// malformed, names a file that is not there or another shape than the file's.
GradientFolder read_gradients(const std::string& folder);

/// Writes such a folder. gradients.json is rewritten after each step and lists only complete steps, so that they can be
/// read even if the training was interrupted.
class SavedGradients {
 public:
  /// The folder is made where it is not there; its parent must be. `about` is an object with what the training is:
  /// network, policy, seed. What an earlier run left there from `first_step` on is removed; its earlier steps stay (a
  /// training that goes on from a checkpoint). Throws std::invalid_argument in one line, for a folder that holds
  /// anything else or another training's gradients
  /// (`about` differs), too.
  SavedGradients(std::string folder, Json about, std::uint64_t first_step = 0);

  /// One tensor, row-major, of a step (ascending from call to call). `scale`: the loss scale that the values carry,
  /// finite and not negative. Names are of letters, digits, '.', '_' and '-', each once a step. Throws
  /// std::invalid_argument in one line where it cannot be written.
  void add(std::uint64_t step, std::string_view name, GradientKind kind, double scale,
           std::span<const std::uint64_t> extents, std::span<const float> values);
  /// The gradient of a layer's activation, "fc1.activation-gradient"; a second one of the same layer and step is
  /// "fc1.activation-gradient-2".
  void add_activation(std::uint64_t step, std::string_view layer, double scale, std::span<const std::uint64_t> extents,
                      std::span<const float> values);
  /// After the last step, which is listed by this.
  void finish() { list(); }

 private:
  void list();

  std::string folder_;
  Json about_;
  std::vector<SavedGradient> gradients_;
  std::size_t listed_ = 0;  ///< how many of them gradients.json has
};

}  // namespace halfulp
