#include <halfulp/cuda/backend.hpp>

#include <halfulp/cuda/kernels.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>

namespace halfulp {
namespace cuda {
namespace {

/// The columns of one lane, on both sides.
class Columns {
 public:
  Columns(const Gpu& gpu, Lane lane, std::size_t cases)
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

class GpuBackend final : public Backend {
 public:
  GpuBackend(const Gpu& gpu, std::size_t cases) : gpu_(gpu), most_(cases) {}
  std::string_view name() const override { return gpu_.name(); }
  std::string description() const override {
    return gpu_.available().yes ? gpu_.properties().description() : "NVIDIA GPU";
  }
  Support available() const override { return gpu_.available(); }
  std::string_view independence() const override { return gpu_.independence(); }

  Support supports(const Task& task) const override {
    if (std::string why = refusal(task); !why.empty()) return Support::no(std::move(why));
    // Without a device: whether any has it. That there is none is said first by available().
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
        Columns& columns = *columns_[turn % columns_.size()];
        columns.finish(row);
        columns.start(row, operands.slice(begin, count), results.subspan(begin, count));
      }
      for (auto& columns : columns_) columns->finish(row);
    } catch (const GpuError&) {
      columns_ = {};
      throw;
    }
  }

 private:
  /// Cases a turn: both lanes have something to do where there is enough.
  std::size_t room_for(std::size_t cases) const {
    const std::size_t each = std::min(most_, (cases + 1) / 2);
    if (!columns_[0] || columns_[0]->cases() < each) {
      columns_ = {};
      for (int lane = 0; lane < lanes; ++lane)
        columns_[static_cast<std::size_t>(lane)] = std::make_unique<Columns>(gpu_, static_cast<Lane>(lane), each);
    }
    return each;
  }

  const Gpu& gpu_;
  std::size_t most_;
  mutable std::mutex mutex_;
  mutable std::array<std::unique_ptr<Columns>, lanes> columns_;
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

std::unique_ptr<Backend> make_backend(const Gpu& gpu, std::size_t cases) {
  return std::make_unique<GpuBackend>(gpu, cases);
}

}  // namespace cuda

const Backend& cuda_backend() {
  static const std::unique_ptr<Backend> backend = cuda::make_backend(cuda::native_gpu());
  return *backend;
}

const Backend& rehearsal_backend() {
  static const std::unique_ptr<Backend> backend = cuda::make_backend(cuda::rehearsal_gpu());
  return *backend;
}

}  // namespace halfulp
