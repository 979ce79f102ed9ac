#include <halfulp/support/own_files.hpp>

#include <dlfcn.h>

#include <system_error>

namespace halfulp {

namespace fs = std::filesystem;

fs::path find_own(const OwnFolder& folder) {
  std::error_code error;
  Dl_info here{};  // the Python module, or the program
  fs::path module;
  if (::dladdr(reinterpret_cast<const void*>(&find_own), &here) != 0) module = fs::path(here.dli_fname).parent_path();
  const fs::path prefix = fs::read_symlink("/proc/self/exe", error).parent_path().parent_path();
  for (const fs::path& place : {module / folder.in_package, prefix / folder.in_prefix,
                                prefix / "source" / folder.in_source, module / "../../source" / folder.in_source})
    if (fs::is_directory(place, error)) return fs::absolute(place, error).lexically_normal();
  return {};
}

}  // namespace halfulp
