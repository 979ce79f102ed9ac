// --help as help_text writes it, in CLI11's place.
#pragma once

#include <halfulp/experiments/cli/manual.hpp>
#include <halfulp/experiments/cli/style.hpp>

#include <CLI/CLI.hpp>

namespace halfulp::cli {

class HelpFormatter : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode) const override {
    return help_text(manual_of(*app, std::move(name)), Style::of_output());
  }
};

}  // namespace halfulp::cli
