#include <halfulp/evidence/gpu_check.hpp>

#include <halfulp/cuda/kernels.hpp>
#include <halfulp/cuda/gpu_device.hpp>
#include <halfulp/emulation/array/array.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/hardware/operands.hpp>

#include <bit>
#include <cstring>
#include <sstream>

namespace halfulp::cuda {
namespace {

/// Stochastic roundings whose blocks of random numbers begin at a thread's first element, and inside its elements; and
/// such that share words.
constexpr RandomStream streams[] = {{11, 2, 0}, {11, 2, 1}, {11, 2, 6, 2}};

/// Random floats, most of exponents that the format has, halfway cases among them, and the special ones.
std::vector<float> inputs(const FloatFormat& f, std::size_t count) {
  std::vector<float> x(count);
  for (std::size_t i = 0; i < count; ++i) {
    auto bits = static_cast<std::uint32_t>(random_word(1, 1, i));
    const std::uint64_t choice = random_word(1, 2, i);
    if (choice % 4 != 0) {
      const auto binades = static_cast<std::uint64_t>(f.emax() - f.emin() + f.fraction_bits + 6);
      const auto field = static_cast<std::int64_t>(choice / 4 % binades) + f.emin() - f.fraction_bits - 3 + 127;
      bits = (bits & 0x807f'ffff) | static_cast<std::uint32_t>(std::clamp<std::int64_t>(field, 0, 254)) << 23;
    }
    if (choice % 3 == 0) bits &= ~((1U << (22 - std::min(f.fraction_bits, 22))) - 1);  // ties
    x[i] = std::bit_cast<float>(bits);
  }
  constexpr std::uint32_t special[] = {0,           1,           0x007f'ffff, 0x0080'0000,
                                       0x7f7f'ffff, 0x7f80'0000, 0x7f80'0001, 0x7fc0'0000};
  for (std::size_t i = 0; i < 16 && i < count; ++i)
    x[i] = std::bit_cast<float>(special[i / 2] | (i % 2 != 0 ? 0x8000'0000 : 0));
  return x;
}

template <class Out, class Launch>
std::vector<Out> run(const Gpu& gpu, const void* in, std::size_t in_bytes, std::size_t count, const char* what,
                     Launch&& launch) {
  // Through page-locked memory: a copy from elsewhere waits for the kernel before it, however long that takes.
  const HostMemory<std::uint8_t> given(gpu, in_bytes);
  const HostMemory<Out> taken(gpu, count);
  const Memory<std::uint8_t> from(gpu, in_bytes);
  const Memory<Out> to(gpu, count);
  std::memcpy(given.data(), in, in_bytes);
  gpu.upload(Lane::first, from.data(), given.data(), in_bytes);
  gpu.fill(Lane::first, to.data(), 0xa5, to.bytes());
  launch(from.data(), to.data());
  gpu.launched(what);
  gpu.download(Lane::first, taken.data(), to.data(), to.bytes());
  gpu.wait(Lane::first, what);
  return {taken.data(), taken.data() + count};
}

template <class Out>
void compare_bits(const std::vector<Out>& device, const std::vector<Out>& host, Comparison& found) {
  std::vector<std::uint64_t> words(device.size());
  for (std::size_t i = 0; i < device.size(); ++i) std::memcpy(&words[i], &device[i], sizeof(Out));
  compare_block(std::as_bytes(std::span(host)), words, {}, found,
                [&](std::size_t i, std::uint64_t expected, std::uint64_t word) {
                  found.note("other", 0, [&] {
                    Mismatch mismatch;
                    mismatch.emulated = expected, mismatch.device = word;
                    mismatch.text = "element " + std::to_string(i);
                    return mismatch;
                  });
                });
}

/// One of halfulp's own kernels, not yet compared.
Check kernel(std::string name) {
  Check check{"kernel", std::move(name)};
  check.found.route = "halfulp's own";
  return check;
}

void check_narrow(const Gpu& gpu, const FloatFormat& f, Rounding r, const std::vector<float>& x,
                  std::vector<Check>& checks) {
  NarrowArgs args;
  if (!array::narrow_plan<float>(f, r, array::Source::conversion)) return;
  args.count = x.size();
  const auto on_device = [&]<class Out>(int bytes, Out) {
    args.bytes = bytes;
    return run<Out>(gpu, x.data(), x.size() * sizeof(float), x.size(), "narrow", [&](const void* in, void* out) {
      args.in = static_cast<const float*>(in), args.out = out;
      gpu.kernels().narrow(Lane::first, args);
    });
  };
  const std::string mode = format_name(f) + " " + std::string(name_of(r.mode));
  Check quantized = kernel("quantize " + mode), encoded = kernel("encode " + mode);
  for (const RandomStream& stream : streams) {
    if (r.mode != RoundingMode::stochastic && stream.first != 0) continue;
    r.random_bits = 32 / stream.roundings_per_word;
    args.plan = *array::narrow_plan<float>(f, r, array::Source::conversion);
    args.random = stream;
    std::vector<float> values(x.size());
    quantize(f, r, std::span<const float>(x), std::span<float>(values), stream);
    compare_bits(on_device(0, float{}), values, quantized.found);
    const auto codes = [&]<class Code>(Code zero) {
      std::vector<Code> host(x.size());
      encode<float, Code>(f, r, x, host, stream);
      compare_bits(on_device(sizeof(Code), zero), host, encoded.found);
    };
    if (f.storage_bits() <= 8) codes(std::uint8_t{});
    else codes(std::uint16_t{});
  }
  checks.push_back(std::move(quantized));
  checks.push_back(std::move(encoded));
}

template <class Code>
void check_widen(const Gpu& gpu, const FloatFormat& f, std::vector<Check>& checks) {
  WidenArgs args;
  const auto plan = array::widen_plan(f, false);
  if (!plan) return;
  args.plan = *plan;
  args.bytes = sizeof(Code);
  std::vector<Code> codes;
  for (std::uint64_t code = 0; code <= f.code_mask(); ++code) codes.push_back(static_cast<Code>(code));
  codes.resize(codes.size() + 3);  // no multiple of what a thread takes
  args.count = codes.size();
  Check check = kernel("decode " + format_name(f));
  std::vector<float> host(codes.size());
  decode<Code>(f, codes, host);
  compare_bits(run<float>(gpu, codes.data(), codes.size() * sizeof(Code), codes.size(), "widen",
                          [&](const void* in, void* out) {
                            args.in = in, args.out = static_cast<float*>(out);
                            gpu.kernels().widen(Lane::first, args);
                          }),
               host, check.found);
  checks.push_back(std::move(check));
}

}  // namespace

std::vector<Check> check_kernels(const Gpu& gpu, std::size_t count, const Progress& progress) {
  std::vector<Check> checks;
  const auto formats = catalogue();
  for (std::size_t i = 0; i < formats.size(); ++i) {
    progress(static_cast<double>(i) / static_cast<double>(formats.size()));
    const FloatFormat& f = formats[i].format;
    if (f.storage_bits() > 16) continue;
    const std::vector<float> x = inputs(f, count + 3);  // no multiple of what a thread takes
    for (const auto& mode : rounding_modes) {
      progress((static_cast<double>(i) + 0.1 * static_cast<double>(mode.value)) / static_cast<double>(formats.size()));
      check_narrow(gpu, f, {.mode = mode.value}, x, checks);
    }
    if (f.storage_bits() <= 8) check_widen<std::uint8_t>(gpu, f, checks);
    else check_widen<std::uint16_t>(gpu, f, checks);
  }
  return checks;
}

std::vector<Check> check_programs_and_sums(const Gpu& gpu, const Progress& progress) {
  progress(0);
  std::vector<Check> checks = check_sums(gpu, 1);
  progress(0.5);
  for (Check& check : check_programs(gpu, 1)) checks.push_back(std::move(check));
  for (Check& check : checks)
    if (check.found.compared == 0) check.found.skipped = "nothing was compared";
  return checks;
}

Comparison check_places(const Device& device, std::size_t row, std::size_t tiles, std::size_t k, std::uint64_t seed) {
  const MatrixRow& what = matrix_rows()[row];
  const auto m = static_cast<std::size_t>(what.made_of().m), n = static_cast<std::size_t>(what.made_of().n);
  const MatrixTask task = device.matrix_tasks()[row];
  Comparison found;
  for (const auto& kind : tile_kinds) {
    // Rows, columns and addends of different cases meet.
    const auto drawn = [&](std::size_t count, std::uint64_t s) {
      return halfulp::tiles(kind.value, task.shape, k, count, seed + s);
    };
    const WholeTiles x{tiles, k, drawn(tiles * m, 0).a, drawn(tiles * n, 1).b, drawn(tiles * m * n, 2).c};
    const std::vector<std::uint64_t> there = whole_tiles(*gpu_of(device), row, x);
    MatrixCases cases;
    for (std::size_t i = 0; i < x.c.size(); ++i) {
      const std::size_t line = i / n, column = i / (m * n) * n + i % n;
      const std::span<const std::uint64_t> a(x.a), b(x.b);
      cases.add({a.subspan(line * k, k), b.subspan(column * k, k), {}, {}}, x.c[i]);
    }
    std::vector<std::uint64_t> here(cases.size());
    device.multiply(task, cases, here);
    compare_block(std::as_bytes(std::span(here)), there, {}, found,
                  [&](std::size_t i, std::uint64_t on_diagonal, std::uint64_t in_tile) {
                    found.note("other", 0, [&] {
                      std::ostringstream text;
                      text << kind.name << " tile " << i / (m * n) << ", row " << i / n % m << ", column " << i % n
                           << ": " << std::hex << in_tile << " there, " << on_diagonal << " on the diagonal";
                      Mismatch mismatch;
                      mismatch.emulated = on_diagonal, mismatch.device = in_tile, mismatch.text = text.str();
                      return mismatch;
                    });
                  });
  }
  return found;
}

std::vector<Check> check_whole_tiles(const Device& device, const Progress& progress) {
  std::vector<Check> checks;
  const auto rows = matrix_rows();
  for (std::size_t row = 0; row < rows.size(); ++row) {
    progress(static_cast<double>(row) / static_cast<double>(rows.size()));
    if (!runs(*gpu_of(device), rows[row]).yes) continue;
    const auto k = static_cast<std::size_t>(rows[row].unit->k);
    Check check{"whole tile", rows[row].unit->name, check_places(device, row, 3, 2 * k, 1)};
    check.found.route = "every element beside the diagonal";
    checks.push_back(std::move(check));
  }
  return checks;
}

}  // namespace halfulp::cuda
