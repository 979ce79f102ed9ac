// Paths that array functions take only for some arrays: with a tally, by a table of all results, past the caches. They
// give what the scalar functions give, count what these count, and write nothing else.
#include "array_cases.hpp"

#include <halfulp/emulation/array/pieces.hpp>
#include <halfulp/emulation/array/stream.hpp>

#include <tbb/global_control.h>

namespace array_paths_test {

using namespace halfulp;
using namespace check;

void count(Tally& tally, const FloatFormat& f, const Rounded& result) {
  Tally one{.elements = 1, .flags = result.flags};
  one.nan = f.is_nan(result.code);
  one.overflow = (result.flags & flag::overflow) != 0;
  one.underflow = (result.flags & flag::underflow) != 0;
  one.inexact = (result.flags & flag::inexact) != 0;
  one.to_zero = one.underflow != 0 && f.is_zero(result.code);
  one.subnormal = f.is_subnormal(result.code);
  tally += one;
}

std::string text(const Tally& t) {
  std::string all;
  for (const std::uint64_t n :
       {t.elements, t.nan, t.overflow, t.underflow, t.inexact, t.to_zero, t.subnormal, std::uint64_t{t.flags}})
    all += std::to_string(n) + " ";
  return all;
}

// Tallies.

/// Counts over all inputs, and over each input alone, so that errors in counts cannot cancel out.
template <class T>
void tallies_like_convert(const FloatFormat& carrier) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  for (const FloatFormat& f : formats()) {
    std::vector<T> in = inputs<T>(f, 21);
    for (const Rounding& r : roundings()) {
      Tally wanted;
      std::vector<std::uint64_t> codes;
      std::vector<Tally> each(64);
      for (std::size_t i = 0; i < in.size(); ++i) {
        const Rounded result = convert(carrier, f, r, std::bit_cast<Bits>(in[i]), bits_at(i));
        count(wanted, f, result);
        if (i < each.size()) count(each[i], f, result);
        codes.push_back(result.code);
      }
      std::vector<T> out(in.size()), without(in.size());
      Tally tally;
      quantize(f, r, std::span<const T>(in), std::span<T>(out), stream, &tally);
      quantize(f, r, std::span<const T>(in), std::span<T>(without), stream);
      const std::string what = format_name(f) + " " + std::string(name_of(r.mode)) + " flush " +
                               std::to_string(r.flush_inputs) + std::to_string(r.flush_outputs);
      ASSERT_EQ(text(tally), text(wanted)) << what;
      ASSERT_EQ(std::memcmp(out.data(), without.data(), out.size() * sizeof(T)), 0) << what;
      for (std::size_t i = 0; i < each.size(); i += 16) {  // a vector or two of one value
        const std::vector<T> same(48, in[i]);
        Rounding fixed = r;
        if (fixed.mode == RoundingMode::stochastic) continue;
        Tally some, one;
        quantize(f, fixed, std::span<const T>(same), std::span<T>(out).first(48), {}, &some);
        for (int k = 0; k < 48; ++k) one += each[i];
        ASSERT_EQ(text(some), text(one)) << what << " " << in[i];
      }
      if (f.storage_bits() > 32) continue;
      std::vector<std::uint32_t> encoded(in.size());
      Tally again;
      encode<T, std::uint32_t>(f, r, in, encoded, stream, &again);
      ASSERT_EQ(text(again), text(wanted)) << what;
      for (std::size_t i = 0; i < in.size(); ++i) ASSERT_EQ(encoded[i], codes[i]) << what;
      std::vector<T> inplace = in;
      Tally third;
      quantize(f, r, std::span<const T>(inplace), std::span<T>(inplace), stream, &third);
      ASSERT_EQ(text(third), text(wanted)) << what << " in place";
      ASSERT_EQ(std::memcmp(inplace.data(), without.data(), out.size() * sizeof(T)), 0) << what;
    }
  }
}

TEST_P(Arrays, tally_floats_like_convert) { tallies_like_convert<float>(fp32); }
TEST_P(Arrays, tally_doubles_like_convert) { tallies_like_convert<double>(fp64); }

