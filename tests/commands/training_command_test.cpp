// `halfulp run training` as a user runs it: every mistake gives one line, exit status 2 and no file. Interrupted runs
// resume.
#include "training/tiny_training.hpp"

#include "command.hpp"
#include "temporary_folder.hpp"

#include <zlib.h>

#include <halfulp_test_paths.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace training_command_test {

namespace fs = std::filesystem;
using halfulp::Json;
using halfulp::tests::Outcome;

std::string idx(const std::vector<std::uint32_t>& shape, const std::vector<std::uint8_t>& values) {
  std::string bytes{'\0', '\0', '\x08', static_cast<char>(shape.size())};
  for (const std::uint32_t size : shape)
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(size >> shift & 255);
  return bytes.append(values.begin(), values.end());
}

std::string gzip(const std::string& bytes) {
  z_stream z{};
  deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(bytes.size() + 1000, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  z.avail_in = static_cast<uInt>(bytes.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class TrainingCommand : public ::testing::Test {
 protected:
  TrainingCommand() {
    fs::create_directories(data);
    fs::create_directories(reports);
    images_into("train", check::tiny_images(120, 1));
    images_into("t10k", check::tiny_images(30, 2));
    write(text, check::tiny_letters());
  }

  void write(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }
  void images_into(const std::string& part, const halfulp::LabelledImages& images) {
    const auto count = static_cast<std::uint32_t>(images.size());
    write(data / (part + "-images-idx3-ubyte.gz"), gzip(idx({count, 28, 28}, images.pixels)));
    write(data / (part + "-labels-idx1-ubyte"), idx({count}, images.labels));
  }
  /// These settings, and small ones for the rest.
  std::vector<std::string> words(const std::vector<std::string>& settings) const {
    std::vector<std::string> all{HALFULP_COMMAND,       "run", "training", "--backend", "emulated", "--out",
                                 reports.string() + "/"};
    const auto name = [](const std::string& setting) { return setting.substr(0, setting.find('=')); };
    for (const std::string& setting :
         std::vector<std::string>{"data=" + data.string(), "text=" + text.string(), "width=8", "batch=8", "steps=6",
                                  "seeds=1", "intervals=2", "weight_formats="})
      if (std::ranges::find(settings, name(setting), name) == settings.end()) all.insert(all.end(), {"--set", setting});
    for (const std::string& setting : settings) all.insert(all.end(), {"--set", setting});
    return all;
  }
  /// The mistake gives one line that begins so, and nothing is written.
  void refused(const std::vector<std::string>& settings, const std::string& part) {
    std::vector<std::string> before;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) before.push_back(entry.path());
    halfulp::tests::expect_error(halfulp::tests::run_program(words(settings)), part);
    std::vector<std::string> after;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) after.push_back(entry.path());
    EXPECT_EQ(after, before) << settings.back();
  }
  /// The results in a run's report. Removes the report.
  std::string results(const Outcome& outcome) {
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    std::string text_of_it;
    for (const auto& entry : fs::directory_iterator(reports))
      if (entry.path().extension() == ".json")
        text_of_it = halfulp::read_json(entry.path().string()).at("results").dump();
    for (const auto& entry : fs::directory_iterator(reports)) fs::remove(entry.path());
    EXPECT_NE(text_of_it, "");
    return text_of_it;
  }

  const halfulp::tests::TemporaryFolder temporary;
  const fs::path &folder = temporary.path(), data = folder / "data", reports = folder / "reports",
                 text = folder / "text.txt", checkpoints = folder / "checkpoints";
};

TEST_F(TrainingCommand, RefusesInOneLineAndWritesNothing) {
  const std::string policy = folder / "mine.json";
  refused({"policies=fp32,amp-fp61"}, "policies: unknown policy 'amp-fp61'; did you mean amp-fp16?");
  refused({"policies="}, "policies is empty");
  refused({"policies=fp32,fp32"}, "policies: fp32 is there twice");
  refused({"policies=" + (folder / "none.json").string()}, "cannot read");
  write(policy, R"({"name": "mine", "rules": [{"operators": "linear", "operands": "fp17"}]})");
  refused({"policies=" + policy}, "mine.json.rules[0].operands: unknown format 'fp17'");
  write(policy, R"({"name": "../mine"})");
  refused({"policies=" + policy}, ".name is \"../mine\"; accepted: ");
  write(policy,
        R"({"name": "mine", "rules": [{"operators": "linear", "layers": ["fc1", "fc9"], "operands": "bf16"}]})");
  refused({"policies=fp32," + policy},
          "policies: mine has a rule for the layer 'fc9', which is not in mlp; accepted: fc1, fc2");
  refused({"networks=mlp,lstm", "policies=fp32," + policy}, "policies: mine has a rule for the layer 'fc9'");
  write(policy, R"({"name": "mine", "rules": [{"operators": "conv2d", "layers": "fc1", "operands": "bf16"}]})");
  refused({"policies=" + policy}, "policies: mine has a rule for the layer 'fc1', which is not in mlp; accepted: none");
  write(policy, R"({"name": "mine", "optimizer": {"rounded_constants": true}})");
  refused({"policies=" + policy}, "mlp-mine-1: ");
  write(policy, R"({"name": "mine", "rules": )");
  refused({"policies=" + policy}, "not JSON at line 1");
  refused({"seeds=0"}, "seeds");
  refused({"steps=-1"}, "steps");
  refused({"networks=mpl"}, "mlp");
  refused({"batch=121"},
          "train_examples, test_examples, batch: 120 images to learn from and 30 to test; accepted: a batch of 121");
  refused({"networks=transformer", "width=6"}, "networks: transformer: ");
  refused({"data=" + (folder / "nowhere").string()}, "nowhere");
  refused({"networks=lstm", "text=" + (folder / "nowhere.txt").string()}, "nowhere.txt");
  refused({"networks=mlp", "text=" + (folder / "nowhere.txt").string()}, "nowhere.txt: no such file");
  refused({"networks=mlp", "text=" + folder.string()}, "a directory, not a text");
  refused({"networks=lstm", "data=" + (folder / "nowhere").string()}, "nowhere: no such folder");
  write(checkpoints, "a file");
  refused({"policies=fp32", "checkpoints=" + checkpoints.string()}, "checkpoints: cannot make the folder");
  fs::remove(checkpoints);

  const fs::path images = data / "train-images-idx3-ubyte.gz", labels = data / "t10k-labels-idx1-ubyte";
  const std::string good = content(images), good_labels = content(labels);
  for (const std::size_t length : {std::size_t{0}, std::size_t{5}, good.size() / 2, good.size() - 1}) {
    write(images, good.substr(0, length));
    refused({"policies=fp32"}, "train-images-idx3-ubyte.gz: truncated");
  }
  write(images, good);
  write(labels, good_labels.substr(0, 12));
  refused({"policies=fp32"}, "t10k-labels-idx1-ubyte: truncated");
  fs::remove(labels);
  refused({"policies=fp32"}, "no t10k-labels-idx1-ubyte");
}

/// Claims that want other policies than those that were named share a line, which names only what is missing.
TEST_F(TrainingCommand, SkippedClaimsNameWhatIsMissing) {
  const Outcome outcome = halfulp::tests::run_program(words({"policies=fp32,pure-bf16"}));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  std::string text;
  std::istringstream lines(outcome.out);
  for (std::string word; lines >> word;) text += word + " ";
  EXPECT_NE(text.find("skipped 10 claims [policies does not name amp-fp16, O2, amp-bf16, bf16-sr, bf16-kahan, "
                      "fp8-hybrid, fp8-deepseek, mxfp8, pure-fp16] "),
            std::string::npos)
      << outcome.out;
  EXPECT_EQ(text.find("does not name", text.find("does not name") + 1), std::string::npos) << outcome.out;
  EXPECT_EQ(text.find("and fp32]"), std::string::npos) << outcome.out;
  const Outcome none = halfulp::tests::run_program(words({"policies=pure-bf16"}));
  EXPECT_NE(none.out.find("[policies does not name amp-fp16, fp32, O2, "), std::string::npos) << none.out;
}

TEST_F(TrainingCommand, RefusesCheckpointsOfOtherRuns) {
  const std::string with = "checkpoints=" + checkpoints.string();
  const std::string first = results(halfulp::tests::run_program(words({"policies=amp-fp16", with})));
  const fs::path file = checkpoints / "mlp-amp-fp16-1.checkpoint";
  ASSERT_TRUE(fs::exists(file));
  const std::string saved = content(file);
  EXPECT_EQ(results(halfulp::tests::run_program(words({"policies=amp-fp16", with}))), first)
      << "a run that is done is done";
  for (const char* const setting : {"steps=7", "lr=0.5", "width=9", "batch=4", "train_examples=100", "test_examples=20",
                                    "dropout=0.5", "context=32", "clip_norm=1"})
    refused({"policies=amp-fp16", with, setting}, "mlp-amp-fp16-1.checkpoint: a checkpoint of another run: ");
  images_into("t10k", check::tiny_images(30, 3));
  refused({"policies=amp-fp16", with}, "a checkpoint of another run: ");
  images_into("t10k", check::tiny_images(30, 2));
  write(file, saved.substr(0, saved.size() / 2));
  refused({"policies=amp-fp16", with}, "mlp-amp-fp16-1.checkpoint: ");
  write(file, saved);
  EXPECT_EQ(results(halfulp::tests::run_program(words({"policies=amp-fp16", with}))), first);
}

TEST_F(TrainingCommand, GoesOnAfterCtrlC) {
  std::vector<std::string> settings{"policies=amp-fp16,fp8-hybrid,bf16-sr", "networks=mlp,lstm", "steps=1500",
                                    "intervals=60", "context=8"};
  const std::string whole = results(halfulp::tests::run_program(words(settings)));
  settings.push_back("checkpoints=" + checkpoints.string());
  const auto saved = [&] {
    std::error_code error;
    return fs::exists(checkpoints / "mlp-amp-fp16-1.checkpoint", error);
  };
  const Outcome stopped = halfulp::tests::run_interrupted(words(settings), saved);
  EXPECT_EQ(stopped.status, 130) << stopped.err;
  EXPECT_TRUE(fs::is_empty(reports));
  EXPECT_TRUE(saved());
  EXPECT_EQ(results(halfulp::tests::run_program(words(settings))), whole);
}

}  // namespace training_command_test
