#include <halfulp/training/runs/runs.hpp>

#include <halfulp/data/saved_gradients.hpp>
#include <halfulp/support/work.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <atomic>
#include <exception>
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

std::vector<training::TrainingRecord> train(const std::vector<Job>& jobs, const Data& data, const Config& config,
                                            Run& run, double from, double to) {
  require_layers(jobs, data, config);
  make_folder(config);
  std::vector<training::TrainingRecord> records(jobs.size());
  std::uint64_t all_steps = 0;
  for (const Job& job : jobs) all_steps += job.settings.steps;
  std::atomic<std::uint64_t> done{0};
  std::mutex telling;
  std::vector<Trace> traces(jobs.size(), Trace(run.trace.limit()));
  // An exception that left the loop would cancel the loops inside the other trainings, which then leave their results
  // as they are: it waits until these have ended.
  std::exception_ptr failure;
  std::atomic<bool> failed{false};
  const auto train_one = [&](std::size_t i) {
    const Job& job = jobs[i];
    const auto examples = data.examples(config, job.settings.network, job.classes, job.batch);
    training::Trainer trainer(job.settings, *job.policy, *examples);
    if (job.attend) job.attend(trainer);
    if (records_operands(jobs, i)) trainer.microscope().sample_into(&traces[i]);
    const std::string file = checkpoint_path(config, job);
    if (!file.empty() && fs::exists(file))
      trainer.restore(training::read_checkpoint(file, with_data(trainer.identity(), config, data, job)));
    else if (job.prepare) job.prepare(trainer);
    if (i == 0 && !config.text("save_gradients").empty() && trainer.steps() >= job.settings.steps)
      throw std::invalid_argument(
          fmt::format("save_gradients: {} is finished in its checkpoint, and its gradients are gone; accepted: another "
                      "folder of checkpoints",
                      job.label));
    if (i == 0 && !config.text("save_gradients").empty())
      keep_gradients(trainer, config.text("save_gradients"),
                     {{"network", job.settings.network}, {"policy", job.policy->name}, {"seed", job.settings.seed}});
    const auto tell = [&] {
      const std::unique_lock lock(telling, std::try_to_lock);
      if (!lock.owns_lock()) return;  // another training is telling
      run.progress(from + (to - from) * static_cast<double>(done) / static_cast<double>(all_steps));
      if (run.note)
        run.note(fmt::format("{} step {} of {}, loss {:.3f}", job.label, trainer.steps(), job.settings.steps,
                             trainer.last_loss()));
    };
    trainer.after_step = [&](training::Trainer&) {
      if (failed) throw Interrupted{};
      ++done;
      if (done % 16 == 0) tell();
    };
    done += trainer.steps();
    while (trainer.run_interval())
      if (!file.empty()) {
        training::Checkpoint checkpoint = trainer.checkpoint();
        checkpoint.identity = with_data(checkpoint.identity, config, data, job);
        training::write_checkpoint(file, checkpoint);
      }
    done += job.settings.steps - trainer.steps();  // of one that ended early
    if (job.finish) job.finish(trainer);
    records[i] = trainer.record();
    tell();
  };
  tbb::parallel_for(std::size_t{0}, jobs.size(), [&](std::size_t i) {
    if (failed) return;
    std::exception_ptr mine;
    try {
      train_one(i);
    } catch (const std::invalid_argument& error) {
      mine = std::make_exception_ptr(std::invalid_argument(fmt::format("{}: {}", jobs[i].label, error.what())));
    } catch (...) { mine = std::current_exception(); }
    if (!mine) return;
    const std::lock_guard lock(telling);
    if (!failure) failure = mine;
    failed = true;
  });
  if (failure) std::rethrow_exception(failure);
  for (const Trace& trace : traces) run.trace.append(trace);
  return records;
}

void record_operands(const std::vector<Job>& jobs, const Data& data, const Config& config, Run& run) {
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (!records_operands(jobs, i)) continue;
    const Job& job = jobs[i];
    const auto examples = data.examples(config, job.settings.network, job.classes, job.batch);
    training::Trainer trainer(job.settings, *job.policy, *examples);
    if (job.attend) job.attend(trainer);
    if (job.prepare) job.prepare(trainer);
    Trace own(run.trace.limit());
    trainer.microscope().sample_into(&own);
    while (trainer.run_interval() && run.trace.has_room_for(own)) {}
    run.trace.append(own);
    run.progress(static_cast<double>(i + 1) / static_cast<double>(jobs.size()));
  }
}

}  // namespace halfulp::trainings
