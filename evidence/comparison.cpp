#include <halfulp/evidence/comparison.hpp>

#include <halfulp/formats/catalogue.hpp>

#include <algorithm>

namespace halfulp {
namespace {

bool differ_by_one(const FloatFormat& f, std::uint64_t x, std::uint64_t y) {
  return f.sign(x) == f.sign(y) && std::max(x, y) - std::min(x, y) == 1;
}

/// The task's result in a wider format, its operands taken there exactly.
Rounded result_in(const FloatFormat& wide, const Task& task, const Witness& w, const Rounding& rounding) {
  if (task.operation == Operation::convert)
    return evaluate({Operation::convert, task.from, wide, rounding}, w.operands[0]);
  const auto& f = std::get<FloatFormat>(task.from);
  std::array<std::uint64_t, 3> x{};
  for (std::size_t i = 0; i < 3; ++i) {
    const bool flushed = rounding.flush_inputs && f.is_subnormal(w.operands[i]);  // subnormal here, maybe not there
    x[i] = flushed ? wide.zero(f.sign(w.operands[i])) : convert(f, wide, {}, w.operands[i]).code;
  }
  return evaluate({task.operation, wide, wide, rounding}, x[0], x[1], x[2]);
}

/// Exactly halfway between neighbours is what a format with one more fraction bit holds, and whose last bit is set
/// there.
bool is_tie(const Task& task, const FloatFormat& f, const Witness& w) {
  FloatFormat finer = f;
  ++finer.fraction_bits;
  if (finer.fraction_bits > 52 || finer.emin() - finer.fraction_bits < -1074) return false;
  Rounding rounding = task.rounding;
  rounding.mode = RoundingMode::toward_zero;
  rounding.flush_outputs = false;
  const Rounded result = result_in(finer, task, w, rounding);
  return result.flags == 0 && finer.is_finite(result.code) && (result.code & 1) != 0;
}

bool is_double_rounding(const Task& task, const FloatFormat& f, const Witness& w) {
  Rounding first = task.rounding;
  first.flush_outputs = false;
  first.overflow = Overflow::ieee;
  Rounding second = task.rounding;
  second.flush_inputs = false;
  for (const FloatFormat& between : {fp16, bf16, fp32, fp64}) {
    const bool wider = between.fraction_bits > f.fraction_bits && between.emin() <= f.emin() &&
                       between.emax() >= f.emax();
    if (!wider || task.from == NumberType(between)) continue;
    if (task.operation != Operation::convert && between.emin() - between.fraction_bits > f.emin() - f.fraction_bits)
      continue;
    if (convert(between, f, second, result_in(between, task, w, first).code).code == w.device) return true;
  }
  return false;
}

}  // namespace

std::uint64_t units_apart(const Task& task, const Witness& w) {
  const auto* f = std::get_if<FloatFormat>(&task.to);
  if (!f || info(task.operation).result == ResultKind::truth || !f->is_finite(w.emulated) || !f->is_finite(w.device))
    return 0;
  const std::uint64_t x = f->magnitude(w.emulated), y = f->magnitude(w.device);
  if (f->sign(w.emulated) != f->sign(w.device)) return x + y;
  return std::max(x, y) - std::min(x, y);
}

std::string_view difference_class(const Task& task, const Witness& w) {
  const std::uint64_t x = w.emulated, y = w.device;
  if (x == y) return "flags";
  const auto* f = std::get_if<FloatFormat>(&task.to);
  if (!f || !std::holds_alternative<FloatFormat>(task.from) || info(task.operation).result == ResultKind::truth)
    return "other";
  if (f->is_nan(x) && f->is_nan(y)) return f->magnitude(x) == f->magnitude(y) ? "nan-sign" : "nan-payload";
  const auto largest = [&](std::uint64_t code) { return f->is_finite(code) && f->magnitude(code) == f->max_finite(); };
  const auto beyond = [&](std::uint64_t code) {
    return f->is_infinite(code) || (f->is_nan(code) && !f->has_infinity());
  };
  if ((largest(x) && beyond(y)) || (largest(y) && beyond(x))) return "saturation";
  if (f->is_nan(x) || f->is_nan(y)) return "nan";
  if (f->is_zero(x) && f->is_zero(y)) return "sign-of-zero";
  const bool neighbours = differ_by_one(*f, x, y);
  if (neighbours && is_tie(task, *f, w)) return "tie";
  if (neighbours && is_double_rounding(task, *f, w)) return "double-rounding";
  if (f->is_subnormal(x) || f->is_subnormal(y)) return "subnormal";
  return neighbours ? "one-ulp" : "other";
}

namespace {

constexpr std::size_t chunk_size = std::size_t{1} << 16;
constexpr std::size_t max_witnesses = 8;

Witness witness(const Task& task, const Operands& operands, std::size_t i, std::uint64_t emulated,
                std::uint64_t device) {
  Witness w;
  w.arity = info(task.operation).arity;
  w.operands[0] = operands.a[i];
  if (w.arity > 1) w.operands[1] = operands.b[i];
  if (w.arity > 2) w.operands[2] = operands.c[i];
  w.emulated = emulated;
  w.device = device;
  return w;
}

std::string why_not(const Backend& backend, const Task& task) {
  if (std::string why = refusal(task); !why.empty()) return why;
  if (task.rounding.mode == RoundingMode::stochastic) return "stochastic: the random bits of a device are its own";
  if (const Support here = backend.available(); !here.yes) return here.reason;
  return backend.supports(task).reason;
}

}  // namespace

Comparison compare(const Backend& backend, Task task, const Operands& operands) {
  Comparison result;
  result.backend = backend.name();
  result.independence = backend.independence();
  task.rounding.nan = backend.nan_rule(task);
  result.skipped = why_not(backend, task);
  result.task = task;
  if (!result.skipped.empty()) return result;
  const Support support = backend.supports(task);
  result.route = support.route;
  result.approximate = support.approximate;

  std::vector<std::uint64_t> device(std::min(chunk_size, operands.size()));
  std::vector<char> known(device.size());
  for (std::size_t begin = 0; begin < operands.size(); begin += chunk_size) {
    const Operands chunk = operands.slice(begin, std::min(chunk_size, operands.size() - begin));
    try {
      backend.run(task, chunk, std::span(device).first(chunk.size()));
    } catch (const DeviceFailure& failure) {
      if (failure.lost) throw;
      Comparison nothing;
      nothing.backend = result.backend, nothing.independence = result.independence, nothing.task = result.task;
      nothing.skipped = failure.what();
      return nothing;
    }
    backend.answered(task, chunk, std::span(known).first(chunk.size()));
    for (std::size_t i = 0; i < chunk.size(); ++i) {
      if (!known[i]) {
        ++result.unanswered;
        continue;
      }
      const auto at = [i](std::span<const std::uint64_t> s) { return s.empty() ? 0 : s[i]; };
      const std::uint64_t emulated = evaluate(task, at(chunk.a), at(chunk.b), at(chunk.c)).code;
      if (emulated == device[i]) continue;
      const Witness found = witness(task, chunk, i, emulated, device[i]);
      ++result.differing;
      result.farthest = std::max(result.farthest, units_apart(task, found));
      ++result.classes[std::string(difference_class(task, found))];
      if (result.witnesses.size() < max_witnesses) result.witnesses.push_back(found);
    }
  }
  result.compared = operands.size() - result.unanswered;
  if (result.compared == 0 && result.unanswered != 0)
    result.skipped = result.unanswered == 1
                         ? "the one operand is not recorded"
                         : "none of the " + std::to_string(result.unanswered) + " operands are recorded";
  return result;
}

}  // namespace halfulp

namespace halfulp::verify {

void Findings::note(const Task& task, const Witness& witness) {
  ++differing;
  farthest = std::max(farthest, units_apart(task, witness));
  ++classes[std::string(difference_class(task, witness))];
  if (witnesses.size() < max_witnesses) witnesses.push_back(witness);
}

Findings& Findings::operator+=(const Findings& later) {
  compared += later.compared;
  differing += later.differing;
  farthest = std::max(farthest, later.farthest);
  for (const auto& [name, count] : later.classes) classes[name] += count;
  for (const Witness& w : later.witnesses)
    if (witnesses.size() < max_witnesses) witnesses.push_back(w);
  return *this;
}

}  // namespace halfulp::verify
