#include <halfulp/evidence/verify/verify.hpp>

#include <halfulp/emulation/array/array.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/files.hpp>

#include <tbb/enumerable_thread_specific.h>
#include <tbb/parallel_for.h>
#include <tbb/parallel_pipeline.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <utility>

namespace halfulp::verify {
namespace {

/// What a thread takes at a time, and what its buffers hold: the operands and results of a part stay in the
/// second-level cache.
constexpr std::size_t part_size = std::size_t{1} << 16, block_size = 2048;
/// Chunks in work at the same time; each has its results in memory.
constexpr std::size_t chunks_in_flight = 4;

}  // namespace

VerifiedFunctions::VerifiedFunctions(const Task& task) : task_(task) {
  const bool truth = info(task.operation).result == ResultKind::truth;
  bytes_ = truth ? 1 : static_cast<std::size_t>(std::get<FloatFormat>(task.to).storage_bytes());
}

bool VerifiedFunctions::is_array() const { return array_has(task_); }

std::string VerifiedFunctions::description() const { return computed_by(task_); }

void VerifiedFunctions::run(const CodeWords& a, const CodeWords& b, const CodeWords& c,
                            std::span<std::byte> results) const {
  const auto as = [&]<class Code>(Code) {
    compute(task_, a, b, c, std::span<Code>(reinterpret_cast<Code*>(results.data()), a.size()));
  };
  switch (bytes_) {
    case 1: return as(std::uint8_t{});
    case 2: return as(std::uint16_t{});
    case 4: return as(std::uint32_t{});
    default: return as(std::uint64_t{});
  }
}

// The engine.

namespace {

/// One part of a chunk after the other. Its buffers are kept, as freeing them returns their pages each time.
class Parts {
 public:
  Parts(const Task& task, const VerifiedFunctions& subject, const Reference* reference)
      : task_(task), subject_(subject), reference_(reference) {}

  Comparison run(const OperandSet& set, std::uint64_t begin, std::span<std::byte> results) {
    const std::size_t bytes = subject_.result_bytes(), count = results.size() / bytes;
    for (std::size_t done = 0; done < count; done += block_size) {
      const std::size_t size = std::min(block_size, count - done);
      const auto operand = [&](std::vector<std::uint64_t>& codes, int k) {
        return std::span(codes).first(k < set.arity ? size : 0);
      };
      const auto a = operand(a_, 0), b = operand(b_, 1), c = operand(c_, 2);
      const auto out = results.subspan(done * bytes, size * bytes);
      const bool in_words = set.counted() && set.from.storage_bytes() < 8;
      if (in_words && agree_in_words(set, begin + done, size, out)) continue;
      set.fill(begin + done, a, b, c);
      if (!in_words) subject_.run(a, b, c, out);
      compare({a, b, c}, out);
    }
    return std::exchange(found_, {});
  }

 private:
  /// The results, of operands made in words of their own width, which is faster than to narrow 64 bits; and whether
  /// nothing is left to do: there is no reference, or it has given the same words.
  bool agree_in_words(const OperandSet& set, std::uint64_t begin, std::size_t size, std::span<std::byte> out) {
    switch (set.from.storage_bytes()) {
      case 1: return run_words<std::uint8_t>(set, begin, size, out);
      case 2: return run_words<std::uint16_t>(set, begin, size, out);
      default: return run_words<std::uint32_t>(set, begin, size, out);
    }
  }

  template <class Word>
  bool run_words(const OperandSet& set, std::uint64_t begin, std::size_t size, std::span<std::byte> out) {
    std::array<Word, block_size> words[3];
    const auto operand = [&](int k) { return std::span<Word>(words[k]).first(k < set.arity ? size : 0); };
    set.fill_words(begin, operand(0), operand(1), operand(2));
    subject_.run(operand(0), operand(1), operand(2), out);
    if (!reference_) return true;
    if constexpr (std::is_same_v<Word, std::uint16_t>) {
      std::array<Word, block_size> right;
      const auto known = std::span(right).first(size);
      if (reference_->run_words(operand(0), operand(1), operand(2), known) && out.size() == sizeof(Word) * size &&
          std::memcmp(right.data(), out.data(), out.size()) == 0) {
        found_.compared += size;
        return true;
      }
    }
    return false;
  }

  void compare(const Operands& x, std::span<const std::byte> results) {
    if (!reference_) return;
    const auto codes = std::span(right_).first(x.size());
    const auto flags = std::span(flags_).first(reference_->knows_flags() ? x.size() : 0);
    reference_->run(x, codes, flags);
    compare_block(results, codes, {}, found_, [&](std::size_t i, std::uint64_t mine, std::uint64_t right) {
      found_.note(task_, mismatch(x, i, mine, right));
    });
    if (!flags.empty()) compare_scalar(x, results, codes, flags);
  }

  /// The scalar functions, where the array functions were right.
  void compare_scalar(const Operands& x, std::span<const std::byte> results, std::span<const std::uint64_t> codes,
                      std::span<const Flags> flags) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto [a, b, c] = x[i];
      const Rounded mine = evaluate(task_, a, b, c);
      if (mine.code == codes[i] && mine.flags == flags[i]) continue;
      if (std::memcmp(&codes[i], results.data() + i * subject_.result_bytes(), subject_.result_bytes()) != 0) continue;
      Mismatch w = mismatch(x, i, mine.code, codes[i]);
      w.has_flags = true;
      w.emulated_flags = mine.flags;
      w.device_flags = flags[i];
      found_.note(task_, w);
    }
  }

  Mismatch mismatch(const Operands& x, std::size_t i, std::uint64_t mine, std::uint64_t right) const {
    return {x[i], info(task_.operation).arity, mine, right};
  }

