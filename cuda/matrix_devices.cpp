#include <halfulp/cuda/matrix_devices.hpp>

#include <halfulp/cuda/kernels.hpp>
#include <halfulp/hardware/tiles.hpp>

#include <algorithm>
#include <cstring>
#include <sstream>

namespace halfulp::cuda {
namespace {

/// What results hold before a kernel runs: no word of a narrow accumulator, and none of fp64 that is met by chance.
constexpr unsigned char poison = 0xa5;
constexpr std::uint64_t poisoned = 0xa5a5'a5a5'a5a5'a5a5;

/// Words of a matrix as the device reads them: so many bytes each.
class Packed {
 public:
  Packed(const Gpu& gpu, Element e, std::size_t count)
      : bytes_(static_cast<std::size_t>(bytes_of(e))), host_(gpu, count * bytes_), device_(gpu, count * bytes_) {}
  void set(std::size_t i, std::uint64_t word) { std::memcpy(host_.data() + i * bytes_, &word, bytes_); }
  unsigned char* host() const { return host_.data(); }
  unsigned char* device() const { return device_.data(); }
  std::size_t bytes(std::size_t count) const { return count * bytes_; }

 private:
  std::size_t bytes_;
  HostMemory<unsigned char> host_;
  Memory<unsigned char> device_;
};

/// Operands of many tiles: lines of A (rows) and of B (columns) of k words, and elements of C and D.
struct Lines {
  std::size_t k;
  const std::uint64_t *a, *b, *c;
  std::uint64_t* d;
  std::size_t per_a, per_b, per_d;  ///< of one tile
  std::size_t count_a, count_b, count_d;
};

/// Runs tiles in pieces that fit into `chunk` bytes. What is missing in the last tiles is zeros.
void run_tiles(const Gpu& gpu, std::size_t row, const Lines& x, bool whole, std::size_t chunk) {
  const MatrixRow& what = matrix_rows()[row];
  const MatrixInstruction& made_of = what.made_of();
  const auto depth = static_cast<std::size_t>(made_of.k), group = static_cast<std::size_t>(made_of.tiles());
  const std::size_t steps = (x.k + depth - 1) / depth, padded = steps * depth;
  const auto pieces = [&](std::size_t n, std::size_t each) { return (n + each - 1) / each; };
  const std::size_t all = pieces(pieces(x.count_d, x.per_d), group) * group;
  const auto bytes = [](Element e) { return static_cast<std::size_t>(bytes_of(e)); };
  const std::size_t tile_bytes = padded * (x.per_a * bytes(made_of.a) + x.per_b * bytes(made_of.b)) +
                                 x.per_d * (bytes(made_of.d) + sizeof(std::uint64_t));
  const std::size_t room = std::min(all, std::max(group, chunk / tile_bytes / group * group));

  Packed a(gpu, made_of.a, room * x.per_a * padded), b(gpu, made_of.b, room * x.per_b * padded),
      c(gpu, made_of.d, room * x.per_d);
  const HostMemory<std::uint64_t> results(gpu, room * x.per_d);
  const Memory<std::uint64_t> d(gpu, room * x.per_d);
  for (std::size_t begin = 0; begin < all; begin += room) {
    const std::size_t tiles = std::min(room, all - begin);
    const auto pack_lines = [&](Packed& to, const std::uint64_t* words, std::size_t per, std::size_t count) {
      std::memset(to.host(), 0, to.bytes(tiles * per * padded));
      for (std::size_t line = 0; line < tiles * per && begin * per + line < count; ++line)
        for (std::size_t i = 0; i < x.k; ++i) to.set(line * padded + i, words[(begin * per + line) * x.k + i]);
      gpu.upload(Lane::first, to.device(), to.host(), to.bytes(tiles * per * padded));
    };
    pack_lines(a, x.a, x.per_a, x.count_a);
    pack_lines(b, x.b, x.per_b, x.count_b);
    const std::size_t elements = tiles * x.per_d, there = std::min(elements, x.count_d - begin * x.per_d);
    std::memset(c.host(), 0, c.bytes(elements));
    for (std::size_t i = 0; i < there; ++i) c.set(i, x.c[begin * x.per_d + i]);
    gpu.upload(Lane::first, c.device(), c.host(), c.bytes(elements));
    gpu.fill(Lane::first, d.data(), poison, elements * sizeof(std::uint64_t));
    gpu.kernels().matrix(Lane::first, row, {a.device(), b.device(), c.device(), d.data(), tiles, steps, whole});
    gpu.launched(what.unit->name);
    gpu.download(Lane::first, results.data(), d.data(), elements * sizeof(std::uint64_t));
    gpu.wait(Lane::first, what.unit->name);
    for (std::size_t i = 0; i < there; ++i) {
      if (results.data()[i] == poisoned)
        throw GpuError(std::string(gpu.name()) + ": " + what.unit->name + " left a result out");
      x.d[begin * x.per_d + i] = results.data()[i];
    }
  }
}

class GpuMatrixDevice final : public MatrixDevice {
 public:
  GpuMatrixDevice(const Gpu& gpu, std::size_t row, std::size_t chunk) : gpu_(gpu), row_(row), chunk_(chunk) {}
  std::string name() const override { return std::string(gpu_.name()) + ':' + unit().name; }
  std::string description() const override {
    const std::string device = gpu_.properties().description();
    return spelling(matrix_rows()[row_].made_of()) + (device.empty() ? "" : ", " + device);
  }
  Support available() const override { return runs(gpu_, matrix_rows()[row_]); }
  MatrixShape shape() const override { return shape_of(unit()); }

