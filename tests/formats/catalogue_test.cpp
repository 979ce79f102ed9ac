// The catalogue against published numbers, the grammar of names, and every code's value against the oracle's.
#include "check.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace catalogue_test {

using namespace halfulp;

/// Constants as their documents print them: IEEE 754-2019 table 3.5; OCP OFP8 1.0 table 2; OCP MX 1.0 tables 2 to 6;
/// Noune et al. 2022; IEEE P3109; NVIDIA and Intel for tf32 and bf16.
struct Published {
  const char* name;
  double max, min_normal, min_positive, epsilon, consecutive;
  std::uint64_t nan, infinity;  ///< code words; 0 where there is none
  int digits10, max_digits10;
};
const Published published[] = {
    {"fp16", 65504, 0x1p-14, 0x1p-24, 0x1p-10, 2048, 0x7e00, 0x7c00, 3, 5},
    {"bf16", 0x1.fep127, 0x1p-126, 0x1p-133, 0x1p-7, 256, 0x7fc0, 0x7f80, 2, 4},
    {"tf32", 0x1.ffcp127, 0x1p-126, 0x1p-136, 0x1p-10, 2048, 0x3fe00, 0x3fc00, 3, 5},
    {"fp32", 0x1.fffffep127, 0x1p-126, 0x1p-149, 0x1p-23, 16777216, 0x7fc00000, 0x7f800000, 6, 9},
    {"fp64", 0x1.fffffffffffffp1023, 0x1p-1022, 0x1p-1074, 0x1p-52, 0x1p53, 0x7ff8000000000000, 0x7ff0000000000000, 15,
     17},
    {"e4m3", 448, 0x1p-6, 0x1p-9, 0x1p-3, 16, 0x7f, 0, 0, 3},
    {"e5m2", 57344, 0x1p-14, 0x1p-16, 0x1p-2, 8, 0x7e, 0x7c, 0, 2},
    {"e4m3fnuz", 240, 0x1p-7, 0x1p-10, 0x1p-3, 16, 0x80, 0, 0, 3},
    {"e5m2fnuz", 57344, 0x1p-15, 0x1p-17, 0x1p-2, 8, 0x80, 0, 0, 2},
    {"e4m3b11fnuz", 30, 0x1p-10, 0x1p-13, 0x1p-3, 16, 0x80, 0, 0, 3},
    {"e4m3ieee", 240, 0x1p-6, 0x1p-9, 0x1p-3, 16, 0x7c, 0x78, 0, 3},
    {"e3m4", 15.5, 0x1p-2, 0x1p-6, 0x1p-4, 15, 0x78, 0x70, 1, 3},
    {"e3m2", 28, 0x1p-2, 0x1p-4, 0x1p-2, 8, 0, 0, 0, 2},
    {"e2m3", 7.5, 1, 0x1p-3, 0x1p-3, 7, 0, 0, 0, 3},
    {"e2m1", 6, 1, 0.5, 0.5, 4, 0, 0, 0, 2},
    {"e8m0", 0x1p127, 0x1p-127, 0x1p-127, 1, 2, 0xff, 0, 0, 2},
    {"p3109k8p3", 49152, 0x1p-15, 0x1p-17, 0x1p-2, 8, 0x80, 0x7f, 0, 2},
    {"p3109k8p4", 224, 0x1p-7, 0x1p-10, 0x1p-3, 16, 0x80, 0x7f, 0, 3},
};

TEST(Catalogue, published_constants) {
  EXPECT_EQ(std::size(published), catalogue().size());
  for (const Published& want : published) {
    SCOPED_TRACE(want.name);
    const FloatFormat f = parse_format(want.name);
    EXPECT_EQ(f.value(f.max_finite()), want.max);
    EXPECT_EQ(f.value(f.min_normal()), want.min_normal);
    EXPECT_EQ(f.value(f.min_positive()), want.min_positive);
    EXPECT_EQ(f.epsilon(), want.epsilon);
    EXPECT_EQ(f.largest_consecutive_integer(), want.consecutive);
    EXPECT_EQ(f.has_nan() ? f.canonical_nan() : 0, want.nan);
    EXPECT_EQ(f.has_infinity() ? f.infinity() : 0, want.infinity);
    EXPECT_EQ(f.digits10(), want.digits10);
    EXPECT_EQ(f.max_digits10(), want.max_digits10);
    EXPECT_EQ(f.emin(), std::ilogb(want.min_normal));
    EXPECT_EQ(f.emax(), std::ilogb(want.max));
  }
}