  const Task& task_;
  const VerifiedFunctions& subject_;
  const Reference* reference_;
  Comparison found_;
  std::vector<std::uint64_t> a_ = std::vector<std::uint64_t>(block_size), b_ = a_, c_ = a_, right_ = a_;
  std::vector<Flags> flags_ = std::vector<Flags>(block_size);
};

/// Results of chunks in work. Their memory is reused: new pages would cost as much time as the arithmetic.
class Buffers {
 public:
  std::vector<std::byte> take() {
    const std::scoped_lock lock(mutex_);
    if (free_.empty()) return {};
    std::vector<std::byte> buffer = std::move(free_.back());
    free_.pop_back();
    return buffer;
  }
  void give(std::vector<std::byte> buffer) {
    const std::scoped_lock lock(mutex_);
    free_.push_back(std::move(buffer));
  }

 private:
  std::mutex mutex_;
  std::vector<std::vector<std::byte>> free_;
};

Chunk chunk_in(std::vector<std::byte>& results, const Task& task, const OperandSet& operands,
               const Reference* reference, std::uint64_t index, const Advanced& advanced) {
  if (reference && reference->makes_chunks()) return reference->chunk(index, advanced);
  const VerifiedFunctions subject(task);
  const std::uint64_t begin = index * chunk_size, count = std::min(chunk_size, operands.count - begin);
  results.resize(count * subject.result_bytes());
  std::map<std::uint64_t, Comparison> parts;  // by position: those with differences
  Chunk chunk{index, 0, {}};
  std::mutex mutex;
  tbb::enumerable_thread_specific<Parts> own([&] { return Parts(task, subject, reference); });
  // Isolated: a thread that waits here must not start on another chunk.
  tbb::this_task_arena::isolate([&] {
    tbb::parallel_for(std::uint64_t{0}, (count + part_size - 1) / part_size, [&](std::uint64_t part) {
      const std::uint64_t first = part * part_size, size = std::min<std::uint64_t>(part_size, count - first);
      const auto out = std::span(results).subspan(first * subject.result_bytes(), size * subject.result_bytes());
      Comparison found = own.local().run(operands, begin + first, out);
      {
        const std::scoped_lock lock(mutex);
        if (found.differing != 0) parts.emplace(first, std::move(found));
        else chunk.found += found;
      }
      if (advanced) advanced(size);
    });
  });
  for (const auto& [first, found] : parts) chunk.found += found;
  chunk.digest = chunk_digest(results);
  return chunk;
}

}  // namespace

Chunk verify_chunk(const Task& task, const OperandSet& operands, const Reference* reference, std::uint64_t index,
                   const Advanced& advanced) {
  std::vector<std::byte> results;
  return chunk_in(results, task, operands, reference, index, advanced);
}

void verify_chunks(const Task& task, const OperandSet& operands, const Reference& reference,
                   std::span<const std::uint64_t> indices, const Advanced& advanced,
                   const std::function<void(Chunk)>& finished) {
  std::size_t next = 0;
  const auto source = [&](tbb::flow_control& control) -> std::uint64_t {
    if (next == indices.size()) {
      control.stop();
      return 0;
    }
    return indices[next++];
  };
  Buffers buffers;
  const auto work = [&](std::uint64_t index) {
    std::vector<std::byte> results = buffers.take();
    Chunk chunk = chunk_in(results, task, operands, &reference, index, advanced);
    buffers.give(std::move(results));
    return chunk;
  };
  tbb::parallel_pipeline(chunks_in_flight,
                         tbb::make_filter<void, std::uint64_t>(tbb::filter_mode::serial_in_order, source) &
                             tbb::make_filter<std::uint64_t, Chunk>(tbb::filter_mode::parallel, work) &
                             tbb::make_filter<Chunk, void>(tbb::filter_mode::serial_in_order, finished));
}

TaskComparison compare_nans(const Task& task, const OperandSet& operands, const Device& device) {
  constexpr std::uint64_t most = std::uint64_t{1} << 20;
  const OperandSet some = operands.kind == Inputs::listed || operands.count <= nan_operands
                              ? operands
                              : sampled_operands(task, nan_operands, operands.seed);
  const VerifiedFunctions subject(task);
  const auto& f = std::get<FloatFormat>(task.to);
  const std::size_t bytes = subject.result_bytes();
  std::vector<std::uint64_t> x[3] = {std::vector<std::uint64_t>(block_size), std::vector<std::uint64_t>(block_size),
                                     std::vector<std::uint64_t>(block_size)},
                             kept[3];
  std::vector<std::byte> results(block_size * bytes);
  for (std::uint64_t begin = 0; begin < some.count && kept[0].size() < most; begin += block_size) {
    const std::size_t size = std::min<std::uint64_t>(block_size, some.count - begin);
    const auto operand = [&](int k) { return std::span(x[k]).first(k < some.arity ? size : 0); };
    some.fill(begin, operand(0), operand(1), operand(2));
    subject.run(operand(0), operand(1), operand(2), std::span(results).first(size * bytes));
    for (std::size_t i = 0; i < size; ++i) {
      std::uint64_t code = 0;
      std::memcpy(&code, results.data() + i * bytes, bytes);
      if (!f.is_nan(code)) continue;
      for (int k = 0; k < some.arity; ++k) kept[k].push_back(x[k][i]);
    }
  }
  TaskComparison nans = compare(device, task, {kept[0], kept[1], kept[2]});
  if (!kept[0].empty() && nans.compared == 0) throw DeviceFailure(nans.skipped);
  return nans;
}

}  // namespace halfulp::verify
