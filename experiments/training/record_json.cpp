#include <halfulp/experiments/training/record_json.hpp>

#include <halfulp/experiments/report/report.hpp>

#include <limits>

namespace halfulp::training {
namespace {

// Each record type says its members once, to a writer and to a reader.

struct Writer {
  Json json = Json::array();
  void operator()(double x) { json.push_back(number(x)); }
  void operator()(const std::string& x) { json.push_back(x); }
  template <class T>
    requires std::is_integral_v<T> || std::is_enum_v<T>
  void operator()(T x) {
    if constexpr (std::is_enum_v<T>) json.push_back(static_cast<std::int64_t>(x));
    else json.push_back(x);
  }
  template <class T>
  void operator()(const std::optional<T>& x);
  template <class T>
  void operator()(const std::vector<T>& x);
  template <class T>
    requires requires(T& x, Writer& w) { visit(w, x); }
  void operator()(const T& x);
};

struct Reader {
  const Json& json;
  std::size_t next = 0;
  void operator()(double& x) {
    const Json& j = json.at(next++);
    if (j.is_number()) x = j.get<double>();
    else x = j == "NaN" ? std::numeric_limits<double>::quiet_NaN() : (j == "-Infinity" ? -1 : 1) * std::numeric_limits<double>::infinity();
  }
  void operator()(std::string& x) { x = json.at(next++); }
  template <class T>
    requires std::is_integral_v<T> || std::is_enum_v<T>
  void operator()(T& x) {
    if constexpr (std::is_enum_v<T>) x = static_cast<T>(json.at(next++).get<std::int64_t>());
    else x = json.at(next++).get<T>();
  }
  template <class T>
  void operator()(std::optional<T>& x);
  template <class T>
  void operator()(std::vector<T>& x);
  template <class T>
    requires requires(T& x, Reader& r) { visit(r, x); }
  void operator()(T& x);
};

template <class V>
void each(V&) {}
template <class V, class First, class... Rest>
void each(V& v, First& first, Rest&... rest) {
  v(first);
  each(v, rest...);
}

template <class V> void visit(V& v, TestResult& x) { each(v, x.loss, x.accuracy); }
template <class V> void visit(V& v, FirstNonFinite& x) { each(v, x.step, x.kind, x.name, x.role); }
template <class V> void visit(V& v, Spike& x) { each(v, x.step, x.of_loss, x.value, x.usual); }
template <class V> void visit(V& v, NonFiniteGradients& x) { each(v, x.infinite, x.nan, x.tensor, x.element); }
template <class V> void visit(V& v, NonFiniteStreak& x) { each(v, x.updates, x.with_nan, x.begun, x.optimizer, x.first); }
template <class V> void visit(V& v, ScalerEvent& x) { each(v, x.kind, x.update, x.before, x.after, x.optimizer, x.found, x.streak); }
template <class V> void visit(V& v, Microscope::Row& x) {
  each(v, x.kind, x.name, x.role, x.operand, x.elements, x.zeros, x.underflowed, x.overflowed, x.subnormal, x.nan);
}
template <class V> void visit(V& v, UpdateReport& x) {
  each(v, x.elements, x.with_update, x.swamped, x.changed, x.zero_gradients, x.second_underflowed, x.zero_denominators, x.non_finite, x.weight_norm,
       x.gradient_norm, x.update_norm);
}
template <class V> void visit(V& v, Microscope::UpdateRow& x) { each(v, x.name, x.sum); }
template <class V> void visit(V& v, CurvePoint& x) {
  each(v, x.step, x.loss, x.gradient_norm, x.largest_norm, x.scale, x.skipped, x.abnormal, x.clipped, x.test, x.tensors, x.updates);
}
template <class V> void visit(V& v, TrainingRecord& x) { each(v, x.curve, x.events, x.spikes, x.first_infinite, x.first_nan, x.diverged, x.final); }

template <class T>
  requires requires(T& x, Writer& w) { visit(w, x); }
void Writer::operator()(const T& x) {
  Writer inner;
  visit(inner, const_cast<T&>(x));  // a writer changes nothing
  json.push_back(std::move(inner.json));
}
template <class T>
void Writer::operator()(const std::optional<T>& x) {
  if (x) (*this)(*x);
  else json.push_back(nullptr);
}
template <class T>
void Writer::operator()(const std::vector<T>& x) {
  Writer inner;
  for (const T& one : x) inner(one);
  json.push_back(std::move(inner.json));
}
template <class T>
  requires requires(T& x, Reader& r) { visit(r, x); }
void Reader::operator()(T& x) {
  Reader inner{json.at(next++)};
  visit(inner, x);
}
template <class T>
void Reader::operator()(std::optional<T>& x) {
  if (json.at(next).is_null()) {
    x.reset();
    ++next;
  } else {
    (*this)(x.emplace());
  }
}
template <class T>
void Reader::operator()(std::vector<T>& x) {
  Reader inner{json.at(next++)};
  x.resize(inner.json.size());
  for (T& one : x) inner(one);
}

}  // namespace

Json to_json(const TrainerSettings& s) {
  const NetworkOptions& n = s.options;
  const OptimizerSettings& o = s.optimizer;
  return {{"network", s.network},
          {"options", {n.inputs, n.outputs, n.width, n.depth, n.heads, n.dropout, static_cast<int>(n.positions), static_cast<int>(n.norm)}},
          {"initialisation", {name_of(s.initialisation.kind), s.initialisation.scale}},
          {"optimizer", {name_of(o.kind), o.lr, o.momentum, o.beta1, o.beta2, o.eps, o.weight_decay, o.nesterov}},
          {"steps", s.steps},
          {"warmup", s.warmup},
          {"cosine", s.cosine},
          {"interval", s.interval},
          {"test_every", s.test_every},
          {"clip_norm", s.clip_norm},
          {"clip_embedding", s.clip_embedding},
          {"embedding_shrink", s.embedding_shrink},
          {"skip_abnormal", s.skip_abnormal},
          {"seed", s.seed}};
}

Json to_json(const TrainingRecord& record) {
  Writer writer;
  writer(record);
  return writer.json.at(0);
}

TrainingRecord record_from_json(const Json& json) {
  TrainingRecord record;
  Reader reader{json};
  visit(reader, record);
  return record;
}

}  // namespace halfulp::training
