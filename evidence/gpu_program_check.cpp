#include <halfulp/emulation/comparison.hpp>
#include <halfulp/emulation/random.hpp>
#include <halfulp/evidence/gpu_check.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/hardware/operands.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

namespace halfulp::cuda {

namespace {

bool is_unlike(const FloatFormat& f, std::uint64_t device, std::uint64_t expected) {
  return device > f.code_mask() || f.is_nan(device) || f.is_nan(expected);
}

/// Code words between two words on the number line; 0 where one of them is not on it.
std::uint64_t words_apart(const FloatFormat& f, std::uint64_t device, std::uint64_t expected) {
  if (is_unlike(f, device, expected)) return 0;
  const std::int64_t x = order(f, {}, device), y = order(f, {}, expected);
  return static_cast<std::uint64_t>(x < y ? y - x : x - y);
}

/// A sum or a program, not yet compared.
Check started(const char* group, std::string name, std::string compared_with, bool approximate = false) {
  Check check{group, std::move(name)};
  check.found.route = std::move(compared_with);
  check.found.approximate = approximate;
  return check;
}

/// Holds a device's words against the expected ones; where(i) says which case word i is.
template <class Where>
void compare_words(Comparison& found, const FloatFormat& f, const Words& device, const Words& expected, Where&& where) {
  compare_block(std::as_bytes(std::span(expected)), device, {}, found,
                [&](std::size_t i, std::uint64_t right, std::uint64_t word) {
                  note_word(found, f, word, right, [&] { return where(i); });
                });
}

}  // namespace

void note_word(Comparison& found, const FloatFormat& f, std::uint64_t device, std::uint64_t expected,
               const std::function<std::string()>& where) {
  const char* const its_class = device > f.code_mask() ? "unwritten" : is_unlike(f, device, expected) ? "nan" : "other";
  found.note(its_class, words_apart(f, device, expected), [&] {
    std::ostringstream text;
    text << std::hex << where() << ": device " << device << ", expected " << expected;
    Mismatch mismatch;
    mismatch.emulated = expected, mismatch.device = device, mismatch.text = text.str();
    return mismatch;
  });
}

std::uint64_t Drawn::word() { return random_word(seed_, stream_, index_++); }

std::uint64_t Drawn::any(const FloatFormat& f) {
  if (word() % 2 == 0) return word() & f.code_mask();
  const std::vector<std::uint64_t> points = lattice(f, 0);
  return points[word() % points.size()];
}

// Sums on a device beside the same order in the emulation.

namespace {

/// Nothing, one term, and sum_lengths around those of warps and blocks.
constexpr std::size_t sum_lengths[] = {0, 1, 2, 3, 31, 32, 33, 63, 64, 65, 255, 256, 257, 513, 1000, 2001};

enum class Kind { meeting, swamped, subnormal, overflowing, any };
/// Rows go through these again and again; where terms meet, orders differ most.
constexpr Kind kinds[] = {Kind::meeting, Kind::swamped,   Kind::any,     Kind::meeting,
                          Kind::swamped, Kind::subnormal, Kind::meeting, Kind::overflowing};
constexpr std::size_t sum_rows = 5 * std::size(kinds);

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

std::string row_of(std::size_t length, std::size_t row) {
  return std::to_string(length) + " terms, row " + std::to_string(row);
}

Check check_order(const Gpu& gpu, const NamedFormat& named, GpuSumOrder order, std::uint64_t seed) {
  const FloatFormat& f = named.format;
  Check check = started("sum", "sum " + std::string(named.name) + " " + std::string(name_in(sum_orders, order)),
                        "the emulation in the same order");
  for (const std::size_t length : sum_lengths) {
    Drawn draw(seed, length);
    Words terms;
    for (std::size_t row = 0; row < sum_rows; ++row)
      for (std::size_t i = 0; i < length; ++i) terms.push_back(term(kinds[row % std::size(kinds)], f, i, draw));
    compare_words(check.found, f, sums_on(gpu, f, order, terms, sum_rows), emulated_sums(f, order, terms, sum_rows),
                  [&](std::size_t row) { return row_of(length, row); });
  }
  return check;
}

/// Integers whose partial sums the format holds in any order: atomics may give only one sum.
Check check_exact_atomics(const Gpu& gpu, const NamedFormat& named, std::uint64_t seed) {
  const FloatFormat& f = named.format;
  Check check = started("sum", "sum " + std::string(named.name) + " atomic, partial sums exact", "the exact sum");
  for (const std::size_t length : sum_lengths) {
    Drawn draw(seed, length);
    Words terms;
    for (std::size_t row = 0; row < sum_rows; ++row) {
      // The magnitudes add up to at most 2^p units, all of them multiples of one normal number.
      std::int64_t left = std::int64_t{1} << f.precision();
      const double unit = FloatFormat::power_of_two(draw.between(-8, 0));
      for (std::size_t i = 0; i < length; ++i) {
        const std::int64_t most = std::max<std::int64_t>(1, left / static_cast<std::int64_t>(length - i));
        const std::int64_t k = left == 0
                                   ? 0
                                   : 1 + static_cast<std::int64_t>(draw.word() % static_cast<std::uint64_t>(most));
        left -= k;
        terms.push_back(encode(f, {}, static_cast<double>(draw.word() % 4 == 0 ? -k : k) * unit).code);
      }
    }
    compare_words(check.found, f, sums_on(gpu, f, GpuSumOrder::atomic, terms, sum_rows),
                  emulated_sums(f, GpuSumOrder::atomic, terms, sum_rows),
                  [&](std::size_t row) { return row_of(length, row); });
  }
  return check;
}

/// In any order, the error of n terms to nearest is at most (n - 1) u times the sum of their magnitudes (Jeannerod &
/// Rump 2013), unless something overflows. Within that bound atomics may give anything: the farthest distance is the
/// one from the sequential order. Sums stay far from subnormal numbers, which fp32's atomicAdd makes zeros
/// (PTX ISA, atom.add.f32).
Check check_bounded_atomics(const Gpu& gpu, const NamedFormat& named, std::uint64_t seed) {
  const FloatFormat& f = named.format;
  Check check = started("sum", "sum " + std::string(named.name) + " atomic",
                        "the bound of any order; distances from the sequential one");
  for (const std::size_t length : sum_lengths) {
    Drawn draw(seed, length);
    Words terms;
    for (std::size_t i = 0; i < sum_rows * length; ++i) terms.push_back(draw.number(f, draw.between(-4, 4)));
    const Words device = sums_on(gpu, f, GpuSumOrder::atomic, terms, sum_rows),
                sequential = emulated_sums(f, GpuSumOrder::sequential, terms, sum_rows);
    for (std::size_t row = 0; row < sum_rows; ++row) {
      double sum = 0, magnitudes = 0;  // exact: multiples of 2^-27 below 2^16
      for (std::size_t i = 0; i < length; ++i) {
        const double x = f.value(terms[row * length + i]);
        sum += x;
        magnitudes += std::abs(x);
      }
      const double bound = length == 0 ? 0 : static_cast<double>(length - 1) * f.epsilon() / 2 * magnitudes;
      const bool written = device[row] <= f.code_mask();
      ++check.found.compared;
      check.found.farthest = std::max(check.found.farthest, words_apart(f, device[row], sequential[row]));
      if (!written || !(std::abs(f.value(device[row]) - sum) <= bound))
        note_word(check.found, f, device[row], sequential[row], [&] { return row_of(length, row); });
    }
  }
  return check;
}

}  // namespace

std::vector<Check> check_sums(const Gpu& gpu, std::uint64_t seed) {
  std::vector<Check> checks;
  for (const FloatFormat& f : {fp16, bf16, fp32}) {
    const NamedFormat& named = *find_named(f);
    for (const GpuSumOrder order : {GpuSumOrder::sequential, GpuSumOrder::warp, GpuSumOrder::block})
      checks.push_back(check_order(gpu, named, order, seed));
    checks.push_back(check_exact_atomics(gpu, named, seed));
    checks.push_back(check_bounded_atomics(gpu, named, seed));
  }
  return checks;
}

// Programs on a device beside the emulation.

namespace {

constexpr std::size_t elements = 20'000;
constexpr std::size_t row_lengths[] = {1, 2, 3, 31, 33, 255, 256, 257, 1000};
constexpr std::size_t program_rows = 16;

/// Where integers stop having code words, 256 in bf16, 2048 in fp16; where fp16 ends, 65504 and halfway from there to
/// 65536; ties, and the ends of i32.
std::int32_t position(Drawn& draw, std::size_t i) {
  constexpr int largest = std::numeric_limits<std::int32_t>::max();
  constexpr int edges[] = {0, 256, 512, 2048, 4096, 32768, 65504, 65520, 65536, 1 << 24, largest - 8, 8 - largest};
  if (i < 5000) return static_cast<std::int32_t>(i);
  const std::uint64_t word = draw.word();
  if (i % 2 == 0) return edges[word % std::size(edges)] + draw.between(-8, 8);
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(word) >> draw.between(0, 20));
}

/// Operands whose results meet: products and corrections that end near half an ulp of what they are added to. Some
/// cases are any code words at all, some lie at the ends of the range.
void add_case(Words (&columns)[max_inputs], const FloatFormat& f, Program program, std::size_t i, Drawn& draw) {
  const int p = f.precision();
  const bool any = i % 8 == 0, edge = i % 8 == 1;
  const int base = edge ? (draw.word() % 2 == 0 ? f.emax() - draw.between(0, 1) : f.emin() + draw.between(-p, p))
                        : draw.between(-6, 6);
  const auto put = [&](int k, int exponent) { columns[k].push_back(any ? draw.any(f) : draw.number(f, exponent)); };
  const auto put_position = [&] { columns[0].push_back(static_cast<std::uint32_t>(position(draw, i))); };
  switch (program) {
    case Program::update:
    case Program::update_fused: {
      const int rate = draw.between(-10, 0);
      put(0, base), put(1, rate), put(2, base - rate - draw.between(-1, p + 2));
      return;
    }
    case Program::kahan_update:
      put(0, base), put(1, base - p - draw.between(0, 4)), put(2, base - draw.between(0, p + 3));
      return;
    case Program::position_id: put_position(); return;
    case Program::rope_angle: put_position(), put(1, draw.between(-14, 0)); return;
    case Program::rope_rotation:
      put(0, base), put(1, base + draw.between(-3, 3)), put(2, draw.between(-4, -1)), put(3, draw.between(-4, -1));
      return;
    case Program::softmax:
    case Program::softmax_naive:
    case Program::layer_norm: return;
  }
}

ProgramInputs element_inputs(const FloatFormat& f, Program program, std::uint64_t seed) {
  Drawn draw(seed, static_cast<std::uint64_t>(program));
  Words columns[max_inputs];
  for (std::size_t i = 0; i < elements; ++i) add_case(columns, f, program, i, draw);
  return {{columns, columns + info(program).inputs}, elements, 1};
}

/// Where exp overflows: 11.09 in fp16, 88.7 in bf16.
double exp_edge(const FloatFormat& f) { return 0.6931471805599453 * (f.emax() + 1); }

std::uint64_t softmax_input(const FloatFormat& f, std::size_t row, Drawn& draw) {
  const double edge = exp_edge(f);
  const auto code = [&](double x) { return encode(f, {}, x).code; };
  switch (row % 8) {
    case 0: return code(draw.real(-12, 12));
    case 1: return code(edge + draw.real(-0.05, 0.05) * edge / 11);
    case 2: return code(static_cast<double>(row));                                    // all equal
    case 3: return draw.word() % 3 == 0 ? f.infinity(true) : code(draw.real(-4, 4));  // a mask
    case 4: return code(draw.real(-2, 2) * edge);
    case 5: return f.infinity(true);  // all masked: NaN
    case 6: return code(draw.real(-1, 1) * FloatFormat::power_of_two(-6));
    default: return draw.word() % 256 == 0 ? draw.any(f) : code(draw.real(-4, 4));
  }
}

std::uint64_t norm_input(const FloatFormat& f, std::size_t row, Drawn& draw) {
  const auto code = [&](double x) { return encode(f, {}, x).code; };
  switch (row % 8) {
    case 0: return code(draw.real(-3, 3));
    case 1: return code(100 + draw.real(-0.5, 0.5));                    // the mean cancels
    case 2: return code(1.5);                                           // no variance
    case 3: return draw.number(f, f.emin() / 2 - draw.between(0, 4));   // squares are subnormal
    case 4: return draw.number(f, f.emax() / 2 + draw.between(-1, 1));  // squares overflow, some
    case 5: return code(draw.word() % 32 == 0 ? draw.real(-100, 100) : draw.real(-0.1, 0.1));
    case 6: return draw.number(f, f.emin() - draw.between(0, 3));
    default: return draw.word() % 256 == 0 ? draw.any(f) : code(draw.real(-2, 2));
  }
}

ProgramInputs row_inputs(const FloatFormat& f, Program program, std::size_t length, std::uint64_t seed) {
  Drawn draw(seed, length);
  ProgramInputs x{{{}}, program_rows, length};
  const bool norm = program == Program::layer_norm;
  for (std::size_t row = 0; row < program_rows; ++row)
    for (std::size_t i = 0; i < length; ++i)
      x.columns[0].push_back(norm ? norm_input(f, row, draw) : softmax_input(f, row, draw));
  if (!norm) return x;
  x.columns.resize(4);
  for (std::size_t i = 0; i < length; ++i) {
    x.columns[1].push_back(encode(f, {}, draw.real(0.5, 1.5)).code);
    x.columns[2].push_back(encode(f, {}, draw.real(-0.5, 0.5)).code);
  }
  // 1e-5 is subnormal in fp16, 1e-12 nothing.
  for (std::size_t row = 0; row < program_rows; ++row)
    x.columns[3].push_back(encode(f, {}, row < program_rows / 2 ? 1e-5 : 1e-12).code);
  return x;
}

void compare(Comparison& found, const Gpu& gpu, const FloatFormat& f, Program program, const ProgramInputs& x) {
  const std::vector<Words> device = program_on(gpu, f, program, x), expected = emulated_program(f, program, x);
  for (std::size_t k = 0; k < device.size(); ++k)
    compare_words(found, f, device[k], expected[k], [&](std::size_t i) {
      std::ostringstream text;
      if (info(program).rows) text << x.length << " elements, row " << i / x.length << ", element " << i % x.length;
      else
        for (const Words& column : x.columns) text << std::hex << (&column == x.columns.data() ? "" : " ") << column[i];
      if (device.size() > 1) text << ", output " << k;
      return text.str();
    });
}

}  // namespace

std::vector<Check> check_programs(const Gpu& gpu, std::uint64_t seed) {
  std::vector<Check> checks;
  for (const FloatFormat& f : {fp16, bf16})
    for (const ProgramInfo& p : programs) {
      Check check = started("program", std::string(p.name) + " " + std::string(find_named(f)->name),
                            p.exact ? "the emulation" : "the emulation, exp, rsqrt and division correctly rounded",
                            !p.exact);
      if (!p.rows) compare(check.found, gpu, f, p.program, element_inputs(f, p.program, seed));
      else
        for (const std::size_t length : row_lengths)
          compare(check.found, gpu, f, p.program, row_inputs(f, p.program, length, seed));
      checks.push_back(std::move(check));
    }
  return checks;
}

}  // namespace halfulp::cuda
