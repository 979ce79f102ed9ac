// Sums and programs of GPUs on the host: the order against recursions written otherwise, programs against results known
// by hand and doubles.
#include "check.hpp"

#include <halfulp/evidence/gpu_check.hpp>
#include <halfulp/cuda/rehearsal.hpp>
#include <halfulp/emulation/dot.hpp>

#include <cmath>
#include <map>

namespace gpu_programs_test {

using namespace halfulp;
using namespace halfulp::cuda;

const FloatFormat sum_formats[] = {fp16, bf16, fp32};
const FloatFormat half_formats[] = {fp16, bf16};

std::uint64_t code(const FloatFormat& f, double x) { return encode(f, {}, x).code; }
Words codes(const FloatFormat& f, std::initializer_list<double> values) {
  Words words;
  for (const double x : values) words.push_back(code(f, x));
  return words;
}

/// Terms near 1 of either sign, in which every order gives something else.
Words terms_of(const FloatFormat& f, std::size_t n, std::uint64_t seed) {
  Drawn draw(seed, n);
  Words words;
  for (std::size_t i = 0; i < n; ++i) words.push_back(draw.number(f, draw.between(-3, 3)));
  return words;
}

// The order of sums.

/// One addition without halfulp's: by this CPU in fp32; else in double, which holds sums of these terms, and rounded
/// once.
std::uint64_t plain_add(const FloatFormat& f, std::uint64_t a, std::uint64_t b) {
  if (f == fp32)
    return std::bit_cast<std::uint32_t>(std::bit_cast<float>(static_cast<std::uint32_t>(a)) +
                                        std::bit_cast<float>(static_cast<std::uint32_t>(b)));
  return code(f, f.value(a) + f.value(b));
}

/// Lane l of `lanes` before the tree, then the tree from its root: lane l after distance d is lane l plus lane l + d,
/// each after 2 d.
struct Recursion {
  const FloatFormat& f;
  const Words& x;
  std::size_t lanes;
  bool neighbours = false;  ///< another tree: of lanes 2 l and 2 l + 1

  std::uint64_t lane(std::size_t l) const {
    if (l >= x.size()) return f.zero();
    std::size_t last = l;
    while (last + lanes < x.size()) last += lanes;
    return up_to(l, last);
  }
  std::uint64_t up_to(std::size_t first, std::size_t last) const {
    return first == last ? x[first] : plain_add(f, up_to(first, last - lanes), x[last]);
  }
  std::uint64_t after(std::size_t l, std::size_t distance) const {
    if (distance == lanes) return lane(l);
    return plain_add(f, after(l, 2 * distance), after(l + distance, 2 * distance));
  }
  std::uint64_t pairs(std::size_t begin, std::size_t end) const {
    return end - begin == 1 ? lane(begin)
                            : plain_add(f, pairs(begin, (begin + end) / 2), pairs((begin + end) / 2, end));
  }
  std::uint64_t sum() const { return neighbours ? pairs(0, lanes) : after(0, 1); }
};

constexpr std::size_t lengths[] = {0, 1, 2, 5, 31, 32, 33, 64, 100, 255, 256, 257, 1000};

TEST(Sums, TreesAreTheRecursionWrittenFromItsRoot) {
  for (const FloatFormat& f : sum_formats)
    for (const std::size_t n : lengths)
      for (std::uint64_t seed = 0; seed < 5; ++seed) {
        const Words x = terms_of(f, n, seed);
        ASSERT_EQ(emulated_sums(f, GpuSumOrder::sequential, x, 1).at(0), (Recursion{f, x, 1}.sum()))
            << format_name(f) << ' ' << n;
        ASSERT_EQ(emulated_sums(f, GpuSumOrder::warp, x, 1).at(0), (Recursion{f, x, 32}.sum()))
            << format_name(f) << ' ' << n;
        ASSERT_EQ(emulated_sums(f, GpuSumOrder::block, x, 1).at(0), (Recursion{f, x, 256}.sum()))
            << format_name(f) << ' ' << n;
      }
}

TEST(Sums, TheTermsTellOrdersApart) {
  for (const FloatFormat& f : sum_formats) {
    std::map<std::string, int> differing;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const Words x = terms_of(f, 1000, seed), reversed(x.rbegin(), x.rend());
      const auto sum = [&](GpuSumOrder order) { return emulated_sums(f, order, x, 1).at(0); };
      differing["warp as a thread"] += sum(GpuSumOrder::warp) != sum(GpuSumOrder::sequential);
      differing["block as a warp"] += sum(GpuSumOrder::block) != sum(GpuSumOrder::warp);
      differing["a tree of neighbours in a warp"] += sum(GpuSumOrder::warp) != Recursion{f, x, 32, true}.sum();
      differing["a tree of neighbours in a block"] += sum(GpuSumOrder::block) != Recursion{f, x, 256, true}.sum();
      differing["the last term first"] += sum(GpuSumOrder::sequential) !=
                                          emulated_sums(f, GpuSumOrder::sequential, reversed, 1).at(0);
    }
    for (const auto& [mutation, count] : differing) EXPECT_GT(count, 3) << mutation << " in " << format_name(f);
  }
}

