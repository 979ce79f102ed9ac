// Records: a struct says its fields once, in a function `fields` in its own namespace. From that it is read out of
// JSON, written to it and described.
//
//   template <class V>
//   void fields(V& v, Spike& s) {
//     v("step", s.step);
//     v("value", s.value, finite);
//     v("cause", s.cause, chosen(causes), optional);
//   }
//
// A field is a name, a member, a rule where the member's type does not say enough, and a presence where the field may
// be absent. Later fields may depend on what earlier ones hold. Every error of reading is std::invalid_argument in one
// line that begins with the place of the value: "run.json.spikes[3].step is -1; accepted: ...".
#pragma once

#include <halfulp/support/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <concepts>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace halfulp {

// Rules: read(value, member) takes a member from JSON or refuses, write(member) gives its JSON, accepted() says in
// words what is taken. A record that is only read needs no write.

/// An integer in a range.
struct Whole {
  std::int64_t least, most;
  template <std::integral T>
  void read(const JsonValue& json, T& x) const {
    x = static_cast<T>(json.integer(least, most));
  }
  template <std::integral T>
  Json write(T x) const {
    return x;
  }
  std::string accepted() const { return "an integer from " + std::to_string(least) + " to " + std::to_string(most); }
};
constexpr Whole whole(std::int64_t least, std::int64_t most) { return {least, most}; }

/// Every integer of a type, as far as all readers of JSON know integers exactly: up to 2^53.
template <std::integral T>
constexpr Whole every_integer() {
  constexpr std::int64_t exact = std::int64_t{1} << 53;
  if constexpr (sizeof(T) >= 8) return {std::is_signed_v<T> ? -exact : 0, exact};
  else return {std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
}

/// A JSON number.
struct Finite {
  void read(const JsonValue& json, double& x) const { x = json.real(); }
  Json write(double x) const { return x; }
  std::string accepted() const { return "a number"; }
};
inline constexpr Finite finite;

/// Any double, as `number` writes it.
struct AnyNumber {
  void read(const JsonValue& json, double& x) const {
    const auto value = number_of(json.json());
    if (!value) json.refuse(accepted());
    x = *value;
  }
  Json write(double x) const { return number(x); }
  std::string accepted() const { return "a number, \"NaN\", \"Infinity\" or \"-Infinity\""; }
};

struct Truth {
  void read(const JsonValue& json, bool& x) const { x = json.boolean(); }
  Json write(bool x) const { return x; }
  std::string accepted() const { return "true or false"; }
};

struct Text {
  void read(const JsonValue& json, std::string& x) const { x = json.text(); }
  Json write(const std::string& x) const { return x; }
  std::string accepted() const { return "text in quotes"; }
};

/// An integer of up to 64 bits, in hexadecimal digits: "3c00".
struct Hexadecimal {
  void read(const JsonValue& json, std::uint64_t& x) const {
    const std::string digits = json.text();
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), x, 16);
    if (error != std::errc{} || end != digits.data() + digits.size()) json.refuse(accepted());
  }
  Json write(std::uint64_t x) const {
    char digits[16];
    return std::string(digits, std::to_chars(digits, digits + sizeof digits, x, 16).ptr);
  }
  std::string accepted() const { return "hexadecimal digits in quotes"; }
};
inline constexpr Hexadecimal hexadecimal;

/// The number of an enumerator.
template <class E>
struct Numbered {
  std::int64_t last;
  void read(const JsonValue& json, E& x) const { x = static_cast<E>(json.integer(0, last)); }
  Json write(E x) const { return static_cast<std::int64_t>(x); }
  std::string accepted() const { return Whole{0, last}.accepted(); }
};
/// Of an enumeration without gaps that ends with `last`.
template <class E>
constexpr Numbered<E> numbered_to(E last) {
  return {static_cast<std::int64_t>(last)};
}

