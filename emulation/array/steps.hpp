// Operations one after the other on few elements: what an array function works out for each call is worked out once.
#pragma once

#include <halfulp/emulation/operation.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace halfulp::array {

/// Arithmetic of one format and rounding on arrays of any length up to `longest`, in the caller's thread, which has a
/// DefaultEnvironment. Results are those of apply() and encode(); element i draws words[i], which only
/// stochastic rounding reads. `out` may be an operand.
/// Instantiated for Code = std::uint8_t, std::uint16_t, std::uint32_t, which holds the code words.
template <class Code>
class Steps {
 public:
  static constexpr std::size_t longest = 512;

  Steps(const FloatFormat& f, const Rounding& rounding);
  ~Steps();
  Steps(Steps&&) noexcept;

  /// add, sub, mul or fma. Only fma reads c.
  void operator()(Operation operation, const Code* a, const Code* b, const Code* c, Code* out, std::size_t count,
                  const std::uint32_t* words) const;
  /// Code words of another format, rounded to this one.
  void convert_from(const FloatFormat& from, const Code* in, Code* out, std::size_t count,
                    const std::uint32_t* words) const;

 private:
  struct Plans;
  std::unique_ptr<const Plans> plans_;
};

}  // namespace halfulp::array
