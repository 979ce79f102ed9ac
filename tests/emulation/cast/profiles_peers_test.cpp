// Profiles against the libraries' answers (tests/peers/profiles.py): digests, and every boundary in the tables of
// ranges.
#include "check.hpp"

#include <halfulp/emulation/cast/profile.hpp>
#include <halfulp/support/files.hpp>

#include <halfulp_test_paths.hpp>

#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>

namespace profiles_peers_test {

using namespace halfulp;
using verify::chunk_size;

struct Answered {
  std::string profile, from, to, digest;
  std::map<std::uint64_t, std::uint64_t> chunks, ranges;  ///< by chunk number; by first code word
};

std::vector<Answered> committed() {
  std::vector<Answered> all;
  for (const auto& file : std::filesystem::directory_iterator(HALFULP_CASTS)) {
    std::ifstream in(file.path());
    for (std::string line; std::getline(in, line);) {
      std::istringstream words(line);
      std::string word;
      words >> word;
      if (word == "#" || word == "some") continue;  // "some inputs": only chunks
      if (word == "=") {
        all.push_back({file.path().stem(), {}, {}, {}, {}, {}});
        words >> all.back().from >> all.back().to;
      } else if (word == "digest") {
        words >> all.back().digest;
      } else if (word == "chunk") {
        std::uint64_t index = 0;
        std::string digest;
        words >> index >> digest;
        all.back().chunks[index] = std::stoull(digest, nullptr, 16);
      } else {
        std::string result;
        words >> result;
        all.back().ranges[std::stoull(word, nullptr, 16)] = std::stoull(result, nullptr, 16);
      }
    }
  }
  return all;
}

/// The same sample as in profiles.py.
std::vector<std::uint64_t> double_sample() {
  const auto splitmix = [](std::uint64_t i) { return check::Random{i * 0x9e37'79b9'7f4a'7c15}(); };
  std::vector<std::uint64_t> codes;
  constexpr std::uint64_t mask = (std::uint64_t{1} << 52) - 1;
  for (std::uint64_t i = 0; i < 1 << 22; ++i) {
    const std::uint64_t a = splitmix(2 * i), b = splitmix(2 * i + 1);
    const std::uint64_t fraction = a & mask, dropped = 52 - (1 + (b >> 32) % 26), top = fraction >> dropped << dropped,
                        kind = b >> 62;
    std::uint64_t code = (1023 - 160 + b % 320) << 52 | (kind == 0 ? fraction : top);
    if (kind == 2) ++code;
    if (kind == 3) --code;
    const std::uint64_t rare = (b >> 20) % 64;
    if (rare == 0) code = fraction;
    if (rare == 1) code = std::uint64_t{0x7ff} << 52 | (kind < 2 ? top : 0);
    codes.push_back(code | (a & (std::uint64_t{1} << 63)));
  }
  return codes;
}

template <class In, class Out>
std::uint64_t digest_of(const CastRule& rule, const FloatFormat& from, const std::vector<In>& in) {
  static std::vector<Out> out;  // one for all chunks
  out.resize(in.size());
  apply(rule, from, std::span<const In>(in), std::span<Out>(out));
  return verify::chunk_digest(std::as_bytes(std::span<const Out>(out)));
}

template <class In>
std::uint64_t digest_of(const CastRule& rule, const FloatFormat& from, const std::vector<In>& in) {
  switch (rule.to.storage_bytes()) {
    case 1: return digest_of<In, std::uint8_t>(rule, from, in);
    case 2: return digest_of<In, std::uint16_t>(rule, from, in);
    default: return digest_of<In, std::uint32_t>(rule, from, in);
  }
}

std::uint64_t chunk_of_floats(const CastRule& rule, std::uint64_t chunk) {
  static std::vector<std::uint32_t> in(chunk_size);
  for (std::uint64_t i = 0; i < chunk_size; ++i) in[i] = static_cast<std::uint32_t>(chunk * chunk_size + i);
  return digest_of(rule, fp32, in);
}

/// Some chunks by default, all of them in the exhaustive run.
void check_floats(const Answered& answer, const CastRule& rule) {
  if (check::exhaustive() && !answer.digest.empty()) {
    std::vector<std::uint64_t> digests;
    for (std::uint64_t chunk = 0; chunk < 256; ++chunk) digests.push_back(chunk_of_floats(rule, chunk));
    EXPECT_EQ(verify::digest(digests), answer.digest);
  }
  EXPECT_EQ(answer.chunks.size(), 10u);
  const std::set<std::uint64_t> usual = {0x00, 0x43, 0x7f, 0x80, 0xc3};
  for (const auto& [chunk, digest] : answer.chunks)
    if (check::exhaustive() || usual.contains(chunk))
      EXPECT_EQ(chunk_of_floats(rule, chunk), digest) << "chunk " << chunk;
}

class ProfileOfAPeer : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Profiles, ProfileOfAPeer,
                         testing::Values("ml_dtypes", "pytorch", "pytorch-legacy", "onnx", "onnx-nosaturate",
                                         "tensorflow", "microxcaling", "cuda-satfinite", "cuda-nosat", "x86"),
                         [](const auto& info) { return std::regex_replace(info.param, std::regex("-"), "_"); });

TEST_P(ProfileOfAPeer, GivesWhatTheLibraryGave) {
  static const std::vector<Answered> answers = committed();
  static const std::vector<std::uint64_t> doubles = double_sample();
  EXPECT_GT(answers.size(), 100u);
  int compared = 0;
  for (const Answered& answer : answers) {
    if (answer.profile != GetParam()) continue;
    ++compared;
    SCOPED_TRACE(answer.profile + " " + answer.from + " " + answer.to);
    const FloatFormat from = parse_format(answer.from), to = parse_format(answer.to);
    const CastRule* rule = find_rule(find_profile(answer.profile), from, to);
    ASSERT_TRUE(rule) << "a library answers, and the profile does not offer it";
    EXPECT_NE(rule->evidence, CastEvidence::specification);
    std::uint64_t before = 0;
    for (const auto& [code, result] : answer.ranges) {
      EXPECT_EQ(apply(*rule, from, code), result) << std::hex << code;
      if (code > 0) { EXPECT_EQ(apply(*rule, from, code - 1), before) << std::hex << code - 1; }
      before = result;
    }
    if (from == fp32) {
      check_floats(answer, *rule);
    } else if (from == fp64) {
      const std::uint64_t digest[] = {digest_of(*rule, from, doubles)};
      EXPECT_EQ(verify::digest(digest), answer.digest);
    } else {
      std::vector<std::uint16_t> in(1 << 16);
      for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::uint16_t>(i);
      const std::uint64_t digest[] = {digest_of(*rule, from, in)};
      EXPECT_EQ(verify::digest(digest), answer.digest);
    }
  }
  EXPECT_GT(compared, 2);
}

/// A rule that claims to be compared has an answer here for each of its formats.
TEST(ProfilesOfPeers, NothingIsCalledComparedThatWasNot) {
  std::map<std::string, int> answered;
  for (const Answered& answer : committed()) ++answered[answer.profile + " " + answer.from + " " + answer.to];
  for (const Profile& profile : profiles())
    for (const CastRule& rule : profile.rules)
      for (const FloatFormat& from : source_formats(rule.from)) {
        const std::string pair = std::string(profile.name) + " " + format_name(from) + " " + format_name(rule.to);
        const bool compared = rule.evidence == CastEvidence::compared;
        EXPECT_GE(answered[pair], compared ? 1 : 0) << pair;
        EXPECT_LE(answered[pair], compared || rule.evidence == CastEvidence::rederived ? 1 : 0) << pair;
      }
}

}  // namespace profiles_peers_test
