// The experiment "memory": models, bits, shards and activations against sums by hand; files of models, and what is
// refused.
#include "experiment_run.hpp"

#include <halfulp/experiments/memory/memory.hpp>

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdio>
#include <fstream>

namespace halfulp::memory {
namespace memory_test {

using tests::refusal_of, tests::report_of;
using training::find_policy, training::OptimizerKind, training::parse_storage;

ModelShape model_of(const char* json) { return parse_model(parse_json(json, "test"), "test"); }

std::uint64_t of(const StateBytes& bytes, MemoryState s) { return bytes[static_cast<std::size_t>(s)]; }

TEST(MemoryModel, every_tensor_of_a_small_one) {
  // A layer: norms 2 * 2 * 8, query and output 8 x 8 + 8 each, key and value 4 x 8 + 4 each, feed-forward 3 of 10 x 8
  // with biases of 10, 10, 8.
  const ModelShape m = model_of(
      R"({"name": "m", "layers": 3, "hidden": 8, "heads": 4, "kv_heads": 2, "ffn": 10, "gated": true, "vocabulary": 11, "positions": 5,
                               "token_types": 2, "embedding_norm": true, "pooler": true, "tied": false})");
  const std::uint64_t layer = 32 + 2 * 72 + 2 * 36 + 3 * 80 + 28;
  EXPECT_EQ(parameter_count(m), 3 * layer + (11 + 5 + 2) * 8 + 16 + 16 + 72 + 88);
  const ModelShape experts = model_of(
      R"({"name": "m", "layers": 2, "hidden": 8, "heads": 2, "head_size": 3, "ffn": 10, "experts": 4, "experts_used": 2, "vocabulary": 11,
                                     "biases": false, "norm": "rms", "final_norm": false})");
  EXPECT_EQ(parameter_count(experts), 2 * (16 + 4 * 6 * 8 + 4 * 8 + 4 * 2 * 80) + 88u);
  EXPECT_EQ(parameter_count(model_of(R"({"name": "m", "parameters": 12345})")), 12345u);
}

TEST(MemoryModel, names_are_counted_as_published) {
  for (const ModelShape& m : models())
    if (m.published_unit == 1 && m.published) { EXPECT_EQ(parameter_count(m), m.published) << m.name; }
  EXPECT_THROW(find_model("gpt5"), std::invalid_argument);
}

TEST(MemoryBytes, bits_with_scales) {
  const auto bits = [](const char* storage, std::uint64_t rows, std::uint64_t columns) {
    return storage_bits(parse_storage(storage, "test"), rows, columns);
  };
  EXPECT_EQ(bits("fp32", 3, 5), 15u * 32);
  EXPECT_EQ(bits("mxfp4", 3, 33), 3u * (33 * 4 + 2 * 8)) << "a block that the edge cuts short has a scale too";
  EXPECT_EQ(bits("nvfp4", 1, 16), 16u * 4 + 8 + 32);
  EXPECT_EQ(bits("fp8-128x128", 129, 128), 129u * 128 * 8 + 2 * 32);
  EXPECT_EQ(bits("e4m3-row", 3, 5), 15u * 8 + 3 * 32);
  EXPECT_EQ(bits("int4-affine", 2, 128), 2u * (128 * 4 + 32 + 4));
}

