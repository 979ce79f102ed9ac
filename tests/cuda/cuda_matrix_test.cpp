// Matrix instructions of GPUs where there is none: fragments against the documentation, and the whole way from cases
// over upload, kernel and download on a GPU that is played by the host.
#include "check.hpp"

#include <halfulp/cuda/gpu_device.hpp>
#include <halfulp/cuda/documented.hpp>
#include <halfulp/cuda/rehearsal.hpp>
#include <halfulp/evidence/devices.hpp>
#include <halfulp/evidence/gpu_check.hpp>
#include <halfulp/hardware/operands.hpp>

#include <algorithm>
#include <set>

namespace halfulp::cuda {
namespace cuda_matrix_test {

std::string text(const MatrixInstruction& x, int thread, int i) {
  return spelling(x) + ", thread " + std::to_string(thread) + ", element " + std::to_string(i);
}

std::string text(const TileElement& p) {
  return std::to_string(p.tile) + ": " + std::to_string(p.row) + ", " + std::to_string(p.column);
}

/// The rehearsed GPU that a row runs on.
const Gpu& gpu_for(const MatrixRow& row) {
  static std::map<int, std::unique_ptr<Gpu>> gpus;
  auto& gpu = gpus[row.sm_first];
  if (!gpu) gpu = make_rehearsal({.sm = row.sm_first});
  return *gpu;
}

std::size_t row_of(std::string_view name) {
  const auto rows = matrix_rows();
  return static_cast<std::size_t>(
      std::find_if(rows.begin(), rows.end(), [&](const MatrixRow& row) { return row.unit->name == name; }) -
      rows.begin());
}

// Fragments.

/// Holds one matrix's places against the documentation's, and sees that they are every element of every tile, once.
template <class Ours, class Documented>
void check_fragment(const MatrixInstruction& x, int count, int rows, int columns, Ours ours, Documented documented) {
  std::set<std::array<int, 3>> seen;
  for (int thread = 0; thread < x.threads(); ++thread)
    for (int i = 0; i < count; ++i) {
      const TileElement p = ours(x, thread, i);
      EXPECT_EQ(text(p), text(documented(x, thread, i))) << text(x, thread, i);
      const bool inside = 0 <= p.row && p.row < rows && 0 <= p.column && p.column < columns;
      EXPECT_TRUE(0 <= p.tile && p.tile < x.tiles() && inside) << text(x, thread, i);
      EXPECT_TRUE(seen.insert({p.tile, p.row, p.column}).second) << text(x, thread, i);
    }
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(x.tiles() * rows * columns)) << spelling(x);
}

TEST(CudaFragments, AreTheDocumentation) {
  for (const MatrixInstruction& x : matrix_instructions) {
    check_fragment(x, x.d_count(), x.m, x.n, d_place, documented::d);
    if (x.kind == MatrixKind::wgmma) continue;
    check_fragment(x, x.a_count(), x.m, x.k, a_place, documented::a);
    check_fragment(x, x.b_count(), x.k, x.n, b_place, documented::b);
  }
}

// Some places read off the documentation's figures.
TEST(CudaFragments, AreTheFigures) {
  const auto a = [](int k, Element e, int thread, int i) {
    return text(a_place({MatrixKind::mma, 16, 8, k, e, e, Element::f32}, thread, i));
  };
  EXPECT_EQ(a(16, Element::f16, 0, 2), "0: 8, 0");   // figure 79: T0 {a2, a3} in row 8, columns 0 and 1
  EXPECT_EQ(a(16, Element::f16, 5, 4), "0: 1, 10");  // T5 {a4, a5} in row 1, columns 10 and 11
  EXPECT_EQ(a(32, Element::e4m3, 31, 15), "0: 15, 31");
  EXPECT_EQ(a(8, Element::tf32, 1, 1), "0: 8, 1");  // figure 72: a1 is 8 rows down, a2 4 columns on
  EXPECT_EQ(a(8, Element::tf32, 1, 2), "0: 0, 5");
  const MatrixInstruction quads{MatrixKind::mma, 8, 8, 4, Element::f16, Element::f16, Element::f32};
  EXPECT_EQ(text(d_place(quads, 0, 2)), "0: 2, 0");  // T0 has rows 0 and 2, columns 0, 1, 4, 5
  EXPECT_EQ(text(d_place(quads, 0, 4)), "0: 0, 4");
  EXPECT_EQ(text(d_place(quads, 22, 7)), "1: 6, 7");
  const MatrixInstruction group{MatrixKind::wgmma, 64, 8, 16, Element::f16, Element::f16, Element::f32};
  EXPECT_EQ(text(d_place(group, 37, 3)), "0: 25, 3");  // figure 149: warp 1 has rows 16 to 31
}

TEST(CudaFragments, DescriptorsDescribeWhatIsWritten) {
  const documented::Descriptor matrix = documented::fields(descriptor(0x3'0400));
  EXPECT_EQ(matrix.start, 0x3'0400U);
  EXPECT_EQ(matrix.leading, 128U);
  EXPECT_EQ(matrix.stride, 256U);
  std::set<unsigned> seen;
  for (int row = 0; row < 64; ++row)
    for (int byte = 0; byte < step_bytes; ++byte) {
      const auto offset = static_cast<unsigned>(shared_offset(row, byte));
      EXPECT_EQ(documented::address(matrix, row, byte), 0x3'0400U + offset);
      EXPECT_LT(offset, static_cast<unsigned>(shared_bytes(64)));
      EXPECT_TRUE(seen.insert(offset).second);
    }
  EXPECT_THROW(documented::fields(std::uint64_t{1} << 14), std::logic_error);
}

// The table.

TEST(CudaMatrixRows, AreAllUnitsOfTheirFamilies) {
  std::set<std::string> rows;
  std::set<std::size_t> used;
  for (const MatrixRow& row : matrix_rows()) {
    EXPECT_TRUE(rows.insert(row.unit->name).second);
    used.insert(row.instruction);
    const MatrixInstruction& x = row.made_of();
    // The table of units spells wgmma with another n.
    std::string spelled = row.unit->instruction;
    if (const std::size_t n = spelled.find("n256"); n != std::string::npos) spelled.replace(n, 4, "n8");
    EXPECT_EQ(spelling(x), spelled);
    EXPECT_EQ(bytes_of(x.a) * 8, word_bits(row.unit->a)) << row.unit->name;
    EXPECT_EQ(bytes_of(x.d) * 8, word_bits(row.unit->accumulator)) << row.unit->name;
  }
  EXPECT_EQ(used.size(), std::size(matrix_instructions));
  for (const MatrixUnit& unit : matrix_units()) {
    const std::string architecture = unit.name.substr(0, unit.name.find('.'));
    const bool ours = architecture == "ampere" || architecture == "ada" || architecture == "hopper" ||
                      unit.name.substr(0, 14) == "blackwell.mma.";
    EXPECT_EQ(rows.count(unit.name) == 1, ours) << unit.name;
  }
}

TEST(CudaMatrixRows, RunWhereTheyCan) {
  const auto reason = [](int sm, const char* name) {
    const auto gpu = make_rehearsal({.sm = sm});
    for (const MatrixTask& task : make_device(*gpu)->matrix_tasks())
      if (task.unit == name) {
        EXPECT_EQ(task.here.reason.empty(), task.here.yes);
        EXPECT_NE(task.here.route.empty(), task.here.yes);
        return task.here.reason;
      }
    return std::string("no such instruction");
  };
  EXPECT_EQ(reason(90, "hopper.wgmma.e4m3.fp32"), "");
  EXPECT_EQ(reason(80, "hopper.wgmma.e4m3.fp32"), "a unit of another architecture, sm_90a; this is sm_80");
  EXPECT_EQ(reason(100, "hopper.wgmma.e4m3.fp32"), "a unit of another architecture, sm_90a; this is sm_100");
  EXPECT_EQ(reason(86, "ampere.mma.tf32.fp32"), "");
  EXPECT_EQ(reason(89, "ampere.mma.tf32.fp32"), "a unit of another architecture, sm_80; this is sm_89");
  EXPECT_EQ(reason(89, "ada.mma.e5m2-e4m3.fp16"), "");
  EXPECT_EQ(reason(100, "blackwell.mma.fp64.fp64"), "");
}

TEST(CudaMatrixRows, AreFoundByName) {
  EXPECT_EQ(find_matrix_tasks("rehearsal").tasks.size(), matrix_rows().size());
  EXPECT_EQ(find_matrix_tasks("cuda").tasks.size(), matrix_rows().size());
  const MatrixTasks one = find_matrix_tasks("rehearsal:hopper.mma.fp16.fp16");
  ASSERT_EQ(one.tasks.size(), 1u);
  EXPECT_EQ(matrix_name(*one.device, one.tasks[0]), "rehearsal:hopper.mma.fp16.fp16");
  EXPECT_NE(one.tasks[0].description.find("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16, "), std::string::npos);
  EXPECT_THROW(find_matrix_tasks("cuda:hopper.wgmma.e4m4.fp32"), std::invalid_argument);
  EXPECT_THROW(find_matrix_tasks("emulated"), std::invalid_argument);
  EXPECT_THROW(find_matrix_tasks("x87:hopper.wgmma.e4m3.fp32"), std::invalid_argument);
  const MatrixTasks real = find_matrix_tasks("cuda:hopper.wgmma.e4m3.fp32");
  ASSERT_EQ(real.tasks.size(), 1u);
  if (const Support here = native_gpu().available(); !here.yes) { EXPECT_EQ(real.tasks[0].here.reason, here.reason); }
}

// Cases, from upload to download.

/// How many answers of a row's instruction are not the model's.
std::size_t differing(const Device& device, std::size_t row, const MatrixUnit& unit, const MatrixCases& cases) {
  return compare(device, device.matrix_tasks()[row], unit, cases).differing;
}

TEST(CudaMatrixDevices, AreTheirModels) {
  std::size_t compared = 0;
  for (std::size_t row = 0; row < matrix_rows().size(); ++row) {
    const MatrixRow& what = matrix_rows()[row];
    const auto device = make_device(gpu_for(what));
    const MatrixTask task = device->matrix_tasks()[row];
    ASSERT_TRUE(task.here.yes) << task.unit;
    EXPECT_EQ(task.shape, shape_of(*what.unit));
    // Numbers of cases and depths that fill tiles and instructions, and that do not.
    const auto k = static_cast<std::size_t>(what.unit->k);
    for (const auto& kind : tile_kinds)
      for (const auto& [depth, count] :
           {std::pair<std::size_t, std::size_t>{k, 8}, {1, 1}, {k + 3, 13}, {2 * k - 1, 3}, {3 * k, 33}}) {
        ASSERT_EQ(differing(*device, row, *what.unit, tiles(kind.value, task.shape, depth, count, 7 * depth + count)),
                  0u)
            << task.unit << ' ' << kind.name << " k " << depth << " of " << count;
        compared += count;
      }
  }
  std::cout << compared << " cases\n";
}

// What a model of another unit gives is seen: the comparison is no tautology.
TEST(CudaMatrixDevices, OtherModelsAreSeen) {
  const std::size_t row = row_of("hopper.wgmma.e4m3.fp32");
  const MatrixCases cases = tiles(Tiles::near, rehearsal_device().matrix_tasks()[row].shape, 32, 64, 1);
  EXPECT_EQ(differing(rehearsal_device(), row, find_unit("hopper.wgmma.e4m3.fp32"), cases), 0u);
  EXPECT_GT(differing(rehearsal_device(), row, find_unit("hopper.mma.e4m3.fp32"), cases), 32u);
}

TEST(CudaMatrixDevices, DoNotDependOnChunks) {
  for (const char* name : {"hopper.mma.fp16.fp16", "hopper.mma-m8n8k4.fp16.fp32", "hopper.wgmma.tf32.fp32"}) {
    const std::size_t row = row_of(name);
    const MatrixUnit& unit = *matrix_rows()[row].unit;
    const MatrixShape shape = shape_of(unit);
    const MatrixCases cases = tiles(Tiles::near, shape, static_cast<std::size_t>(shape.k) + 1, 150, 1);
    // Too small for one instruction, which is then the chunk; for some; for all.
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{5'000}, Pieces().matrix_bytes})
      EXPECT_EQ(differing(*make_device(rehearsal_gpu(), {.matrix_bytes = bytes}), row, unit, cases), 0u)
          << name << ' ' << bytes;
    EXPECT_EQ(
        differing(*make_device(rehearsal_gpu(), {.matrix_bytes = 1}), row, unit, tiles(Tiles::near, shape, 1, 0, 1)),
        0u);
  }
}

TEST(CudaMatrixDevices, KeepToTheirMemory) {
  // 16 KB of device: chunks of as much fit, one of everything does not, and that is said.
  const auto gpu = make_rehearsal({.memory = 1 << 14});
  const std::size_t row = row_of("hopper.mma.e4m3.fp16");
  const MatrixUnit& unit = *matrix_rows()[row].unit;
  const MatrixCases cases = tiles(Tiles::near, shape_of(unit), 32, 2'000, 1);
  EXPECT_EQ(differing(*make_device(*gpu, {.matrix_bytes = 1 << 14}), row, unit, cases), 0u);
  std::vector<std::uint64_t> d(cases.size());
  const auto device = make_device(*gpu);
  EXPECT_THROW(device->multiply(device->matrix_tasks()[row], cases, d), GpuError);
}

TEST(CudaMatrixDevices, SeeResultsThatAreLeftOut) {
  const auto forgetful = make_rehearsal({.leaves_out = 13});
  for (const char* name : {"hopper.mma.fp16.fp16", "hopper.mma.fp64.fp64", "hopper.wgmma.bf16.fp32"}) {
    const std::size_t row = row_of(name);
    const MatrixShape shape = shape_of(*matrix_rows()[row].unit);
    for (const std::size_t count : {12, 13}) {
      const MatrixCases cases = tiles(Tiles::near, shape, 4, count, 1);
      std::vector<std::uint64_t> d(count);
      const auto device = make_device(*forgetful);
      const auto run = [&] { device->multiply(device->matrix_tasks()[row], cases, d); };
      if (count < 13) EXPECT_NO_THROW(run()) << name;
      else EXPECT_THROW(run(), GpuError) << name;
    }
  }
}

// Whole tiles.

TEST(CudaMatrixTiles, AreTheirModels) {
  for (std::size_t row = 0; row < matrix_rows().size(); ++row) {
    const MatrixRow& what = matrix_rows()[row];
    const MatrixInstruction& x = what.made_of();
    const auto m = static_cast<std::size_t>(x.m), n = static_cast<std::size_t>(x.n),
               k = static_cast<std::size_t>(x.k) + 2;
    const std::size_t count = x.by_quads() ? 6 : 2;
    const MatrixShape shape = shape_of(*what.unit);
    const auto drawn = [&](std::size_t cases, std::uint64_t seed) { return tiles(Tiles::near, shape, k, cases, seed); };
    const WholeTiles w{count, k, drawn(count * m, 3).a, drawn(count * n, 4).b, drawn(count * m * n, 5).c};
    const std::vector<std::uint64_t> d = whole_tiles(gpu_for(what), row, w, 10'000);
    std::size_t wrong = 0;
    for (std::size_t t = 0; t < count; ++t)
      for (std::size_t i = 0; i < m; ++i)
        for (std::size_t j = 0; j < n; ++j) {
          const std::span<const std::uint64_t> a(w.a), b(w.b);
          const std::size_t at = (t * m + i) * n + j;
          wrong += d[at] !=
                   mma(*what.unit, {a.subspan((t * m + i) * k, k), b.subspan((t * n + j) * k, k), {}, {}}, w.c[at]);
        }
    EXPECT_EQ(wrong, 0u) << what.unit->name;
  }
}

TEST(CudaMatrixTiles, EveryPlaceGivesTheSame) {
  for (const char* name :
       {"hopper.mma.fp16.fp32", "hopper.mma-m8n8k4.fp16.fp32", "hopper.mma.fp64.fp64", "hopper.wgmma.e5m2-e4m3.fp16"}) {
    const std::size_t row = row_of(name);
    const Comparison found = check_places(rehearsal_device(), row, 1, 5, 1);
    EXPECT_EQ(found.differing, 0u) << found.witnesses.at(0).text;
    EXPECT_EQ(found.compared, static_cast<std::size_t>(matrix_rows()[row].unit->m) * 8 * tile_kinds.size());
  }
}

// Silicon.

// Whatever the unit computes, it does so in every place of a tile, whole tiles and diagonals alike: that holds for
// every GPU. How far the models hold is printed; `halfulp probe` and `record` ask more.
TEST(CudaMatrixSilicon, EveryPlaceGivesTheSame) {
  const Gpu& gpu = native_gpu();
  if (const Support here = gpu.available(); !here.yes) GTEST_SKIP() << here.reason;
  const std::vector<MatrixTask> tasks = cuda_device().matrix_tasks();
  for (std::size_t row = 0; row < tasks.size(); ++row) {
    if (!tasks[row].here.yes) continue;
    const auto k = static_cast<std::size_t>(tasks[row].shape.k);
    for (const std::size_t depth : {k, 2 * k + 1}) {
      const Comparison found = check_places(cuda_device(), row, 8, depth, 1);
      EXPECT_EQ(found.differing, 0u) << tasks[row].unit << " k " << depth << ": " << found.witnesses.at(0).text;
    }
    std::cout << tasks[row].unit;
    for (const auto& kind : tile_kinds)
      std::cout << ' ' << kind.name << ' '
                << differing(cuda_device(), row, *matrix_rows()[row].unit,
                             tiles(kind.value, tasks[row].shape, k, 4'000, 1));
    std::cout << " of 4000 differ from the model\n";
  }
}

}  // namespace cuda_matrix_test
}  // namespace halfulp::cuda