/// One of the names of a table; the error is that of JsonValue::named.
template <class T, std::size_t N>
struct NamedIn {
  const std::array<Named<T>, N>& table;
  void read(const JsonValue& json, T& x) const { x = json.named(table); }
  Json write(T x) const { return name_in(table, x); }
  std::string accepted() const {
    std::string all;
    for (const auto& row : table) all += (all.empty() ? "" : ", ") + std::string(row.name);
    return all;
  }
};
template <class T, std::size_t N>
constexpr NamedIn<T, N> named_in(const std::array<Named<T>, N>& table) {
  return {table};
}

/// The same; the error names the member: "unknown rounding 'up'".
template <class T, std::size_t N>
struct ChosenFrom : NamedIn<T, N> {
  using NamedIn<T, N>::read;  // for lists, whose values have no member names
  void read(const Members& members, std::string_view name, const JsonValue& json, T& x) const {
    x = members.chosen(name, json.text(), this->table);
  }
};
template <class T, std::size_t N>
constexpr ChosenFrom<T, N> chosen_from(const std::array<Named<T>, N>& table) {
  return {{table}};
}

/// Text that one function reads and another writes.
template <class Parse, class Print>
struct Spelled {
  Parse parse;
  Print print;
  std::string_view what;
  template <class T>
  void read(const JsonValue& json, T& x) const {
    x = json.parsed(parse);
  }
  template <class T>
  Json write(const T& x) const {
    return print(x);
  }
  std::string accepted() const { return std::string(what); }
};
template <class Parse, class Print>
constexpr Spelled<Parse, Print> spelled(Parse parse, Print print, std::string_view what) {
  return {parse, print, what};
}

/// A rule of one's own: functions of (value, member) and (member).
template <class Read, class Write>
struct By {
  Read take;
  Write give;
  std::string_view what;
  template <class T>
  void read(const JsonValue& json, T& x) const {
    take(json, x);
  }
  template <class T>
  Json write(const T& x) const {
    return give(x);
  }
  std::string accepted() const { return std::string(what); }
};
template <class Read, class Write>
constexpr By<Read, Write> by(Read read, Write write, std::string_view what) {
  return {read, write, what};
}
/// Of records that are only read.
template <class Read>
constexpr auto by(Read read, std::string_view what) {
  return by(read, [](const auto&) -> Json { return {}; }, what);
}

// Presence: what holds where a field is absent, and whether it is written.

template <class T>
concept IsPresence = requires(const T& p) {
  { p.needed } -> std::convertible_to<bool>;
};

/// Reading refuses a record without the field.
struct Needed {
  bool needed = true, written = true;
};
inline constexpr Needed needed;

/// The member keeps its value.
struct Optional {
  bool needed = false, written = true;
};
inline constexpr Optional optional;
/// The same for fields that only some records have: the others are written without it.
constexpr Optional optional_if(bool written) { return {false, written}; }

/// The member takes this value.
template <class T>
struct Otherwise {
  T value;
  bool needed = false, written = true;
};
template <class T>
constexpr Otherwise<T> otherwise(T value) {
  return {std::move(value)};
}
/// The same; a member with this value is not written.
template <class T>
constexpr Otherwise<T> unless(const T& member, T value) {
  const bool written = member != value;
  return {std::move(value), false, written};
}

// What reads and writes.

/// How a record lies in JSON: as an object, or as the list of its values in order, which takes less room. The records
/// in it lie alike.
enum class RecordLayout : std::uint8_t { object, list };

template <RecordLayout layout>
class FieldReader;
template <RecordLayout layout>
class FieldWriter;
struct FieldLister;

template <class T>
concept Record = requires(T& x, FieldLister& v) { fields(v, x); };

template <RecordLayout layout, class T>
constexpr auto rule_for();

/// A record in a record.
template <RecordLayout layout>
struct Inner {
  template <Record T>
  void read(const JsonValue& json, T& x) const {
    FieldReader<layout> reader(json);
    fields(reader, x);
    reader.finish();
  }
  template <Record T>
  Json write(const T& x) const {
    FieldWriter<layout> writer;
    fields(writer, const_cast<T&>(x));  // a writer changes nothing
    return std::move(writer.json);
  }
  std::string accepted() const { return layout == RecordLayout::object ? "an object" : "a list"; }
};