TEST(Sums, SequentialOnesAreThoseOfDotModels) {
  for (const FloatFormat& f : sum_formats) {
    DotModel model{f, {}, {f}, {}};
    model.accumulator.rounding.nan = NanRule::cuda;
    for (const std::size_t n : lengths) {
      Drawn draw(4, n);
      Words x;
      for (std::size_t i = 0; i < n; ++i)
        x.push_back(i % 50 == 3 ? draw.any(f) : draw.number(f, draw.between(f.emin() - 3, f.emin() + 9)));
      ASSERT_EQ(emulated_sums(f, GpuSumOrder::sequential, x, 1).at(0), sum(model, x)) << format_name(f) << ' ' << n;
    }
  }
}

TEST(Sums, RowsAreApartAndEdgesStand) {
  const Words two = codes(fp16, {1, 2, 3, 10, 20, 30});
  for (const auto& order : sum_orders) {
    EXPECT_EQ(emulated_sums(fp16, order.value, two, 2), codes(fp16, {6, 60})) << order.name;
    EXPECT_EQ(emulated_sums(fp16, order.value, {}, 3), (Words{0, 0, 0}));
    EXPECT_EQ(emulated_sums(fp16, order.value, {}, 0), Words{});
    EXPECT_EQ(sums_on(rehearsal_gpu(), fp16, order.value, two, 2), codes(fp16, {6, 60})) << order.name;
    EXPECT_EQ(sums_on(rehearsal_gpu(), fp16, order.value, {}, 3), (Words{0, 0, 0}));
    EXPECT_EQ(sums_on(rehearsal_gpu(), fp16, order.value, {}, 0), Words{});
  }
  // -0 alone stays in one thread; lanes without terms, and memory, hold +0.
  const Words minus{0x8000};
  EXPECT_EQ(emulated_sums(fp16, GpuSumOrder::sequential, minus, 1), minus);
  for (const GpuSumOrder order : {GpuSumOrder::warp, GpuSumOrder::block, GpuSumOrder::atomic})
    EXPECT_EQ(emulated_sums(fp16, order, minus, 1), Words{0});
  // 2048 + 1 is 2048 in fp16: a thread stays there, a block's lanes do not come so far.
  const Words ones(4096, code(fp16, 1));
  EXPECT_EQ(emulated_sums(fp16, GpuSumOrder::sequential, ones, 1), codes(fp16, {2048}));
  EXPECT_EQ(emulated_sums(fp16, GpuSumOrder::warp, ones, 1), codes(fp16, {4096}));
  EXPECT_THROW(emulated_sums(fp16, GpuSumOrder::warp, two, 4), std::logic_error);
}

// Programs.

std::vector<Words> run(const FloatFormat& f, Program program, std::vector<Words> columns, std::size_t length = 1) {
  const std::size_t rows = columns[0].size() / length;
  return emulated_program(f, program, {std::move(columns), rows, length});
}

