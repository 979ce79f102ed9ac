#include <halfulp/cuda/documented.hpp>

#include <stdexcept>

namespace halfulp::cuda::documented {
namespace {

struct Lane {
  int id, group, in_group;  // %laneid, groupID = %laneid >> 2, threadID_in_group = %laneid % 4
  explicit Lane(int thread) : id(thread & 31), group(id >> 2), in_group(id % 4) {}
};

/// The sections of 9.7.14.5 that the instructions belong to.
enum class Section { m8n8k4_f16, m8n8k4_f64, m16n8k8_tf32, m16n8k16, m16n8k32, wgmma };

Section section(const MatrixInstruction& x) {
  const bool m16n8 = x.m == 16 && x.n == 8, m8n8k4 = x.m == 8 && x.n == 8 && x.k == 4;
  if (x.kind == MatrixKind::wgmma) return Section::wgmma;                       // 9.7.15.5.1.1
  if (m8n8k4 && x.a == Element::f16) return Section::m8n8k4_f16;                // 9.7.14.5.1
  if (m8n8k4 && x.a == Element::f64) return Section::m8n8k4_f64;                // 9.7.14.5.2
  if (m16n8 && x.k == 8 && x.a == Element::tf32) return Section::m16n8k8_tf32;  // 9.7.14.5.7
  if (m16n8 && x.k == 16 && bytes_of(x.a) == 2) return Section::m16n8k16;       // 9.7.14.5.8
  if (m16n8 && x.k == 32 && bytes_of(x.a) == 1) return Section::m16n8k32;       // 9.7.14.5.10
  throw std::logic_error("no such fragments are documented here");
}

/// The four products of m8n8k4: threads 0-3 and 16-19, 4-7 and 20-23, 8-11 and 24-27, 12-15 and 28-31.
int computation(int lane) {
  for (int i = 0; i < 4; ++i)
    if ((4 * i <= lane && lane <= 4 * i + 3) || (16 + 4 * i <= lane && lane <= 16 + 4 * i + 3)) return i;
  throw std::logic_error("a warp has 32 lanes");
}

}  // namespace

TileElement a(const MatrixInstruction& x, int thread, int i) {
  const Lane lane(thread);
  switch (section(x)) {
    case Section::m8n8k4_f16:  // row-major A
      return {computation(lane.id), lane.id < 16 ? lane.id % 4 : lane.id % 4 + 4, i};
    case Section::m8n8k4_f64: return {0, lane.group, lane.in_group};
    case Section::m16n8k8_tf32:
      return {0, i == 0 || i == 2 ? lane.group : lane.group + 8, i == 0 || i == 1 ? lane.in_group : lane.in_group + 4};
    case Section::m16n8k16: {
      const bool upper = (0 <= i && i < 2) || (4 <= i && i < 6);
      return {0, upper ? lane.group : lane.group + 8,
              i < 4 ? lane.in_group * 2 + (i & 1) : lane.in_group * 2 + (i & 1) + 8};
    }
    case Section::m16n8k32: {
      const bool upper = (0 <= i && i < 4) || (8 <= i && i < 12);
      return {0, upper ? lane.group : lane.group + 8,
              i < 8 ? lane.in_group * 4 + (i & 3) : lane.in_group * 4 + (i & 3) + 16};
    }
    default: throw std::logic_error("A of wgmma is in shared memory");
  }
}

TileElement b(const MatrixInstruction& x, int thread, int i) {
  const Lane lane(thread);
  switch (section(x)) {
    case Section::m8n8k4_f16:  // column-major B
      return {computation(lane.id), i, lane.id < 16 ? lane.id % 4 : lane.id % 4 + 4};
    case Section::m8n8k4_f64: return {0, lane.in_group, lane.group};
    case Section::m16n8k8_tf32: return {0, i == 0 ? lane.in_group : lane.in_group + 4, lane.group};
    case Section::m16n8k16:
      return {0, i < 2 ? lane.in_group * 2 + (i & 1) : lane.in_group * 2 + (i & 1) + 8, lane.group};
    case Section::m16n8k32:
      return {0, i < 4 ? lane.in_group * 4 + (i & 3) : lane.in_group * 4 + (i & 3) + 16, lane.group};
    default: throw std::logic_error("B of wgmma is in shared memory");
  }
}

TileElement d(const MatrixInstruction& x, int thread, int i) {
  const Lane lane(thread);
  switch (section(x)) {
    case Section::m8n8k4_f16: {  // of f32
      const int row = (lane.id & 0b1) + (i & 0b10);
      return {computation(lane.id), lane.id < 16 ? row : row + 4, (i & 0b100) + (lane.id & 0b10) + (i & 0b1)};
    }
    case Section::m8n8k4_f64: return {0, lane.group, lane.in_group * 2 + (i & 1)};
    case Section::wgmma: {
      // Warp w of the warpgroup has rows 16 w to 16 w + 15: d0, d1 in row groupID of them, d2, d3 in row groupID + 8,
      // columns 2 threadID_in_group and the next; d4 to d7 the same in columns 8 further, and so on.
      const int warp = thread >> 5, eight = i >> 2, row = (i & 3) < 2 ? lane.group : lane.group + 8;
      return {0, 16 * warp + row, 8 * eight + 2 * lane.in_group + (i & 1)};
    }
    default: return {0, i < 2 ? lane.group : lane.group + 8, lane.in_group * 2 + (i & 1)};
  }
}

Descriptor fields(std::uint64_t descriptor) {
  const auto bits = [&](int first, int last) {
    return static_cast<unsigned>(descriptor >> first & ((std::uint64_t{2} << (last - first)) - 1));
  };
  if (bits(14, 15) != 0 || bits(30, 31) != 0 || bits(46, 48) != 0 || bits(52, 61) != 0)
    throw std::logic_error("reserved bits of a matrix descriptor are set");
  // Addresses and offsets without their low four bits.
  return {bits(0, 13) * 16, bits(16, 29) * 16, bits(32, 45) * 16, bits(49, 51), bits(62, 63)};
}

unsigned address(const Descriptor& x, int row, int byte) {
  if (x.swizzle != 0 || x.base != 0) throw std::logic_error("swizzled matrices are not rehearsed");
  // Canonical layout in elements of 16 bytes: ((8, m), 2) : ((1, stride), leading).
  const auto r = static_cast<unsigned>(row), b = static_cast<unsigned>(byte);
  const unsigned element = b >> 4, inside = b & 15;
  return x.start + (r & 7) * 16 + (r >> 3) * x.stride + element * x.leading + inside;
}

}  // namespace halfulp::cuda::documented