template <class Code>
void tallies_like_evaluate(const std::vector<std::string>& names) {
  for (const FloatFormat& f : named(names)) {
    const auto points = lattice(f, 0);
    check::Random random{22};
    std::vector<Code> a, b, c;
    for (const std::uint64_t x : points)
      for (const std::uint64_t y : points)
        a.push_back(static_cast<Code>(x)), b.push_back(static_cast<Code>(y)),
            c.push_back(static_cast<Code>(points[random() % points.size()]));
    for (int i = 0; i < 3000; ++i)
      a.push_back(static_cast<Code>(random() & f.code_mask())),
          b.push_back(static_cast<Code>(random() & f.code_mask())),
          c.push_back(static_cast<Code>(random() & f.code_mask()));
    for (const Operation operation : array_operations)
      for (const Rounding& r : roundings()) {
        if (!check::exhaustive() && random() % 3 != 0) continue;
        const int arity = info(operation).arity;
        const std::span<const Code> none;
        std::vector<Code> out(a.size()), wanted_codes(a.size());
        Tally tally, wanted;
        for (std::size_t i = 0; i < a.size(); ++i) {
          const Rounded result = evaluate(operation, f, r, a[i], arity > 1 ? b[i] : 0, arity > 2 ? c[i] : 0,
                                          bits_at(i));
          count(wanted, f, result);
          wanted_codes[i] = static_cast<Code>(result.code);
        }
        apply<Code>(operation, f, r, a, arity > 1 ? b : none, arity > 2 ? c : none, out, stream, &tally);
        ASSERT_EQ(text(tally), text(wanted)) << info(operation).name << " " << format_name(f) << " " << name_of(r.mode)
                                             << r.flush_inputs << r.flush_outputs;
        ASSERT_EQ(out, wanted_codes) << info(operation).name << " " << format_name(f) << " " << name_of(r.mode);
      }
  }
}

TEST_P(Arrays, tally_arithmetic_on_8_bits) {
  tallies_like_evaluate<std::uint8_t>({"e4m3", "e5m2", "e2m1", "e5m2fnuz"});
}
TEST_P(Arrays, tally_arithmetic_on_16_bits) { tallies_like_evaluate<std::uint16_t>({"fp16", "bf16", "e6m9finite"}); }
TEST_P(Arrays, tally_arithmetic_on_32_bits) { tallies_like_evaluate<std::uint32_t>({"tf32", "fp32"}); }

// Tables of all results.

/// Arrays longer than any limit, of odd lengths, with all pairs.
TEST(Tables, are_evaluate_on_all_pairs) {
  const std::size_t n = (std::size_t{1} << 18) + 75, offset = 3;
  std::vector<std::uint8_t> a(n + 8), b(n + 8), out(n + 8), wanted(1 << 16);
  check::Random random{23};
  for (const auto& name : {"e4m3", "e5m2", "e2m1", "e3m4", "e5m2fnuz", "p3109k8p3", "e7m0finite"}) {
    const FloatFormat f = parse_format(name);
    for (std::size_t i = 0; i < n; ++i) {
      a[offset + i] = static_cast<std::uint8_t>((i >> 8) & f.code_mask());
      b[offset + i] = static_cast<std::uint8_t>(i & f.code_mask());
    }
    const auto x = std::span<const std::uint8_t>(a).subspan(offset, n),
               y = std::span<const std::uint8_t>(b).subspan(offset, n);
    for (const Operation operation : {Operation::add, Operation::sub, Operation::mul, Operation::div})
      for (const Rounding& r : roundings()) {
        if (r.mode == RoundingMode::stochastic || (!check::exhaustive() && random() % 2 != 0)) continue;
        std::ranges::fill(out, std::uint8_t{0xee});
        apply<std::uint8_t>(operation, f, r, x, y, {}, std::span(out).subspan(offset, n));
        for (std::size_t i = 0; i < wanted.size(); ++i)
          wanted[i] = static_cast<std::uint8_t>(
              evaluate(operation, f, r, (i >> 8) & f.code_mask(), i & f.code_mask()).code);
        for (std::size_t i = 0; i < n; ++i)
          ASSERT_EQ(out[offset + i], wanted[i & 0xffff])
              << info(operation).name << " " << name << " " << name_of(r.mode) << " " << i;
        for (std::size_t i = 0; i < out.size(); ++i)
          ASSERT_TRUE((i >= offset && i < offset + n) || out[i] == 0xee) << "written outside";
      }
  }
}

