// Chains of conversions as data: "fp32>bf16>e4m3" rounds an fp32 number to bf16, and the result to e4m3.
#pragma once

#include <halfulp/emulation/operation.hpp>
#include <halfulp/experiments/conversions/differing_ranges.hpp>
#include <halfulp/report/experiment.hpp>
#include <halfulp/report/trace.hpp>
#include <halfulp/support/record.hpp>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp::conversions {

struct ConversionChain {
  std::string text;
  NumberType from;
  std::vector<FloatFormat> via;  ///< what lies on the way, at least one
  FloatFormat to;
  bool operator==(const ConversionChain&) const = default;
};

/// One chain. Throws std::invalid_argument in one line: fewer than three members, a name that is none, an integer other
/// than in front, a target of more than 20 bits, more than six members.
ConversionChain parse_chain(std::string_view text);
/// Chains separated by commas, each once. Throws so, and for an empty list and more than 64 chains.
std::vector<ConversionChain> parse_chains(const std::string& text);

/// How the conversions of a chain round: all but the last, and the last one.
struct ChainRounding {
  Rounding via, last;
};
inline ChainRounding same(RoundingMode mode) { return {{mode}, {mode}}; }

/// A code word of the target.
std::uint64_t direct(const ConversionChain& chain, const Rounding& rounding, std::uint64_t code);
/// The same by way of every member of the chain.
std::uint64_t chained(const ConversionChain& chain, const ChainRounding& rounding, std::uint64_t code);
/// What the chain's first conversion makes of it: a code word of chain.via[0].
std::uint64_t first_step(const ConversionChain& chain, const Rounding& rounding, std::uint64_t code);

/// Where a code word stands among those of its sign: finite magnitudes in order, infinity behind them, NaN (what
/// overflow becomes in formats without infinity) last. Zeros of either sign have place 0, as has the smallest value of
/// a format without zero. Of a negative input a positive result was NaN on the way to a format that has none, and
/// stands last, too.
std::uint64_t place(const FloatFormat& f, std::uint64_t code, bool negative);
/// The place of NaN, the highest.
inline std::uint64_t last_place(const FloatFormat& f) { return f.max_finite() + 2; }

/// The finite numbers of a type with one sign in order of magnitude, zero first: 0, 1, ... size() - 1.
class MagnitudeLine {
 public:
  MagnitudeLine(const NumberType& type, bool negative);
  uint128 size() const { return size_; }
  std::uint64_t code(uint128 position) const;
  /// The position of 2^e, or of the first number above it; size() if there is none.
  uint128 position_of_power(int e) const;
  /// floor(log2 |x|). Precondition: the number at the position is not zero.
  int exponent(uint128 position) const;

 private:
  NumberType type_;
  bool negative_;
  uint128 size_;
};

/// Whether a chain has numbers of both signs to convert: formats and integers without sign have not.
bool has_signs(const ConversionChain& chain);

// A chain under one rounding: which of its inputs differ from a direct conversion, counted by stretches and looked at
// one by one.

/// An input and what becomes of it: code words.
struct ChainWitness {
  std::uint64_t input = 0, on_the_way = 0, direct = 0, chained = 0;  ///< on_the_way: of chain.via[0]
};
template <class V>
void fields(V& v, ChainWitness& w) {
  v("input", w.input, hexadecimal);
  v("on_the_way", w.on_the_way, hexadecimal);
  v("direct", w.direct, hexadecimal);
  v("chained", w.chained, hexadecimal);
}

/// Inputs converted one after the other.
struct OneByOne {
  std::uint64_t compared = 0;       ///< by the array functions
  std::uint64_t contradicting = 0;  ///< that differ outside a stretch, or do not inside one
  std::uint64_t ends = 0;           ///< by rationals: the numbers at the ends of stretches
  std::uint64_t ends_contradicting = 0;
  OneByOne& operator+=(const OneByOne& o) {
    compared += o.compared, contradicting += o.contradicting, ends += o.ends,
        ends_contradicting += o.ends_contradicting;
    return *this;
  }
};
template <class V>
void fields(V& v, OneByOne& o) {
  v("compared", o.compared);
  v("contradicting", o.contradicting);
  v("ends", o.ends);
  v("ends_contradicting", o.ends_contradicting);
}

