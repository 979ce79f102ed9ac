// Opening a file that a user named.
#pragma once

#include <istream>
#include <memory>
#include <string>
#include <string_view>

namespace halfulp {

/// The file, pipe or device of that path, in bytes; what may keep its reader waiting is read by open_interruptible. Throws
/// std::invalid_argument in one line that begins with the path. `kind` is what it should be: "a .npy file".
std::unique_ptr<std::istream> open_input(const std::string& path, const std::string& kind);

/// Text of a file fit for one line of a message: at most 40 characters, '?' for what cannot be printed.
std::string printable(std::string_view text);

}  // namespace halfulp
