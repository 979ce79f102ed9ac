// FOLDER_tests [NAME] [Google Test's options]: runs the tests of NAME_test.cpp, or all tests of the folder. So a folder
// is compiled and linked once, and each file is still a test of its own in CTest.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace {

/// Narrows Google Test's filter to the tests of one file. Returns how many it has.
int only_of(const std::string& file) {
  const testing::UnitTest& unit = *testing::UnitTest::GetInstance();
  std::string filter = GTEST_FLAG_GET(filter);
  char separator = filter.find('-') == std::string::npos ? '-' : ':';
  const auto leave_out = [&](std::string tests) {
    filter += separator + std::move(tests);
    separator = ':';
  };
  int kept = 0;
  for (int i = 0; i < unit.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *unit.GetTestSuite(i);
    const int before = kept;
    std::vector<std::string> others;
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const testing::TestInfo& test = *suite.GetTestInfo(j);
      if (std::filesystem::path(test.file()).filename() == file) ++kept;
      else others.push_back(std::string(suite.name()) + '.' + test.name());
    }
    if (kept == before) leave_out(std::string(suite.name()) + ".*");
    else
      for (std::string& other : others) leave_out(std::move(other));
  }
  GTEST_FLAG_SET(filter, filter);
  return kept;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc > 2 || (argc == 2 && only_of(argv[1] + std::string("_test.cpp")) == 0)) {
    std::fprintf(
        stderr,
        "%s: no tests in '%s_test.cpp'; accepted: the name of a file of this folder, and Google Test's options\n",
        argv[0], argv[1]);
    return 2;
  }
  return RUN_ALL_TESTS();
}
