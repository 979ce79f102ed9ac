// Cast profiles and their differences as text and JSON.
#pragma once

#include <halfulp/emulation/cast/difference.hpp>

#include <nlohmann/json.hpp>

#include <string>

namespace halfulp::cli {

/// A code word and what it is: "0x7e 448", "0x7f NaN", "0xff -NaN" where the sign of a NaN can be told.
std::string code_and_value(const FloatFormat& f, std::uint64_t code);

/// One line a profile.
std::string profiles_table();
/// Its rules, one paragraph each.
std::string profile_text(const Profile& profile);
nlohmann::ordered_json to_json(const Profile& profile);

/// Operands that every profile with such a rule converts.
struct CastTable {
  FloatFormat from, to;
  std::vector<std::uint64_t> operands;
};
/// A row a profile, a column an operand.
std::string casts_text(const CastTable& table);
nlohmann::ordered_json to_json(const CastTable& table);

/// A question by the names it was asked with, and its answer.
struct ProfileDiff {
  const Profile* a = nullptr;
  const Profile* b = nullptr;
  CastQuestion question;
  CastDifferences answer;
};

/// At most `most` ranges; what is left out is counted.
std::string diff_text(const ProfileDiff& diff, std::size_t most);
nlohmann::ordered_json to_json(const ProfileDiff& diff, std::size_t most);

}  // namespace halfulp::cli
