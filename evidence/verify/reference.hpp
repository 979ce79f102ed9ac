// What array functions are held against. Each reference says how independent it is of them.
#pragma once

#include <halfulp/cuda/gpu.hpp>
#include <halfulp/cuda/triples.hpp>
#include <halfulp/evidence/comparison.hpp>
#include <halfulp/evidence/verify/subject.hpp>
#include <halfulp/hardware/backend.hpp>
#include <halfulp/hardware/inputs.hpp>

#include <functional>
#include <memory>

namespace halfulp::verify {

/// A reference made ready for one task. Threads share it.
class Judge {
 public:
  virtual ~Judge() = default;
  /// Whether it knows the IEEE flags.
  virtual bool knows_flags() const { return false; }
  /// codes[i] = the right result of operands[i], NaN made canonical; flags likewise where it knows them, else the span
  /// is empty.
  virtual void run(const Operands& operands, std::span<std::uint64_t> codes, std::span<Flags> flags) const = 0;

  /// Whether it computes whole chunks with both sides itself: on a device, where a copy of halfulp's arithmetic runs
  /// beside the instruction.
  virtual bool makes_chunks() const { return false; }
  /// Such a chunk, with the digest of halfulp's results. Several threads may ask at once.
  virtual Chunk chunk(std::uint64_t index, const std::function<void(std::uint64_t)>& advanced) const;
};

class Reference {
 public:
  virtual ~Reference() = default;
  virtual std::string_view name() const = 0;          ///< as on the command line
  virtual std::string_view independence() const = 0;  ///< "oracle", "silicon", "third-party"
  virtual Support available() const = 0;
  virtual Support supports(const Task& task) const = 0;
  /// Precondition: supports(task).yes.
  virtual std::unique_ptr<Judge> prepare(const Task& task, const Inputs& inputs) const = 0;
  /// What is held against it.
  virtual std::string subject(const Task& task) const { return Subject(task).description(); }
  /// Whether it takes all inputs of a task where they are more than most_inputs.
  virtual bool takes_beyond(const Task&) const { return false; }
  /// Where to ask which NaN the reference itself gives; nullptr if its NaN is the canonical one.
  virtual const Backend* nan_backend(const Task& task) const = 0;
};

const Reference& oracle_reference();
const Reference& x86_reference();
const Reference& third_party_reference();

/// Every reference, available or not.
std::span<const Reference* const> references();
/// The reference of that name, "rehearsal" included, which is not among them. Throws std::invalid_argument naming the
/// nearest ones.
const Reference& find_reference(std::string_view name);

/// A backend as a judge, its NaN results made canonical.
std::unique_ptr<Judge> judge_of(const Backend& backend, const Task& task);

/// The host code of the CUDA headers as a backend: float to fp16, bf16, e4m3, e5m2.
const Backend& cuda_headers();

// GPUs as references of verify: halfulp's arithmetic and the device's instruction side by side on the device.

/// "cuda" and "rehearsal".
const Reference& cuda_reference();
const Reference& rehearsal_reference();

/// The judge of all 2^48 triples of a 16-bit fma to nearest, `pairs` pairs of magnitudes a chunk. The device has to
/// outlive it.
std::unique_ptr<Judge> make_triples_judge(const cuda::Gpu& gpu, const Task& task,
                                          std::uint64_t pairs = pairs_per_chunk);

/// A device, which has to outlive the reference, with the backend on it.
std::unique_ptr<Reference> make_reference(const cuda::Gpu& gpu, const Backend& backend);

}  // namespace halfulp::verify
