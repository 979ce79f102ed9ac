#include <halfulp/evidence/verify/reference.hpp>

#include <halfulp/cuda/gpu_device.hpp>
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

/// Lanes that threads take for a while. A waiting thread does not wait long: a chunk takes a fraction of a second.
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

/// This finds a kernel that was cut short or ran twice.
void expect_same(const char* what, std::uint64_t device, std::uint64_t host) {
  if (device != host)
    throw DeviceFailure(std::string("the device counted ") + std::to_string(device) + " cases as " + what +
                        ", the host " + std::to_string(host));
}

/// All code words, or a sample, of an operation that device code has.
class SweepReference final : public Reference {
 public:
  SweepReference(const Gpu& gpu, std::size_t row, Task task, const OperandSet& operands)
      : gpu_(gpu),
        row_(row),
        task_(std::move(task)),
        operands_(operands),
        bytes_(static_cast<std::size_t>(std::get<FloatFormat>(task_.to).storage_bytes())) {}

  bool makes_chunks() const override { return true; }
  void run(const Operands&, std::span<std::uint64_t>, std::span<Flags>) const override {
    throw std::logic_error("verify: a GPU's reference makes chunks");
  }

  Chunk chunk(std::uint64_t index, const Advanced& advanced) const override {
    const std::uint64_t begin = index * chunk_size, count = std::min(chunk_size, operands_.count - begin);
    const Lanes::Taken taken(lanes_);
    auto& kept = rooms_[taken.index()];
    if (!kept) kept.emplace(gpu_, std::min(chunk_size, operands_.count), columns(), bytes_);
    Room& room = *kept;
    cuda::SweepArgs args;
    args.begin = begin, args.count = count;
    args.ours = room.ours.data(), args.theirs = room.theirs.data(), args.counts = room.counts.data();
    if (columns() > 0) give_operands(taken.lane(), room, args);
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
    const cuda::Counts& counts = *room.read.data();
    if (counts.differing == 0) chunk.found.compared = count;
    else look_at_differences(taken.lane(), room, begin, count, chunk.found);
    expect_same("computed", counts.done, count);
    expect_same("differing", counts.differing, chunk.found.differing);
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

  /// Of operands that the host makes; the device counts through all of them itself.
  int columns() const { return operands_.kind == Inputs::all ? 0 : operands_.arity; }

  void give_operands(Lane lane, Room& room, cuda::SweepArgs& args) const {
    const auto column = [&](std::size_t k) {
      return std::span(room.given[k].data(), room.given[k].size() == 0 ? 0 : args.count);
    };
    operands_.fill(args.begin, column(0), column(1), column(2));
    for (std::size_t k = 0; k < 3; ++k)
      if (!column(k).empty()) gpu_.upload(lane, room.operands[k].data(), room.given[k].data(), column(k).size_bytes());
    args.a = room.operands[0].data(), args.b = room.operands[1].data(), args.c = room.operands[2].data();
  }

  void look_at_differences(Lane lane, Room& room, std::uint64_t begin, std::size_t count, Comparison& found) const {
    const HostMemory<std::uint8_t> theirs(gpu_, count * bytes_);
    gpu_.download(lane, theirs.data(), room.theirs.data(), count * bytes_);
    gpu_.wait(lane, "download");
    std::vector<std::uint64_t> codes(count);
    for (std::size_t i = 0; i < count; ++i) std::memcpy(&codes[i], theirs.data() + i * bytes_, bytes_);
    compare_block(std::as_bytes(std::span(room.results.data(), count * bytes_)), codes, {}, found,
                  [&](std::size_t i, std::uint64_t mine, std::uint64_t other) {
                    Mismatch w;
                    w.arity = operands_.arity;
                    const std::span operand(w.operands);
                    operands_.fill(begin + i, operand.subspan(0, 1), operand.subspan(1, operands_.arity > 1),
                                   operand.subspan(2, operands_.arity > 2));
                    w.emulated = mine, w.device = other;
                    found.note(task_, w);
                  });
  }

  const Gpu& gpu_;
  std::size_t row_;
  Task task_;
  OperandSet operands_;
  std::size_t bytes_;
  mutable Lanes lanes_;
  mutable std::array<std::optional<Room>, cuda::lanes> rooms_;
};

/// All 2^48 triples of a 16-bit fma.
class TriplesReference final : public Reference {
 public:
  TriplesReference(const Gpu& gpu, Task task, std::uint64_t pairs) : gpu_(gpu), task_(std::move(task)), pairs_(pairs) {}
  bool makes_chunks() const override { return true; }
  void run(const Operands&, std::span<std::uint64_t>, std::span<Flags>) const override {
    throw std::logic_error("verify: a GPU's reference makes chunks");
  }

  Chunk chunk(std::uint64_t index, const Advanced& advanced) const override {
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
    chunk.found.compared = triples_of(begin, count);
    note(room, chunk.found);
    if (advanced) advanced(chunk.found.compared);
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
  void note(const Room& room, Comparison& found) const {
    const std::uint64_t differing = room.read.data()->differing, kept = std::min<std::uint64_t>(differing, max_triples);
    std::vector<Mismatch> mismatches;
    for (std::uint64_t i = 0; i < kept; ++i) {
      const TripleWitness& seen = room.seen.data()[i];
      Mismatch w;
      w.arity = 3;
      w.operands = {seen.a, seen.b, seen.c};
      w.emulated = seen.ours, w.device = seen.theirs;
      mismatches.push_back(w);
    }
    std::sort(mismatches.begin(), mismatches.end(),
              [](const Mismatch& x, const Mismatch& y) { return x.operands < y.operands; });
    for (const Mismatch& w : mismatches) found.note(task_, w);
    if (differing > kept) found.differing = differing, found.classes["not kept"] = differing - kept;
  }

  const Gpu& gpu_;
  Task task_;
  std::uint64_t pairs_;
  mutable Lanes lanes_;
  mutable std::array<std::optional<Room>, cuda::lanes> rooms_;
};

}  // namespace

bool sweeps(const Task& task, int sm) {
  const cuda::RowOrReason found = cuda::find_row(task, sm);
  return found.reason.empty() && cuda::sweeps(cuda::instructions()[found.row]);
}

std::unique_ptr<Reference> make_gpu_reference(const Gpu& gpu, const Task& task, const OperandSet& operands) {
  if (operands.all_triples()) return make_triples_reference(gpu, task);
  return std::make_unique<SweepReference>(gpu, cuda::find_row(task, gpu.properties().sm).row, task, operands);
}

std::unique_ptr<Reference> make_triples_reference(const Gpu& gpu, const Task& task, std::uint64_t pairs) {
  return std::make_unique<TriplesReference>(gpu, task, pairs);
}

}  // namespace halfulp::verify
