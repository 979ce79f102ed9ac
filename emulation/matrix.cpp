#include <halfulp/emulation/matrix.hpp>

#include <functional>
#include <stdexcept>

namespace halfulp {
namespace {

std::string shape(std::size_t rows, std::size_t columns) {
  return std::to_string(rows) + " x " + std::to_string(columns);
}

}  // namespace

[[noreturn]] void Checker::refuse(const std::string& why) const { throw std::invalid_argument(where + ": " + why); }

void Checker::sizes(std::size_t m, std::size_t n, std::size_t k) const {
  const std::uint64_t largest = std::uint64_t{1} << 40;
  const auto much = [&](std::uint64_t x, std::uint64_t y) {
    return x > largest || y > largest || (x > 0 && y > largest / x);
  };
  if (much(m, k) || much(k, n) || much(m, n))
    refuse(shape(m, n) + " x " + std::to_string(k) + " is more than 2^40 words a matrix");
}

void Checker::extent(const std::string& name, std::size_t size, std::size_t rows, std::size_t columns,
                     std::size_t leading) const {
  if (leading == 0) {
    if (size != rows * columns) refuse(name + " has " + std::to_string(size) + " words, not " + shape(rows, columns));
    return;
  }
  if (leading < columns)
    refuse(name + " has a leading dimension of " + std::to_string(leading) + ", less than its rows of " +
           std::to_string(columns));
  if (rows == 0 || columns == 0) return;
  const std::uint64_t most = std::uint64_t{1} << 60;
  const std::uint64_t needed = rows - 1 > most / leading ? most : (rows - 1) * std::uint64_t{leading} + columns;
  if (size < needed)
    refuse(name + " has " + std::to_string(size) + " words, but " + shape(rows, columns) +
           " with a leading dimension of " + std::to_string(leading) + " takes " + std::to_string(needed));
}

void Checker::words(const std::string& name, const CodeWords& words, std::size_t rows, std::size_t columns,
                    std::size_t leading, int bits, const std::string& format) const {
  extent(name, words.size(), rows, columns, leading);
  if (!words.empty() && bits > 8 * words.bytes())
    refuse(name + " has words of " + std::to_string(8 * words.bytes()) + " bits; " + format + " takes " +
           std::to_string(bits));
  if (bits == 8 * words.bytes() || bits >= 64) return;
  const std::size_t step = leading ? leading : columns;
  words.visit([&](const auto* w) {
    for (std::size_t i = 0; i < rows; ++i) {
      std::uint64_t all = 0;
      for (std::size_t j = 0; j < columns; ++j) all |= w[i * step + j];
      for (std::size_t j = 0; all >> bits != 0 && j < columns; ++j)
        if (std::uint64_t{w[i * step + j]} >> bits != 0)
          refuse(name + '[' + std::to_string(i * step + j) + "] has more than the " + std::to_string(bits) +
                 " bits of " + format);
    }
  });
}

void Checker::apart(const std::string& name, const void* words, std::size_t bytes, const void* d,
                    std::size_t d_bytes) const {
  if (bytes == 0 || d_bytes == 0) return;
  const std::less<const char*> before;
  const auto *x = static_cast<const char*>(words), *y = static_cast<const char*>(d);
  if (before(x, y + d_bytes) && before(y, x + bytes)) refuse("D overlaps " + name);
}

}  // namespace halfulp
