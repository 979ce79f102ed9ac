// Files in which runs keep what they did: regular files, written by one run at a time.
#pragma once

#include <string>

namespace halfulp::cli {

/// Throws std::invalid_argument with one line unless `path` is a regular file, or nothing yet, that can be written: a pipe or a
/// device keeps nothing. `option` is what the user gave it to.
void check_kept_file(const std::string& option, const std::string& path);

/// Whether two paths lead to one file, be it there or not.
bool same_file(const std::string& a, const std::string& b);

/// The right to a file, against every other process that asks for it: a lock on an empty file beside it, ".NAME.lock", which is
/// removed with it. What a killed process leaves of it locks nothing.
class FileLock {
 public:
  enum class IfTaken { wait, refuse };
  /// Throws std::invalid_argument with one line if the file is another's and one does not want to wait.
  FileLock(const std::string& path, IfTaken if_taken);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  std::string lock_;
  int fd_ = -1;
};

}  // namespace halfulp::cli
