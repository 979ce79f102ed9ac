// Folders that come with halfulp: recordings, the Python package that draws pages.
#pragma once

#include <filesystem>

namespace halfulp {

/// Where one of our folders may be. Relative paths.
struct OwnFolder {
  std::filesystem::path in_package;  ///< from the Python package's own folder, for those who installed a wheel
  std::filesystem::path in_prefix;   ///< from the parent of bin/, for those who installed the program
  std::filesystem::path in_source;   ///< from the source tree, for those who run what they built
};

/// The first of these that exists, in that order; empty if none does. A build tree has a link `source` to its source
/// tree, so that no path of the machine is built in, and what is installed depends on no source tree.
std::filesystem::path find_own(const OwnFolder& folder);

}  // namespace halfulp
