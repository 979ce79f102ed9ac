// `halfulp quantize` as a user runs it.
#include "command.hpp"
#include "temporary_folder.hpp"

#include <halfulp/emulation/block/block.hpp>
#include <halfulp/data/npy.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

namespace quantize_command_test {

using namespace halfulp;
using halfulp::tests::expect_error, halfulp::tests::expect_refused, halfulp::tests::is_one_line,
    halfulp::tests::Outcome, halfulp::tests::run_halfulp;
using Json = nlohmann::json;

class Quantize : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  template <class T>
  std::string save(const std::string& name, std::string_view descr, std::vector<std::uint64_t> shape,
                   const std::vector<T>& values) const {
    std::string bytes(values.size() * sizeof(T), '\0');
    std::memcpy(bytes.data(), values.data(), bytes.size());
    std::ofstream(path(name), std::ios::binary) << npy_bytes(descr, shape, bytes);
    return path(name);
  }
  std::vector<float> load(const std::string& name) const {
    NpyReader npy(path(name));
    std::vector<std::uint64_t> codes(npy.header().count);
    npy.read(codes);
    std::vector<float> values;
    for (const auto c : codes) values.push_back(static_cast<float>(npy.header().format.value(c)));
    return values;
  }
  std::string raw(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  halfulp::tests::TemporaryFolder folder_;
};

std::vector<float> ramp(std::size_t count) {
  std::vector<float> x(count);
  for (std::size_t i = 0; i < count; ++i)
    x[i] = std::ldexp(static_cast<float>(static_cast<int>(i * 2654435761u % 2001) - 1000), -static_cast<int>(i % 7));
  return x;
}

TEST_F(Quantize, WritesTheValuesThatTheLibraryGives) {
  const std::vector<float> x = ramp(6 * 80);
  const std::string in = save("x.npy", "<f4", {6, 80}, x);
  for (const char* name : {"mxfp8", "nvfp4", "fp8-128x128", "int8-affine", "e4m3-tensor", "mxint8/rceil"}) {
    const Outcome o = run_halfulp({"quantize", in, "--format", name, "--out", path("q.npy")});
    ASSERT_EQ(o.status, 0) << o.err;
    EXPECT_TRUE(is_one_line(o.out)) << o.out;
    std::vector<float> want(x.size());
    quantize_block_values(parse_block_format(name), {}, x, 6, 80, want);
    EXPECT_EQ(load("q.npy"), want) << name;
  }
}

/// What doubles have beyond a float counts: 1.0625 lies halfway between two numbers of E4M3, and these are beside it.
/// No float is as large as 1e39, which saturates as every number beyond the largest.
TEST_F(Quantize, DoublesAreRoundedOnce) {
  const double step = 1.0625;
  const std::string in = save<double>("x.npy", "<f8", {1, 4}, {step + 0x1p-40, -step - 0x1p-40, step - 0x1p-40, step}),
                    huge = save<double>("huge.npy", "<f8", {1, 2}, {1e39, 3.4e38});
  for (const char* name : {"mxfp8e4m3", "e4m3/1x32/e8m0/rceil", "e4m3"}) {
    ASSERT_EQ(run_halfulp({"quantize", in, "--format", name, "--out", path("q.npy")}).status, 0);
    EXPECT_EQ(load("q.npy"), (std::vector<float>{1.125f, -1.125f, 1, 1})) << name;
  }
  const Outcome o = run_halfulp({"quantize", huge, "--format", "mxfp8e4m3", "--out", path("q.npy")});
  EXPECT_EQ(o.out.find("infinite"), std::string::npos) << o.out;
  EXPECT_EQ(load("q.npy"), std::vector<float>(2, 0x1.cp127f)) << o.out;
}

TEST_F(Quantize, AxesAndShapes) {
  const std::vector<float> x = ramp(2 * 40 * 3);
  const std::string in = save("x.npy", "<f4", {2, 40, 3}, x);
  ASSERT_EQ(run_halfulp(
                {"quantize", in, "--format", "mxfp4", "--axis", "1", "--out", path("q.npy"), "--scales", path("s.npy")})
                .status,
            0);
  std::vector<float> want(x.size());
  for (std::size_t m = 0; m < 2; ++m)
    quantize_block_values(parse_block_format("mxfp4/32x1"), {}, std::span(x).subspan(m * 120, 120), 40, 3,
                          std::span(want).subspan(m * 120, 120));
  EXPECT_EQ(load("q.npy"), want);
  EXPECT_NE(raw("s.npy").find("'descr': '|u1', 'fortran_order': False, 'shape': (2, 2, 3)"), std::string::npos);
  // The same elements in Fortran order, where the first index runs fastest.
  std::vector<float> turned(x.size());
  for (std::size_t i = 0; i < 2; ++i)
    for (std::size_t j = 0; j < 40; ++j)
      for (std::size_t k = 0; k < 3; ++k) turned[i + 2 * (j + 40 * k)] = x[(i * 40 + j) * 3 + k];
  std::string bytes = raw("x.npy");
  std::memcpy(bytes.data() + 128, turned.data(), turned.size() * 4);
  const std::size_t at = bytes.find("False");
  bytes.replace(at, 5, "True ");
  std::ofstream(path("f.npy"), std::ios::binary) << bytes;
  ASSERT_EQ(
      run_halfulp({"quantize", path("f.npy"), "--format", "mxfp4", "--axis", "-2", "--out", path("g.npy")}).status, 0);
  EXPECT_EQ(load("g.npy"), want);
  // Scales relative to a tensor are the same for all its matrices.
  ASSERT_EQ(run_halfulp({"quantize", in, "--format", "nvfp4", "--axis", "1", "--out", path("n.npy")}).status, 0);
  BlockOptions options;
  options.amax = largest_magnitude(x);
  for (std::size_t m = 0; m < 2; ++m)
    quantize_block_values(parse_block_format("nvfp4/16x1"), {}, std::span(x).subspan(m * 120, 120), 40, 3,
                          std::span(want).subspan(m * 120, 120), options);
  EXPECT_EQ(load("n.npy"), want);
}

TEST_F(Quantize, CountsWhatIsLost) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::string in = save("x.npy", "<f4", {1, 8},
                              std::vector<float>{7.5f, 1.0f, 0.01f, -0.0f, 4.0f, -7.0f, 2.0f, 6.0f});
  const Json j = Json::parse(run_halfulp({"quantize", in, "--format", "mxfp4", "--json"}).out);  // scale 1, largest 6
  EXPECT_EQ(j["saturated"], 2);
  EXPECT_EQ(j["to_zero"], 1);
  EXPECT_EQ(j["largest_error"], 1.5);
  EXPECT_EQ(j["elements"], 8);
  EXPECT_EQ(j["scales_shape"], Json::parse("[1, 1]"));
  EXPECT_NEAR(j["relative_error"].get<double>(), std::sqrt((2.25 + 1 + 1e-4) / (56.25 + 1 + 1e-4 + 16 + 49 + 4 + 36)),
              1e-6);
  const std::string special = save("s.npy", "<f4", {4}, std::vector<float>{1, inf, nan, 70000});
  const Json k = Json::parse(run_halfulp({"quantize", special, "--format", "fp16", "--json"}).out);
  EXPECT_EQ(k["nan_before"], 1);
  EXPECT_EQ(k["infinite_before"], 1);
  EXPECT_EQ(k["infinite_after"], 2);
  EXPECT_EQ(k["saturated"], 0);  // what became infinite did not become the largest value
}

