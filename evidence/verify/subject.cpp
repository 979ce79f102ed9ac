#include <halfulp/evidence/verify/subject.hpp>

#include <halfulp/emulation/array/array.hpp>

namespace halfulp::verify {

Subject::Subject(const Task& task) : task_(task) {
  const bool truth = info(task.operation).result == ResultKind::truth;
  bytes_ = truth ? 1 : static_cast<std::size_t>(std::get<FloatFormat>(task.to).storage_bytes());
}

bool Subject::is_array() const { return array_has(task_); }

std::string Subject::description() const { return computed_by(task_); }

void Subject::run(const Operands& x, std::span<std::byte> results) const {
  const auto as = [&]<class Code>(Code) {
    compute(task_, x.a, x.b, x.c, std::span<Code>(reinterpret_cast<Code*>(results.data()), x.size()));
  };
  switch (bytes_) {
    case 1: return as(std::uint8_t{});
    case 2: return as(std::uint16_t{});
    case 4: return as(std::uint32_t{});
    default: return as(std::uint64_t{});
  }
}

}  // namespace halfulp::verify
