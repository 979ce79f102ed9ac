#include <halfulp/cuda/rehearsal.hpp>

#include <halfulp/cuda/gpu_device.hpp>
#include <halfulp/cuda/run_on.hpp>
#include <halfulp/cuda/matrix_rehearsal.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/hardware/operands.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

namespace halfulp::cuda {
namespace {

void store(std::uint8_t* to, std::size_t i, std::uint64_t code, std::size_t bytes) {
  std::memcpy(to + i * bytes, &code, bytes);
}

class Loops final : public Kernels {
 public:
  Loops(Answer answer, std::size_t leaves_out, bool reverses)
      : answer_(std::move(answer)), leaves_out_(leaves_out), reverses_(reverses) {}

  void elementwise(Lane, std::size_t row, const ElementwiseArgs& x) const override {
    const Instruction& instruction = instructions()[row];
    for (std::size_t i = 0; i < x.count; ++i)
      if (written(i)) x.results[i] = answer_(instruction, x.a[i], x.b ? x.b[i] : 0, x.c ? x.c[i] : 0);
  }

  void sweep(Lane, std::size_t row, const SweepArgs& x) const override {
    const Instruction& instruction = instructions()[row];
    Task task = instruction.task();
    task.rounding.nan = NanRule::canonical;
    const auto& to = std::get<FloatFormat>(task.to);
    const std::size_t bytes = to.storage_bits() > 8 ? 2 : 1;
    OperandSet operands;
    operands.from = std::get<FloatFormat>(task.from);
    operands.arity = info(task.operation).arity;
    for (std::size_t i = 0; i < x.count; ++i) {
      std::uint64_t a = 0, b = 0, c = 0;
      if (x.a) a = x.a[i], b = x.b ? x.b[i] : 0, c = x.c ? x.c[i] : 0;
      else
        operands.fill(x.begin + i, std::span(&a, 1), std::span(&b, operands.arity > 1),
                      std::span(&c, operands.arity > 2));
      if (!written(i)) continue;
      const std::uint64_t ours = evaluate(task, a, b, c).code;
      std::uint64_t theirs = answer_(instruction, a, b, c);
      if (to.is_nan(theirs)) theirs = to.canonical_nan();
      store(x.ours, i, ours, bytes);
      store(x.theirs, i, theirs, bytes);
      x.counts->differing += ours != theirs;
      ++x.counts->done;
    }
  }

  void triples(Lane, const FloatFormat& f, const TriplesArgs& x) const override {
    if (f == fp16) triples_of<fp16>(x);
    else triples_of<bf16>(x);
  }

  void narrow(Lane, const NarrowArgs& x) const override {
    for (std::size_t i = 0; i < x.count; ++i) {
      const std::uint32_t in = std::bit_cast<std::uint32_t>(x.in[i]), random = narrow_random(x, i);
      if (!written(i)) continue;
      if (x.bytes == 0)
        static_cast<float*>(x.out)[i] = std::bit_cast<float>(narrow_by_mode<NarrowResult::value>(x.plan, in, random));
      else
        store(static_cast<std::uint8_t*>(x.out), i, narrow_by_mode<NarrowResult::code>(x.plan, in, random),
              static_cast<std::size_t>(x.bytes));
    }
  }

  void widen(Lane, const WidenArgs& x) const override {
    for (std::size_t i = 0; i < x.count; ++i) {
      std::uint32_t code = 0;
      std::memcpy(&code, static_cast<const char*>(x.in) + i * static_cast<std::size_t>(x.bytes),
                  static_cast<std::size_t>(x.bytes));
      if (written(i)) x.out[i] = std::bit_cast<float>(cuda::widen(x.plan, code));
    }
  }

  void sums(Lane, const FloatFormat& f, GpuSumOrder order, const SumsArgs& x) const override {
    std::vector<std::uint64_t> results(x.rows), terms(x.terms, x.terms + x.rows * x.length);
    if (reverses_)
      for (std::size_t row = 0; row < x.rows; ++row)
        std::reverse(terms.data() + row * x.length, terms.data() + (row + 1) * x.length);
    run_sums(CodeOperations(f, answer_), order, {terms.data(), results.data(), x.rows, x.length});
    put(results, x.results);
  }

  void program(Lane, const FloatFormat& f, Program program, const ProgramArgs& x) const override {
    std::array<std::vector<std::uint64_t>, max_outputs> results;
    ProgramArgs args = x;
    for (int k = 0; k < info(program).outputs; ++k) {
      results[k].resize(x.rows * x.length);
      args.outputs[k] = results[k].data();
    }
    run_program(CodeOperations(f, answer_), program, args);
    for (int k = 0; k < info(program).outputs; ++k) put(results[k], x.outputs[k]);
  }
  void matrix(Lane, std::size_t row, const MatrixArgs& x) const override { rehearse_matrix(row, x, leaves_out_); }