TEST_F(Quantize, FiniteElementsThatDoNotStayFiniteAreNamed) {
  const std::string in = save("x.npy", "<f4", {3}, std::vector<float>{1, 2, 70000});
  const Json j = Json::parse(run_halfulp({"quantize", in, "--format", "fp16", "--json"}).out);
  EXPECT_EQ(j["became_infinite"], 1);
  EXPECT_EQ(j["became_nan"], 0);
  EXPECT_EQ(j["elements_compared"], 2);
  EXPECT_EQ(j["relative_error"], 0);
  const std::string line = run_halfulp({"quantize", in, "--format", "fp16"}).out;
  EXPECT_NE(line.find("of 3 finite elements, 1 became infinite, 0 NaN; of the 2 that stay finite: no error"),
            std::string::npos)
      << line;
  EXPECT_EQ(line.find("exact"), std::string::npos) << line;
  // E4M3 has no infinity, so all become NaN and nothing is left to compare.
  const std::string beyond = save("n.npy", "<f4", {1}, std::vector<float>{1e6f});
  const Json k = Json::parse(run_halfulp({"quantize", beyond, "--format", "e4m3", "--json"}).out);
  EXPECT_EQ(k["became_nan"], 1);
  EXPECT_TRUE(k["relative_error"].is_null() && k["largest_error"].is_null() && k["sqnr_db"].is_null()) << k;
  const std::string none = run_halfulp({"quantize", beyond, "--format", "e4m3"}).out;
  EXPECT_NE(none.find("of 1 finite element, 0 became infinite, 1 NaN, saturated 0"), std::string::npos) << none;
  // Block formats read fp32, which 1e300 exceeds: it saturates.
  const std::string wide = save("w.npy", "<f8", {2}, std::vector<double>{1e300, 1});
  const Json w = Json::parse(run_halfulp({"quantize", wide, "--format", "e4m3-tensor", "--json"}).out);
  EXPECT_EQ(w["became_infinite"].get<int>() + w["became_nan"].get<int>(), 0) << w;
  EXPECT_EQ(w["elements_compared"], 2) << w;
  EXPECT_EQ(w["saturated"], 1) << w;
  // 2^128 is a value of the format but not of float32. The file must not contain infinity.
  const std::string top = save("t.npy", "<f4", {1}, std::vector<float>{std::numeric_limits<float>::max()});
  ASSERT_EQ(run_halfulp({"quantize", top, "--format", "e11m3", "--out", path("q.npy")}).status, 0);
  NpyReader npy(path("q.npy"));
  std::vector<std::uint64_t> codes(1);
  npy.read(codes);
  EXPECT_EQ(npy.header().format.value(codes[0]), 0x1p128);
  // Elements that were not numbers stay so, and the others are exact.
  const std::string special = save("s.npy", "<f4", {2}, std::vector<float>{1, std::numeric_limits<float>::infinity()});
  EXPECT_NE(run_halfulp({"quantize", special, "--format", "fp16"}).out.find("each: exact"), std::string::npos);
  EXPECT_EQ(run_halfulp({"quantize", special, "--format", "e4m3", "--overflow", "saturate"}).out.find("each: exact"),
            std::string::npos);
}

