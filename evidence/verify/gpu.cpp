#include <halfulp/evidence/verify/reference.hpp>

#include <halfulp/cuda/backend.hpp>
#include <halfulp/cuda/kernels.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/files.hpp>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <mutex>
#include <optional>

namespace halfulp::verify {
namespace {

using cuda::Gpu;
using cuda::HostMemory;
using cuda::Lane;
using cuda::Memory;

/// Lanes that are taken for a while. The waiting thread holds no other one's work up for long: a chunk is a fraction of
/// a second.
class Lanes {
 public:
  class Taken {
   public:
    explicit Taken(Lanes& all) : all_(all), lane_(all.take()) {}
    ~Taken() { all_.give(lane_); }
    Taken(const Taken&) = delete;
    Taken& operator=(const Taken&) = delete;
    Lane lane() const { return static_cast<Lane>(lane_); }
    std::size_t index() const { return lane_; }

   private:
    Lanes& all_;
    std::size_t lane_;
  };

 private:
  std::size_t take() {
    std::unique_lock lock(mutex_);
    free_again_.wait(lock, [&] { return std::find(busy_.begin(), busy_.end(), false) != busy_.end(); });
    const auto lane = static_cast<std::size_t>(std::find(busy_.begin(), busy_.end(), false) - busy_.begin());
    busy_[lane] = true;
    return lane;
  }
  void give(std::size_t lane) {
    const std::scoped_lock lock(mutex_);
    busy_[lane] = false;
    free_again_.notify_one();
  }

  std::mutex mutex_;
  std::condition_variable free_again_;
  std::array<bool, cuda::lanes> busy_{};
};

/// Reads one case after another from results in their storage width.
std::uint64_t code_at(const std::uint8_t* codes, std::size_t i, std::size_t bytes) {
  std::uint64_t code = 0;
  for (std::size_t k = 0; k < bytes; ++k) code |= std::uint64_t{codes[i * bytes + k]} << 8 * k;
  return code;
}

/// A kernel that was cut short or ran twice would show here.
void expect_same(const char* what, std::uint64_t device, std::uint64_t host) {
  if (device != host)
    throw DeviceFailure(std::string("the device counted ") + std::to_string(device) + " cases as " + what +
                        ", the host " + std::to_string(host));
}

/// All code words, or a sample, of an operation that device code has.
class SweepJudge final : public Judge {
 public:
  SweepJudge(const Gpu& gpu, std::size_t row, Task task, const Inputs& inputs)
      : gpu_(gpu),
        row_(row),
        task_(std::move(task)),
        inputs_(inputs),
        bytes_(static_cast<std::size_t>(std::get<FloatFormat>(task_.to).storage_bytes())) {}

  bool makes_chunks() const override { return true; }
  void run(const Operands&, std::span<std::uint64_t>, std::span<Flags>) const override {
    throw std::logic_error("verify: a device's judge makes chunks");
  }

  Chunk chunk(std::uint64_t index, const std::function<void(std::uint64_t)>& advanced) const override {
    const std::uint64_t begin = index * chunk_size, count = std::min(chunk_size, inputs_.count - begin);
    const Lanes::Taken taken(lanes_);
    auto& kept = rooms_[taken.index()];
    if (!kept) kept.emplace(gpu_, std::min(chunk_size, inputs_.count), inputs_.exhaustive ? 0 : inputs_.arity, bytes_);
    Room& room = *kept;
    cuda::SweepArgs args;
    args.begin = begin, args.count = count;
    args.ours = room.ours.data(), args.theirs = room.theirs.data(), args.counts = room.counts.data();
    if (!inputs_.exhaustive) give_operands(taken.lane(), room, args);
    gpu_.fill(taken.lane(), room.ours.data(), 0xa5, count * bytes_);
    gpu_.fill(taken.lane(), room.theirs.data(), 0x5a, count * bytes_);
    gpu_.fill(taken.lane(), room.counts.data(), 0, room.counts.bytes());
    gpu_.kernels().sweep(taken.lane(), row_, args);
    const auto route = cuda::instructions()[row_].route;
    gpu_.launched(route);
    gpu_.download(taken.lane(), room.results.data(), room.ours.data(), count * bytes_);
    gpu_.download(taken.lane(), room.read.data(), room.counts.data(), room.counts.bytes());
    gpu_.wait(taken.lane(), route);
    Chunk chunk{index, chunk_digest(std::as_bytes(std::span(room.results.data(), count * bytes_))), {}};
    chunk.findings.compared = count;
    const cuda::Counts& counts = *room.read.data();
    if (counts.differing != 0) look_at_differences(taken.lane(), room, begin, count, chunk.findings);
    expect_same("computed", counts.done, count);
    expect_same("differing", counts.differing, chunk.findings.differing);
    if (advanced) advanced(count);
    return chunk;
  }

