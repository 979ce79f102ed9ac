// What trainings record, field by field, for checkpoints. These records lie in JSON as lists (RecordLayout::list): a
// curve has thousands of rows. The order of fields is the file's.
#pragma once

#include <halfulp/support/record.hpp>
#include <halfulp/training/trainer.hpp>

namespace halfulp::training {

template <class V>
void fields(V& v, ExampleResult& x) {
  v("right", x.right);
  v("loss", x.loss);
}
/// Without its examples: of those of the last test a record says more.
template <class V>
void fields(V& v, TestResult& x) {
  v("loss", x.loss);
  v("accuracy", x.accuracy);
}
template <class V>
void fields(V& v, FirstNonFinite& x) {
  v("step", x.step);
  v("operator", x.kind, numbered_to(OperatorKind::optimizer));
  v("name", x.name);
  v("role", x.role, numbered_to(Role::communication));
}
template <class V>
void fields(V& v, Spike& x) {
  v("step", x.step);
  v("of_loss", x.of_loss);
  v("value", x.value);
  v("usual", x.usual);
}
template <class V>
void fields(V& v, NonFiniteGradients& x) {
  v("infinite", x.infinite);
  v("nan", x.nan);
  v("tensor", x.tensor);
  v("element", x.element);
}
template <class V>
void fields(V& v, NonFiniteStreak& x) {
  v("updates", x.updates);
  v("with_nan", x.with_nan);
  v("begun", x.begun);
  v("optimizer", x.optimizer);
  v("first", x.first);
}
template <class V>
void fields(V& v, ScalerEvent& x) {
  v("kind", x.kind, numbered_to(ScalerEvent::Kind::unnoticed));
  v("update", x.update);
  v("before", x.before);
  v("after", x.after);
  v("optimizer", x.optimizer);
  v("found", x.found);
  v("streak", x.streak);
}
template <class V>
void fields(V& v, Microscope::Row& x) {
  v("operator", x.kind, numbered_to(OperatorKind::optimizer));
  v("name", x.name);
  v("role", x.role, numbered_to(Role::communication));
  v("operand", x.operand);
  v("elements", x.elements);
  v("zeros", x.zeros);
  v("underflowed", x.underflowed);
  v("overflowed", x.overflowed);
  v("subnormal", x.subnormal);
  v("nan", x.nan);
}
template <class V>
void fields(V& v, UpdateReport& x) {
  v("elements", x.elements);
  v("with_update", x.with_update);
  v("swamped", x.swamped);
  v("changed", x.changed);
  v("zero_gradients", x.zero_gradients);
  v("second_underflowed", x.second_underflowed);
  v("zero_denominators", x.zero_denominators);
  v("non_finite", x.non_finite);
  v("weight_norm", x.weight_norm);
  v("gradient_norm", x.gradient_norm);
  v("update_norm", x.update_norm);
}
template <class V>
void fields(V& v, Microscope::UpdateRow& x) {
  v("name", x.name);
  v("sum", x.sum);
}
template <class V>
void fields(V& v, CurvePoint& x) {
  v("step", x.step);
  v("loss", x.loss);
  v("gradient_norm", x.gradient_norm);
  v("largest_norm", x.largest_norm);
  v("scale", x.scale);
  v("skipped", x.skipped);
  v("abnormal", x.abnormal);
  v("clipped", x.clipped);
  v("test", x.test);
  v("tensors", x.tensors);
  v("updates", x.updates);
}
template <class V>
void fields(V& v, StartNorm& x) {
  v("parameter", x.parameter);
  v("norm", x.norm);
}
template <class V>
void fields(V& v, TrainingRecord& x) {
  v("curve", x.curve);
  v("events", x.events);
  v("spikes", x.spikes);
  v("first_infinite", x.first_infinite);
  v("first_nan", x.first_nan);
  v("diverged", x.diverged);
  v("final", x.final);
  v("answers", x.final.examples);
  v("start", x.start);
}

}  // namespace halfulp::training
