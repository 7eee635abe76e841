// The command as users run it: output, exit status, speed of its start.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "gpu/loader.h"
#include "plan/example_plan.h"

namespace {

struct Result {
  int status;
  std::string output;
};

Result headrace(const std::string& arguments, const char* streams = "2>&1") {
  const std::string command =
      std::string(HEADRACE_BINARY_DIR "/bin/headrace ") + arguments + " " + streams;
  FILE* pipe = ::popen(command.c_str(), "r");
  std::string output;
  char buffer[4096];
  for (std::size_t size; (size = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
    output.append(buffer, size);
  const int status = ::pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, output};
}

class Command : public ::testing::Test {
 protected:
  Command() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    plan_ = ::testing::TempDir() + "headrace-" + test->name() + ".yaml";
    std::ofstream(plan_) << example_plan(true);
  }
  ~Command() override { std::filesystem::remove(plan_); }

  std::string plan_;
};

TEST_F(Command, PredictPrintsATableWithin100Columns) {
  const Result result = headrace("predict " + plan_ + " --schedule all", "");
  EXPECT_EQ(result.status, 0);
  EXPECT_NE(result.output.find("lockstep"), std::string::npos);
  EXPECT_NE(result.output.find("2.2 s"), std::string::npos);
  std::size_t column = 0;
  for (const char c : result.output) {
    column = c == '\n' ? 0 : column + 1;
    EXPECT_LE(column, 100u);
  }
}

TEST_F(Command, PredictPrintsOneJsonObject) {
  const Result result = headrace("predict " + plan_ + " --schedule all --json", "");
  const auto json = nlohmann::json::parse(result.output);
  std::vector<double> steps;
  for (const auto& schedule : json.at("schedules")) {
    steps.push_back(schedule.at("step_seconds"));
    EXPECT_NEAR(schedule.at("bound_seconds").get<double>(), 2.2, 1e-9);
    EXPECT_EQ(schedule.at("interval").size(), 2u);
    EXPECT_FALSE(schedule.at("critical_path").empty());
  }
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_NEAR(steps[0], 3.0, 1e-9);
  EXPECT_NEAR(steps[1], 2.2, 1e-9);
  EXPECT_NEAR(steps[2], 2.2, 1e-9);
}

TEST_F(Command, PredictWritesAReport) {
  const std::string html = plan_ + ".html";
  EXPECT_EQ(headrace("predict " + plan_ + " --schedule all --html " + html).status, 0);
  std::ifstream file(html);
  const std::string page((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::filesystem::remove(html);
  for (const char* word : {"dflash-4gpu", "lockstep", "overlapped", "async", "gpu3", "drafter1"})
    EXPECT_NE(page.find(word), std::string::npos) << word;
  EXPECT_EQ(headrace("predict " + plan_ + " --html /nowhere/page.html").status, 1);
}

TEST_F(Command, WrongUsageIsStatus2WithOneLineAndAHint) {
  for (const std::string& arguments :
       {std::string(""), std::string("fly"), std::string("predict"), "predict " + plan_ + " --fast",
        "predict " + plan_ + " --schedule serial"}) {
    const Result result = headrace(arguments);
    EXPECT_EQ(result.status, 2) << arguments;
    EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), 2) << result.output;
    EXPECT_NE(result.output.find("Try `headrace"), std::string::npos) << result.output;
  }
  const Result missing = headrace("predict /nowhere/plan.yaml");
  EXPECT_EQ(missing.status, 2);
  EXPECT_EQ(missing.output,
            "headrace: /nowhere/plan.yaml: cannot be opened: No such file or directory\n");
}

TEST_F(Command, HelpAndVersion) {
  const Result help = headrace("--help", "");
  EXPECT_EQ(help.status, 0);
  for (const char* name : {"predict", "doctor", "train", "generate", "model"})
    EXPECT_NE(help.output.find(name), std::string::npos) << name;
  EXPECT_EQ(headrace("--version", "").output.find("headrace "), 0u);
  EXPECT_EQ(headrace("predict --help", "").status, 0);
}

TEST_F(Command, OutputThatCannotBeWrittenIsAnError) {
  EXPECT_EQ(headrace("predict " + plan_, ">/dev/full 2>&1").status, 1);
}

TEST_F(Command, DoctorGivesAFixForEachLack) {
  const Result result = headrace("doctor", "");
  std::size_t lacks = 0, fixes = 0;
  for (std::size_t at = 0; at < result.output.size();) {
    const std::size_t end = result.output.find('\n', at);
    const std::string line = result.output.substr(at, end - at);
    lacks += line.starts_with("no ") || line.starts_with("MISSING ");
    fixes += line.find("fix: ") != std::string::npos;
    at = end + 1;
  }
  EXPECT_EQ(lacks, fixes) << result.output;
  EXPECT_NE(result.output.find("cores"), std::string::npos);
}

TEST_F(Command, DoctorNamesEachGpuOrSaysWhyThereIsNone) {
  ::setenv("HEADRACE_GPU_LIBRARY", "/nowhere/libheadrace_gpu.so", 1);
  const Result without = headrace("doctor", "");
  ::unsetenv("HEADRACE_GPU_LIBRARY");
  EXPECT_NE(without.output.find("no       GPU           no CUDA half built: /nowhere/"),
            std::string::npos)
      << without.output;
  const headrace::GpuList gpus = headrace::list_gpus(HEADRACE_BINARY_DIR "/lib/libheadrace_gpu.so");
  const Result here = headrace("doctor", "");
  EXPECT_NE(here.output.find(gpus.why_none), std::string::npos) << here.output;
  for (const headrace::GpuDevice& gpu : gpus.devices)
    EXPECT_NE(here.output.find(gpu.name), std::string::npos) << here.output;
}

// The best of several: other programs share the machine.
TEST_F(Command, StartsWithin50Milliseconds) {
  double best = 1e9;
  for (int i = 0; i < 10; ++i) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(headrace("predict " + plan_, ">/dev/null").status, 0);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
  }
#ifdef NDEBUG
  EXPECT_LT(best, 0.05);
#else
  EXPECT_LT(best, 0.5);
#endif
}

}  // namespace
