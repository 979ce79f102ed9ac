// The description of a matrix unit, which the interpreter, the vector kernels, the table and the probe share.
#pragma once

#include <halfulp/emulation/rounding.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/spelling.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace halfulp {

/// Which products along k one fused sum takes, if an instruction has more products than a sum.
enum class Grouping : std::uint8_t {
  consecutive,  ///< sum j takes k = jL .. jL + L - 1
  strided,      ///< sum j takes k = j, j + K/L, j + 2K/L, ... of an instruction with K products
};

/// The sign of a fused sum that is zero.
enum class ZeroSign : std::uint8_t {
  positive,  ///< always +0
  ieee,      ///< -0 if every term is a negative zero, or a negative sum underflows
};

/// Their names.
inline constexpr std::array<Named<Grouping>, 2> groupings{
    {{"consecutive", Grouping::consecutive}, {"strided", Grouping::strided}}};
/// Their names.
inline constexpr std::array<Named<ZeroSign>, 2> zero_signs{
    {{"positive", ZeroSign::positive}, {"ieee", ZeroSign::ieee}}};

/// A fused dot-product-add: L products and an addend become integers at one quantum, which are added exactly and
/// rounded once.
///
///   emax = the largest exponent of a non-zero term, at least e0;   d = round(sum of align(term / 2^(emax - F)))
///
/// A product's exponent is the sum of its factors' (a subnormal factor has that of the smallest normal number), and its
/// significand, in [0, 4), is not normalised. Model: Khattak & Mikaitis, arXiv 2512.07004; Xie et al., arXiv
/// 2511.10909.
struct FusedSum {
  int length = 1;                                      ///< L, the products of one sum
  int alignment_bits = 0;                              ///< F, 0 to 60: the bits below emax that a term keeps
  int least_exponent = no_least_exponent;              ///< e0
  RoundingMode alignment = RoundingMode::toward_zero;  ///< of each term to the quantum
  FloatFormat kept = fp32;  ///< what the result is rounded to, held in the accumulator's format
  RoundingMode rounding = RoundingMode::toward_zero;  ///< of the result. Overflow gives Inf in every mode
  bool normalized_products = false;                   ///< significands in [1, 2), exponents accordingly
  bool flush_inputs = false;                          ///< subnormal operands, addends included, count as zeros
  bool flush_outputs = false;                         ///< tiny results become zeros
  ZeroSign zero = ZeroSign::positive;                 ///< of sums that are zero
  Grouping grouping = Grouping::consecutive;          ///< which products one sum takes
  bool descending = false;          ///< the sums of an instruction run from its last products to its first
  std::uint64_t nan = 0x7fff'ffff;  ///< the code word of every NaN

  static constexpr int no_least_exponent = -(1 << 20);  ///< e0 where there is none
  bool operator==(const FusedSum&) const = default;
};

struct MatrixUnit;

/// The operands of one output: code words along k, and their scales, one for each `scale_block` products.
struct DotOperands {
  std::span<const std::uint64_t> a, b, scale_a, scale_b;  ///< scales are empty where a unit takes none
};

/// Which parameters of FusedSum a rule uses, besides `length` and `nan`, which all rules use.
enum class RuleTakes : std::uint8_t {
  length,  ///< none: the rule itself defines how it aligns and rounds
  sum,     ///< all except how products are normalised, grouped and ordered
  all,
};

/// How one output is computed from unit.depth() products and an addend, as code words.
struct Rule {
  std::string_view name;         ///< as in `halfulp units`
  std::string_view description;  ///< one line
  std::uint64_t (*step)(const MatrixUnit& unit, const DotOperands& products,
                        std::uint64_t c);  ///< the code word of the result
  std::string (*refusal)(
      const MatrixUnit& unit);          ///< why the rule cannot compute such a unit, in one line; empty if it can
  RuleTakes takes = RuleTakes::length;  ///< parameters that it uses
};

