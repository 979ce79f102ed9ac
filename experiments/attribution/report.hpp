// What the experiment "attribution" writes about sources.
#pragma once

#include <halfulp/experiments/attribution/attribution.hpp>

namespace halfulp::attribution {

using Choices = std::vector<Choice>;

/// Results choice by choice: of the factors, and of their first 8 rows and columns by length.
struct Curves {
  std::vector<Result> main;
  std::vector<std::size_t> lengths;
  std::vector<std::vector<Result>> by_length;
};

/// Table `configurations`: which formats go with which accumulators, and why not. The choices that are measured.
Choices choose(const Settings& s, Report& report);

/// Tables `sources` and `lengths`, and the claims that follow from the definitions.
void report_sources(const Settings& s, const Choices& choices, const Curves& curves, Report& report);

}  // namespace halfulp::attribution
