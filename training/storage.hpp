// The format in which a tensor is stored, and the rounding into it.
#pragma once

#include <halfulp/emulation/array/array.hpp>
#include <halfulp/emulation/block/block.hpp>
#include <halfulp/emulation/block/delayed.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/json_fwd.hpp>

#include <optional>
#include <span>
#include <string>
#include <variant>

namespace halfulp::training {

/// The settings of DelayedAmax, which scales by magnitudes of earlier steps.
struct DelayedScaling {
  std::size_t length = 1024;
  AmaxChoice choice = AmaxChoice::max;
  int margin = 0;
  bool operator==(const DelayedScaling&) const = default;
};

/// A format, or a block format, and the rounding into it. The default, fp32, changes nothing: tensors are floats.
struct Storage {
  std::variant<FloatFormat, BlockFormat> format = fp32;
  Rounding rounding = {};
  std::optional<DelayedScaling> delayed = {};  ///< of block formats with one scale per tensor
  std::optional<float> amax =
      {};  ///< of the same formats: the magnitude that sets a fixed scale, from calibration; larger values saturate

  const FloatFormat* plain() const { return std::get_if<FloatFormat>(&format); }
  const BlockFormat* block() const { return std::get_if<BlockFormat>(&format); }
  /// Whether every float stays what it is.
  bool keeps_floats() const { return plain() && *plain() == fp32; }
  bool operator==(const Storage&) const = default;
};

/// Reads a format's name, or an object: {"format": "bf16", "rounding": "stochastic", "random_bits": 8, "overflow":
/// "saturate", "flush_outputs": true, "delayed": {"length": 1024, "choice": "max", "margin": 0}}, or with a fixed
/// "amax": 4.5 instead of "delayed". Throws std::invalid_argument in one line that begins with `where`, for unknown
/// members and names, formats whose values are not all floats, and delayed scaling or a fixed amax where there is more
/// than one scale.
Storage parse_storage(const Json& json, const std::string& where);
/// The shortest JSON that reads back as this.
Json to_json(const Storage& storage);
/// For tables and messages: "bf16", "bf16 stochastic", "e4m3-tensor delayed", "int8-tensor fixed".
std::string text_of(const Storage& storage);

/// Rounds values in place, as rows of `columns` (0: one row), which matters to block formats only. Stochastic rounding
/// takes `random`. With a tally, what happened is added to it: of block formats only what the values show, which is new
/// zeros, NaN and inexact results. `amax`: BlockOptions::amax.
void store(const Storage& storage, std::size_t columns, std::span<float> values, RandomStream random = {},
           Tally* tally = nullptr, std::optional<float> amax = {});

}  // namespace halfulp::training