  void run(const MatrixCases& cases, std::span<std::uint64_t> d) const override {
    if (cases.size() == 0) return;
    const auto n = static_cast<std::size_t>(matrix_rows()[row_].made_of().n), count = cases.size();
    const Lines lines{cases.k, cases.a.data(), cases.b.data(), cases.c.data(), d.data(), n, n, n, count, count, count};
    run_tiles(gpu_, row_, lines, false, chunk_);
  }

 private:
  const MatrixUnit& unit() const { return *matrix_rows()[row_].unit; }

  const Gpu& gpu_;
  std::size_t row_, chunk_;
};

}  // namespace

std::vector<std::unique_ptr<const MatrixDevice>> cuda_matrix_devices(const Gpu& gpu, std::size_t chunk) {
  std::vector<std::unique_ptr<const MatrixDevice>> devices;
  for (std::size_t row = 0; row < matrix_rows().size(); ++row)
    devices.push_back(std::make_unique<GpuMatrixDevice>(gpu, row, chunk));
  return devices;
}

Support runs(const Gpu& gpu, const MatrixRow& row) {
  if (Support here = gpu.available(); !here.yes) return here;
  const int sm = gpu.properties().sm;
  if (!row.runs_on(sm))
    return Support::no("a unit of another architecture, " + std::string(row.target) + "; this is sm_" +
                       std::to_string(sm));
  return Support::by(spelling(row.made_of()));
}

std::vector<std::uint64_t> whole_tiles(const Gpu& gpu, std::size_t row, const WholeTiles& x, std::size_t chunk) {
  const MatrixInstruction& made_of = matrix_rows()[row].made_of();
  const auto m = static_cast<std::size_t>(made_of.m), n = static_cast<std::size_t>(made_of.n);
  std::vector<std::uint64_t> d(x.c.size());
  const Lines lines{x.k, x.a.data(), x.b.data(),  x.c.data(),  d.data(),       m,
                    n,   m * n,      x.tiles * m, x.tiles * n, x.tiles * m * n};
  if (x.tiles != 0) run_tiles(gpu, row, lines, true, chunk);
  return d;
}

PlaceCheck check_places(const Gpu& gpu, std::size_t row, std::size_t tiles, std::size_t k, std::uint64_t seed) {
  const MatrixRow& what = matrix_rows()[row];
  const auto m = static_cast<std::size_t>(what.made_of().m), n = static_cast<std::size_t>(what.made_of().n);
  PlaceCheck check;
  for (const auto& kind : tile_kinds) {
    // Rows, columns and addends of different cases meet.
    const MatrixShape shape = shape_of(*what.unit);
    const auto drawn = [&](std::size_t count, std::uint64_t s) {
      return halfulp::tiles(kind.value, shape, k, count, seed + s);
    };
    const WholeTiles x{tiles, k, drawn(tiles * m, 0).a, drawn(tiles * n, 1).b, drawn(tiles * m * n, 2).c};
    const std::vector<std::uint64_t> there = whole_tiles(gpu, row, x);
    MatrixCases cases;
    for (std::size_t i = 0; i < x.c.size(); ++i) {
      const std::size_t line = i / n, column = i / (m * n) * n + i % n;
      const std::span<const std::uint64_t> a(x.a), b(x.b);
      cases.add({a.subspan(line * k, k), b.subspan(column * k, k), {}, {}}, x.c[i]);
    }
    std::vector<std::uint64_t> here(cases.size());
    GpuMatrixDevice(gpu, row, matrix_chunk).run(cases, here);
    for (std::size_t i = 0; i < here.size(); ++i) {
      ++check.compared;
      if (there[i] == here[i] || check.differing++ != 0) continue;
      std::ostringstream text;
      text << kind.name << " tile " << i / (m * n) << ", row " << i / n % m << ", column " << i % n << ": " << std::hex
           << there[i] << " there, " << here[i] << " on the diagonal";
      check.first = text.str();
    }
  }
  return check;
}

}  // namespace halfulp::cuda
