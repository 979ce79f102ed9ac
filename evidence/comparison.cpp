#include <halfulp/evidence/comparison.hpp>

#include <halfulp/formats/catalogue.hpp>

#include <algorithm>
#include <sstream>

namespace halfulp {
namespace {

bool differ_by_one(const FloatFormat& f, std::uint64_t x, std::uint64_t y) {
  return f.sign(x) == f.sign(y) && std::max(x, y) - std::min(x, y) == 1;
}

/// The task's result in a wider format, its operands taken there exactly.
Rounded result_in(const FloatFormat& wide, const Task& task, const Mismatch& w, const Rounding& rounding) {
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

/// A result lies exactly halfway between neighbours if a format with one more fraction bit holds it and its last bit is
/// set there.
bool is_tie(const Task& task, const FloatFormat& f, const Mismatch& w) {
  FloatFormat finer = f;
  ++finer.fraction_bits;
  if (finer.fraction_bits > 52 || finer.emin() - finer.fraction_bits < -1074) return false;
  Rounding rounding = task.rounding;
  rounding.mode = RoundingMode::toward_zero;
  rounding.flush_outputs = false;
  const Rounded result = result_in(finer, task, w, rounding);
  return result.flags == 0 && finer.is_finite(result.code) && (result.code & 1) != 0;
}

bool is_double_rounding(const Task& task, const FloatFormat& f, const Mismatch& w) {
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

std::uint64_t units_apart(const Task& task, const Mismatch& w) {
  const auto* f = std::get_if<FloatFormat>(&task.to);
  if (!f || info(task.operation).result == ResultKind::truth || !f->is_finite(w.emulated) || !f->is_finite(w.device))
    return 0;
  const std::uint64_t x = f->magnitude(w.emulated), y = f->magnitude(w.device);
  if (f->sign(w.emulated) != f->sign(w.device)) return x + y;
  return std::max(x, y) - std::min(x, y);
}

std::string_view difference_class(const Task& task, const Mismatch& w) {
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

Comparison& Comparison::operator+=(const Comparison& later) {
  if (route.empty()) route = later.route;
  if (!later.skipped.empty()) skipped = later.skipped;
  approximate = approximate || later.approximate;
  compared += later.compared;
  differing += later.differing;
  farthest = std::max(farthest, later.farthest);
  unanswered += later.unanswered;
  for (const auto& [name, count] : later.classes) classes[name] += count;
  for (const Mismatch& mismatch : later.witnesses)
    if (witnesses.size() < most_witnesses) witnesses.push_back(mismatch);
  if (compared != 0) skipped.clear();
  return *this;
}

namespace {

template <class Code>
bool all_equal_to(const std::byte* words, std::span<const std::uint64_t> codes) {
  std::uint64_t different = 0;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    Code code;
    std::memcpy(&code, words + i * sizeof(Code), sizeof(Code));
    different |= code ^ codes[i];
  }
  return different == 0;
}

}  // namespace

bool all_equal(std::span<const std::byte> words, std::span<const std::uint64_t> codes) {
  switch (words.size() / codes.size()) {
    case 1: return all_equal_to<std::uint8_t>(words.data(), codes);
    case 2: return all_equal_to<std::uint16_t>(words.data(), codes);
    case 4: return all_equal_to<std::uint32_t>(words.data(), codes);
    default: return all_equal_to<std::uint64_t>(words.data(), codes);
  }
}

namespace {

constexpr std::size_t block_size = std::size_t{1} << 16;

std::string why_not(const Device& device, const Task& task) {
  if (std::string why = refusal(task); !why.empty()) return why;
  if (task.rounding.mode == RoundingMode::stochastic) return "stochastic: the random bits of a device are its own";
  if (const Support here = device.available(); !here.yes) return here.reason;
  return device.supports(task).reason;
}

/// Both sides on all operands.
void compare_all(const Device& device, const Task& task, const Operands& operands, Comparison& found) {
  std::vector<std::uint64_t> theirs(std::min(block_size, operands.size())), ours(theirs.size());
  std::vector<char> known(theirs.size());
  for (std::size_t begin = 0; begin < operands.size(); begin += block_size) {
    const Operands block = operands.slice(begin, std::min(block_size, operands.size() - begin));
    const auto codes = std::span(theirs).first(block.size());
    const auto has = std::span(known).first(block.size());
    device.run(task, block, codes);
    device.answered(task, block, has);
    for (std::size_t i = 0; i < block.size(); ++i) {
      const auto [a, b, c] = block[i];
      ours[i] = has[i] ? evaluate(task, a, b, c).code : codes[i];
    }
    compare_block(std::as_bytes(std::span(ours).first(block.size())), codes, has, found,
                  [&](std::size_t i, std::uint64_t emulated, std::uint64_t theirs_i) {
                    found.note(task, {block[i], info(task.operation).arity, emulated, theirs_i});
                  });
  }
}

}  // namespace

TaskComparison compare(const Device& device, Task task, const Operands& operands) {
  TaskComparison result;
  result.backend = device.name();
  result.independence = device.independence();
  task.rounding.nan = device.nan_rule(task);
  result.task = task;
  result.skipped = why_not(device, task);
  if (!result.skipped.empty()) return result;
  const Support support = device.supports(task);
  Comparison found;
  found.route = support.route;
  found.approximate = support.approximate;
  try {
    compare_all(device, task, operands, found);
  } catch (const DeviceFailure& failure) {
    if (failure.lost) throw;
    result.skipped = failure.what();
    return result;
  }
  if (found.compared == 0 && found.unanswered != 0)
    found.skipped = found.unanswered == 1
                        ? "the one operand is not recorded"
                        : "none of the " + std::to_string(found.unanswered) + " operands are recorded";
  static_cast<Comparison&>(result) = std::move(found);
  return result;
}

namespace {

/// "1 2 | 3 4 | 5 -> 6, model 7", in hexadecimal.
std::string text_of(const DotOperands& x, std::uint64_t addend, std::uint64_t device, std::uint64_t model) {
  std::ostringstream text;
  text << std::hex;
  for (const auto part : {x.a, x.b}) {
    for (const std::uint64_t word : part) text << word << ' ';
    text << "| ";
  }
  text << addend << " -> " << device << ", model " << model;
  return text.str();
}

}  // namespace

Comparison compare(const Device& device, const MatrixTask& task, const MatrixUnit& model, const MatrixCases& cases) {
  Comparison found;
  found.route = task.description;
  std::vector<std::uint64_t> d(cases.size()), expected(cases.size());
  std::vector<char> known(cases.size());
  device.multiply(task, cases, d);
  device.answered(task, cases, known);
  for (std::size_t i = 0; i < cases.size(); ++i)
    expected[i] = known[i] ? mma(model, cases.products(i), cases.c[i]) : d[i];
  compare_block(std::as_bytes(std::span(expected)), d, known, found,
                [&](std::size_t i, std::uint64_t modelled, std::uint64_t device_word) {
                  found.note("other", 0, [&] {
                    Mismatch mismatch;
                    mismatch.emulated = modelled, mismatch.device = device_word;
                    mismatch.text = text_of(cases.products(i), cases.c[i], device_word, modelled);
                    return mismatch;
                  });
                });
  return found;
}

}  // namespace halfulp
