// What `halfulp verify` holds our functions against: devices that are independent of them.
#pragma once

#include <halfulp/cuda/gpu.hpp>
#include <halfulp/cuda/triples.hpp>
#include <halfulp/evidence/comparison.hpp>
#include <halfulp/evidence/recording.hpp>
#include <halfulp/hardware/operands.hpp>

#include <functional>
#include <memory>

namespace halfulp::verify {

/// One run of chunk_size cases (the last may be shorter), or of pairs_per_chunk pairs: the unit of digests and of
/// resuming.
struct Chunk {
  std::uint64_t index = 0, digest = 0;
  Comparison found;
};

/// Called from any thread with the number of cases just done; may throw.
using Advanced = std::function<void(std::uint64_t)>;

/// A device made ready for one task. Threads share it.
class Reference {
 public:
  virtual ~Reference() = default;
  /// Whether it knows the IEEE flags.
  virtual bool knows_flags() const { return false; }
  /// codes[i] = the right result of operands[i], NaN made canonical; flags likewise where it knows them, else the span
  /// is empty.
  virtual void run(const Operands& operands, std::span<std::uint64_t> codes, std::span<Flags> flags) const = 0;
  /// The same results in words of 16 bits, from such words. False, if run() is the only way.
  virtual bool run_words(std::span<const std::uint16_t> a, std::span<const std::uint16_t> b,
                         std::span<const std::uint16_t> c, std::span<std::uint16_t> words) const;

  /// Whether it computes whole chunks with both sides itself: on a GPU, where a copy of halfulp's arithmetic runs
  /// beside the instruction.
  virtual bool makes_chunks() const { return false; }
  /// Such a chunk, with the digest of halfulp's results. Several threads may ask at once.
  virtual Chunk chunk(std::uint64_t index, const Advanced& advanced) const;
};

/// "oracle": exact rationals. "x86": this CPU's instructions, by routes that share none with the array functions.
/// "third-party": the host code of the CUDA headers, float to fp16, bf16, e4m3, e5m2.
const Device& oracle_device();
const Device& independent_x86_device();
const Device& cuda_headers_device();

/// Every device that verify takes, available or not: these and "cuda".
std::span<const Device* const> reference_devices();
/// The one of that name; "rehearsal" as well, and "recorded:NAME", what a device answered earlier. Throws
/// std::invalid_argument naming the nearest ones, or with what is wrong in a recording.
const Device& find_reference_device(std::string_view name);
/// What `recorded:NAME` was asked of a task: the operands of a verification against it. Throws as above.
OperandSet recorded_operands(const Task& task, std::string_view name);
/// Whether a device is a recording: it has no operands but those.
inline bool is_recorded(const Device& device) { return device.name().starts_with(recording::prefix); }

/// Precondition: device.supports(task).yes. The device outlives the reference.
std::unique_ptr<Reference> make_reference(const Device& device, const Task& task, const OperandSet& operands);

/// What the device's reference is held against: "apply (AVX3)", "halfulp's functions on the device".
std::string verified_functions(const Device& device, const Task& task);
/// Whether it takes all cases of a task where they are more than most_operands.
bool takes_all_triples(const Device& device, const Task& task);
/// Whether its NaN is the canonical one: there is nothing to ask about it.
inline bool has_canonical_nans(const Device& device) { return &device == &oracle_device(); }

// GPUs as references (gpu_reference.cpp): our arithmetic and the device's instruction side by side on the device.

/// Whether device code has the task beside our own arithmetic, on an architecture.
bool sweeps(const Task& task, int sm);
/// The reference for such a task.
std::unique_ptr<Reference> make_gpu_reference(const cuda::Gpu& gpu, const Task& task, const OperandSet& operands);
/// The reference for all 2^48 triples of a 16-bit fma to nearest, `pairs` pairs of magnitudes per chunk.
std::unique_ptr<Reference> make_triples_reference(const cuda::Gpu& gpu, const Task& task,
                                                  std::uint64_t pairs = pairs_per_chunk);

}  // namespace halfulp::verify