TEST(Catalogue, largest_consecutive_integer_is_what_it_says) {
  for (const NamedFormat& row : catalogue()) {
    const FloatFormat f = row.format;
    if (f.storage_bits() > 19) continue;
    std::set<double> values;
    for (std::uint64_t code = 0; code <= f.max_finite(); ++code) values.insert(f.value(code));
    double n = 0;
    while (values.count(n + 1)) ++n;
    EXPECT_EQ(f.largest_consecutive_integer(), n) << row.name;
  }
}

TEST(Catalogue, names_aliases_and_citations) {
  std::set<std::string> seen;
  for (const NamedFormat& row : catalogue()) {
    EXPECT_EQ(parse_format(row.name), row.format);
    EXPECT_EQ(format_name(row.format), row.name);
    ASSERT_NE(find_named(row.format), nullptr);
    EXPECT_EQ(find_named(row.format)->name, row.name);
    EXPECT_FALSE(row.title.empty());
    EXPECT_FALSE(row.citation.empty());
    EXPECT_TRUE(seen.insert(std::string(row.name)).second) << row.name;
    for (const std::string_view alias : row.aliases) {
      if (alias.empty()) continue;
      EXPECT_EQ(parse_format(alias), row.format) << alias;
      std::string upper(alias);
      for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
      EXPECT_EQ(parse_format(upper), row.format) << upper;
    }
  }
  EXPECT_EQ(parse_format("float8_e4m3fn"), e4m3);
  EXPECT_EQ(parse_format("float8_e4m3"), e4m3ieee);  // as ml_dtypes and LLVM spell the IEEE-like one
  EXPECT_EQ(parse_format("e4m3"), e4m3);
  EXPECT_EQ(parse_format("e4m3fn"), e4m3);
}

TEST(Catalogue, grammar_of_names) {
  EXPECT_EQ(parse_format("e5m3"), (FloatFormat{5, 3, 15, NonFinite::ieee}));
  EXPECT_EQ(parse_format("E5M3IEEE"), (FloatFormat{5, 3, 15, NonFinite::ieee}));
  EXPECT_EQ(parse_format("e4m3b11fnuz"), e4m3b11fnuz);
  EXPECT_EQ(parse_format("e6m9finite"), (FloatFormat{6, 9, 31, NonFinite::none}));
  EXPECT_EQ(parse_format("e5m2p3109"), p3109k8p3);
  EXPECT_EQ(parse_format("e4m2fnuz"), (FloatFormat{4, 2, 8, NonFinite::nan_negative_zero}));
  EXPECT_EQ(parse_format("e4m2b-3fn"), (FloatFormat{4, 2, -3, NonFinite::nan_all_ones}));
  EXPECT_EQ(parse_format("e5m10"), fp16);
  EXPECT_EQ(parse_format("e2m1ieee"), (FloatFormat{2, 1, 1, NonFinite::ieee}));
}

