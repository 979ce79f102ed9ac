#include <halfulp/training/product_errors.hpp>

#include <halfulp/emulation/block/block.hpp>
#include <halfulp/training/counting.hpp>

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

/// The numbers of a ProductLine.
struct Line {
  std::vector<double> came, taken;
  ProductLine seen() const { return {came.data(), taken.data()}; }
};

/// Line `line` of product `product`. `place` says where element (line, l) of one product is.
Line line_of(std::span<const float> memory, Placement place, const PolicyOperand& operand, std::size_t product,
             std::size_t size, std::size_t line, std::size_t k) {
  const std::size_t row = product * size + line;  // of the operand, which holds all products
  Line values{std::vector<double>(k), std::vector<double>(k)};
  const std::size_t first = product * size * k + place(line, 0), step = place(0, 1);
  const std::size_t own = operand.transposed ? first : row * k, own_step = operand.transposed ? step : 1;
  for (std::size_t l = 0; l < k; ++l) {
    values.came[l] = static_cast<double>(memory[first + l * step]);
    values.taken[l] = static_cast<double>(operand.elements[own + l * own_step]);
  }
  const std::size_t block = operand.scales.empty() ? k : operand.grid.block_columns;
  for (std::size_t begin = 0; begin < k; begin += block) {
    double scale = static_cast<double>(operand.outer);
    if (!operand.scales.empty()) scale *= static_cast<double>(operand.scales[operand.grid.index(row, begin)]);
    for (std::size_t l = begin; l < std::min(k, begin + block); ++l) values.taken[l] *= scale;
  }
  return values;
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
  const auto see_largest = [](float& largest, std::span<const float> values) {
    if (const float own = largest_magnitude(values); std::isnan(own) || own > largest) largest = own;  // NaN stays
  };
  see_largest(e.largest_a, p.x.a), see_largest(e.largest_b, p.x.b), see_largest(e.largest_d, p.result);
  const bool bounds = sums_in_fp32(p.model);
  // Every term takes at most k + 1 roundings of its product and its sums, and as many of scales of blocks.
  const double u = std::ldexp(1.0, -24), roundings = 2 * static_cast<double>(k) + 8;
  const double gamma = roundings * u / (1 - roundings * u), tiny = std::ldexp(roundings, -126);

  const std::vector<std::size_t> columns = spread(n, most_columns), rows = spread(p.count * m, most_rows);
  const Placement place_a = p.x.place_a(), place_b = p.x.place_b();
  const Placement line_of_b{place_b.column, place_b.row};
  std::vector<Line> a(rows.size());
  std::vector<ProductLine> seen(rows.size());
  for_rows(rows.size(), k, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      a[r] = line_of(p.x.a, place_a, p.a, rows[r] / m, m, rows[r] % m, k);
      seen[r] = a[r].seen();
    }
  });
  std::vector<ThreeSums> sums(columns.size() * rows.size());  // column by column
  for_rows(columns.size(), rows.size() * k, [&](std::size_t begin, std::size_t end) {
    for (std::size_t c = begin; c < end; ++c) {
      const std::size_t column = columns[c];
      const double bias = p.bias.empty() ? 0 : static_cast<double>(p.bias[column]);
      for (std::size_t r = 0, next; r < rows.size(); r = next) {  // the rows of one product
        const std::size_t product = rows[r] / m;
        for (next = r + 1; next < rows.size() && rows[next] / m == product;) ++next;
        const Line b = line_of(p.x.b, line_of_b, p.b, product, n, column, k);
        sum_products(std::span(seen).subspan(r, next - r), b.seen(), k, bias, &sums[c * rows.size() + r]);
      }
    }
  });
  for (std::size_t r = 0; r < rows.size(); ++r)
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const std::size_t at = rows[r] * n + columns[c];
      const auto& [y, z, size] = sums[c * rows.size() + r];
      const auto s = static_cast<double>(p.sums[at]), d = static_cast<double>(p.result[at]);
      if (!std::isfinite(y) || !std::isfinite(z) || !std::isfinite(s) || !std::isfinite(d)) {
        ++e.non_finite;
        continue;
      }
      ++e.elements;
      e.signal += y * y, e.error += (d - y) * (d - y);
      e.quantization += (z - y) * (z - y), e.accumulation += (s - z) * (s - z), e.rounding += (d - s) * (d - s);
      if (bounds) ++e.bounded, e.beyond_bound += !(std::fabs(s - z) <= gamma * size + tiny);
    }
}

std::vector<ProductErrors> ProductMeter::take() { return rows_.take(); }

}  // namespace halfulp::training
