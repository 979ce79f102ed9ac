#include <halfulp/training/product_errors.hpp>

#include <halfulp/emulation/block/block.hpp>

#include <algorithm>
#include <cmath>

namespace halfulp::training {
namespace {

constexpr std::size_t most_rows = 16, most_columns = 64;

/// At most `most` of `size` places: one in each of as many equal parts, at another place of each part. Every so many
/// rows would be the same row of every head.
std::vector<std::size_t> spread(std::size_t size, std::size_t most) {
  std::vector<std::size_t> places(std::min(size, most));
  constexpr double golden = 0.6180339887498949;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::size_t begin = i * size / places.size(), end = (i + 1) * size / places.size();
    const double turns = golden * static_cast<double>(i);
    places[i] = begin + static_cast<std::size_t>((turns - std::floor(turns)) * static_cast<double>(end - begin));
  }
  return places;
}

/// Rows of an operand (of B: columns), each along k, in double: as they came, and as the model takes them.
struct Lines {
  std::vector<double> came, taken;
};

/// Line `line` of product `product`. `place` says where element (line, l) of one product is.
void append(Lines& lines, std::span<const float> memory, Placement place, const PolicyOperand& operand,
            std::size_t product, std::size_t size, std::size_t line, std::size_t k) {
  const std::size_t row = product * size + line;  // of the operand, which holds all products
  for (std::size_t l = 0; l < k; ++l) {
    const std::size_t at = product * size * k + place(line, l);
    lines.came.push_back(static_cast<double>(memory[at]));
    double value = operand.transposed ? static_cast<double>(operand.elements[at])
                                      : static_cast<double>(operand.elements[row * k + l]);
    if (!operand.scales.empty()) value *= static_cast<double>(operand.scales[operand.grid.index(row, l)]);
    lines.taken.push_back(value * static_cast<double>(operand.outer));
  }
}

/// Whether every operation of the model's sums is in fp32, to nearest.
bool sums_in_fp32(const ProductModel& model) {
  const DotModel* const dot = std::get_if<DotModel>(&model);
  if (!dot) return false;
  const auto plain = [](const Stage& s) { return s.format == fp32 && s.rounding == Rounding{}; };
  return (!dot->product || plain(*dot->product)) && plain(dot->accumulator) && plain(dot->outer()) &&
         (!dot->output || plain(*dot->output));
}

}  // namespace

double ProductErrors::sqnr_db() const { return 10 * std::log10(signal / error); }

double ProductErrors::share(double part) const { return part / (quantization + accumulation + rounding); }

void ProductMeter::see(const ProductSighting& p) {
  const std::size_t m = p.x.m, n = p.x.n, k = p.x.k;
  if (p.count == 0 || m == 0 || n == 0 || k == 0) return;
  ProductErrors& e = rows_.at({p.site.kind, std::string(p.site.name), p.which},
                              [&] { return ProductErrors{p.site.kind, std::string(p.site.name), p.which}; });
  e.m = m, e.n = n, e.k = k, e.count = p.count;
  e.largest_a = std::max(e.largest_a, largest_magnitude(p.x.a));
  e.largest_b = std::max(e.largest_b, largest_magnitude(p.x.b));
  e.largest_d = std::max(e.largest_d, largest_magnitude(p.result));
  const bool bounds = sums_in_fp32(p.model);
  // Every term takes at most k + 1 roundings of its product and its sums, and as many of scales of blocks.
  const double u = std::ldexp(1.0, -24), roundings = 2 * static_cast<double>(k) + 8;
  const double gamma = roundings * u / (1 - roundings * u), tiny = std::ldexp(roundings, -126);

  const std::vector<std::size_t> columns = spread(n, most_columns);
  const Placement place_a = p.x.place_a(), place_b = p.x.place_b();
  const Placement line_of_b{place_b.column, place_b.row};
  std::size_t of_product = p.count;  // which product `b` is of
  Lines b;
  std::vector<double> exact(columns.size()), taken(columns.size()), magnitude(columns.size());
  for (const std::size_t row : spread(p.count * m, most_rows)) {
    const std::size_t product = row / m, i = row % m;
    if (product != of_product) {
      b.came.clear(), b.taken.clear();
      for (const std::size_t j : columns) append(b, p.x.b, line_of_b, p.b, product, n, j, k);
      of_product = product;
    }
    Lines a;
    append(a, p.x.a, place_a, p.a, product, m, i, k);
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const double* const y = b.came.data() + c * k;
      const double* const z = b.taken.data() + c * k;
      const double bias = p.bias.empty() ? 0 : static_cast<double>(p.bias[columns[c]]);
      double by_came[4] = {bias}, by_taken[4] = {bias}, by_size[4] = {std::fabs(bias)};
      for (std::size_t l = 0; l < k; ++l) {
        const std::size_t lane = l % 4;
        const double product_taken = a.taken[l] * z[l];
        by_came[lane] += a.came[l] * y[l];
        by_taken[lane] += product_taken;
        by_size[lane] += std::fabs(product_taken);
      }
      const auto sum = [](const double(&x)[4]) { return (x[0] + x[1]) + (x[2] + x[3]); };
      exact[c] = sum(by_came), taken[c] = sum(by_taken), magnitude[c] = sum(by_size);
    }
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const std::size_t at = row * n + columns[c];
      const double y = exact[c], z = taken[c];
      const auto s = static_cast<double>(p.sums[at]), d = static_cast<double>(p.result[at]);
      if (!std::isfinite(y) || !std::isfinite(z) || !std::isfinite(s) || !std::isfinite(d)) {
        ++e.non_finite;
        continue;
      }
      ++e.elements;
      e.signal += y * y, e.error += (d - y) * (d - y);
      e.quantization += (z - y) * (z - y), e.accumulation += (s - z) * (s - z), e.rounding += (d - s) * (d - s);
      if (bounds) ++e.bounded, e.beyond_bound += !(std::fabs(s - z) <= gamma * magnitude[c] + tiny);
    }
  }
}

std::vector<ProductErrors> ProductMeter::take() { return rows_.take(); }

}  // namespace halfulp::training
