// Programs on a device beside the emulation.
#include <halfulp/cuda/program_check.hpp>

#include <halfulp/formats/catalogue.hpp>

#include <limits>
#include <sstream>

namespace halfulp::cuda {
namespace {

constexpr std::size_t elements = 20'000;
constexpr std::size_t lengths[] = {1, 2, 3, 31, 33, 255, 256, 257, 1000};
constexpr std::size_t rows = 16;

/// Where integers stop having code words, 256 in bf16, 2048 in fp16; where fp16 ends, 65504 and halfway from there to 65536;
/// ties, and the ends of i32.
std::int32_t position(Drawn& draw, std::size_t i) {
  constexpr int largest = std::numeric_limits<std::int32_t>::max();
  constexpr int edges[] = {0, 256, 512, 2048, 4096, 32768, 65504, 65520, 65536, 1 << 24, largest - 8, 8 - largest};
  if (i < 5000) return static_cast<std::int32_t>(i);
  if (i % 2 == 0) return edges[draw.word() % std::size(edges)] + draw.between(-8, 8);
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(draw.word()) >> draw.between(0, 20));
}

/// Operands whose results meet: products and corrections that end near half an ulp of what they are added to. Some cases are
/// any code words at all, some lie at the ends of the range.
void add_case(Words (&columns)[max_inputs], const FloatFormat& f, Program program, std::size_t i, Drawn& draw) {
  const int p = f.precision();
  const bool any = i % 8 == 0, edge = i % 8 == 1;
  const int base = edge ? (draw.word() % 2 == 0 ? f.emax() - draw.between(0, 1) : f.emin() + draw.between(-p, p)) : draw.between(-6, 6);
  const auto put = [&](int k, int exponent) { columns[k].push_back(any ? draw.any(f) : draw.number(f, exponent)); };
  const auto put_position = [&] { columns[0].push_back(static_cast<std::uint32_t>(position(draw, i))); };
  switch (program) {
    case Program::update:
    case Program::update_fused: {
      const int rate = draw.between(-10, 0);
      put(0, base), put(1, rate), put(2, base - rate - draw.between(-1, p + 2));
      return;
    }
    case Program::kahan_update: put(0, base), put(1, base - p - draw.between(0, 4)), put(2, base - draw.between(0, p + 3)); return;
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
    case 2: return code(static_cast<double>(row));  // all equal
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
    case 1: return code(100 + draw.real(-0.5, 0.5));  // the mean cancels
    case 2: return code(1.5);                         // no variance
    case 3: return draw.number(f, f.emin() / 2 - draw.between(0, 4));  // squares are subnormal
    case 4: return draw.number(f, f.emax() / 2 + draw.between(-1, 1));  // squares overflow, some
    case 5: return code(draw.word() % 32 == 0 ? draw.real(-100, 100) : draw.real(-0.1, 0.1));
    case 6: return draw.number(f, f.emin() - draw.between(0, 3));
    default: return draw.word() % 256 == 0 ? draw.any(f) : code(draw.real(-2, 2));
  }
}

ProgramInputs row_inputs(const FloatFormat& f, Program program, std::size_t length, std::uint64_t seed) {
  Drawn draw(seed, length);
  ProgramInputs x{{{}}, rows, length};
  const bool norm = program == Program::layer_norm;
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t i = 0; i < length; ++i) x.columns[0].push_back(norm ? norm_input(f, row, draw) : softmax_input(f, row, draw));
  if (!norm) return x;
  x.columns.resize(4);
  for (std::size_t i = 0; i < length; ++i) {
    x.columns[1].push_back(encode(f, {}, draw.real(0.5, 1.5)).code);
    x.columns[2].push_back(encode(f, {}, draw.real(-0.5, 0.5)).code);
  }
  // 1e-5 is subnormal in fp16, 1e-12 nothing.
  for (std::size_t row = 0; row < rows; ++row) x.columns[3].push_back(encode(f, {}, row < rows / 2 ? 1e-5 : 1e-12).code);
  return x;
}

void compare(ProgramCheck& check, const Gpu& gpu, const FloatFormat& f, Program program, const ProgramInputs& x) {
  const std::vector<Words> device = program_on(gpu, f, program, x), expected = emulated_program(f, program, x);
  for (std::size_t k = 0; k < device.size(); ++k)
    for (std::size_t i = 0; i < device[k].size(); ++i)
      check.compare(f, device[k][i], expected[k][i], [&] {
        std::ostringstream text;
        if (info(program).rows) text << x.length << " elements, row " << i / x.length << ", element " << i % x.length;
        else
          for (const Words& column : x.columns) text << std::hex << (&column == x.columns.data() ? "" : " ") << column[i];
        if (device.size() > 1) text << ", output " << k;
        return text.str();
      });
}

}  // namespace

std::vector<ProgramCheck> check_programs(const Gpu& gpu, std::uint64_t seed) {
  std::vector<ProgramCheck> checks;
  for (const FloatFormat& f : {fp16, bf16})
    for (const ProgramInfo& p : programs) {
      ProgramCheck check{std::string(p.name) + " " + std::string(find_named(f)->name),
                         p.exact ? "the emulation" : "the emulation, exp, rsqrt and division correctly rounded", p.exact};
      if (!p.rows) compare(check, gpu, f, p.program, element_inputs(f, p.program, seed));
      else
        for (const std::size_t length : lengths) compare(check, gpu, f, p.program, row_inputs(f, p.program, length, seed));
      checks.push_back(std::move(check));
    }
  return checks;
}

}  // namespace halfulp::cuda
