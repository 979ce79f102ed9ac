# Runs at each build (cmake -P): writes OUTPUT, a header that says what this build is made of. The file changes only
# with its content, so nothing is recompiled needlessly. Without git, or from a tarball, the revision is "unknown".
set(revision unknown)
set(dirty false)
find_program(GIT git)
if(GIT)
  # A tarball unpacked inside another repository must not take that repository's revision.
  execute_process(COMMAND ${GIT} rev-parse --show-toplevel WORKING_DIRECTORY ${SOURCE}
    OUTPUT_VARIABLE top OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  file(REAL_PATH "${SOURCE}" source)
  if(top STREQUAL source)
    execute_process(COMMAND ${GIT} rev-parse --short=12 HEAD WORKING_DIRECTORY ${SOURCE}
      OUTPUT_VARIABLE head RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(NOT failed)
      set(revision ${head})
      execute_process(COMMAND ${GIT} status --porcelain --untracked-files=normal WORKING_DIRECTORY ${SOURCE}
        OUTPUT_VARIABLE changes ERROR_QUIET)
      if(changes)
        set(dirty true)
      endif()
    endif()
  endif()
endif()
file(CONFIGURE OUTPUT "${OUTPUT}" @ONLY CONTENT [[
// Made by cmake/revision.cmake.
#pragma once

namespace halfulp::build {
inline constexpr const char* version = "@VERSION@";
inline constexpr const char* revision = "@revision@";
inline constexpr bool dirty = @dirty@;
inline constexpr const char* flags = "@FLAGS@";
inline constexpr const char* type = "@TYPE@";
}  // namespace halfulp::build
]])
