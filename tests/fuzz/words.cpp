// Names and small languages of the command line: any text is refused in one line, or means something that, printed,
// means the same.
#include "fuzz_target.hpp"

#include <halfulp/commands/expression.hpp>
#include <halfulp/emulation/product/model.hpp>
#include <halfulp/emulation/witness/subject.hpp>
#include <halfulp/formats/block_format.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <stdexcept>
#include <string>

using namespace halfulp;

/// One byte chooses the language; the rest is the text.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    switch (data[0] % 5) {
      case 0: {
        const FloatFormat f = parse_format(text);
        demand(parse_format(format_name(f)) == f, "a format's name means the format");
        break;
      }
      case 1: {
        const BlockFormat f = parse_block_format(text);
        demand(parse_block_format(format_name(f)) == f, "a block format's name means the format");
        break;
      }
      case 2: (void)parse_product_model(text); break;
      case 3: (void)witness::parse_subject(text); break;
      default: (void)cli::is_compound(cli::parse_expression(text));
    }
  } catch (const std::invalid_argument& error) {
    const std::string message = error.what();
    demand(!message.empty() && message.find('\n') == message.npos, "an error is one line");
  }
  return 0;
}
