// Everything besides operands and format that decides a result, as one Python object.
#include "module.hpp"

#include <halfulp/emulation/rounding.hpp>
#include <halfulp/support/spelling.hpp>

#include <nanobind/stl/tuple.h>

#include <new>
#include <tuple>

namespace halfulp::python {
namespace {

std::string text_of_rounding(const Rounding& r) {
  const Rounding usual;
  std::string text = "Rounding('" + std::string(name_of(r.mode)) + "'";
  const auto say = [&](const char* name, bool differs, const std::string& value) {
    if (differs) text += std::string(", ") + name + "=" + value;
  };
  const auto quoted = [](std::string_view name) { return "'" + std::string(name) + "'"; };
  say("overflow", r.overflow != usual.overflow, quoted(name_of(r.overflow)));
  say("flush_inputs", r.flush_inputs, "True");
  say("flush_outputs", r.flush_outputs, "True");
  say("tininess", r.tininess != usual.tininess, quoted(name_in(tininess_rules, r.tininess)));
  say("nan", r.nan != usual.nan, quoted(name_of(r.nan)));
  say("int_overflow", r.int_overflow != usual.int_overflow, quoted(name_in(int_overflow_rules, r.int_overflow)));
  say("exact", r.integer_inexact, "True");
  say("stochastic_variant", r.variant != usual.variant, quoted(name_in(stochastic_variants, r.variant)));
  say("random_bits", r.random_bits != usual.random_bits, std::to_string(r.random_bits));
  return text + ")";
}

/// The fields in the order of make()'s arguments.
nb::tuple fields(const Rounding& r) {
  return nb::make_tuple(std::string(name_of(r.mode)), std::string(name_of(r.overflow)), r.flush_inputs, r.flush_outputs,
                        std::string(name_in(tininess_rules, r.tininess)), std::string(name_of(r.nan)),
                        std::string(name_in(int_overflow_rules, r.int_overflow)), r.integer_inexact,
                        std::string(name_in(stochastic_variants, r.variant)), r.random_bits);
}

std::size_t hash_of(const Rounding& r) {
  std::size_t hash = 0;
  for (const int field : {static_cast<int>(r.mode), static_cast<int>(r.overflow), int{r.flush_inputs},
                          int{r.flush_outputs}, static_cast<int>(r.tininess), static_cast<int>(r.nan),
                          static_cast<int>(r.int_overflow), int{r.integer_inexact}, static_cast<int>(r.variant)})
    hash = hash << 4 | static_cast<std::size_t>(field);
  return hash << 6 | static_cast<std::size_t>(r.random_bits);
}

void make(Rounding* self, const std::string& mode, const std::string& overflow, bool flush_inputs, bool flush_outputs,
          const std::string& tininess, const std::string& nan, const std::string& int_overflow, bool exact,
          const std::string& stochastic_variant, int random_bits) {
  if (random_bits < 1 || random_bits > max_random_bits)
    throw std::invalid_argument("random_bits is " + std::to_string(random_bits) + "; accepted: 1 to " +
                                std::to_string(max_random_bits));
  new (self) Rounding{parse_rounding_mode(mode),
                      value_named(overflow_rules, "overflow rule", overflow),
                      flush_inputs,
                      flush_outputs,
                      value_named(tininess_rules, "tininess rule", tininess),
                      value_named(nan_rules, "NaN rule", nan),
                      value_named(int_overflow_rules, "integer overflow rule", int_overflow),
                      exact,
                      value_named(stochastic_variants, "stochastic variant", stochastic_variant),
                      random_bits};
}

}  // namespace

void add_rounding(nb::module_& m) {
  nb::class_<Rounding>(m, "Rounding", R"(How results are rounded, and the rules at the edges of a format.

mode: nearest-even, nearest-away, nearest-to-zero, toward-zero, toward-positive, toward-negative, to-odd, stochastic.
overflow: ieee (Inf by mode, NaN in formats without Inf) or saturate (the largest value). flush_inputs, flush_outputs: subnormal
operands (DAZ), tiny results (FTZ) are zero. tininess: after or before rounding. nan: canonical, propagate (x86), cuda, cuda-fp64,
keep. int_overflow: saturate or x86. exact: rounding to integers signals inexact. stochastic_variant: truncate, nearest-even,
nearest-odd, nearest-up; random_bits: 1 to 32. Raises ValueError naming the nearest words.
Source: IEEE 754-2019, clauses 4 and 7.)")
      .def("__init__", &make, nb::arg("mode") = "nearest-even", nb::kw_only(), nb::arg("overflow") = "ieee",
           nb::arg("flush_inputs") = false, nb::arg("flush_outputs") = false, nb::arg("tininess") = "after",
           nb::arg("nan") = "canonical", nb::arg("int_overflow") = "saturate", nb::arg("exact") = false,
           nb::arg("stochastic_variant") = "truncate", nb::arg("random_bits") = Rounding{}.random_bits)
      .def_prop_ro("mode", [](const Rounding& r) { return std::string(name_of(r.mode)); })
      .def_prop_ro("overflow", [](const Rounding& r) { return std::string(name_of(r.overflow)); })
      .def_ro("flush_inputs", &Rounding::flush_inputs)
      .def_ro("flush_outputs", &Rounding::flush_outputs)
      .def_prop_ro("tininess", [](const Rounding& r) { return std::string(name_in(tininess_rules, r.tininess)); })
      .def_prop_ro("nan", [](const Rounding& r) { return std::string(name_of(r.nan)); })
      .def_prop_ro("int_overflow",
                   [](const Rounding& r) { return std::string(name_in(int_overflow_rules, r.int_overflow)); })
      .def_ro("exact", &Rounding::integer_inexact)
      .def_prop_ro("stochastic_variant",
                   [](const Rounding& r) { return std::string(name_in(stochastic_variants, r.variant)); })
      .def_ro("random_bits", &Rounding::random_bits)
      .def(
          "__eq__", [](const Rounding& r, const Rounding& other) { return r == other; }, nb::is_operator(), equality)
      .def("__hash__", &hash_of)
      .def("__repr__", &text_of_rounding)
      .def("__getstate__", &fields)
      .def("__setstate__",
           [](Rounding& self, const std::tuple<std::string, std::string, bool, bool, std::string, std::string,
                                               std::string, bool, std::string, int>& state) {
             std::apply([&](const auto&... field) { make(&self, field...); }, state);
           });
}

}  // namespace halfulp::python
