#include <halfulp/evidence/verify/subject.hpp>

#include <halfulp/emulation/array/array.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <algorithm>

namespace halfulp::verify {
namespace {

constexpr std::size_t block_size = 4096;

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
struct Words {
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
    Words<Code> a, b, c;
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
    Words<Code> a;
    decode<Code>(from, a.of(x.a), decoded);
  });
  encode_block<float>(task, decoded, results);
}

void scalar(const Task& task, const Operands& x, std::span<std::byte> results, std::size_t bytes) {
  const auto at = [](std::span<const std::uint64_t> s, std::size_t i) { return s.empty() ? 0 : s[i]; };
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::uint64_t code = evaluate(task, x.a[i], at(x.b, i), at(x.c, i)).code;
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

}  // namespace halfulp::verify
