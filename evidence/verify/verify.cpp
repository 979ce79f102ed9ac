#include <halfulp/evidence/verify/verify.hpp>

#include <tbb/parallel_for.h>
#include <tbb/parallel_pipeline.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <cstring>
#include <mutex>

namespace halfulp::verify {
namespace {

/// What a thread takes at a time, and what its buffers hold: a part's operands and results stay in the second-level
/// cache.
constexpr std::size_t part_size = std::size_t{1} << 16, block_size = 4096;
/// Chunks in work at the same time; each has its results in memory.
constexpr std::size_t chunks_in_flight = 4;

template <class Code>
bool all_equal(const std::byte* results, std::span<const std::uint64_t> codes) {
  std::uint64_t different = 0;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    Code code;
    std::memcpy(&code, results + i * sizeof(Code), sizeof(Code));
    different |= code ^ codes[i];
  }
  return different == 0;
}

bool equal(std::span<const std::byte> results, std::span<const std::uint64_t> codes) {
  switch (results.size() / codes.size()) {
    case 1: return all_equal<std::uint8_t>(results.data(), codes);
    case 2: return all_equal<std::uint16_t>(results.data(), codes);
    case 4: return all_equal<std::uint32_t>(results.data(), codes);
    default: return all_equal<std::uint64_t>(results.data(), codes);
  }
}

std::uint64_t at(std::span<const std::uint64_t> s, std::size_t i) { return s.empty() ? 0 : s[i]; }

/// One part of a chunk.
class Part {
 public:
  Part(const Task& task, const Subject& subject, const Judge* judge) : task_(task), subject_(subject), judge_(judge) {}

  Findings run(const Inputs& inputs, std::uint64_t begin, std::span<std::byte> results) {
    const std::size_t bytes = subject_.result_bytes(), count = results.size() / bytes;
    for (std::size_t done = 0; done < count; done += block_size) {
      const std::size_t size = std::min(block_size, count - done);
      const auto operand = [&](std::vector<std::uint64_t>& codes, int k) {
        return std::span(codes).first(k < inputs.arity ? size : 0);
      };
      const auto a = operand(a_, 0), b = operand(b_, 1), c = operand(c_, 2);
      inputs.fill(begin + done, a, b, c);
      const auto out = results.subspan(done * bytes, size * bytes);
      subject_.run({a, b, c}, out);
      if (judge_) judge({a, b, c}, out);
    }
    return std::move(findings_);
  }

 private:
  void judge(const Operands& x, std::span<const std::byte> results) {
    const auto codes = std::span(right_).first(x.size());
    const auto flags = std::span(flags_).first(judge_->knows_flags() ? x.size() : 0);
    judge_->run(x, codes, flags);
    findings_.compared += x.size();
    if (!equal(results, codes)) {
      for (std::size_t i = 0; i < x.size(); ++i) {
        std::uint64_t code = 0;
        std::memcpy(&code, results.data() + i * subject_.result_bytes(), subject_.result_bytes());
        if (code != codes[i]) findings_.note(task_, witness(x, i, code, codes[i]));
      }
    }
    if (!flags.empty()) judge_scalar(x, results, codes, flags);
  }

  /// The scalar functions, where the array functions were right.
  void judge_scalar(const Operands& x, std::span<const std::byte> results, std::span<const std::uint64_t> codes,
                    std::span<const Flags> flags) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Rounded mine = evaluate(task_, x.a[i], at(x.b, i), at(x.c, i));
      if (mine.code == codes[i] && mine.flags == flags[i]) continue;
      if (std::memcmp(&codes[i], results.data() + i * subject_.result_bytes(), subject_.result_bytes()) != 0) continue;
      Witness w = witness(x, i, mine.code, codes[i]);
      w.has_flags = true;
      w.emulated_flags = mine.flags;
      w.device_flags = flags[i];
      findings_.note(task_, w);
    }
  }

  Witness witness(const Operands& x, std::size_t i, std::uint64_t mine, std::uint64_t right) const {
    Witness w;
    w.operands = {x.a[i], at(x.b, i), at(x.c, i)};
    w.arity = info(task_.operation).arity;
    w.emulated = mine;
    w.device = right;
    return w;
  }

  const Task& task_;
  const Subject& subject_;
  const Judge* judge_;
  Findings findings_;
  std::vector<std::uint64_t> a_ = std::vector<std::uint64_t>(block_size), b_ = a_, c_ = a_, right_ = a_;
  std::vector<Flags> flags_ = std::vector<Flags>(block_size);
};

