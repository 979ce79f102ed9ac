#include <halfulp/training/runs/runs.hpp>

#include <halfulp/data/saved_gradients.hpp>
#include <halfulp/report/trials.hpp>
#include <halfulp/support/work.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace halfulp::trainings {
namespace {

std::vector<std::uint64_t> shape_of(const training::Extents& extents) {
  std::vector<std::uint64_t> shape;
  for (std::size_t axis = 0; axis < extents.rank(); ++axis) shape.push_back(extents[axis]);
  return shape;
}

/// Activations have a row an example (of text: a character), which blocks of scales lie along.
std::vector<std::uint64_t> by_rows(std::size_t count, std::size_t rows) {
  if (rows == 0 || count % rows != 0) return {count};
  return {rows, count / rows};
}

}  // namespace

void keep_gradients(training::Trainer& trainer, const std::string& folder, Json about) {
  const auto saved = std::make_shared<SavedGradients>(folder, std::move(about), trainer.steps());
  trainer.microscope().spy = [saved, &trainer](const training::Sighting& s) {
    if (s.operand || s.role != training::Role::gradient_of_activation) return;
    saved->add_activation(trainer.steps(), s.site.name, trainer.scale(), by_rows(s.values.size(), trainer.rows()),
                          s.values);
  };
  trainer.after_backward = [saved](training::Trainer& t) {
    if (!t.microscope().counts()) return;
    for (const auto* const p : t.parameters())
      if (p->has_gradient)
        saved->add(t.steps(), p->name + ".gradient", GradientKind::of_weight, t.scale(),
                   shape_of(p->gradient.extents()), p->gradient.values());
    saved->finish();  // now, since the run may end at any step
  };
}