TEST_F(Quantize, ErrorsOfAllMagnitudes) {
  const auto summary = [&](const std::vector<double>& x, const char* format) {
    const std::string in = save("x.npy", "<f8", {x.size()}, x);
    const std::string line = run_halfulp({"quantize", in, "--format", format}).out;
    for (const char* wrong : {"exact", "nan", "-inf", "(inf"})
      EXPECT_EQ(line.find(wrong, line.find("each: ")), std::string::npos) << line;
    return Json::parse(run_halfulp({"quantize", in, "--format", format, "--json"}).out);
  };
  /// The relative error of one x in a format of 1 + m bits is that of its significand.
  const auto error = [](double x, int m) {
    int exponent = 0;
    const double s = std::ldexp(std::frexp(x, &exponent), m + 1);
    return std::fabs(std::nearbyint(s) - s) / s;
  };
  for (const double x : {1.1e-170, 1.1e-300, 1.1, 1.1e170, 1.1e300}) {
    const Json j = summary({x, x, x, x}, "e11m3");
    EXPECT_NEAR(j["relative_error"].get<double>() / error(x, 3), 1, 1e-12) << x;
    EXPECT_NEAR(j["sqnr_db"].get<double>(), -20 * std::log10(error(x, 3)), 1e-9) << x;
  }
  const double a = error(1e200, 10), b = 3.3 * error(3.3e200, 10), most = std::sqrt(1 + 3.3 * 3.3);
  EXPECT_NEAR(
      summary({1e200, 3.3e200, 7e-3}, "e11m10")["relative_error"].get<double>() / (std::sqrt(a * a + b * b) / most), 1,
      1e-9);
  EXPECT_NEAR(
      summary({7e-3, 1e200, 3.3e200}, "e11m10")["relative_error"].get<double>() / (std::sqrt(a * a + b * b) / most), 1,
      1e-9);
  // The signal overflows and the error vanishes, so each has its own scale.
  EXPECT_NEAR(
      summary({0x1p600, 1.1e-100}, "e11m3")["relative_error"].get<double>() / (error(1.1e-100, 3) * 1.1e-100 / 0x1p600),
      1, 1e-9);
  EXPECT_GT(summary({0x1p1000, 1.1e-300}, "e11m3")["relative_error"].get<double>(), 0);
}

