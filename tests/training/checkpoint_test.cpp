// Checkpoints: they restore every bit, and every wrong file is refused in one line.
#include <halfulp/training/checkpoint.hpp>
#include <halfulp/training/loss_scaler.hpp>
#include <halfulp/support/files.hpp>

#include <gtest/gtest.h>

#include <unistd.h>

#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <stdexcept>

namespace checkpoint_test {

using namespace halfulp;
using namespace halfulp::training;

const std::filesystem::path folder = std::filesystem::temp_directory_path() /
                                     ("halfulp_checkpoint_" + std::to_string(::getpid()));
const std::string path = (folder / "run.ckpt").string();

class Checkpoints : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directory(folder); }
  void TearDown() override { std::filesystem::remove_all(folder); }
};

const Json identity = {{"policy", {{"name", "amp-fp16"}, {"weights", "fp16"}}},
                       {"network", "mlp"},
                       {"layers", {784, 256, 10}},
                       {"seed", 3}};
const std::vector<float> floats{1.5f, -0.0f, 0x1p-149f, std::bit_cast<float>(0x7fc1'2345u),
                                std::numeric_limits<float>::infinity()};
const std::vector<double> doubles{0.1, -0x1p-1074};

Checkpoint example() {
  Checkpoint c;
  c.identity = identity;
  c.state = {{"step", 17}, {"loss", 0.1}, {"scaler", LossScaler().state()}};
  c.add("fc1.weight", std::span<const float>(floats));
  c.add("moments", std::span<const double>(doubles));
  c.add("empty", std::span<const float>());
  return c;
}

template <class Call>
std::string refusal(Call&& call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    const std::string line = error.what();
    EXPECT_EQ(line.find('\n'), line.npos) << line;
    return line;
  }
  return "accepted";
}

std::string refused(const std::string& bytes) {
  return refusal([&] { Checkpoint::from_bytes(bytes, "run.ckpt"); });
}

/// A file with a valid frame around this description and data.
std::string described(const std::string& text, const std::string& data, std::uint64_t length) {
  return framed({"halfulpC", 1, "", 8}, 0, std::string(reinterpret_cast<const char*>(&length), 8) + text + data);
}
std::string described(const std::string& text, const std::string& data = {}) {
  return described(text, data, text.size());
}

TEST_F(Checkpoints, KeepEveryBit) {
  write_checkpoint(path, example());
  const Checkpoint back = read_checkpoint(path, identity);
  EXPECT_EQ(back.state, example().state);
  EXPECT_EQ(back.bytes(), example().bytes());
  std::vector<float> f(floats.size());
  std::vector<double> d(doubles.size());
  back.take("fc1.weight", f);
  back.take("moments", d);
  back.take("empty", std::span<float>());
  EXPECT_EQ(std::memcmp(f.data(), floats.data(), f.size() * 4), 0);
  EXPECT_EQ(std::memcmp(d.data(), doubles.data(), d.size() * 8), 0);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
}

TEST_F(Checkpoints, AreReplacedWholeOrNotAtAll) {
  write_checkpoint(path, example());
  Checkpoint later = example();
  later.state["step"] = 18;
  write_checkpoint(path, later);
  EXPECT_EQ(read_checkpoint(path, identity).state["step"], 18);
  EXPECT_TRUE(refusal([&] { write_checkpoint((folder / "none" / "x").string(), later); }).starts_with("cannot write "))
      << "a folder that is not there";
}

TEST_F(Checkpoints, OfAnotherRun) {
  write_checkpoint(path, example());
  const auto differing = [&](auto change) {
    Json other = identity;
    change(other);
    const std::string line = refusal([&] { read_checkpoint(path, other); });
    const std::string start = path + ": a checkpoint of another run: ",
                      end = "; accepted: one of this run, or no file, to start anew";
    EXPECT_TRUE(line.starts_with(start) && line.ends_with(end)) << line;
    return line.size() < start.size() + end.size() ? line
                                                   : line.substr(start.size(), line.size() - start.size() - end.size());
  };
  EXPECT_EQ(differing([](Json& j) { j["policy"]["weights"] = "bf16"; }), "policy.weights is \"fp16\", here \"bf16\"");
  EXPECT_EQ(differing([](Json& j) { j["seed"] = 4; }), "seed is 3, here 4");
  EXPECT_EQ(differing([](Json& j) { j["layers"][1] = 128; }), "layers[1] is 256, here 128");
  EXPECT_EQ(differing([](Json& j) { j["layers"].push_back(1); }), "layers has 3 elements, here 4");
  EXPECT_EQ(differing([](Json& j) { j["data"] = "x"; }), "data is not in it");
  EXPECT_EQ(differing([](Json& j) { j.erase("network"); }), "network is in it");
  EXPECT_EQ(differing([](Json& j) { j["policy"] = 1; }), "policy is an object, here 1");
  Json reordered = identity;
  reordered.erase("policy");
  reordered["policy"] = identity["policy"];
  EXPECT_EQ(read_checkpoint(path, reordered).state["step"], 17);
}

