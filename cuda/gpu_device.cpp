#include <halfulp/cuda/gpu_device.hpp>

#include <halfulp/cuda/kernels.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>

namespace halfulp {
namespace cuda {
namespace {

/// The columns of one lane, on both sides.
class LaneColumns {
 public:
  LaneColumns(const Gpu& gpu, Lane lane, std::size_t cases)
      : gpu_(gpu),
        lane_(lane),
        host_{{{gpu, cases}, {gpu, cases}, {gpu, cases}}},
        device_{{{gpu, cases}, {gpu, cases}, {gpu, cases}}},
        answers_(gpu, cases),
        results_(gpu, cases) {}

  std::size_t cases() const { return answers_.size(); }

  /// Puts everything into the lane: operands there, kernel, answers back.
  void start(std::size_t row, const Operands& x, std::span<std::uint64_t> out) {
    out_ = out;
    ElementwiseArgs args;
    args.a = upload(0, x.a);
    args.b = upload(1, x.b);
    args.c = upload(2, x.c);
    args.count = x.size();
    args.results = results_.data();
    // A pattern that no narrow code word has: what a kernel leaves out shows.
    gpu_.fill(lane_, results_.data(), 0xa5, x.size() * sizeof(std::uint64_t));
    gpu_.kernels().elementwise(lane_, row, args);
    gpu_.launched(instructions()[row].route);
    gpu_.download(lane_, answers_.data(), results_.data(), out.size_bytes());
  }
  /// Waits for what was started, if anything was.
  void finish(std::size_t row) {
    if (out_.empty()) return;
    gpu_.wait(lane_, instructions()[row].route);
    std::memcpy(out_.data(), answers_.data(), out_.size_bytes());
    out_ = {};
  }

 private:
  const std::uint64_t* upload(std::size_t column, std::span<const std::uint64_t> words) {
    if (words.empty()) return nullptr;
    std::memcpy(host_[column].data(), words.data(), words.size_bytes());
    gpu_.upload(lane_, device_[column].data(), host_[column].data(), words.size_bytes());
    return device_[column].data();
  }

