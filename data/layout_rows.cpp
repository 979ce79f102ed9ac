// The values of encoded tensors, row by row.
#include <halfulp/data/layouts.hpp>

#include <halfulp/emulation/array/array.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/files.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>

namespace halfulp {
namespace {

/// Numbers of any dtype that scales, offsets and zero points have; bytes are of the format.
void read_numbers(const TensorFiles& files, const StoredTensor& tensor, const FloatFormat& bytes, std::uint64_t first,
                  std::span<float> values) {
  if (tensor.type->format) return files.read(tensor, first, values);
  std::vector<std::uint8_t> codes(values.size());
  files.read_bytes(tensor, first, std::as_writable_bytes(std::span(codes)));
  if (tensor.type->name != "I8") return decode<std::uint8_t>(bytes, codes, values);
  std::transform(codes.begin(), codes.end(), values.begin(),
                 [](std::uint8_t c) { return static_cast<std::int8_t>(c); });
}

/// The values of all code words; those of fewer bits fill only the beginning.
std::array<float, 256> values_of(const Decoding& d) {
  std::array<float, 256> values{};
  const unsigned flipped = d.offset_binary ? 1u << (d.element.bits() - 1) : 0;
  for (unsigned code = 0; code < 1u << d.element.bits(); ++code)
    values[code] = static_cast<float>(d.element.value(code ^ flipped));
  return values;
}

/// Bits from `bit` on. One byte behind the last is there to be read.
unsigned bits_at(const std::uint8_t* bytes, std::uint64_t bit, unsigned mask) {
  const std::uint8_t* const at = bytes + bit / 8;
  return (static_cast<unsigned>(at[0]) | static_cast<unsigned>(at[1]) << 8) >> bit % 8 & mask;
}

/// Some rows of a weight: their scales and offsets, and how values follow from these and from code words.
class Rows {
 public:
  Rows(const TensorFiles& files, const EncodedTensor& tensor, std::uint64_t first, std::uint64_t rows)
      : files_(files), d_(tensor.decoding), first_(first), rows_(rows), values_(values_of(d_)) {
    const std::uint64_t begin = grid_row(first), end = grid_row(first + rows - 1) + 1;
    begin_ = begin;
    scales_ = grid(*d_.scales, begin, end);
    if (d_.zeros) zeros_ = d_.zeros->type->name == "I32" ? packed_zeros(begin, end) : grid(*d_.zeros, begin, end);
    if (d_.tensor_scale) scale_by_tensor(begin, end);
    if (d_.groups) read_groups();
  }

  void read(std::span<float> out) const {
    const std::uint64_t stored = first_ / d_.rows_in_byte;
    std::vector<std::uint8_t> bytes((ceil_div(first_ + rows_, d_.rows_in_byte) - stored) * d_.row_bytes + 1);
    files_.read_bytes(*d_.codes, stored * d_.row_bytes,
                      std::as_writable_bytes(std::span(bytes).first(bytes.size() - 1)));
    std::vector<float> row(d_.columns);
    for (std::uint64_t r = first_; r < first_ + rows_; ++r) {
      unpack(bytes.data() + (r / d_.rows_in_byte - stored) * d_.row_bytes,
             r % d_.rows_in_byte * static_cast<std::uint64_t>(d_.element.bits()), row);
      const std::uint64_t at = (grid_row(r) - begin_) * d_.grid_columns;
      apply(row, scales_.data() + at, zeros_.empty() ? nullptr : zeros_.data() + at,
            out.subspan((r - first_) * d_.columns, d_.columns));
    }
  }

 private:
  std::uint64_t grid_row(std::uint64_t row) const {
    return (d_.one_grid ? 0 : row / d_.rows * d_.grid_rows) + row % d_.rows / d_.block_rows;
  }

  /// Rows of a grid, one after the other, however they are stored.
  std::vector<float> grid(const StoredTensor& part, std::uint64_t begin, std::uint64_t end) const {
    const std::uint64_t across = d_.grid_columns, rows = end - begin;
    std::vector<float> out(rows * across);
    if (d_.swizzled) {
      const std::uint64_t tiles = ceil_div(across, swizzled_columns), first = begin / swizzled_rows;
      std::vector<float> stored((ceil_div(end, swizzled_rows) - first) * tiles * swizzled_tile);
      read_numbers(files_, part, d_.scale_format, first * tiles * swizzled_tile, stored);
      for (std::uint64_t r = 0; r < rows; ++r)
        for (std::uint64_t c = 0; c < across; ++c) {
          const std::uint64_t row = begin + r, tile = (row / swizzled_rows - first) * tiles + c / swizzled_columns;
          out[r * across + c] = stored[tile * swizzled_tile + row % 32 * 16 + row % swizzled_rows / 32 * 4 + c % 4];
        }
    } else if (d_.transposed) {
      for (std::uint64_t r = begin; r < end;) {
        const std::uint64_t matrix = r / d_.grid_rows, in_matrix = std::min(end, (matrix + 1) * d_.grid_rows) - r;
        std::vector<float> column(in_matrix);
        for (std::uint64_t c = 0; c < across; ++c) {
          read_numbers(files_, part, d_.scale_format, (matrix * across + c) * d_.grid_rows + r % d_.grid_rows, column);
          for (std::uint64_t i = 0; i < in_matrix; ++i) out[(r - begin + i) * across + c] = column[i];
        }
        r += in_matrix;
      }
    } else {
      read_numbers(files_, part, d_.scale_format, begin * across, out);
    }
    return out;
  }