TEST(Tables, serve_results_over_operands_and_any_number_of_threads) {
  const std::size_t n = (std::size_t{1} << 19) + 1;
  std::vector<std::uint8_t> a(n), b(n), one(n), two(n);
  check::Random random{24};
  for (std::size_t i = 0; i < n; ++i)
    a[i] = static_cast<std::uint8_t>(random()), b[i] = static_cast<std::uint8_t>(random());
  for (auto& [result, threads] : {std::pair<std::vector<std::uint8_t>*, std::size_t>{&one, 1}, {&two, 2}}) {
    const tbb::global_control control(tbb::global_control::max_allowed_parallelism, threads);
    apply<std::uint8_t>(Operation::div, e4m3, {}, a, b, {}, *result);
  }
  EXPECT_EQ(one, two);
  for (std::size_t i = 0; i < n; i += 997) ASSERT_EQ(one[i], evaluate(Operation::div, e4m3, {}, a[i], b[i]).code);
  std::vector<std::uint8_t> inplace = a;
  apply<std::uint8_t>(Operation::div, e4m3, {}, inplace, b, {}, inplace);
  EXPECT_EQ(inplace, one);
  inplace = b;
  apply<std::uint8_t>(Operation::div, e4m3, {}, a, inplace, {}, inplace);
  EXPECT_EQ(inplace, one);
}

// Past the caches.

TEST_P(Arrays, streamed_results_are_stored_ones) {
  check::Random random{25};
  std::vector<float> in(5000);
  for (float& x : in) x = static_cast<float>(static_cast<double>(random() >> 40) * 0x1p-20 - 8);
  in[77] = in[3000] = std::numeric_limits<float>::quiet_NaN();
  in[700] = 1e30f;
  std::vector<std::uint8_t> codes(in.size());
  for (auto& code : codes) code = static_cast<std::uint8_t>(random());
  const std::vector<double> wide(in.begin(), in.end());
  std::vector<float> stored(in.size() + 64), streamed(in.size() + 64);
  std::vector<double> wide_stored(in.size() + 64), wide_streamed(in.size() + 64);
  const auto equal = [](const auto& x, const auto& y) {
    return std::memcmp(x.data(), y.data(), x.size() * sizeof(x[0])) == 0;
  };
  for (const RoundingMode mode : {RoundingMode::nearest_even, RoundingMode::stochastic}) {
    const Rounding r{.mode = mode};
    const auto plan = *array::narrow_plan<float>(e4m3, r, array::Source::conversion);
    const auto wide_plan = *array::narrow_plan<double>(e4m3, r, array::Source::conversion);
    const auto widen = *array::widen_plan(e4m3, false);
    for (std::size_t offset = 0; offset < 33; offset += offset < 17 ? 1 : 5)
      for (const std::size_t n : {0, 1, 15, 16, 17, 64, 79, 129, 600, 1100, 4900}) {
        const auto each = [&](bool streams, std::vector<float>& out, std::vector<double>& wide_out) {
          std::ranges::fill(out, -1.0f), std::ranges::fill(wide_out, -1.0);
          array::by_blocks(streams, 3, n, out.data() + offset, [&](std::size_t at, std::size_t size, float* to) {
            array::quantize_lanes(plan, stream.from(at), in.data() + at, to, size);
          });
          array::by_blocks(streams, 3, n, wide_out.data() + offset, [&](std::size_t at, std::size_t size, double* to) {
            array::quantize_lanes(wide_plan, stream.from(at), wide.data() + at, to, size);
          });
          array::wait_for_streams();
        };
        each(false, stored, wide_stored), each(true, streamed, wide_streamed);
        ASSERT_TRUE(equal(stored, streamed)) << offset << " " << n;
        ASSERT_TRUE(equal(wide_stored, wide_streamed)) << offset << " " << n;
        std::ranges::fill(stored, -1.0f), std::ranges::fill(streamed, -1.0f);
        array::decode_lanes(widen, codes.data() + 1, stored.data() + offset, n);
        array::by_blocks(true, 1, n, streamed.data() + offset, [&](std::size_t at, std::size_t size, float* to) {
          array::decode_lanes(widen, codes.data() + at, to, size);
        });
        array::wait_for_streams();
        ASSERT_TRUE(equal(stored, streamed)) << offset << " " << n;
      }
  }
}

