// Where and how a report was made: all that may differ between two machines that agree.
#pragma once

#include <halfulp/report/config.hpp>
#include <halfulp/hardware/device.hpp>

#include <span>
#include <string>
#include <string_view>

namespace halfulp {

/// Version, revision, compiler, flags, processor, operating system, backends, threads, date, command line.
/// What cannot be found out is "unknown"; `dirty` is null without a repository. `used` are backends of the run: those
/// that are no backends() of the build, recordings, are described beside them.
Json describe_environment(int threads, const std::string& command, std::span<const Device* const> used = {});

/// "microcode 0x1000065", or "unknown".
std::string microcode();

/// "0.1.0".
std::string_view program_version();

/// How this program was compiled: "gcc 12.2.0", "-O3 -ffp-contract=off", "Release".
struct BuildFacts {
  std::string_view compiler, flags, type;
};
BuildFacts build_facts();

/// "0.1.0 (git 1a2b3c4, modified)", for --version.
std::string version_text();

}  // namespace halfulp