TEST_F(Quantize, TheInputIsNoOutput) {
  const std::vector<float> x = ramp(64);
  const std::string in = save("x.npy", "<f4", {64}, x), before = raw("x.npy");
  std::filesystem::create_symlink("x.npy", folder_ / "link.npy");
  std::filesystem::create_hard_link(folder_ / "x.npy", folder_ / "hard.npy");
  for (const std::string& out : {in, path("./x.npy"), path("link.npy"), path("hard.npy")})
    for (const char* option : {"--out", "--codes", "--scales"}) {
      const Outcome o = run_halfulp({"quantize", in, "--format", "mxfp8", option, out});
      expect_error(o, "is the input file");
      EXPECT_EQ(raw("x.npy"), before);
    }
  EXPECT_EQ(run_halfulp({"quantize", path("link.npy"), "--format", "mxfp8", "--out", in}).status, 2);
  EXPECT_EQ(raw("x.npy"), before);
}

TEST_F(Quantize, AllFilesOrNone) {
  const std::string in = save("x.npy", "<f4", {64}, ramp(64));
  std::ofstream(path("q.npy")) << "old";
  const Outcome o = run_halfulp(
      {"quantize", in, "--format", "mxfp8", "--out", path("q.npy"), "--codes", path("c.npy"), "--scales", "/dev/full"});
  expect_error(o);
  EXPECT_EQ(raw("q.npy"), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 2);  // and no temporary file
}

TEST_F(Quantize, BlocksWiderThanTheArray) {
  const std::string in = save("x.npy", "<f4", {3, 5}, ramp(15));
  const auto summary = [&](const std::string& format) {
    Json j = Json::parse(run_halfulp({"quantize", in, "--format", format, "--json"}).out);
    j.erase("format"), j.erase("description");
    return j;
  };
  for (const char* shape : {"1x4294967296", "1x6"})
    EXPECT_EQ(summary("e4m3/" + std::string(shape) + "/fp32"), summary("e4m3/1x5/fp32")) << shape;
  for (const char* shape : {"65536x65536", "4294967296x1"})
    EXPECT_EQ(summary("e4m3/" + std::string(shape) + "/fp32")["elements"], 15) << shape;
  EXPECT_EQ(summary("e4m3/65536x65536/fp32"), summary("e4m3/3x5/fp32"));
  for (const char* shape : {"18446744073709551615x18446744073709551615", "1x18446744073709551615", "1x4294967297",
                            "4294967296x4294967296", "65537x65536"})
    for (const std::string scale : {"fp32", "e8m0"}) {
      const std::string name = "e4m3/" + std::string(shape) + "/" + scale;
      for (const std::vector<std::string>& arguments :
           {std::vector<std::string>{"formats", name}, {"quantize", in, "--format", name}}) {
        expect_refused(arguments, "more than 2^32 elements");
      }
    }
}

TEST_F(Quantize, OptionsThatContradictOrDoNothing) {
  const std::string in = save("x.npy", "<f4", {64}, ramp(64));
  const auto status = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"quantize", in});
    const Outcome o = run_halfulp(arguments);
    EXPECT_TRUE(o.status == 0 || (is_one_line(o.err) && o.out.empty())) << o.err;
    return o.status;
  };
  EXPECT_EQ(status({"--format", "mxfp4/rceil", "--rule", "floor"}), 2);
  EXPECT_EQ(status({"--format", "E4M3/1x32/E8M0/RCEIL/whole", "--rule", "ceil"}), 2);
  EXPECT_EQ(status({"--format", "mxfp4/rceil", "--rule", "rceil"}), 0);
  EXPECT_EQ(status({"--format", "mxfp4", "--rule", "rceil"}), 0);
  EXPECT_EQ(status({"--format", "e4m3/1x32/e8m0", "--rule", "ceil"}), 0);  // its text does not contain the rule
  const std::vector<std::vector<std::string>> plain{{"--overflow", "ieee"},
                                                    {"--flush-inputs"},
                                                    {"--flush-outputs"},
                                                    {"--nan", "canonical"},
                                                    {"--tininess", "before"}};
  for (const auto& option : plain)
    for (const auto& [format, want] : {std::pair("mxfp4", 2), std::pair("fp16", 0)}) {
      std::vector<std::string> arguments{"--format", format};
      arguments.insert(arguments.end(), option.begin(), option.end());
      EXPECT_EQ(status(arguments), want) << format << " " << option[0];
    }
  EXPECT_EQ(status({"--format", "mxfp4", "--overflow", "saturate"}), 0);  // they always saturate
  EXPECT_EQ(status({"--format", "mxfp4", "--overflow", "saturat"}), 2);
  for (const char* option : {"--out", "--codes", "--scales"}) EXPECT_EQ(status({"--format", "mxfp4", option, "-"}), 2);
  EXPECT_FALSE(std::filesystem::exists("-"));
}