/// null, or what another rule takes.
template <class Rule>
struct OrNull {
  Rule rule;
  template <class T>
  void read(const JsonValue& json, std::optional<T>& x) const {
    if (json.json().is_null()) x.reset();
    else rule.read(json, x.emplace());
  }
  template <class T>
  Json write(const std::optional<T>& x) const {
    return x ? rule.write(*x) : Json();
  }
  std::string accepted() const { return rule.accepted() + ", or null"; }
};
template <class Rule>
constexpr OrNull<Rule> or_null(Rule rule) {
  return {rule};
}

/// What another rule takes; no value where the field is absent.
template <class Rule>
struct IfGiven {
  Rule rule;
  template <class T>
  void read(const JsonValue& json, std::optional<T>& x) const {
    rule.read(json, x.emplace());
  }
  template <class T>
  Json write(const std::optional<T>& x) const {
    return rule.write(*x);
  }
  std::string accepted() const { return rule.accepted(); }
};
template <class Rule>
constexpr IfGiven<Rule> if_given(Rule rule) {
  return {rule};
}

/// A list of what another rule takes; for an array, of its length.
template <class Rule>
struct Each {
  Rule rule;
  template <class T>
  void read(const JsonValue& json, std::vector<T>& all) const {
    all.assign(json.list().size(), T{});
    read(json, std::span(all));
  }
  template <class T, std::size_t N>
  void read(const JsonValue& json, std::array<T, N>& all) const {
    if (json.list().size() != N) json.refuse("a list of " + std::to_string(N));
    read(json, std::span<T>(all));
  }
  template <class List>
  Json write(const List& all) const {
    Json list = Json::array();
    for (const auto& one : all) list.push_back(rule.write(one));
    return list;
  }
  std::string accepted() const { return "a list, each " + rule.accepted(); }

 private:
  template <class T>
  void read(const JsonValue& json, std::span<T> all) const {
    const Json& list = json.list();
    for (std::size_t i = 0; i < all.size(); ++i)
      rule.read(JsonValue(list[i], json.where() + "[" + std::to_string(i) + "]"), all[i]);
  }
};
template <class Rule>
constexpr Each<Rule> each(Rule rule) {
  return {rule};
}

namespace detail {
template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;
template <class T>
inline constexpr bool is_list = false;
template <class T>
inline constexpr bool is_list<std::vector<T>> = true;
template <class T, std::size_t N>
inline constexpr bool is_list<std::array<T, N>> = true;
}  // namespace detail

/// What a type says by itself. Enumerations say nothing: their fields have a rule.
template <RecordLayout layout, class T>
constexpr auto rule_for() {
  if constexpr (std::is_same_v<T, bool>) return Truth{};
  else if constexpr (std::is_integral_v<T>) return every_integer<T>();
  else if constexpr (std::is_same_v<T, double>) return AnyNumber{};
  else if constexpr (std::is_same_v<T, std::string>) return Text{};
  else if constexpr (detail::is_optional<T>) return or_null(rule_for<layout, typename T::value_type>());
  else if constexpr (detail::is_list<T>) return each(rule_for<layout, typename T::value_type>());
  else return Inner<layout>{};
}

/// What every visitor of fields offers: a rule and a presence may be left out. `Visitor` has a function
/// field(name, member, rule, presence).
template <RecordLayout layout, class Visitor>
class Fields {
 public:
  template <class T>
  void operator()(std::string_view name, T& x) {
    self().field(name, x, rule_for<layout, T>(), needed);
  }
  template <class T, IsPresence Presence>
  void operator()(std::string_view name, T& x, const Presence& presence) {
    self().field(name, x, rule_for<layout, T>(), presence);
  }
  template <class T, class Rule>
  void operator()(std::string_view name, T& x, const Rule& rule) {
    self().field(name, x, rule, needed);
  }
  template <class T, class Rule, IsPresence Presence>
  void operator()(std::string_view name, T& x, const Rule& rule, const Presence& presence) {
    self().field(name, x, rule, presence);
  }