/// Results of chunks in work. Their memory is used again: new pages would cost as much time as the arithmetic.
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

Chunk chunk_in(std::vector<std::byte>& results, const Task& task, const Inputs& inputs, const Judge* judge,
               std::uint64_t index, const std::function<void(std::uint64_t)>& advanced) {
  if (judge && judge->makes_chunks()) return judge->chunk(index, advanced);
  const Subject subject(task);
  const std::uint64_t begin = index * chunk_size, count = std::min(chunk_size, inputs.count - begin);
  results.resize(count * subject.result_bytes());
  std::map<std::uint64_t, Findings> parts;  // by position: those with differences
  Chunk chunk{index, 0, {}};
  std::mutex mutex;
  // Isolated: a thread that waits here must not start on another chunk.
  tbb::this_task_arena::isolate([&] {
    tbb::parallel_for(std::uint64_t{0}, (count + part_size - 1) / part_size, [&](std::uint64_t part) {
      const std::uint64_t first = part * part_size, size = std::min<std::uint64_t>(part_size, count - first);
      const auto out = std::span(results).subspan(first * subject.result_bytes(), size * subject.result_bytes());
      Findings found = Part(task, subject, judge).run(inputs, begin + first, out);
      {
        const std::scoped_lock lock(mutex);
        if (found.differing != 0) parts.emplace(first, std::move(found));
        else chunk.findings += found;
      }
      if (advanced) advanced(size);
    });
  });
  for (const auto& [first, found] : parts) chunk.findings += found;
  chunk.digest = chunk_digest(results);
  return chunk;
}

}  // namespace

Chunk verify_chunk(const Task& task, const Inputs& inputs, const Judge* judge, std::uint64_t index,
                   const std::function<void(std::uint64_t)>& advanced) {
  std::vector<std::byte> results;
  return chunk_in(results, task, inputs, judge, index, advanced);
}

void verify_chunks(const Task& task, const Inputs& inputs, const Judge& judge, std::span<const std::uint64_t> indices,
                   const std::function<void(std::uint64_t)>& advanced, const std::function<void(Chunk)>& finished) {
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
    Chunk chunk = chunk_in(results, task, inputs, &judge, index, advanced);
    buffers.give(std::move(results));
    return chunk;
  };
  tbb::parallel_pipeline(chunks_in_flight,
                         tbb::make_filter<void, std::uint64_t>(tbb::filter_mode::serial_in_order, source) &
                             tbb::make_filter<std::uint64_t, Chunk>(tbb::filter_mode::parallel, work) &
                             tbb::make_filter<Chunk, void>(tbb::filter_mode::serial_in_order, finished));
}

Comparison compare_nans(const Task& task, const Inputs& inputs, const Backend& backend) {
  constexpr std::uint64_t most = std::uint64_t{1} << 20;
  const Inputs some = inputs.count <= nan_inputs ? inputs : sampled_inputs(task, nan_inputs, inputs.seed);
  const Subject subject(task);
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
    subject.run({operand(0), operand(1), operand(2)}, std::span(results).first(size * bytes));
    for (std::size_t i = 0; i < size; ++i) {
      std::uint64_t code = 0;
      std::memcpy(&code, results.data() + i * bytes, bytes);
      if (!f.is_nan(code)) continue;
      for (int k = 0; k < some.arity; ++k) kept[k].push_back(x[k][i]);
    }
  }
  Comparison nans = compare(backend, task, {kept[0], kept[1], kept[2]});
  if (!kept[0].empty() && nans.compared == 0) throw DeviceFailure(nans.skipped);
  return nans;
}

}  // namespace halfulp::verify
