// A row of the table: one work on one kind of array, whoever does it.
#pragma once

#include <halfulp/emulation/operation.hpp>
#include <halfulp/emulation/random.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace halfulp::bench {

struct Size {
  std::string_view name;
  std::size_t count;
};

struct Row {
  std::string_view work;    ///< quantize, encode, decode, block-quantize, block-encode, or the name of an operation
  std::string_view format;  ///< or block format
  std::string_view mode;    ///< of rounding, "stochastic-2" if two roundings share a word; "exact" for decode
  Size size;
  std::string_view data = "normal";  ///< normal(0, 1), or random bits
  int threads = 1;

  /// "add/fp16/nearest-even/1M/normal/2". benchmarks/table.py parses it.
  std::string name() const;
  /// Whether it is about blocks. Their arrays have 128 columns, or 1024 if they are long.
  bool is_block() const { return work.starts_with("block-"); }
  bool is_conversion() const { return work == "quantize" || work == "encode" || work == "decode" || is_block(); }
  FloatFormat number() const { return is_block() ? fp32 : parse_format(format); }
  Rounding rounding() const;
  RandomStream random() const;
  int arity() const { return is_conversion() ? 1 : info(parse_operation(work)).arity; }
  int code_bytes() const { return number().storage_bits() <= 8 ? 1 : 2; }
  int operand_bytes() const { return work == "quantize" || work == "encode" || is_block() ? 4 : code_bytes(); }
  int result_bytes() const {
    return work == "block-encode" ? 1 : work == "quantize" || work == "decode" || is_block() ? 4 : code_bytes();
  }
  /// Read and written for each element.
  int bytes() const { return arity() * operand_bytes() + result_bytes(); }
};

/// All rows; a quick run leaves out the arrays of 64 M elements.
std::vector<Row> rows(bool quick);

}  // namespace halfulp::bench
