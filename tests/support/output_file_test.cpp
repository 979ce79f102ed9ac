// Files are written whole or not at all: replaced, refused, on full disks, behind links.
#include <halfulp/support/files.hpp>

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace halfulp {
namespace output_file_test {

class OutputFile : public testing::Test {
 protected:
  OutputFile() { std::filesystem::create_directory(folder); }
  ~OutputFile() override { std::filesystem::remove_all(folder); }
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()));
  }
  static std::string content(const std::filesystem::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) /
                                       ("halfulp-output-" + std::to_string(::getpid()));
};

TEST_F(OutputFile, is_replaced_whole_and_leaves_nothing_beside) {
  const std::string path = folder / "report.json";
  check_writable(path);
  EXPECT_EQ(files(), 0u);
  write_file(path, "one");
  write_file(path, "two");
  EXPECT_EQ(content(path), "two");
  EXPECT_EQ(files(), 1u);
}

TEST_F(OutputFile, errors_are_exceptions_that_name_the_file) {
  for (const std::string& path :
       {(folder / "missing" / "report.json").string(), folder.string(), std::string("/proc/report.json")}) {
    EXPECT_THROW(check_writable(path), std::invalid_argument) << path;
    EXPECT_THROW(write_file(path, "text"), std::invalid_argument) << path;
  }
  EXPECT_EQ(files(), 0u);
}

TEST_F(OutputFile, a_full_disk_is_an_error_and_a_device_stays_a_device) {
  if (!std::filesystem::is_character_file("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  EXPECT_THROW(write_file("/dev/full", "text"), std::invalid_argument);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
  write_file("/dev/null", "text");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

/// A limit on file sizes imitates a disk that fills up in the middle of the text.
TEST_F(OutputFile, a_disk_that_fills_up_leaves_the_old_file_and_no_other) {
  const std::string path = folder / "report.json";
  write_file(path, "old");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{100, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_THROW(write_file(path, std::string(1000, 'x')), std::invalid_argument);
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(content(path), "old");
  EXPECT_EQ(files(), 1u);
}

TEST_F(OutputFile, keeps_the_permissions_of_the_one_before) {
  const std::string path = folder / "report.json";
  write_file(path, "old");
  std::filesystem::permissions(path, std::filesystem::perms{0640});
  write_file(path, "new");
  write_files({{path, "newer"}});
  LargeFile(path, 4).place();
  EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms{0640});
}

/// Nobody, if the tests run as root, whom no permission stops.
class Nobody {
 public:
  Nobody() {
    if (::geteuid() == 0) changed_ = ::seteuid(65534) == 0;
  }
  ~Nobody() {
    if (changed_ && ::seteuid(0) != 0) std::abort();
  }

 private:
  bool changed_ = false;
};

TEST_F(OutputFile, a_file_that_must_not_be_written_is_not_replaced) {
  const std::string path = folder / "report.json";
  write_file(path, "old");
  std::filesystem::permissions(path, std::filesystem::perms{0444});
  std::filesystem::permissions(folder, std::filesystem::perms{0777});
  {
    const Nobody nobody;
    if (::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0) GTEST_SKIP() << "no permission stops this user";
    EXPECT_THROW(check_writable(path), std::invalid_argument);
    EXPECT_THROW(write_file(path, "new"), std::invalid_argument);
    EXPECT_THROW(LargeFile(path, 4), std::invalid_argument);
  }
  EXPECT_EQ(content(path), "old");
  EXPECT_EQ(files(), 1u);
}

TEST_F(OutputFile, another_users_link_in_a_folder_for_all_is_not_followed) {
  int protects = 0;
  std::ifstream("/proc/sys/fs/protected_symlinks") >> protects;
  if (protects != 1 || ::geteuid() != 0) GTEST_SKIP() << "needs root and fs.protected_symlinks";
  const std::filesystem::path target = folder / "target", all = folder / "all", link = all / "report.json";
  write_file(target, "old");
  std::filesystem::create_directory(all);
  std::filesystem::permissions(all, std::filesystem::perms{01777});
  std::filesystem::create_symlink(target, link);
  ASSERT_EQ(::lchown(link.c_str(), 65534, 65534), 0);
  EXPECT_THROW(check_writable(link), std::invalid_argument);
  EXPECT_THROW(write_file(link, "new"), std::invalid_argument);
  EXPECT_EQ(content(target), "old");
}

TEST_F(OutputFile, several_are_written_or_none) {
  const std::string one = folder / "one", two = folder / "two";
  write_file(one, "old");
  EXPECT_THROW(write_files({{one, "new"}, {two, "new"}, {folder / "missing" / "three", "new"}}), std::invalid_argument);
  if (std::filesystem::is_character_file("/dev/full")) {
    EXPECT_THROW(write_files({{one, "new"}, {two, "new"}, {"/dev/full", "new"}}), std::invalid_argument);
  }
  EXPECT_EQ(content(one), "old");
  EXPECT_EQ(files(), 1u);
  write_files({{one, "first"}, {two, "second"}, {"/dev/null", "third"}});
  EXPECT_EQ(content(one), "first");
  EXPECT_EQ(content(two), "second");
  EXPECT_EQ(files(), 2u);
}

TEST_F(OutputFile, a_link_keeps_pointing_to_the_file_that_is_replaced) {
  write_file(folder / "target", "one");
  std::filesystem::create_symlink(folder / "target", folder / "link");
  write_file(folder / "link", "two");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(content(folder / "target"), "two");
}

TEST_F(OutputFile, a_link_to_nothing_makes_its_target) {
  std::filesystem::create_directory(folder / "elsewhere");
  std::filesystem::create_symlink("elsewhere/target", folder / "hop");  // relative to the folder of the link
  std::filesystem::create_symlink(folder / "hop", folder / "link");
  check_writable(folder / "link");
  EXPECT_FALSE(std::filesystem::exists(folder / "elsewhere" / "target"));
  write_file(folder / "link", "text");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "hop"));
  EXPECT_EQ(content(folder / "elsewhere" / "target"), "text");
}

TEST_F(OutputFile, links_in_a_circle_are_refused_and_stay) {
  std::filesystem::create_symlink("second", folder / "first");
  std::filesystem::create_symlink("first", folder / "second");
  EXPECT_THROW(check_writable(folder / "first"), std::invalid_argument);
  EXPECT_THROW(write_file(folder / "first", "text"), std::invalid_argument);
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "first"));
  EXPECT_EQ(files(), 2u);
}

}  // namespace output_file_test
}  // namespace halfulp