TEST_F(Checkpoints, ArraysThatAreNotThere) {
  write_checkpoint(path, example());
  const Checkpoint c = read_checkpoint(path, identity);
  std::vector<float> f(4);
  std::vector<double> d(5);
  EXPECT_EQ(refusal([&] { c.take("fc1.weight", f); }),
            path + ": array 'fc1.weight' has 5 numbers; accepted: 4 numbers of float32");
  EXPECT_EQ(refusal([&] { c.take("fc1.weight", d); }),
            path + ": array 'fc1.weight' is of another type; accepted: 5 numbers of float64");
  EXPECT_EQ(refusal([&] { c.take("fc2.weight", f); }),
            path + ": array 'fc2.weight' is missing; accepted: 4 numbers of float32");
  Checkpoint twice = example();
  EXPECT_THROW(twice.add("moments", std::span<const float>(floats)), std::logic_error);
}

TEST_F(Checkpoints, DamagedFiles) {
  const std::string good = example().bytes();
  EXPECT_EQ(refused(good), "accepted");
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_TRUE(refused(good.substr(0, size)).starts_with("run.ckpt: truncated: ")) << size;
  EXPECT_TRUE(refused(good + "x").starts_with("run.ckpt: too long: "));
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string spoiled = good;
    spoiled[i] ^= 4;
    EXPECT_NE(refused(spoiled), "accepted") << i;
  }
  std::string spoiled = good;
  spoiled[good.size() - 20] ^= 1;
  EXPECT_EQ(refused(spoiled), "run.ckpt: corrupted: its checksum is not that of its content");
  spoiled = good;
  spoiled[8] = 2;
  EXPECT_EQ(refused(spoiled), "run.ckpt: format version 2, written by a newer halfulp; accepted: 1");
  EXPECT_EQ(refused("{\"schema_version\": 1}"),
            "run.ckpt: does not begin with 'halfulpC'; accepted: a checkpoint of a training");
  EXPECT_EQ(refusal([] { read_checkpoint(path, identity); }), path + ": no such file");
  EXPECT_EQ(refusal([] { read_checkpoint(folder.string(), identity); }),
            folder.string() + ": a directory, not a checkpoint of a training");
}

TEST_F(Checkpoints, DamagedWithinAWholeFrame) {
  const std::string arrays = R"({"identity":{},"state":{},"arrays":[{"name":"a","type":"float32","count":)";
  EXPECT_EQ(refused(described(arrays + "2}]}", std::string(8, '\0'))), "accepted");
  EXPECT_EQ(refused(described(arrays + "3}]}", std::string(8, '\0'))), "run.ckpt: its lengths do not fit its size");
  EXPECT_EQ(refused(described(arrays + "1}]}", std::string(8, '\0'))), "run.ckpt: its lengths do not fit its size");
  EXPECT_EQ(refused(described(arrays + "4611686018427387906}]}", std::string(8, '\0'))),
            "run.ckpt: its lengths do not fit its size");
  EXPECT_EQ(refused(described(arrays + "-1}]}", "")),
            "run.ckpt: its arrays[0] is not described by a name, a type (float32, float64) and a count");
  EXPECT_EQ(refused(described(arrays + R"(0},{"name":"a","type":"float64","count":0}]})")),
            "run.ckpt: its arrays[1] has the name of another");
  EXPECT_EQ(refused(described("{}", "", 1'000'000)), "run.ckpt: its lengths do not fit its size");
  EXPECT_EQ(refused(described("{]")), "run.ckpt: its description: not JSON at line 1, column 2");
  EXPECT_EQ(refused(described("[]")), "run.ckpt: its description has no 'identity'");
  EXPECT_EQ(refused(described(R"({"identity":1,"state":2,"arrays":3})")), "run.ckpt: its 'arrays' are no list");
}

}  // namespace checkpoint_test