TEST(Programs, UpdatesRoundTheProductOrDoNot) {
  for (const FloatFormat& f : half_formats) {
    Drawn draw(1, 1);
    Words w, lr, g, separate, fused;
    int differing = 0;
    for (int i = 0; i < 2000; ++i) {
      // Magnitudes that a double holds until the one rounding.
      w.push_back(draw.number(f, 0)), lr.push_back(draw.number(f, -3)),
          g.push_back(draw.number(f, 3 - draw.between(0, f.precision())));
      const double product = f.value(lr[i]) * f.value(g[i]);
      separate.push_back(code(f, f.value(w[i]) + f.value(code(f, product))));
      fused.push_back(code(f, f.value(w[i]) + product));
      differing += separate[i] != fused[i];
    }
    EXPECT_GT(differing, 100);
    EXPECT_EQ(run(f, Program::update, {w, lr, g}).at(0), separate);
    EXPECT_EQ(run(f, Program::update_fused, {w, lr, g}).at(0), fused);
  }
}

TEST(Programs, KahanStepsAreTheSumOfDotModels) {
  for (const FloatFormat& f : half_formats) {
    DotModel model{f, {}, {f}, {}};
    model.compensation = Compensation::kahan;
    Words terms = codes(f, {1}), plain_terms;
    Drawn draw(2, 2);
    Words w = terms, c{f.zero()};
    for (int i = 0; i < 300; ++i) {
      const std::uint64_t u = draw.number(f, -f.precision() - draw.between(0, 3)) & f.magnitude_mask();
      const std::vector<Words> next = run(f, Program::kahan_update, {w, c, {u}});
      w = next.at(0), c = next.at(1);
      terms.push_back(u);
      ASSERT_EQ(w.at(0), sum(model, terms)) << i;
    }
    EXPECT_GT(f.value(w[0]), 1) << "what a plain sum loses is there";
    EXPECT_EQ(emulated_sums(f, GpuSumOrder::sequential, std::span(terms).first(2), 1), codes(f, {1}));
  }
}

TEST(Programs, PositionsCollideWhereTheFormatEnds) {
  const auto id = [](const FloatFormat& f, std::int32_t n) {
    return f.value(run(f, Program::position_id, {{static_cast<std::uint32_t>(n)}}).at(0).at(0));
  };
  EXPECT_EQ(id(fp16, 2048), 2048);
  EXPECT_EQ(id(fp16, 2049), 2048);
  EXPECT_EQ(id(fp16, 2051), 2052);
  EXPECT_EQ(id(fp16, -2049), -2048);
  EXPECT_EQ(id(fp16, 65519), 65504);
  EXPECT_EQ(id(fp16, 65520), std::numeric_limits<double>::infinity());
  EXPECT_EQ(id(bf16, 257), 256);
  EXPECT_EQ(id(bf16, 259), 260);
  EXPECT_EQ(id(bf16, std::numeric_limits<std::int32_t>::min()), -0x1p31);
}

TEST(Programs, RotaryAnglesAndRotations) {
  // Position 1857, pair 1 of 32 dimensions, all in fp16: 1045 (experiments/position_ids/position_errors.cpp).
  EXPECT_EQ(run(fp16, Program::rope_angle, {{1857}, {code(fp16, std::pow(10000.0, -2.0 / 32))}}).at(0),
            codes(fp16, {1045}));
  const auto rotated = run(
      fp16, Program::rope_rotation,
      {codes(fp16, {3, 3, 3}), codes(fp16, {5, 5, 5}), codes(fp16, {1, 0, 0.5}), codes(fp16, {0, 1, -0.25})});
  EXPECT_EQ(rotated.at(0), codes(fp16, {3, -5, 2.75}));
  EXPECT_EQ(rotated.at(1), codes(fp16, {5, 3, 1.75}));
  // 255 * 255 rounds before it is taken from itself: a fused operation would leave what it rounds by.
  const Words x = codes(bf16, {255});
  EXPECT_EQ(run(bf16, Program::rope_rotation, {x, x, x, x}).at(0), codes(bf16, {0}));
}

