// `halfulp inspect`, `choose`, `quantize` and `diff` of checkpoints as a user runs them: reports that validate, and one
// line for each mistake.
#include "command.hpp"
#include "temporary_folder.hpp"

#include <halfulp/data/safetensors.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/json.hpp>

#include <halfulp_test_paths.hpp>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

namespace checkpoint_command_test {

namespace fs = std::filesystem;
using namespace halfulp;
using halfulp::tests::Outcome;

class CheckpointCommand : public ::testing::Test {
 protected:
  CheckpointCommand() {
    std::vector<StoredTensor> tensors{{"layers.0.attn.weight", &element_type_of(bf16), {4, 32}, 128, 0, 256, 0},
                                      {"layers.0.norm.weight", &element_type_of(fp32), {32}, 32, 0, 128, 0},
                                      {"ids", find_element_type("I64"), {2}, 2, 0, 16, 0}};
    const std::string header = safetensors_header(tensors, {});
    std::string data;
    for (int i = 0; i < 128; ++i) data += std::string{static_cast<char>(i), '\x3f'};
    for (int i = 0; i < 32; ++i) data += std::string{'\x01', '\0', '\x80', '\x3f'};  // 1 + 2^-23
    std::ofstream(checkpoint, std::ios::binary) << header << data << std::string(16, '\1');
  }
  Outcome inspect(const std::vector<std::string>& words) const { return run("inspect", words); }
  Outcome choose(const std::vector<std::string>& words) const { return run("choose", words); }
  Outcome quantize(const std::vector<std::string>& words) const {
    std::vector<std::string> all{HALFULP_COMMAND, "quantize", checkpoint.string(),
                                 "--quiet",       "--report", report.string()};
    all.insert(all.end(), words.begin(), words.end());
    return halfulp::tests::run_program(all);
  }
  Outcome run(const std::string& command, const std::vector<std::string>& words) const {
    std::vector<std::string> all{HALFULP_COMMAND, command, checkpoint.string(), "--quiet", "--out", report.string()};
    all.insert(all.end(), words.begin(), words.end());
    return halfulp::tests::run_program(all);
  }
  Json results() const { return read_json(report)["results"]; }

