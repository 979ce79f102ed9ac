// When a measured value is the expected one: the rule a claim is judged by when it is made and again when it is read.
#pragma once

#include <halfulp/experiments/report/config.hpp>

#include <optional>
#include <string_view>

namespace halfulp {

/// The number behind a JSON value: a number, or one of the words "NaN", "Infinity", "-Infinity" that JSON has no number for.
std::optional<double> number_of(const Json& value);

/// Whether `measured` is what was `expected`, by a claim's tolerance: "exact" (equal), "absolute X" (at most X away, or
/// equal), "at most" (measured <= expected), "at least". A NaN is at no distance from anything. Nothing where the tolerance
/// is none of these or asks for numbers that are not there.
std::optional<bool> satisfied(const Json& expected, std::string_view tolerance, const Json& measured);

}  // namespace halfulp