  const Gpu& gpu_;
  Lane lane_;
  std::array<HostMemory<std::uint64_t>, 3> host_;
  std::array<Memory<std::uint64_t>, 3> device_;
  HostMemory<std::uint64_t> answers_;
  Memory<std::uint64_t> results_;
  std::span<std::uint64_t> out_;
};

/// What results hold before a kernel runs: no word of a narrow accumulator, and none of fp64 that is met by chance.
constexpr unsigned char poison = 0xa5;
constexpr std::uint64_t poisoned = 0xa5a5'a5a5'a5a5'a5a5;

/// Words of a matrix as the device reads them, in the width of their element.
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

/// Runs tiles in pieces that fit into `most_bytes` bytes. What is missing in the last tiles is zeros.
void run_tiles(const Gpu& gpu, std::size_t row, const Lines& x, bool whole, std::size_t most_bytes) {
  const MatrixRow& what = matrix_rows()[row];
  const MatrixInstruction& made_of = what.made_of();
  const auto depth = static_cast<std::size_t>(made_of.k), group = static_cast<std::size_t>(made_of.tiles());
  const std::size_t steps = (x.k + depth - 1) / depth, padded = steps * depth;
  const auto pieces = [&](std::size_t n, std::size_t each) { return (n + each - 1) / each; };
  const std::size_t all = pieces(pieces(x.count_d, x.per_d), group) * group;
  const auto bytes = [](Element e) { return static_cast<std::size_t>(bytes_of(e)); };
  const std::size_t tile_bytes = padded * (x.per_a * bytes(made_of.a) + x.per_b * bytes(made_of.b)) +
                                 x.per_d * (bytes(made_of.d) + sizeof(std::uint64_t));
  const std::size_t room = std::min(all, std::max(group, most_bytes / tile_bytes / group * group));

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

class GpuDevice final : public Device {
 public:
  GpuDevice(const Gpu& gpu, Pieces pieces) : gpu_(gpu), pieces_(pieces) {}
  const Gpu& gpu() const { return gpu_; }
  std::string_view name() const override { return gpu_.name(); }
  std::string description() const override {
    return gpu_.available().yes ? gpu_.properties().description() : "NVIDIA GPU";
  }
  Support available() const override { return gpu_.available(); }
  std::string_view independence() const override { return gpu_.independence(); }

  Support supports(const Task& task) const override {
    if (std::string why = refusal(task); !why.empty()) return Support::no(std::move(why));
    // Without a device: whether any GPU has it. available() says that there is none.
    const Support here = gpu_.available();
    const RowOrReason found = find_row(task, here.yes ? gpu_.properties().sm : newest_sm);
    if (!found.reason.empty()) return Support::no(found.reason);
    return here.yes ? Support::by(std::string(instructions()[found.row].route), instructions()[found.row].approximate)
                    : here;
  }
  std::vector<Task> own_tasks() const override {
    std::vector<Task> tasks;
    for (const Instruction& row : instructions())
      if (row.sm <= gpu_.properties().sm) tasks.push_back(row.task());
    return tasks;
  }
  NanRule nan_rule(const Task& task) const override {
    const RowOrReason found = find_row(task, newest_sm);
    return found.reason.empty() ? instructions()[found.row].nan : NanRule::cuda;
  }

  void run(const Task& task, const Operands& operands, std::span<std::uint64_t> results) const override {
    if (const Support support = supports(task); !support.yes)
      throw std::logic_error("cuda: unsupported task: " + task.description() + ": " + support.reason);
    if (operands.size() == 0) return;
    const std::size_t row = find_row(task, gpu_.properties().sm).row;
    const std::scoped_lock lock(mutex_);
    try {
      const std::size_t each = room_for(operands.size());
      std::size_t turn = 0;
      for (std::size_t begin = 0; begin < operands.size(); begin += each, ++turn) {
        const std::size_t count = std::min(each, operands.size() - begin);
        LaneColumns& columns = *columns_[turn % columns_.size()];
        columns.finish(row);
        columns.start(row, operands.slice(begin, count), results.subspan(begin, count));
      }
      for (auto& columns : columns_) columns->finish(row);
    } catch (const GpuError&) {
      columns_ = {};
      throw;
    }
  }

  std::vector<MatrixTask> matrix_tasks() const override {
    const std::string device = gpu_.properties().description();
    std::vector<MatrixTask> tasks;
    for (const MatrixRow& row : matrix_rows())
      tasks.push_back({row.unit->name, shape_of(*row.unit),
                       spelling(row.made_of()) + (device.empty() ? "" : ", " + device), runs(gpu_, row)});
    return tasks;
  }
  void multiply(const MatrixTask& task, const MatrixCases& cases, std::span<std::uint64_t> d) const override {
    if (cases.size() == 0) return;
    const auto rows = matrix_rows();
    const auto row = std::find_if(rows.begin(), rows.end(),
                                  [&](const MatrixRow& each) { return each.unit->name == task.unit; });
    if (row == rows.end()) return Device::multiply(task, cases, d);
    const auto n = static_cast<std::size_t>(row->made_of().n), count = cases.size();
    const Lines lines{cases.k, cases.a.data(), cases.b.data(), cases.c.data(), d.data(), n, n, n, count, count, count};
    run_tiles(gpu_, static_cast<std::size_t>(row - rows.begin()), lines, false, pieces_.matrix_bytes);
  }

 private:
  /// Cases per turn: both lanes have something to do where there is enough.
  std::size_t room_for(std::size_t cases) const {
    const std::size_t each = std::min(pieces_.cases, (cases + 1) / 2);
    if (!columns_[0] || columns_[0]->cases() < each) {
      columns_ = {};
      for (int lane = 0; lane < lanes; ++lane)
        columns_[static_cast<std::size_t>(lane)] = std::make_unique<LaneColumns>(gpu_, static_cast<Lane>(lane), each);
    }
    return each;
  }

  const Gpu& gpu_;
  Pieces pieces_;
  mutable std::mutex mutex_;
  mutable std::array<std::unique_ptr<LaneColumns>, lanes> columns_;
};

}  // namespace

RowOrReason find_row(const Task& task, int sm) {
  std::string others;
  for (std::size_t row = 0; row < instructions().size(); ++row) {
    const Instruction& instruction = instructions()[row];
    if (!instruction.computes(task)) {
      if (instruction.operation != task.operation || instruction.from != task.from || instruction.to != task.to)
        continue;
      others += (others.empty() ? "" : ", ") + std::string(name_of(instruction.mode)) + " " +
                std::string(name_of(instruction.overflow)) + (instruction.flush ? " with subnormals flushed" : "");
      continue;
    }
    if (instruction.sm > sm)
      return {0, std::string(instruction.route) + " needs sm_" + std::to_string(instruction.sm) + ", this is sm_" +
                     std::to_string(sm)};
    return {row, {}};
  }
  // Say what the instruction for these formats does instead, if there is one.
  return {0, others.empty() ? "this backend has no such instruction" : "the device has it for " + others + " only"};
}

Support runs(const Gpu& gpu, const MatrixRow& row) {
  if (Support here = gpu.available(); !here.yes) return here;
  const int sm = gpu.properties().sm;
  if (!row.runs_on(sm))
    return Support::no("a unit of another architecture, " + std::string(row.target) + "; this is sm_" +
                       std::to_string(sm));
  return Support::by(spelling(row.made_of()));
}

std::vector<std::uint64_t> whole_tiles(const Gpu& gpu, std::size_t row, const WholeTiles& x, std::size_t bytes) {
  const MatrixInstruction& made_of = matrix_rows()[row].made_of();
  const auto m = static_cast<std::size_t>(made_of.m), n = static_cast<std::size_t>(made_of.n);
  std::vector<std::uint64_t> d(x.c.size());
  const Lines lines{x.k, x.a.data(), x.b.data(),  x.c.data(),  d.data(),       m,
                    n,   m * n,      x.tiles * m, x.tiles * n, x.tiles * m * n};
  if (x.tiles != 0) run_tiles(gpu, row, lines, true, bytes);
  return d;
}

std::unique_ptr<Device> make_device(const Gpu& gpu, Pieces pieces) { return std::make_unique<GpuDevice>(gpu, pieces); }

const Gpu* gpu_of(const Device& device) {
  const auto* gpu_device = dynamic_cast<const GpuDevice*>(&device);
  return gpu_device ? &gpu_device->gpu() : nullptr;
}

}  // namespace cuda

const Device& cuda_device() {
  static const std::unique_ptr<Device> device = cuda::make_device(cuda::native_gpu());
  return *device;
}

const Device& rehearsal_device() {
  static const std::unique_ptr<Device> device = cuda::make_device(cuda::rehearsal_gpu());
  return *device;
}

}  // namespace halfulp
