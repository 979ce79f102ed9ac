// mma.sync on fragments in registers, one function per instruction.
#pragma once

#include <halfulp/cuda/device/matrix.cuh>

namespace halfulp::cuda {

#if defined(__CUDA_ARCH__)
inline constexpr int architecture = __CUDA_ARCH__;
#else
inline constexpr int architecture = 0;
#endif

/// Whether the architecture that is being compiled for has an instruction.
constexpr bool assembles(const MatrixInstruction& x) {
  const bool fp8 = bytes_of(x.a) == 1;
  return architecture >= (fp8 ? 890 : 800);
}

/// d = a b + d. The architecture must have it: others stop the kernel.
template <MatrixInstruction x>
struct Multiply;

// The registers that the shapes take.
#define HALFULP_16x8_f32(text)                                                         \
  asm volatile(text " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])                        \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
#define HALFULP_16x8_f16(text)                                         \
  asm volatile(text " {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};" \
               : "+r"(d[0]), "+r"(d[1])                                \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
#define HALFULP_8x8_f64(text) \
  asm volatile(text " {%0, %1}, {%2}, {%3}, {%0, %1};" : "+l"(d[0]), "+l"(d[1]) : "l"(a[0]), "l"(b[0]))
#define HALFULP_8x8_f32(text)                                                                                    \
  asm volatile(text " {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9}, {%10, %11}, {%0, %1, %2, %3, %4, %5, %6, %7};" \
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]), "+r"(d[4]), "+r"(d[5]), "+r"(d[6]), "+r"(d[7])  \
               : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(b[1]))

#define HALFULP_WGMMA(m, n, k, a, b, d)
#define HALFULP_MMA(m, n, k, A, B, D)                                                                     \
  template <>                                                                                             \
  struct Multiply<MatrixInstruction{MatrixKind::mma, m, n, k, Element::A, Element::B, Element::D}> {      \
    static __device__ void run(Register<Element::D>* d, const Register<Element::A>* a,                    \
                               const Register<Element::B>* b) {                                           \
      HALFULP_##m##x##n##_##D("mma.sync.aligned.m" #m "n" #n "k" #k ".row.col." #D "." #A "." #B "." #D); \
    }                                                                                                     \
  };
#include <halfulp/cuda/matrix_instructions.def>

#undef HALFULP_16x8_f32
#undef HALFULP_16x8_f16
#undef HALFULP_8x8_f64
#undef HALFULP_8x8_f32

}  // namespace halfulp::cuda
