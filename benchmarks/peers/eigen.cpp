// Eigen::half and Eigen::bfloat16, by Eigen's array expressions.
#include "peer.hpp"

#include <Eigen/Core>

namespace halfulp::bench {
namespace {

template <class T>
using Values = Eigen::Map<const Eigen::Array<T, Eigen::Dynamic, 1>>;

/// out = f(a), an expression.
template <class In, class Out, class F>
Kernel expression(std::string_view work, std::string_view format, std::string_view mode, F) {
  return {work, format, mode, [](const void* const* in, void* out, std::size_t count) {
            const auto n = static_cast<Eigen::Index>(count);
            Eigen::Map<Eigen::Array<Out, Eigen::Dynamic, 1>>(static_cast<Out*>(out),
                                                             n) = F{}(Values<In>(static_cast<const In*>(in[0]), n));
          }};
}
/// out = f(a, b).
template <class T, class F>
Kernel expression_of_two(std::string_view work, std::string_view format, F) {
  return {work, format, "nearest-even", [](const void* const* in, void* out, std::size_t count) {
            const auto n = static_cast<Eigen::Index>(count);
            Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1>>(static_cast<T*>(out), n) = F{}(
                Values<T>(static_cast<const T*>(in[0]), n), Values<T>(static_cast<const T*>(in[1]), n));
          }};
}

template <class T>
void add_kernels(Peer& peer, std::string_view format) {
  constexpr std::string_view rne = "nearest-even";
  peer.kernels.insert(
      peer.kernels.end(),
      {
          expression<float, float>("quantize", format, rne,
                                   [](const auto& a) { return a.template cast<T>().template cast<float>(); }),
          expression<float, T>("encode", format, rne, [](const auto& a) { return a.template cast<T>(); }),
          expression<T, float>("decode", format, "exact", [](const auto& a) { return a.template cast<float>(); }),
          expression<T, T>("sqrt", format, rne, [](const auto& a) { return a.sqrt(); }),
          expression_of_two<T>("add", format, [](const auto& a, const auto& b) { return a + b; }),
          expression_of_two<T>("mul", format, [](const auto& a, const auto& b) { return a * b; }),
          expression_of_two<T>("div", format, [](const auto& a, const auto& b) { return a / b; }),
      });
}

}  // namespace

Peer eigen() {
  Peer peer{"Eigen",
            std::to_string(EIGEN_WORLD_VERSION) + "." + std::to_string(EIGEN_MAJOR_VERSION) + "." +
                std::to_string(EIGEN_MINOR_VERSION),
            {}};
  add_kernels<Eigen::half>(peer, "fp16");
  add_kernels<Eigen::bfloat16>(peer, "bf16");
  return peer;
}

}  // namespace halfulp::bench
