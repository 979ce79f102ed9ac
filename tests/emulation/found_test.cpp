// Operations found by format give what `evaluate` gives, in formats with a copy of their own and in others.
#include "check.hpp"

#include <halfulp/emulation/found.hpp>
#include <halfulp/emulation/random.hpp>
#include <halfulp/formats/catalogue.hpp>

namespace found_test {

using namespace halfulp;

constexpr FloatFormat formats[] = {fp16, bf16, tf32, fp32, e4m3, e5m2, fp64, e4m3fnuz};

/// Any bits, and none: zeros, infinities and NaNs come up in the narrow formats.
std::uint64_t code(const FloatFormat& f, std::uint64_t stream, std::uint64_t i) {
  return random_word(3, stream, i) & f.code_mask();
}

TEST(FoundOperations, AreThose) {
  for (const FloatFormat& f : formats)
    for (const OperationInfo& row : operations) {
      if (row.operation == Operation::convert) continue;
      const FoundOperation found = find_operation(row.operation, f);
      for (const auto& mode : rounding_modes)
        for (std::uint64_t i = 0; i < 500; ++i) {
          Rounding r{mode.value};
          r.flush_inputs = i % 3 == 0, r.flush_outputs = i % 5 == 0;
          const std::uint64_t a = code(f, 0, i), b = code(f, 1, i), c = code(f, 2, i), random = random_word(3, 3, i);
          ASSERT_EQ(found(f, r, a, b, c, random), evaluate(row.operation, f, r, a, b, c, random))
              << format_name(f) << ' ' << row.name << ' ' << mode.name << std::hex << ' ' << a << ' ' << b << ' ' << c;
        }
    }
}

TEST(FoundConversions, AreThose) {
  std::vector<NumberType> sources{i32, i64, u32, u64};
  for (const FloatFormat& f : formats) sources.emplace_back(f);
  for (const NumberType& from : sources)
    for (const FloatFormat& to : formats) {
      const FoundConversion found = find_conversion(from, to);
      const std::uint64_t mask = ~std::uint64_t{0} >> (64 - storage_bits(from));
      for (const auto& mode : rounding_modes)
        for (std::uint64_t i = 0; i < 500; ++i) {
          const Rounding r{mode.value, i % 2 == 0 ? Overflow::ieee : Overflow::saturate};
          const std::uint64_t a = random_word(3, 4, i) & mask, random = random_word(3, 5, i);
          ASSERT_EQ(found(from, to, r, a, random), evaluate(Task{Operation::convert, from, to, r}, a, 0, 0, random))
              << number_type_name(from) << " to " << format_name(to) << ' ' << mode.name << std::hex << ' ' << a;
        }
    }
}

}  // namespace found_test
