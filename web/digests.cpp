#include <halfulp/web/digests.hpp>

#include <halfulp/emulation/operation.hpp>
#include <halfulp/emulation/random.hpp>
#include <halfulp/emulation/text.hpp>
#include <halfulp/emulation/unit/unit.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <bit>
#include <functional>
#include <string_view>
#include <vector>

namespace halfulp::web {
namespace {

constexpr std::uint64_t seed = 20261126;  // of operands and of stochastic rounding

/// Every bit of every word counts, and so does their order.
class Digest {
 public:
  void add(std::uint64_t word) { state_ = std::rotl((state_ ^ word) * 0x9e37'79b9'7f4a'7c15, 29); }
  void add(std::string_view text) {
    for (const char c : text) add(static_cast<unsigned char>(c));
    add(text.size());
  }
  void add(const Rounded& result) { add(result.code), add(result.flags); }
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 1;
};

struct Row {
  std::string name;
  std::function<void(Digest&)> add;
};

Rounding rounding_in(RoundingMode mode) {
  Rounding rounding;
  rounding.mode = mode;
  return rounding;
}

std::string titled(std::string_view what, const FloatFormat& f, RoundingMode mode, std::string_view operands) {
  return std::string(what) + " " + format_name(f) + " " + std::string(name_of(mode)) + ", " + std::string(operands);
}

/// Operations on formats of at most 16 bits: one operand on all code words, two on all pairs of at most 8 bits.
void add_operations(std::vector<Row>& rows, const FloatFormat& f, RoundingMode mode) {
  const std::uint64_t codes = std::uint64_t{1} << f.storage_bits();
  const Rounding rounding = rounding_in(mode);
  for (const OperationInfo& row : operations) {
    const Operation op = row.operation;
    if (op == Operation::convert)
      rows.push_back({titled(row.name, f, mode, "all code words to every format"), [=](Digest& d) {
                        for (const NamedFormat& to : catalogue()) {
                          const Task task{op, f, to.format, rounding};
                          if (!refusal(task).empty()) continue;
                          for (std::uint64_t a = 0; a < codes; ++a)
                            d.add(evaluate(task, a, 0, 0, rounding_bits(seed, 0, a)));
                        }
                      }});
    else if (row.arity == 1)
      rows.push_back({titled(row.name, f, mode, "all code words"), [=](Digest& d) {
                        for (std::uint64_t a = 0; a < codes; ++a)
                          d.add(evaluate(op, f, rounding, a, 0, 0, rounding_bits(seed, 0, a)));
                      }});
    if (row.arity == 2 && codes <= 256)
      rows.push_back({titled(row.name, f, mode, "all pairs"), [=](Digest& d) {
                        for (std::uint64_t a = 0; a < codes; ++a)
                          for (std::uint64_t b = 0; b < codes; ++b)
                            d.add(evaluate(op, f, rounding, a, b, 0, rounding_bits(seed, a, b)));
                      }});
  }
}

/// fp32 to a format, and random operands where all are too many.
void add_samples(std::vector<Row>& rows, const FloatFormat& f, RoundingMode mode) {
  const Rounding rounding = rounding_in(mode);
  rows.push_back({"convert fp32 to " + titled("", f, mode, "65,536 code words").substr(1), [=](Digest& d) {
                    const Task task{Operation::convert, fp32, f, rounding};
                    for (std::uint64_t i = 0; i < 65536; ++i)
                      d.add(evaluate(task, random_word(seed, 1, i) >> 32, 0, 0, rounding_bits(seed, 1, i)));
                  }});
  if (f == fp16)
    for (const Operation op : {Operation::add, Operation::mul, Operation::div, Operation::fma}) {
      const std::uint64_t count = op == Operation::fma ? 1'000'000 : 65536;
      rows.push_back({titled(info(op).name, f, mode, std::to_string(count) + " sampled"), [=](Digest& d) {
                        for (std::uint64_t i = 0; i < count; ++i) {
                          const std::uint64_t words = random_word(seed, 2, i);
                          d.add(evaluate(op, f, rounding, words & 0xffff, words >> 16 & 0xffff, words >> 32 & 0xffff,
                                         rounding_bits(seed, 2, i)));
                        }
                      }});
    }
}

void add_text(std::vector<Row>& rows, const FloatFormat& f) {
  rows.push_back({"text of " + format_name(f) + ", all code words, and back", [=](Digest& d) {
                    for (std::uint64_t code = 0; code >> f.storage_bits() == 0; ++code) {
                      const std::string shortest = print(f, code);
                      d.add(shortest), d.add(print_exact(f, code)), d.add(print_hex(f, code)),
                          d.add(print_code(f, code));
                      d.add(parse(f, {}, shortest));
                    }
                  }});
}

/// 10,000 products of a matrix unit, eight for each addend.
void add_unit(std::vector<Row>& rows, const MatrixUnit& unit) {
  rows.push_back({unit.name + ", 10,000 products", [&unit](Digest& d) {
                    std::uint64_t drawn = 0;
                    const auto words = [&](const FloatFormat& f, std::size_t count) {
                      std::vector<std::uint64_t> all(count);
                      for (std::uint64_t& w : all)
                        w = code_word(f, random_word(seed, 3, drawn++) >> (64 - f.storage_bits()));
                      return all;
                    };
                    for (int products = 0; products < 10'000;) {
                      const std::size_t k = 1 + random_word(seed, 4, drawn++) % (2 * static_cast<std::size_t>(unit.k));
                      const std::size_t scales = unit.scaled()
                                                     ? (k - 1) / static_cast<std::size_t>(unit.scale_block) + 1
                                                     : 0;
                      const auto a = words(unit.a, k), b = words(unit.b, k), of_a = words(unit.scale, scales),
                                 of_b = words(unit.scale, scales), c = words(unit.accumulator, 1);
                      d.add(mma(unit, {a, b, of_a, of_b}, c.front()));
                      products += static_cast<int>(k);
                    }
                  }});
}

const std::vector<Row>& all_rows() {
  static const std::vector<Row> all = [] {
    std::vector<Row> rows;
    for (const NamedFormat& row : catalogue()) {
      const FloatFormat& f = row.format;
      const bool is_small = f.storage_bits() <= 16;
      if (is_small) add_text(rows, f);
      if (!f.has_zero) continue;
      for (const auto& [name, mode] : rounding_modes) {
        if (is_small && refusal({Operation::add, f, f, rounding_in(mode)}).empty()) add_operations(rows, f, mode);
        add_samples(rows, f, mode);
      }
    }
    for (const MatrixUnit& unit : matrix_units()) add_unit(rows, unit);
    return rows;
  }();
  return all;
}

}  // namespace

std::size_t digest_count() { return all_rows().size(); }
std::string digest_name(std::size_t index) { return all_rows()[index].name; }
std::uint64_t digest_of(std::size_t index) {
  Digest digest;
  all_rows()[index].add(digest);
  return digest.value();
}

}  // namespace halfulp::web
