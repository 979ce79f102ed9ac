#include <halfulp/evidence/verify/reference.hpp>

#include <halfulp/evidence/verify/reference.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/spelling.hpp>
#include <halfulp/hardware/x86/x86.hpp>
#include <halfulp/hardware/x86/adder_lanes.hpp>

#include <stdexcept>

namespace halfulp::verify {
namespace {

class BackendJudge final : public Judge {
 public:
  BackendJudge(const Backend& backend, const Task& task) : backend_(backend), task_(task) {
    const auto& f = std::get<FloatFormat>(task.to);
    if (info(task.operation).result == ResultKind::truth || !f.has_nan() || !f.is_nan(f.magnitude_mask())) return;
    // The NaNs are the magnitudes beyond all others; formats with another rule have one NaN only.
    magnitude_mask_ = f.magnitude_mask();
    largest_number_ = f.has_infinity() ? f.infinity() : f.max_finite();
    nan_ = f.canonical_nan();
  }
  void run(const Operands& operands, std::span<std::uint64_t> codes, std::span<Flags>) const override {
    backend_.run(task_, operands, codes);
    const std::uint64_t mask = magnitude_mask_, largest = largest_number_, nan = nan_;
    for (std::uint64_t& code : codes) code = (code & mask) > largest ? nan : code;
  }

 private:
  const Backend& backend_;
  Task task_;
  std::uint64_t magnitude_mask_ = 0, largest_number_ = 0, nan_ = 0;
};

/// This CPU's instructions. Of the routes that have the task the first is taken that shares no instruction with the
/// array functions: those convert the results of fp16 arithmetic by F16C themselves, so there F16C proves nothing.
class X86Reference final : public Reference {
 public:
  std::string_view name() const override { return "x86"; }
  std::string_view independence() const override { return "silicon"; }
  Support available() const override { return x86_backend().available(); }
  Support supports(const Task& task) const override {
    const Backend* route = route_for(task);
    if (route) return route->supports(task);
    const Support support = x86_backend().supports(task);
    return support.yes ? Support::no("only by F16C, which the array functions use themselves") : support;
  }
  std::unique_ptr<Judge> prepare(const Task& task, const Inputs&) const override;
  const Backend* nan_backend(const Task& task) const override { return route_for(task); }

 private:
  static const Backend* route_for(const Task& task) {
    for (const Backend* route : x86_routes())
      if (!shared(*route, task) && route->supports(task).yes) return route;
    return nullptr;
  }
  static bool shared(const Backend& route, const Task& task) {
    return route.name() == "x86.f16c" && task.operation != Operation::convert;
  }
};

#if defined(__x86_64__)
/// The adder route without the detour that finds out which NaN it is.
class LanesJudge final : public Judge {
 public:
  explicit LanesJudge(const Task& task) : lanes_(task) {}
  void run(const Operands& operands, std::span<std::uint64_t> codes, std::span<Flags>) const override {
    lanes_.run(operands, codes);
  }

 private:
  x86::AdderLanes lanes_;
};
#endif

std::unique_ptr<Judge> X86Reference::prepare(const Task& task, const Inputs&) const {
  const Backend& route = *route_for(task);
#if defined(__x86_64__)
  if (&route == &x86::adder_route() && x86::AdderLanes::take(task)) return std::make_unique<LanesJudge>(task);
#endif
  return judge_of(route, task);
}

class ThirdParty final : public Reference {
 public:
  std::string_view name() const override { return "third-party"; }
  std::string_view independence() const override { return "third-party"; }
  Support available() const override { return cuda_headers().available(); }
  Support supports(const Task& task) const override { return cuda_headers().supports(task); }
  std::unique_ptr<Judge> prepare(const Task& task, const Inputs&) const override {
    return judge_of(cuda_headers(), task);
  }
  const Backend* nan_backend(const Task&) const override { return &cuda_headers(); }
};

}  // namespace

Chunk Judge::chunk(std::uint64_t, const std::function<void(std::uint64_t)>&) const {
  throw std::logic_error("verify: this judge makes no chunks");
}

std::unique_ptr<Judge> judge_of(const Backend& backend, const Task& task) {
  return std::make_unique<BackendJudge>(backend, task);
}

const Reference& x86_reference() {
  static const X86Reference reference;
  return reference;
}

const Reference& third_party_reference() {
  static const ThirdParty reference;
  return reference;
}

std::span<const Reference* const> references() {
  static const Reference* const all[] = {&oracle_reference(), &x86_reference(), &cuda_reference(),
                                         &third_party_reference()};
  return all;
}

const Reference& find_reference(std::string_view name) {
  std::vector<std::string> names;
  for (const Reference* reference : references()) {
    if (reference->name() == name) return *reference;
    names.emplace_back(reference->name());
  }
  if (name == rehearsal_reference().name()) return rehearsal_reference();
  throw std::invalid_argument(unknown_name("reference", name, std::move(names)));
}

}  // namespace halfulp::verify
