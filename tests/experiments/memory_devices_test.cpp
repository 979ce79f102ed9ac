// The experiment "memory": inference, numbers of devices and micro-batches against sums and searches by hand.
#include "experiment_run.hpp"

#include <halfulp/experiments/memory/memory.hpp>

#include <gtest/gtest.h>

#include <map>

namespace halfulp::memory {
namespace memory_devices_test {

using tests::refusal_of, tests::report_of;
using training::find_policy, training::OptimizerKind, training::parse_storage;

ModelShape model_of(const char* json) { return parse_model(parse_json(json, "test"), "test"); }

/// Two layers of width 8: four matrices of 8 x 8 and two of 32 x 8; beside them an embedding of 11 x 8, five norms with
/// biases, and biases of matrices.
const char* const small = R"({"name": "m", "layers": 2, "hidden": 8, "heads": 4, "kv_heads": 4, "vocabulary": 11})";
constexpr std::uint64_t matrices = 2 * (4 * 64 + 2 * 256), others = 11 * 8 + 2 * (4 * 8 + 4 * 8 + 32 + 8) + 2 * 8;

TEST(MemoryInference, weights_with_scales_are_those_of_layers) {
  const ModelShape m = model_of(small);
  ASSERT_EQ(parameter_count(m), matrices + others);
  const auto bytes = [&](const char* format) { return weight_bytes(m, parse_storage(format, "test")); };
  EXPECT_EQ(bytes("fp32"), 4 * (matrices + others));
  EXPECT_EQ(bytes("bf16"), 2 * (matrices + others));
  EXPECT_EQ(bytes("e4m3"), matrices + others) << "no scales: everything";
  EXPECT_EQ(bytes("e4m3-tensor"), matrices + 2 * others + 2 * 6 * 4u) << "a scale for each of six matrices a layer";
  EXPECT_EQ(bytes("int8"), matrices + 2 * others + 2 * (5 * 8 + 32) * 4u) << "a scale for each row";
  // Rows of 8 have a block of 32 each, those of 32 (ffn down) one too.
  EXPECT_EQ(bytes("mxfp4"), matrices / 2 + 2 * others + 2 * (5 * 8 + 32) * 1u);
  ModelShape untied = m;
  untied.tied = false;
  EXPECT_EQ(weight_bytes(untied, parse_storage("mxfp4", "test")), bytes("mxfp4") + 2 * 11 * 8)
      << "an output layer of its own is no layer's matrix";
}

TEST(MemoryInference, keys_and_values_of_every_layer_token_and_head) {
  const auto bytes = [](const ModelShape& m, const char* format, std::uint64_t context, std::uint64_t batch) {
    return cache_bytes(m, parse_storage(format, "test"), context, batch);
  };
  const ModelShape& llama = find_model("llama-3-8b");
  EXPECT_EQ(bytes(llama, "bf16", 100, 3), 2u * 32 * 8 * 128 * 300 * 2) << "8 of 32 heads have keys and values";
  EXPECT_EQ(bytes(llama, "int8", 100, 3), 2u * 32 * 8 * (128 + 4) * 300) << "a scale for each head of each token";
  EXPECT_EQ(bytes(find_model("llama-2-70b"), "bf16", 4096, 1), 80u * 1024 * 2 * 4096 * 2);
  EXPECT_EQ(bytes(find_model("bert-base"), "bf16", 100, 1), 0u) << "encoders compute all tokens at once";
  EXPECT_EQ(bytes(find_model("zero-7.5b"), "bf16", 100, 1), 0u) << "no shape";
  EXPECT_THROW(bytes(find_model("llama-3.1-405b"), "bf16", 1 << 20, 1 << 20), std::invalid_argument);
}

TEST(MemoryDevices, the_fewest_ranks_by_counting_up) {
  const ModelShape m = model_of(small);
  for (const char* name : {"fp32", "O2", "amp-bf16"}) {
    const auto policy = find_policy(name);
    const StateBytes whole = state_bytes(m, policy, OptimizerKind::adamw, false);
    for (const bool gathers : {false, true})
      for (const std::uint64_t own : {0u, 500u})
        for (const std::uint64_t room : {400u, 3000u, 5000u, 9000u, 40'000u}) {
          std::optional<std::uint64_t> expected;
          for (std::uint64_t n = 1; n <= 20'000 && !expected; ++n) {
            std::uint64_t held = own + (gathers && n > 1 ? gathered_bytes(m, policy, 3, n) : 0);
            for (const std::uint64_t bytes : whole) held += (bytes + n - 1) / n;
            if (held <= room) expected = n;
          }
          EXPECT_EQ(fewest_ranks(m, policy, whole, gathers, own, room), expected) << name << " " << own << " " << room;
        }
  }
}

TEST(MemoryDevices, batches_by_counting_up) {
  const ModelShape m = model_of(small);
  const auto policy = find_policy("O2");
  for (const auto how : {Recomputation::none, Recomputation::full})
    for (const std::uint64_t others_bytes : {0u, 1000u, 100'000u, 1'234'567u}) {
      std::uint64_t batch = 1;
      while (activation_bytes(activation_tensors(m, policy, 10, batch, how)) <= others_bytes) ++batch;
      EXPECT_EQ(batch_above(m, policy, 10, how, others_bytes), batch);
    }
  const std::uint64_t three = activation_bytes(activation_tensors(m, policy, 10, 3, Recomputation::none));
  EXPECT_EQ(batch_above(m, policy, 10, Recomputation::none, three), 4u) << "as much is not more";
  EXPECT_EQ(batch_above(m, policy, 1, Recomputation::full, std::uint64_t{1} << 55), std::nullopt) << "above 2^20";
}

std::vector<std::map<std::string, Json>> rows(const Json& report, const std::string& table) {
  std::vector<std::map<std::string, Json>> all;
  const Json& t = report["results"].at(table);
  for (const Json& row : t["rows"]) {
    auto& object = all.emplace_back();
    for (std::size_t i = 0; i < row.size(); ++i) object[t["columns"][i]["name"].get<std::string>()] = row[i];
  }
  return all;
}

TEST(MemoryDevices, tables_of_gpt2) {
  const Json report = report_of("memory", {"models=gpt2,zero-7.5b", "policies=O2", "weights=bf16,int4", "caches=bf16",
                                           "device_gb=1,80", "usable=0.5", "batches=1,3", "batch=2"});
  EXPECT_EQ(report["status"], "pass");
  const std::uint64_t n = 124439808, inside = 12 * 12 * 768 * 768, cache = 2u * 12 * 768 * 1024 * 2 * 2;
  const std::uint64_t weights[] = {2 * n, inside / 2 + inside / 128 * 4 + 2 * (n - inside)};
  const auto inference = rows(report, "inference");
  ASSERT_EQ(inference.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    auto row = inference[i];
    EXPECT_EQ(row["weight_bytes"], weights[i]);
    EXPECT_EQ(row["cache_bytes"], cache);
    EXPECT_DOUBLE_EQ(row["bits_a_weight"].get<double>(),
                     8.0 * static_cast<double>(weights[i]) / static_cast<double>(n));
    EXPECT_DOUBLE_EQ(row["cache_share"].get<double>(),
                     static_cast<double>(cache) / static_cast<double>(cache + weights[i]));
  }
  // 324 MB and 205 MB of half a GB, and of 40.
  for (auto row : rows(report, "inference_devices")) EXPECT_EQ(row["devices"], 1) << row["weights"];
  const std::uint64_t sequence = 1024u * 768 * 34 * 12 + 5u * 12 * 1024 * 1024 * 12,  // Korthikanti's formula
      outside = 1024u * (5 * 768 + 2 * 50257), states = 16 * n;
  for (auto row : rows(report, "batch")) {
    if (row["recomputation"] != "none") continue;
    const std::uint64_t kept = (sequence + outside) * row["batch"].get<std::uint64_t>();
    EXPECT_EQ(row["activations"], kept);
    EXPECT_DOUBLE_EQ(row["share"].get<double>(), static_cast<double>(kept) / static_cast<double>(kept + states));
    const double shard = static_cast<double>(states / 64 + 2 * 50257 * 768);
    EXPECT_DOUBLE_EQ(row["sharded"].get<double>(), static_cast<double>(kept) / (static_cast<double>(kept) + shard));
  }
  EXPECT_EQ(rows(report, "batch_half")[0]["from"], states / (sequence + outside) + 1);
  for (auto row : rows(report, "training_devices")) {
    EXPECT_EQ(row["shared"], states);
    if (row["recomputation"] == "none") { EXPECT_EQ(row["own"], 2 * (sequence + outside)); }
    EXPECT_EQ(row["for_states"], row["device_gb"] == 80 ? 1 : 4) << "1.99 GB in shares of half a GB";
    if (row["device_gb"] == 1 && row["recomputation"] != "full") { EXPECT_TRUE(row["devices"].is_null()); }
  }
}

TEST(MemoryDevices, claims_miss_what_other_numbers_give) {
  // A published number that is another one does not come out: claims compare.
  const Json report = report_of("memory", {"models=gpt2"});
  std::map<std::string, Json> claims;
  for (const Json& claim : report["claims"]) claims[claim["id"]] = claim;
  EXPECT_EQ(claims.at("bloom-training-devices")["measured"], Json({71, 36, 20}));
  EXPECT_EQ(claims.at("bloom-inference-devices")["measured"], Json({8, 16, 4}));
  EXPECT_EQ(claims.at("bloom-replica")["measured"], 48.0);
  EXPECT_EQ(claims.at("activations-half")["measured"]["gpt3-175b"], Json({11, 34, 542}));
  const Json long_texts = report_of("memory", {"models=gpt2", "policies=fp32", "sequence=1048576", "batches=1,64"});
  for (auto row : rows(long_texts, "batch"))
    if (row["recomputation"] == "none") { EXPECT_EQ(row["activations"].is_null(), row["batch"] == 64); }
  EXPECT_NE(refusal_of("memory", {"weights=int9"}).find("weights"), std::string::npos);
  EXPECT_NE(refusal_of("memory", {"caches="}).find("caches"), std::string::npos);
  EXPECT_NE(refusal_of("memory", {"usable=0"}).find("usable"), std::string::npos);
  EXPECT_NE(refusal_of("memory", {"device_gb=0"}).find("device_gb"), std::string::npos);
}

}  // namespace memory_devices_test
}  // namespace halfulp::memory