TEST(Catalogue, format_name_reads_back) {
  std::vector<FloatFormat> many;
  for (int e = 1; e <= 11; ++e)
    for (int m = 0; m <= 52; m += m < 12 ? 1 : 5)
      for (int bias = -70; bias <= 1080; bias += bias < 20 ? 1 : 97)
        for (const NonFinite n : {NonFinite::ieee, NonFinite::nan_all_ones, NonFinite::nan_negative_zero,
                                  NonFinite::p3109, NonFinite::none})
          many.push_back({e, m, bias, n});
  int read = 0;
  for (const FloatFormat& f : many) {
    const std::string name = format_name(f);
    try {
      EXPECT_EQ(parse_format(name), f) << name;
      ++read;
    } catch (const std::invalid_argument& error) {
      // Refused only for its size, never because the name is not understood.
      EXPECT_EQ(std::string(error.what()).find("unknown"), std::string::npos) << name << ": " << error.what();
    }
  }
  EXPECT_GT(read, 10'000);
}

/// The refusal is one line that names the mistake and contains `wanted`.
void expect_refused(const std::string& name, const std::string& wanted) {
  try {
    parse_format(name);
    ADD_FAILURE() << "accepted: " << name;
  } catch (const std::invalid_argument& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find(wanted), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_NE(message.find("accepted"), std::string::npos) << message;
  }
}
TEST(Catalogue, bad_names) {
  expect_refused("fp17", "did you mean fp16?");
  expect_refused("tf23", "did you mean tf32?");
  expect_refused("FP8", "accepted: e4m3, e5m2");
  expect_refused("mxfp4", "is a block format");
  expect_refused("e4m3fnu", "did you mean e4m3fnuz?");
  expect_refused("tf23", "accepted: fp16, bf16, tf32, fp32,");  // always in the catalogue's order
  expect_refused("i8", "unknown format 'i8'; ");
  expect_refused("", "unknown format ''; accepted: fp16");
  expect_refused("e", "eXmY");
  expect_refused("e4", "eXmY");
  expect_refused("em3", "eXmY");
  expect_refused("e4m3x", "eXmY");
  expect_refused("e4m3b", "eXmY");
  expect_refused("e4m3bfn", "eXmY");
  expect_refused("e4m3 ", "eXmY");
  expect_refused("e99999999999m3", "eXmY");
  expect_refused("e12m3", "12 exponent bits");
  expect_refused("e0m3", "0 exponent bits");
  expect_refused("e4m53", "53 fraction bits");
  expect_refused("e-4m3", "-4 exponent bits");
  expect_refused("e5m0", "too small");
  expect_refused("e1m3", "too small");
  expect_refused("e1m0fn", "fewer than 3 bits");
  expect_refused("e11m52b2000", "range of a double");
  expect_refused("e11m52finite", "range of a double");
  expect_refused("e8m7b-2000", "range of a double");
  expect_refused("e5m2\nfn", "unknown format");
  expect_refused(std::string(1'000'000, 'e'), "unknown format");
}

// No name can say that a format has no sign or no zero, but e8m0.
TEST(Catalogue, OnlyE8m0LacksASignOrAZero) {
  EXPECT_EQ(defect(e8m0), "");
  for (const auto& [is_signed, has_zero] : {std::pair{false, true}, {true, false}, {false, false}}) {
    FloatFormat f = e5m2;
    f.is_signed = is_signed, f.has_zero = has_zero;
    EXPECT_NE(defect(f).find("sign or a zero"), std::string::npos) << is_signed << has_zero;
  }
}

/// Every code of every format up to 19 bits: value and class as the oracle decodes them.
TEST(Catalogue, value_of_every_code) {
  std::vector<FloatFormat> all = check::named({"e5m2finite", "e5m2fn", "e3m3", "e4m2fnuz", "e2m2fn", "e5m0fn",
                                               "e3m0finite", "e1m2finite", "e4m3b-5", "e6m9finite", "e8m4p3109",
                                               "e11m3", "e11m4b1070", "e2m1ieee", "e3m0b1074finite"});
  for (const NamedFormat& row : catalogue())
    if (row.format.storage_bits() <= 19) all.push_back(row.format);
  for (const FloatFormat& f : all) {
    SCOPED_TRACE(format_name(f));
    EXPECT_EQ(f.max_finite(), oracle::max_code(f));
    EXPECT_EQ(f.emin(), oracle::emin(f));
    for (std::uint64_t code = 0; code <= f.code_mask(); ++code) {
      const oracle::Value v = oracle::decode(f, code);
      ASSERT_EQ(f.is_nan(code), v.kind == oracle::Class::nan) << code;
      ASSERT_EQ(f.is_infinite(code), v.kind == oracle::Class::infinite) << code;
      ASSERT_EQ(f.is_finite(code), v.kind == oracle::Class::finite) << code;
      ASSERT_EQ(f.is_zero(code), v.zero()) << code;
      ASSERT_EQ(f.is_signaling(code), oracle::is_signaling(f, code)) << code;
      const double value = f.value(code);
      if (v.kind == oracle::Class::nan) {
        ASSERT_TRUE(std::isnan(value)) << code;
        continue;
      }
      const double magnitude = v.kind == oracle::Class::infinite
                                   ? INFINITY
                                   : std::ldexp(static_cast<double>(v.significand), v.exponent);
      ASSERT_EQ(std::bit_cast<std::uint64_t>(value), std::bit_cast<std::uint64_t>(v.sign ? -magnitude : magnitude))
          << code;
    }
  }
}

template <FloatFormat F>
struct Tagged {
  static constexpr double max = F.value(F.max_finite());
};
static_assert(Tagged<e4m3>::max == 448 && Tagged<e5m2>::max == 57344, "a format is a template argument");
static_assert(Tagged<FloatFormat{6, 9, 31, NonFinite::none}>::max > 4e9);

}  // namespace catalogue_test
