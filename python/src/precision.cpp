// A policy at work: its products, casts and sums by addresses, and what is watched of them.
#include "precision.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace halfulp::python {

void add_precision(nb::module_& m) {
  nb::class_<Precision>(m, "Precision", "A policy, its seed, and what it keeps from step to step.")
      .def(nb::init<const std::string&, std::uint64_t, std::uint64_t>(), nb::arg("policy"), nb::arg("seed"),
           nb::arg("every") = 0,
           "policy: a name, the path of a .json file, or JSON text. every: which steps are watched, every so many; 0: "
           "none.")
      .def_prop_ro("name", [](const Precision& p) { return p.policy.name; })
      .def_prop_ro(
          "policy", [](const Precision& p) { return p.policy.json.dump(); }, "As JSON.")
      .def(
          "begin_step",
          [](Precision& p, std::uint64_t step, bool evaluates) {
            p.step = step;
            p.numerics.begin_step(step);
            return p.watch && p.watch->begin_step(step, evaluates);
          },
          nb::arg("step"), nb::arg("evaluates"), "Whether the step is counted.")
      .def(
          "at",
          [](const Precision& p, const std::string& kind, const std::string& name) {
            return to_json(p.policy.at(kind_named(kind), name)).dump();
          },
          nb::arg("operator"), nb::arg("name"), "The precision of an operator, as JSON.")
      .def_prop_ro(
          "every", [](const Precision& p) { return p.watch ? p.watch->every() : 0; }, "Which steps are watched now.")
      .def_prop_ro(
          "has_nan", [](const Precision& p) { return p.watch && p.watch->microscope().first_nan(); },
          "Whether a NaN was met.")
      .def("end_step",
           [](Precision& p) {
             p.numerics.end_step();
             if (p.watch) p.watch->end_step();
             if (p.saved) p.saved->finish();
           })
      .def("save_gradients", &Precision::save_gradients, nb::arg("folder"), nb::arg("about"),
           "Counted steps write their gradients there, as `halfulp run underflow` reads them. about: JSON.")
      .def(
          "gradient_scale", [](Precision& p, double scale) { p.set_scale(scale); }, nb::arg("scale"),
          "The loss scale that gradients carry from now on.")
      .def(
          "save_gradient",
          [](Precision& p, const std::string& name, const std::vector<std::uint64_t>& extents, Address values,
             std::size_t count) {
            if (p.saved)
              p.saved->add(p.step, name + ".gradient", GradientKind::of_weight, p.scale, extents,
                           read_at(values, count));
          },
          nb::arg("name"), nb::arg("extents"), nb::arg("values"), nb::arg("count"), "The gradient of a parameter.")
      .def(
          "report",
          [](const Precision& p, const std::string& facts, const std::string& command) {
            const Json given = Json::parse(facts);
            trainings::ModelFacts f{given.at("model"),  p.policy.name,     p.policy.json,       p.seed,
                                    given.at("steps"),  given.at("calls"), given.at("updates"), given.at("losses"),
                                    given.at("births"), given.at("events")};
            return trainings::model_report(p.watch.get(), f, command).to_json().dump();
          },
          nb::arg("facts"), nb::arg("command"), "The report of what was watched, as JSON. facts: JSON.")
      .def("product", &Precision::product, nb::arg("operator"), nb::arg("name"), nb::arg("which"), nb::arg("count"),
           nb::arg("m"), nb::arg("n"), nb::arg("k"), nb::arg("a"), nb::arg("a_turned"), nb::arg("b"),
           nb::arg("b_turned"), nb::arg("bias"), nb::arg("d"),
           "d = a b + bias for an operator of that name, by addresses of float32; which: forward, to-input, to-weight.")
      .def(
          "cast",
          [](Precision& p, const std::string& kind, const std::string& name, const std::string& role, Address values,
             std::size_t count) {
            const Site site{kind_named(kind), name};
            const Role its = role_named(role);
            const nb::gil_scoped_release released;
            p.numerics.cast(site, its, write_at(values, count));
          },
          nb::arg("operator"), nb::arg("name"), nb::arg("role"), nb::arg("values"), nb::arg("count"),
          "Rounds a tensor in place for its role.")
      .def(
          "column_sums",
          [](Precision& p, const std::string& kind, const std::string& name, std::size_t rows, std::size_t columns,
             Address values, Address sums) {
            const Site site{kind_named(kind), name};
            const nb::gil_scoped_release released;
            p.numerics.column_sums(site, columns, read_at(values, rows * columns), write_at(sums, columns));
          },
          nb::arg("operator"), nb::arg("name"), nb::arg("rows"), nb::arg("columns"), nb::arg("values"), nb::arg("sums"))
      .def(
          "state", [](const Precision& p) { return p.numerics.state().dump(); }, "Delayed scales, as JSON.")
      .def(
          "restore", [](Precision& p, const std::string& state) { p.numerics.restore(Json::parse(state), "state"); },
          nb::arg("state"));
}

}  // namespace halfulp::python