 private:
  struct Room {
    Room(const Gpu& gpu, std::size_t cases, int columns, std::size_t bytes)
        : ours(gpu, cases * bytes),
          theirs(gpu, cases * bytes),
          counts(gpu, 1),
          results(gpu, cases * bytes),
          read(gpu, 1),
          operands{{{gpu, columns > 0 ? cases : 0}, {gpu, columns > 1 ? cases : 0}, {gpu, columns > 2 ? cases : 0}}},
          given{{{gpu, columns > 0 ? cases : 0}, {gpu, columns > 1 ? cases : 0}, {gpu, columns > 2 ? cases : 0}}} {}
    Memory<std::uint8_t> ours, theirs;
    Memory<cuda::Counts> counts;
    HostMemory<std::uint8_t> results;
    HostMemory<cuda::Counts> read;
    std::array<Memory<std::uint64_t>, 3> operands;
    std::array<HostMemory<std::uint64_t>, 3> given;
  };

  void give_operands(Lane lane, Room& room, cuda::SweepArgs& args) const {
    const auto column = [&](std::size_t k) {
      return std::span(room.given[k].data(), room.given[k].size() == 0 ? 0 : args.count);
    };
    inputs_.fill(args.begin, column(0), column(1), column(2));
    for (std::size_t k = 0; k < 3; ++k)
      if (!column(k).empty()) gpu_.upload(lane, room.operands[k].data(), room.given[k].data(), column(k).size_bytes());
    args.a = room.operands[0].data(), args.b = room.operands[1].data(), args.c = room.operands[2].data();
  }

  void look_at_differences(Lane lane, Room& room, std::uint64_t begin, std::size_t count, Findings& findings) const {
    const HostMemory<std::uint8_t> theirs(gpu_, count * bytes_);
    gpu_.download(lane, theirs.data(), room.theirs.data(), count * bytes_);
    gpu_.wait(lane, "download");
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t mine = code_at(room.results.data(), i, bytes_), other = code_at(theirs.data(), i, bytes_);
      if (mine == other) continue;
      Witness w;
      w.arity = inputs_.arity;
      inputs_.fill(begin + i, std::span(w.operands).subspan(0, 1), std::span(w.operands).subspan(1, inputs_.arity > 1),
                   std::span(w.operands).subspan(2, inputs_.arity > 2));
      w.emulated = mine, w.device = other;
      findings.note(task_, w);
    }
  }

  const Gpu& gpu_;
  std::size_t row_;
  Task task_;
  Inputs inputs_;
  std::size_t bytes_;
  mutable Lanes lanes_;
  mutable std::array<std::optional<Room>, cuda::lanes> rooms_;
};

/// All 2^48 triples of a 16-bit fma.
class TriplesJudge final : public Judge {
 public:
  TriplesJudge(const Gpu& gpu, Task task, std::uint64_t pairs) : gpu_(gpu), task_(std::move(task)), pairs_(pairs) {}
  bool makes_chunks() const override { return true; }
  void run(const Operands&, std::span<std::uint64_t>, std::span<Flags>) const override {
    throw std::logic_error("verify: a device's judge makes chunks");
  }

  Chunk chunk(std::uint64_t index, const std::function<void(std::uint64_t)>& advanced) const override {
    const std::uint64_t begin = index * pairs_, count = std::min(pairs_, all_pairs - begin);
    const Lanes::Taken taken(lanes_);
    auto& kept = rooms_[taken.index()];
    if (!kept) kept.emplace(gpu_);
    Room& room = *kept;
    const cuda::TriplesArgs args{begin, count, room.counts.data(), room.witnesses.data()};
    gpu_.fill(taken.lane(), room.counts.data(), 0, room.counts.bytes());
    gpu_.fill(taken.lane(), room.witnesses.data(), 0, room.witnesses.bytes());
    gpu_.kernels().triples(taken.lane(), std::get<FloatFormat>(task_.from), args);
    gpu_.launched("fma on all triples");
    gpu_.download(taken.lane(), room.read.data(), room.counts.data(), room.counts.bytes());
    gpu_.download(taken.lane(), room.seen.data(), room.witnesses.data(), room.witnesses.bytes());
    gpu_.wait(taken.lane(), "fma on all triples");
    expect_same("computed", room.read.data()->done, count << 16);
    Chunk chunk{index, room.read.data()->digest, {}};
    chunk.findings.compared = triples_of(begin, count);
    note(room, chunk.findings);
    if (advanced) advanced(chunk.findings.compared);
    return chunk;
  }

