// Settings of an experiment: what users may type, and what is refused in one line.
#include <halfulp/report/config.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

namespace halfulp {
namespace config_test {

using Type = ParameterType;

std::vector<Parameter> parameters() {
  return {
      {"steps", Type::integer, "100", "how many", 1, 1e6},
      {"rate", Type::real, "0.5", "how fast", 0, 1},
      {"fused", Type::boolean, "false", "fused or not"},
      {"label", Type::text, "", "a name"},
      {"input", Type::path, "", "a file"},
      {"order", Type::choice, "pairwise", "which order", 0, 0, {"sequential", "pairwise"}},
      {"formats", Type::formats, "fp16,bf16", "which formats"},
      {"modes", Type::roundings, "nearest-even", "which modes"},
      {"lengths", Type::integers, "1,10,100", "which lengths", 1, 1000},
      {"scales", Type::reals, "0.5,2", "which scales"},
      {"orders", Type::choices, "sequential", "which orders", 0, 0, {"sequential", "pairwise"}},
  };
}

/// The message of a refused assignment. Fails the test if the assignment is accepted or the message has several lines.
template <class T>
std::string refused(const T& input) {
  Config config(parameters());
  const Json before = config.to_json();
  try {
    config.set(input);
  } catch (const std::invalid_argument& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_EQ(config.to_json(), before) << "a refused value was taken: " << message;
    return message;
  }
  ADD_FAILURE() << "accepted: " << Json(input).dump(-1, ' ', false, Json::error_handler_t::replace);
  return {};
}

/// The message contains both words.
void expect_refused(const char* assignment, const char* one, const char* other) {
  const std::string message = refused(assignment);
  EXPECT_NE(message.find(one), std::string::npos) << message;
  EXPECT_NE(message.find(other), std::string::npos) << message;
}

TEST(Config, defaults_and_getters) {
  const Config config(parameters());
  EXPECT_EQ(config.integer("steps"), 100);
  EXPECT_EQ(config.real("rate"), 0.5);
  EXPECT_FALSE(config.boolean("fused"));
  EXPECT_EQ(config.text("order"), "pairwise");
  ASSERT_EQ(config.formats("formats").size(), 2u);
  EXPECT_EQ(config.formats("formats")[1].format, bf16);
  EXPECT_EQ(config.roundings("modes"), std::vector{RoundingMode::nearest_even});
  EXPECT_EQ(config.integers("lengths"), (std::vector<std::int64_t>{1, 10, 100}));
  EXPECT_EQ(config.reals("scales"), (std::vector{0.5, 2.0}));
  EXPECT_EQ(config.choices("orders"), std::vector<std::string>{"sequential"});
}

TEST(Config, reads_short_names_of_modes) {
  Config config(parameters());
  config.set("modes=rtz,SR");
  EXPECT_EQ(config.roundings("modes"), (std::vector{RoundingMode::toward_zero, RoundingMode::stochastic}));
  EXPECT_EQ(config.to_json()["modes"], Json({"toward-zero", "stochastic"})) << "reports have the names";
  EXPECT_THROW(config.set("modes=rtz,toward-zero"), std::invalid_argument) << "the same twice";
}

TEST(Config, accepts_what_people_write) {
  Config config(parameters());
  for (const char* assignment :
       {"steps=1e6", "rate=1", "fused=true", "label=a, b=c", "formats= e5m3 , FP16", "modes=to-odd,stochastic",
        "lengths=1e3", "scales=-1e-300,0", "orders=pairwise,sequential"})
    EXPECT_NO_THROW(config.set(assignment)) << assignment;
  EXPECT_EQ(config.integer("steps"), 1'000'000);
  EXPECT_EQ(config.text("label"), "a, b=c");
  EXPECT_EQ(config.formats("formats")[0].format, (FloatFormat{5, 3, 15, NonFinite::ieee}));
}

TEST(Config, unknown_names_get_the_nearest) {
  expect_refused("step=3", "did you mean steps", "accepted");
  expect_refused("formats=fp61", "fp16", "formats");
  expect_refused("modes=to-od", "to-odd", "modes");
  expect_refused("order=pairwize", "pairwise", "order");
  expect_refused("orders=sequential,pair wise", "pairwise", "orders");
}

TEST(Config, refuses_numbers_that_are_none) {
  for (const char* value :
       {"", " ", "1x", "0x10", "1.5", "1e-3", "nan", "inf", "1e999", "9223372036854775808", "--1", "1 2", "+"})
    expect_refused(("steps=" + std::string(value)).c_str(), "steps", "an integer from 1 to 1000000");
  for (const char* value : {"", "x", "nan", "NaN", "inf", "-inf", "1e999", "0.5.5", "0,5", "0.5f"})
    expect_refused(("rate=" + std::string(value)).c_str(), "rate", "a number from 0 to 1");
  for (const char* value : {"", "1", "True", "yes"})
    expect_refused(("fused=" + std::string(value)).c_str(), "fused", "true or false");
}

TEST(Config, ranges_are_inclusive) {
  Config config(parameters());
  for (const char* good : {"steps=1", "steps=1000000", "rate=0", "rate=1", "lengths=1,1000"})
    EXPECT_NO_THROW(config.set(good)) << good;
  for (const char* bad :
       {"steps=0", "steps=1000001", "rate=-1e-300", "rate=1.0000000000000002", "lengths=1,1001", "lengths=0"})
    expect_refused(bad, "out of range", "accepted");
}

TEST(Config, integers_are_compared_as_integers) {
  const auto config = [](double minimum, double maximum) {
    return Config({{"n", Type::integer, "0", "", minimum, maximum}});
  };
  for (const char* bad : {"n=9007199254740992", "n=9007199254740993", "n=-9007199254740993", "n=9007199254740993.0",
                          "n=1e16", "n=9223372036854775807"})
    EXPECT_THROW(config(-0x1p53, 0x1p53 - 1).set(bad), std::invalid_argument) << bad;
  EXPECT_THROW(config(0, 0x1p53).set("n=9007199254740993"), std::invalid_argument);
  for (const char* good : {"n=9007199254740991", "n=-9007199254740992"})
    EXPECT_NO_THROW(config(-0x1p53, 0x1p53 - 1).set(good)) << good;
  const double none = std::numeric_limits<double>::infinity();
  for (const char* good : {"n=9223372036854775807", "n=-9223372036854775808"})
    EXPECT_NO_THROW(config(-none, none).set(good)) << good;
  EXPECT_NO_THROW(config(-0x1p63, 0x1p63).set("n=9223372036854775807"));
}

TEST(Config, long_decimals_round_once) {
  Config config(parameters());
  config.set("rate=0." + std::string(5'000, '3'));
  EXPECT_EQ(config.real("rate"), 1.0 / 3);
  config.set("rate=0.50000000000000005551115123125782702118158340454101562" + std::string("5") +
             std::string(5'000, '0') + "1");
  EXPECT_EQ(config.real("rate"), 0.5 + 0x1p-53);
}

TEST(Config, lists_are_not_empty_and_have_no_repetition) {
  for (const char* name : {"formats=", "modes=", "lengths=", "scales= ", "orders="})
    expect_refused(name, "empty", "accepted");
  for (const char* twice : {"formats=fp16,bf16,fp16", "formats=e4m3,float8_e4m3fn", "modes=to-odd,to-odd",
                            "lengths=10,1,1e1", "scales=1,1.0", "orders=pairwise,pairwise"})
    expect_refused(twice, "there twice", "accepted");
  for (const char* hole : {"formats=fp16,,bf16", "lengths=1,", "scales=,1"}) refused(hole);
}

TEST(Config, an_assignment_needs_a_value) {
  expect_refused("steps", "missing", "steps=VALUE");
  expect_refused("", "unknown parameter", "accepted");
  expect_refused("=1", "unknown parameter", "accepted");
}

TEST(Config, text_is_fit_for_a_report) {
  expect_refused("label=a\nb", "control character", "label");
  expect_refused("input=\xff\xfe", "UTF-8", "input");
}

TEST(Config, json_types_are_strict) {
  for (const char* text : {R"({"steps": "3"})",
                           R"({"steps": 1.5})",
                           R"({"steps": true})",
                           R"({"steps": null})",
                           R"({"steps": [3]})",
                           R"({"steps": 18446744073709551615})",
                           R"({"rate": "0.5"})",
                           R"({"fused": 1})",
                           R"({"fused": "true"})",
                           R"({"label": 3})",
                           R"({"formats": "fp16"})",
                           R"({"formats": [16]})",
                           R"({"formats": []})",
                           R"({"lengths": [1, "2"]})",
                           R"({"lengths": [[1]]})",
                           R"({"lengths": {"a": 1}})",
                           R"({"stepz": 3})",
                           R"([])",
                           R"(3)",
                           R"({"schema_version": 1})",
                           R"({"schema_version": 3, "config": {}})",
                           R"({"schema_version": 0, "config": {}})",
                           R"({"schema_version": 1.5, "config": {}})",
                           R"({"schema_version": "1", "config": {}})",
                           R"({"schema_version": 1, "config": []})",
                           R"({"schema_version": 1, "config": {"schema_version": 1, "config": {}}})"})
    refused(Json::parse(text));
}

TEST(Config, round_trips_through_json_and_reports) {
  Config config(parameters());
  for (const char* assignment :
       {"steps=7", "rate=0.1", "fused=true", "label=x", "formats=tf32", "modes=to-odd", "lengths=3,4", "scales=1e-7"})
    config.set(assignment);
  Config copy(parameters()), from_report(parameters());
  copy.set(parse_json(pretty(config.to_json()), "copy"));
  EXPECT_EQ(copy.to_json(), config.to_json());
  for (const int version : {1, 2}) {
    Json report;
    report["schema_version"] = version;
    report["experiment"] = "toy";
    report["config"] = config.to_json();
    from_report.set(report);
    EXPECT_EQ(from_report.to_json(), config.to_json());
  }
  EXPECT_EQ(config.to_json().size(), parameters().size());
}

TEST(Config, programmer_mistakes_are_logic_errors) {
  const Config config(parameters());
  EXPECT_THROW((void)config.integer("rate"), std::logic_error);
  EXPECT_THROW((void)config.integer("nothing"), std::logic_error);
  EXPECT_THROW(Config({{"n", Type::integer, "0", "", 1, 2}}), std::logic_error);
  EXPECT_THROW(Config({{"n", Type::integer, "1", ""}, {"n", Type::integer, "1", ""}}), std::logic_error);
}

TEST(ConfigFile, errors_name_the_place) {
  const auto message = [](const std::string& text) {
    try {
      (void)parse_json(text, "c.json");
    } catch (const std::invalid_argument& error) { return std::string(error.what()); }
    return std::string("accepted");
  };
  EXPECT_EQ(message("{\n  \"a\": 1,\n  oops\n}").rfind("c.json: not JSON at line 3, column", 0), 0u);
  EXPECT_NE(message("").find("not JSON at line 1"), std::string::npos);
  EXPECT_NE(message(R"({"a": 1, "a": 2})").find("there twice"), std::string::npos);
  EXPECT_EQ(message("{\"rate\": 1,\n \"lr\": [1e999]}"),
            "c.json: a number of member \"lr\" is too large; accepted: what fits a double, up to 1.79e308");
  EXPECT_EQ(message("-1e999"), "c.json: a number is too large; accepted: what fits a double, up to 1.79e308");
  EXPECT_EQ(message(std::string("{\"a\": 1}\n\0", 10)), "c.json: not JSON at line 2, column 1");
  for (const char* behind : {"{\"a\": 1} 2", "{\"a\": 1}}", "{\"a\": 1}\xff", "{\"a\": 1} // no"})
    EXPECT_NE(message(behind).find("not JSON at line 1"), std::string::npos) << behind;
  EXPECT_NE(message(std::string(100'000, '[')).find("nested deeper"), std::string::npos);
  EXPECT_THROW((void)read_json("/nonexistent/file.json"), std::invalid_argument);
  EXPECT_THROW((void)read_json("/"), std::invalid_argument);
}

}  // namespace config_test
}  // namespace halfulp