namespace {

using Sites = std::vector<std::pair<training::OperatorKind, std::string>>;

/// What a step of the network meets.
Sites sites_of(const Job& job, const Data& data, const Config& config) {
  training::TrainerSettings settings = job.settings;
  settings.steps = 2, settings.interval = 1, settings.test_every = 0;  // so that one interval is a step without a test
  const auto examples = data.examples(config, settings.network, job.classes, job.batch);
  const training::Policy fp32 = training::find_policy("fp32");
  training::Trainer trainer(settings, fp32, *examples);
  trainer.run_interval();
  return trainer.sites();
}

bool is_there(const training::Policy::Rule& rule, const std::string& pattern, const Sites& sites) {
  return std::any_of(sites.begin(), sites.end(), [&](const auto& site) {
    return rule.speaks_of(site.first) && training::Policy::Rule::names(pattern, site.second);
  });
}

/// The layers that a rule could have meant, without what is inside them.
std::string layers_of(const training::Policy::Rule& rule, const Sites& sites) {
  std::set<std::string> names;  // "fc1" comes before "fc1.bias"
  const auto inside = [&](const std::string& name) {
    return std::any_of(names.begin(), names.end(),
                       [&](const std::string& other) { return training::Policy::Rule::names(other, name); });
  };
  for (const auto& [kind, name] : sites)
    if (rule.speaks_of(kind) && !inside(name)) names.insert(name);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

void require_layers(const std::vector<Job>& jobs, const Data& data, const Config& config) {
  std::map<const training::Policy*, std::vector<const Job*>> by_policy;  // a job of each of its networks
  for (const Job& job : jobs) {
    std::vector<const Job*>& of = by_policy[job.policy];
    if (std::none_of(of.begin(), of.end(),
                     [&](const Job* other) { return other->settings.network == job.settings.network; }))
      of.push_back(&job);
  }
  std::map<std::string, Sites> by_network;
  for (const Job& job : jobs) {  // in the order in which they were asked for
    const auto found = by_policy.find(job.policy);
    if (found == by_policy.end()) continue;
    for (const training::Policy::Rule& rule : job.policy->rules)
      for (const std::string& pattern : rule.layers) {
        Sites all;
        for (const Job* const of : found->second) {
          const std::string& network = of->settings.network;
          if (!by_network.contains(network)) by_network[network] = sites_of(*of, data, config);
          all.insert(all.end(), by_network[network].begin(), by_network[network].end());
        }
        if (is_there(rule, pattern, all)) continue;
        const std::string accepted = layers_of(rule, all);
        throw std::invalid_argument(fmt::format(
            "policies: {} has a rule for the layer '{}', which is not in {}; accepted: {}", job.policy->name,
            shown(pattern), job.settings.network, accepted.empty() ? "none: there are no such operators" : accepted));
      }
    by_policy.erase(found);
  }
}

namespace {

namespace fs = std::filesystem;

/// Where a training is saved; nothing if it is not.
std::string checkpoint_path(const Config& config, const Job& job) {
  const std::string folder = config.text("checkpoints");
  return folder.empty() ? "" : (fs::path(folder) / (job.label + ".checkpoint")).string();
}

/// Besides the trainer's own identity, what its examples are.
Json with_data(Json identity, const Config& config, const Data& data, const Job& job) {
  identity["data"] = data.identity();
  identity["batch"] = job.batch;
  identity["preset"] = config.text("preset");
  for (const char* const name : {"train_examples", "test_examples", "context"}) identity[name] = config.integer(name);
  identity["classes"] = job.classes;
  identity["start"] = job.start;
  return identity;
}

void make_folder(const Config& config) {
  const std::string folder = config.text("checkpoints");
  std::error_code error;
  if (!folder.empty()) fs::create_directories(folder, error);
  if (error)
    throw std::invalid_argument(fmt::format("checkpoints: cannot make the folder {}: {}", folder, error.message()));
}

/// Whether this training shows backends what it rounds: one of each policy does.
bool records_operands(const std::vector<Job>& jobs, std::size_t i) {
  return std::none_of(jobs.begin(), jobs.begin() + static_cast<std::ptrdiff_t>(i),
                      [&](const Job& before) { return before.policy == jobs[i].policy; });
}

/// Trains for as long as `goes_on` says, asked after each interval, and samples what is rounded.
void sample(const Job& job, const Data& data, const Config& config, Trace& into, const std::function<bool()>& goes_on) {
  const auto examples = data.examples(config, job.settings.network, job.classes, job.batch);
  training::Trainer trainer(job.settings, *job.policy, *examples);
  if (job.attend) job.attend(trainer);
  if (job.prepare) job.prepare(trainer);
  trainer.microscope().sample_into(&into);
  while (trainer.run_interval() && goes_on()) {}
}

}  // namespace

Job make_job(const Config& config, const std::string& network, const training::Policy& policy,
             const std::string& variant, std::uint64_t seed, const Data& data, const training::Examples& examples) {
  Job job;
  job.label = fmt::format("{}-{}-{}", network, variant, seed);
  job.variant = variant;
  job.policy = &policy;
  job.settings = settings(config, network, seed, data, examples.steps_per_epoch());
  job.batch = batch_size(config, network);
  job.train = examples.train_size(), job.test = examples.test_size();
  try {
    job.parameters = training::parameter_count(*training::make_network<float>(network, job.settings.options));
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(fmt::format("networks: {}: {}", network, error.what()));
  }
  return job;
}

Json identity_of(const Job& job, const Config& config, const Data& data) {
  Json item = with_data(training::identity_of(job.settings, *job.policy), config, data, job);
  item["keepsake"] = job.keepsake.what;
  item["data"] = data.identity(job.settings.network);
  return item;
}

namespace {

/// The trainings of a list, each a trial.
class Trainings {
 public:
  Trainings(const std::vector<Job>& jobs, const Data& data, const Config& config, Run& run, double from, double to)
      : jobs_(jobs),
        data_(data),
        config_(config),
        run_(run),
        from_(from),
        to_(to),
        records_(jobs.size()),
        keepsakes_(jobs.size()),
        gradients_(config.text("save_gradients")) {
    if (stored() && !gradients_.empty())
      throw std::invalid_argument("save_gradients: a store does not keep them; accepted: without --store");
    for (const Job& job : jobs) all_steps_ += job.settings.steps;
  }

  std::vector<training::TrainingRecord> train() {
    const std::vector<Trial> trials = trials_of_jobs();
    run_trials(
        run_, {"training", 2}, trials,
        {[&](std::size_t i, Trace& trace, const std::atomic<bool>& stop) { train_one(i, trace, stop); },
         [&](std::size_t i) { return Json{{"record", training::to_json(records_[i])}, {"keepsake", keepsakes_[i]}}; },
         [&](std::size_t i, const Json& json, const std::string& where) { read(i, json, where); }});
    if (stored() && run_.trace.limit() > 0) add_operands(trials);
    for (std::size_t i = 0; i < jobs_.size(); ++i)
      if (jobs_[i].keepsake.use) jobs_[i].keepsake.use(keepsakes_[i], jobs_[i].label);
    return std::move(records_);
  }

 private:
  bool stored() const { return run_.source && run_.source->store; }

  std::vector<Trial> trials_of_jobs() const {
    std::vector<Trial> trials;
    for (const Job& job : jobs_) trials.push_back({job.label, identity_of(job, config_, data_)});
    return trials;
  }

  void train_one(std::size_t i, Trace& trace, const std::atomic<bool>& stop) {
    const Job& job = jobs_[i];
    const auto examples = data_.examples(config_, job.settings.network, job.classes, job.batch);
    training::Trainer trainer(job.settings, *job.policy, *examples);
    if (job.attend) job.attend(trainer);
    // With a store operands are trials of their own: which trainings show them depends on the others.
    if (!stored() && records_operands(jobs_, i)) trainer.microscope().sample_into(&trace);
    const std::string file = checkpoint_path(config_, job);
    if (!file.empty() && fs::exists(file))
      trainer.restore(training::read_checkpoint(file, with_data(trainer.identity(), config_, data_, job)));
    else if (job.prepare) job.prepare(trainer);
    if (i == 0 && !gradients_.empty() && trainer.steps() >= job.settings.steps)
      throw std::invalid_argument(
          "save_gradients: it is finished in its checkpoint, and its gradients are gone; accepted: another folder of "
          "checkpoints");
    if (i == 0 && !gradients_.empty())
      keep_gradients(trainer, gradients_,
                     {{"network", job.settings.network}, {"policy", job.policy->name}, {"seed", job.settings.seed}});
    trainer.after_step = [&](training::Trainer&) {
      if (stop) throw Interrupted{};
      ++done_;
      if (done_ % 16 == 0) tell(job, trainer);
    };
    done_ += trainer.steps();
    while (trainer.run_interval()) {
      if (trace.is_full()) trainer.microscope().sample_into(nullptr);
      if (file.empty()) continue;
      training::Checkpoint checkpoint = trainer.checkpoint();
      checkpoint.identity = with_data(checkpoint.identity, config_, data_, job);
      training::write_checkpoint(file, checkpoint);
    }
    done_ += job.settings.steps - trainer.steps();  // of one that ended early
    if (job.keepsake.make) keepsakes_[i] = job.keepsake.make(trainer);
    records_[i] = trainer.record();
    tell(job, trainer);
  }

  void read(std::size_t i, const Json& json, const std::string& where) {
    Members members(json, where);
    records_[i] = training::record_from_json(members.need("record"), members.at("record"));
    keepsakes_[i] = members.need("keepsake");
    members.finish();
    done_ += jobs_[i].settings.steps;
  }

  /// What backends shall see of each policy, from as many steps as that takes.
  void add_operands(const std::vector<Trial>& trials) {
    std::vector<Trial> shown;
    std::vector<std::size_t> of;
    for (std::size_t i = 0; i < jobs_.size(); ++i)
      if (records_operands(jobs_, i)) of.push_back(i), shown.push_back(trials[i]);
    run_trials(run_, {"sampled_training", 2}, shown,
               {[&](std::size_t k, Trace& trace, const std::atomic<bool>& stop) {
                  sample(jobs_[of[k]], data_, config_, trace, [&] {
                    if (stop) throw Interrupted{};
                    return !trace.is_full();
                  });
                },
                [](std::size_t) { return Json(); }, [](std::size_t, const Json&, const std::string&) {}});
  }

  void tell(const Job& job, const training::Trainer& trainer) {
    const std::unique_lock lock(telling_, std::try_to_lock);
    if (!lock.owns_lock()) return;  // another training is telling
    run_.progress(from_ + (to_ - from_) * static_cast<double>(done_) / static_cast<double>(all_steps_));
    if (run_.note)
      run_.note(fmt::format("{} step {} of {}, loss {:.3f}", job.label, trainer.steps(), job.settings.steps,
                            trainer.last_loss()));
  }

  const std::vector<Job>& jobs_;
  const Data& data_;
  const Config& config_;
  Run& run_;
  double from_, to_;
  std::vector<training::TrainingRecord> records_;
  std::vector<Json> keepsakes_;
  std::string gradients_;
  std::uint64_t all_steps_ = 0;
  std::atomic<std::uint64_t> done_{0};
  std::mutex telling_;
};

}  // namespace

std::vector<training::TrainingRecord> train(const std::vector<Job>& jobs, const Data& data, const Config& config,
                                            Run& run, double from, double to) {
  require_layers(jobs, data, config);
  make_folder(config);
  return Trainings(jobs, data, config, run, from, to).train();
}

void record_operands(const std::vector<Job>& jobs, const Data& data, const Config& config, Run& run) {
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (!records_operands(jobs, i)) continue;
    Trace own(run.trace.limit());
    sample(jobs[i], data, config, own, [&] { return run.trace.has_room_for(own); });
    run.trace.append(own);
    run.progress(static_cast<double>(i + 1) / static_cast<double>(jobs.size()));
  }
}

}  // namespace halfulp::trainings
