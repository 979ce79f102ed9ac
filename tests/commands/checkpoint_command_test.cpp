// `halfulp inspect` and `halfulp choose` as a user runs them: reports that validate, and one line for each mistake.
#include "command.hpp"
#include "temporary_folder.hpp"

#include <halfulp/data/safetensors.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/json.hpp>

#include <halfulp_test_paths.hpp>

#include <filesystem>
#include <fstream>

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
  Outcome run(const std::string& command, const std::vector<std::string>& words) const {
    std::vector<std::string> all{HALFULP_COMMAND, command, checkpoint.string(), "--quiet", "--out", report.string()};
    all.insert(all.end(), words.begin(), words.end());
    return halfulp::tests::run_program(all);
  }
  Json results() const { return read_json(report)["results"]; }

  const halfulp::tests::TemporaryFolder temporary;
  const fs::path checkpoint = temporary / "x.safetensors", report = temporary / "report.json";
};

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
  for (const Json& claim : read_json(report)["claims"]) EXPECT_NE(claim["verdict"], "fail") << claim;
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
  for (const Json& claim : read_json(report)["claims"]) EXPECT_EQ(claim["verdict"], "pass") << claim;
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

TEST_F(CheckpointCommand, MistakesOfChoosingAreOneLine) {
  const fs::path mix = temporary / "mix.json";
  const auto refused = [&](std::vector<std::string> words, const std::string& part) {
    words.insert(words.end(), {"--mix", mix.string()});
    halfulp::tests::expect_error(choose(words), part);
    EXPECT_FALSE(fs::exists(report)) << part;
    EXPECT_FALSE(fs::exists(mix)) << part;
  };
  refused({}, "no budget is given");
  refused({"--bits", "0"}, "no budget is given");
  refused({"--bits", "8", "--keep", "lm-head*"}, "keep: no tensor of");
  refused({"--bits", "1"}, "bits: the tensors take");
  refused({"--bits", "5", "--sqnr", "30"}, "several budgets are given");
  refused({"--bytes", "2"}, "accepted: bytes with a unit");
  refused({"--bytes", "many"}, "accepted: bytes with a unit");
  refused({"--bytes", "10B"}, "and 10 bytes are allowed");
  halfulp::tests::expect_error(choose({"--bits", "8", "--mix", report.string()}), "is the report's file");
}

}  // namespace checkpoint_command_test
