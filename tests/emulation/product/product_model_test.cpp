// Product models as text: writing, reading, refusals.
#include "check.hpp"

#include <halfulp/emulation/product/model.hpp>

#include <gtest/gtest.h>

namespace halfulp {
namespace product_model_test {

DotModel read(std::string_view text) { return std::get<DotModel>(parse_product_model(text)); }

TEST(ProductModel, ReadsWhatIsWritten) {
  DotModel m{fp16, Stage{fp16}, {fp16}};
  EXPECT_EQ(read("fp16"), m);
  EXPECT_EQ(read("in=fp16,mul=fp16,acc=fp16,round=nearest-even"), m);
  EXPECT_EQ(read("acc=fp16"), m);
  m.product.reset();
  EXPECT_EQ(read("fp16,mul=exact"), m);

  const Rounding zero{RoundingMode::toward_zero};
  m = {fp16, Stage{fp16, zero}, {fp32, zero}, {}, Order::blocked, 128, Compensation::kahan};
  m.promoted = Stage{fp32, zero};
  EXPECT_EQ(read("mul=fp16,acc=fp32,order=blocked:128,promote=fp32,comp=kahan,round=toward-zero"), m);

  m = {e4m3, Stage{fp16}, {fp16}};
  m.input_b = e5m2;
  m.product->rounding.mode = RoundingMode::stochastic, m.product->rounding.random_bits = 8;
  m.output = Stage{e4m3, {RoundingMode::nearest_even, Overflow::saturate}};
  m.order = Order::tree, m.width = 4, m.block = 2, m.seed = 7;
  EXPECT_EQ(read("in=e4m3,b=e5m2,mul=fp16/stochastic/bits:8,acc=fp16,out=e4m3/overflow:saturate,order=tree:4:2,seed=7"),
            m);
  EXPECT_EQ(std::get<MatrixUnit>(parse_product_model("hopper.mma.fp16.fp32")), find_unit("hopper.mma.fp16.fp32"));
}

TEST(ProductModel, WritesTheShortText) {
  for (const char* text :
       {"fp16", "in=e4m3,acc=fp32", "fp16,mul=exact",
        "in=e4m3,b=e5m2,mul=exact,acc=fp16,promote=fp32,order=blocked:128", "bf16,order=interleaved:8,round=to-odd",
        "e5m2,mul=fp32,out=e5m2/toward-zero/overflow:saturate,order=pairwise:8,comp=neumaier,seed=18446744073709551615",
        "fp16,mul=fp16/nearest-even/flush:none,round=toward-positive,flush=both,nan=cuda", "x86.amx.bf16.fp32",
        "e3m4,order=tree:2"}) {
    if (std::string_view(text).substr(0, 3) == "x86") continue;
    EXPECT_EQ(product_model_name(parse_product_model(text)), text);
  }
}

/// Every accepted model reads back as itself.
TEST(ProductModel, ReadsBack) {
  check::Random random{5};
  const auto pick = [&](const auto& table) { return table[random() % std::size(table)].value; };
  const FloatFormat formats[] = {
      fp16, bf16, e4m3, e5m2, fp32, fp64, e3m4, parse_format("e6m9finite"), parse_format("e4m3b11ieee")};
  const auto format = [&] { return formats[random() % std::size(formats)]; };
  const auto rounding = [&] {
    Rounding r;
    if (random() & 1) r.mode = pick(rounding_modes);
    if (random() & 1) r.overflow = pick(overflow_rules);
    r.flush_inputs = random() % 4 == 0, r.flush_outputs = random() % 4 == 0;
    if (random() % 4 == 0) r.nan = pick(nan_rules);
    if (random() % 4 == 0) r.variant = pick(stochastic_variants);
    if (random() % 4 == 0) r.tininess = pick(tininess_rules);
    if (random() % 4 == 0) r.random_bits = 1 + static_cast<int>(random() % 32);
    return r;
  };
  std::size_t tried = 0;
  for (int i = 0; i < 5000; ++i) {
    const Rounding common = rounding();
    const auto stage = [&] { return Stage{format(), random() & 1 ? common : rounding()}; };
    DotModel m{format(), {}, stage()};
    if (random() % 4) m.product = random() & 1 ? m.accumulator : stage();
    if (random() & 1) m.promoted = stage();
    if (random() & 1) m.output = stage();
    if (random() & 1) m.input_b = format();
    if (m.input_b == m.input) m.input_b.reset();
    m.order = pick(orders);
    if (m.order == Order::blocked || m.order == Order::pairwise || m.order == Order::tree) m.block = 1 + random() % 300;
    if (m.order == Order::tree || m.order == Order::interleaved) m.width = 2 + random() % 30;
    if (random() & 1) m.compensation = pick(compensations);
    if (random() & 1) m.seed = random();
    if (!dot_refusal(m).empty()) continue;
    ++tried;
    const std::string text = product_model_name(m);
    ASSERT_EQ(read(text), m) << text;
  }
  EXPECT_GT(tried, 1000u);
  for (const MatrixUnit& u : matrix_units()) EXPECT_EQ(product_model_name(parse_product_model(u.name)), u.name);
}

TEST(ProductModel, SaysInOneLineWhatIsWrong) {
  const auto says = [](std::string_view text, std::initializer_list<const char*> words) {
    try {
      (void)parse_product_model(text);
      ADD_FAILURE() << text << " was accepted";
    } catch (const std::invalid_argument& error) {
      const std::string what = error.what();
      EXPECT_EQ(what.find('\n'), std::string::npos);
      for (const char* word : words) EXPECT_NE(what.find(word), std::string::npos) << what;
    }
  };
  says("fp17", {"fp17", "did you mean fp16"});
  says("hopper.mma.fp16.fp33", {"hopper.mma.fp16.fp32"});
  says("", {"product model ''"});
  says("fp16,", {"product model 'fp16,'"});
  says("fp16,bf16", {"a second format, 'bf16'"});
  says("fp16,acc=fp32,acc=fp16", {"'acc' is said twice"});
  says("fp16,ac=fp32", {"unknown key 'ac'", "did you mean acc"});
  says("fp16,order=blockd:8", {"order 'blockd'", "did you mean blocked"});
  says("fp16,order=blocked", {"takes a block", "blocked:8"});
  says("fp16,order=blocked:0", {"block is a whole number from 1", "'0'"});
  says("fp16,seed=99999999999999999999", {"seed is a whole number from 0 to 18446744073709551615"});
  says("fp16,,comp=kahan", {"nothing stands beside a comma"});
  says("fp16,", {"nothing stands beside a comma"});
  says("fp16,order=tree:1", {"width", "from 2"});
  says("fp16,order=sequential:4", {"sequential takes no '4'"});
  says("fp16,mul=fp16/rond:x", {"property of a stage 'rond'", "round"});
  says("fp16,mul=fp16/toward-zer", {"rounding mode 'toward-zer'", "toward-zero"});
  says("fp16,bits=33", {"bits", "1 to 32", "'33'"});
  says("seed=-1,fp16", {"seed", "'-1'"});
  says("hopper.mma.fp16.fp32,order=blocked:128", {"'hopper.mma.fp16.fp32' looks like a matrix unit", "stands alone"});
  says("acc=fp32,hopper.mma.fp16.fp32", {"looks like a matrix unit"});
  says("order=sequential", {"no format is said"});
  says("in=bf16,acc=fp16", {"products of bf16 need a format that holds its values"});
  says("fp16,mul=exact,comp=kahan", {"compensation needs products that are rounded"});
  says("e8m0", {"e8m0", "scales"});
  says("fp16,out=e8m0", {"e8m0", "scales"});
}

}  // namespace product_model_test
}  // namespace halfulp