TEST(MemoryBytes, policies) {
  const ModelShape& m = find_model("gpt2");
  const std::uint64_t n = 124439808, vectors = 12 * 2 * 2 * 768 + 2 * 768, biases = 12 * (9 * 768),
                      positions = 1024 * 768;
  const auto states = [&](const char* policy, OptimizerKind kind = OptimizerKind::adam, bool momentum = false) {
    return state_bytes(m, find_policy(policy), kind, momentum);
  };
  EXPECT_EQ(states("fp32"), (StateBytes{4 * n, 4 * n, 0, 4 * n, 4 * n, 0, 0}));
  EXPECT_EQ(states("O2"), (StateBytes{2 * n, 2 * n, 4 * n, 4 * n, 4 * n, 0, 0}));
  EXPECT_EQ(states("pure-bf16"), (StateBytes{2 * n, 2 * n, 0, 2 * n, 2 * n, 0, 0}));
  EXPECT_EQ(of(states("bf16-kahan"), MemoryState::compensation), 2 * n);
  const StateBytes amp = states("amp-bf16");
  EXPECT_EQ(of(amp, MemoryState::parameters), 4 * n);
  EXPECT_EQ(of(amp, MemoryState::gradients), 4 * n) << ".grad has the parameters' type";
  EXPECT_EQ(of(amp, MemoryState::copies), 2 * (n - vectors - biases - positions))
      << "matrices alone, the tied embedding too";
  EXPECT_EQ(states("fp32", OptimizerKind::sgd), (StateBytes{4 * n, 4 * n, 0, 0, 0, 0, 0}));
  EXPECT_EQ(of(states("fp32", OptimizerKind::sgd, true), MemoryState::first), 4 * n);
  EXPECT_EQ(of(states("fp32", OptimizerKind::sgd, true), MemoryState::second), 0u);
}

TEST(MemoryBytes, stages_share_one_thing_after_another) {
  const StateBytes whole{20, 20, 41, 40, 40, 7, 9};
  EXPECT_EQ(on_a_rank(whole, 0, 4), whole);
  EXPECT_EQ(on_a_rank(whole, 1, 4), (StateBytes{20, 20, 11, 10, 10, 2, 9}));
  EXPECT_EQ(on_a_rank(whole, 2, 4), (StateBytes{20, 5, 11, 10, 10, 2, 9}));
  EXPECT_EQ(on_a_rank(whole, 3, 4), (StateBytes{5, 5, 11, 10, 10, 2, 3}));
  EXPECT_EQ(on_a_rank(whole, 3, 1), whole);
  EXPECT_EQ(total(on_a_rank(whole, 3, 1000)), 7u);
}

