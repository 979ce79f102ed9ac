#include <halfulp/training/trainer.hpp>

#include <halfulp/data/elementary.hpp>
#include <halfulp/support/work.hpp>
#include <halfulp/training/checkpoint.hpp>
#include <halfulp/training/record_fields.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace halfulp::training {
namespace {

/// Refuses what no training leaves behind between two intervals; tables rely on a curve that ends at the last step.
void check(const TrainingRecord& record, std::uint64_t step, const Members& state) {
  std::uint64_t last = 0;
  for (const CurvePoint& point : record.curve) {
    if (point.step <= last) state.fail("the steps of record.curve do not grow");
    last = point.step;
  }
  if (last != step) state.fail(fmt::format("record.curve ends at step {}, not at step {}", last, step));
  if (record.diverged && *record.diverged >= step)
    state.fail(fmt::format("record.diverged is {}, which is no step of {}", *record.diverged, step));
}

}  // namespace

Json to_json(const TrainerSettings& s) {
  const NetworkOptions& n = s.options;
  const OptimizerSettings& o = s.optimizer;
  return {{"network", s.network},
          {"options",
           {n.inputs, n.outputs, n.width, n.depth, n.heads, n.dropout, static_cast<int>(n.positions),
            static_cast<int>(n.norm)}},
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

Json to_json(const TrainingRecord& record) { return record_json<RecordLayout::list>(record); }

TrainingRecord record_from_json(const Json& json, const std::string& where) {
  return record_of<TrainingRecord, RecordLayout::list>(json, where);
}

Json to_json(const NetworkValues& values) {
  Json all = Json::object();
  for (const auto& [name, of] : values) {
    Json& list = all[name] = Json::array();
    for (const float x : of) list.push_back(number(static_cast<double>(x)));
  }
  return all;
}

NetworkValues values_from_json(const Json& json, const std::string& where) {
  if (!json.is_object()) JsonValue(json, where).refuse("an object of lists");
  NetworkValues values;
  for (const auto& [name, list] : json.items()) {
    std::vector<double> of;
    each(AnyNumber{}).read(JsonValue(list, where + "." + name), of);
    values.emplace(name, std::vector<float>(of.begin(), of.end()));
  }
  return values;
}

/// Sums over an interval.
struct Trainer::Interval {
  double loss = 0, norm = 0, largest = 0;
  std::uint64_t steps = 0, norms = 0, skipped = 0, abnormal = 0, clipped = 0;
};

std::uint64_t TrainingRecord::skipped() const {
  std::uint64_t all = 0;
  for (const CurvePoint& point : curve) all += point.skipped;
  return all;
}

Trainer::Trainer(const TrainerSettings& settings, const Policy& policy, Examples& examples)
    : settings_(settings),
      policy_(policy),
      examples_(examples),
      network_(make_network<float>(settings.network, settings.options)),
      numerics_(policy, settings.seed, &microscope_),
      interval_(std::make_unique<Interval>()) {
  initialise(*network_, settings.initialisation, settings.seed);
  parameters_ = network_->parameters();
  optimizer_ = std::make_unique<Optimizer>(parameters_, settings.optimizer, policy.update, settings.seed);
  if (policy.loss_scaling) scaler_.emplace(*policy.loss_scaling);
}
Trainer::~Trainer() = default;

double Trainer::learning_rate() const {
  const double lr = settings_.optimizer.lr;
  if (step_ < settings_.warmup) return lr * static_cast<double>(step_ + 1) / static_cast<double>(settings_.warmup);
  if (!settings_.cosine) return lr;
  const double share = static_cast<double>(step_ - settings_.warmup) /
                       static_cast<double>(std::max<std::uint64_t>(1, settings_.steps - settings_.warmup));
  return lr * (1 + cosine({share * 3.14159265358979323846, 0})) / 2;
}

void Trainer::step(bool count) {
  numerics_.begin_step(step_);
  microscope_.begin_step(step_, count);
  examples_.training(settings_.seed, step_, batch_);
  for (TrainedParameter<float>* const p : parameters_) p->forget_gradient();
  Pass<float> pass{numerics_, true, settings_.seed, step_};
  const Tensor<float>& logits = network_->forward(pass, batch_.x);
  last_loss_ = static_cast<double>(loss_.forward(pass, logits, batch_.labels));
  if (scaler_) scaler_->scale(static_cast<float>(last_loss_));
  network_->backward(pass, loss_.backward(pass, scaler_ ? scaler_->factor() : 1.0f));
  for (TrainedParameter<float>* const p : parameters_)
    if (p->has_gradient) numerics_.cast({OperatorKind::optimizer, p->name}, Role::communication, p->gradient.values());
  numerics_.end_step();
  if (after_backward) after_backward(*this);
  update(count);
  ++step_;
}

void Trainer::shrink_embedding() {
  for (TrainedParameter<float>* const p : parameters_)
    if (p->kind == ParameterKind::table && p->has_gradient)
      for (float& g : p->gradient.values()) g *= static_cast<float>(settings_.embedding_shrink);
}

bool Trainer::clip(std::vector<std::span<float>>& gradients, double& norm) {
  std::vector<std::span<float>> of;
  for (TrainedParameter<float>* const p : parameters_)
    if (p->has_gradient && (!settings_.clip_embedding || p->kind == ParameterKind::table))
      of.push_back(p->gradient.values());
  if (of.empty()) return false;
  const Clipping clipping = clip_gradients(of, static_cast<float>(settings_.clip_norm));
  if (of.size() == gradients.size()) norm = clipping.norm;
  return clipping.coefficient < 1;
}

void Trainer::update(bool count) {
  if (settings_.embedding_shrink != 1) shrink_embedding();
  std::vector<std::span<float>> gradients;
  for (TrainedParameter<float>* const p : parameters_)
    if (p->has_gradient) gradients.push_back(p->gradient.values());
  if (scaler_) scaler_->unscale(0, gradients);
  double norm = gradient_norm(gradients);
  const bool finite = std::isfinite(norm);
  const double usual = spikes_.usual_norm();
  const bool abnormal = settings_.skip_abnormal > 0 && usual > 0 && finite && norm > settings_.skip_abnormal * usual;
  spikes_.see(step_, last_loss_, norm, record_.spikes);
  if (settings_.clip_norm > 0 && finite) interval_->clipped += clip(gradients, norm);
  optimizer_->set_lr(learning_rate());
  std::vector<UpdateReport> reports;
  const auto take = [&] { optimizer_->step(count ? &reports : nullptr); };
  bool taken = !abnormal;
  if (abnormal) {
    ++interval_->abnormal;
  } else if (scaler_) {
    taken = scaler_->step(0, gradients, take);
    interval_->skipped += !taken;
  } else {
    take();
  }
  if (scaler_) {
    scaler_->update();
    for (ScalerEvent& event : scaler_->take_events()) record_.events.push_back(event);
  }
  if (taken && count) microscope_.see_updates(parameters_, reports);
  ++interval_->steps;
  interval_->loss += last_loss_;
  if (finite) {
    ++interval_->norms;
    interval_->norm += norm;
    interval_->largest = std::max(interval_->largest, norm);
  }
  if (taken && !parameters_are_finite()) record_.diverged = step_;
}

bool Trainer::parameters_are_finite() const {
  for (const TrainedParameter<float>* const p : parameters_)
    if (has_non_finite(std::as_const(p->value).values())) return false;
  return true;
}

bool Trainer::run_interval() {
  if (step_ >= settings_.steps || record_.diverged) return false;
  *interval_ = {};
  if (step_ == 0)
    for (const TrainedParameter<float>* const p : parameters_)
      record_.start.push_back({p->name, norm_of(std::as_const(p->value).values())});
  const std::uint64_t end = std::min(settings_.steps, (step_ / settings_.interval + 1) * settings_.interval);
  while (step_ < end && !record_.diverged) {
    stop_if_interrupted();
    step(step_ == 0 || step_ + 1 == end);
    if (after_step) after_step(*this);
  }
  const Interval& in = *interval_;
  CurvePoint point;
  point.step = step_;
  point.loss = in.loss / static_cast<double>(in.steps);
  point.gradient_norm = in.norms ? in.norm / static_cast<double>(in.norms) : std::numeric_limits<double>::quiet_NaN();
  point.largest_norm = in.norms ? in.largest : std::numeric_limits<double>::quiet_NaN();
  point.scale = scale();
  point.skipped = in.skipped, point.abnormal = in.abnormal, point.clipped = in.clipped;
  point.tensors = microscope_.take_rows();
  point.updates = microscope_.take_updates();
  record_.first_infinite = microscope_.first_infinite();
  record_.first_nan = microscope_.first_nan();
  const bool last = step_ == settings_.steps || record_.diverged;
  const std::uint64_t intervals = (step_ + settings_.interval - 1) / settings_.interval;
  if (last || (settings_.test_every && intervals % settings_.test_every == 0)) point.test = test();
  if (last) record_.final = *point.test;
  if (point.test) point.test->examples.clear();
  record_.curve.push_back(std::move(point));
  return true;
}

void Trainer::run() {
  while (run_interval()) {}
}

TestResult Trainer::test(const Examples& examples) {
  if (record_.diverged) return {std::numeric_limits<double>::quiet_NaN(), 0};
  microscope_.pause(true);
  const TestResult result = test_network(numerics_, *network_, examples);
  microscope_.pause(false);
  return result;
}

TestResult test_network(Numerics<float>& numerics, Module<float>& network, const Examples& examples) {
  Pass<float> pass{numerics, false};
  // The loss measures the network, so a policy that rounds losses does not round this one.
  ExactNumerics exact;
  Pass<double> measuring{exact, false};
  CrossEntropy<double> cross_entropy;
  Tensor<double> exact_logits;
  Batch batch;
  TestResult result;
  std::uint64_t right = 0, all = 0;
  for (std::size_t i = 0; i < examples.test_batches(); ++i) {
    stop_if_interrupted();
    examples.test(i, batch);
    const Tensor<float>& logits = network.forward(pass, batch.x);
    exact_logits.resize(logits.extents());
    std::copy(logits.values().begin(), logits.values().end(), exact_logits.values().begin());
    result.loss += cross_entropy.forward(measuring, exact_logits, batch.labels) *
                   static_cast<double>(batch.labels.size());
    const std::size_t examples_here = batch.x.extents()[0], each = batch.labels.size() / examples_here;
    for (std::size_t e = 0; e < examples_here; ++e) {
      ExampleResult& example = result.examples.emplace_back();
      for (std::size_t r = e * each; r < (e + 1) * each; ++r) {
        const std::span<const float> row = logits.row(r);
        const auto label = static_cast<std::size_t>(batch.labels[r]);
        const bool is_right = std::max_element(row.begin(), row.end()) - row.begin() == batch.labels[r];
        right += is_right;
        example.right += is_right / static_cast<double>(each);
        example.loss -= cross_entropy.log_probabilities().row(r)[label] / static_cast<double>(each);
      }
    }
    all += batch.labels.size();
  }
  result.loss /= static_cast<double>(all);
  result.accuracy = static_cast<double>(right) / static_cast<double>(all);
  return result;
}

NetworkValues Trainer::values() const {
  NetworkValues all;
  const auto keep = [&](const std::string& name, std::span<const float> from) {
    all[name].assign(from.begin(), from.end());
  };
  for (const TrainedParameter<float>* const p : parameters_) keep(p->name, p->value.values());
  for (const ModuleState<float>* const s : network_->states()) keep(s->name, std::as_const(s->value).values());
  return all;
}

void Trainer::start_from(const NetworkValues& values) {
  if (step_ != 0) throw std::logic_error("start_from after " + std::to_string(step_) + " steps");
  std::map<std::string, std::span<float>> own;
  for (TrainedParameter<float>* const p : parameters_) own[p->name] = p->value.values();
  for (ModuleState<float>* const s : network_->states()) own[s->name] = s->value.values();
  const auto fits = [&](const auto& entry) {
    return own.contains(entry.first) && own.at(entry.first).size() == entry.second.size();
  };
  if (values.size() != own.size() || !std::all_of(values.begin(), values.end(), fits))
    throw std::invalid_argument("values of another network than " + settings_.network +
                                " with these options; accepted: what values() gave of one alike");
  for (const auto& entry : values) std::copy(entry.second.begin(), entry.second.end(), own.at(entry.first).begin());
  optimizer_->begin();
}

Json identity_of(const TrainerSettings& settings, const Policy& policy) {
  return {{"settings", to_json(settings)}, {"policy", policy.identity()}};
}

Json Trainer::identity() const { return identity_of(settings_, policy_); }

Checkpoint Trainer::checkpoint() const {
  Checkpoint c;
  c.identity = identity();
  c.state = {{"step", step_},
             {"record", to_json(record_)},
             {"numerics", numerics_.state()},
             {"microscope", microscope_.state()},
             {"spikes", spikes_.state()},
             {"scaler", scaler_ ? scaler_->state() : Json()}};
  for (const TrainedParameter<float>* const p : parameters_) c.add(p->name, p->value.values());
  for (const ModuleState<float>* const s : network_->states()) c.add(s->name, std::as_const(s->value).values());
  optimizer_->save(c);
  return c;
}

void Trainer::restore(const Checkpoint& c) {
  for (TrainedParameter<float>* const p : parameters_) c.take(p->name, p->value.values());
  for (ModuleState<float>* const s : network_->states()) c.take(s->name, s->value.values());
  optimizer_->restore(c);
  Members state(c.state, c.place());
  state.find("optimizer");
  step_ = static_cast<std::uint64_t>(state["step"].integer(0, static_cast<std::int64_t>(settings_.steps)));
  record_ = record_from_json(state.need("record"), state.at("record"));
  check(record_, step_, state);
  numerics_.restore(state.need("numerics"), state.at("numerics"));
  microscope_.restore(state.need("microscope"), state.at("microscope"));
  spikes_.restore(state.need("spikes"), state.at("spikes"));
  const Json& scaler = state.need("scaler");
  if (scaler_) scaler_->restore(scaler, state.at("scaler"));
  state.finish();
}

}  // namespace halfulp::training
