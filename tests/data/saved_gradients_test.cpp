// Folders of gradients: the files byte by byte, what is read back, and the refusal of every bad folder in one line.
#include <halfulp/data/npy.hpp>
#include <halfulp/data/saved_gradients.hpp>
#include <halfulp/training/layers/numerics.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <stdexcept>

namespace halfulp {
namespace saved_gradients_test {

namespace fs = std::filesystem;
using Shape = std::vector<std::uint64_t>;

const Json about{{"network", "mlp"}, {"policy", "fp16"}, {"seed", 1}};

std::string bytes_of(const fs::path& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

std::vector<float> values_of(const std::string& path) {
  NpyReader npy(path);
  std::vector<std::uint64_t> codes(npy.header().count);
  npy.read(codes);
  std::vector<float> values;
  for (const std::uint64_t code : codes) values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(code)));
  return values;
}

class SavedGradientsTest : public ::testing::Test {
 protected:
  SavedGradientsTest() { fs::create_directories(root); }
  ~SavedGradientsTest() override { fs::remove_all(root); }

  void put(const std::string& name, const std::string& text) const {
    fs::create_directories((root / name).parent_path());
    std::ofstream(root / name, std::ios::binary) << text;
  }
  /// Two steps of two tensors.
  void save(const std::string& name = "run") const {
    SavedGradients saved(root / name, about);
    for (const std::uint64_t step : {100u, 200u}) {
      saved.add(step, "fc1.weight.gradient", GradientKind::of_weight, 1024, Shape{2, 3},
                std::vector<float>{0, -0.0f, 1, 2, 3, static_cast<float>(step)});
      saved.add(step, "relu1.activation-gradient", GradientKind::of_activation, 1024, Shape{2},
                std::vector<float>{5, 6});
    }
    saved.finish();
  }
  /// The reader's message, which is one line and names the file.
  std::string complaint(const std::string& name = "run") const {
    return complaint_of([&] { read_gradients(root / name); });
  }
  template <class F>
  std::string complaint_of(F&& run) const {
    try {
      run();
    } catch (const std::invalid_argument& error) {
      const std::string line = error.what();
      EXPECT_EQ(line.find('\n'), std::string::npos) << line;
      EXPECT_NE(line.find(root.string()), std::string::npos) << line;
      return line;
    }
    return "accepted";
  }
  /// The reader's message about a listing with this change.
  template <class F>
  std::string with_listing(F&& change) const {
    fs::remove_all(root / "run");
    save();
    Json json = read_json(root / "run" / "gradients.json");
    change(json);
    put("run/gradients.json", json.dump());
    return complaint();
  }
  const fs::path root = fs::path(::testing::TempDir()) / ("halfulp-gradients-" + std::to_string(::getpid()));
};

#define EXPECT_SAYS(line, words) EXPECT_NE((line).find(words), std::string::npos) << (line)

TEST_F(SavedGradientsTest, a_file_is_what_numpy_wants_byte_by_byte) {
  const std::vector<float> values{
      1, -2, 0x1p-149f, std::numeric_limits<float>::infinity(), std::bit_cast<float>(0x7fc12345u), -0.0f};
  write_npy(root / "a.npy", Shape{2, 3}, values);
  std::string expected = std::string("\x93NUMPY\x01\x00\x76\x00", 10) +
                         "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  expected.resize(127, ' ');
  expected += '\n';
  expected += std::string(
      "\x00\x00\x80\x3f"
      "\x00\x00\x00\xc0"
      "\x01\x00\x00\x00"
      "\x00\x00\x80\x7f"
      "\x45\x23\xc1\x7f"
      "\x00\x00\x00\x80",
      24);
  EXPECT_EQ(bytes_of(root / "a.npy"), expected);

  for (const auto& [shape, text] :
       std::vector<std::pair<Shape, std::string>>{{{}, "()"}, {{1}, "(1,)"}, {{1, 1, 1, 1}, "(1, 1, 1, 1)"}}) {
    write_npy(root / "a.npy", shape, std::vector<float>{7});
    EXPECT_SAYS(bytes_of(root / "a.npy"), "'shape': " + text + ", }");
    EXPECT_EQ(values_of(root / "a.npy"), std::vector<float>{7});
  }
  EXPECT_THROW(write_npy(root / "a.npy", Shape{2, 2}, values), std::logic_error);
  EXPECT_SAYS(complaint_of([&] {
                write_npy(root / "none" / "a.npy", Shape{6}, values);
                return 0;
              }),
              "No such file");
}

TEST_F(SavedGradientsTest, what_was_saved_is_read_in_its_order) {
  save();
  EXPECT_TRUE(fs::exists(root / "run" / "step-000100" / "fc1.weight.gradient.npy"));
  const GradientFolder folder = read_gradients(root / "run");
  EXPECT_TRUE(folder.listed);
  EXPECT_EQ(folder.about, about);
  ASSERT_EQ(folder.gradients.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    const SavedGradient& g = folder.gradients[i];
    const bool weight = i % 2 == 0;
    EXPECT_EQ(g.name, weight ? "fc1.weight.gradient" : "relu1.activation-gradient");
    EXPECT_EQ(g.kind, weight ? GradientKind::of_weight : GradientKind::of_activation);
    EXPECT_EQ(g.step, i < 2 ? 100u : 200u);
    EXPECT_EQ(g.scale, 1024);
    EXPECT_EQ(g.shape, weight ? (Shape{2, 3}) : Shape{2});
    EXPECT_EQ(g.format, fp32);
  }
  EXPECT_EQ(values_of(folder.gradients[2].path), (std::vector<float>{0, -0.0f, 1, 2, 3, 200}));
  EXPECT_EQ(values_of(folder.gradients[1].path), (std::vector<float>{5, 6}));
}

/// The trainer's names for the same things.
TEST_F(SavedGradientsTest, kinds_have_the_names_of_roles) {
  EXPECT_EQ(name_of(GradientKind::of_weight), training::name_of(training::Role::gradient_of_weight));
  EXPECT_EQ(name_of(GradientKind::of_activation), training::name_of(training::Role::gradient_of_activation));
}

TEST_F(SavedGradientsTest, an_interrupted_training_leaves_its_whole_steps) {
  {
    SavedGradients saved(root / "run", about);
    EXPECT_SAYS(complaint(), "lists no tensors");
    saved.add(1, "a", GradientKind::of_weight, 1, Shape{1}, std::vector<float>{1});
    EXPECT_SAYS(complaint(), "lists no tensors");
    saved.add(2, "a", GradientKind::of_weight, 1, Shape{1}, std::vector<float>{2});
  }
  EXPECT_EQ(read_gradients(root / "run").gradients.size(), 1u);
}

TEST_F(SavedGradientsTest, a_run_again_replaces_it_and_one_that_goes_on_keeps_earlier_steps) {
  save();
  const std::string listing = bytes_of(root / "run" / "gradients.json");
  {
    SavedGradients saved(root / "run", about, 200);
    EXPECT_EQ(read_gradients(root / "run").gradients.size(), 2u);
    EXPECT_FALSE(fs::exists(root / "run" / "step-000200"));
    saved.add(200, "fc1.weight.gradient", GradientKind::of_weight, 1024, Shape{2, 3},
              std::vector<float>{0, 0, 1, 2, 3, 200});
    saved.add(200, "relu1.activation-gradient", GradientKind::of_activation, 1024, Shape{2}, std::vector<float>{5, 6});
    saved.finish();
  }
  EXPECT_EQ(bytes_of(root / "run" / "gradients.json"), listing);
  Json other = about;
  other["seed"] = 2;
  EXPECT_SAYS(complaint_of([&] { SavedGradients(root / "run", other, 200); }), "of another training");
  EXPECT_EQ(bytes_of(root / "run" / "gradients.json"), listing);
  put("run/notes.txt", "the user's");
  EXPECT_SAYS(complaint_of([&] { SavedGradients(root / "run", other); }), "of another training");
  EXPECT_TRUE(fs::exists(root / "run" / "step-000100")) << "another training's gradients are not ours to remove";
  SavedGradients(root / "run", about);
  EXPECT_FALSE(fs::exists(root / "run" / "step-000100"));
  EXPECT_TRUE(fs::exists(root / "run" / "notes.txt"));
}

TEST_F(SavedGradientsTest, folders_of_other_things_stay_as_they_are) {
  const auto open = [&](const std::string& name) { return complaint_of([&] { SavedGradients(root / name, about); }); };
  put("other/thesis.txt", "x");
  EXPECT_SAYS(open("other"), "other files and no gradients.json; accepted: a new folder");
  EXPECT_EQ(bytes_of(root / "other" / "thesis.txt"), "x");
  EXPECT_SAYS(open("other/thesis.txt"), "not a folder");
  EXPECT_SAYS(open("none/run"), "cannot make the folder: No such file");
  put("bad/gradients.json", "{");
  EXPECT_SAYS(open("bad"), "gradients.json");
  fs::create_directories(root / "empty");
  EXPECT_EQ(open("empty"), "accepted");
  // A listing cannot lead to files outside.
  put("outside.npy", "x");
  put("bad/gradients.json",
      R"({"version": 1, "about": {}, "tensors": [{"name": "../../outside", "kind": "gradient-of-weight", "step": 1, "scale": 1, "shape": []}]})");
  EXPECT_SAYS(open("bad"), "tensors[0].name");
  EXPECT_TRUE(fs::exists(root / "outside.npy"));
}

TEST_F(SavedGradientsTest, mistakes_of_a_caller) {
  SavedGradients saved(root / "run", about);
  const std::vector<float> one{1};
  const auto add = [&](std::uint64_t step, const char* name, GradientKind kind, double scale) {
    saved.add(step, name, kind, scale, Shape{1}, one);
  };
  add(2, "a", GradientKind::of_weight, 1);
  EXPECT_THROW(add(2, "a", GradientKind::of_weight, 1), std::logic_error);
  EXPECT_THROW(add(1, "b", GradientKind::of_weight, 1), std::logic_error);
  EXPECT_THROW(add(3, "b", GradientKind::unknown, 1), std::logic_error);
  for (const double scale : {-1.0, HUGE_VAL, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_THROW(add(3, "b", GradientKind::of_weight, scale), std::logic_error);
  for (const char* name : {"", ".b", "a/b", "a b", "..", "\xc3\xa4"})
    EXPECT_THROW(add(3, name, GradientKind::of_weight, 1), std::logic_error) << name;
  EXPECT_THROW(saved.add(3, "b", GradientKind::of_weight, 1, Shape{2}, one), std::logic_error);
}

TEST_F(SavedGradientsTest, a_users_own_files_come_by_name) {
  for (const char* name : {"own/b.npy", "own/a2.npy", "own/a10.npy", "own/deeper/c.npy"}) {
    fs::create_directories((root / name).parent_path());
    write_npy(root / name, Shape{1}, std::vector<float>{1});
  }
  put("own/readme.txt", "x");
  put("own/half.npy", npy_bytes("<f2", Shape{2}, "1234"));
  const GradientFolder folder = read_gradients(root / "own");
  EXPECT_FALSE(folder.listed);
  std::vector<std::string> names;
  for (const SavedGradient& g : folder.gradients) {
    names.push_back(g.name);
    EXPECT_EQ(g.kind, GradientKind::unknown);
    EXPECT_EQ(g.step, std::nullopt);
    EXPECT_EQ(g.scale, 1);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"a10", "a2", "b", "half"}));
  EXPECT_EQ(folder.gradients[3].format, fp16);
}

TEST_F(SavedGradientsTest, bad_folders) {
  EXPECT_SAYS(complaint("none"), "no such folder");
  fs::create_directories(root / "empty");
  EXPECT_SAYS(complaint("empty"), "no .npy file");
  put("own/a.npy", "x");
  EXPECT_SAYS(complaint("own"), "a.npy: not a .npy file");
  save();
  EXPECT_SAYS(complaint("run/step-000100"), "accepted: the folder above it");
  fs::remove(root / "run" / "step-000200" / "fc1.weight.gradient.npy");
  EXPECT_SAYS(complaint(), "step-000200/fc1.weight.gradient.npy: no such file");
  save();
  write_npy(root / "run" / "step-000100" / "fc1.weight.gradient.npy", Shape{3, 2}, std::vector<float>(6));
  EXPECT_SAYS(complaint(), "its shape is (3, 2), in gradients.json it is (2, 3)");
}

TEST_F(SavedGradientsTest, bad_listings) {
  for (const char* text : {"", "{", "[]", "3", "{\"version\": 1}", "{\"version\": 1, \"about\": {}, \"tensors\": 3}",
                           "{\"version\": 1, \"about\": 1, \"tensors\": []}"}) {
    put("bad/gradients.json", text);
    EXPECT_NE(complaint("bad"), "accepted") << text;
  }
  EXPECT_EQ(with_listing([](Json&) {}), "accepted");
  EXPECT_SAYS(with_listing([](Json& json) { json["version"] = 2; }), "version is 2; accepted: 1");
  EXPECT_SAYS(with_listing([](Json& json) { json["more"] = 2; }), "more");
  EXPECT_SAYS(with_listing([](Json& json) { json["tensors"] = Json::array(); }), "lists no tensors");
  EXPECT_SAYS(with_listing([](Json& json) { json["tensors"][1] = 3; }), "tensors[1] is 3");
  EXPECT_SAYS(with_listing([](Json& json) { json["tensors"][1] = json["tensors"][0]; }), "is there twice");
  for (const char* member : {"name", "kind", "step", "scale", "shape"}) {
    EXPECT_SAYS(with_listing([&](Json& json) { json["tensors"][1].erase(member); }),
                std::string("tensors[1]: ") + member + " is missing");
    EXPECT_SAYS(with_listing([&](Json& json) { json["tensors"][1][member] = nullptr; }),
                std::string("tensors[1].") + member);
  }
  EXPECT_SAYS(with_listing([](Json& json) { json["tensors"][1]["kind"] = "gradient-of-weigth"; }),
              "did you mean gradient-of-weight");
  EXPECT_SAYS(with_listing([](Json& json) { json["tensors"][1]["kind"] = "unknown"; }), "unknown kind");
  EXPECT_SAYS(with_listing([](Json& json) { json["tensors"][1]["scale"] = -1; }), "tensors[1].scale is -1");
  EXPECT_SAYS(with_listing([](Json& json) { json["tensors"][1]["step"] = 1.5; }), "tensors[1].step is 1.5");
  EXPECT_SAYS(with_listing([](Json& json) { json["tensors"][1]["step"] = -1; }), "tensors[1].step is -1");
  EXPECT_SAYS(with_listing([](Json& json) { json["tensors"][1]["shape"] = {-2}; }), "tensors[1].shape");
  EXPECT_SAYS(with_listing([](Json& json) { json["tensors"][1]["name"] = "a/b"; }), "tensors[1].name is \"a/b\"");
}

}  // namespace saved_gradients_test
}  // namespace halfulp
