// Runs a fuzz target without libFuzzer, over its corpus and over seeded mutations, which are the same everywhere.
// usage: TARGET_replay CORPUS_FOLDER MUTATIONS [SEED]
#include "fuzz_target.hpp"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace {

using Bytes = std::vector<std::uint8_t>;

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Random {
  std::uint64_t state;
  std::uint64_t operator()(std::uint64_t below) {
    std::uint64_t z = (state += 0x9e37'79b9'7f4a'7c15);
    z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9;
    z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11eb;
    return (z ^ (z >> 31)) % below;
  }
};

/// A few small mutations: a bit, a byte, a piece lost, doubled, or taken from another file.
Bytes mutated(Bytes bytes, const std::vector<Bytes>& corpus, Random& random) {
  for (std::uint64_t accidents = 1 + random(4); accidents > 0; --accidents) {
    if (bytes.empty()) bytes.push_back(0);
    const auto at = static_cast<std::ptrdiff_t>(random(bytes.size()));
    const auto end = at + static_cast<std::ptrdiff_t>(
                              random(std::min<std::uint64_t>(bytes.size() - static_cast<std::size_t>(at), 32)) + 1);
    switch (random(6)) {
      case 0: bytes[static_cast<std::size_t>(at)] ^= static_cast<std::uint8_t>(1u << random(8)); break;
      case 1: bytes[static_cast<std::size_t>(at)] = static_cast<std::uint8_t>(random(256)); break;
      case 2:
        bytes[static_cast<std::size_t>(at)] = static_cast<std::uint8_t>(
            "0123456789abcdefxX\n\r\t #{}[]\",:.-"[random(33)]);
        break;
      case 3: bytes.erase(bytes.begin() + at, bytes.begin() + end); break;
      case 4: {
        const Bytes piece(bytes.begin() + at, bytes.begin() + end);
        bytes.insert(bytes.begin() + at, piece.begin(), piece.end());
        break;
      }
      default: {
        const Bytes& other = corpus[random(corpus.size())];
        if (other.empty()) break;
        const auto from = static_cast<std::ptrdiff_t>(random(other.size()));
        bytes.insert(bytes.begin() + at, other.begin() + from,
                     other.begin() + std::min<std::ptrdiff_t>(from + 32, std::ssize(other)));
      }
    }
  }
  return bytes;
}

/// What the target is given, for when it ends the program.
Bytes input;

void run(Bytes bytes) {
  input = std::move(bytes);
  LLVMFuzzerTestOneInput(input.data(), input.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) {
    std::fprintf(stderr, "usage: %s CORPUS_FOLDER MUTATIONS [SEED]\n", argv[0]);
    return 2;
  }
  std::signal(SIGABRT, [](int) {
    std::fputs("the input: ", stderr);
    for (const std::uint8_t byte : input) std::fprintf(stderr, "%02x", byte);
    std::fputc('\n', stderr);
  });
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1]))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<Bytes> corpus;
  for (const auto& path : files) {
    std::ifstream file(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    run(corpus.back());
  }
  if (corpus.empty()) {
    std::fprintf(stderr, "%s: no corpus in %s\n", argv[0], argv[1]);
    return 1;
  }
  Random random{argc == 4 ? std::strtoull(argv[3], nullptr, 10) : 20240607};
  const long count = std::atol(argv[2]);
  for (long i = 0; i < count; ++i) run(mutated(corpus[random(corpus.size())], corpus, random));
  std::printf("%zu files and %ld mutations\n", corpus.size(), count);
}
