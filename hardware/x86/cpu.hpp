// Which instruction sets this CPU has and its operating system lets us use.
#pragma once

#include <string>

namespace halfulp {

struct CpuFeatures {
  bool x86 = false;  ///< x86-64, hence SSE2
  bool sse41 = false, f16c = false, fma = false, avx512bf16 = false, avx512fp16 = false;
  bool amxbf16 = false;  ///< AMX-TILE and AMX-BF16; the tile registers must still be asked for (matrix/x86_devices.cpp)
  std::string brand;     ///< the processor's own name; empty off x86
};

/// Read by CPUID and XGETBV: a set counts only where the system saves its registers.
CpuFeatures detect_cpu();

}  // namespace halfulp