TEST_F(Quantize, PlainFormatsOfEveryDtype) {
  const std::string in = save("d.npy", "<f8", {3}, std::vector<double>{0.1, 1 + 0x1p-11 + 0x1p-40, 3});
  ASSERT_EQ(run_halfulp({"quantize", in, "--format", "fp16", "--out", path("q.npy")}).status, 0);
  EXPECT_EQ(NpyReader(path("q.npy")).header().format, fp64);
  EXPECT_EQ(load("q.npy"), (std::vector<float>{0.0999755859375f, 1 + 0x1p-10f, 3}));  // not through fp32
  const Outcome odd = run_halfulp({"quantize", in, "--format", "e5m2", "--round", "to-odd", "--out", path("q.npy")});
  EXPECT_EQ(load("q.npy"), (std::vector<float>{0.109375f, 1.25f, 3.0f})) << odd.err;
}

TEST_F(Quantize, PlainFormatsHaveCodeWords) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const std::string in = save("x.npy", "<f8", {2, 4}, std::vector<double>{1, -0.0, 0.1, 1e9, 0x1p-9, -448, inf, nan});
  const auto codes = [&](std::vector<std::string> words) {
    std::vector<std::string> all{"quantize", in, "--codes", path("c.npy"), "--format"};
    all.insert(all.end(), words.begin(), words.end());
    EXPECT_EQ(run_halfulp(all).status, 0);
    const std::string file = raw("c.npy");
    EXPECT_NE(file.find("'shape': (2, 4)"), std::string::npos) << file;
    return file;
  };
  const auto ends_with = [](const std::string& file, auto... words) {
    const auto all = std::to_array({words...});
    return file.ends_with(std::string(reinterpret_cast<const char*>(all.data()), sizeof all));
  };
  using B = std::uint8_t;
  using H = std::uint16_t;
  const std::string bytes = codes({"e4m3", "--overflow", "saturate"});
  EXPECT_NE(bytes.find("'|u1'"), std::string::npos) << bytes;
  EXPECT_TRUE(ends_with(bytes, B{0x38}, B{0x80}, B{0x1d}, B{0x7e}, B{0x01}, B{0xfe}, B{0x7e}, B{0x7f}));
  EXPECT_TRUE(ends_with(codes({"fp16", "--round", "toward-zero"}), H{0x3c00}, H{0x8000}, H{0x2e66}, H{0x7bff},
                        H{0x1800}, H{0xdf00}, H{0x7c00}, H{0x7e00}));
  EXPECT_TRUE(ends_with(codes({"fp64"}), 1.0, -0.0, 0.1, 1e9, 0x1p-9, -448.0, inf, nan));
}

/// Code words are those of a conversion from the file's own type, NaN and subnormals included.
TEST_F(Quantize, TheFileSaysWhatIsSubnormalAndNaN) {
  const std::vector<std::uint32_t> words{0x00400000, 0x80000001, 0x3f800000, 0xffc00000, 0x7fffffff, 0x7fa00000};
  const std::vector<std::uint16_t> halves{0x0200, 0x8001, 0x3c00, 0xfe01, 0x7d00, 0xfbff};
  const std::string floats = save("f.npy", "<f4", {6}, words), small = save("h.npy", "<f2", {6}, halves);
  const auto expect = [&](const std::string& in, const FloatFormat& from, auto given, std::string_view to,
                          const std::vector<std::string>& options, const Rounding& rounding) {
    std::vector<std::string> all{"quantize", in, "--codes", path("c.npy"), "--format", std::string(to)};
    all.insert(all.end(), options.begin(), options.end());
    ASSERT_EQ(run_halfulp(all).status, 0);
    const FloatFormat f = parse_format(to);
    std::string want;
    for (const auto word : given) {
      const std::uint64_t code = convert(from, f, rounding, word).code;
      want.append(reinterpret_cast<const char*>(&code), static_cast<std::size_t>(f.storage_bytes()));
    }
    EXPECT_TRUE(raw("c.npy").ends_with(want)) << to << " " << options[0] << " " << options.back();
  };
  for (const char* to : {"fp16", "bf16", "fp32", "tf32", "fp64", "e11m30", "e4m3", "e9m2"}) {
    const Rounding flush{.flush_inputs = true};
    expect(floats, fp32, words, to, {"--flush-inputs"}, flush);
    expect(small, fp16, halves, to, {"--flush-inputs"}, flush);
    for (const auto& rule : nan_rules) {
      const Rounding rounding{.nan = rule.value};
      expect(floats, fp32, words, to, {"--nan", std::string(rule.name)}, rounding);
      expect(small, fp16, halves, to, {"--nan", std::string(rule.name)}, rounding);
    }
  }
}

