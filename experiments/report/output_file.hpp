// Files that are there whole or not at all.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace halfulp {

/// Throws std::invalid_argument with one line if a file at `path` could not be written now (no such directory, no
/// permission, a directory in its place, links that lead in a circle). Leaves nothing behind.
void check_writable(const std::string& path);

/// What a path leads to: of a link its target, be it there or not, since links stay and their targets are written. Devices keep
/// their name. Throws std::invalid_argument for links that lead in a circle.
std::filesystem::path written_path(const std::string& path);

/// Writes `text` to `path`: into a temporary file beside it, renamed into place once it is complete. A path that is not a
/// regular file (a device, a pipe) is written directly; of a link the target is written, even if it is not there yet. Throws std::invalid_argument with one line (a full disk, ...); the
/// file that was there before is then untouched.
void write_file(const std::string& path, std::string_view text);

/// A path, and what is to be there.
using FileText = std::pair<std::string, std::string>;

/// Writes several files, or none: all are complete beside their places before the first is renamed into its own, and where one
/// cannot be, those before it are as they were. (Devices are written before that, and keep what they were given.)
void write_files(const std::vector<FileText>& files);

}  // namespace halfulp
