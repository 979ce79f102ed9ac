// Casts as libraries, specifications and CPUs define them, over arrays of code words.
#include "module.hpp"

#include <halfulp/emulation/cast/profile.hpp>

#include <nanobind/stl/vector.h>

#include <vector>

namespace halfulp::python {
namespace {

void cast(const std::string& profile, const FloatFormat& from, const FloatFormat& to, const In& x, const Out& out) {
  const CastRule& rule = rule_for(find_profile(profile), from, to);
  if (x.size() != out.size()) throw std::invalid_argument("out: of another size than x");
  with_type<std::uint16_t, std::uint32_t, std::uint64_t>(x.dtype(), [&]<class Word>(Word) {
    const auto in = read<Word>(x);
    check_codes("x", in, from.code_mask(), format_name(from));
    with_type<std::uint8_t, std::uint16_t, std::uint32_t>(out.dtype(), [&]<class Code>(Code) {
      const auto results = write<Code>(out);
      const nb::gil_scoped_release released;
      apply(rule, from, in, results);
    });
  });
}

}  // namespace

void add_profiles(nb::module_& m) {
  m.def("cast", &cast, nb::arg("profile"), nb::arg("from_"), nb::arg("to"), nb::arg("x"), nb::arg("out"),
        "out[i] = the code word that a profile makes of the code word x[i].");
}

}  // namespace halfulp::python
