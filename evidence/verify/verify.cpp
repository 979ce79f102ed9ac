#include <halfulp/evidence/verify/verify.hpp>

#include <halfulp/emulation/array/array.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/files.hpp>

#include <tbb/parallel_for.h>
#include <tbb/parallel_pipeline.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <cstring>
#include <mutex>

namespace halfulp::verify {
namespace {

/// What a thread takes at a time, and what its buffers hold: the operands and results of a part stay in the
/// second-level cache.
constexpr std::size_t part_size = std::size_t{1} << 16, block_size = 4096;
/// Chunks in work at the same time; each has its results in memory.
constexpr std::size_t chunks_in_flight = 4;

// What is verified.

/// Whether every value of the format is a float.
bool fits_float(const FloatFormat& f) {
  return f.precision() <= fp32.precision() && f.emin() - f.fraction_bits >= fp32.emin() - fp32.fraction_bits &&
         f.emax() <= fp32.emax();
}

/// f(Code{}) for the unsigned type of that many bytes, 1, 2 or 4.
template <class F>
void with_code(std::size_t bytes, F f) {
  if (bytes == 1) f(std::uint8_t{});
  else if (bytes == 2) f(std::uint16_t{});
  else f(std::uint32_t{});
}

/// A block of code words in the type that array functions take.
template <class Code>
struct CodeBlock {
  Code words[block_size];
  std::span<const Code> of(std::span<const std::uint64_t> codes) {
    for (std::size_t i = 0; i < codes.size(); ++i) words[i] = static_cast<Code>(codes[i]);
    return {words, codes.size()};
  }
};

template <class Code>
std::span<Code> as(std::span<std::byte> results) {
  return {reinterpret_cast<Code*>(results.data()), results.size() / sizeof(Code)};
}

void apply_block(const Task& task, const Operands& x, std::span<std::byte> results) {
  const auto& f = std::get<FloatFormat>(task.from);
  with_code(static_cast<std::size_t>(f.storage_bytes()), [&]<class Code>(Code) {
    CodeBlock<Code> a, b, c;
    apply<Code>(task.operation, f, task.rounding, a.of(x.a), b.of(x.b), c.of(x.c), as<Code>(results));
  });
}

template <class T>
void encode_block(const Task& task, std::span<const T> values, std::span<std::byte> results) {
  const auto& to = std::get<FloatFormat>(task.to);
  with_code(static_cast<std::size_t>(to.storage_bytes()),
            [&]<class Code>(Code) { encode<T, Code>(to, task.rounding, values, as<Code>(results)); });
}

void encode_floats(const Task& task, const Operands& x, std::span<std::byte> results) {
  float values[block_size];
  for (std::size_t i = 0; i < x.size(); ++i) values[i] = std::bit_cast<float>(static_cast<std::uint32_t>(x.a[i]));
  encode_block<float>(task, {values, x.size()}, results);
}

void encode_doubles(const Task& task, const Operands& x, std::span<std::byte> results) {
  double values[block_size];
  for (std::size_t i = 0; i < x.size(); ++i) values[i] = std::bit_cast<double>(x.a[i]);
  encode_block<double>(task, {values, x.size()}, results);
}

void recode(const Task& task, const Operands& x, std::span<std::byte> results) {
  const auto& from = std::get<FloatFormat>(task.from);
  float values[block_size];
  const std::span<float> decoded(values, x.size());
  with_code(static_cast<std::size_t>(from.storage_bytes()), [&]<class Code>(Code) {
    CodeBlock<Code> a;
    decode<Code>(from, a.of(x.a), decoded);
  });
  encode_block<float>(task, decoded, results);
}

void scalar(const Task& task, const Operands& x, std::span<std::byte> results, std::size_t bytes) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto [a, b, c] = x[i];
    const std::uint64_t code = evaluate(task, a, b, c).code;
    std::copy_n(reinterpret_cast<const std::byte*>(&code), bytes,
                results.data() + i * bytes);  // little-endian: digest.cpp
  }
}

}  // namespace

Subject::Subject(const Task& task) : task_(task) {
  const auto& from = std::get<FloatFormat>(task.from);
  const auto& to = std::get<FloatFormat>(task.to);
  bytes_ = info(task.operation).result == ResultKind::truth ? 1 : static_cast<std::size_t>(to.storage_bytes());
  if (to.storage_bits() > 32) return;
  switch (task.operation) {
    case Operation::add:
    case Operation::sub:
    case Operation::mul:
    case Operation::div:
    case Operation::sqrt:
    case Operation::fma: kind_ = Kind::apply; break;
    case Operation::convert:
      if (from == fp32) kind_ = Kind::encode_floats;
      else if (from == fp64) kind_ = Kind::encode_doubles;
      // What is subnormal in the format need not be as a float.
      else if (from.storage_bits() <= 32 && fits_float(from) && !task.rounding.flush_inputs) kind_ = Kind::recode;
      break;
    default: break;
  }
}

