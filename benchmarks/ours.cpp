#include "ours.hpp"

#include <halfulp/emulation/array/array.hpp>
#include <halfulp/emulation/block/block.hpp>
#include <halfulp/emulation/random.hpp>

#include <memory>

namespace halfulp::bench {
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

std::uint64_t random_at(const Rounding& rounding, std::size_t i) {
  return rounding.mode == RoundingMode::stochastic ? rounding_bits(0, 0, i) : 0;
}

template <class Code>
Run by_arrays(const Row& row) {
  const FloatFormat f = row.number();
  const Rounding r = row.rounding();
  if (row.work == "quantize") return [=](const Operands& o) { quantize(f, r, operand<float>(o), result<float>(o)); };
  if (row.work == "encode")
    return [=](const Operands& o) { encode<float, Code>(f, r, operand<float>(o), result<Code>(o)); };
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
  const auto narrow = [f, r](float x, std::size_t i) {
    return convert(fp32, f, r, std::bit_cast<std::uint32_t>(x), random_at(r, i)).code;
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
          evaluate(operation, f, r, a[i], b.empty() ? 0 : b[i], c.empty() ? 0 : c[i], random_at(r, i)).code);
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
