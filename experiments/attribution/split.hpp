// The error of a product, source by source.
#pragma once

#include <halfulp/experiments/attribution/product.hpp>

namespace halfulp::attribution {

/// Every output's error times Product::common(), exactly.
///
/// forward[s] = f({sources up to s}) - f({sources before s}), in the order scaling, input, products, accumulation, output;
/// reverse[s] = f({s and the sources behind it}) - f({sources behind it}): switched on from output to scaling;
/// alone[s] = f({s}) - f({}). f({}) is the exact product. Sources that are not active are on nowhere, and their parts zero.
/// forward adds up to the total, reverse too: both telescope. A part that differs between the orders interacts with others.
struct Split {
  using Parts = std::array<std::vector<Dyadic>, source_count>;
  Parts forward, reverse, alone;
  std::array<bool, source_count> has_reverse{}, has_alone{};  ///< parts whose states are defined (Product::real_refusal)
  std::vector<Dyadic> exact, total;
  std::vector<std::uint8_t> finite;  ///< outputs that are finite in every state; the parts of others are zero

  /// Outputs whose parts do not add up to the total, exactly.
  std::size_t not_adding_up(const Parts& parts) const;
};

Split split(Product& product, Sources active);

/// What is said of a part.
struct Measure {
  double norm = 0;      ///< Frobenius norm of the part over that of the exact product
  double largest = 0;   ///< absolute
  double relative = 0;  ///< largest |part| / |exact| of outputs whose exact value is not 0
  double share = 0;     ///< <part, total> / |total|^2; 0 where there is no error
  double bias = 0;      ///< sum of part * sign(exact) over the sum of |part|: 1 where all magnitudes grow, -1 where all shrink
};

Measure measure(const std::vector<Dyadic>& part, const Split& of, std::int64_t common);

/// The error of scaling and input alone (sums exact), of the channels for which `chosen` is true, over the norm of the exact
/// product: these parts are sums over channels. common: Product::common().
struct ChannelPart {
  double scaling = 0, input = 0;
};
ChannelPart channel_part(const Operand& a, const Operand& b, const std::vector<std::uint8_t>& chosen);

}  // namespace halfulp::attribution
