// Cast profiles: rounding against rationals, edges against literal code words, arrays and differences against single
// casts.
#include "check.hpp"

#include <halfulp/emulation/conversion.hpp>
#include <halfulp/emulation/cast/difference.hpp>

#include <cmath>
#include <map>

namespace profiles_test {

using namespace halfulp;

/// Finite operands by rationals. At the edges it takes the rule's own fields.
std::uint64_t judged(const CastRule& rule, FloatFormat from, std::uint64_t code) {
  if (rule.through_fp32 & source_bit(from)) {
    Rounding to_fp32;
    to_fp32.flush_outputs = rule.flush_fp32;
    code = oracle::evaluate({Operation::convert, from, fp32, to_fp32}, code).code;
    from = fp32;
  }
  const bool negative = from.sign(code);
  if (from.is_infinite(code)) return rule.infinity[negative];  // by the rounding to fp32
  if (from.magnitude(code) == 0) return rule.zero[negative];
  const double value = std::abs(from.value(code));
  if (rule.flush_inputs && value < from.value(from.min_normal())) return rule.zero[negative];
  if (negative && rule.to == e8m0) {
    if (!rule.ignore_sign) return 0xff;
    code ^= from.sign_mask();
  }
  for (const CastException& e : rule.exceptions)
    if (value >= fp32.value(e.first) && value <= fp32.value(e.last)) return e.result;
  if (rule.overflow_above != 0 && value > rule.to.value(rule.to.max_finite())) return rule.overflow[negative];
  Rounding rounding;
  rounding.mode = rule.mode;
  const Rounded result = oracle::evaluate({Operation::convert, from, rule.to, rounding}, code);
  return (result.flags & flag::overflow) != 0 ? rule.overflow[negative] : result.code;
}

std::vector<std::uint64_t> operands(const CastRule& rule, const FloatFormat& from) {
  std::vector<std::uint64_t> codes = check::lattice(from, 1);
  check::Random random{7};
  for (int i = 0; i < 300; ++i) codes.push_back(random() & from.code_mask());
  // Every boundary of narrow targets: values, midpoints, and their neighbours.
  const FloatFormat& to = rule.to;
  const std::uint64_t stride = to.storage_bits() > 8 ? 97 : 1;
  for (std::uint64_t m = 0; m < to.max_finite(); m += stride)
    for (const double x : {to.value(m), (to.value(m) + to.value(m + 1)) / 2, to.value(to.max_finite()) * 1.03125,
                           to.value(to.max_finite()) * 1.0625}) {
      const std::uint64_t near = encode(from, {}, x).code;
      for (const std::uint64_t code :
           {near - 1, near, near + 1, (near + 1) | from.sign_mask(), near | from.sign_mask()})
        codes.push_back(code & from.code_mask());
    }
  return codes;
}

TEST(Profiles, RoundAsRationalsDo) {
  std::uint64_t rules = 0;
  for (const Profile& profile : profiles())
    for (const CastRule& rule : profile.rules)
      for (const FloatFormat& from : source_formats(rule.from)) {
        std::uint64_t wrong = 0, finite = 0, number = 0;
        const std::vector<std::uint64_t> codes = operands(rule, from);
        const std::uint64_t stride = check::exhaustive() ? 1
                                                         : 1 + codes.size() / 250;  // a different part for every rule
        for (const std::uint64_t code : codes) {
          if (++number % stride != (rules + stride / 2) % stride || !from.is_finite(code)) continue;
          ++finite;
          const std::uint64_t got = apply(rule, from, code), want = judged(rule, from, code);
          if (got != want && ++wrong < 4)
            ADD_FAILURE() << profile.name << ' ' << format_name(from) << " to " << format_name(rule.to) << std::hex
                          << " of " << code << ": " << got << ", not " << want;
        }
        EXPECT_EQ(wrong, 0u);
        EXPECT_GT(finite, 60u);
        ++rules;
      }
}

struct Case {
  const char *profile, *from, *to;
  std::uint64_t code, result;
};
// Expected values from documents, issues and runs, entered by hand.
constexpr Case cases[] = {
    // ml_dtypes issues 147, 260, 400: 449 is 448, 464 is 448, 465 and 1000 are NaN.
    {"ml_dtypes", "fp32", "e4m3", 0x43e0'8000, 0x7e},
    {"ml_dtypes", "fp32", "e4m3", 0x43e8'0000, 0x7e},
    {"ml_dtypes", "fp32", "e4m3", 0x43e8'0001, 0x7f},
    {"ml_dtypes", "fp32", "e4m3", 0xc47a'0000, 0xff},
    {"ml_dtypes", "fp32", "e5m2", 0x4770'0000, 0x7c},
    {"ml_dtypes", "fp32", "e5m2", 0x476f'ffff, 0x7b},
    {"ml_dtypes", "fp32", "e4m3", 0xffc0'0000, 0xff},
    {"ml_dtypes", "fp32", "e4m3fnuz", 0x8000'0000, 0x00},
    {"ml_dtypes", "fp32", "e4m3fnuz", 0x7f80'0000, 0x80},
    {"ml_dtypes", "fp32", "e2m1", 0x7fc0'0000, 0x8},
    {"ml_dtypes", "fp32", "e2m1", 0xffc0'0000, 0x0},
    {"ml_dtypes", "fp32", "e8m0", 0, 0xff},
    {"ml_dtypes", "fp32", "e8m0", 0x4040'0000, 0x81},
    {"ml_dtypes", "fp32", "e8m0", 0xc000'0000, 0xff},
    {"ml_dtypes", "fp32", "e8m0", 0x8040'0001, 0xff},
    {"ml_dtypes", "fp32", "e8m0", 0x0040'0001, 0x01},
    {"ml_dtypes", "fp32", "fp16", 0x7f80'0001, 0x7c01},
    // 1 + 2^-4 + 2^-52, just above a midpoint: by way of float32 or not.
    {"ml_dtypes", "fp64", "e4m3", 0x3ff1'0000'0000'0001, 0x38},
    {"tensorflow", "fp64", "e4m3", 0x3ff1'0000'0000'0001, 0x39},
    {"cuda-nosat", "fp64", "e4m3", 0x3ff1'0000'0000'0001, 0x39},
    {"pytorch", "fp64", "e4m3", 0x3ff1'0000'0000'0001, 0x38},
    {"onnx", "fp64", "e4m3", 0x3ff1'0000'0000'0001, 0x38},
    // PyTorch pull request 178817.
    {"pytorch", "fp32", "e4m3", 0x447a'0000, 0x7e},
    {"pytorch-legacy", "fp32", "e4m3", 0x447a'0000, 0x7f},
    {"pytorch", "fp32", "e4m3", 0x7f80'0000, 0x7e},
    {"pytorch", "fp32", "e5m2", 0x4780'0000, 0x7c},
    {"pytorch", "fp32", "e5m2", 0xffc0'0000, 0xff},
    {"pytorch", "fp32", "bf16", 0x7fc0'0000, 0xffff},
    {"pytorch", "fp16", "bf16", 0xfe00, 0x7fc0},
    {"pytorch", "fp32", "e8m0", 0xc000'0000, 0x80},
    {"pytorch", "fp32", "e8m0", 0x0040'0001, 0x01},
    {"pytorch", "fp32", "e8m0", 0x0040'0000, 0x00},
    {"pytorch", "fp32", "e8m0", 0x4040'0000, 0x81},
    // ONNX issue 6220 and its resolution: an infinity saturates also in formats without one.
    {"onnx", "fp32", "e4m3fnuz", 0x7f80'0000, 0x7f},
    {"onnx", "fp32", "e4m3fnuz", 0xff80'0000, 0xff},
    {"onnx-nosaturate", "fp32", "e4m3fnuz", 0xff80'0000, 0x80},
    {"onnx", "fp32", "e5m2", 0x7f80'0000, 0x7b},
    {"onnx-nosaturate", "fp32", "e5m2", 0x7f80'0000, 0x7c},
    {"onnx", "fp32", "e8m0", 0x0000'0001, 0x01},
    {"onnx", "fp32", "e8m0", 0x3f80'0001, 0x80},
    {"onnx", "fp32", "e8m0", 0x7f7f'ffff, 0xfe},
    {"onnx-nosaturate", "fp32", "e8m0", 0x7f7f'ffff, 0xff},
    // CUDA: one NaN; infinities saturate.
    {"cuda-satfinite", "fp32", "e4m3", 0x43e0'8000, 0x7e},
    {"cuda-satfinite", "fp32", "e4m3", 0xff80'0000, 0xfe},
    {"cuda-satfinite", "fp32", "e4m3", 0xffc0'0000, 0x7f},
    {"cuda-satfinite", "fp32", "e5m2", 0x4780'0000, 0x7b},
    {"cuda-nosat", "fp32", "e4m3", 0xc47a'0000, 0xff},
    {"cuda-nosat", "fp32", "fp16", 0xffc0'0000, 0x7fff},
    {"cuda-satfinite", "fp32", "e2m1", 0xffc0'0000, 0x7},
    {"cuda-satfinite", "fp64", "e5m2", 0xfff4'0000'0000'0000, 0xff},
    {"cuda-satfinite", "fp64", "e4m3", 0xfff8'0000'0000'0000, 0xff},
    // x86: subnormals of bf16 vanish, payloads stay.
    {"x86", "fp32", "bf16", 0x807f'ffff, 0x8000},
    {"x86", "fp32", "bf16", 0x0080'0000, 0x0080},
    {"x86", "fp32", "bf16", 0x7fa0'0000, 0x7fe0},
    {"x86", "fp32", "fp16", 0xff80'0001, 0xfe00},
    {"x86", "fp64", "fp32", 0x7ff4'0000'0000'0000, 0x7fe0'0000},
    {"x86", "fp16", "e4m3", 0x7c00, 0x7f},
    {"x86", "fp16", "e5m2", 0x7c00, 0x7c},
    {"tensorflow", "fp32", "bf16", 0xffc0'0000, 0x7fc0},
    {"tensorflow", "fp64", "bf16", 0xfff8'0000'0000'0000, 0xffc0},
    {"tensorflow", "fp16", "e5m2", 0x7d00, 0x7f},
    {"tensorflow", "fp64", "bf16", 0xb7ba'7d80'0000'0000, 0x8000},
    {"pytorch", "fp64", "bf16", 0xb7ba'7d80'0000'0000, 0x8003},
    {"tensorflow", "fp32", "bf16", 0x0001'0000, 0x0001},
    // microxcaling: 1.0625 is a tie in E4M3 and goes up; -0 loses its sign, what rounds to -0 does not.
    {"microxcaling", "fp32", "e4m3", 0x3f88'0000, 0x39},
    {"microxcaling", "fp32", "e4m3", 0x8000'0000, 0x00},
    {"microxcaling", "fp32", "e4m3", 0x8000'0001, 0x80},
    {"microxcaling", "fp32", "bf16", 0x7f7f'ffd3, 0x7f80},
    {"microxcaling", "fp32", "e4m3", 0x7f7f'ffd3, 0x7e},
    {"microxcaling", "fp32", "e4m3", 0xff7f'ffd4, 0x7f},
    // FNUZ by HIP: everything above 240 is out of range, and an infinity becomes NaN.
    {"fnuz", "fp32", "e4m3fnuz", 0x4370'0001, 0x7f},
    {"fnuz-nosat", "fp32", "e4m3fnuz", 0x4370'0001, 0x80},
    {"fnuz-nosat", "fp32", "e4m3fnuz", 0x4370'0000, 0x7f},
    {"fnuz", "fp32", "e4m3fnuz", 0x7f80'0000, 0x80},
    {"fnuz", "fp32", "e5m2fnuz", 0xc77f'0000, 0xff},
    {"ocp-saturate", "fp32", "e4m3", 0xff80'0000, 0xfe},
    {"ocp-nonsaturate", "fp32", "e4m3", 0xff80'0000, 0x7f},
    {"ocp-nonsaturate", "fp32", "e5m2", 0xff80'0000, 0xfc},
    {"ocp-saturate", "fp32", "e2m1", 0x40e0'0000, 0x7},
    {"ocp-saturate", "bf16", "e5m2", 0x7f80, 0x7b},
};

TEST(Profiles, KnowTheCodeWordsAtTheEdges) {
  for (const Case& c : cases) {
    const FloatFormat from = parse_format(c.from), to = parse_format(c.to);
    EXPECT_EQ(apply(rule_for(find_profile(c.profile), from, to), from, c.code), c.result)
        << c.profile << ' ' << c.from << ' ' << c.to << std::hex << ' ' << c.code;
  }
}

template <class Out>
void check_array(const CastRule& rule, const std::vector<std::uint32_t>& in) {
  std::vector<Out> out(in.size());
  apply(rule, fp32, std::span<const std::uint32_t>(in), std::span<Out>(out));
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < in.size(); ++i)
    if (out[i] != apply(rule, fp32, in[i]) && ++wrong < 3)
      ADD_FAILURE() << format_name(rule.to) << std::hex << ' ' << in[i] << ": " << +out[i] << ", one by one "
                    << apply(rule, fp32, in[i]);
  EXPECT_EQ(wrong, 0u);
}

/// Arrays of everything, and arrays of one kind only, which take short cuts.
TEST(Profiles, ArraysAreAsOneByOne) {
  for (const Profile& profile : profiles())
    for (const CastRule& rule : profile.rules) {
      if (!(rule.from & source::fp32)) continue;
      SCOPED_TRACE(std::string(profile.name) + " to " + format_name(rule.to));
      std::vector<std::uint32_t> mixed;
      for (const std::uint64_t code : operands(rule, fp32)) mixed.push_back(static_cast<std::uint32_t>(code));
      check::Random random{3};
      for (std::size_t i = mixed.size(); i > 1; --i) std::swap(mixed[i - 1], mixed[random() % i]);
      std::vector<std::vector<std::uint32_t>> arrays{mixed, {}, {0x8000'0000}};
      for (const auto& [first, step] :
           {std::pair(0x7f00'0000U, 3U), std::pair(0x7f80'0001U, 1111U), std::pair(0x7f7f'f000U, 1U),
            std::pair(0xff80'0000U, 997U), std::pair(0xc400'0000U, 5U), std::pair(0x0000'0000U, 2000U),
            std::pair(0x3f80'0000U, 4099U), std::pair(0x8000'0000U, 700U)}) {
        arrays.emplace_back();
        for (std::uint32_t i = 0; i < 4100; ++i) arrays.back().push_back(first + i * step);
      }
      arrays.emplace_back();
      for (std::uint32_t i = 0; i < 4100; ++i)
        arrays.back().push_back((0x7f00'0000U + i) | i << 31);  // out of range, with alternating signs
      arrays.emplace_back();
      for (std::uint32_t i = 0; i < 4100; ++i)
        arrays.back().push_back((0x7f90'0000U + i) | i << 31);  // NaN of either sign
      for (const auto& in : arrays) {
        if (rule.to.storage_bits() <= 8) check_array<std::uint8_t>(rule, in);
        if (rule.to.storage_bits() <= 16) check_array<std::uint16_t>(rule, in);
        check_array<std::uint32_t>(rule, in);
      }
    }
}

char kind(const FloatFormat& f, std::uint64_t code) { return f.is_nan(code) ? 'n' : f.is_infinite(code) ? 'i' : 'f'; }

/// Ranges found by casting one operand after the other.
void check_differences(const CastRule& ra, const CastRule& rb, const FloatFormat& from, bool any_nan) {
  const FloatFormat& to = ra.to;
  const CastDifferences got = differences({from, &ra, &rb, any_nan});
  std::vector<CastRange> want;
  std::string before;
  std::uint64_t differing = 0, witness = ~std::uint64_t{0};
  for (std::uint64_t code = 0; code <= from.code_mask(); ++code) {
    const std::uint64_t x = apply(ra, from, code), y = apply(rb, from, code);
    std::string now;
    if (x != y && !(any_nan && to.is_nan(x) && to.is_nan(y)))
      now = {from.sign(code) ? '-' : '+', kind(from, code), kind(to, x), kind(to, y)};
    if (!now.empty()) {
      if (now != before) want.push_back({code, code, 0, x, x, y, y, true});
      CastRange& range = want.back();
      range.constant &= range.a_first == x && range.b_first == y;
      range.last = code, range.a_last = x, range.b_last = y, ++range.count, ++differing;
      if (witness == ~std::uint64_t{0} || from.magnitude(code) < from.magnitude(witness)) witness = code;
    }
    before = now;
  }
  EXPECT_TRUE(got.exhaustive);
  EXPECT_EQ(got.compared, from.code_mask() + 1);
  EXPECT_EQ(got.differing, differing);
  EXPECT_EQ(got.witness.value_or(~std::uint64_t{0}), witness);
  ASSERT_EQ(got.ranges.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    const CastRange &g = got.ranges[i], &w = want[i];
    EXPECT_EQ(std::tie(g.first, g.last, g.count, g.a_first, g.a_last, g.b_first, g.b_last, g.constant),
              std::tie(w.first, w.last, w.count, w.a_first, w.a_last, w.b_first, w.b_last, w.constant))
        << std::hex << g.first << ' ' << w.first;
  }
}

void check_differences(const char* a, const char* b, const FloatFormat& from, const FloatFormat& to, bool any_nan) {
  SCOPED_TRACE(std::string(a) + " " + b + " " + format_name(from) + " " + format_name(to));
  check_differences(rule_for(find_profile(a), from, to), rule_for(find_profile(b), from, to), from, any_nan);
}

TEST(Profiles, DifferencesAreThoseOfEveryOperand) {
  for (const bool any_nan : {false, true}) {
    check_differences("ml_dtypes", "cuda-satfinite", fp16, e4m3, any_nan);
    check_differences("pytorch", "onnx", fp16, e5m2, any_nan);
    check_differences("pytorch", "ml_dtypes", bf16, fp16, any_nan);  // runs of NaN whose payloads differ
    check_differences("onnx", "pytorch", bf16, e8m0, any_nan);
    check_differences("fnuz", "ml_dtypes", fp16, e4m3fnuz, any_nan);
  }
  check_differences("ml_dtypes", "onnx-nosaturate", fp16, e4m3, false);  // none
  // Neighbours that differ in different ways: 300 to 310 is NaN, 310.25 to 320 is 2^-9.
  constexpr CastException odd[] = {{0x4396'0000, 0x439b'0000, 0x7f}, {0x439b'0001, 0x43a0'0000, 0x01}};
  CastRule rule = rule_for(find_profile("ml_dtypes"), fp16, e4m3);
  rule.exceptions = odd;
  for (const bool any_nan : {false, true})
    check_differences(rule_for(find_profile("ml_dtypes"), fp16, e4m3), rule, fp16, any_nan);
}

/// Ranges that touch at the ends of the search's pieces are joined.
TEST(Profiles, RangesOfFloatsAreWhole) {
  const CastDifferences found = differences({fp32, &rule_for(find_profile("pytorch"), fp32, e4m3),
                                             &rule_for(find_profile("pytorch-legacy"), fp32, e4m3), false});
  ASSERT_EQ(found.ranges.size(), 4u);
  const std::uint64_t finite = 0x7f80'0000 - 0x43e8'0001;
  EXPECT_EQ(found.compared, std::uint64_t{1} << 32);
  EXPECT_EQ(found.differing, 2 * (finite + 1));
  EXPECT_EQ(found.witness, 0x43e8'0001u);
  for (const auto& [i, first, count] :
       {std::tuple(0, 0x43e8'0001U, finite), std::tuple(1, 0x7f80'0000U, std::uint64_t{1}),
        std::tuple(2, 0xc3e8'0001U, finite), std::tuple(3, 0xff80'0000U, std::uint64_t{1})}) {
    const CastRange& range = found.ranges[static_cast<std::size_t>(i)];
    EXPECT_EQ(range.first, first);
    EXPECT_EQ(range.count, count);
    EXPECT_EQ(range.last, first + count - 1);
    EXPECT_TRUE(range.constant);
    EXPECT_EQ(range.a_first & 0x7f, 0x7eu);
    EXPECT_EQ(range.b_first & 0x7f, 0x7fu);
  }
}

/// For fp64 a sample finds the rounding to float32 on the way, and no false difference.
TEST(Profiles, SamplesOfDoublesFindTwoRoundings) {
  for (const FloatFormat& to : {e4m3, e5m2}) {
    const CastRule &a = rule_for(find_profile("ml_dtypes"), fp64, to),
                   &b = rule_for(find_profile("tensorflow"), fp64, to);
    const CastDifferences found = differences({fp64, &a, &b, false});
    EXPECT_FALSE(found.exhaustive);
    EXPECT_GT(found.differing, 100u);
    EXPECT_LT(found.differing, found.compared / 10);
    for (const CastRange& range : found.ranges)
      for (const std::uint64_t code : {range.first, range.last}) EXPECT_NE(apply(a, fp64, code), apply(b, fp64, code));
    const CastRule& c = rule_for(find_profile("onnx-nosaturate"), fp64, to);
    EXPECT_EQ(differences({fp64, &a, &c, false}).differing, 0u);
  }
}

std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const std::invalid_argument& error) { return error.what(); }
  return "";
}

TEST(Profiles, UnknownThingsAreRefusedInOneLine) {
  EXPECT_NE(refusal([] { find_profile("ml_dtype"); }).find("did you mean ml_dtypes?"), std::string::npos);
  EXPECT_EQ(refusal([] { rule_for(find_profile("tensorflow"), fp32, e2m1); }),
            "tensorflow does not convert fp32 to e2m1; accepted of fp32: e4m3, e5m2, bf16, fp16");
  EXPECT_EQ(refusal([] { rule_for(find_profile("microxcaling"), fp16, e4m3); }),
            "microxcaling does not convert fp16 to e4m3; accepted as --from: fp32");
  const CastRule &a = rule_for(find_profile("onnx"), fp32, e4m3), &b = rule_for(find_profile("onnx"), fp32, e5m2);
  EXPECT_NE(refusal([&] { differences({fp32, &a, &b, false}); }), "");
  std::vector<std::uint32_t> in(3);
  std::vector<std::uint8_t> out(2);
  EXPECT_NE(refusal([&] { apply(a, fp32, std::span<const std::uint32_t>(in), std::span<std::uint8_t>(out)); }), "");
  const CastRule& half = rule_for(find_profile("onnx"), fp32, fp16);
  out.resize(3);
  EXPECT_NE(refusal([&] { apply(half, fp32, std::span<const std::uint32_t>(in), std::span<std::uint8_t>(out)); }), "");
}

/// Names are unique, no two rules of a profile match the same cast, and rules give code words of the target.
TEST(Profiles, TablesAreSound) {
  std::map<std::string_view, int> names;
  for (const Profile& profile : profiles()) {
    EXPECT_EQ(++names[profile.name], 1) << profile.name;
    for (const std::string_view text : {profile.title, profile.version, profile.citation, profile.elsewhere})
      EXPECT_FALSE(text.empty()) << profile.name;
    std::map<std::string, int> pairs;
    for (const CastRule& rule : profile.rules) {
      EXPECT_NE(rule.from, 0) << profile.name;
      for (const FloatFormat& from : source_formats(rule.from))
        EXPECT_EQ(++pairs[format_name(from) + format_name(rule.to)], 1)
            << profile.name << ' ' << format_name(from) << ' ' << format_name(rule.to);
      for (const BySign& codes : {rule.overflow, rule.infinity, rule.nan, rule.zero})
        for (const bool sign : {false, true})
          EXPECT_EQ(codes[sign] & ~rule.to.code_mask(), 0u) << profile.name << ' ' << format_name(rule.to);
    }
  }
  for (const char* name :
       {"ocp-saturate", "ocp-nonsaturate", "ml_dtypes", "pytorch", "pytorch-legacy", "onnx", "onnx-nosaturate",
        "cuda-satfinite", "cuda-nosat", "x86", "tensorflow", "fnuz", "microxcaling"})
    EXPECT_EQ(names[name], 1) << name;
}

}  // namespace profiles_test