TEST_P(Arrays, blocks_are_streamed_to_their_places) {
  std::vector<std::uint16_t> out(9000);
  for (std::size_t offset = 0; offset < 66; ++offset)
    for (const std::size_t n : {0, 1, 7, 31, 32, 33, 2047, 2048, 2049, 4100, 8900}) {
      std::ranges::fill(out, std::uint16_t{0});
      std::size_t next = 0;
      array::through_streams(out.data() + offset, n, [&](std::size_t i, std::size_t size, std::uint16_t* to) {
        EXPECT_EQ(i, next);
        next = i + size;
        for (std::size_t k = 0; k < size; ++k) to[k] = static_cast<std::uint16_t>(i + k + 1);
      });
      array::wait_for_streams();
      ASSERT_EQ(next, n);
      for (std::size_t i = 0; i < out.size(); ++i)
        ASSERT_EQ(out[i], i < offset || i >= offset + n ? 0 : i - offset + 1) << offset << " " << n;
    }
}

/// Nearly all elements are such that nothing is flushed, and arrays are done as if nothing were, but for the blocks of
/// the others: subnormal operands, and results around the smallest normal number.
template <class Code>
void flushes_few(const FloatFormat& f) {
  check::Random random{27};
  std::vector<Code> a, b, c;
  const auto number = [&](int exponent) {
    const auto field = static_cast<std::uint64_t>(exponent + f.bias) << f.fraction_bits;
    return static_cast<Code>((field | (random() & f.fraction_mask())) ^ (random() & f.sign_mask()));
  };
  for (int i = 0; i < 9000; ++i) {
    a.push_back(number(static_cast<int>(random() % 3))), b.push_back(number(static_cast<int>(random() % 3)));
    c.push_back(number(3 + static_cast<int>(random() % 3)));
  }
  const auto small = [&] { return static_cast<Code>((random() % (2 * f.min_normal())) | (random() & f.sign_mask())); };
  for (const std::size_t at : {0, 1023, 1024, 3500, 4095, 7000, 8999}) {
    a[at] = small();
    if (at % 2) b[at] = small();
    if (at % 3) c[at] = small();
  }
  // A tiny product that becomes the smallest normal number where nothing is flushed.
  const auto product = [&](bool flush_outputs) {
    return f.magnitude(evaluate(Operation::mul, f, {.flush_outputs = flush_outputs}, a[5200], b[5200], 0).code);
  };
  do a[5200] = number(f.emin() / 2), b[5200] = number(f.emin() - f.emin() / 2 - 1);
  while (product(false) != f.min_normal() || product(true) != 0);
  for (const Operation operation : array_operations)
    for (const Rounding& r : roundings()) {
      if (r.mode == RoundingMode::stochastic || !(r.flush_inputs || r.flush_outputs)) continue;
      const int arity = info(operation).arity;
      const std::span<const Code> none;
      std::vector<Code> wanted(a.size()), out(a.size()), inplace = a;
      for (std::size_t i = 0; i < a.size(); ++i)
        wanted[i] = static_cast<Code>(evaluate(operation, f, r, a[i], arity > 1 ? b[i] : 0, arity > 2 ? c[i] : 0).code);
      const auto y = arity > 1 ? std::span<const Code>(b) : none, z = arity > 2 ? std::span<const Code>(c) : none;
      apply<Code>(operation, f, r, a, y, z, out);
      apply<Code>(operation, f, r, inplace, y, z, inplace);
      const std::string what = std::string(info(operation).name) + " " + format_name(f) + " " +
                               std::string(name_of(r.mode)) + std::to_string(r.flush_inputs);
      ASSERT_EQ(out, wanted) << what;
      ASSERT_EQ(inplace, wanted) << what << " in place";
    }
}

