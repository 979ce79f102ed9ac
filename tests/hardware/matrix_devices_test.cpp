// Matrix instructions that are here against the models of them, NaN codes included; and the operands they are tried on.
#include "check.hpp"

#include <halfulp/evidence/comparison.hpp>
#include <halfulp/hardware/operands.hpp>
#include <halfulp/hardware/x86/x86.hpp>

#include <set>

namespace halfulp {
namespace matrix_devices_test {

/// Runs cases on this CPU and a model; how many differ. The first one is printed.
std::size_t differing(const MatrixTask& task, const MatrixUnit& model, const MatrixCases& cases) {
  const Comparison found = compare(x86_device(), task, model, cases);
  EXPECT_EQ(found.compared, cases.size());
  if (found.differing != 0) std::cout << task.unit << " k " << cases.k << ": " << found.witnesses.at(0).text << "\n";
  return found.differing;
}

TEST(MatrixDevices, AgreeWithTheirModels) {
  for (const MatrixTask& task : x86_device().matrix_tasks()) {
    if (!task.here.yes) {
      std::cout << task.unit << " skipped: " << task.here.reason << "\n";
      continue;
    }
    const MatrixUnit& model = find_unit(task.unit);
    EXPECT_EQ(task.shape, shape_of(model));
    // Depths below, at and above the instruction's, odd ones too.
    const std::size_t depth = static_cast<std::size_t>(model.k), depths[] = {1, depth, depth + 1, 3 * depth};
    const std::size_t each = check::exhaustive() ? 500'000 : 15'000;
    std::size_t compared = 0, nans = 0;
    for (const auto& kind : tile_kinds)
      for (const std::size_t k : depths)
        for (std::size_t begin = 0; begin < each; begin += 5'000) {
          const MatrixCases cases = tiles(kind.value, task.shape, k, 5'000, 100 + begin);
          ASSERT_EQ(differing(task, model, cases), 0u) << task.unit << ' ' << kind.name << " k " << k;
          compared += cases.size();
          for (std::size_t i = 0; i < 64; ++i) nans += fp32.is_nan(mma(model, cases.products(i), cases.c[i]));
        }
    EXPECT_GT(nans, 100u);
    std::cout << task.unit << ": " << compared << " cases, 0 differ\n";
  }
}

// That the comparison sees what it should: other models of the same shape differ from what the CPU does.
TEST(MatrixDevices, WrongModelsAreSeen) {
  const MatrixTask task = x86_device().matrix_tasks()[0];
  if (!task.here.yes) GTEST_SKIP() << task.here.reason;
  for (const auto& [name, kind] :
       {std::pair{"x86.amx.bf16.fp32", Tiles::near}, std::pair{"hopper.mma.bf16.fp32", Tiles::near},
        std::pair{"hopper.mma.bf16.fp32", Tiles::subnormal}, std::pair{"hopper.mma.bf16.fp32", Tiles::special},
        std::pair{"hopper.mma.bf16.fp32", Tiles::cancelling}, std::pair{"hopper.mma.bf16.fp32", Tiles::aligned}}) {
    ::testing::internal::CaptureStdout();
    const std::size_t count = differing(task, find_unit(name), tiles(kind, task.shape, 4, 5'000, 1));
    ::testing::internal::GetCapturedStdout();
    EXPECT_GT(count, 50u) << name << ' ' << name_in(tile_kinds, kind);
  }
}

TEST(MatrixDevices, SayWhyTheyAreNotHere) {
  std::set<std::string> names;
  for (const MatrixTask& task : x86_device().matrix_tasks()) {
    EXPECT_TRUE(names.insert(task.unit).second);
    EXPECT_EQ(task.here.reason.empty(), task.here.yes);
    EXPECT_NE(task.here.route.empty(), task.here.yes);
  }
  EXPECT_EQ(names, (std::set<std::string>{"x86.amx.bf16.fp32", "x86.avx512.bf16.fp32"}));
}

// Operands.

TEST(Tiles, FitEveryUnit) {
  for (const MatrixUnit& unit : matrix_units()) {
    const MatrixShape shape = shape_of(unit);
    for (const auto& kind : tile_kinds) {
      const MatrixCases cases = tiles(kind.value, shape, static_cast<std::size_t>(unit.k), 8, 1);
      ASSERT_EQ(cases.size(), 8u);
      std::set<std::uint64_t> results;
      for (std::size_t i = 0; i < cases.size(); ++i) {
        for (const std::uint64_t x : cases.products(i).a)
          ASSERT_LE(word_code(unit.a, x), unit.a.code_mask()) << unit.name;
        for (const std::uint64_t x : cases.products(i).b)
          ASSERT_LE(word_code(unit.b, x), unit.b.code_mask()) << unit.name;
        results.insert(mma(unit, cases.products(i), cases.c[i]));  // throws where lengths do not fit
      }
      EXPECT_GT(results.size(), 1u) << unit.name << ' ' << kind.name;
    }
  }
}

TEST(Tiles, AreWhatTheirKindSays) {
  const MatrixShape shape = shape_of(find_unit("hopper.mma.fp16.fp32"));
  const auto count = [&](Tiles kind, auto predicate) {
    const MatrixCases cases = tiles(kind, shape, 4, 1'000, 7);
    std::size_t n = 0;
    for (std::size_t i = 0; i < cases.size(); ++i) n += predicate(cases.products(i), cases.c[i]);
    return n;
  };
  const auto any_a = [](auto predicate) {
    return [predicate](const DotOperands& x, std::uint64_t) { return std::any_of(x.a.begin(), x.a.end(), predicate); };
  };
  EXPECT_GT(count(Tiles::special, any_a([](std::uint64_t x) { return fp16.is_nan(x); })), 50u);
  EXPECT_GT(count(Tiles::special, any_a([](std::uint64_t x) { return fp16.is_signaling(x); })), 20u);
  EXPECT_GT(count(Tiles::special, any_a([](std::uint64_t x) { return fp16.is_infinite(x); })), 50u);
  EXPECT_GT(count(Tiles::subnormal, any_a([](std::uint64_t x) { return fp16.is_subnormal(x); })), 300u);
  for (const Tiles kind : {Tiles::near, Tiles::cancelling, Tiles::aligned, Tiles::subnormal})
    EXPECT_EQ(count(kind, any_a([](std::uint64_t x) { return !fp16.is_finite(x); })), 0u) << name_in(tile_kinds, kind);
  EXPECT_GT(count(Tiles::cancelling,
                  [](const DotOperands& x, std::uint64_t) {
                    const auto product = [&](std::size_t j) { return fp16.value(x.a[j]) * fp16.value(x.b[j]); };
                    return product(1) == -product(0) || product(2) == -product(0) || product(3) == -product(2);
                  }),
            300u);
}

TEST(Tiles, DoNotDependOnHowManyThereAre) {
  const MatrixShape shape = shape_of(find_unit("blackwell.tcgen05.nvfp4.fp32"));
  for (const auto& kind : tile_kinds) {
    const MatrixCases few = tiles(kind.value, shape, 64, 3, 5), many = tiles(kind.value, shape, 64, 9, 5),
                      other = tiles(kind.value, shape, 64, 3, 6);
    EXPECT_TRUE(std::equal(few.a.begin(), few.a.end(), many.a.begin())) << kind.name;
    EXPECT_TRUE(std::equal(few.scale_b.begin(), few.scale_b.end(), many.scale_b.begin())) << kind.name;
    EXPECT_NE(few.a, other.a) << kind.name;
  }
}

TEST(Tiles, AreTheSameFromEveryCompiler) {
  std::uint64_t digest = 0xcbf2'9ce4'8422'2325;  // FNV-1a, of words
  for (const char* unit : {"hopper.mma.fp16.fp32", "blackwell.tcgen05.nvfp4.fp32"})
    for (const auto& kind : tile_kinds) {
      const MatrixCases x = tiles(kind.value, shape_of(find_unit(unit)), 64, 100, 1);
      for (const auto* words : {&x.a, &x.b, &x.c, &x.scale_a, &x.scale_b})
        for (const std::uint64_t word : *words) digest = (digest ^ word) * 0x100'0000'01b3;
    }
  EXPECT_EQ(digest, 0xc964'be79'456e'9956);  // recordings answer these
}

}  // namespace matrix_devices_test
}  // namespace halfulp
