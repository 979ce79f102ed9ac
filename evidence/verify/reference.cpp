// The oracle comes first: it must not find functions of the emulation by the arguments' namespace.
#include <halfulp/evidence/oracle/by_name.hpp>
#include <halfulp/evidence/oracle/steps.hpp>

#include <halfulp/evidence/verify/reference.hpp>

#include <halfulp/cuda/gpu_device.hpp>
#include <halfulp/cuda/instructions.hpp>
#include <halfulp/evidence/verify/verify.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/hardware/x86/adder_lanes.hpp>
#include <halfulp/hardware/x86/half_lanes.hpp>
#include <halfulp/hardware/x86/x86.hpp>
#include <halfulp/support/spelling.hpp>

#if HALFULP_CUDA_HEADERS
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#endif

#include <algorithm>
#include <bit>
#include <limits>
#include <stdexcept>

namespace halfulp::verify {
namespace {

// Exact rationals: case by case with flags, over all floats by the steps they make.

class Rationals final : public Reference {
 public:
  explicit Rationals(const Task& task) : task_(task) {}
  bool knows_flags() const override { return true; }
  void run(const Operands& x, std::span<std::uint64_t> codes, std::span<Flags> flags) const override {
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto [a, b, c] = x[i];
      const Rounded right = oracle::evaluate(task_, a, b, c);
      codes[i] = right.code;
      flags[i] = right.flags;
    }
  }

 private:
  Task task_;
};

/// Conversions of floats by the steps that they make.
class RationalSteps final : public Reference {
 public:
  explicit RationalSteps(const Task& task) {
    const auto& to = std::get<FloatFormat>(task.to);
    for (const bool negative : {false, true}) {
      steps_[negative] = oracle::all_steps(to, task.rounding, negative ? oracle::float_sign : 0);
      steps_[negative].push_back({oracle::float_sign, 0});  // beyond every magnitude
    }
  }

  void run(const Operands& x, std::span<std::uint64_t> codes, std::span<Flags>) const override {
    for (std::size_t i = 0; i < codes.size();) {
      // Neighbouring inputs mostly share a step: it is looked up once for as many as stay on it.
      const bool negative = (x.a[i] & oracle::float_sign) != 0;
      const auto& steps = steps_[negative];
      const auto beyond = [](std::uint64_t magnitude, const oracle::Plateau& step) { return magnitude < step.first; };
      const std::uint64_t sign = negative ? oracle::float_sign : 0;
      const auto next = std::upper_bound(steps.begin(), steps.end(), x.a[i] ^ sign, beyond);
      const std::uint64_t first = std::prev(next)->first | sign, length = next->first - std::prev(next)->first,
                          code = std::prev(next)->code;
      for (; i < codes.size() && x.a[i] - first < length; ++i) codes[i] = code;
    }
  }

 private:
  std::vector<oracle::Plateau> steps_[2];
};

class Oracle final : public Device {
 public:
  std::string_view name() const override { return "oracle"; }
  std::string description() const override { return "exact rationals"; }
  Support available() const override { return Support::by("rationals"); }
  std::string_view independence() const override { return "oracle"; }
  Support supports(const Task& task) const override {
    if (std::string why = refusal(task); !why.empty()) return Support::no(std::move(why));
    if (!std::holds_alternative<FloatFormat>(task.from) || !std::holds_alternative<FloatFormat>(task.to))
      return Support::no("the oracle of tasks takes floating-point formats only");
    return Support::by(has_steps(task) ? "rationals: steps over all floats" : "rationals");
  }
  NanRule nan_rule(const Task&) const override { return NanRule::canonical; }
  void run(const Task& task, const Operands& operands, std::span<std::uint64_t> results) const override {
    std::vector<Flags> flags(operands.size());
    Rationals(task).run(operands, results, flags);
  }
  static bool has_steps(const Task& task) {
    const auto& to = std::get<FloatFormat>(task.to);
    return task.operation == Operation::convert && task.from == NumberType(fp32) && to.storage_bits() <= 16 &&
           to.exponent_bits <= 8;
  }
};

// This CPU's instructions.

/// Of the routes that have the task, it takes the first one that shares no instruction with the array functions: those
/// convert the results of fp16 arithmetic by F16C themselves, so there F16C proves nothing.
class IndependentX86 final : public Device {
 public:
  std::string_view name() const override { return "x86"; }
  std::string description() const override { return x86_device().description(); }
  Support available() const override { return x86_device().available(); }
  std::string_view independence() const override { return "silicon"; }
  Support supports(const Task& task) const override {
    const Device* route = route_for(task);
    if (route) return route->supports(task);
    const Support support = x86_device().supports(task);
    return support.yes ? Support::no("only by F16C, which the array functions use themselves") : support;
  }
  NanRule nan_rule(const Task& task) const override {
    const Device* route = route_for(task);
    return route ? route->nan_rule(task) : x86_device().nan_rule(task);
  }
  void run(const Task& task, const Operands& operands, std::span<std::uint64_t> results) const override {
    route_for(task)->run(task, operands, results);
  }
  static const Device* route_for(const Task& task) {
    for (const Device* route : x86_routes())
      if (!shared(*route, task) && route->supports(task).yes) return route;
    return nullptr;
  }

