// Records: what is written is read back; what is wrong is refused in one line that names the place.
#include <halfulp/support/record.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace halfulp::recorded {
namespace record_test {

enum class Colour : std::uint8_t { red, green, blue };
constexpr std::array<Named<Colour>, 3> colours{
    {{"red", Colour::red}, {"green", Colour::green}, {"blue", Colour::blue}}};

struct Point {
  double x = 0, y = 0;
  bool operator==(const Point&) const = default;
};
template <class V>
void fields(V& v, Point& p) {
  v("x", p.x);
  v("y", p.y, finite);
}

struct Shapes {
  std::string name;
  std::uint64_t count = 0;
  int small = 3;
  std::int8_t tiny = 0;
  bool open = false;
  Colour colour = Colour::red, ink = Colour::red;
  std::optional<Point> centre = {};
  std::vector<Point> points = {};
  std::optional<bool> filled = {};
  bool operator==(const Shapes&) const = default;
};
template <class V>
void fields(V& v, Shapes& s) {
  v("name", s.name);
  v("count", s.count);
  v("small", s.small, whole(1, 9), optional);
  v("tiny", s.tiny, otherwise(s.small * 2));
  v("open", s.open, unless(s.open, false));
  v("colour", s.colour, numbered_to(Colour::blue));
  v("ink", s.ink, chosen_from(colours), unless(s.ink, Colour::red));
  v("centre", s.centre);
  if (!s.centre) return;
  v("points", s.points);
  v("filled", s.filled, if_given(Truth{}), optional_if(s.filled.has_value()));
}

const char* const some = R"({"name": "a", "count": 4, "tiny": -3, "colour": 2, "ink": "green",
                             "centre": {"x": "NaN", "y": 1}, "points": [{"x": 1, "y": 2}, {"x": "-Infinity", "y": 4}]})";

std::string refused(const std::string& text, const std::string& where = "file") {
  try {
    record_of<Shapes>(parse_json(text, "test"), where);
    return "accepted";
  } catch (const std::invalid_argument& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
}
/// `some` with a member changed.
std::string changed(const char* pointer, const Json& value) {
  Json json = parse_json(some, "test");
  json[Json::json_pointer(pointer)] = value;
  return refused(json.dump());
}

TEST(Records, AreReadBack) {
  const Json json = parse_json(some, "test");
  const Shapes s = record_of<Shapes>(json, "file");
  EXPECT_EQ(s.small, 3);
  EXPECT_EQ(s.tiny, -3);
  EXPECT_EQ(s.ink, Colour::green);
  EXPECT_TRUE(std::isnan(s.centre->x));
  EXPECT_EQ(s.points[1], (Point{-std::numeric_limits<double>::infinity(), 4}));
  EXPECT_FALSE(s.filled);
  const Json written = record_json(s);
  EXPECT_EQ(written.dump(),
            R"({"name":"a","count":4,"small":3,"tiny":-3,"colour":2,"ink":"green","centre":{"x":"NaN","y":1.0},)"
            R"("points":[{"x":1.0,"y":2.0},{"x":"-Infinity","y":4.0}]})");
  EXPECT_EQ(record_json(record_of<Shapes>(written, "again")), written);
  EXPECT_EQ(
      record_of<Shapes>(parse_json(R"({"name": "", "count": 0, "small": 9, "colour": 0, "centre": null})", ""), "")
          .tiny,
      18);
}

TEST(Records, LieInListsToo) {
  Shapes s = record_of<Shapes>(parse_json(some, "test"), "file");
  s.filled = true;
  const Json list = record_json<RecordLayout::list>(s);
  EXPECT_EQ(list.dump(), R"(["a",4,3,-3,false,2,"green",["NaN",1.0],[[1.0,2.0],["-Infinity",4.0]],true])");
  EXPECT_EQ(record_json<RecordLayout::list>(record_of<Shapes, RecordLayout::list>(list, "again")), list);
  const auto refusal = [&](auto change) -> std::string {
    Json other = list;
    change(other);
    try {
      record_of<Shapes, RecordLayout::list>(other, "list");
      return "accepted";
    } catch (const std::invalid_argument& error) { return error.what(); }
  };
  EXPECT_EQ(refusal([](Json& j) { j.push_back(1); }),
            "list has 11 values; accepted: 10, name, count, small, tiny, open, colour, ink, centre, points, filled");
  EXPECT_EQ(refusal([](Json& j) { j[8][1].erase(0); }), "list.points[1] has 1 values; accepted: 2, x, y");
  EXPECT_EQ(refusal([](Json& j) { j[8][1] = 7; }), "list.points[1] is 7; accepted: a list");
  EXPECT_EQ(refusal([](Json& j) { j[5] = 3; }), "list.colour is 3; accepted: an integer from 0 to 2");
  EXPECT_EQ(refusal([](Json& j) { j = Json::object(); }), "list is {}; accepted: a list");
}

struct Box {
  std::array<Point, 2> corners = {};
  std::array<bool, 3> sides = {};
  bool operator==(const Box&) const = default;
};
template <class V>
void fields(V& v, Box& b) {
  v("corners", b.corners);
  v("sides", b.sides);
}

TEST(Records, HoldArraysOfTheirLength) {
  const Box box{{{{1, 2}, {3, 4}}}, {true, false, true}};
  const Json list = record_json<RecordLayout::list>(box);
  EXPECT_EQ(list.dump(), "[[[1.0,2.0],[3.0,4.0]],[true,false,true]]");
  EXPECT_EQ((record_of<Box, RecordLayout::list>(list, "box")), box);
  EXPECT_EQ(record_of<Box>(record_json(box), "box"), box);
  for (const char* const text : {"[[[1,2]],[true,false,true]]", "[[[1,2],[3,4],[5,6]],[true,false,true]]"}) {
    try {
      record_of<Box, RecordLayout::list>(parse_json(text, "test"), "box");
      ADD_FAILURE() << "accepted: " << text;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find("accepted: a list of 2"), std::string::npos) << error.what();
    }
  }
}

