// Everything on, operation by operation.
#include <halfulp/experiments/attribution/attribution.hpp>

#include <halfulp/emulation/dot.hpp>
#include <halfulp/formats/catalogue.hpp>

namespace halfulp::attribution {

std::uint64_t defined_output(const Operand& a, std::size_t i, const Operand& b, std::size_t j, const Inside& inside, const std::optional<FloatFormat>& output,
                             Trace* trace) {
  Arithmetic single(fp32, {}, trace);
  const bool has_scales = a.has_scales() || b.has_scales();
  const auto row = [](const Operand& x, std::size_t r, const FloatFormat& f, std::size_t begin, std::size_t end) {
    auto words = words_of(f, std::span(x.rounded[1]).subspan(r * x.columns + begin, end - begin));
    return words;
  };
  FloatFormat format = fp32;
  const auto sum = [&](std::size_t begin, std::size_t end) {
    if (const MatrixUnit* unit = inside.unit()) {
      auto x = row(a, i, unit->a, begin, end), y = row(b, j, unit->b, begin, end);
      for (std::uint64_t& w : x) w = code_word(unit->a, w);
      for (std::uint64_t& w : y) w = code_word(unit->b, w);
      format = unit->accumulator;
      return mma(*unit, {x, y, {}, {}}, unit->accumulator.zero());
    }
    if (inside.model()) {
      DotModel model = *inside.model();
      model.input = a.format.grid, model.input_b = b.format.grid;
      DotEngine<Arithmetic> engine(model, [&](const FloatFormat& f, const Rounding& r) { return Arithmetic(f, r, trace); });
      format = model.result();
      return engine.dot(row(a, i, a.format.grid, begin, end), row(b, j, b.format.grid, begin, end));
    }
    Dyadic exact;
    for (std::size_t k = begin; k < end; ++k) exact += Dyadic(a.rounded[1][i * a.columns + k]) * Dyadic(b.rounded[1][j * b.columns + k]);
    return rounded(fp32, {}, exact, Dyadic(1.0));
  };
  const auto block_end = [](const Operand& x, std::size_t k) { return std::min(x.columns, (k / x.grid.block_columns + 1) * x.grid.block_columns); };

  std::uint64_t total = 0;
  for (std::size_t k = 0; k < a.columns;) {
    const std::size_t end = std::min(block_end(a, k), block_end(b, k)), step = inside.promote_every ? inside.promote_every : end - k;
    if (!has_scales && step >= a.columns) {
      total = sum(0, a.columns);
      return output && *output != format ? Arithmetic(*output, {}, trace).convert_from(format, total) : total;
    }
    std::uint64_t p = 0;
    for (std::size_t begin = k; begin < end; begin += step) {
      std::uint64_t part = sum(begin, std::min(end, begin + step));
      if (format != fp32) part = single.convert_from(format, part);
      p = begin == k ? part : single.add(p, part);
    }
    for (const auto& [x, r] : {std::pair{&a, i}, std::pair{&b, j}})
      if (x->has_scales()) p = single.mul(p, encode(fp32, {}, x->scale[x->grid.index(r, k)]).code);
    total = k == 0 ? p : single.add(total, p);
    k = end;
  }
  for (const Operand* x : {&a, &b})
    if (x->has_scales() && x->format.block->tensor_scale) total = single.mul(total, encode(fp32, {}, x->tensor).code);
  return output && *output != fp32 ? Arithmetic(*output, {}, trace).convert_from(fp32, total) : total;
}

}  // namespace halfulp::attribution