TEST_F(Quantize, ValuesKeepTheBitsOfNaN) {
  const std::vector<std::uint32_t> words{0x7f812345, 0xff800001, 0xffc00000, 0x7fffffff};
  const std::string in = save("nan.npy", "<f4", {4}, words);
  const auto all = {"quantize", in.c_str(), "--format", "fp32", "--nan", "keep"};
  std::vector<std::string> arguments(all.begin(), all.end());
  for (const std::string& word : {std::string("--out"), path("o.npy"), std::string("--codes"), path("c.npy")})
    arguments.push_back(word);
  ASSERT_EQ(run_halfulp(arguments).status, 0);
  const std::string bytes(reinterpret_cast<const char*>(words.data()), 16);
  EXPECT_TRUE(raw("o.npy").ends_with(bytes));
  EXPECT_TRUE(raw("c.npy").ends_with(bytes));
}

/// What becomes a number that no float is makes the results doubles.
TEST_F(Quantize, InfinitiesMayBecomeNumbersBeyondFloats) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::string in = save("x.npy", "<f4", {2}, std::vector<float>{std::numeric_limits<float>::infinity(), 1});
  for (const char* name : {"fp64", "e8m30", "e10m30fn", "e9m23finite", "e10m3", "fp32", "bf16"})
    for (const Overflow overflow : {Overflow::saturate, Overflow::ieee}) {
      const std::string word = overflow == Overflow::saturate ? "saturate" : "ieee";
      ASSERT_EQ(run_halfulp({"quantize", in, "--format", name, "--overflow", word, "--out", path("q.npy")}).status, 0);
      NpyReader npy(path("q.npy"));
      std::vector<std::uint64_t> codes(2);
      npy.read(codes);
      const FloatFormat f = parse_format(name);
      Rounding rounding;
      rounding.overflow = overflow;
      const double want = f.value(convert(fp64, f, rounding, std::bit_cast<std::uint64_t>(inf)).code);
      const double got = npy.header().format.value(codes[0]);
      EXPECT_TRUE(got == want || (std::isnan(got) && std::isnan(want))) << name << " " << word << ": " << got;
    }
}

TEST_F(Quantize, NothingBehindAnEqualsSignIsNoValue) {
  const std::string in = save<float>("a.npy", "<f4", {2}, {1, 2}), other = save<float>("b.npy", "<f4", {2}, {3, 4}),
                    before = raw("a.npy");
  expect_refused({"quantize", "--format", "fp16", "--out=", in, other}, "--out: nothing stands behind its =");
  EXPECT_EQ(raw("a.npy"), before);
}

TEST_F(Quantize, BadInputIsOneLine) {
  const std::string in = save("x.npy", "<f4", {6, 64}, ramp(6 * 64));
  const std::vector<std::vector<std::string>> bad{{"--format", "mxfp5"},
                                                  {"--format", "mxfp4", "--axis", "2"},
                                                  {"--format", "mxfp4", "--axis", "first"},
                                                  {"--format", "fp8-128x128", "--axis", "0"},
                                                  {"--format", "fp16", "--axis", "0"},
                                                  {"--format", "fp16", "--rule", "floor"},
                                                  {"--format", "mxfp4", "--rule", "flor"},
                                                  {"--format", "int8-affine", "--rule", "floor"},
                                                  {"--format", "mxfp4", "--out", path("no/such.npy")},
                                                  {"--format", "mxfp4", "--codes", path("a"), "--scales", path("a")},
                                                  {"--format", "fp16", "--scales", path("a")},
                                                  {"--format", "mxfp4", "--zeros", path("a")},
                                                  {"--format", "mxfp8/1x48/whole"},
                                                  {"--format", "mxfp4", "--round", "up"},
                                                  {"--format", "e4m3/1x32/e8m0/amax"},
                                                  {}};
  for (const auto& arguments : bad) {
    std::vector<std::string> all{"quantize", in};
    all.insert(all.end(), arguments.begin(), arguments.end());
    expect_error(run_halfulp(all));
    EXPECT_FALSE(std::filesystem::exists(path("a")));
  }
  EXPECT_EQ(run_halfulp({"quantize", path("none.npy"), "--format", "mxfp4"}).status, 2);
}

}  // namespace quantize_command_test
