#include <halfulp/experiments/training/operand_model.hpp>

#include <halfulp/formats/block_catalogue.hpp>

#include <stdexcept>

namespace halfulp::training {

bool folds(const Storage& s) {
  const BlockFormat* const b = s.block();
  return b && !b->element.is_integer() && b->scale.precision() + b->element.format.precision() <= 12;
}

FloatFormat element_format(const Storage& s) {
  if (const FloatFormat* const f = s.plain()) return *f;
  return folds(s) || s.block()->element.is_integer() ? fp32 : s.block()->element.format;
}

ProductModel operand_model(const std::string& accumulate, const Storage& a, const Storage& b, const std::string& where) {
  const FloatFormat in_a = element_format(a), in_b = element_format(b);
  const std::string operands = "in=" + format_name(in_a) + (in_b == in_a ? "" : ",b=" + format_name(in_b));
  const auto with_results_in_floats = [](const ProductModel& model) {
    const FloatFormat& result = format_of_result(model);
    if (!holds(fp32, result)) throw std::invalid_argument("sums in " + format_name(result) + " are no floats; accepted: results within fp32, such as out=fp32");
    return model;
  };
  try {
    if (accumulate.find('.') == std::string::npos) return with_results_in_floats(parse_product_model(operands + "," + accumulate));
    const ProductModel model = with_results_in_floats(parse_product_model(accumulate));
    if (!(format_of_a(model) == in_a) || !(format_of_b(model) == in_b))
      throw std::invalid_argument(accumulate + " takes " + format_name(format_of_a(model)) + " and " + format_name(format_of_b(model)) + ", operands are " + format_name(in_a) +
                                  " and " + format_name(in_b));
    if (const MatrixUnit* const unit = std::get_if<MatrixUnit>(&model); unit && unit->scale_block)
      throw std::invalid_argument(accumulate + " takes scales of its own; accepted: units without");
    return model;
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(where + ": " + error.what());
  }
}

}  // namespace halfulp::training
