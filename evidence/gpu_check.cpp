#include <halfulp/evidence/gpu_check.hpp>

#include <halfulp/cuda/kernels.hpp>
#include <halfulp/cuda/matrix_devices.hpp>
#include <halfulp/emulation/array/array.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <bit>
#include <cstring>

namespace halfulp::cuda {
namespace {

/// Stochastic roundings whose blocks of random numbers begin with a thread's elements, and in their midst.
constexpr RandomStream streams[] = {{11, 2, 0}, {11, 2, 1}};

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
void compare_bits(const std::vector<Out>& device, const std::vector<Out>& host, Check& check) {
  check.compared += host.size();
  for (std::size_t i = 0; i < host.size(); ++i)
    if (std::memcmp(&device[i], &host[i], sizeof(Out)) != 0 && check.differing++ == 0)
      check.witness = "element " + std::to_string(i);
}

void check_narrow(const Gpu& gpu, const FloatFormat& f, const Rounding& r, const std::vector<float>& x,
                  std::vector<Check>& checks) {
  NarrowArgs args;
  const auto plan = array::narrow_plan<float>(f, r, array::Source::conversion);
  if (!plan) return;
  args.plan = *plan;
  args.count = x.size();
  const auto on_device = [&]<class Out>(int bytes, Out) {
    args.bytes = bytes;
    return run<Out>(gpu, x.data(), x.size() * sizeof(float), x.size(), "narrow", [&](const void* in, void* out) {
      args.in = static_cast<const float*>(in), args.out = out;
      gpu.kernels().narrow(Lane::first, args);
    });
  };
  const std::string mode = format_name(f) + " " + std::string(name_of(r.mode));
  Check quantized{.group = "kernel", .name = "quantize " + mode, .route = "halfulp's own"}, encoded = quantized;
  encoded.name = "encode " + mode;
  for (const RandomStream& stream : streams) {
    if (r.mode != RoundingMode::stochastic && stream.first != 0) continue;
    args.random = stream;
    std::vector<float> values(x.size());
    quantize(f, r, std::span<const float>(x), std::span<float>(values), stream);
    compare_bits(on_device(0, float{}), values, quantized);
    const auto codes = [&]<class Code>(Code zero) {
      std::vector<Code> host(x.size());
      encode<float, Code>(f, r, x, host, stream);
      compare_bits(on_device(sizeof(Code), zero), host, encoded);
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
  Check check{.group = "kernel", .name = "decode " + format_name(f), .route = "halfulp's own"};
  std::vector<float> host(codes.size());
  decode<Code>(f, codes, host);
  compare_bits(run<float>(gpu, codes.data(), codes.size() * sizeof(Code), codes.size(), "widen",
                          [&](const void* in, void* out) {
                            args.in = in, args.out = static_cast<float*>(out);
                            gpu.kernels().widen(Lane::first, args);
                          }),
               host, check);
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
  std::vector<Check> checks;
  const auto take = [&](const char* group, const std::vector<ProgramCheck>& some) {
    for (const ProgramCheck& c : some)
      checks.push_back({.group = group,
                        .name = c.name,
                        .route = c.compared_with,
                        .skipped = c.compared == 0 ? "nothing was compared" : "",
                        .approximate = !c.must_agree,
                        .compared = c.compared,
                        .differing = c.differing,
                        .farthest = c.largest_distance,
                        .witness = c.witness,
                        .wild = c.unlike != 0 || c.largest_distance > most_units_apart});
  };
  progress(0);
  take("sum", check_sums(gpu, 1));
  progress(0.5);
  take("program", check_programs(gpu, 1));
  return checks;
}

std::vector<Check> check_whole_tiles(const Gpu& gpu, const Progress& progress) {
  std::vector<Check> checks;
  const auto rows = matrix_rows();
  for (std::size_t row = 0; row < rows.size(); ++row) {
    progress(static_cast<double>(row) / static_cast<double>(rows.size()));
    if (!runs(gpu, rows[row]).yes) continue;
    const auto k = static_cast<std::size_t>(rows[row].unit->k);
    const PlaceCheck found = check_places(gpu, row, 3, 2 * k, 1);
    checks.push_back({.group = "whole tile",
                      .name = rows[row].unit->name,
                      .route = "every element beside the diagonal",
                      .compared = found.compared,
                      .differing = found.differing,
                      .witness = found.first});
  }
  return checks;
}

const Gpu* find_gpu(std::string_view backend) {
  for (const Gpu* gpu : {&native_gpu(), &rehearsal_gpu()})
    if (gpu->name() == backend) return gpu;
  return nullptr;
}

}  // namespace halfulp::cuda
