// Ctrl-C while an experiment runs: it stops soon at any point, with exit status 130, one line and no file.
#include "command.hpp"

#include <gtest/gtest.h>

#include <halfulp_test_paths.hpp>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>

namespace interrupt_test {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

class Interrupt : public ::testing::Test {
 protected:
  Interrupt() { fs::create_directories(reports); }
  ~Interrupt() override { fs::remove_all(folder); }

  /// Starts an experiment, sends a signal after `delay`, and checks what is left.
  void expect_stops(const std::string& experiment, const std::vector<std::string>& settings,
                    std::chrono::milliseconds delay = 400ms, int signal = SIGINT) {
    std::string line = experiment;
    std::vector<std::string> words{HALFULP_COMMAND,       "run", experiment, "--backend", "emulated", "--out",
                                   reports.string() + "/"};
    for (const std::string& setting : settings) {
      words.insert(words.end(), {"--set", setting});
      line += " " + setting;
    }
    halfulp::tests::Program program(words);
    std::this_thread::sleep_for(delay);
    const auto sent = Clock::now();
    program.send(signal);
    const auto outcome = program.wait_for(20s);
    const double seconds = std::chrono::duration<double>(Clock::now() - sent).count();
    ASSERT_TRUE(outcome) << line << " does not stop";
    ASSERT_FALSE(outcome->killed) << line;
    EXPECT_EQ(outcome->status, 130) << line << ": it must still run after " << delay.count() << " ms";
    EXPECT_LT(seconds, 1) << line;  // a fifth of that on an idle machine
    EXPECT_TRUE(fs::is_empty(reports)) << line;
    EXPECT_EQ(outcome->err, "halfulp: interrupted; no file is half-written\n") << line;
  }

  const fs::path folder = fs::path(::testing::TempDir()) / ("halfulp-interrupt-" + std::to_string(::getpid())),
                 reports = folder / "reports";
};

TEST_F(Interrupt, BothSignals) {
  for (const int signal : {SIGINT, SIGTERM}) expect_stops("underflow", {"count=100000000"}, 300ms, signal);
}

TEST_F(Interrupt, LongLoopsOfEveryExperiment) {
  expect_stops("position_ids", {"formats=bf16", "lengths=1048576", "rope_dim=512", "alibi_heads=256"}, 1000ms);
  const std::string no_harmonics = "harmonic_limit=10", no_ones = "ones=10";
  expect_stops("accumulation", {"known_formats=fp64", "harmonic_limit=20000000", no_ones});
  expect_stops("accumulation",
               {"formats=bf16", "roundings=stochastic", "orders=sequential", "lengths=1048576", "trials=1", "seeds=256",
                no_harmonics, no_ones},
               1500ms);
  const std::string no_steps = "steps=1", no_weights = "count=1";
  expect_stops("attribution", {"rows=256", "columns=256", "terms=4096", "formats=fp8-1x128"}, 1500ms);
  expect_stops("swamping",
               {"formats=fp16", no_steps, no_weights, "seeds=10000", "repair_steps=100000", "random_bits=8"});
  expect_stops("swamping", {"formats=fp32", no_steps, no_weights, "seeds=10", "repair_steps=100000"}, 1000ms);
  expect_stops("swamping",
               {"formats=fp16", no_steps, no_weights, "seeds=10", "repair_steps=1", "training_steps=1000000"}, 1000ms);
}

/// A pipe that nobody writes to, and one whose writer stays silent.
TEST_F(Interrupt, WhileTheInputKeepsUsWaiting) {
  const std::string pipe = folder / "pipe.npy";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  expect_stops("underflow", {"input=" + pipe});
  const int writer = ::open(pipe.c_str(), O_RDWR);
  ASSERT_GE(writer, 0);
  ASSERT_EQ(::write(writer, "\x93NUMPY", 6), 6);
  expect_stops("underflow", {"input=" + pipe});
  ::close(writer);
}

/// A pipe that nobody reads, as the report's file; and a full one as standard output.
TEST_F(Interrupt, WhileNobodyReadsTheOutput) {
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const auto expect_ends = [](halfulp::tests::Program& program) {
    std::this_thread::sleep_for(1500ms);  // so that it waits, or will soon
    program.send(SIGINT);
    const auto outcome = program.wait_for(20s);
    ASSERT_TRUE(outcome);
    EXPECT_EQ(outcome->status, 130) << outcome->err;
    EXPECT_EQ(outcome->err, "halfulp: interrupted; no file is half-written\n");
  };
  const std::vector<std::string> run{HALFULP_COMMAND, "run",      "underflow", "--set", "count=64",
                                     "--backend",     "emulated", "--quiet",   "--out"};
  std::vector<std::string> to_pipe = run, to_output = run;
  to_pipe.push_back(pipe), to_output.push_back("-");
  {
    halfulp::tests::Program program(to_pipe);
    expect_ends(program);
  }
  const int reader = ::open(pipe.c_str(), O_RDWR | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  halfulp::tests::Program program(to_output, {}, pipe.c_str());
  expect_ends(program);
  ::close(reader);
}

/// Whoever reads a pipe gets all of the report.
TEST_F(Interrupt, PipesAreWritten) {
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::string read;
  std::thread reader([&] {
    std::this_thread::sleep_for(300ms);
    std::ifstream in(pipe);
    read.assign(std::istreambuf_iterator<char>(in), {});
  });
  const auto outcome = halfulp::tests::run_halfulp(
      {"run", "underflow", "--set", "count=64", "--backend", "emulated", "--quiet", "--out", pipe});
  reader.join();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(read.starts_with("{\n") && read.ends_with("}\n")) << read.size();
  EXPECT_GT(read.size(), 65'536u);  // more than a pipe holds
}

/// The pipe is read where somebody writes, in pieces and after a pause.
TEST_F(Interrupt, PipesAreRead) {
  const std::string pipe = folder / "pipe.npy";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (30000,), }";
  header.resize(117, ' ');
  const std::string file = std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + "\n" + std::string(120'000, '\x3c');
  std::thread writer([&] {
    std::this_thread::sleep_for(200ms);
    std::ofstream out(pipe, std::ios::binary);
    out << file.substr(0, 8) << std::flush;
    std::this_thread::sleep_for(200ms);
    out << file.substr(8);
  });
  const auto outcome = halfulp::tests::run_halfulp(
      {"run", "underflow", "--set", "input=" + pipe, "--backend", "emulated", "--out", reports.string() + "/"});
  writer.join();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
}

}  // namespace interrupt_test