TEST(MemoryBytes, stage_three_gathers_a_layer_at_a_time) {
  // A layer: norms 2 * 2 * 8, four of 8 x 8 + 8, feed-forward 2 of 32 x 8 with biases of 32 and 8.
  const std::uint64_t matrices = 4 * 64 + 2 * 256, layer = matrices + 32 + 4 * 8 + 40;
  const char* const json = R"({"name": "m", "layers": 3, "hidden": 8, "heads": 2, "vocabulary": 11})";
  const auto gathered = [&](const ModelShape& m, const char* policy) {
    return gathered_bytes(m, find_policy(policy), 3, 2);
  };
  const ModelShape small = model_of(json);
  EXPECT_EQ(gathered(small, "fp32"), 4 * layer);
  EXPECT_EQ(gathered(small, "pure-bf16"), 2 * layer);
  EXPECT_EQ(gathered(small, "amp-bf16"), 4 * layer + 2 * matrices) << "FP32 parameters are gathered, then cast";
  ModelShape large = small;
  large.vocabulary = 1000;
  EXPECT_EQ(gathered(large, "amp-bf16"), (4u + 2) * 8000)
      << "an embedding that is the output layer too is larger than a layer";
  large.layers = 1, large.vocabulary = 11;
  EXPECT_EQ(gathered(large, "fp32"), 4 * layer) << "of a model of one layer too";
  for (const int stage : {0, 1, 2}) EXPECT_EQ(gathered_bytes(small, find_policy("fp32"), stage, 2), 0u);
  EXPECT_EQ(gathered_bytes(small, find_policy("fp32"), 3, 1), 0u) << "nothing is shared";
  EXPECT_EQ(gathered(find_model("zero-7.5b"), "fp32"), 0u) << "layers are not known";
  // BLOOM on 64 ranks: autocast's copies do not outweigh what is shared.
  const ModelShape& bloom = find_model("bloom-176b");
  const auto amp = find_policy("amp-bf16");
  const StateBytes whole = state_bytes(bloom, amp, OptimizerKind::adam, false);
  EXPECT_LT(total(on_a_rank(whole, 3, 64)) + gathered_bytes(bloom, amp, 3, 64), 80'000'000'000u);
}

std::uint64_t layer_bytes(const ModelShape& m, const char* policy, std::uint64_t s, std::uint64_t b, Recomputation r) {
  std::uint64_t bytes = 0;
  for (const ActivationTensor& t : activation_tensors(m, find_policy(policy), s, b, r)) bytes += t.inside ? t.bytes : 0;
  return bytes;
}

TEST(MemoryActivations, a_gpt_and_a_llama) {
  const ModelShape& gpt = find_model("gpt2");
  EXPECT_EQ(layer_bytes(gpt, "pure-fp16", 100, 3, Recomputation::none), 300u * 768 * 34 + 5 * 12 * 100 * 300);
  EXPECT_EQ(layer_bytes(gpt, "pure-fp16", 100, 3, Recomputation::selective), 300u * 768 * 34);
  EXPECT_EQ(layer_bytes(gpt, "pure-fp16", 100, 3, Recomputation::full), 300u * 768 * 2);
  EXPECT_EQ(layer_bytes(gpt, "fp32", 100, 3, Recomputation::full), 300u * 768 * 4);
  // No dropout: softmax once. Norm inputs and product inputs 5 h, queries h, keys and values h / 4 each, feed-forward 4
  // f.
  const ModelShape& llama = find_model("llama-3-8b");
  EXPECT_EQ(layer_bytes(llama, "pure-bf16", 16, 1, Recomputation::none),
            2u * 16 * (6 * 4096 + 2 * 1024 + 4 * 14336) + 2 * 32 * 16 * 16);
  // Two of eight experts see each token.
  const ModelShape& mixtral = find_model("mixtral-8x7b");
  EXPECT_EQ(layer_bytes(mixtral, "pure-bf16", 16, 1, Recomputation::selective),
            2u * 16 * (5 * 4096 + 2 * 1024 + 2 * 4096 + 2 * 4 * 14336));
  EXPECT_TRUE(activation_tensors(find_model("zero-7.5b"), find_policy("fp32"), 16, 1, Recomputation::none).empty());
}

TEST(MemoryReport, models_of_files) {
  const std::string path = ::testing::TempDir() + "model-" + std::to_string(::getpid()) + ".json";
  const auto write = [&](const std::string& text) { std::ofstream(path) << text; };
  write(R"({"name": "mine", "layers": 2, "hidden": 8, "heads": 2, "vocabulary": 10})");
  const Json report = report_of("memory", {"model=" + path, "models=", "policies=fp32", "stages=0", "ranks=1"});
  EXPECT_EQ(report["status"], "pass");
  EXPECT_EQ(report["results"]["models"]["rows"].size(), 1u);
  EXPECT_EQ(report["results"]["models"]["rows"][0][3], 10 * 8 + 2 * (12 * 64 + 13 * 8) + 16);
  write(R"({"parameters": 1000})");
  const Json nameless = report_of("memory",
                                  {"model=" + path, "models=", "policies=amp-bf16", "stages=0", "ranks=1"})["results"];
  EXPECT_EQ(nameless["models"]["rows"][0][0], "model-" + std::to_string(::getpid())) << "the file's name";
  EXPECT_EQ(nameless["bytes_per_parameter"]["rows"][0].back(), nameless["bytes"]["rows"][0].back().get<double>() / 1000)
      << "one total in both tables";
  const auto said = [&](const std::string& text) {
    write(text);
    const std::string line = refusal_of("memory", {"model=" + path});
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    EXPECT_EQ(line.rfind(path, 0), 0u) << line;
    return line;
  };
  EXPECT_NE(said("[]").find("accepted: an object"), std::string::npos);
  EXPECT_NE(said("{").find("not JSON"), std::string::npos);
  EXPECT_NE(said(R"({"name": "m", "layers": 2, "hidden": 8, "heads": 2})").find("vocabulary is missing"),
            std::string::npos);
  EXPECT_NE(said(R"({"name": "m", "layers": 2, "hidden": 8, "heads": 3, "vocabulary": 10})")
                .find("heads is 3, which does not divide hidden, 8"),
            std::string::npos);
  EXPECT_NE(said(R"({"name": "m", "layers": 2, "hidden": 8, "heads": 2, "kv_heads": 3, "vocabulary": 10})")
                .find("kv_heads is 3, which does not divide heads, 2"),
            std::string::npos);
  EXPECT_NE(said(R"({"name": "m", "layers": 2, "hiden": 8, "hidden": 8, "heads": 2, "vocabulary": 10})")
                .find("did you mean hidden"),
            std::string::npos);
  EXPECT_NE(said(R"({"name": "m", "layers": -1, "hidden": 8, "heads": 2, "vocabulary": 10})").find("an integer from 1"),
            std::string::npos);
  EXPECT_NE(
      said(R"({"name": "m", "layers": 2.5, "hidden": 8, "heads": 2, "vocabulary": 10})").find("an integer from 1"),
      std::string::npos);
  EXPECT_NE(
      said(R"({"name": "m", "layers": 100000, "hidden": 1000000000, "heads": 1, "vocabulary": 1})").find("more than"),
      std::string::npos);
  const std::string members = said(R"({"name": "m", "parameters": 7, "layers": 3})");
  EXPECT_NE(members.find("member"), std::string::npos);
  EXPECT_EQ(members.find("parameters"), members.rfind("parameters")) << members;
  EXPECT_NE(
      said(R"({"name": "m", "layers": 1, "hidden": 8, "heads": 2, "vocabulary": 9, "experts": 2, "experts_used": 3})")
          .find("experts_used"),
      std::string::npos);
  std::remove(path.c_str());
  EXPECT_NE(refusal_of("memory", {"model=/nowhere.json"}).find("/nowhere.json"), std::string::npos);
  EXPECT_NE(refusal_of("memory", {"models=gpt-2"}).find("did you mean gpt2"), std::string::npos);
  EXPECT_NE(refusal_of("memory", {"models="}).find("empty"), std::string::npos);
  EXPECT_NE(refusal_of("memory", {"policies=fp33"}).find("policies: "), std::string::npos);
  const std::string policy = testing::TempDir() + "memory_policy.json";
  std::ofstream(policy) << R"({"name": "mine", "base": "fp32",
                               "rules": [{"operators": "linear", "layers": "fc1", "results": "fp16"}]})";
  EXPECT_NE(refusal_of("memory", {"policies=" + policy}).find("mine has a rule for some layers"), std::string::npos);
  std::remove(policy.c_str());
  EXPECT_NE(refusal_of("memory", {"models=llama-3.1-405b", "sequence=1048576", "batch=65536"}).find("2^56"),
            std::string::npos);
}

TEST(MemoryReport, every_policy_and_model_holds) {
  std::string all;
  for (const ModelShape& m : models()) all += (all.empty() ? "" : ",") + m.name;
  for (const char* optimizer : {"adamw", "sgd"}) {
    const Json report = report_of("memory", {"models=" + all, "policies=all", "ranks=7",
                                             std::string("optimizer=") + optimizer, "recomputation=full"});
    EXPECT_EQ(report["status"], "pass");
    for (const Json& claim : report["claims"]) EXPECT_EQ(claim["verdict"], "pass") << claim;
    for (const Json& row : report["results"]["bytes"]["rows"]) {
      std::uint64_t sum = 0;
      for (std::size_t i = 5; i < 12; ++i) sum += row[i].is_null() ? 0 : row[i].get<std::uint64_t>();
      EXPECT_EQ(row[12], sum) << row;
    }
  }
}

}  // namespace memory_test
}  // namespace halfulp::memory