std::string Subject::description() const {
  const auto set = [](bool in_vectors) {
    return " (" + (in_vectors ? std::string(array_instruction_set()) : "scalar") + ")";
  };
  const auto& from = std::get<FloatFormat>(task_.from);
  const auto& to = std::get<FloatFormat>(task_.to);
  switch (kind_) {
    case Kind::apply: return "apply" + set(applies_in_vectors(task_.operation, from, task_.rounding));
    case Kind::encode_floats: return "encode" + set(encodes_in_vectors<float>(to, task_.rounding));
    case Kind::encode_doubles: return "encode" + set(encodes_in_vectors<double>(to, task_.rounding));
    case Kind::recode: {
      const std::string decoded = set(decodes_in_vectors(from)),
                        encoded = set(encodes_in_vectors<float>(to, task_.rounding));
      return "decode" + (decoded == encoded ? "" : decoded) + ", encode" + encoded;
    }
    case Kind::scalar: break;
  }
  return "scalar functions";
}

void Subject::run(const Operands& operands, std::span<std::byte> results) const {
  for (std::size_t begin = 0; begin < operands.size(); begin += block_size) {
    const Operands x = operands.slice(begin, std::min(block_size, operands.size() - begin));
    const auto out = results.subspan(begin * bytes_, x.size() * bytes_);
    switch (kind_) {
      case Kind::scalar: scalar(task_, x, out, bytes_); break;
      case Kind::apply: apply_block(task_, x, out); break;
      case Kind::encode_floats: encode_floats(task_, x, out); break;
      case Kind::encode_doubles: encode_doubles(task_, x, out); break;
      case Kind::recode: recode(task_, x, out); break;
    }
  }
}

// The engine.

namespace {

/// One part of a chunk.
class Part {
 public:
  Part(const Task& task, const Subject& subject, const Reference* reference)
      : task_(task), subject_(subject), reference_(reference) {}

  Comparison run(const OperandSet& set, std::uint64_t begin, std::span<std::byte> results) {
    const std::size_t bytes = subject_.result_bytes(), count = results.size() / bytes;
    for (std::size_t done = 0; done < count; done += block_size) {
      const std::size_t size = std::min(block_size, count - done);
      const auto operand = [&](std::vector<std::uint64_t>& codes, int k) {
        return std::span(codes).first(k < set.arity ? size : 0);
      };
      const auto a = operand(a_, 0), b = operand(b_, 1), c = operand(c_, 2);
      set.fill(begin + done, a, b, c);
      const auto out = results.subspan(done * bytes, size * bytes);
      subject_.run({a, b, c}, out);
      if (reference_) compare({a, b, c}, out);
    }
    return std::move(found_);
  }

 private:
  void compare(const Operands& x, std::span<const std::byte> results) {
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
  const Subject& subject_;
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
  const Subject subject(task);
  const std::uint64_t begin = index * chunk_size, count = std::min(chunk_size, operands.count - begin);
  results.resize(count * subject.result_bytes());
  std::map<std::uint64_t, Comparison> parts;  // by position: those with differences
  Chunk chunk{index, 0, {}};
  std::mutex mutex;
  // Isolated: a thread that waits here must not start on another chunk.
  tbb::this_task_arena::isolate([&] {
    tbb::parallel_for(std::uint64_t{0}, (count + part_size - 1) / part_size, [&](std::uint64_t part) {
      const std::uint64_t first = part * part_size, size = std::min<std::uint64_t>(part_size, count - first);
      const auto out = std::span(results).subspan(first * subject.result_bytes(), size * subject.result_bytes());
      Comparison found = Part(task, subject, reference).run(operands, begin + first, out);
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
  const OperandSet some = operands.count <= nan_operands ? operands
                                                         : sampled_operands(task, nan_operands, operands.seed);
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
  TaskComparison nans = compare(device, task, {kept[0], kept[1], kept[2]});
  if (!kept[0].empty() && nans.compared == 0) throw DeviceFailure(nans.skipped);
  return nans;
}

}  // namespace halfulp::verify
