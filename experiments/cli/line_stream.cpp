#include <halfulp/experiments/cli/line_stream.hpp>

#include <halfulp/experiments/cli/guard.hpp>
#include <halfulp/experiments/cli/output.hpp>

#include <fmt/core.h>

#include <stdexcept>
#include <vector>

namespace halfulp::cli {

void LineStream::line(std::string_view text, std::string& out) {
  ++number_;
  try {
    if (text.size() > handler_.longest_line())
      throw std::invalid_argument(fmt::format("is longer than {} characters", handler_.longest_line()));
    handler_.numbered_line(number_, text, out);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(fmt::format("standard input, line {}: {}", number_, error.what()));
  }
}

void LineStream::feed(std::string_view block, std::string& out) {
  for (auto end = block.find('\n'); end != block.npos; end = block.find('\n')) {
    if (pending_.empty()) {
      line(block.substr(0, end), out);
    } else {
      pending_ += block.substr(0, end);
      const std::string whole = std::move(pending_);
      pending_.clear();
      line(whole, out);
    }
    block.remove_prefix(end + 1);
  }
  pending_ += block;
  if (pending_.size() > handler_.longest_line()) finish(out);  // refuses it, however much more would come
}

void LineStream::finish(std::string& out) {
  if (pending_.empty()) return;
  const std::string whole = std::move(pending_);
  pending_.clear();
  line(whole, out);
}

void answer_input(LineHandler& handler) {
  LineStream stream(handler);
  std::string out;
  const auto step = [&](auto&& answer) {
    try {
      answer();
    } catch (const std::invalid_argument&) {
      write_output(out);
      throw;
    }
    write_output(out);
    out.clear();
  };
  std::vector<char> block(1 << 16);
  while (true) {
    const std::size_t count = read_input(block);
    if (count == 0) break;
    step([&] { stream.feed({block.data(), count}, out); });
  }
  step([&] { stream.finish(out); });
}

void conclude_check(std::uint64_t cases, std::uint64_t differing, int& status) {
  if (cases == 0) throw std::invalid_argument("nothing to check: no case on standard input");
  write_output(fmt::format("{} checked, {} differ\n", cases, differing));
  if (differing != 0) status = exit_status::failed;
}

}  // namespace halfulp::cli
