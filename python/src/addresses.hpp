// Memory by its address. halfulp.torch knows type, layout and length of its tensors; to ask for them again through
// DLPack takes as long as rounding ten thousand numbers.
#pragma once

#include <halfulp/training/layers/tensor.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

namespace halfulp::python {

using Address = std::uintptr_t;

template <class T = float>
std::span<const T> read_at(Address address, std::size_t count) {
  return {reinterpret_cast<const T*>(address), count};  // NOLINT(performance-no-int-to-ptr): Python has no other
}
template <class T = float>
std::span<T> write_at(Address address, std::size_t count) {
  return {reinterpret_cast<T*>(address), count};  // NOLINT(performance-no-int-to-ptr)
}

/// An address and how many floats are there.
using Memory = std::pair<Address, std::size_t>;
/// That memory, if it has as many floats as are wanted.
inline std::span<float> memory_at(const Memory& memory, std::size_t wanted, const std::string& name) {
  if (memory.second != wanted)
    throw std::invalid_argument(name + ": a tensor of " + std::to_string(memory.second) +
                                " elements; accepted: " + std::to_string(wanted));
  return write_at(memory.first, wanted);
}

/// On all threads, where that is worth it.
inline void copy(std::span<const float> from, std::span<float> to) {
  training::for_rows(from.size(), 1, [=](std::size_t begin, std::size_t end) {
    std::ranges::copy(from.subspan(begin, end - begin), to.begin() + static_cast<std::ptrdiff_t>(begin));
  });
}

}  // namespace halfulp::python
