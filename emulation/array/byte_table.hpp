// A table of all results of an operation, for long arrays of code words of up to 8 bits that no kernel computes.
#pragma once

#include <halfulp/emulation/operation.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

namespace halfulp::array {

/// results[a << 8 | b]. Upper bits of code words count as zero.
using ByteTable = std::array<std::uint8_t, 1 << 16>;

/// The table of an operation. fill(all a, all b, their results) makes it unless it is among the last ones, which are
/// kept. Safe for any number of threads.
template <class Fill>
std::shared_ptr<const ByteTable> byte_table(Operation operation, const FloatFormat& f, const Rounding& rounding,
                                            const Fill& fill) {
  struct Entry {
    Operation operation;
    FloatFormat f;
    Rounding rounding;
    std::shared_ptr<const ByteTable> table;
  };
  constexpr std::size_t kept = 32;  // 2 MiB
  static std::mutex mutex;
  static std::list<Entry> entries;  // the last one used first
  const auto known = [&]() -> std::shared_ptr<const ByteTable> {
    const auto found = std::find_if(entries.begin(), entries.end(), [&](const Entry& e) {
      return e.operation == operation && e.f == f && e.rounding == rounding;
    });
    if (found == entries.end()) return nullptr;
    entries.splice(entries.begin(), entries, found);
    return found->table;
  };
  {
    const std::scoped_lock lock(mutex);
    if (auto table = known()) return table;
  }
  // Two threads may make the same table at once; nobody waits for another's.
  const std::size_t n = ByteTable{}.size();
  std::vector<std::uint8_t> a(n), b(n);
  for (std::size_t i = 0; i < n; ++i) {
    a[i] = static_cast<std::uint8_t>((i >> 8) & f.code_mask());
    b[i] = static_cast<std::uint8_t>(i & f.code_mask());
  }
  const auto table = std::make_shared<ByteTable>();
  fill(a, b, *table);
  const std::scoped_lock lock(mutex);
  if (auto other = known()) return other;
  entries.push_front({operation, f, rounding, table});
  if (entries.size() > kept) entries.pop_back();
  return table;
}

/// The indices of a block first, which the compiler does in vectors; then one load an element.
inline void look_up(const ByteTable& results, const std::uint8_t* a, const std::uint8_t* b, std::uint8_t* out,
                    std::size_t count) {
  constexpr std::size_t block = 512;
  alignas(64) std::uint16_t index[block];
  const std::uint8_t* const table = results.data();
  for (; count >= block; a += block, b += block, out += block, count -= block) {
    for (std::size_t i = 0; i < block; ++i) index[i] = static_cast<std::uint16_t>(a[i] << 8 | b[i]);
    for (std::size_t i = 0; i < block; i += 8) {
      const std::uint8_t r0 = table[index[i]], r1 = table[index[i + 1]], r2 = table[index[i + 2]],
                         r3 = table[index[i + 3]];
      const std::uint8_t r4 = table[index[i + 4]], r5 = table[index[i + 5]], r6 = table[index[i + 6]],
                         r7 = table[index[i + 7]];
      out[i] = r0, out[i + 1] = r1, out[i + 2] = r2, out[i + 3] = r3;
      out[i + 4] = r4, out[i + 5] = r5, out[i + 6] = r6, out[i + 7] = r7;
    }
  }
  for (std::size_t i = 0; i < count; ++i) out[i] = table[a[i] << 8 | b[i]];
}

}  // namespace halfulp::array
