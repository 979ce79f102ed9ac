// Any task on arrays of code words: the one place that chooses between array functions and scalar ones.
#include <halfulp/emulation/array/array.hpp>
#include <halfulp/emulation/array/pieces.hpp>
#include <halfulp/formats/catalogue.hpp>

namespace halfulp {
namespace {

using namespace array;

/// Code words that wait in the first-level cache as values, or as words of the width that a function takes.
constexpr std::size_t block = 4096;

/// How a task is computed. recode: decode to floats, which is exact, then encode.
enum class Way { scalar, apply, encode_floats, encode_doubles, recode };

/// Whether every value of the format is a float.
bool fits_float(const FloatFormat& f) {
  return f.precision() <= fp32.precision() && f.emin() - f.fraction_bits >= fp32.emin() - fp32.fraction_bits &&
         f.emax() <= fp32.emax();
}

Way way_of(const Task& task) {
  const auto *from = std::get_if<FloatFormat>(&task.from), *to = std::get_if<FloatFormat>(&task.to);
  if (!from || !to || to->storage_bits() > 32) return Way::scalar;
  if (info(task.operation).arrays) return Way::apply;
  if (task.operation != Operation::convert) return Way::scalar;
  if (*from == fp32) return Way::encode_floats;
  if (*from == fp64) return Way::encode_doubles;
  // What is subnormal in the format need not be as a float, and floats made of NaNs have lost their payloads.
  const bool same_operands = !task.rounding.flush_inputs && !keeps_payload(task.rounding.nan);
  return from->storage_bits() <= 32 && fits_float(*from) && same_operands ? Way::recode : Way::scalar;
}

/// f(Code{}) for the unsigned type of that many bytes, 1, 2 or 4.
template <class F>
void with_code(int bytes, F f) {
  if (bytes == 1) f(std::uint8_t{});
  else if (bytes == 2) f(std::uint16_t{});
  else f(std::uint32_t{});
}

/// Words from `begin` on, up to a block of them, as another type.
template <class T>
struct Block {
  alignas(cache_line) T words[block];
  std::span<const T> of(const CodeWords& codes, std::size_t begin, std::size_t size) {
    if (codes.size() == 0) return {};
    codes.visit([&](const auto* from) {
      for (std::size_t i = 0; i < size; ++i) {
        if constexpr (std::is_same_v<T, float>)
          words[i] = std::bit_cast<float>(static_cast<std::uint32_t>(from[begin + i]));
        else if constexpr (std::is_same_v<T, double>)
          words[i] = std::bit_cast<double>(static_cast<std::uint64_t>(from[begin + i]));
        else words[i] = static_cast<T>(from[begin + i]);
      }
    });
    return {words, size};
  }
};

/// f(begin, size) for the blocks of an array, on all cores.
template <class F>
void each_block(std::size_t count, F f) {
  const auto piece = [&](std::size_t begin, std::size_t end) {
    for (; begin < end; begin += block) f(begin, std::min(block, end - begin));
  };
  if (count <= grain) return piece(0, count);
  tbb::parallel_for(tbb::blocked_range<std::size_t>(0, count, grain),
                    [&](const auto& r) { piece(r.begin(), r.end()); });
}

template <class Code>
bool are(const CodeWords& x) {
  return x.size() == 0 || x.bytes() == static_cast<int>(sizeof(Code));
}
template <class Code>
std::span<const Code> as(const CodeWords& x) {
  return {static_cast<const Code*>(x.data()), x.size()};
}

template <class Code>
void by_scalars(const Task& task, const CodeWords& a, const CodeWords& b, const CodeWords& c, std::span<Code> out,
                RandomStream random, std::span<Flags> flags, const std::function<void()>& between) {
  const auto compute = [&](const auto& piece) {
    for (std::size_t i = piece.begin(); i < piece.end(); ++i) {
      const Rounded r = evaluate(task, a[i], b.size() ? b[i] : 0, c.size() ? c[i] : 0,
                                 random_at(task.rounding, random, i));
      out[i] = static_cast<Code>(r.code);
      if (!flags.empty()) flags[i] = r.flags;
    }
  };
  // A part takes less than a second at the slowest, exp of fp64.
  for (std::size_t first = 0; first < out.size(); first += grain) {
    tbb::parallel_for(tbb::blocked_range<std::size_t>(first, std::min(first + grain, out.size()), 1024), compute);
    if (between) between();
  }
}

template <class Code>
void by_blocks_of(Way way, const Task& task, const CodeWords& a, const CodeWords& b, const CodeWords& c,
                  std::span<Code> out, RandomStream random) {
  const auto &from = std::get<FloatFormat>(task.from), &to = std::get<FloatFormat>(task.to);
  each_block(out.size(), [&](std::size_t begin, std::size_t size) {
    const auto results = out.subspan(begin, size);
    const RandomStream here = random.from(begin);
    if (way == Way::apply) {
      Block<Code> x, y, z;
      apply<Code>(task.operation, from, task.rounding, x.of(a, begin, size), y.of(b, begin, size), z.of(c, begin, size),
                  results, here);
    } else if (way == Way::encode_floats) {
      Block<float> values;
      encode(to, task.rounding, values.of(a, begin, size), results, here);
    } else if (way == Way::encode_doubles) {
      Block<double> values;
      encode(to, task.rounding, values.of(a, begin, size), results, here);
    } else {
      Block<float> values;
      with_code(from.storage_bytes(), [&]<class Word>(Word) {
        Block<Word> words;
        decode<Word>(from, words.of(a, begin, size), {values.words, size});
      });
      encode(to, task.rounding, std::span<const float>(values.words, size), results, here);
    }
  });
}

}  // namespace

template <class Code>
void compute(const Task& task, const CodeWords& a, const CodeWords& b, const CodeWords& c, std::span<Code> out,
             RandomStream random, std::span<Flags> flags, const std::function<void()>& between) {
  require_task(task);
  require_random(task.rounding, random);
  const OperationInfo& row = info(task.operation);
  const CodeWords* const operands[] = {&a, &b, &c};
  for (int k = 0; k < 3; ++k) require_operand(row, k, operands[k]->size(), out.size());
  if (!flags.empty()) require_length("the flags' array", flags.size(), out.size());
  if (static_cast<int>(sizeof(Code)) * 8 < (row.result == ResultKind::truth ? 1 : storage_bits(task.to)))
    refuse(number_type_name(task.to) + " code words have " + std::to_string(storage_bits(task.to)) +
           " bits, the array's elements " + std::to_string(sizeof(Code) * 8));
  const Way way = flags.empty() ? way_of(task) : Way::scalar;
  if constexpr (sizeof(Code) <= 4) {
    if (way == Way::apply && are<Code>(a) && are<Code>(b) && are<Code>(c))
      return apply(task.operation, std::get<FloatFormat>(task.from), task.rounding, as<Code>(a), as<Code>(b),
                   as<Code>(c), out, random);
    if (way != Way::scalar) return by_blocks_of(way, task, a, b, c, out, random);
  }
  by_scalars(task, a, b, c, out, random, flags, between);
}

#define HALFULP_CODE(Code)                                                                                  \
  template void compute(const Task&, const CodeWords&, const CodeWords&, const CodeWords&, std::span<Code>, \
                        RandomStream, std::span<Flags>, const std::function<void()>&);
HALFULP_CODE(std::uint8_t)
HALFULP_CODE(std::uint16_t)
HALFULP_CODE(std::uint32_t)
HALFULP_CODE(std::uint64_t)
#undef HALFULP_CODE

bool array_has(const Task& task) { return way_of(task) != Way::scalar; }

std::string computed_by(const Task& task) {
  const auto set = [](bool in_vectors) {
    return " (" + (in_vectors ? std::string(array_instruction_set()) : "scalar") + ")";
  };
  const auto *from = std::get_if<FloatFormat>(&task.from), *to = std::get_if<FloatFormat>(&task.to);
  switch (way_of(task)) {
    case Way::apply: return "apply" + set(applies_in_vectors(task.operation, *from, task.rounding));
    case Way::encode_floats: return "encode" + set(encodes_in_vectors<float>(*to, task.rounding));
    case Way::encode_doubles: return "encode" + set(encodes_in_vectors<double>(*to, task.rounding));
    case Way::recode: {
      const std::string decoded = set(decodes_in_vectors(*from)),
                        encoded = set(encodes_in_vectors<float>(*to, task.rounding));
      return "decode" + (decoded == encoded ? "" : decoded) + ", encode" + encoded;
    }
    case Way::scalar: break;
  }
  return "scalar functions";
}

}  // namespace halfulp
