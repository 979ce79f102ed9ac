#include <halfulp/report/environment.hpp>

#include <halfulp/evidence/devices.hpp>

#include <fmt/format.h>

#include <halfulp_revision.hpp>  // made by cmake/revision.cmake at each build

#include <algorithm>
#include <array>
#include <ctime>
#include <fstream>
#include <sstream>
#include <thread>

#include <sys/utsname.h>

namespace halfulp {
namespace {

constexpr std::string_view compiler =
#if defined(__clang__)
    "clang " __clang_version__;
#elif defined(__GNUC__)
    "gcc " __VERSION__;
#else
    "unknown";
#endif

/// The value of the first "key SEPARATOR value" line of a text file; empty if there is none.
std::string field(const char* file, std::string_view key, char separator) {
  std::ifstream in(file);
  const auto trim = [](std::string& text) {
    const auto first = text.find_first_not_of(" \t\"");
    text = first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t\"") - first + 1);
  };
  for (std::string line; std::getline(in, line);) {
    const std::size_t at = line.find(separator);
    if (at == std::string::npos) continue;
    std::string name = line.substr(0, at), value = line.substr(at + 1);
    trim(name);
    trim(value);
    if (name == key) return value;
  }
  return {};
}

std::string or_unknown(std::string text) { return text.empty() ? "unknown" : text; }

/// The processor's floating-point instruction sets, in /proc/cpuinfo's names.
Json cpu_features() {
  constexpr std::array relevant{"f16c",        "fma",      "avx2",     "avx512f",  "avx512_bf16",
                                "avx512_fp16", "amx_bf16", "amx_fp16", "amx_int8", "avx_ne_convert",
                                "asimdhp",     "bf16",     "fphp",     "sve",      "sve2"};
  const std::string flags = field("/proc/cpuinfo", "flags", ':'), features = field("/proc/cpuinfo", "Features", ':');
  const std::string padded = " " + flags + " " + features + " ";
  Json list = Json::array();
  for (const char* name : relevant)
    if (padded.find(" " + std::string(name) + " ") != std::string::npos) list.push_back(name);
  return list;
}

/// With family and model: a virtual machine's "AMD EPYC" can be any of them.
std::string cpu_name() {
  std::string name = field("/proc/cpuinfo", "model name", ':');
  const std::string family = field("/proc/cpuinfo", "cpu family", ':'), model = field("/proc/cpuinfo", "model", ':');
  if (!name.empty() && !family.empty() && !model.empty()) name += ", family " + family + " model " + model;
  utsname system{};
  if (name.empty() && ::uname(&system) == 0) name = system.machine;
  return or_unknown(name);
}

std::string os_name() {
  utsname system{};
  if (::uname(&system) != 0) return "unknown";
  const std::string distribution = field("/etc/os-release", "PRETTY_NAME", '=');
  return (distribution.empty() ? "" : distribution + ", ") + system.sysname + " " + system.release + " " +
         system.machine;
}

std::string now_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

Json backend_list(std::span<const Device* const> used) {
  std::vector<const Device*> all(devices().begin(), devices().end());
  for (const Device* device : used)
    if (std::find(all.begin(), all.end(), device) == all.end()) all.push_back(device);
  Json list = Json::array();
  for (const Device* device : all) {
    const Support here = device->available();
    Json entry = Json::object();
    entry["name"] = device->name();
    entry["description"] = device->description();
    entry["available"] = here.yes;
    entry["reason"] = here.yes ? Json() : Json(here.reason);
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace

Json describe_environment(int threads, const std::string& command, std::span<const Device* const> used) {
  Json json = Json::object();
  json["version"] = build::version;
  json["revision"] = build::revision;
  json["dirty"] = build::revision == std::string_view("unknown") ? Json() : Json(build::dirty);
  json["compiler"] = compiler;
  json["flags"] = build::flags;
  json["build_type"] = or_unknown(std::string(build::type));
  json["cpu"] = cpu_name();
  json["cpu_features"] = cpu_features();
  json["os"] = os_name();
  json["cores"] = std::thread::hardware_concurrency();
  json["threads"] = threads;
  json["backends"] = backend_list(used);
  json["date"] = now_utc();
  json["command"] = command;
  return json;
}

std::string microcode() {
  const std::string revision = field("/proc/cpuinfo", "microcode", ':');
  return revision.empty() ? "unknown" : "microcode " + revision;
}

std::string_view program_version() { return build::version; }

BuildFacts build_facts() { return {compiler, build::flags, build::type}; }

std::string version_text() {
  return fmt::format("{} (git {}{})", build::version, build::revision, build::dirty ? ", modified" : "");
}

}  // namespace halfulp
