// Reading what may keep its reader waiting: pipes and terminals, with Ctrl-C noticed while nothing comes.
#pragma once

#include <istream>
#include <memory>
#include <string>

namespace halfulp {

/// A pipe, terminal or device as a stream without positions (tellg gives -1). Opening it does not wait for a writer;
/// reading waits, and throws Interrupted after Ctrl-C. Throws std::invalid_argument in one line that begins with the path
/// where it cannot be opened or read.
std::unique_ptr<std::istream> open_interruptible(const std::string& path);

}  // namespace halfulp