TEST(Programs, SoftmaxOfRowsKnownByHand) {
  for (const FloatFormat& f : half_formats) {
    const double infinity = std::numeric_limits<double>::infinity();
    for (const Program program : {Program::softmax, Program::softmax_naive}) {
      EXPECT_EQ(run(f, program, {codes(f, {1, 1, 1, 1})}, 4).at(0), codes(f, {0.25, 0.25, 0.25, 0.25}));
      EXPECT_EQ(run(f, program, {codes(f, {-3})}).at(0), codes(f, {1}));
      EXPECT_EQ(run(f, program, {codes(f, {2, 2, 2})}, 3).at(0), codes(f, {1.0 / 3, 1.0 / 3, 1.0 / 3}));
      EXPECT_EQ(run(f, program, {codes(f, {0, -infinity, 0, 0})}, 2).at(0), codes(f, {1, 0, 0.5, 0.5})) << "two rows";
      EXPECT_TRUE(f.is_nan(run(f, program, {codes(f, {-infinity, -infinity})}, 2).at(0).at(0)));
    }
    const double large = f == fp16 ? 12 : 90;
    EXPECT_EQ(run(f, Program::softmax, {codes(f, {large, large})}, 2).at(0), codes(f, {0.5, 0.5}));
    EXPECT_TRUE(f.is_nan(run(f, Program::softmax_naive, {codes(f, {large, large})}, 2).at(0).at(0)));
  }
  // The sum of ones is 4096 in the order of a block, and 2048 in one thread.
  EXPECT_EQ(run(fp16, Program::softmax, {Words(4096, code(fp16, 7))}, 4096).at(0).at(4095), code(fp16, 0x1p-12));
}

/// Largest |result - expected| over a row, in units of 2^-p of `scale`.
double error_of(const FloatFormat& f, const Words& results, const std::vector<double>& expected, double scale) {
  double worst = 0;
  for (std::size_t i = 0; i < results.size(); ++i) worst = std::max(worst, std::abs(f.value(results[i]) - expected[i]));
  return worst / scale * FloatFormat::power_of_two(f.precision());
}

TEST(Programs, SoftmaxAndLayerNormAreNearDoubles) {
  for (const FloatFormat& f : half_formats)
    for (const std::size_t n : {2, 33, 300}) {
      Drawn draw(7, n);
      Words x, scale, shift;
      for (std::size_t i = 0; i < n; ++i) {
        x.push_back(code(f, draw.real(-2, 2)));
        scale.push_back(code(f, draw.real(0.5, 1.5))), shift.push_back(code(f, draw.real(-1, 1)));
      }
      const double count = static_cast<double>(n), eps = f.value(code(f, 0.001));
      double total = 0, mean = 0, variance = 0;
      for (const auto word : x) total += std::exp(f.value(word)), mean += f.value(word) / count;
      for (const auto word : x) variance += (f.value(word) - mean) * (f.value(word) - mean) / count;
      std::vector<double> softmax, norm;
      for (std::size_t i = 0; i < n; ++i) {
        softmax.push_back(std::exp(f.value(x[i])) / total);
        norm.push_back((f.value(x[i]) - mean) / std::sqrt(variance + eps) * f.value(scale[i]) + f.value(shift[i]));
      }
      const double largest = *std::max_element(softmax.begin(), softmax.end());
      EXPECT_LT(error_of(f, run(f, Program::softmax, {x}, n).at(0), softmax, largest), 12)
          << format_name(f) << ' ' << n;
      EXPECT_LT(error_of(f, run(f, Program::softmax_naive, {x}, n).at(0), softmax, largest), 12)
          << format_name(f) << ' ' << n;
      EXPECT_LT(error_of(f, run(f, Program::layer_norm, {x, scale, shift, {code(f, 0.001)}}, n).at(0), norm, 1), 24)
          << format_name(f) << ' ' << n;
    }
}

TEST(Programs, LayerNormOfRowsKnownByHand) {
  for (const FloatFormat& f : half_formats) {
    const Words scale = codes(f, {2, 3}), shift = codes(f, {10, 20}), eps = codes(f, {0, 0, 3, 0});
    const Words x = codes(f, {1, -1, 7, 5, 3, 1, 4, 4});
    const Words results = run(f, Program::layer_norm, {x, scale, shift, eps}, 2).at(0);
    EXPECT_EQ(Words(results.begin(), results.begin() + 6), codes(f, {12, 17, 12, 17, 11, 18.5}));
    EXPECT_TRUE(f.is_nan(results[6])) << "0 / sqrt(0)";
  }
}

}  // namespace gpu_programs_test