  const halfulp::tests::TemporaryFolder temporary;
  const fs::path checkpoint = temporary / "x.safetensors", report = temporary / "report.json";
};

// The ratio counts finite values: where an infinity becomes the largest value, it says nothing.
TEST_F(CheckpointCommand, InfinitiesThatBecameNumbersAreNotKept) {
  std::string bytes;
  for (const int code : {0x7f80, 0x3f80, 0x7fc0, 0x4040})
    bytes += {static_cast<char>(code & 0xff), static_cast<char>(code >> 8)};
  std::vector<StoredTensor> tensors{{"w", &element_type_of(bf16), {2, 2}, 4, 0, 8, 0}};
  std::ofstream(checkpoint, std::ios::binary) << safetensors_header(tensors, {}) << bytes;
  const auto finding = [&] { return read_json(report)["finding"].get<std::string>(); };
  ASSERT_EQ(inspect({"--formats", "bf16"}).status, 0);
  EXPECT_EQ(finding(), "bf16 keeps every finite value, but not infinities and NaN as they are");
  ASSERT_EQ(inspect({"--formats", "bf16", "--set", "overflow=ieee"}).status, 0);
  EXPECT_EQ(finding(), "bf16 keeps every value");
  const std::string out = (temporary / "y.safetensors").string();
  ASSERT_EQ(quantize({"--format", "bf16", "--out", out}).status, 0);
  EXPECT_EQ(finding(), "100 % of the bytes; every finite value is kept, infinities and NaN are not");
  ASSERT_EQ(quantize({"--format", "bf16", "--overflow", "ieee", "--out", out}).status, 0);
  EXPECT_EQ(finding(), "100 % of the bytes, and every value is kept");
}

TEST_F(CheckpointCommand, WritesAReportThatValidates) {
  const Outcome outcome = inspect({"--formats", "fp32,bf16,nvfp4"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Outcome valid = halfulp::tests::run_program({HALFULP_COMMAND, "validate", report.string()});
  EXPECT_EQ(valid.status, 0) << valid.err;
  const Json tables = results();
  EXPECT_EQ(tables["tensors"]["rows"].size(), 2u);
  EXPECT_EQ(tables["losses"]["rows"].size(), 6u);
  EXPECT_EQ(tables["others"]["rows"][0][0], "ids");
  const Json& fp32_row = tables["formats"]["rows"][0];
  EXPECT_EQ(fp32_row[3], 0.0) << "nothing is lost in fp32";
  EXPECT_TRUE(fp32_row[4].is_null());
  EXPECT_EQ(fp32_row[7], 2);
  EXPECT_EQ(tables["formats"]["rows"][1][7], 1) << "bf16 loses something of the norm's 1 + 2^-23";
  const Json written = read_json(report);  // which a loop over a part of it would not keep
  for (const Json& claim : written["claims"]) EXPECT_NE(claim["verdict"], "fail") << claim;
}

TEST_F(CheckpointCommand, TheSameOnAnyNumberOfThreads) {
  ASSERT_EQ(inspect({"--threads", "1"}).status, 0);
  const Json one = results();
  ASSERT_EQ(inspect({"--threads", "4"}).status, 0);
  EXPECT_EQ(one, results());
}

TEST_F(CheckpointCommand, LooksAtSomeLayers) {
  ASSERT_EQ(inspect({"--layers", "*norm*", "--roles", "small=*norm*"}).status, 0);
  const Json tables = results();
  ASSERT_EQ(tables["tensors"]["rows"].size(), 1u);
  EXPECT_EQ(tables["tensors"]["rows"][0][2], "small");
  EXPECT_EQ(tables["others"]["rows"].size(), 0u);
}

TEST_F(CheckpointCommand, MistakesAreOneLine) {
  const auto refused = [&](const std::vector<std::string>& words, const std::string& part) {
    halfulp::tests::expect_error(inspect(words), part);
    EXPECT_FALSE(fs::exists(report)) << part;
  };
  refused({"--formats", "e4m3x"}, "formats: unknown format 'e4m3x'");
  refused({"--formats", "mxfp8e4m3/whole"}, "refuses blocks that a tensor's edge cuts short");
  refused({"--layers", "q*"}, "no tensor of");
  refused({"--roles", "x"}, "ROLE=GLOB");
  refused({"--set", "outliers=0"}, "outliers");
  fs::resize_file(checkpoint, fs::file_size(checkpoint) - 1);
  refused({}, "truncated: tensor 'ids'");
  halfulp::tests::expect_error(halfulp::tests::run_program({HALFULP_COMMAND, "inspect"}),
                               "checkpoint: a file is missing");
}

TEST_F(CheckpointCommand, TheCheckpointItselfIsNotOverwritten) {
  const auto size = fs::file_size(checkpoint);
  const fs::path link = temporary / "link.safetensors";
  fs::create_symlink(checkpoint, link);
  for (const fs::path& out : {checkpoint, link}) {
    halfulp::tests::expect_error(
        halfulp::tests::run_program({HALFULP_COMMAND, "inspect", checkpoint.string(), "--out", out.string()}),
        "would be overwritten");
    halfulp::tests::expect_error(choose({"--bits", "8", "--mix", out.string()}), "would be overwritten");
  }
  halfulp::tests::expect_error(choose({"--bits", "8", "--mix", ""}), "--mix: a file is missing");
  EXPECT_EQ(fs::file_size(checkpoint), size);
}

TEST_F(CheckpointCommand, InfinitiesThatSaturateBreakNoClaim) {
  std::vector<StoredTensor> tensors{{"x", &element_type_of(fp16), {2}, 2, 0, 4, 0}};
  const std::string header = safetensors_header(tensors, {});
  std::ofstream(checkpoint, std::ios::binary) << header << std::string("\x00\x7c\x00\x3c", 4);
  const Outcome outcome = inspect({});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
}

TEST_F(CheckpointCommand, ChoosesAMix) {
  const fs::path mix = temporary / "mix.json";
  // 128 numbers of 8 bits and four scales, or of 4.5 bits and one more, and 32 of fp32 that stay: 272 bytes, or 204.
  ASSERT_EQ(choose({"--formats", "e4m3-row,nvfp4", "--bytes", "272B", "--mix", mix.string()}).status, 0);
  EXPECT_EQ(read_json(mix)["tensors"]["layers.0.attn.weight"], "e4m3-row");
  EXPECT_FALSE(read_json(mix)["tensors"].contains("layers.0.norm.weight"));
  EXPECT_EQ(results()["totals"]["rows"][0][2], 272);
  const Outcome valid = halfulp::tests::run_program({HALFULP_COMMAND, "validate", report.string()});
  EXPECT_EQ(valid.status, 0) << valid.err;
  const Json written = read_json(report);  // which a loop over a part of it would not keep
  for (const Json& claim : written["claims"]) EXPECT_EQ(claim["verdict"], "pass") << claim;
  ASSERT_EQ(choose({"--formats", "e4m3-row,nvfp4", "--bytes", "271B", "--mix", mix.string()}).status, 0);
  EXPECT_EQ(read_json(mix)["tensors"]["layers.0.attn.weight"], "nvfp4");
  EXPECT_EQ(results()["totals"]["rows"][0][2], 204);
  ASSERT_EQ(choose({"--formats", "e4m3-row,nvfp4", "--sqnr", "15"}).status, 0);
  EXPECT_EQ(results()["choice"]["rows"][0][3], "nvfp4");
  ASSERT_EQ(choose({"--formats", "e4m3-row,nvfp4", "--sqnr", "300"}).status, 0);
  EXPECT_EQ(results()["choice"]["rows"][0][3], "stored");
  ASSERT_EQ(choose({"--formats", "nvfp4", "--bits", "20", "--keep", "*attn*"}).status, 0);
  EXPECT_EQ(results()["choice"]["rows"][0][3], "stored");
}

TEST_F(CheckpointCommand, CountsTheBytesOfALayout) {
  const fs::path mix = temporary / "mix.json", out = temporary / "out.safetensors";
  const std::string formats = "e4m3-tensor,int4full/1x32/fp32/reciprocal,fp16";
  // Packed, INT4 takes 64 bytes of code words and 16 of scales; torchao keeps each in a byte, and four zero points.
  ASSERT_EQ(choose({"--formats", formats, "--bytes", "210B", "--mix", mix.string()}).status, 0);
  EXPECT_EQ(results()["choice"]["rows"][0][4], 80);
  ASSERT_EQ(choose({"--formats", formats, "--bytes", "300B", "--layout", "torchao", "--mix", mix.string()}).status, 0);
  const Json totals = results()["totals"]["rows"];
  EXPECT_EQ(totals[2][0], "int4full/1x32/fp32/reciprocal");
  EXPECT_EQ(totals[2][2], 128 + 16 + 4 + 128);
  EXPECT_EQ(totals[3][4], 0) << "fp16 has no scales, and torchao no layout for it";
  const Json bytes = results()["choice"]["rows"][0][4];
  ASSERT_EQ(quantize({"--mix", mix.string(), "--layout", "torchao", "--out", out.string()}).status, 0);
  EXPECT_EQ(results()["tensors"]["rows"][0][5], bytes) << "of what is stored now";
}

TEST_F(CheckpointCommand, ChoosesWhatQuantizeWrites) {
  // A number that no float holds, and a tensor with the name that a layout's scales would have: both stay.
  std::vector<StoredTensor> tensors{{"a.weight", &element_type_of(fp64), {2, 32}, 64, 0, 512, 0},
                                    {"b.weight", &element_type_of(fp32), {2, 32}, 64, 0, 256, 0},
                                    {"b.weight_scale", &element_type_of(fp32), {1}, 1, 0, 4, 0},
                                    {"c.weight", &element_type_of(fp32), {2, 32}, 64, 0, 256, 0}};
  const std::string header = safetensors_header(tensors, {});
  std::string data(512 + 256 + 256 + 4, '\0');
  const double far = 1e300;
  std::memcpy(data.data() + 8, &far, sizeof far);
  std::ofstream(checkpoint, std::ios::binary) << header << data;
  const fs::path mix = temporary / "mix.json", out = temporary / "out.safetensors";
  ASSERT_EQ(
      choose({"--formats", "e4m3-row", "--bytes", "900B", "--layout", "compressed-tensors", "--mix", mix.string()})
          .status,
      0);
  EXPECT_EQ(read_json(mix)["tensors"], Json::parse(R"({"c.weight": "e4m3-row"})"));
  const Outcome written = quantize({"--mix", mix.string(), "--layout", "compressed-tensors", "--out", out.string()});
  EXPECT_EQ(written.status, 0) << written.err;
  EXPECT_EQ(choose({"--formats", "e4m3-row", "--bits", "64", "--layout", "torchao", "--keep", "*"}).status, 0);
}

TEST_F(CheckpointCommand, WritesWhatWasChosenAndComparesIt) {
  const fs::path mix = temporary / "mix.json", out = temporary / "out.safetensors";
  ASSERT_EQ(choose({"--formats", "e4m3-row,nvfp4", "--bytes", "271B", "--mix", mix.string()}).status, 0);
  const Outcome outcome = quantize({"--mix", mix.string(), "--layout", "modelopt", "--out", out.string()});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  Json row = results()["tensors"]["rows"][0];
  EXPECT_EQ(row[2], "nvfp4");
  EXPECT_EQ(row[3], "ModelOpt NVFP4");
  EXPECT_EQ(row[5], 64 + 8 + 4) << "code words, a scale for 16 values, one for all";
  EXPECT_EQ(halfulp::tests::run_program({HALFULP_COMMAND, "validate", report.string()}).status, 0);
  const Outcome against = inspect({"--against", out.string()});
  EXPECT_EQ(against.status, 1) << "they differ";
  EXPECT_EQ(results()["differences"]["rows"][0][10], "the other one is this in nvfp4");
  const Outcome diff = halfulp::tests::run_program(
      {HALFULP_COMMAND, "diff", out.string(), checkpoint.string(), "--quiet", "--out", report.string()});
  EXPECT_EQ(diff.status, 1) << diff.err;
  EXPECT_EQ(results()["differences"]["rows"][0][10], "nvfp4");
  EXPECT_EQ(results()["totals"]["rows"][0], Json::parse("[2, 1, 0, 0, 1]"));
  EXPECT_EQ(halfulp::tests::run_program(
                {HALFULP_COMMAND, "diff", out.string(), out.string(), "--quiet", "--out", report.string()})
                .status,
            0);
  halfulp::tests::expect_error(
      halfulp::tests::run_program({HALFULP_COMMAND, "diff", checkpoint.string(), report.string()}),
      "would be a report, and the other is a checkpoint");
  // As JSON, and values in another dtype.
  const Outcome json = halfulp::tests::run_program({HALFULP_COMMAND, "quantize", checkpoint.string(), "--format",
                                                    "e4m3", "--dtype", "F8_E4M3", "--json", "--out", out.string()});
  ASSERT_EQ(json.status, 0) << json.err;
  row = Json::parse(json.out)["results"]["tensors"]["rows"][0];
  EXPECT_EQ(row[3], "F8_E4M3");
  EXPECT_EQ(row[12], 0);
}

TEST_F(CheckpointCommand, WhatBecomesInfiniteIsSaid) {
  // The scale of the largest float, a 127th of it, is rounded up; 127 times that is beyond.
  const std::vector<float> values(64, std::numeric_limits<float>::max());
  std::vector<StoredTensor> all{{"a.weight", &element_type_of(fp32), {1, 64}, 64, 0, 256, 0}};
  const std::string header = safetensors_header(all, {});
  std::ofstream(checkpoint, std::ios::binary)
      << header << std::string(reinterpret_cast<const char*>(values.data()), 256);
  const fs::path out = temporary / "out.safetensors";
  ASSERT_EQ(quantize({"--format", "int8", "--out", out.string()}).status, 0);
  EXPECT_EQ(read_json(report)["finding"], "100 % of the bytes; 64 finite values became infinite or NaN");
}

/// A NaN makes all of a block or a tensor NaN. No ratio says so: what else was lost would be nothing, or little.
TEST_F(CheckpointCommand, WhatANanTakesWithItIsSaid) {
  std::vector<float> values(128, 1.25f);
  values[7] = std::numeric_limits<float>::quiet_NaN();
  std::vector<StoredTensor> all{{"bad.weight", &element_type_of(fp32), {1, 128}, 128, 0, 512, 0},
                                {"good.weight", &element_type_of(fp32), {1, 128}, 128, 512, 512, 0}};
  const std::string header = safetensors_header(all, {});
  std::ofstream file(checkpoint, std::ios::binary);
  file << header << std::string(reinterpret_cast<const char*>(values.data()), 512);
  values[7] = 1.3f;
  file << std::string(reinterpret_cast<const char*>(values.data()), 512);
  file.close();
  const Outcome outcome = inspect({"--formats", "e4m3-tensor"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(read_json(report)["finding"],
            "in e4m3-tensor (8.25 bits) 49.6 % of the elements become infinite or NaN, most in bad.weight");
  const Json row = results()["formats"]["rows"][0];
  EXPECT_TRUE(row[5].is_null());
  EXPECT_EQ(row[6], "bad.weight");
  EXPECT_EQ(results()["losses"]["rows"][0][1], "bad.weight");
  halfulp::tests::expect_error(choose({"--bits", "9", "--formats", "e4m3-tensor"}),
                               "allowed; 'bad.weight' holds NaN and stays as it is");
  ASSERT_EQ(choose({"--bits", "24", "--formats", "e4m3-tensor"}).status, 0);
  const Json rows = results()["choice"]["rows"];
  EXPECT_EQ(rows[0][8], "holds NaN");
  EXPECT_TRUE(rows[1][8].is_null());
}

TEST_F(CheckpointCommand, ErrorsOfOutputs) {
  // One layer of two outputs: weights 1 and 1 + 2^-8, 3 and -3; inputs 1 and 2.
  const fs::path inputs = temporary / "inputs.safetensors";
  const auto write = [](const fs::path& path, const char* name, std::vector<std::uint64_t> shape,
                        const std::vector<float>& values) {
    std::vector<StoredTensor> all{
        {name, &element_type_of(fp32), std::move(shape), values.size(), 0, 4 * values.size(), 0}};
    const std::string header = safetensors_header(all, {});
    std::ofstream(path, std::ios::binary)
        << header << std::string(reinterpret_cast<const char*>(values.data()), 4 * values.size());
  };
  write(checkpoint, "fc.weight", {2, 2}, {1, 1 + 0x1p-8f, 3, -3});
  write(inputs, "fc", {1, 2}, {1, 2});
  ASSERT_EQ(inspect({"--formats", "fp32,bf16,e4m3,int4affine/row/fp32", "--activations", inputs.string()}).status, 0);
  Json rows = results()["outputs"]["rows"];
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0][3], 0.0);
  EXPECT_EQ(rows[0][5], 0.0);
  const double right = 3 + 0x1p-7;  // and -3; the tie 1 + 2^-8 is rounded to 1 in bf16
  EXPECT_DOUBLE_EQ(rows[1][3].get<double>(), 0x1p-7 / std::sqrt(right * right + 9));
  EXPECT_DOUBLE_EQ(rows[1][5].get<double>(), 0x1p-7 / std::sqrt(right * right + 9));
  EXPECT_TRUE(rows[3][5].is_null());
  EXPECT_EQ(rows[3][8], "zero points are not multiplied here");
  // A unit takes its own formats only.
  ASSERT_EQ(
      inspect({"--formats", "fp16,e4m3", "--activations", inputs.string(), "--product", "hopper.mma.fp16.fp32"}).status,
      0);
  rows = results()["outputs"]["rows"];
  EXPECT_EQ(rows[0][5], 0.0);
  EXPECT_TRUE(rows[1][5].is_null());
  EXPECT_NE(rows[1][8].get<std::string>().find("operands are e4m3"), std::string::npos);
  const auto refused = [&](const std::vector<std::string>& words, const std::string& part) {
    std::vector<std::string> all{"--activations", inputs.string()};
    all.insert(all.end(), words.begin(), words.end());
    fs::remove(report);
    halfulp::tests::expect_error(inspect(all), part);
    EXPECT_FALSE(fs::exists(report)) << part;
  };
  refused({"--product", "nosuch"}, "--product: ");
  refused({"--product", "hopper.mma.fp61.fp32"}, "--product: ");
  refused({"--against", checkpoint.string()}, "--activations is for what formats would keep");
  write(inputs, "fd", {1, 2}, {1, 2});
  refused({}, "--activations: tensor 'fd' of");
  write(inputs, "fc", {2, 1}, {1, 2});
  refused({}, "accepted: inputs [..., 2]");
  std::vector<StoredTensor> wide{{"fc", &element_type_of(fp64), {1, 2}, 2, 0, 16, 0}};
  const double far[] = {1, 1e300};
  const std::string header = safetensors_header(wide, {});
  std::ofstream(inputs, std::ios::binary) << header << std::string(reinterpret_cast<const char*>(far), sizeof far);
  refused({}, "--activations: tensor 'fc': 1e+300 is no float");
}

TEST_F(CheckpointCommand, MayBeMoreFilesThanAShellLetsOpen) {
  const fs::path folder = temporary / "many";
  fs::create_directory(folder);
  const fs::path first = folder / "0.npy";
  ASSERT_EQ(halfulp::tests::run_program({HALFULP_COMMAND, "sample", "--out", first.string(), "--shape", "4,4"}).status,
            0);
  for (int i = 1; i < 100; ++i) fs::copy_file(first, folder / (std::to_string(i) + ".npy"));
  const Outcome outcome = halfulp::tests::run_program({"/bin/bash", "-c", "ulimit -Sn 64; exec \"$@\"", "bash",
                                                       HALFULP_COMMAND, "inspect", folder.string(), "--quiet",
                                                       "--formats", "bf16", "--out", report.string()});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
}

TEST_F(CheckpointCommand, MistakesOfWritingAreOneLine) {
  const fs::path out = temporary / "out.safetensors", mix = temporary / "mix.json";
  const auto refused = [&](std::vector<std::string> words, const std::string& part) {
    words.insert(words.end(), {"--out", out.string()});
    halfulp::tests::expect_error(quantize(words), part);
    EXPECT_FALSE(fs::exists(report)) << part;
    EXPECT_FALSE(fs::exists(out)) << part;
  };
  const auto refused_mix = [&](const std::string& text, const std::string& part) {
    std::ofstream(mix) << text;
    refused({"--mix", mix.string()}, part);
  };
  refused({}, "neither a format nor a mix is given");
  refused({"--format", "e4m3x"}, "--format: unknown format 'e4m3x'");
  refused({"--format", "fp16,bf16"}, "--format: 2 formats; accepted: one");
  refused({"--format", "fp64"}, "--format: fp64 is wider than fp32");
  refused({"--mix", std::string(300, 'n')}, "nnn");
  refused({"--format", "fp16", "--layers", "q*"}, "--layers: no tensor of");
  refused({"--format", "fp16", "--keep", "q*"}, "--keep: no tensor of");
  refused({"--format", "fp16", "--layers", "*norm*"}, "is left to be rounded");
  refused({"--format", "fp16", "--layout", "torchao"}, "--format: fp16 has no scales");
  refused({"--format", "nvfp4", "--layout", "gguf"}, "--layout");
  refused({"--format", "nvfp4", "--layout", "modelopt", "--dtype", "F32"}, "dtype is for values");
  refused({"--format", "nvfp4", "--dtype", "I8"}, "--dtype");
  refused({"--format", "nvfp4", "--axis", "0"}, "--axis is for arrays");
  refused({"--format", "nvfp4/whole"}, "--format: nvfp4/whole refuses blocks");
  refused({"--format", "int4", "--layout", "deepseek"},
          "deepseek has no layout of such elements; it has DeepSeek-V3 FP8");
  refused({"--mix", (temporary / "none.json").string()}, "none.json: no such file");
  halfulp::tests::expect_error(halfulp::tests::run_halfulp({"quantize", "", "--format", "fp16"}), "'': no such file");
  refused_mix("{", "mix.json");
  refused_mix("{}", "mix.json: not a mix");
  refused_mix(R"({"version": 2, "tensors": {}})", "not a mix");
  refused_mix(R"({"version": 1, "tensors": {"layers.0.attn.weight": 4}})", "its format is no text");
  refused_mix(R"({"version": 1, "tensors": {"layers.0.attn.weight": "fp17"}})", "unknown format 'fp17'");
  refused_mix(R"({"version": 1, "tensors": {"layers.9.attn.weight": "fp16"}})", "'layers.9.attn.weight' is no tensor");
  refused({"--mix", mix.string(), "--format", "fp16"}, "both a format and a mix are given");
  refused({"--mix", mix.string(), "--keep", "*"}, "--keep: goes with a format");
  halfulp::tests::expect_error(quantize({"--format", "fp16"}), "--out: a file is missing");
  halfulp::tests::expect_error(quantize({"--format", "fp16", "--out", (temporary / "x.bin").string()}),
                               "accepted: the name of a .safetensors file");
  const auto size = fs::file_size(checkpoint);
  halfulp::tests::expect_error(quantize({"--format", "fp16", "--out", checkpoint.string()}), "would be overwritten");
  EXPECT_EQ(fs::file_size(checkpoint), size);
  halfulp::tests::expect_error(
      halfulp::tests::run_program({HALFULP_COMMAND, "quantize", "x.npy", "--format", "fp16", "--mix", mix.string()}),
      "--mix is for checkpoints");
}

TEST_F(CheckpointCommand, MistakesOfChoosingAreOneLine) {
  const fs::path mix = temporary / "mix.json";
  const auto refused = [&](std::vector<std::string> words, const std::string& part) {
    words.insert(words.end(), {"--mix", mix.string()});
    halfulp::tests::expect_error(choose(words), part);
    EXPECT_FALSE(fs::exists(report)) << part;
    EXPECT_FALSE(fs::exists(mix)) << part;
  };
  refused({}, "no budget above 0 is given");
  refused({"--bits", "0"}, "no budget above 0 is given");
  refused({"--bits", "8", "--keep", "lm-head*"}, "keep: no tensor of");
  refused({"--bits", "1"}, "bits: the tensors take");
  refused({"--bits", "5", "--sqnr", "30"}, "several budgets are given");
  refused({"--bytes", "2"}, "accepted: bytes with a unit");
  refused({"--bytes", "many"}, "accepted: bytes with a unit");
  refused({"--bytes", "10B"}, "and 10 bytes are allowed");
  refused({"--bits", "8", "--formats", "mxfp4", "--layout", "gpt-oss"}, "--layout: gpt-oss holds no tensor");
  refused({"--bits", "8", "--roles", "mlp=*fnn*"}, "--roles: no tensor of");
  halfulp::tests::expect_error(choose({"--bits", "8", "--mix", report.string()}), "is the report's file");
}

}  // namespace checkpoint_command_test
