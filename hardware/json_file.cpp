#include <halfulp/hardware/json_file.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <set>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace halfulp {
namespace {

constexpr std::size_t max_file_size = std::size_t{256} << 20;
constexpr int max_depth = 64;

}  // namespace

Json parse_json(const std::string& text, const std::string& name) {
  const auto not_json = [&](std::size_t at) {
    const std::string_view before = std::string_view(text).substr(0, at);
    const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
    return std::invalid_argument(name + ": not JSON at line " + std::to_string(std::count(before.begin(), before.end(), '\n') + 1) + ", column " +
                                 std::to_string(before.size() - line_start + 1));
  };
  if (const auto nul = text.find('\0'); nul != text.npos) throw not_json(nul);  // the library takes it for the end
  std::vector<std::set<std::string>> members;  // of the objects that are open
  std::string latest;                          // the last member that was begun
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > max_depth) throw std::invalid_argument(name + ": nested deeper than " + std::to_string(max_depth) + " levels");
    if (event == Json::parse_event_t::object_start) members.emplace_back();
    if (event == Json::parse_event_t::object_end) members.pop_back();
    if (event == Json::parse_event_t::key) latest = " of member " + parsed.dump();
    if (event == Json::parse_event_t::key && !members.back().insert(parsed.get<std::string>()).second)
      throw std::invalid_argument(name + ": member " + parsed.dump() + " is there twice");
    return true;
  };
  try {
    return Json::parse(text, watch);
  } catch (const Json::parse_error& error) {
    throw not_json(error.byte > 0 ? error.byte - 1 : 0);
  } catch (const Json::out_of_range&) {
    throw std::invalid_argument(name + ": a number" + latest + " is too large; accepted: what fits a double, up to 1.79e308");
  }
}

Json read_json(const std::string& path) {
  const auto cannot = [&](const char* why) { throw std::invalid_argument("cannot read " + path + ": " + why); };
  const auto close = [](std::FILE* file) { if (file != stdin) std::fclose(file); };
  const std::unique_ptr<std::FILE, decltype(close)> file(path == "-" ? stdin : std::fopen(path.c_str(), "rb"), close);
  if (!file) cannot(std::strerror(errno));
  std::string text;
  std::vector<char> buffer(1 << 16);
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), file.get())) {
    text.append(buffer.data(), count);
    if (text.size() > max_file_size) cannot("larger than 256 MiB");
  }
  if (std::ferror(file.get())) cannot(std::strerror(errno));
  return parse_json(text, path == "-" ? "standard input" : path);
}

}  // namespace halfulp
