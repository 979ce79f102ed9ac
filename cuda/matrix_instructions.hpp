// Which matrix units of emulation/units NVIDIA GPUs run by the instructions of instructions.def. tcgen05 is not among
// them: its operands and results live in tensor memory, which asks for kernels of another kind.
#pragma once

#include <halfulp/cuda/fragments.hpp>
#include <halfulp/emulation/unit/unit.hpp>

#include <span>
#include <string>

namespace halfulp::cuda {

inline constexpr MatrixInstruction matrix_instructions[] = {
#define HALFULP_MMA(m, n, k, a, b, d) {MatrixKind::mma, m, n, k, Element::a, Element::b, Element::d},
#define HALFULP_WGMMA(m, n, k, a, b, d) {MatrixKind::wgmma, m, n, k, Element::a, Element::b, Element::d},
#include <halfulp/cuda/matrix_instructions.def>
};

/// What an architecture computes by one instruction.
struct MatrixRow {
  const MatrixUnit* unit;
  std::size_t instruction;  ///< of matrix_instructions
  int sm_first, sm_last;    ///< compute capabilities: 80 to 88
  std::string_view target;  ///< of the machine code: "sm_90a"

  const MatrixInstruction& made_of() const { return matrix_instructions[instruction]; }
  bool runs_on(int sm) const { return sm_first <= sm && sm <= sm_last; }
};

/// Every unit of the table that an instruction computes on some GPU. Launchers take rows by number.
std::span<const MatrixRow> matrix_rows();

/// The element of a format in such instructions. Precondition: it is one of theirs.
Element element_of(const FloatFormat& format);

/// "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e5m2"
std::string spelling(const MatrixInstruction& instruction);

}  // namespace halfulp::cuda