 private:
  Visitor& self() { return static_cast<Visitor&>(*this); }
};

/// The names of a record's fields.
struct FieldLister : Fields<RecordLayout::object, FieldLister> {
  struct Field {
    std::string name, accepted;
    bool needed, written;
  };
  std::vector<Field> all;
  template <class T, class Rule, class Presence>
  void field(std::string_view name, T&, const Rule& rule, const Presence& presence) {
    all.push_back({std::string(name), rule.accepted(), presence.needed, presence.written});
  }
};

template <>
class FieldReader<RecordLayout::object> : public Fields<RecordLayout::object, FieldReader<RecordLayout::object>> {
 public:
  explicit FieldReader(const JsonValue& json, std::string_view accepted = "an object")
      : members_(json.json(), json.where(), accepted) {}
  template <class T, class Rule, class Presence>
  void field(std::string_view name, T& x, const Rule& rule, const Presence& presence) {
    const Json* const found = presence.needed ? &members_.need(name) : members_.find(name);
    if (!found) {
      if constexpr (requires { presence.value; }) x = static_cast<T>(presence.value);
      return;
    }
    const JsonValue value(*found, members_.at(name));
    if constexpr (requires { rule.read(members_, name, value, x); }) rule.read(members_, name, value, x);
    else rule.read(value, x);
  }
  /// Throws for members that are no fields.
  void finish() const { members_.finish(); }

 private:
  Members members_;
};

template <>
class FieldReader<RecordLayout::list> : public Fields<RecordLayout::list, FieldReader<RecordLayout::list>> {
 public:
  explicit FieldReader(const JsonValue& json) : list_(json.list()), where_(json.where()) {}
  template <class T, class Rule, class Presence>
  void field(std::string_view name, T& x, const Rule& rule, const Presence&) {
    if (next_ < list_.size()) rule.read(JsonValue(list_[next_], where_ + "." + std::string(name)), x);
    names_ += (next_++ ? ", " : "") + std::string(name);
  }
  /// Throws unless the list has as many values as there are fields.
  void finish() const {
    if (next_ != list_.size())
      throw std::invalid_argument(where_ + " has " + std::to_string(list_.size()) +
                                  " values; accepted: " + std::to_string(next_) + ", " + names_);
  }

 private:
  const Json& list_;
  std::string where_, names_;
  std::size_t next_ = 0;
};

template <RecordLayout layout>
class FieldWriter : public Fields<layout, FieldWriter<layout>> {
 public:
  Json json = layout == RecordLayout::object ? Json::object() : Json::array();
  template <class T, class Rule, class Presence>
  void field(std::string_view name, const T& x, const Rule& rule, const Presence& presence) {
    if constexpr (layout == RecordLayout::list) json.push_back(rule.write(x));
    else if (presence.written) json[std::string(name)] = rule.write(x);
  }
};

/// Reads a record at `where`, which may be empty. Fields that may be absent keep what `x` holds, or take their own
/// default.
template <RecordLayout layout = RecordLayout::object, Record T>
void read_record(const Json& json, const std::string& where, T& x) {
  Inner<layout>{}.read(JsonValue(json, where), x);
}
template <Record T, RecordLayout layout = RecordLayout::object>
T record_of(const Json& json, const std::string& where) {
  T x;
  read_record<layout>(json, where, x);
  return x;
}
template <RecordLayout layout = RecordLayout::object, Record T>
Json record_json(const T& x) {
  return Inner<layout>{}.write(x);
}
/// The fields of a record that holds this much: name, what is accepted, whether one must be there, whether it is
/// written.
template <Record T>
std::vector<FieldLister::Field> fields_of(const T& x = {}) {
  FieldLister lister;
  fields(lister, const_cast<T&>(x));  // a lister changes nothing
  return std::move(lister.all);
}

}  // namespace halfulp
