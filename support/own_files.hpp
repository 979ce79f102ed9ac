// Folders that come with halfulp: recordings, the Python package that draws pages.
#pragma once

#include <filesystem>

namespace halfulp {

/// Where one of our folders may be, besides the source tree. Relative paths.
struct OwnFolder {
  std::filesystem::path in_package;  ///< from the Python package's own folder, for those who installed a wheel
  std::filesystem::path in_prefix;   ///< from the parent of bin/, for those who installed the program
  std::filesystem::path in_source;   ///< of the tree this was built from, absolute
};

/// The first of these that exists, in that order: what is installed never depends on a source tree that is still there.
/// Empty if none does.
std::filesystem::path find_own(const OwnFolder& folder);

}  // namespace halfulp
