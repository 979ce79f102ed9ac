// Sums on a device beside the same order in the emulation.
#include <halfulp/cuda/program_check.hpp>

#include <halfulp/formats/catalogue.hpp>

#include <cmath>

namespace halfulp::cuda {
namespace {

/// Nothing, one term, and lengths around those of warps and blocks.
constexpr std::size_t lengths[] = {0, 1, 2, 3, 31, 32, 33, 63, 64, 65, 255, 256, 257, 513, 1000, 2001};

enum class Kind { meeting, swamped, subnormal, overflowing, any };
/// Rows go through these again and again; where terms meet, orders differ most.
constexpr Kind kinds[] = {Kind::meeting, Kind::swamped, Kind::any, Kind::meeting, Kind::swamped, Kind::subnormal, Kind::meeting, Kind::overflowing};
constexpr std::size_t rows = 5 * std::size(kinds);

std::uint64_t term(Kind kind, const FloatFormat& f, std::size_t i, Drawn& draw) {
  const int p = f.precision();
  switch (kind) {
    case Kind::meeting: return draw.number(f, draw.between(-p / 2, p / 2));
    // A large one that comes first, and small ones around half its ulp: some are lost, the order says which.
    case Kind::swamped: return draw.number(f, i == 0 ? 3 : draw.between(1 - p, 5 - p)) & f.magnitude_mask();
    case Kind::subnormal: return draw.number(f, f.emin() - draw.between(0, p - 1));
    case Kind::overflowing: return draw.number(f, f.emax() - draw.between(0, 8));
    case Kind::any: break;
  }
  return draw.word() % 64 == 0 ? draw.any(f) : draw.number(f, draw.between(-2, 2));
}

std::string row_of(std::size_t length, std::size_t row) { return std::to_string(length) + " terms, row " + std::to_string(row); }

ProgramCheck check_order(const Gpu& gpu, const NamedFormat& named, SumOrder order, std::uint64_t seed) {
  const FloatFormat& f = named.format;
  ProgramCheck check{"sum " + std::string(named.name) + " " + std::string(name_in(sum_orders, order)), "the emulation in the same order"};
  for (const std::size_t length : lengths) {
    Drawn draw(seed, length);
    Words terms;
    for (std::size_t row = 0; row < rows; ++row)
      for (std::size_t i = 0; i < length; ++i) terms.push_back(term(kinds[row % std::size(kinds)], f, i, draw));
    const Words device = sums_on(gpu, f, order, terms, rows), expected = emulated_sums(f, order, terms, rows);
    for (std::size_t row = 0; row < rows; ++row) check.compare(f, device[row], expected[row], [&] { return row_of(length, row); });
  }
  return check;
}

/// Integers whose partial sums the format holds, whatever the order: the one sum that atomics may give.
ProgramCheck check_exact_atomics(const Gpu& gpu, const NamedFormat& named, std::uint64_t seed) {
  const FloatFormat& f = named.format;
  ProgramCheck check{"sum " + std::string(named.name) + " atomic, partial sums exact", "the exact sum"};
  for (const std::size_t length : lengths) {
    Drawn draw(seed, length);
    Words terms;
    for (std::size_t row = 0; row < rows; ++row) {
      // The magnitudes add up to at most 2^p units, all of them multiples of one normal number.
      std::int64_t left = std::int64_t{1} << f.precision();
      const double unit = FloatFormat::power_of_two(draw.between(-8, 0));
      for (std::size_t i = 0; i < length; ++i) {
        const std::int64_t most = std::max<std::int64_t>(1, left / static_cast<std::int64_t>(length - i));
        const std::int64_t k = left == 0 ? 0 : 1 + static_cast<std::int64_t>(draw.word() % static_cast<std::uint64_t>(most));
        left -= k;
        terms.push_back(encode(f, {}, static_cast<double>(draw.word() % 4 == 0 ? -k : k) * unit).code);
      }
    }
    const Words device = sums_on(gpu, f, SumOrder::atomic, terms, rows), expected = emulated_sums(f, SumOrder::atomic, terms, rows);
    for (std::size_t row = 0; row < rows; ++row) check.compare(f, device[row], expected[row], [&] { return row_of(length, row); });
  }
  return check;
}

/// In any order, the error of n terms to nearest is at most (n - 1) u times the sum of their magnitudes (Jeannerod & Rump 2013),
/// unless something overflows. Beyond that, atomics may give what they like: how far they are from the sequential order
/// is the largest distance. Sums stay far from subnormal numbers, which fp32's atomicAdd makes zeros (PTX ISA, atom.add.f32).
ProgramCheck check_bounded_atomics(const Gpu& gpu, const NamedFormat& named, std::uint64_t seed) {
  const FloatFormat& f = named.format;
  ProgramCheck check{"sum " + std::string(named.name) + " atomic", "the bound of any order; distances from the sequential one"};
  for (const std::size_t length : lengths) {
    Drawn draw(seed, length);
    Words terms;
    for (std::size_t i = 0; i < rows * length; ++i) terms.push_back(draw.number(f, draw.between(-4, 4)));
    const Words device = sums_on(gpu, f, SumOrder::atomic, terms, rows), sequential = emulated_sums(f, SumOrder::sequential, terms, rows);
    for (std::size_t row = 0; row < rows; ++row) {
      double sum = 0, magnitudes = 0;  // exact: multiples of 2^-27 below 2^16
      for (std::size_t i = 0; i < length; ++i) {
        const double x = f.value(terms[row * length + i]);
        sum += x;
        magnitudes += std::abs(x);
      }
      const double bound = length == 0 ? 0 : static_cast<double>(length - 1) * f.epsilon() / 2 * magnitudes;
      const bool written = device[row] <= f.code_mask();
      check.judge(f, device[row], sequential[row], written && std::abs(f.value(device[row]) - sum) <= bound, [&] { return row_of(length, row); });
    }
  }
  return check;
}

}  // namespace

std::vector<ProgramCheck> check_sums(const Gpu& gpu, std::uint64_t seed) {
  std::vector<ProgramCheck> checks;
  for (const FloatFormat& f : {fp16, bf16, fp32}) {
    const NamedFormat& named = *find_named(f);
    for (const SumOrder order : {SumOrder::sequential, SumOrder::warp, SumOrder::block}) checks.push_back(check_order(gpu, named, order, seed));
    checks.push_back(check_exact_atomics(gpu, named, seed));
    checks.push_back(check_bounded_atomics(gpu, named, seed));
  }
  return checks;
}

}  // namespace halfulp::cuda