 private:
  void put(const std::vector<std::uint64_t>& results, std::uint64_t* to) const {
    for (std::size_t i = 0; i < results.size(); ++i)
      if (written(i)) to[i] = results[i];
  }

  static std::uint32_t narrow_random(const NarrowArgs& x, std::size_t i) {
    return x.plan.mode == RoundingMode::stochastic ? x.random.bits(i) : 0;
  }

  template <FloatFormat f>
  void triples_of(const TriplesArgs& x) const {
    const Instruction& row = instructions()[find_row({Operation::fma, f, f, {}}, newest_sm).row];
    for (std::uint64_t n = x.begin; n < x.begin + x.count; ++n)
      for (std::uint32_t c = 0; c < 1U << 16; ++c, ++x.counts->done)
        x.counts->digest += verify::digest_term(
            n, c,
            verify::check_triple<f>(
                verify::pair_of(n), c,
                [&](std::uint32_t a, std::uint32_t b, std::uint32_t z) {
                  return static_cast<std::uint32_t>(answer_(row, a, b, z));
                },
                [&](std::uint32_t a, std::uint32_t b, std::uint32_t z, std::uint32_t ours, std::uint32_t theirs) {
                  if (x.counts->differing < verify::max_triples)
                    x.witnesses[x.counts->differing] = {a, b, z, ours, theirs};
                  ++x.counts->differing;
                }));
  }

  bool written(std::size_t i) const { return leaves_out_ == 0 || (i + 1) % leaves_out_ != 0; }

  Answer answer_;
  std::size_t leaves_out_;
  bool reverses_;
};

class Rehearsed final : public Gpu {
 public:
  explicit Rehearsed(Rehearsal r)
      : rehearsal_(std::move(r)), kernels_(rehearsal_.answer, rehearsal_.leaves_out, rehearsal_.reverses) {}
  std::string_view name() const override { return "rehearsal"; }
  std::string_view independence() const override { return "emulation"; }
  Support available() const override { return Support::by(properties().description()); }
  GpuProperties properties() const override {
    return {"no GPU, the emulation in its place", rehearsal_.sm, "none", "none"};
  }
  const Kernels& kernels() const override { return kernels_; }

  void* allocate(std::size_t bytes) const override {
    const std::scoped_lock lock(mutex_);
    if (used_ + bytes > rehearsal_.memory)
      throw GpuError("rehearsal: no device memory of " + std::to_string(bytes) + " bytes", false);
    void* memory = std::malloc(bytes);
    used_ += bytes;
    sizes_[memory] = bytes;
    return memory;
  }
  void* allocate_host(std::size_t bytes) const override { return std::malloc(bytes); }
  void release(void* device) const noexcept override {
    const std::scoped_lock lock(mutex_);
    const auto at = sizes_.find(device);
    used_ -= at->second;
    sizes_.erase(at);
    std::free(device);
  }
  void release_host(void* host) const noexcept override { std::free(host); }
  void upload(Lane, void* device, const void* host, std::size_t bytes) const override {
    std::memcpy(device, host, bytes);
  }
  void download(Lane, void* host, const void* device, std::size_t bytes) const override {
    std::memcpy(host, device, bytes);
  }
  void fill(Lane, void* device, unsigned char byte, std::size_t bytes) const override {
    std::memset(device, byte, bytes);
  }
  void launched(std::string_view) const override {}
  void wait(Lane, std::string_view what) const override {
    if (++waits_ == rehearsal_.failing_wait)
      throw GpuError("rehearsal: " + std::string(what) + ": not done after 60 seconds");
  }

 private:
  Rehearsal rehearsal_;
  Loops kernels_;
  mutable std::mutex mutex_;
  mutable std::map<void*, std::size_t> sizes_;
  mutable std::size_t used_ = 0;
  mutable std::atomic<int> waits_{0};
};

}  // namespace

std::uint64_t emulated_answer(const Instruction& instruction, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  return evaluate(instruction.task(), a, b, c).code;
}

std::unique_ptr<Gpu> make_rehearsal(Rehearsal rehearsal) { return std::make_unique<Rehearsed>(std::move(rehearsal)); }

const Gpu& rehearsal_gpu() {
  static const std::unique_ptr<Gpu> gpu = make_rehearsal({});
  return *gpu;
}

}  // namespace halfulp::cuda
