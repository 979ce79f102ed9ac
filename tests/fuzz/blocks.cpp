// Block formats over arrays equal the scalar definition, block by block: code words, scales, zero points and values.
#include "choices.hpp"

#include "emulation/block/block_cases.hpp"

using namespace fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Choices choices(data, size);
  static const std::vector<BlockFormat> formats = check::block_formats();
  BlockFormat f = choices.one_of(formats);
  if (choices.flag()) {
    if (f.rows == 1) f.columns = 1 + choices.below(std::size_t{70});
    else f.rows = 1 + choices.below(std::size_t{40}), f.columns = 1 + choices.below(std::size_t{40});
  }
  Rounding r = choices.rounding();
  const std::size_t rows = choices.below(std::size_t{9}), columns = choices.below(std::size_t{600});
  const RandomStream stream = choices.stream(r);
  check::Random random = choices.random();
  const bool whole = f.whole && ((f.rows && rows % f.rows != 0) || (f.columns && columns % f.columns != 0));
  if (!defect(f).empty() || whole) return 0;
  const std::vector<float> edges = check::edge_magnitudes(f, random);
  std::vector<float> in;
  const std::size_t width = f.columns ? f.columns : std::max<std::size_t>(columns, 1);
  while (in.size() < rows * columns) {
    const std::vector<float> block = check::edge_block(f, edges[random() % edges.size()], width, random);
    in.insert(in.end(), block.begin(), block.end());
  }
  in.resize(rows * columns);
  for (std::size_t i = 0; i < in.size() && i < 8 && !choices.empty(); ++i)
    in[i] = std::bit_cast<float>(static_cast<std::uint32_t>(choices.bits(4)));

  const auto about = [&] {
    return description(f) + ' ' + check::Differences::describe(r) + ", " + std::to_string(rows) + " x " +
           std::to_string(columns);
  };
  const BlockArray want = check::by_definition(f, r, in, rows, columns, stream);
  choices.instruction_set();
  const BlockOptions options{stream, {}};
  BlockArray got;
  std::vector<float> values(in.size()), at_once(in), scaled(in.size());
  ScalesApart apart{true, {}, 0};
  in_environment(choices, [&] {
    quantize_blocks(f, r, in, rows, columns, got, options);
    dequantize_blocks(got, values);
    quantize_block_values(f, r, at_once, rows, columns, at_once, options);
    if (!f.element.is_affine()) quantize_block_values(f, r, in, rows, columns, scaled, options, &apart);
  });
  demand_same(got.scales.size(), want.scales.size(), 0, about);
  for (std::size_t i = 0; i < want.scales.size(); ++i) demand_same(got.scales[i], want.scales[i], i, about);
  for (std::size_t i = 0; i < want.zeros.size(); ++i) demand_same(got.zeros[i], want.zeros[i], i, about);
  const auto bits = [](float x) { return std::bit_cast<std::uint32_t>(x); };
  for (std::size_t i = 0; i < in.size(); ++i) {
    demand_same(got.codes[i], want.codes[i], i, about);
    demand_same(bits(at_once[i]), bits(values[i]), i, [&] { return "values at once, " + about(); });
    if (!f.element.is_affine() && !std::isnan(scaled[i]))
      demand_same(bits(scaled[i]), bits(static_cast<float>(f.element.value(want.codes[i]))), i,
                  [&] { return "values without scales, " + about(); });
  }
  for (std::size_t i = 0; i < apart.blocks.size(); ++i)
    demand_same(bits(apart.blocks[i]), bits(block::scale_value(f.scale, want.scales[i])), i,
                [&] { return "scales apart, " + about(); });
  return 0;
}