/// One matrix instruction: D = A B + C for A of m x k, B of k x n code words, C and D of m x n.
struct MatrixUnit {
  std::string name;            ///< architecture.instruction.inputs.accumulator
  std::string instruction;     ///< as its vendor spells it
  FloatFormat a, b;            ///< operands. TF32 comes in 32-bit words whose low 13 bits are ignored
  FloatFormat accumulator;     ///< of C and D
  int m = 1, n = 1, k = 1;     ///< shape of the instruction
  const Rule* rule = nullptr;  ///< how it adds
  FusedSum sum = {};           ///< parameters of the rule "fused"; other rules use some of them
  FloatFormat scale = {};      ///< of the scales of A and of B
  int scale_block = 0;         ///< products that share a scale; 0: the unit takes none
  std::string evidence;        ///< what supports the model, and what remains open
  std::string source;          ///< who found it

  bool scaled() const { return scale_block != 0; }  ///< Whether it takes scales.
  int depth() const;                                ///< The products that one step of the rule takes.
  /// K padded with zeros to whole instructions. It shows in a sum of -0, to which a product of zeros is added.
  std::size_t padded(std::size_t length) const {
    const auto whole = static_cast<std::size_t>(k);
    return (length + whole - 1) / whole * whole;
  }
  bool operator==(const MatrixUnit&) const = default;
};

/// Bits of the words in which a unit takes operands of a format.
constexpr int word_bits(const FloatFormat& f) { return f == tf32 ? 32 : f.storage_bits(); }
/// The code word in such a word.
constexpr std::uint64_t word_code(const FloatFormat& f, std::uint64_t word) { return f == tf32 ? word >> 13 : word; }
/// The word that contains a code word.
constexpr std::uint64_t code_word(const FloatFormat& f, std::uint64_t code) { return f == tf32 ? code << 13 : code; }

/// Every unit known, architecture by architecture.
std::span<const MatrixUnit> matrix_units();

/// A unit's name, or a part of one, in which block formats may have the names of `halfulp formats --blocks`: units say
/// mxe4m3 where formats say mxfp8e4m3.
std::string spelled_as_in_units(std::string_view name);

/// The unit of that name, or of one that spelled_as_in_units turns into it. Throws std::invalid_argument with the
/// nearest names.
const MatrixUnit& find_unit(std::string_view name);

/// Why a description cannot be computed, in one line; empty if it can.
std::string refusal(const MatrixUnit& unit);

/// Computes one output: d = c, then one step after the other along k. Words have the unit's formats. a and b have the
/// same length, at least 1; scales have ceil(length / scale_block) words each if the unit takes them, else none. Throws
/// std::invalid_argument if lengths do not match.
std::uint64_t mma(const MatrixUnit& unit, const DotOperands& products, std::uint64_t c);

// Which devices have which matrix units. Names of units begin with the architecture.

/// A device of an architecture, as its vendor writes it. A series, such as RTX40, stands for every number that begins
/// with it.
struct ArchitectureDevice {
  std::string_view device, architecture;  ///< "H100" and "hopper"
};

/// Devices that have an architecture's units.
inline constexpr ArchitectureDevice architecture_devices[] = {
    {"V100", "volta"},          {"T4", "turing"},
    {"A100", "ampere"},         {"A30", "ampere"},
    {"A2", "ampere"},           {"L40S", "ada"},
    {"RTX40", "ada"},           {"H100", "hopper"},
    {"H200", "hopper"},         {"GH200", "hopper"},
    {"B200", "blackwell"},      {"GB200", "blackwell"},
    {"RTX50", "rtx-blackwell"}, {"RTX-PRO-6000", "rtx-blackwell"},
    {"MI100", "cdna1"},         {"MI210", "cdna2"},
    {"MI250", "cdna2"},         {"MI250X", "cdna2"},
    {"MI300", "cdna3"},         {"MI300A", "cdna3"},
    {"MI300X", "cdna3"},        {"MI325X", "cdna3"},
};

/// The architecture of a device ("h100", "RTX4090"; case is ignored); empty for an unknown word.
inline std::string_view architecture_of(std::string_view word) {
  const auto same = [](char x, char y) { return lowered(x) == lowered(y); };
  for (const auto& [device, architecture] : architecture_devices) {
    const bool series = device == "RTX40" || device == "RTX50";
    if (word.size() < device.size() || (!series && word.size() > device.size())) continue;
    if (std::equal(device.begin(), device.end(), word.begin(), same)) return architecture;
  }
  return {};
}

}  // namespace halfulp
