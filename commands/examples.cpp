#include <halfulp/commands/examples.hpp>

#include <halfulp/report/experiment.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>

namespace halfulp::cli {
namespace {

constexpr auto of_commands = std::to_array<Example>({
    {"", "halfulp calc '0.1 + 0.2'"},
    {"", "halfulp explain 0.1 --format fp16"},
    {"", "halfulp list"},
    {"", "halfulp run underflow --set count=4096"},
    {"formats", "halfulp formats"},
    {"formats", "halfulp formats e4m3"},
    {"formats", "halfulp formats mxfp4"},
    {"explain", "halfulp explain 0.1 --format fp16"},
    {"explain", "halfulp explain -2.5 --format e5m2 --round toward-zero"},
    {"explain", "halfulp explain 1/3 --format bf16"},
    {"explain", "halfulp explain 0x7BFF --format fp16"},
    {"calc", "halfulp calc '0.1 + 0.2'"},
    {"calc", "halfulp calc 'sqrt(2) * sqrt(2) - 2' --format bf16"},
    {"calc", "halfulp calc '(1 + 2^-8) - 1' --format bf16,fp16 --trace"},
    {"eval", "halfulp eval add --format fp16 3C00 1000"},
    {"eval", "printf '3C00 1000\\n' | halfulp eval add --format fp16 --round to-odd"},
    {"eval", "halfulp eval convert --format fp32 --to bf16 3DCCCCCD"},
    {"eval", "echo '3C00 1000 3C01 01' | halfulp eval add --format fp16 --check", 1},
    {"quantize", "halfulp sample --out gradients.npy"},
    {"quantize", "halfulp quantize gradients.npy --format e5m2"},
    {"quantize",
     "halfulp quantize gradients.npy --format mxfp8e4m3 --out values.npy --codes codes.npy --scales scales.npy"},
    {"quantize", "halfulp quantize gradients.npy --format mxfp8e4m3 --out small.safetensors"},
    {"inspect", "halfulp sample --out gradients.npy"},
    {"inspect", "halfulp quantize gradients.npy --format mxfp8e4m3 --out small.safetensors"},
    {"inspect", "halfulp inspect small.safetensors --against gradients.npy", 1},
    {"inspect", "halfulp inspect gradients.npy --formats bf16,e4m3,mxfp8e4m3,nvfp4"},
    {"choose", "halfulp sample --out gradients.npy"},
    {"choose", "halfulp choose gradients.npy --bits 7 --set axes=1 --mix mix.json"},
    {"sample", "halfulp sample --out sample.npy"},
    {"sample", "halfulp sample --out wide.npy --shape 64,32,3 --distribution student-t --median -10"},
    {"list", "halfulp list"},
    {"run", "halfulp run underflow --set count=4096"},
    {"run", "halfulp run underflow --set formats=fp16,e4m3 --set count=4096 --out reports/second.json"},
    {"run", "halfulp run underflow --config reports/second.json --backend emulated --out reports/again.json"},
    {"run", "halfulp sample --out gradients.npy"},
    {"run", "halfulp run underflow --set input=gradients.npy --out reports/mine.json"},
    {"run",
     "halfulp run training --set policies=fp32,bf16-sr --set width=32 --set steps=20 --set seeds=2 --store trials"},
    {"trials",
     "halfulp trials training --set policies=fp32,bf16-sr --set width=32 --set steps=20 --set seeds=3 --store "
     "trials"},
    {"trial",
     "halfulp trial training --set policies=fp32,bf16-sr --set width=32 --set steps=20 --set seeds=3 --store "
     "trials --part 1/2"},
    {"store",
     "halfulp trial training --set policies=fp32,bf16-sr --set width=32 --set steps=20 --set seeds=3 --store "
     "trials --part 1/2"},
    {"store", "halfulp store trials"},
    {"store", "halfulp store trials --check"},
    {"campaign",
     "echo '{\"experiment\": \"training\", \"settings\": {\"width\": 32, \"steps\": 20, \"seeds\": 2}, "
     "\"grid\": {\"policies\": [\"fp32,amp-bf16\", \"fp32,bf16-sr\"]}}' > sweep.json"},
    {"campaign", "halfulp campaign sweep.json --store trials --list"},
    {"campaign", "halfulp campaign sweep.json --store trials --out campaign.json"},
    {"validate", "halfulp run underflow --set count=4096"},
    {"validate", "halfulp validate reports/underflow.json"},
    {"diff", "halfulp run underflow --set count=4096"},
    {"diff", "halfulp run underflow --set formats=fp16,e4m3 --set count=4096 --out reports/second.json"},
    {"diff", "halfulp diff reports/underflow.json reports/underflow.json"},
    {"diff", "halfulp diff reports/underflow.json reports/second.json", 1},
    {"diff", "halfulp sample --out gradients.npy"},
    {"diff", "halfulp quantize gradients.npy --format mxfp8e4m3 --out small.safetensors"},
    {"diff", "halfulp diff small.safetensors gradients.npy", 1},
    {"show", "halfulp run underflow --set count=4096"},
    {"show", "halfulp show reports/underflow.json"},
    {"show", "halfulp show reports/underflow.json best_scale"},
    {"show", "halfulp show reports/underflow.json claims --where verdict=pass --columns id,source,statement"},
    {"show", "halfulp show reports/underflow.json best_scale --where format=fp16 --csv"},
    {"page", "halfulp run underflow --set count=4096"},
    {"page", "halfulp run underflow --set formats=fp16,e4m3 --set count=4096 --out reports/second.json"},
    {"page", "halfulp page reports/underflow.json --out underflow.html"},
    {"page", "halfulp page reports/underflow.json reports/second.json --out difference.html"},
    {"page", "halfulp page reports/underflow.json --out pages/"},
    {"backends", "halfulp backends"},
    {"verify", "halfulp verify add --format e4m3 --against oracle --exhaustive"},
    {"verify", "halfulp verify convert --format fp32 --to fp16 --round all --against oracle --sample 100000"},
    {"ledger", "halfulp verify mul --format e4m3 --against oracle --ledger mine.json && halfulp ledger mine.json"},
    {"units", "halfulp units nvfp4"},
    {"units", "halfulp units H100 e4m3"},
    {"units", "halfulp units hopper.mma.fp16.fp32"},
    {"mma", "echo '3C00 4000 | 3C00 3C00 | 3F800000' | halfulp mma --unit hopper.mma.fp16.fp32"},
    {"mma", "echo '1 2 | 1 1 | 1' | halfulp mma --unit hopper.mma.fp16.fp32 --values"},
    {"mma", "echo '2 3 | 4 5 | 0 | 38 | 40' | halfulp mma --unit blackwell.tcgen05.nvfp4.fp32"},
    {"probe", "halfulp probe --backend emulated:hopper.mma.fp16.fp32"},
    {"record", "halfulp record --backend rehearsal --quick --out my-recording"},
    {"check", "halfulp check --backend recorded:amd-zen4 --tiles 1"},
    {"policies", "halfulp policies"},
    {"policies", "halfulp policies amp-fp16"},
    {"recommend",
     "halfulp recommend --network mlp --budget 0.05 --set width=32 --set steps=20 --set seeds=1 --policy mine.json"},
    {"recommend", "halfulp sample --out gradients.npy"},
    {"recommend",
     "mkdir -p saved && cp gradients.npy saved && halfulp recommend --tensors saved --out reports/tensors.json"},
    {"profiles", "halfulp profiles"},
    {"profiles", "halfulp profiles --of 449,465,inf,nan --from fp32 --to e4m3"},
    {"diff-profiles", "halfulp diff-profiles ml_dtypes cuda-satfinite --from fp16 --to e4m3"},
    {"witness", "halfulp witness add:fp16:nearest-even add:fp16:toward-zero"},
    {"witness", "halfulp witness ml_dtypes:fp16:e4m3 pytorch:fp16:e4m3"},
    {"witness", "halfulp witness volta.mma.fp16.fp32 hopper.mma.fp16.fp32"},
    {"witness", "halfulp witness sum:fp16 sum:fp16,order=pairwise"},
    {"completion", "halfulp completion bash > halfulp.bash"},
    {"man", "halfulp man explain > halfulp-explain.1"},
});

constexpr auto of_experiments = std::to_array<ExperimentExample>({
    {"underflow", "--set formats=fp16,e4m3 --set count=4096"},
    {"conversions", "--set 'chains=fp32>bf16>e4m3' --set samples=4096"},
    {"swamping", "--set formats=bf16 --set ratios=256,1024 --set training_steps=1000"},
    {"position_ids", "--set formats=bf16,fp16 --set lengths=4096"},
    {"accumulation", "--set formats=fp16 --set lengths=256 --set harmonic_limit=4096 --set unit_lengths=128"},
    {"recurrent", "--set formats=bf16 --set steps=1,64 --set sequences=1"},
    {"collectives", "--set formats=bf16 --set ranks=8,64"},
    {"attribution", "--set formats=mxfp8e4m3,nvfp4 --set lengths=512"},
    {"scaling", "--set formats=mxfp8e4m3,nvfp4 --set rows=64"},
    {"training",
     "--set networks=transformer --set policies=fp32,pure-fp16 --set depth=1 --set context=16 --set steps=5 --set "
     "seeds=1"},
    {"loss_scaling", "--set steps=4 --set gradient_steps=4"},
    {"grad_scaler", "--set micro_batches=1,4 --set largest=100"},
    {"finetune", "--set policies=fp32,pure-bf16 --set width=32 --set steps=20 --set seeds=1"},
    {"optimizer", "--set networks=mlp --set groups=eps --set steps=5 --set seeds=1"},
    {"recommendation", "--set steps=10 --set seeds=1 --set formats=bf16"},
    {"operators", "--set formats=bf16 --set samples=1 --set scales=1"},
    {"quantization", "--set bits=8 --set methods=max --set steps=4 --set qat_steps=4 --set seeds=1"},
    {"memory", "--set models=gpt2"},
    {"reproduce", "--set experiments=memory"},
});

}  // namespace

std::span<const Example> examples() { return of_commands; }

std::span<const ExperimentExample> experiment_examples() { return of_experiments; }

std::string example_of_experiment(std::string_view experiment, std::string_view program) {
  for (const ExperimentExample& row : of_experiments)
    if (row.experiment == experiment) return std::string(program) + " " + std::string(row.settings);
  return {};
}

std::vector<std::string> examples_of(const CLI::App& app, std::string_view program) {
  if (!app.get_parent() &&
      app.get_subcommands([](const CLI::App*) { return true; }).empty()) {  // underflow, halfulp-underflow
    constexpr std::string_view installed = "halfulp-";
    const std::string_view name = program.substr(0, installed.size()) == installed ? program.substr(installed.size())
                                                                                   : program;
    std::string line = example_of_experiment(name, program);
    return line.empty() ? std::vector<std::string>{} : std::vector{std::move(line)};
  }
  const std::string command = app.get_parent() ? app.get_name() : "";
  if (command == "run") {  // the experiment on the command line
    const CLI::Option* name = app.get_option_no_throw("experiment");
    const std::string experiment = name && name->count() ? name->results().front() : "";
    if (std::string line = example_of_experiment(experiment, std::string(program) + " " + experiment); !line.empty())
      return {std::move(line)};
  }
  std::vector<std::string> lines;
  for (const Example& example : of_commands)
    if (example.command == command)
      lines.push_back(std::string(example.line) +
                      (example.status ? "  # exit status " + std::to_string(example.status) : ""));
  return lines;
}

}  // namespace halfulp::cli
