// The rules by which matrix units add products.
#pragma once

#include <halfulp/emulation/units/unit.hpp>

namespace halfulp::rules {

extern const Rule fused;               ///< FusedSum. NVIDIA but FP64
extern const Rule scaled_groups;       ///< exact sums of 16 products, times scales, fused. NVIDIA MXFP4, NVFP4
extern const Rule fma_chain;           ///< d = fma(a, b, d), to nearest. FP64 DMMA, AMD FP32 and FP64
extern const Rule product_chain;       ///< c + fma(.. fma(a1, b1, fma(a0, b0, +0))), to nearest. Hopper m8n8k4
extern const Rule halves_apart;        ///< two fused sums of f16 and an addition. Hopper mma.sync of FP8
extern const Rule exact_sum;           ///< all products and c, rounded once to nearest. AMD CDNA1
extern const Rule flushed_tree;        ///< products added pairwise, each rounded and flushed. AMD CDNA2
extern const Rule sum_then_addend;     ///< products fused, then with c. AMD CDNA3
extern const Rule even_odd_then_addend;///< the same of even and odd products apart. AMD CDNA3 FP8
extern const Rule even_odd_chains;     ///< two FMA chains, flushed, and c. Intel AMX TDPBF16PS
extern const Rule odd_even_pair;       ///< fma(even, fma(odd, c)), flushed. VDPBF16PS
extern const Rule to_odd_pair;         ///< products, their sum and c + sum to odd, flushed. Arm BFDOT

/// Every rule, and the one of a name (nullptr: none).
std::span<const Rule* const> all();
const Rule* find(std::string_view name);

}  // namespace halfulp::rules
