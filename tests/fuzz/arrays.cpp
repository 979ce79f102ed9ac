// Array functions equal the scalar ones, and these the rationals, for every format, rounding, operation, length,
// alignment, instruction set and floating-point environment of the caller.
#include "choices.hpp"

using namespace fuzz;

namespace {

std::string text_of(const FloatFormat& f, const Rounding& r) {
  return format_name(f) + ' ' + check::Differences::describe(r);
}

/// Elements that are compared with rationals too, of those without random bits.
constexpr std::size_t judged = 6;

/// An array that begins where it likes, and words on both sides that stay.
template <class T>
class Placed {
 public:
  Placed(Choices& choices, std::size_t count)
      : at_(1 + choices.below(17)), all_(at_ + count + 1, T(99)), count_(count) {}
  ~Placed() { demand(all_[at_ - 1] == T(99) && all_.back() == T(99), "nothing is written beside the results"); }
  std::span<T> span() { return std::span(all_).subspan(at_, count_); }

 private:
  std::size_t at_;
  std::vector<T> all_;
  std::size_t count_;
};

/// Counts for itself what happened, as array.hpp says a tally does.
void add(Tally& tally, const FloatFormat& f, const Rounded& r) {
  ++tally.elements;
  tally.flags |= r.flags;
  tally.nan += f.is_nan(r.code);
  tally.overflow += (r.flags & flag::overflow) != 0;
  tally.underflow += (r.flags & flag::underflow) != 0;
  tally.inexact += (r.flags & flag::inexact) != 0;
  tally.to_zero += f.is_zero(r.code) && (r.flags & flag::underflow) != 0;
  tally.subnormal += f.is_subnormal(r.code);
}

/// Values at and around those of code words, halfway between them, and any others.
template <class T, class Bits>
std::vector<T> values(Choices& choices, const FloatFormat& carrier, const FloatFormat& f, std::size_t count) {
  const std::vector<std::uint64_t> codes = choices.codes<std::uint64_t>(f, count);
  std::vector<T> all(count);
  check::Random random = choices.random();
  for (std::size_t i = 0; i < count; ++i) {
    auto bits = static_cast<Bits>(convert(f, carrier, {}, codes[i]).code);
    const int tail = std::max(1, carrier.fraction_bits - f.fraction_bits);
    switch (random() % 4) {
      case 0: break;
      case 1: bits += static_cast<Bits>(random() % 3 - 1); break;
      case 2: bits += (Bits{1} << (tail - 1)) + static_cast<Bits>(random() % 3 - 1); break;
      default: bits ^= static_cast<Bits>(random() & ((std::uint64_t{1} << tail) - 1));
    }
    all[i] = std::bit_cast<T>(random() % 16 ? bits : static_cast<Bits>(random()));
  }
  return all;
}

/// quantize and encode.
template <class T, class Bits>
void narrow(Choices& choices, const FloatFormat& carrier) {
  const FloatFormat f = choices.format();
  const Rounding r = choices.rounding();
  const Task task{Operation::convert, carrier, f, r};
  if (!defect(f).empty() || !refusal(task).empty()) return;
  const std::size_t count = choices.below(300);
  const std::vector<T> in = values<T, Bits>(choices, carrier, f, count);
  const RandomStream stream = choices.stream(r);
  const auto about = [&] { return "narrow " + text_of(f, r); };
  std::vector<Rounded> wanted(count);
  Tally counted;
  for (std::size_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<Bits>(in[i]);
    wanted[i] = convert(carrier, f, r, bits, stream.bits(i));
    add(counted, f, wanted[i]);
    if (i < judged && r.mode != RoundingMode::stochastic) {
      const Rounded judge = oracle::evaluate(task, bits);
      demand_same(wanted[i].code, judge.code, i, [&] { return "the scalar " + about(); });
      demand_same(wanted[i].flags, judge.flags, i, [&] { return "flags of the scalar " + about(); });
    }
  }
  choices.instruction_set();
  const bool in_place = choices.flag(), tallies = choices.flag();
  Placed<T> out(choices, count), operand(choices, count);
  std::copy(in.begin(), in.end(), operand.span().begin());
  Tally tally;
  in_environment(choices, [&] {
    const std::span<T> to = in_place ? operand.span() : out.span();
    quantize(f, r, std::span<const T>(operand.span()), to, stream, tallies ? &tally : nullptr);
  });
  demand(!tallies || tally == counted, "the tally counts what the scalar function says");
  Rounding back;
  back.nan = r.nan;
  for (std::size_t i = 0; i < count; ++i)
    demand_same(std::bit_cast<Bits>((in_place ? operand : out).span()[i]),
                static_cast<Bits>(convert(f, carrier, back, wanted[i].code).code), i,
                [&] { return "quantize, " + about(); });
  const auto encoded = [&]<class Code>(Code) {
    if (f.storage_bits() > static_cast<int>(8 * sizeof(Code))) return;
    Placed<Code> codes(choices, count);
    in_environment(choices, [&] { encode<T, Code>(f, r, in, codes.span(), stream); });
    for (std::size_t i = 0; i < count; ++i)
      demand_same(std::uint64_t{codes.span()[i]}, wanted[i].code, i, [&] { return "encode, " + about(); });
  };
  encoded(std::uint8_t{}), encoded(std::uint16_t{}), encoded(std::uint32_t{});
}

template <class Code>
void widen(Choices& choices) {
  const FloatFormat f = choices.format();
  if (!defect(f).empty() || f.storage_bits() > static_cast<int>(8 * sizeof(Code))) return;
  const std::size_t count = choices.below(300);
  const std::vector<Code> codes = choices.codes<Code>(f, count);
  choices.instruction_set();
  Placed<float> out(choices, count);
  in_environment(choices, [&] { decode<Code>(f, codes, out.span()); });
  for (std::size_t i = 0; i < count; ++i)
    demand_same(std::bit_cast<std::uint32_t>(out.span()[i]),
                static_cast<std::uint32_t>(convert(f, fp32, {}, codes[i]).code), i,
                [&] { return "decode " + format_name(f); });
}

template <class Code>
void compute(Choices& choices) {
  const FloatFormat f = choices.format();
  const Rounding r = choices.rounding();
  const Operation operation = choices.one_of(array_operations);
  const Task task{operation, f, f, r};
  if (!defect(f).empty() || f.storage_bits() > static_cast<int>(8 * sizeof(Code)) || !refusal(task).empty()) return;
  const std::size_t count = choices.below(300);
  const std::vector<Code> a = choices.codes<Code>(f, count), b = choices.codes<Code>(f, count),
                          c = choices.codes<Code>(f, count);
  const RandomStream stream = choices.stream(r);
  choices.instruction_set();
  Placed<Code> out(choices, count);
  const int arity = info(operation).arity;
  const std::span<const Code> none;
  in_environment(choices, [&] {
    apply<Code>(operation, f, r, a, arity > 1 ? b : none, arity > 2 ? c : none, out.span(), stream);
  });
  for (std::size_t i = 0; i < count; ++i) {
    const Rounded wanted = evaluate(operation, f, r, a[i], b[i], c[i], stream.bits(i));
    const auto about = [&] {
      std::ostringstream text;
      text << info(operation).name << ' ' << text_of(f, r) << std::hex << " of " << +a[i] << ' ' << +b[i] << ' '
           << +c[i];
      return text.str();
    };
    demand_same(std::uint64_t{out.span()[i]}, wanted.code, i, about);
    if (i >= judged || r.mode == RoundingMode::stochastic) continue;
    const Rounded judge = oracle::evaluate(task, a[i], b[i], c[i]);
    demand_same(wanted.code, judge.code, i, [&] { return "the scalar " + about(); });
    demand_same(wanted.flags, judge.flags, i, [&] { return "flags of the scalar " + about(); });
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Choices choices(data, size);
  switch (choices.below(8)) {
    case 0: narrow<float, std::uint32_t>(choices, fp32); break;
    case 1: narrow<double, std::uint64_t>(choices, fp64); break;
    case 2: widen<std::uint8_t>(choices); break;
    case 3: widen<std::uint16_t>(choices); break;
    case 4: widen<std::uint32_t>(choices); break;
    case 5: compute<std::uint8_t>(choices); break;
    case 6: compute<std::uint16_t>(choices); break;
    default: compute<std::uint32_t>(choices);
  }
  return 0;
}
