// The floating-point environment that the kernels' additions need: to nearest, subnormals kept.
#pragma once

#include <cfenv>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace halfulp::array {

/// The default environment for a scope. A caller may have set FTZ and DAZ (libraries for machine learning do) or a
/// rounding mode; kernels are called through pointers, so no arithmetic of theirs moves across.
class DefaultEnvironment {
 public:
#if defined(__SSE2__)
  DefaultEnvironment() : saved_(_mm_getcsr()) { _mm_setcsr(0x1f80); }
  ~DefaultEnvironment() { _mm_setcsr(saved_); }
#else
  DefaultEnvironment() { std::feholdexcept(&saved_); std::fesetenv(FE_DFL_ENV); }
  ~DefaultEnvironment() { std::fesetenv(&saved_); }
#endif
  DefaultEnvironment(const DefaultEnvironment&) = delete;
  DefaultEnvironment& operator=(const DefaultEnvironment&) = delete;

 private:
#if defined(__SSE2__)
  unsigned saved_;
#else
  std::fenv_t saved_;
#endif
};

}  // namespace halfulp::array
