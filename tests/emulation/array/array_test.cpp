// Array functions equal the scalar ones, element by element: with every instruction set of this CPU, at any length and
// alignment, on any number of threads.
#include "array_cases.hpp"

#include <tbb/global_control.h>

#include <numeric>
#include <sstream>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace array_test {

using namespace halfulp;
using namespace check;

INSTANTIATE_TEST_SUITE_P(InstructionSets, Arrays, instruction_sets(), set_name);

/// f(Code{}) for the words that hold a format's code words; kernels store each kind in a way of its own.
template <class F>
void each_word(const FloatFormat& f, F test) {
  if (f.storage_bits() <= 8) test(std::uint8_t{});
  if (f.storage_bits() <= 16) test(std::uint16_t{});
  if (f.storage_bits() <= 32) test(std::uint32_t{});
}

template <class T>
void quantize_and_encode_like_convert(const FloatFormat& carrier) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  for (const FloatFormat& f : formats()) {
    const std::vector<T> in = inputs<T>(f, 1);
    std::vector<T> out(in.size());
    std::vector<std::uint64_t> wanted_codes(in.size());
    const auto text = [&](const Rounding& r) {
      std::ostringstream what;
      what << format_name(f) << " " << name_of(r.mode) << " " << name_of(r.overflow) << " flush " << r.flush_inputs
           << r.flush_outputs << " nan " << name_of(r.nan) << " bits " << r.random_bits;
      return what.str();
    };
    for (const Rounding& r : roundings()) {
      quantize(f, r, std::span<const T>(in), std::span<T>(out), stream);
      Rounding back;
      back.nan = r.nan;
      int differing = 0;
      for (std::size_t i = 0; i < in.size() && differing < 3; ++i) {
        const Rounded wanted = convert(carrier, f, r, std::bit_cast<Bits>(in[i]), bits_at(i));
        const auto value = static_cast<Bits>(convert(f, carrier, back, wanted.code).code);
        wanted_codes[i] = wanted.code;
        const bool same = std::bit_cast<Bits>(out[i]) == value;
        if (!same) ++differing;
        EXPECT_TRUE(same) << text(r) << ": " << std::hexfloat << in[i] << " gives " << out[i] << ", not " << std::hex
                          << wanted.code;
      }
      each_word(f, [&]<class Code>(Code) {
        std::vector<Code> codes(in.size());
        encode<T, Code>(f, r, in, codes, stream);
        const auto differs = std::ranges::mismatch(codes, wanted_codes);
        EXPECT_TRUE(differs.in1 == codes.end())
            << text(r) << " in " << sizeof(Code) << " bytes: " << std::hexfloat << in[differs.in1 - codes.begin()]
            << " gives " << std::hex << +*differs.in1 << ", not " << *differs.in2;
      });
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST_P(Arrays, quantize_and_encode_floats_like_convert) { quantize_and_encode_like_convert<float>(fp32); }
TEST_P(Arrays, quantize_and_encode_doubles_like_convert) { quantize_and_encode_like_convert<double>(fp64); }

TEST_P(Arrays, decode_every_code) {
  for (const FloatFormat& f : formats()) {
    each_word(f, [&]<class Code>(Code) {
      std::vector<Code> codes;
      const std::uint64_t step = f.storage_bits() <= 16 ? 1 : f.code_mask() / 50'021;
      for (std::uint64_t code = 0; code <= f.code_mask(); code += step) codes.push_back(static_cast<Code>(code));
      codes.push_back(static_cast<Code>(f.code_mask()));
      for (std::size_t i = 0; codes.size() < 300; ++i) codes.push_back(codes[i]);  // several vectors
      std::vector<float> out(codes.size());
      decode<Code>(f, codes, out);
      for (std::size_t i = 0; i < codes.size(); ++i)
        ASSERT_EQ(std::bit_cast<std::uint32_t>(out[i]), convert(f, fp32, {}, codes[i]).code)
            << format_name(f) << " in " << sizeof(Code) << " bytes: " << std::hex << +codes[i];
    });
  }
}

TEST_P(Arrays, arithmetic_on_all_pairs_of_narrow_formats) {
  for (const auto& name : {"e4m3", "e5m2", "e2m1", "e3m4", "e5m2fnuz", "p3109k8p3", "e7m0finite", "e4m3b127"}) {
    const FloatFormat f = parse_format(name);
    const std::size_t n = f.code_mask() + 1;
    std::vector<std::uint8_t> a(n * n), b(n * n), c(n * n);
    check::Random random{2};
    for (std::size_t i = 0; i < n * n; ++i) {
      a[i] = static_cast<std::uint8_t>(i / n);
      b[i] = static_cast<std::uint8_t>(i % n);
      c[i] = static_cast<std::uint8_t>(random() & f.code_mask());
    }
    for (const Operation operation : array_operations)
      for (const Rounding& r : roundings())
        if (check::exhaustive() || (random() & 3) == 0) expect_like_evaluate<std::uint8_t>(f, operation, r, a, b, c);
  }
}

template <class Code>
void arithmetic_on_a_lattice(const std::vector<std::string>& names) {
  for (const FloatFormat& f : check::named(names)) {
    const auto points = check::lattice(f, 0);
    check::Random random{3};
    std::vector<Code> a, b, c;
    const auto add = [&](std::uint64_t x, std::uint64_t y, std::uint64_t z) {
      a.push_back(static_cast<Code>(x)), b.push_back(static_cast<Code>(y)), c.push_back(static_cast<Code>(z));
    };
    for (const std::uint64_t x : points)
      for (const std::uint64_t y : points) add(x, y, points[random() % points.size()]);
    for (int i = 0; i < 4000; ++i) {  // close exponents, so that digits overlap
      const std::uint64_t x = random() & f.code_mask(), shift = (random() % 8) << f.fraction_bits;
      const std::uint64_t y = ((x + shift) & f.magnitude_mask() & ~f.fraction_mask()) |
                              (random() & (f.fraction_mask() | f.sign_mask()));
      add(x, i % 2 ? y : random() & f.code_mask(), i % 3 ? random() & f.code_mask() : y);
    }
    for (const Operation operation : array_operations)
      for (const Rounding& r : roundings()) expect_like_evaluate<Code>(f, operation, r, a, b, c);
  }
}

TEST_P(Arrays, arithmetic_on_16_bits) {
  arithmetic_on_a_lattice<std::uint16_t>({"fp16", "bf16", "e6m9finite", "e5m10p3109", "e8m7b95"});
}
TEST_P(Arrays, arithmetic_on_32_bits) { arithmetic_on_a_lattice<std::uint32_t>({"tf32", "fp32", "e6m14", "e8m20"}); }

TEST_P(Arrays, every_length_and_alignment) {
  const Rounding r{.mode = RoundingMode::stochastic};
  check::Random random{4};
  std::vector<float> values(700);
  for (float& x : values) x = static_cast<float>(static_cast<double>(random() >> 40) * 0x1p-20 - 8);
  for (std::size_t offset = 0; offset < 3; ++offset)
    for (std::size_t n = 0; n < 680; n += n < 140 ? 1 : 37) {
      const auto in = std::span<const float>(values).subspan(offset, n);
      std::vector<float> out(n + 8, -1);
      std::vector<std::uint8_t> codes(n + 8, 0xee), sums(n + 8, 0xee);
      std::vector<std::uint16_t> halves(n + 8, 0xeeee), products(n + 8, 0xeeee);
      const RandomStream shifted{stream.seed, stream.stream, stream.first + offset};
      quantize(e4m3, r, in, std::span(out).subspan(offset, n), shifted);
      encode<float, std::uint8_t>(e4m3, r, in, std::span(codes).subspan(offset, n), shifted);
      encode<float, std::uint16_t>(fp16, r, in, std::span(halves).subspan(offset, n), shifted);
      apply<std::uint8_t>(Operation::add, e4m3, {}, std::span(codes).subspan(offset, n),
                          std::span(codes).subspan(offset, n), {}, std::span(sums).subspan(offset, n));
      apply<std::uint16_t>(Operation::mul, fp16, {}, std::span(halves).subspan(offset, n),
                           std::span(halves).subspan(offset, n), {}, std::span(products).subspan(offset, n));
      for (std::size_t i = 0; i < n; ++i) {
        const auto code = convert(fp32, e4m3, r, std::bit_cast<std::uint32_t>(in[i]), bits_at(i + offset)).code;
        const auto half = convert(fp32, fp16, r, std::bit_cast<std::uint32_t>(in[i]), bits_at(i + offset)).code;
        ASSERT_EQ(codes[offset + i], code) << n << " " << i;
        ASSERT_EQ(static_cast<double>(out[offset + i]), e4m3.value(code));
        ASSERT_EQ(halves[offset + i], half);
        ASSERT_EQ(sums[offset + i], evaluate(Operation::add, e4m3, {}, code, code).code);
        ASSERT_EQ(products[offset + i], evaluate(Operation::mul, fp16, {}, half, half).code);
      }
      for (std::size_t i = 0; i < out.size(); ++i)
        if (i < offset || i >= offset + n) {
          ASSERT_EQ(out[i], -1) << "written outside";
          ASSERT_EQ(codes[i], 0xee);
          ASSERT_EQ(sums[i], 0xee);
          ASSERT_EQ(halves[i], 0xeeee);
          ASSERT_EQ(products[i], 0xeeee);
        }
    }
}

TEST_P(Arrays, indices_of_random_words_wrap) {
  const Rounding r{.mode = RoundingMode::stochastic};
  const std::vector<float> in(600, 1.03f);
  std::vector<std::uint8_t> out(in.size());
  for (const std::uint64_t first : {~std::uint64_t{0}, ~std::uint64_t{0} - 255, (std::uint64_t{1} << 34) - 7}) {
    encode<float, std::uint8_t>(e4m3, r, in, out, {1, 2, first});
    for (std::size_t i = 0; i < in.size(); ++i)
      ASSERT_EQ(out[i],
                convert(fp32, e4m3, r, std::bit_cast<std::uint32_t>(in[i]), rounding_bits(1, 2, first + i)).code)
          << first << " + " << i;
  }
}

// Two or four roundings to a word: any first index, every way a format is rounded, arithmetic, and indices that wrap.
TEST_P(Arrays, roundings_share_random_words) {
  for (const int n : {2, 4})
    for (const int bits : {1, 7, 32 / n})
      for (const std::uint64_t first :
           {std::uint64_t{0}, std::uint64_t{5}, std::uint64_t{6}, ~std::uint64_t{0} - 301}) {
        const Rounding r{.mode = RoundingMode::stochastic, .random_bits = bits};
        const RandomStream shared{1, 2, first, n};
        check::Random random{first + 9};
        std::vector<float> in(1700);
        for (float& x : in) x = static_cast<float>(static_cast<double>(random() >> 40) * 0x1p-20 - 8);
        const std::vector<double> wide(in.begin(), in.end());
        std::vector<float> out(in.size());
        std::vector<double> wide_out(in.size());
        std::vector<std::uint8_t> codes(in.size()), sums(in.size());
        std::vector<std::uint16_t> words(in.size());
        Tally tally;
        quantize(e4m3, r, in, out, shared);
        quantize(fp16, r, wide, wide_out, shared);
        encode<float, std::uint8_t>(e4m3, r, in, codes, shared, &tally);
        encode<float, std::uint16_t>(bf16, r, in, words, shared);
        apply<std::uint8_t>(Operation::mul, e4m3, r, codes, codes, {}, sums, shared);
        for (std::size_t i = 0; i < in.size(); ++i) {
          const std::uint64_t drawn = check::shared_bits(1, 2, first + i, n);
          ASSERT_EQ(shared.bits(i), drawn);
          const auto word = std::bit_cast<std::uint32_t>(in[i]);
          const std::uint64_t code = convert(fp32, e4m3, r, word, drawn).code;
          ASSERT_EQ(codes[i], code) << n << " " << bits << " " << first << " " << i;
          ASSERT_EQ(static_cast<double>(out[i]), e4m3.value(code));
          ASSERT_EQ(words[i], convert(fp32, bf16, r, word, drawn).code);
          ASSERT_EQ(wide_out[i], fp16.value(convert(fp32, fp16, r, word, drawn).code));
          ASSERT_EQ(sums[i], evaluate(Operation::mul, e4m3, r, code, code, 0, drawn).code);
        }
        EXPECT_EQ(tally.elements, in.size());
      }
}

TEST_P(Arrays, the_number_of_threads_does_not_show) {
  const Rounding r{.mode = RoundingMode::stochastic};
  std::vector<float> in(300'001), one(in.size()), two(in.size()), inplace;
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i % 997) * 0.01f;
  inplace = in;
  Tally tally_one, tally_two;
  {
    const tbb::global_control single(tbb::global_control::max_allowed_parallelism, 1);
    quantize(e5m2, r, in, one, stream);
    quantize(e5m2, {}, std::span<const float>(in).first(150'000), std::span(two).first(150'000), {}, &tally_one);
  }
  {
    const tbb::global_control both(tbb::global_control::max_allowed_parallelism, 2);
    quantize(e5m2, r, in, two, stream);
    EXPECT_EQ(one, two);
    quantize(e5m2, {}, std::span<const float>(in).first(150'000), std::span(two).first(150'000), {}, &tally_two);
  }
  EXPECT_EQ(tally_one, tally_two);
  quantize(e5m2, r, inplace, inplace, stream);
  EXPECT_EQ(one, inplace);
}

// The register that says how this thread's floating-point arithmetic rounds and what it flushes: MXCSR or FPCR.
#if defined(__SSE2__)
constexpr std::uint64_t settings = 0xe07f, strange_settings = 0xc040;  // all and the flags; FTZ, DAZ, toward +Inf
std::uint64_t control() { return _mm_getcsr(); }
void set_control(std::uint64_t value) { _mm_setcsr(static_cast<unsigned>(value)); }
#elif defined(__aarch64__)
constexpr std::uint64_t settings = 0x1c0'0000, strange_settings = 0x140'0000;  // all; FZ, toward +Inf
std::uint64_t control() {
  std::uint64_t value = 0;
  asm volatile("mrs %0, fpcr" : "=r"(value));
  return value;
}
void set_control(std::uint64_t value) { asm volatile("msr fpcr, %0" : : "r"(value)); }
#endif

#if defined(__SSE2__) || defined(__aarch64__)
TEST_P(Arrays, the_callers_environment_does_not_show) {
  const std::vector<float> in = inputs<float>(bf16, 7);
  std::vector<std::uint8_t> codes(300);
  std::iota(codes.begin(), codes.end(), std::uint8_t{0});
  std::vector<float> plain(3 * in.size() + codes.size()), strange(plain);
  const auto all = [&](std::span<float> out) {
    quantize(fp16, {}, in, out.first(in.size()));
    quantize(bf16, {}, in, out.subspan(in.size(), in.size()));
    quantize(e4m3, {}, in, out.subspan(2 * in.size(), in.size()));
    decode<std::uint8_t>(e5m2, codes, out.last(codes.size()));
  };
  all(plain);
  const std::uint64_t saved = control();
  set_control((saved & ~settings) | strange_settings);
  all(strange);
  const std::uint64_t after = control();
  set_control(saved);
  EXPECT_EQ(after & settings, strange_settings) << "the caller's settings are put back";
  EXPECT_EQ(bits(plain), bits(strange));
}
#endif

}  // namespace array_test
