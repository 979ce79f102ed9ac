// Runs of the experiment "attribution": matrices from files, refusals, the report.
#include "experiment_run.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <fstream>

namespace halfulp::attribution {
namespace attribution_report_test {

/// A small configuration, except for what is set.
std::vector<std::string> small(std::vector<std::string> settings) {
  settings.insert(settings.begin(), {"rows=2", "columns=2", "terms=64", "lengths=64", "outliers=1"});
  return settings;
}
Json report_of(const std::vector<std::string>& settings) { return tests::report_of("attribution", small(settings)); }
std::string refused(const std::vector<std::string>& settings) {
  return tests::refusal_of("attribution", small(settings));
}

/// A float64 matrix as NumPy writes it.
std::string npy(const std::string& name, const std::string& shape, const std::vector<double>& values) {
  std::string header = "{'descr': '<f8', 'fortran_order': False, 'shape': " + shape + ", }";
  header.resize(118, ' ');
  header.back() = '\n';
  const std::string path = ::testing::TempDir() + "attribution_" + name + ".npy";
  std::ofstream file(path, std::ios::binary);
  file << "\x93NUMPY" << '\x01' << '\x00' << static_cast<char>(header.size()) << '\x00' << header;
  file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * 8));
  return path;
}

TEST(AttributionReport, reads_matrices) {
  const std::string a = npy("a", "(2, 3)", {1, 2, 3, 4, 5, 6}), b = npy("b", "(3, 2)", {1, 0, 0, 1, 1, 1}),
                    row = npy("row", "(6,)", {1, 2, 3, 4, 5, 6});
  const std::string nan = npy("nan", "(1, 3)", {1, std::nan(""), 2}), empty = npy("empty", "(0, 3)", {});
  const Json report = report_of({"a=" + a, "b=" + b, "formats=fp16", "accumulators=exact", "output=none"});
  EXPECT_EQ(report["status"], "pass");
  for (const Json& row_of : report["results"]["sources"]["rows"]) EXPECT_EQ(row_of[3], 0.0) << row_of;
  EXPECT_EQ(report["results"]["lengths"]["rows"].size(), 1u) << "the files' own";
  EXPECT_EQ(report["results"]["lengths"]["rows"][0][2], 3);
  EXPECT_EQ(refused({"a=" + a, "b=" + a}),
            "a and b do not multiply: 2 x 3 times 2 x 3; the columns of a are to be the rows of b");
  EXPECT_EQ(refused({"a=" + row}), "a: " + row + " has 1 axes; a matrix has 2");
  EXPECT_EQ(refused({"b=" + empty}), "b: " + empty + " has the shape 0 x 3: it is empty");
  EXPECT_EQ(refused({"a=" + nan}), "a: " + nan + " holds NaN at row 0, column 1; accepted are finite values");
  EXPECT_EQ(refused({"a=" + a, "outlier=10", "outlier_channel=3"}),
            "outlier_channel: a has the channels 0 to 2, not 3");
  EXPECT_EQ(refused({"formats=fp16", "outlier=1e9"}), "A holds values beyond the range of fp16, which has no scale");
  EXPECT_NE(refused({"formats=mxfp9"}).find("did you mean"), std::string::npos);
  EXPECT_NE(refused({"formats=int8-affine"}).find("zero point"), std::string::npos);
  EXPECT_NE(refused({"accumulators=fp17"}).find("accumulators: "), std::string::npos);
  EXPECT_NE(refused({"accumulators=fp16,round=stochastic"}).find("stochastically"), std::string::npos);
  EXPECT_NE(refused({"accumulators=exact@0"}).find("number of products"), std::string::npos);
  EXPECT_NE(refused({"accumulators=blackwell.tcgen05.mxe4m3.fp32"}).find("takes scales itself"), std::string::npos);
  EXPECT_NE(refused({"output=bf17"}).find("or none"), std::string::npos);
  EXPECT_NE(refused({"rows=1024", "columns=1024", "terms=65536"}).find("at most"), std::string::npos);
  for (const std::string& path : {a, b, row, nan, empty}) std::remove(path.c_str());
}

TEST(AttributionReport, units_defined_for_words_alone_have_no_reverse) {
  const Json report = report_of({"formats=e4m3-tensor", "accumulators=hopper.mma.e4m3.fp32", "output=bf16"});
  EXPECT_EQ(report["status"], "pass");
  EXPECT_NE(report["results"]["configurations"]["rows"][0][5], "");
  for (const Json& row : report["results"]["sources"]["rows"])
    if (row[2] == "unit") {
      EXPECT_GT(row[3], 0.0);
      EXPECT_TRUE(row[8].is_null() && row[12].is_null());
    }
  EXPECT_NE(refused({"formats=e4m3-tensor", "accumulators=hopper.mma.e4m3.fp32", "sources=accumulation"}), "accepted");
  EXPECT_NE(refused({"formats=int8", "accumulators=hopper.wgmma.e4m3.fp32"}).find("integers are summed exactly"),
            std::string::npos);
}

}  // namespace attribution_report_test
}  // namespace halfulp::attribution