 private:
  struct Room {
    explicit Room(const Gpu& gpu) : counts(gpu, 1), read(gpu, 1), witnesses(gpu, max_triples), seen(gpu, max_triples) {}
    Memory<cuda::Counts> counts;
    HostMemory<cuda::Counts> read;
    Memory<TripleWitness> witnesses;
    HostMemory<TripleWitness> seen;
  };

  /// The device keeps some of the differences; those that it only counted are of the class "not kept".
  void note(const Room& room, Findings& findings) const {
    const std::uint64_t differing = room.read.data()->differing, kept = std::min<std::uint64_t>(differing, max_triples);
    std::vector<Witness> witnesses;
    for (std::uint64_t i = 0; i < kept; ++i) {
      const TripleWitness& seen = room.seen.data()[i];
      Witness w;
      w.arity = 3;
      w.operands = {seen.a, seen.b, seen.c};
      w.emulated = seen.ours, w.device = seen.theirs;
      witnesses.push_back(w);
    }
    std::sort(witnesses.begin(), witnesses.end(),
              [](const Witness& x, const Witness& y) { return x.operands < y.operands; });
    for (const Witness& w : witnesses) findings.note(task_, w);
    if (differing > kept) findings.differing = differing, findings.classes["not kept"] = differing - kept;
  }

  const Gpu& gpu_;
  Task task_;
  std::uint64_t pairs_;
  mutable Lanes lanes_;
  mutable std::array<std::optional<Room>, cuda::lanes> rooms_;
};

class GpuReference final : public Reference {
 public:
  GpuReference(const Gpu& gpu, const Backend& backend) : gpu_(gpu), backend_(backend) {}
  std::string_view name() const override { return gpu_.name(); }
  std::string_view independence() const override { return gpu_.independence(); }
  Support available() const override { return gpu_.available(); }
  Support supports(const Task& task) const override { return backend_.supports(task); }
  std::string subject(const Task& task) const override {
    return sweeps(task, cuda::newest_sm) ? "halfulp's functions on the device" : Reference::subject(task);
  }
  bool takes_beyond(const Task& task) const override {
    if (independence() != "silicon") return false;  // hours a chunk
    const bool half = task.from == NumberType(fp16) || task.from == NumberType(bf16);
    return task.operation == Operation::fma && half && task.rounding.mode == RoundingMode::nearest_even &&
           !task.rounding.flush_inputs;
  }
  const Backend* nan_backend(const Task&) const override { return &backend_; }

  std::unique_ptr<Judge> prepare(const Task& task, const Inputs& inputs) const override {
    if (inputs.count > most_inputs) return make_triples_judge(gpu_, task);
    const int sm = gpu_.properties().sm;
    if (sweeps(task, sm)) return std::make_unique<SweepJudge>(gpu_, cuda::find_row(task, sm).row, task, inputs);
    return judge_of(backend_, task);
  }

 private:
  static bool sweeps(const Task& task, int sm) {
    const cuda::RowOrReason found = cuda::find_row(task, sm);
    return found.reason.empty() && cuda::sweeps(cuda::instructions()[found.row]);
  }

  const Gpu& gpu_;
  const Backend& backend_;
};

}  // namespace

std::unique_ptr<Judge> make_triples_judge(const Gpu& gpu, const Task& task, std::uint64_t pairs) {
  return std::make_unique<TriplesJudge>(gpu, task, pairs);
}

std::unique_ptr<Reference> make_reference(const Gpu& gpu, const Backend& backend) {
  return std::make_unique<GpuReference>(gpu, backend);
}

const Reference& cuda_reference() {
  static const GpuReference reference(cuda::native_gpu(), cuda_backend());
  return reference;
}

const Reference& rehearsal_reference() {
  static const GpuReference reference(cuda::rehearsal_gpu(), rehearsal_backend());
  return reference;
}

}  // namespace halfulp::verify
