#include <halfulp/hardware/recording/operands.hpp>

#include <halfulp/emulation/random.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/hardware/verify/inputs.hpp>
#include <halfulp/hardware/verify/lattice.hpp>

#include <algorithm>

namespace halfulp::recording {
namespace {

bool by_default(const Rounding& r) { return r == Rounding{}; }

bool has_every_code(const Task& task) {
  const int bits = storage_bits(task.from);
  if (info(task.operation).arity != 1) return false;
  if (bits <= 8) return true;
  const bool narrow = storage_bits(task.to) == bits || (task.from == NumberType(fp16) && task.to == NumberType(fp32));
  return bits <= 16 && by_default(task.rounding) && narrow && task.operation != Operation::round_to_integral;
}

bool has_integers(const Task& task) {
  return std::holds_alternative<IntegerType>(task.from) || std::holds_alternative<IntegerType>(task.to);
}

/// How many operands of a task; fewer where they ask about one setting among many.
std::size_t enough(const Task& task) {
  Rounding r = task.rounding;
  r.overflow = Overflow::ieee;
  r.int_overflow = IntOverflow::saturate;
  return by_default(r) ? 1024 : 320;
}

std::uint64_t mask(const NumberType& type) {
  const int bits = storage_bits(type);
  return bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
}

/// A random integer of random length and sign.
std::uint64_t integer(std::uint64_t index, int bits) {
  const auto word = static_cast<std::int64_t>(random_word(suite_version, 0, 2 * index));
  const auto length = random_word(suite_version, 0, 2 * index + 1) % static_cast<std::uint64_t>(bits);
  return static_cast<std::uint64_t>(word >> (63 - length));
}

}  // namespace

Columns every_code(const Task& task) {
  Columns x;
  if (!has_every_code(task)) return x;
  for (std::uint64_t code = 0; code <= mask(task.from); ++code) x.push(1, code);
  return x;
}

Columns sampled(const Task& task) {
  Columns x;
  if (has_every_code(task) || has_integers(task)) return x;
  const verify::Inputs inputs = verify::sampled_inputs(task, enough(task), suite_version);
  const int arity = inputs.arity;
  x.a.resize(inputs.count);
  if (arity > 1) x.b.resize(inputs.count);
  if (arity > 2) x.c.resize(inputs.count);
  inputs.fill(0, x.a, x.b, x.c);
  return x;
}

Columns around_integers(const Task& task) {
  Columns x;
  if (has_every_code(task) || !has_integers(task)) return x;
  const auto* from = std::get_if<FloatFormat>(&task.from);
  const int bits = storage_bits(from ? task.to : task.from);
  const auto add = [&](std::uint64_t integer) {
    x.push(1, from ? convert(fp64, *from, {}, std::bit_cast<std::uint64_t>(static_cast<double>(static_cast<std::int64_t>(integer)) / 2)).code : integer & mask(task.from));
  };
  if (from) x.a = verify::lattice(*from, 1);
  for (int i = 0; i <= bits; ++i)  // one beyond the largest: halves of them are taken where integers come out
    for (const std::uint64_t d : {~std::uint64_t{0}, std::uint64_t{0}, std::uint64_t{1}})
      for (const std::uint64_t integer : {(std::uint64_t{1} << i % 64) + d, 0 - ((std::uint64_t{1} << i % 64) + d)}) add(integer);
  for (std::uint64_t i = 0; x.size() < enough(task); ++i) add(integer(i, std::min(bits + 2, 64)));
  return x;
}

}  // namespace halfulp::recording
