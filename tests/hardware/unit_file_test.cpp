// Matrix units as JSON: what is written reads back the same; what is wrong is named.
#include <halfulp/emulation/unit/rules.hpp>
#include <halfulp/hardware/unit_file.hpp>
#include <halfulp/support/json.hpp>

#include <gtest/gtest.h>

namespace halfulp {
namespace unit_file_test {

const char* own = R"({"name": "mine", "a": "e4m3", "b": "e5m2", "accumulator": "fp32", "k": 32, "alignment_bits": 13})";

/// The message an object is refused with.
std::string refused(const Json& object) {
  try {
    unit_of_json(object, "unit.json");
  } catch (const std::invalid_argument& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.rfind("unit.json: ", 0), 0u) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    return message;
  }
  ADD_FAILURE() << "accepted: " << object;
  return {};
}
/// The same for an object with a member changed.
std::string refused(const char* text, const char* member, Json value) {
  Json object = Json::parse(text);
  object[member] = std::move(value);
  return refused(object);
}
void expect_in(const std::string& message, const std::string& needle) {
  EXPECT_NE(message.find(needle), std::string::npos) << "no '" << needle << "' in: " << message;
}

TEST(UnitFile, EveryUnitReadsBack) {
  for (const MatrixUnit& unit : matrix_units()) {
    const Json json = unit_to_json(unit);
    const MatrixUnit again = unit_of_json(json, "unit.json");
    EXPECT_EQ(again, unit) << json;
    EXPECT_EQ(unit_to_json(again), json);
    EXPECT_EQ(unit_of_json(Json::parse(json.dump()), "unit.json"), unit);
  }
}

TEST(UnitFile, EveryParameterReadsBack) {
  MatrixUnit unit = find_unit("blackwell.tcgen05.mxe4m3.fp32");
  unit.name = "all+changed", unit.m = 3, unit.n = 5, unit.k = 96;
  unit.sum = {.length = 48,
              .alignment_bits = 11,
              .least_exponent = -77,
              .alignment = RoundingMode::toward_negative,
              .kept = {8, 9, 127},
              .rounding = RoundingMode::to_odd,
              .normalized_products = true,
              .flush_inputs = true,
              .flush_outputs = true,
              .zero = ZeroSign::ieee,
              .grouping = Grouping::strided,
              .descending = true,
              .nan = 0xffc0'0001};
  unit.scale_block = 16;
  ASSERT_EQ(refusal(unit), "");
  EXPECT_EQ(unit_of_json(unit_to_json(unit), "unit.json"), unit) << unit_to_json(unit);
  for (bool FusedSum::* flag :
       {&FusedSum::normalized_products, &FusedSum::flush_inputs, &FusedSum::flush_outputs, &FusedSum::descending}) {
    unit.sum.*flag = false;
    EXPECT_EQ(unit_of_json(unit_to_json(unit), "unit.json"), unit) << unit_to_json(unit);
  }
}

TEST(UnitFile, WhatIsNotSaidHasDefaults) {
  const MatrixUnit unit = unit_of_json(Json::parse(own), "unit.json");
  MatrixUnit expected;
  expected.name = "mine", expected.a = e4m3, expected.b = e5m2, expected.accumulator = fp32, expected.k = 32;
  expected.rule = &rules::fused, expected.sum = {.length = 32, .alignment_bits = 13},
  expected.evidence = "described in unit.json";
  expected.instruction = "none: a unit of your own", expected.source = "unit.json";
  EXPECT_EQ(unit, expected);
  Json half = Json::parse(own);
  half["accumulator"] = "fp16";
  EXPECT_EQ(unit_of_json(half, "unit.json").sum.nan, 0x7fffu);
  EXPECT_EQ(unit_of_json(half, "unit.json").sum.kept, fp16);
  // Rules that pass on the NaNs of operands have the canonical one.
  for (const auto& [rule, length] : {std::pair{"odd-even-pair", 2}, {"even-odd-chains", 2}, {"fp64-chain", 1}}) {
    Json json{{"name", "m"}, {"a", "bf16"}, {"b", "bf16"}, {"accumulator", "fp32"}, {"k", 2}, {"rule", rule}};
    json["length"] = length;
    EXPECT_EQ(unit_of_json(json, "unit.json").sum.nan, fp32.canonical_nan()) << rule;
    json["nan"] = "0x7fffffff";
    expect_in(refused(json), "passes on the NaNs of operands; accepted: the canonical NaN 0x7fc00000 alone");
  }
}

TEST(UnitFile, AUnitOfTheTableIsChanged) {
  const MatrixUnit unit = unit_of_json(Json::parse(R"({"based_on": "hopper.mma.fp16.fp16", "least_exponent": -21})"),
                                       "unit.json");
  MatrixUnit expected = find_unit("hopper.mma.fp16.fp16");
  expected.name += "*", expected.sum.least_exponent = -21,
                        expected.evidence = "described in unit.json, after hopper.mma.fp16.fp16";
  expected.instruction = "none: a unit of your own", expected.source = "unit.json";
  EXPECT_EQ(unit, expected);
  // Without scales, with another accumulator: the parameters that hang on these follow.
  const MatrixUnit plain = unit_of_json(
      Json::parse(R"({"based_on": "blackwell.tcgen05.mxe4m3.fp32", "scale": null, "accumulator": "fp16"})"),
      "unit.json");
  EXPECT_FALSE(plain.scaled());
  EXPECT_EQ(plain.sum.kept, fp16);
  EXPECT_EQ(plain.sum.nan, 0x7fffu);
}

/// `halfulp units NAME --json`, changed.
TEST(UnitFile, AChangedUnitLosesItsName) {
  Json json = unit_to_json(find_unit("hopper.mma.fp16.fp32"));
  json["evidence"] = "mine";
  EXPECT_EQ(unit_of_json(json, "unit.json").name, "hopper.mma.fp16.fp32");
  json["alignment_bits"] = 20;
  EXPECT_EQ(unit_of_json(json, "unit.json").name, "hopper.mma.fp16.fp32*");
}

TEST(UnitFile, WhatIsWrongIsNamed) {
  expect_in(refused(own, "lenght", 8), "unknown member 'lenght'; did you mean length?");
  expect_in(refused(own, "L", 8), "unknown member 'L'; it is called length");
  expect_in(refused(own, "F", 8), "unknown member 'F'; it is called alignment_bits");
  expect_in(refused(own, "e0", 8), "unknown member 'e0'; it is called least_exponent");
  expect_in(refused(own, "length", "8"), "length is \"8\"; accepted: an integer from 1 to 1024");
  expect_in(refused(own, "length", 8.5), "accepted: an integer");
  expect_in(refused(own, "length", 0), "length is 0;");
  expect_in(refused(own, "length", 1025), "1 to 1024");
  expect_in(refused(own, "length", 18446744073709551615u), "1 to 1024");
  expect_in(refused(own, "alignment_bits", 61), "0 to 60");
  expect_in(refused(own, "least_exponent", "none"), "or null");
  expect_in(refused(own, "least_exponent", -20000), "-16384 to 16384");
  expect_in(refused(own, "alignment", "truncate"), "alignment: unknown name 'truncate'");
  expect_in(refused(own, "rounding", "stochastic"), "rounding: unknown name 'stochastic'");
  expect_in(refused(own, "kept", "fp16"), "kept fp16 is no fp32 with fewer fraction bits; accepted: fp32 or a format");
  expect_in(refused(own, "kept", "fp64"), "and 1 to 23 fraction bits, such as e8m11");
  for (const char* name : {"", "a b", "x\n", "caf\u00e9", "\"x\""})
    expect_in(refused(own, "name", name), "; accepted: 1 to 80 letters, digits and ._-+*");
  expect_in(refused(own, "name", std::string(81, 'x')), "accepted: 1 to 80");
  expect_in(refused(own, "normalized_products", 1), "accepted: true or false");
  expect_in(refused(own, "order", "upwards"), "\"ascending\", \"descending\"");
  expect_in(refused(own, "grouping", "strided "), "did you mean strided?");
  expect_in(refused(own, "zero_sign", nullptr), "zero_sign is null");
  expect_in(refused(own, "a", "fp17"), "a: unknown format 'fp17'");
  expect_in(refused(own, "a", "fp64"), "24 significant bits");
  expect_in(refused(own, "a", "e8m0"), "need a zero");
  expect_in(refused(own, "accumulator", "e4m3"), "no Inf");
  expect_in(refused(own, "accumulator", "tf32"), "tf32");
  expect_in(refused(own, "nan", "0x7f800000"), "not the code word of a NaN");
  expect_in(refused(own, "nan", "0x17fffffff"), "not the code word of a NaN");
  expect_in(refused(own, "nan", "NaN"), "a code word in quotes");
  expect_in(refused(own, "nan", "0x"), "a code word in quotes");
  expect_in(refused(own, "nan", "0x7fffffffz"), "a code word in quotes");
  expect_in(refused(own, "nan", 5), "a code word in quotes");
  expect_in(refused(own, "rule", "fma"), "unknown rule 'fma'; did you mean fma-chain");
  expect_in(refused(own, "rule", "fma-chain"),
            "alignment_bits: the rule fma-chain does not look at it; accepted: name, ");
  expect_in(refused(own, "scale", "e8m0"), "without scale_block");
  expect_in(refused(own, "scale_block", 32), "without scale");
  expect_in(refused(own, "k", 0), "k is 0");
  expect_in(refused(own, "m", 70000), "1 to 65536");
  expect_in(refused(own, "name", 7), "text in quotes");
  expect_in(refused(own, "based_on", "hopper.mma.fp16.fp23"),
            "based_on: unknown unit 'hopper.mma.fp16.fp23'; did you mean");
  for (const char* needed : {"name", "a", "b", "accumulator", "k"}) {
    Json object = Json::parse(own);
    object.erase(needed);
    expect_in(refused(object), std::string(needed) + " is missing");
  }
  expect_in(refused(Json::array({Json::parse(own)})), "not an object");
}

TEST(UnitFile, RulesRefuseWhatTheyCannotCompute) {
  const auto with = [](const char* base, const char* member, Json value) {
    return refused(Json{{"based_on", base}, {member, std::move(value)}});
  };
  expect_in(with("hopper.mma.fp64.fp64", "length", 2), "the rule fp64-chain takes 1, not 2");
  expect_in(with("hopper.mma-m8n8k4.fp16.fp32", "length", 1), "all products of an instruction");
  expect_in(with("hopper.mma.fp64.fp64", "accumulator", "fp32"), "does not hold every value of fp64");
  expect_in(with("hopper.mma.e4m3.fp32", "length", 15), "length is even");
  expect_in(with("hopper.mma.e4m3.fp32", "a", "bf16"), "fp16, which does not hold every value of bf16");
  expect_in(with("cdna2.mfma.fp16.fp32", "length", 3), "a power of two");
  expect_in(with("cdna1.mfma.fp16.fp32", "a", "fp64"), "24 significant bits");
  expect_in(with("x86.amx.bf16.fp32", "length", 31), "an even number");
  expect_in(with("x86.avx512.bf16.fp32", "length", 4), "takes 2, not 4");
  expect_in(with("arm.bfdot.bf16.fp32", "length", 1), "takes 2, not 1");
  expect_in(with("blackwell.tcgen05.nvfp4.fp32", "a", "e3m2"), "operands of e2m1");
  expect_in(with("blackwell.tcgen05.nvfp4.fp32", "scale_block", 8), "multiples of 16");
  expect_in(with("blackwell.tcgen05.nvfp4.fp32", "scale_block", 48),
            "48 products share a scale, and a step adds 64; accepted: a divisor or a multiple");
  expect_in(with("blackwell.tcgen05.nvfp4.fp32", "scale", "fp16"), "8 significant bits");
  expect_in(with("blackwell.tcgen05.mxe4m3.fp32", "scale", "e4m3"), "powers of two, such as e8m0");
  expect_in(refused(Json{{"based_on", "hopper.mma.fp16.fp32"}, {"grouping", "strided"}, {"length", 12}}),
            "is not made of sums of 12");
}

}  // namespace unit_file_test
}  // namespace halfulp
