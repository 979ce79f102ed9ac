// Every format of 8 bits or fewer, every operand, against the oracle: results and flags.
#include "check.hpp"

namespace small_formats_test {

using namespace halfulp;
using namespace check;

std::vector<FloatFormat> formats() {
  std::vector<FloatFormat> all;
  for (const NamedFormat& row : catalogue())
    if (row.format.storage_bits() <= 8 && row.format.has_zero) all.push_back(row.format);
  for (const FloatFormat& f :
       named({"e5m2finite", "e5m2fn", "e5m2b3", "e3m3", "e4m2fnuz", "e2m2fn", "e5m0fn", "e3m0finite", "e1m2finite",
              "e1m6fn", "e2m1ieee", "e6m1", "e7m0fn", "e4m3b0", "e4m2b-6finite", "e3m2p3109"}))
    all.push_back(f);
  return all;
}

class SmallFormats : public testing::TestWithParam<FloatFormat> {};
INSTANTIATE_TEST_SUITE_P(Formats, SmallFormats, testing::ValuesIn(formats()), test_name);

TEST_P(SmallFormats, unary_and_binary_operations_on_all_operands) {
  const FloatFormat f = GetParam();
  const std::uint64_t codes = std::uint64_t{1} << f.storage_bits();
  for (const OperationInfo& op : operations) {
    if (op.arity > 2 || op.operation == Operation::convert || op.operation == Operation::round_to_integral) continue;
    Differences differences(format_name(f) + " " + std::string(op.name));
    std::vector<Rounding> all = settings_of(op.operation, exhaustive());
    Draw draw{{f.storage_bits() * 1000u + static_cast<unsigned>(op.operation)}};
    for (std::uint64_t a = 0; a < codes; ++a)
      for (std::uint64_t b = 0; b < (op.arity == 2 ? codes : 1); ++b) {
        draw.next(all);
        check_all(differences, op.operation, f, all, draw.word, a, b);
      }
  }
}

TEST_P(SmallFormats, fma_on_all_triples_of_few_bits_and_a_sample_of_the_others) {
  const FloatFormat f = GetParam();
  const int bits = 3 * f.storage_bits();
  Differences differences(format_name(f) + " fma");
  std::vector<Rounding> all = roundings(exhaustive());
  Draw draw{{99}};
  const std::uint64_t triples = std::uint64_t{1} << bits, sample = exhaustive() ? 400'000 : 100'000;
  const bool every = f.storage_bits() <= 6;
  Random operands{7};
  for (std::uint64_t i = 0; i < (every ? triples : sample); ++i) {
    const std::uint64_t word = every ? i : operands(), mask = f.code_mask();
    draw.next(all);
    check_all(differences, Operation::fma, f, all, draw.word, word & mask, (word >> f.storage_bits()) & mask,
              (word >> (2 * f.storage_bits())) & mask);
  }
}

TEST_P(SmallFormats, round_to_integral_and_to_integers) {
  const FloatFormat f = GetParam();
  Differences integral(format_name(f) + " round-to-integral"), integers(format_name(f) + " to integers");
  std::vector<Rounding> all = roundings(true);
  Draw draw{{5}};
  for (std::uint64_t a = 0; a <= f.code_mask(); ++a) {
    draw.next(all);
    for (Rounding r : all)
      for (int variant = 0; variant < 4; ++variant) {
        r.integer_inexact = (variant & 1) != 0;
        r.int_overflow = int_overflow_rules[variant >> 1].value;
        if (variant < 2)
          integral.compare(evaluate(Operation::round_to_integral, f, r, a, 0, 0, draw.word),
                           oracle::round_to_integral(f, r, a, draw.word), r, a, 0, 0, draw.word);
        if (r.tininess == Tininess::before || r.flush_outputs || r.nan != NanRule::canonical) continue;
        for (const IntegerType type : {i32, i64, u32, u64})
          integers.compare(to_integer(f, type, r, a, draw.word),
                           oracle::to_integer(f, type.bits, type.is_signed, r, a, draw.word), r, a,
                           static_cast<std::uint64_t>(type.bits), type.is_signed, draw.word);
      }
  }
}

TEST_P(SmallFormats, conversions_to_every_format) {
  const FloatFormat f = GetParam();
  std::vector<FloatFormat> targets = formats();
  for (const NamedFormat& row : catalogue()) targets.push_back(row.format);
  Draw draw{{6}};
  for (const FloatFormat& to : targets) {
    Differences differences("convert " + format_name(f) + " to " + format_name(to));
    std::vector<Rounding> all = roundings(exhaustive());
    const bool fits = fits_int128(f) && fits_int128(to);
    for (std::uint64_t a = 0; a <= f.code_mask(); ++a) {
      draw.next(all);
      for (const Rounding& r : all)
        differences.compare(convert(f, to, r, a, draw.word),
                            fits ? oracle::convert<oracle::int128>(f, to, r, a, draw.word)
                                 : oracle::convert<oracle::cpp_int>(f, to, r, a, draw.word),
                            r, a, 0, 0, draw.word);
    }
  }
}

/// E8M0 only converts: to every format, from every 16-bit format, from integers.
TEST(E8m0, converts_to_every_format_and_from_half_precision) {
  Draw draw{{8}};
  for (const NamedFormat& row : catalogue()) {
    Differences differences("convert e8m0 to " + format_name(row.format));
    std::vector<Rounding> all = roundings(true);
    for (std::uint64_t a = 0; a <= 0xff; ++a) {
      draw.next(all);
      for (const Rounding& r : all)
        differences.compare(convert(e8m0, row.format, r, a, draw.word),
                            oracle::convert<oracle::cpp_int>(e8m0, row.format, r, a, draw.word), r, a, 0, 0, draw.word);
    }
  }
  for (const FloatFormat& from : {fp16, bf16}) {
    Differences differences("convert " + format_name(from) + " to e8m0");
    std::vector<Rounding> all = roundings(false);
    for (std::uint64_t a = 0; a <= 0xffff; a += exhaustive() ? 1 : 3) {
      draw.next(all);
      for (const Rounding& r : all)
        differences.compare(convert(from, e8m0, r, a, draw.word),
                            oracle::convert<oracle::cpp_int>(from, e8m0, r, a, draw.word), r, a, 0, 0, draw.word);
    }
  }
}

/// Integers to every format: small ones, powers of two and their neighbours, random ones of every length.
TEST(Integers, convert_to_every_format) {
  std::vector<FloatFormat> targets = formats();
  for (const NamedFormat& row : catalogue()) targets.push_back(row.format);
  std::vector<std::uint64_t> values;
  for (std::uint64_t n = 0; n < 600; ++n) values.insert(values.end(), {n, 0 - n});
  for (int e = 10; e < 64; ++e)
    for (int d = -2; d <= 2; ++d) values.push_back((std::uint64_t{1} << e) + static_cast<std::uint64_t>(d));
  Draw draw{{9}};
  for (int i = 0; i < 400; ++i) values.push_back(draw.random() >> (i % 64));
  for (const FloatFormat& to : targets) {
    Differences differences("integers to " + format_name(to));
    std::vector<Rounding> all = roundings(false);
    for (const std::uint64_t word : values) {
      draw.next(all);
      for (const IntegerType type : {i32, i64, u32, u64}) {
        const std::uint64_t bits = word & type.mask();
        oracle::cpp_int n = bits;
        if (type.is_signed && (bits >> (type.bits - 1)) != 0) n -= oracle::cpp_int(1) << type.bits;
        for (std::size_t i = 0; i < all.size(); i += exhaustive() ? 1 : 1 + (word % 3))
          differences.compare(from_integer(type, to, all[i], bits, draw.word),
                              oracle::from_integer(n, to, all[i], draw.word), all[i], bits,
                              static_cast<std::uint64_t>(type.bits), type.is_signed, draw.word);
      }
    }
  }
}

}  // namespace small_formats_test
