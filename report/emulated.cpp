// Apart from report.cpp for the WebAssembly module, which explains numbers and writes no reports.
#include <halfulp/report/report.hpp>

#include <halfulp/emulation/text.hpp>

namespace halfulp {

Json emulated(const FloatFormat& format, std::uint64_t code) {
  Json json = Json::object();
  json["code"] = print_code(format, code);
  json["value"] = number(format.value(code));
  return json;
}

}  // namespace halfulp
