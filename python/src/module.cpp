#include "module.hpp"

#include <halfulp/emulation/array/array.hpp>

#include <tbb/global_control.h>

#include <memory>

NB_MODULE(_core, m) {
  using namespace halfulp::python;
  halfulp::limit_array_instructions_by_environment();  // what it throws is an ImportError
  nb::set_leak_warnings(false);  // torch keeps the functions of its operators to the end, and what they refer to
  m.doc() =
      "What is native of halfulp: on contiguous arrays, without the GIL. Use the functions of halfulp, which check and "
      "convert.";
  add_formats(m);
  add_rounding(m);
  add_arrays(m);
  add_operations(m);
  add_products(m);
  add_tensors(m);
  add_device(m);
  add_precision(m);
  add_layers(m);
  add_updates(m);
  add_blocks(m);
  add_profiles(m);
  add_checkpoints(m);
  add_command(m);
  m.def(
      "set_threads",
      [](const nb::object& given) {
        std::optional<int> count;
        if (!nb::try_cast(given, count)) throw nb::type_error("count: accepted: an integer from 1 to 1024, or None");
        static std::unique_ptr<tbb::global_control> limit;
        if (count && (*count < 1 || *count > 1024))
          throw std::invalid_argument("count is " + std::to_string(*count) + "; accepted: 1 to 1024, or None");
        limit.reset();
        if (count)
          limit = std::make_unique<tbb::global_control>(tbb::global_control::max_allowed_parallelism,
                                                        static_cast<std::size_t>(*count));
      },
      nb::arg("count").none(), nb::sig("def set_threads(count: int | None) -> None"),
      "How many threads array functions take from now on; None: one a core. Results do not depend on it.");
  m.def("version", [] { return std::string(HALFULP_VERSION); }, "The package's version.");
  m.def(
      "instruction_set", [] { return std::string(halfulp::array_instruction_set()); },
      "The instruction set that array functions use on this CPU: \"AVX3\" is AVX-512.");
}