TEST(Records, RefuseWithThePlace) {
  EXPECT_EQ(refused(some), "accepted");
  EXPECT_EQ(refused("[]"), "file is []; accepted: an object");
  EXPECT_EQ(refused("[]", ""), "the top is []; accepted: an object");
  EXPECT_EQ(refused("{}"), "file: name is missing");
  EXPECT_EQ(refused("{}", ""), "name is missing");
  EXPECT_EQ(refused(R"({"name": 1})", ""), "name is 1; accepted: text in quotes");
  EXPECT_EQ(changed("/colour", 3), "file.colour is 3; accepted: an integer from 0 to 2");
  for (const Json& bad : {Json(-1), Json(1.0), Json("red"), Json(), Json(true), Json(std::uint64_t{1} << 63),
                          Json(std::numeric_limits<std::int64_t>::min())})
    EXPECT_EQ(changed("/colour", bad), "file.colour is " + bad.dump() + "; accepted: an integer from 0 to 2");
  EXPECT_EQ(changed("/count", std::uint64_t{1} << 63),
            "file.count is 9223372036854775808; accepted: an integer from 0 to 9007199254740992");
  EXPECT_EQ(changed("/count", -1), "file.count is -1; accepted: an integer from 0 to 9007199254740992");
  EXPECT_EQ(changed("/tiny", 128), "file.tiny is 128; accepted: an integer from -128 to 127");
  EXPECT_EQ(changed("/small", 0), "file.small is 0; accepted: an integer from 1 to 9");
  EXPECT_EQ(changed("/small", nullptr), "file.small is null; accepted: an integer from 1 to 9");
  EXPECT_EQ(changed("/open", 1), "file.open is 1; accepted: true or false");
  EXPECT_EQ(changed("/ink", "grean"), "file: unknown ink 'grean'; did you mean green? accepted: red, green, blue");
  EXPECT_EQ(changed("/ink", 1), "file.ink is 1; accepted: text in quotes");
  EXPECT_EQ(changed("/centre", 1), "file.centre is 1; accepted: an object");
  EXPECT_EQ(changed("/centre/x", "1"),
            "file.centre.x is \"1\"; accepted: a number, \"NaN\", \"Infinity\" or \"-Infinity\"");
  EXPECT_EQ(changed("/centre/y", "NaN"), "file.centre.y is \"NaN\"; accepted: a number");
  EXPECT_EQ(changed("/points", Json::object()), "file.points is {}; accepted: a list");
  EXPECT_EQ(changed("/points/1/z", 1), "file.points[1]: unknown member 'z'; did you mean x? accepted: x, y");
  EXPECT_EQ(changed("/filled", nullptr), "file.filled is null; accepted: true or false");
  EXPECT_EQ(refused(R"({"name": "", "count": 0, "colour": 0, "centre": null, "points": []})"),
            "file: unknown member 'points'; accepted: name, count, small, tiny, open, colour, ink, centre");
}

TEST(Records, SayTheirFields) {
  Shapes s;
  s.centre.emplace();
  const auto all = fields_of(s);
  ASSERT_EQ(all.size(), 10u);
  EXPECT_EQ(all[1].name, "count");
  EXPECT_EQ(all[1].accepted, "an integer from 0 to 9007199254740992");
  EXPECT_TRUE(all[1].needed);
  EXPECT_FALSE(all[2].needed);
  EXPECT_EQ(all[6].accepted, "red, green, blue");
  EXPECT_FALSE(all[6].written) << "it has its default";
  EXPECT_EQ(all[8].accepted, "a list, each an object");
  EXPECT_EQ(fields_of<Shapes>().size(), 8u) << "fields may depend on what earlier ones hold";
}

/// parse_json gives what the library's own parser gives, and an object of many members takes no longer than a list.
TEST(ParseJson, BuildsWhatTheLibraryBuilds) {
  for (const char* text :
       {"7", "\"s\"", "null", "[]", "{}",
        "[1, -2, 2.5, 1e300, \"x\", null, true, {\"b\": [], \"a\": {\"c\": [[]]}}, 18446744073709551615]"})
    EXPECT_EQ(parse_json(text, "t").dump(), Json::parse(text).dump()) << text;
  std::string many = "{";
  for (int i = 0; i < 200'000; ++i) many += (i ? ",\"k" : "\"k") + std::to_string(i) + "\":[" + std::to_string(i) + "]";
  const Json json = parse_json(many + "}", "t");  // half a minute, if each member were looked up among the others
  ASSERT_EQ(json.size(), 200'000u);
  EXPECT_EQ(json.rbegin().key(), "k199999");
  EXPECT_EQ(json.rbegin()->dump(), "[199999]");
}

}  // namespace record_test
}  // namespace halfulp::recorded