/// How many inputs differ, and where the first of them are.
struct ChainCounts {
  double normal_inputs = 0;  ///< those within the target's normal numbers
  std::uint64_t wrong = 0, wrong_normal = 0, wrong_subnormal = 0, wrong_overflow = 0;
  std::optional<ChainWitness> smallest, example;  ///< least magnitude; least magnitude from 1 on, else the smallest
  OneByOne seen;
};
template <class V>
void fields(V& v, ChainCounts& c) {
  v("normal_inputs", c.normal_inputs);
  v("wrong", c.wrong, hexadecimal);
  v("wrong_normal", c.wrong_normal, hexadecimal);
  v("wrong_subnormal", c.wrong_subnormal, hexadecimal);
  v("wrong_overflow", c.wrong_overflow, hexadecimal);
  v("smallest", c.smallest);
  v("example", c.example);
  v("seen", c.seen);
}

struct ChainErrors : ChainCounts {
  std::array<DifferingRanges, 2> of_sign;  ///< positive inputs, negative inputs
};

/// Finite inputs of a chain: -0 counts where the source has it, beside +0.
uint128 inputs_of(const ConversionChain& chain);

/// How many inputs are converted one by one, too.
enum class Look : std::uint8_t { none, some, all };

/// Every finite input, by stretches, and one by one as `look` says, where all conversions round alike.
ChainErrors measure(const ConversionChain& chain, const ChainRounding& rounding, Look look = Look::none,
                    Trace* trace = nullptr);

ChainWitness witness(const ConversionChain& chain, const ChainRounding& rounding, std::uint64_t input);

/// Converts inputs one by one, by the array functions and at the ends of stretches by rationals, and holds them to
/// `found`, the differences on a line: all inputs of at most 17 bits, of 32 bits if `look` is all; otherwise 2^22
/// around `around`. Conversions at the ends are recorded. Every step rounds alike.
OneByOne one_by_one(const ConversionChain& chain, RoundingMode mode, bool negative, const DifferingRanges& found,
                    uint128 around, Look look, Trace* trace);

// How many numbers a chain of two roundings must get wrong, by counting on paper: nothing is converted here.
//
// A number is wrong if the first rounding puts it exactly on the middle between two values of the target, and the
// second rounding then takes that tie the other way. In the binade 2^e <= |x| < 2^(e+1) let the source have s bits, the
// format on the way v, the target t: there are 2^(t-1) middles, of which the first rounding, dropping d = s - v bits,
// takes 2^(d-1) numbers on either side (but one where middles are odd, and which of both ends belong to it follows from
// the mode). Of each middle one side is wrong: to nearest even a share of 2^(t-v-1) of the binade where v >= t + 2.

/// Numbers of one sign with 2^e <= |x| < 2^(e+1) that are wrong. Nothing where the counting does not apply: more than
/// one format on the way; one without the target's range or with fewer bits than the target somewhere; formats without
/// fraction, zero or normal numbers; a source whose last binade ends early; modes other than nearest at the end with
/// another mode on the way.
std::optional<std::uint64_t> expected_in_binade(const ConversionChain& chain, const ChainRounding& rounding,
                                                bool negative, int e);

/// Of all numbers of the source, both signs.
std::optional<std::uint64_t> expected_wrong(const ConversionChain& chain, const ChainRounding& rounding);

// The pieces of the experiment "conversions".

/// Table `libraries`: profiles that go through fp32, and what others reported, with how many inputs that changes.
void libraries(Run& run);

/// Claims on numbers that others found, whatever the configuration.
void published(Run& run);

/// Parameters `operations`, `samples` and `seed`.
std::vector<Parameter> operation_parameters();
/// Throws std::invalid_argument in one line for operations that cannot be compared.
void check_operations(const Config& config);
/// Table `operations` and the claims on it: one operation in a wider format, its result rounded again.
void operations_report(const Config& config, Run& run);

/// A count as JSON: an integer up to 2^64 - 1, beyond it rounded to a double.
Json count(uint128 n);
/// A number as text with every digit that tells it from its neighbours (17 significant in fp64): rounded to fewer, an
/// example of a number beside a tie would be shown as the tie.
std::string full_text(const NumberType& type, std::uint64_t code);
/// "fp32>bf16>e4m3"'s witness: input and its code word, value on the way, direct and chained result, or five nulls.
std::vector<Json> cells_of(const ConversionChain& chain, const std::optional<ChainWitness>& witness);
std::vector<Column> witness_columns();

}  // namespace halfulp::conversions
