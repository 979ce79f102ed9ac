// The functions of halfulp.wasm, as halfulp.js calls them.
#include <halfulp/emulation/text.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/web/answers/answers.hpp>
#include <halfulp/web/module.hpp>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace halfulp::web {
namespace {

std::uint64_t at_most(std::string_view what, std::uint64_t given, std::uint64_t largest) {
  if (given > largest)
    throw std::invalid_argument(std::string(what) + ": " + std::to_string(given) + "; accepted: 0 to " +
                                std::to_string(largest));
  return given;
}

}  // namespace

/// The code word of a number as people write it, rounded once.
HALFULP_EXPORT(parse)
std::uint64_t module_parse(const char* format, std::size_t format_size, const char* mode, std::size_t mode_size,
                           const char* text, std::size_t text_size, std::uint64_t random) {
  Rounding rounding;
  rounding.mode = parse_rounding_mode({mode, mode_size});
  return parse(parse_format({format, format_size}), rounding, {text, text_size}, at_most("random", random, 0xffff'ffff))
      .code;
}
/// The value of a code word, every digit of it.
HALFULP_EXPORT(print_exact)
const char* module_print_exact(const char* format, std::size_t size, std::uint64_t code) {
  const FloatFormat f = parse_format({format, size});
  return answer(print_exact(f, at_most("word", code, f.code_mask())));
}

/// The answer to a question of web/answers, as JSON; `lines`: its members, `array`: what may come with them.
HALFULP_EXPORT(ask)
const char* module_ask(const char* question, std::size_t question_size, const char* lines, std::size_t lines_size,
                       const double* array, std::size_t count) {
  return answer(halfulp::web::answer({question, question_size}, Asked({lines, lines_size}, {array, count})).dump());
}

}  // namespace halfulp::web