 private:
  static bool shared(const Device& route, const Task& task) {
    return route.name() == "x86.f16c" && task.operation != Operation::convert;
  }
};

#if defined(__x86_64__)
/// The adder route without the detour that finds out which NaN it is.
class LanesReference final : public Reference {
 public:
  explicit LanesReference(const Task& task) : lanes_(task) {}
  void run(const Operands& operands, std::span<std::uint64_t> codes, std::span<Flags>) const override {
    lanes_.run(operands, codes);
  }

 private:
  x86::AdderLanes lanes_;
};
#endif

// The host code of CUDA's headers.

/// A conversion that CUDA's headers implement for the host: third-party code, compiled only where the headers are.
struct HeaderConversion {
  FloatFormat to;
  RoundingMode mode;
  Overflow overflow;
  std::string_view function;
  std::uint64_t (*convert)(float);
};

#if HALFULP_CUDA_HEADERS
template <class Half>
std::uint64_t bits(Half half) {
  return std::bit_cast<std::uint16_t>(half);
}

#define HALFULP_HALF(format, mode, function) \
  {format, RoundingMode::mode, Overflow::ieee, #function, [](float x) { return bits(function(x)); }}
#define HALFULP_FP8(format, overflow, saturation, kind)                                          \
  {format, RoundingMode::nearest_even, Overflow::overflow, "__nv_cvt_float_to_fp8 " #saturation, \
   [](float x) -> std::uint64_t { return __nv_cvt_float_to_fp8(x, saturation, kind); }}
constexpr HeaderConversion header_conversions[] = {
    HALFULP_HALF(fp16, nearest_even, __float2half_rn),        HALFULP_HALF(fp16, toward_zero, __float2half_rz),
    HALFULP_HALF(fp16, toward_positive, __float2half_ru),     HALFULP_HALF(fp16, toward_negative, __float2half_rd),
    HALFULP_HALF(bf16, nearest_even, __float2bfloat16_rn),    HALFULP_HALF(bf16, toward_zero, __float2bfloat16_rz),
    HALFULP_HALF(bf16, toward_positive, __float2bfloat16_ru), HALFULP_HALF(bf16, toward_negative, __float2bfloat16_rd),
    HALFULP_FP8(e4m3, saturate, __NV_SATFINITE, __NV_E4M3),   HALFULP_FP8(e5m2, ieee, __NV_NOSAT, __NV_E5M2),
    HALFULP_FP8(e5m2, saturate, __NV_SATFINITE, __NV_E5M2),
};
constexpr std::span<const HeaderConversion> all_conversions = header_conversions;
constexpr bool has_headers = true;
#else
constexpr std::span<const HeaderConversion> all_conversions;
constexpr bool has_headers = false;
#endif

const HeaderConversion* find(const Task& task) {
  if (task.operation != Operation::convert || task.from != NumberType(fp32) || task.rounding.flush_inputs ||
      task.rounding.flush_outputs)
    return nullptr;
  for (const HeaderConversion& row : all_conversions)
    if (task.to == NumberType(row.to) && task.rounding.mode == row.mode && task.rounding.overflow == row.overflow)
      return &row;
  return nullptr;
}

class CudaHeaders final : public Device {
 public:
  std::string_view name() const override { return "third-party"; }
  std::string description() const override {
#if HALFULP_CUDA_HEADERS
    return "host code of the CUDA " + std::to_string(CUDART_VERSION / 1000) + "." +
           std::to_string(CUDART_VERSION / 10 % 100) + " headers";
#else
    return "host code of the CUDA headers";
#endif
  }
  Support available() const override {
    return has_headers ? Support::by("host code") : Support::no("built without the CUDA headers");
  }
  Support supports(const Task& task) const override {
    if (!has_headers) return available();
    const HeaderConversion* row = find(task);
    if (row) return Support::by(std::string(row->function) + " (" + description() + ")");
    return Support::no(
        "the CUDA headers convert fp32 to fp16 and bf16 in the four IEEE modes with overflow ieee, to e5m2 "
        "nearest-even and to "
        "e4m3 nearest-even with overflow saturate (without, their NaN has the sign of what overflowed, a rule that "
        "halfulp has not)");
  }
  NanRule nan_rule(const Task&) const override { return NanRule::cuda; }
  std::string_view independence() const override { return "third-party"; }
  void run(const Task& task, const Operands& x, std::span<std::uint64_t> results) const override {
    const auto convert = find(task)->convert;
    for (std::size_t i = 0; i < x.size(); ++i)
      results[i] = convert(std::bit_cast<float>(static_cast<std::uint32_t>(x.a[i])));
  }
};

// Any device.

/// A device's own results, NaN made canonical.
class DeviceReference : public Reference {
 public:
  DeviceReference(const Device& device, const Task& task) : device_(device), task_(task) {
    const auto& f = std::get<FloatFormat>(task.to);
    if (info(task.operation).result == ResultKind::truth || !f.has_nan() || !f.is_nan(f.magnitude_mask())) return;
    // The NaNs are the magnitudes beyond all others; formats with another rule have one NaN only.
    magnitude_mask_ = f.magnitude_mask();
    largest_number_ = f.has_infinity() ? f.infinity() : f.max_finite();
    nan_ = f.canonical_nan();
  }
  void run(const Operands& operands, std::span<std::uint64_t> codes, std::span<Flags>) const override {
    device_.run(task_, operands, codes);
    make_canonical(codes);
  }

 protected:
  template <class Word>
  void make_canonical(std::span<Word> codes) const {
    const Word mask = static_cast<Word>(magnitude_mask_), largest = static_cast<Word>(largest_number_),
               nan = static_cast<Word>(nan_);
    for (Word& code : codes) {
      // A comparison, which SSE2 lacks for 64 bits.
      const Word beyond = static_cast<Word>(
          -(static_cast<Word>(largest - (code & mask)) >> (std::numeric_limits<Word>::digits - 1)));
      code = static_cast<Word>((code & ~beyond) | (nan & beyond));
    }
  }

 private:
  const Device& device_;
  Task task_;
  std::uint64_t magnitude_mask_ = 0, largest_number_ = 0, nan_ = 0;
};

#if defined(__x86_64__)
/// AVX512-FP16, whose operands need not be widened to 64 bits.
class HalfReference final : public DeviceReference {
 public:
  explicit HalfReference(const Task& task) : DeviceReference(x86::avx512fp16_route(), task), lanes_(task) {}
  bool run_words(std::span<const std::uint16_t> a, std::span<const std::uint16_t> b, std::span<const std::uint16_t> c,
                 std::span<std::uint16_t> words) const override {
    lanes_.run(a, b, c, words);
    make_canonical(words);
    return true;
  }

 private:
  x86::HalfLanes lanes_;
};
#endif

}  // namespace

bool Reference::run_words(std::span<const std::uint16_t>, std::span<const std::uint16_t>,
                          std::span<const std::uint16_t>, std::span<std::uint16_t>) const {
  return false;
}

Chunk Reference::chunk(std::uint64_t, const Advanced&) const {
  throw std::logic_error("verify: this reference makes no chunks");
}

const Device& oracle_device() {
  static const Oracle device;
  return device;
}

const Device& independent_x86_device() {
  static const IndependentX86 device;
  return device;
}

const Device& cuda_headers_device() {
  static const CudaHeaders device;
  return device;
}

std::span<const Device* const> reference_devices() {
  static const Device* const all[] = {&oracle_device(), &independent_x86_device(), &cuda_device(),
                                      &cuda_headers_device()};
  return all;
}

namespace {

const recording::Replay& replay_of(std::string_view name) {
  return recording::find_recording(std::string(name.substr(recording::prefix.size())));
}

}  // namespace

OperandSet recorded_operands(const Task& task, std::string_view name) {
  return listed_operands(task, replay_of(name).operands(task), std::string(name));
}

const Device& find_reference_device(std::string_view name) {
  if (name.starts_with(recording::prefix)) return replay_of(name).device();
  std::vector<std::string> names;
  for (const Device* device : reference_devices()) {
    if (device->name() == name) return *device;
    names.emplace_back(device->name());
  }
  if (name == rehearsal_device().name()) return rehearsal_device();
  names.emplace_back(std::string(recording::prefix) + "NAME");
  throw std::invalid_argument(unknown_name("reference", name, std::move(names)));
}

std::unique_ptr<Reference> make_reference(const Device& device, const Task& task, const OperandSet& operands) {
  if (&device == &oracle_device()) {
    if (operands.kind == Inputs::all && Oracle::has_steps(task)) return std::make_unique<RationalSteps>(task);
    return std::make_unique<Rationals>(task);
  }
  if (const cuda::Gpu* gpu = cuda::gpu_of(device);
      gpu && (operands.all_triples() || sweeps(task, gpu->properties().sm)))
    return make_gpu_reference(*gpu, task, operands);
  if (&device == &independent_x86_device()) {
    const Device& route = *IndependentX86::route_for(task);
#if defined(__x86_64__)
    if (&route == &x86::adder_route() && x86::AdderLanes::take(task)) return std::make_unique<LanesReference>(task);
    if (&route == &x86::avx512fp16_route()) return std::make_unique<HalfReference>(task);
#endif
    return std::make_unique<DeviceReference>(route, task);
  }
  return std::make_unique<DeviceReference>(device, task);
}

std::string verified_functions(const Device& device, const Task& task) {
  if (cuda::gpu_of(device) && sweeps(task, cuda::newest_sm)) return "halfulp's functions on the device";
  return VerifiedFunctions(task).description();
}

bool takes_all_triples(const Device& device, const Task& task) {
  if (!cuda::gpu_of(device) || device.independence() != "silicon") return false;  // a rehearsal takes hours per chunk
  const bool half = task.from == NumberType(fp16) || task.from == NumberType(bf16);
  return task.operation == Operation::fma && half && task.rounding.mode == RoundingMode::nearest_even &&
         !task.rounding.flush_inputs;
}

}  // namespace halfulp::verify