TEST_P(Arrays, few_elements_are_flushed) {
  flushes_few<std::uint16_t>(fp16);
  flushes_few<std::uint16_t>(bf16);
  flushes_few<std::uint32_t>(tf32);
}

/// Arrays just below and above the limit give the same results, at odd addresses too.
TEST(LargeArrays, are_small_ones_in_a_row) {
  std::size_t limit = 1;
  while (!array::leaves_caches(limit) && limit < std::size_t{1} << 27) limit *= 2;
  if (!array::leaves_caches(limit)) GTEST_SKIP() << "a cache of more than 128 MiB";
  const std::size_t n = limit + 1003, piece = 50'021;
  const FloatFormat f = fp16;
  std::vector<float> in(n), values(n + 3);
  std::vector<std::uint8_t> codes(n + 3);
  for (std::size_t i = 0; i < n; ++i) in[i] = static_cast<float>(i % 99'991) * 0.001f - 40;
  const auto x = std::span<const float>(in);
  for (const std::size_t count : {limit / 8 - 1, limit / 8 + 1003}) {
    quantize(f, {.mode = RoundingMode::stochastic}, x.first(count), std::span(values).subspan(3, count), stream);
    std::vector<float> some(piece);
    for (std::size_t i = 0; i < count; i += piece) {
      const std::size_t size = std::min(piece, count - i);
      quantize(f, {.mode = RoundingMode::stochastic}, x.subspan(i, size), std::span(some).first(size), stream.from(i));
      ASSERT_EQ(std::memcmp(some.data(), values.data() + 3 + i, size * sizeof(float)), 0) << i;
    }
  }
  encode<float, std::uint8_t>(e4m3, {}, x, std::span(codes).subspan(3, n));
  const auto c = std::span<const std::uint8_t>(codes).subspan(3, n);
  std::vector<std::uint8_t> sums(n), some(piece);
  apply<std::uint8_t>(Operation::add, e4m3, {}, c, c, {}, sums);
  decode<std::uint8_t>(e4m3, c, std::span(values).subspan(1, n));
  for (std::size_t i = 0; i < n; i += piece) {
    const std::size_t size = std::min(piece, n - i);
    encode<float, std::uint8_t>(e4m3, {}, x.subspan(i, size), std::span(some).first(size));
    ASSERT_EQ(std::memcmp(some.data(), c.data() + i, size), 0) << i;
    apply<std::uint8_t>(Operation::add, e4m3, {}, c.subspan(i, size), c.subspan(i, size), {},
                        std::span(some).first(size));
    ASSERT_EQ(std::memcmp(some.data(), sums.data() + i, size), 0) << i;
    std::vector<float> decoded(size);
    decode<std::uint8_t>(e4m3, c.subspan(i, size), decoded);
    ASSERT_EQ(std::memcmp(decoded.data(), values.data() + 1 + i, size * sizeof(float)), 0) << i;
  }
}

// Counters that differ only in the lowest word share two of ten rounds: high words of key and counter matter
// there.
TEST_P(Arrays, random_words_of_large_keys_and_streams) {
  const Rounding r{.mode = RoundingMode::stochastic};
  const std::vector<float> in(2000, 1.03f);
  std::vector<std::uint8_t> out(in.size());
  check::Random random{26};
  for (int k = 0; k < 50; ++k) {
    const RandomStream from{random(), random(), random() >> (k % 3) * 20};
    encode<float, std::uint8_t>(e4m3, r, in, out, from);
    for (std::size_t i = 0; i < in.size(); i += 1 + i % 3)
      ASSERT_EQ(out[i], convert(fp32, e4m3, r, std::bit_cast<std::uint32_t>(in[i]),
                                rounding_bits(from.seed, from.stream, from.first + i))
                            .code)
          << i;
  }
}

}  // namespace array_paths_test