  /// Zero points of compressed-tensors' words: each column of the grid is a stream of bits down the rows of words.
  std::vector<float> packed_zeros(std::uint64_t begin, std::uint64_t end) const {
    const std::uint64_t across = d_.grid_columns, bits = d_.step;
    const auto bit = [&](std::uint64_t r) {
      return d_.in_word ? r / d_.in_word * 32 + r % d_.in_word * bits : r * bits;
    };
    const std::uint64_t first = bit(begin) / 32, last = ceil_div(bit(end - 1) + bits, 32);
    std::vector<std::uint32_t> words((last - first) * across);
    files_.read_bytes(*d_.zeros, first * across * 4, std::as_writable_bytes(std::span(words)));
    std::vector<float> out((end - begin) * across);
    std::vector<std::uint32_t> column(last - first + 1);
    for (std::uint64_t c = 0; c < across; ++c) {
      for (std::uint64_t w = 0; w < last - first; ++w) column[w] = words[w * across + c];
      for (std::uint64_t r = begin; r < end; ++r)
        out[(r - begin) * across + c] = values_[bits_at(reinterpret_cast<const std::uint8_t*>(column.data()),
                                                        bit(r) - first * 32, (1u << bits) - 1)];
    }
    return out;
  }

  void scale_by_tensor(std::uint64_t begin, std::uint64_t end) {
    std::vector<float> all(d_.tensor_scale->count);
    read_numbers(files_, *d_.tensor_scale, fp32, 0, all);
    for (float& t : all)
      if (d_.tensor_scale_use.over != 1) t /= d_.tensor_scale_use.over;
    for (std::uint64_t g = begin; g < end; ++g) {
      const float t = all[all.size() == 1 ? 0 : g / d_.grid_rows];
      for (std::uint64_t c = 0; c < d_.grid_columns; ++c) {
        float& s = scales_[(g - begin) * d_.grid_columns + c];
        s = d_.tensor_scale_use.use == TensorScale::divide ? s / t : s * t;
      }
    }
  }

  void read_groups() {
    groups_.resize(d_.columns);
    files_.read_bytes(*d_.groups, 0, std::as_writable_bytes(std::span(groups_)));
    // -1 in any place says that columns lie in order after all.
    if (std::find(groups_.begin(), groups_.end(), -1) != groups_.end()) return groups_.clear();
    for (const std::int32_t g : groups_)
      if (g < 0 || static_cast<std::uint64_t>(g) >= d_.grid_columns)
        refuse_file(files_.files()[d_.groups->file].path(),
                    fmt::format("tensor {}: a column is in group {}; accepted: 0 to {}, or -1",
                                shown_name(d_.groups->name), g, d_.grid_columns - 1));
  }

  /// The values of a row's code words, before zero point and scale; `bit` = where in its first byte it begins.
  void unpack(const std::uint8_t* bytes, std::uint64_t bit, std::span<float> row) const {
    const unsigned mask = (1u << d_.element.bits()) - 1;
    if (d_.in_word) {
      for (std::uint64_t c = 0; c < row.size(); ++c)
        row[c] = values_[bits_at(bytes, c / d_.in_word * 32 + c % d_.in_word * d_.step, mask)];
    } else if (d_.step == 8) {
      for (std::uint64_t c = 0; c < row.size(); ++c) row[c] = values_[bytes[c] >> bit & mask];
    } else {
      for (std::uint64_t c = 0; c < row.size(); ++c, bit += d_.step) row[c] = values_[bits_at(bytes, bit, mask)];
    }
  }

  void apply(std::span<const float> row, const float* scales, const float* zeros, std::span<float> out) const {
    const auto columns = [&](std::uint64_t begin, std::uint64_t end, std::uint64_t g) {
      const float scale = scales[g], zero = zeros ? zeros[g] : 0;
      if (d_.zero_use == ZeroUse::add)
        for (std::uint64_t c = begin; c < end; ++c) out[c] = row[c] * scale + zero;
      else
        for (std::uint64_t c = begin; c < end; ++c) out[c] = (row[c] - zero) * scale;
    };
    if (!groups_.empty())
      for (std::uint64_t c = 0; c < row.size(); ++c) columns(c, c + 1, static_cast<std::uint64_t>(groups_[c]));
    else
      for (std::uint64_t c = 0, g = 0; c < row.size(); c += d_.block_columns, ++g)
        columns(c, std::min<std::uint64_t>(row.size(), c + d_.block_columns), g);
  }

  const TensorFiles& files_;
  const Decoding& d_;
  std::uint64_t first_, rows_, begin_ = 0;
  std::array<float, 256> values_;
  std::vector<float> scales_, zeros_;
  std::vector<std::int32_t> groups_;
};

}  // namespace

void read_rows(const TensorFiles& files, const EncodedTensor& tensor, std::uint64_t first, std::uint64_t rows,
               std::span<float> values) {
  const std::uint64_t all = tensor.count / tensor.decoding.columns;
  if (first > all || rows > all - first || values.size() != rows * tensor.decoding.columns)
    throw std::logic_error(tensor.name + ": rows that it does not have, or values that are not theirs");
  if (rows > 0) Rows(files, tensor, first, rows).read(values);
}

}  // namespace halfulp
