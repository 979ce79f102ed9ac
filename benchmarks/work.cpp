#include "work.hpp"

#include <halfulp/emulation/array/array.hpp>
#include <halfulp/emulation/block/block.hpp>
#include <halfulp/emulation/random.hpp>

#include <hwy/aligned_allocator.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <random>

namespace halfulp::bench {
namespace {

constexpr std::size_t distinct = 1 << 20;

/// Memory that grows and is never given back.
class Buffer {
 public:
  std::byte* of(std::size_t bytes) {
    if (bytes > size_) {
      memory_.reset();  // first, so that both never exist at once
      memory_ = hwy::AllocateAligned<std::byte>(bytes);
      if (!memory_) throw std::bad_alloc();
      std::memset(memory_.get(), 0, bytes);
      size_ = bytes;
    }
    return memory_.get();
  }

 private:
  hwy::AlignedFreeUniquePtr<std::byte[]> memory_;
  std::size_t size_ = 0;
};

/// A million floats, the same at each call.
const std::vector<float>& random_floats(std::string_view data, int operand) {
  static std::map<std::pair<std::string_view, int>, std::vector<float>> known;
  std::vector<float>& values = known[{data, operand}];
  if (!values.empty()) return values;
  std::mt19937_64 random(static_cast<std::uint64_t>(operand) + 1);
  std::normal_distribution<float> normal;
  values.resize(distinct);
  for (float& x : values)
    x = data == "bits" ? std::bit_cast<float>(static_cast<std::uint32_t>(random())) : normal(random);
  return values;
}

template <class T>
void fill(std::byte* memory, const std::vector<T>& values, std::size_t count) {
  for (std::size_t done = 0; done < count; done += values.size())
    std::memcpy(memory + done * sizeof(T), values.data(), std::min(values.size(), count - done) * sizeof(T));
}

template <class Code>
void fill_codes(std::byte* memory, const FloatFormat& f, const std::vector<float>& values, std::size_t count) {
  std::vector<Code> codes(values.size());
  encode<float, Code>(f, {}, values, codes);
  fill(memory, codes, count);
}

/// Whether two results are the same; any NaN equals any NaN.
bool same(const Row& row, const FloatFormat& f, const std::byte* a, const std::byte* b) {
  const auto bytes = static_cast<std::size_t>(row.result_bytes());
  if (std::memcmp(a, b, bytes) == 0) return true;
  std::uint32_t x = 0, y = 0;
  std::memcpy(&x, a, bytes);
  std::memcpy(&y, b, bytes);
  if (bytes == 4) return std::isnan(std::bit_cast<float>(x)) && std::isnan(std::bit_cast<float>(y));
  return x <= f.code_mask() && y <= f.code_mask() && f.is_nan(x) && f.is_nan(y);
}

}  // namespace

Operands prepare(const Row& row) {
  static std::array<Buffer, 4> buffers;
  Operands operands{.count = row.size.count};
  operands.out = buffers[3].of(row.size.count * static_cast<std::size_t>(row.result_bytes()));
  for (int k = 0; k < row.arity(); ++k) {
    std::byte* const memory = buffers[static_cast<std::size_t>(k)].of(row.size.count *
                                                                      static_cast<std::size_t>(row.operand_bytes()));
    std::vector<float> values = random_floats(row.data, k);
    values.resize(std::min(row.size.count, distinct));
    if (row.work == "sqrt")
      for (float& x : values) x = std::abs(x);
    if (row.operand_bytes() == 4) fill(memory, values, row.size.count);
    else if (row.operand_bytes() == 2) fill_codes<std::uint16_t>(memory, row.number(), values, row.size.count);
    else fill_codes<std::uint8_t>(memory, row.number(), values, row.size.count);
    operands.in[static_cast<std::size_t>(k)] = memory;
  }
  return operands;
}

std::size_t differing(const Row& row, const Operands& operands, const Run& run, const Run& wanted) {
  static Buffer buffer;
  const auto bytes = static_cast<std::size_t>(row.result_bytes());
  Operands some = operands, reference = operands;
  some.count = reference.count = std::min(operands.count, distinct);
  reference.out = buffer.of(reference.count * bytes);
  wanted(reference);
  run(some);
  const auto *a = static_cast<const std::byte*>(operands.out), *b = static_cast<const std::byte*>(reference.out);
  const FloatFormat f = row.number();
  std::size_t count = 0;
  for (std::size_t i = 0; i < some.count; ++i) count += !same(row, f, a + i * bytes, b + i * bytes);
  return count;
}

// halfulp's own ways of doing a row.

namespace {

template <class T>
std::span<const T> operand(const Operands& o, std::size_t k = 0) {
  return {static_cast<const T*>(o.in[k]), o.in[k] ? o.count : 0};
}
template <class T>
std::span<T> result(const Operands& o) {
  return {static_cast<T*>(o.out), o.count};
}

Run by_blocks(const Row& row) {
  const BlockFormat f = parse_block_format(row.format);
  const Rounding r = row.rounding();
  const auto columns = [](std::size_t count) { return count >= 1 << 20 ? std::size_t{1024} : std::size_t{128}; };
  if (row.work == "block-quantize")
    return [=](const Operands& o) {
      quantize_block_values(f, r, operand<float>(o), o.count / columns(o.count), columns(o.count), result<float>(o));
    };
  return [=, array = std::make_shared<BlockArray>()](const Operands& o) {
    quantize_blocks(f, r, operand<float>(o), o.count / columns(o.count), columns(o.count), *array);
  };
}

std::uint64_t random_at(const Rounding& rounding, const RandomStream& random, std::size_t i) {
  return rounding.mode == RoundingMode::stochastic ? random.bits(i) : 0;
}

template <class Code>
Run by_arrays(const Row& row) {
  const FloatFormat f = row.number();
  const Rounding r = row.rounding();
  const RandomStream random = row.random();
  if (row.work == "quantize")
    return [=](const Operands& o) { quantize(f, r, operand<float>(o), result<float>(o), random); };
  if (row.work == "encode")
    return [=](const Operands& o) { encode<float, Code>(f, r, operand<float>(o), result<Code>(o), random); };
  if (row.work == "decode") return [=](const Operands& o) { decode<Code>(f, operand<Code>(o), result<float>(o)); };
  return [=, operation = parse_operation(row.work)](const Operands& o) {
    apply<Code>(operation, f, r, operand<Code>(o, 0), operand<Code>(o, 1), operand<Code>(o, 2), result<Code>(o));
  };
}

/// out[i] = f(i) for all i.
template <class T, class F>
void each(const Operands& o, F f) {
  const std::span<T> out = result<T>(o);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = std::bit_cast<T>(f(i));
}

template <class Code>
Run by_scalars(const Row& row) {
  const FloatFormat f = row.number();
  const Rounding r = row.rounding();
  const RandomStream random = row.random();
  const auto narrow = [f, r, random](float x, std::size_t i) {
    return convert(fp32, f, r, std::bit_cast<std::uint32_t>(x), random_at(r, random, i)).code;
  };
  const auto widen = [f](std::uint64_t code) { return static_cast<std::uint32_t>(convert(f, fp32, {}, code).code); };
  if (row.work == "quantize")
    return [=](const Operands& o) {
      each<float>(o, [&, in = operand<float>(o)](std::size_t i) { return widen(narrow(in[i], i)); });
    };
  if (row.work == "encode")
    return [=](const Operands& o) {
      each<Code>(o, [&, in = operand<float>(o)](std::size_t i) { return static_cast<Code>(narrow(in[i], i)); });
    };
  if (row.work == "decode")
    return
        [=](const Operands& o) { each<float>(o, [&, in = operand<Code>(o)](std::size_t i) { return widen(in[i]); }); };
  return [=, operation = parse_operation(row.work)](const Operands& o) {
    const std::span<const Code> a = operand<Code>(o, 0), b = operand<Code>(o, 1), c = operand<Code>(o, 2);
    each<Code>(o, [&](std::size_t i) {
      return static_cast<Code>(
          evaluate(operation, f, r, a[i], b.empty() ? 0 : b[i], c.empty() ? 0 : c[i], random_at(r, random, i)).code);
    });
  };
}

}  // namespace

Run array_function(const Row& row) {
  if (row.is_block()) return by_blocks(row);
  return row.code_bytes() == 1 ? by_arrays<std::uint8_t>(row) : by_arrays<std::uint16_t>(row);
}
Run scalar_function(const Row& row) {
  return row.code_bytes() == 1 ? by_scalars<std::uint8_t>(row) : by_scalars<std::uint16_t>(row);
}

}  // namespace halfulp::bench
