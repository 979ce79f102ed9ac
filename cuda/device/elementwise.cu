// Every row of instructions.def on columns of code words.
#include <halfulp/cuda/device/launch.cuh>
#include <halfulp/cuda/device/rows.cuh>

#include <array>

namespace halfulp::cuda {
namespace {

template <int row>
__global__ void elementwise(ElementwiseArgs x) {
  for (std::size_t i = first_index(); i < x.count; i += stride())
    x.results[i] = answer<row>(x.a[i], x.b ? x.b[i] : 0, x.c ? x.c[i] : 0);
}

template <int row>
void launch(Lane lane, const ElementwiseArgs& x) {
  elementwise<row><<<blocks_for(x.count), threads_per_block, 0, stream_of(lane)>>>(x);
}

template <int... rows>
constexpr auto launchers(std::integer_sequence<int, rows...>) {
  return std::array<void (*)(Lane, const ElementwiseArgs&), sizeof...(rows)>{launch<rows>...};
}

}  // namespace

void launch_elementwise(Lane lane, std::size_t row, const ElementwiseArgs& x) {
  static constexpr auto all = launchers(std::make_integer_sequence<int, row_count>{});
  all.at(row)(lane, x);
}

}  // namespace halfulp::cuda
