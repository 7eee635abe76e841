// headrace-train as its users run it: signals, kill -9, exit statuses.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <thread>

#include "gguf_writer.h"
#include "headrace/trace_reader.h"
#include "temporary_folder.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using testing::RandomLlama;
using testing::TemporaryFolder;

const std::string kProgram = HEADRACE_BINARY_DIR "/bin/headrace";

class TrainCli : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(HEADRACE_BINARY_DIR "/bin/headrace-train"))
      GTEST_SKIP() << "headrace-train is not built (no libtorch)";
    model_ = testing::write_random_llama(folder_.path(), RandomLlama{.layers = 8});
    for (int file = 0; file < 20; ++file)
      folder_.write("data/" + std::to_string(file) + ".txt",
                    std::string(4000, static_cast<char>('a' + file)));
  }

  std::vector<std::string> arguments(const std::string& out) const {
    return {"train",     "dflash",      "--target",      model_,  "--data",   folder_ / "data",
            "--out",     folder_ / out, "--batch",       "2",     "--length", "64",
            "--anchors", "8",           "--block",       "4",     "--taps",   "3",
            "--layers",  "1",           "--no-evaluate", "--json"};
  }

  pid_t start(std::vector<std::string> words) const {
    words.insert(words.begin(), kProgram);
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    const int out = ::open((folder_ / "stdout").c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600),
              err = ::open((folder_ / "stderr").c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
    ::dup2(out, 1);
    ::dup2(err, 2);
    if (file_limit_ > 0) {
      const rlimit limit{file_limit_, file_limit_};
      ::setrlimit(RLIMIT_FSIZE, &limit);
      ::signal(SIGXFSZ, SIG_IGN);
    }
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    ::execv(pointers[0], pointers.data());
    ::_exit(127);
  }
  static int wait(pid_t pid) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }
  int run(const std::vector<std::string>& words) const { return wait(start(words)); }
  std::string read(const std::string& name) const { return folder_.read(name); }
  std::string hash() const {
    const std::string text = read("stdout");
    const auto at = text.find("\"weights_sha256\":\"");
    return at == std::string::npos ? "" : text.substr(at + 18, 64);
  }
  std::set<std::string> names_in(const std::string& folder) const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_ / folder))
      names.insert(entry.path().filename());
    return names;
  }
  bool wait_for(const std::string& name) const {
    for (int i = 0; i < 3000; ++i) {
      if (fs::exists(folder_ / name)) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  TemporaryFolder folder_;
  std::string model_;
  rlim_t file_limit_ = 0;  // bytes, of the command's files; 0: none
};

std::vector<std::string> with(std::vector<std::string> words,
                              const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST_F(TrainCli, CtrlCStopsWithinTwoSecondsWithACheckpointAndResumesExactly) {
  ASSERT_EQ(run(with(arguments("whole"), {"--steps", "400", "--deterministic"})), 0)
      << read("stderr");
  const std::string expected = hash();
  ASSERT_EQ(expected.size(), 64u);

  const pid_t pid = start(
      with(arguments("cut"), {"--steps", "400", "--deterministic", "--checkpoint-every", "20"}));
  ASSERT_TRUE(wait_for("cut/latest"));
  const auto before = Clock::now();
  ::kill(pid, SIGINT);
  EXPECT_EQ(wait(pid), 130) << read("stderr");
  EXPECT_LT(Clock::now() - before, std::chrono::seconds(2));
  EXPECT_NE(read("stderr").find("--resume"), std::string::npos);

  ASSERT_EQ(run({"train", "dflash", "--resume", folder_ / "cut", "--no-evaluate", "--json"}), 0)
      << read("stderr");
  EXPECT_EQ(hash(), expected);
}

TEST_F(TrainCli, KilledTwiceItResumesExactly) {
  ASSERT_EQ(run(with(arguments("whole"), {"--steps", "300", "--deterministic"})), 0)
      << read("stderr");
  const std::string expected = hash();
  pid_t pid = start(
      with(arguments("cut"), {"--steps", "300", "--deterministic", "--checkpoint-every", "5"}));
  ASSERT_TRUE(wait_for("cut/step-10"));
  ::kill(pid, SIGKILL);
  EXPECT_EQ(wait(pid), 1000 + SIGKILL);
  pid = start({"train", "dflash", "--resume", folder_ / "cut", "--no-evaluate", "--json",
               "--checkpoint-every", "5", "--schedule", "lockstep"});
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  ::kill(pid, SIGKILL);
  wait(pid);
  ASSERT_EQ(run({"train", "dflash", "--resume", folder_ / "cut", "--no-evaluate", "--json",
                 "--depth", "4"}),
            0)
      << read("stderr");
  EXPECT_EQ(hash(), expected);
}

TEST_F(TrainCli, WrongUsageIsStatusTwoAndOneMessage) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"train"},
           {"train", "dflash"},
           {"train", "dflash", "--nosuch"},
           {"generate"},
           {"model", "nosuch.gguf"},
           with(arguments("x"), {"--memory", "12"}),
           with(arguments("x"), {"--steps", "-3"}),
           with(arguments("x"), {"--config", folder_ / "nowhere.yaml"})}) {
    EXPECT_EQ(run(words), 2) << read("stderr");
    EXPECT_NE(read("stderr"), "");
    EXPECT_EQ(read("stdout"), "");
  }
}

TEST_F(TrainCli, AConfigurationFileHoldsAnySwitchAndTheCommandLineWins) {
  folder_.write("run.yaml", "target: " + model_ + "\ndata: [" + (folder_ / "data") +
                                "]\nbatch: 2\nlength: 64\nanchors: 8\nblock: 4\ntaps: 3\nlayers: "
                                "1\nno-evaluate: true\njson: true\nsteps: 50\nout: " +
                                (folder_ / "configured") + "\n");
  ASSERT_EQ(run({"train", "dflash", "--config", folder_ / "run.yaml", "--steps", "2"}), 0)
      << read("stderr");
  EXPECT_NE(read("stdout").find("\"steps\":2,"), std::string::npos) << read("stdout");
}

TEST_F(TrainCli, GeneratesWithTheTrainedDrafterLosslessly) {
  ASSERT_EQ(run(with(arguments("out"), {"--steps", "5"})), 0) << read("stderr");
  ASSERT_EQ(run({"generate", "--target", model_, "--drafter", folder_ / "out", "--prompt", "abc",
                 "--raw", "--max-tokens", "20", "--verify", "--json"}),
            0)
      << read("stderr");
  EXPECT_NE(read("stdout").find("\"differences\":0"), std::string::npos);
}

// A limit on the size of files stands in for a full disk: root has no other. What was trained is in
// the log; the folder can be used again.
TEST_F(TrainCli, AFullDiskIsOneMessageAndNothingHalfWritten) {
  file_limit_ = 100'000;
  EXPECT_EQ(run(with(arguments("out"), {"--steps", "2"})), 1);
  EXPECT_NE(read("stderr").find("step-2"), std::string::npos) << read("stderr");
  EXPECT_EQ(names_in("out"), (std::set<std::string>{"plan.yaml", "steps.jsonl", "trace.json"}));
  EXPECT_EQ(std::ranges::count(read("out/steps.jsonl"), '\n'), 2);
  file_limit_ = 0;
  EXPECT_EQ(run(with(arguments("out"), {"--steps", "2"})), 0) << read("stderr");
  EXPECT_EQ(std::ranges::count(read("out/steps.jsonl"), '\n'), 2) << "of this run alone";
}

TEST_F(TrainCli, AFullDiskLeavesTheCheckpointBefore) {
  ASSERT_EQ(run(with(arguments("out"), {"--steps", "6"})), 0) << read("stderr");
  fs::copy(folder_ / "out", folder_ / "copy", fs::copy_options::recursive);
  const auto extend = [&](const std::string& out) {
    return run(
        {"train", "dflash", "--resume", folder_ / out, "--steps", "9", "--no-evaluate", "--json"});
  };
  ASSERT_EQ(extend("copy"), 0) << read("stderr");
  const std::string expected = hash();
  std::set<std::string> expected_names = names_in("out");
  expected_names.insert("trace-1.json");  // of the first run
  file_limit_ = 100'000;
  EXPECT_EQ(extend("out"), 1);
  EXPECT_NE(read("stderr").find("step-9/"), std::string::npos) << read("stderr");
  EXPECT_EQ(names_in("out"), expected_names);
  EXPECT_EQ(read("out/latest"), "step-6\n");
  file_limit_ = 0;
  ASSERT_EQ(extend("out"), 0) << read("stderr");
  EXPECT_EQ(hash(), expected);
}

// The checkpoint fits, the trace does not.
TEST_F(TrainCli, ATraceThatDoesNotFitIsNamedAndTheCheckpointIsThere) {
  file_limit_ = 1'000'000;
  run(with(arguments("out"), {"--steps", "1500"}));
  EXPECT_NE(read("stderr").find("trace.json: the trace is cut off"), std::string::npos)
      << read("stderr");
  EXPECT_TRUE(fs::exists(folder_ / "out/step-1500"));
  const Trace trace = read_trace(folder_ / "out/trace.json");
  EXPECT_TRUE(trace.cut_off);
  EXPECT_GT(trace.spans.size(), 1000u);
}

TEST_F(TrainCli, AFlippedByteInAnyFileIsSaidAndTheCheckpointBeforeIsUsed) {
  const std::vector<std::string> all =
      with(arguments("out"), {"--steps", "9", "--checkpoint-every", "7"});
  for (const std::string file :
       {"config.json", "model.safetensors", "optimizer.safetensors", "state.json", "MANIFEST"}) {
    fs::remove_all(folder_ / "out");
    ASSERT_EQ(run(all), 0) << read("stderr");
    const std::string expected = hash();
    std::string bytes = read("out/step-9/" + file);
    bytes[bytes.size() / 2] ^= 1;
    folder_.write("out/step-9/" + file, bytes);
    EXPECT_EQ(run({"train", "dflash", "--resume", folder_ / "out/step-9", "--steps", "12"}), 2);
    EXPECT_NE(read("stderr").find(file), std::string::npos) << read("stderr");
    ASSERT_EQ(run({"train", "dflash", "--resume", folder_ / "out", "--no-evaluate", "--json"}), 0)
        << read("stderr");
    EXPECT_NE(read("stderr").find("skipped " + (folder_ / "out/step-9")), std::string::npos)
        << read("stderr");
    EXPECT_NE(read("stdout").find("\"steps\":2,"), std::string::npos) << read("stdout");
    EXPECT_EQ(hash(), expected) << file;
  }
}

// As if killed while it evaluated: no result.json.
TEST_F(TrainCli, ARunCutBetweenItsLastCheckpointAndItsResultIsFinished) {
  ASSERT_EQ(run(with(arguments("out"), {"--steps", "3"})), 0) << read("stderr");
  const std::string expected = hash();
  fs::remove(folder_ / "out/result.json");
  folder_.write("out/trace.json.tmp-a1B2c3", "[");
  const std::vector<std::string> resume = {"train",         "dflash",        "--resume",
                                           folder_ / "out", "--no-evaluate", "--json"};
  ASSERT_EQ(run(resume), 0) << read("stderr");
  EXPECT_EQ(hash(), expected);
  EXPECT_TRUE(fs::exists(folder_ / "out/result.json"));
  EXPECT_FALSE(fs::exists(folder_ / "out/trace.json.tmp-a1B2c3"));
  EXPECT_EQ(run(resume), 2);
  EXPECT_NE(read("stderr").find("nothing is left to train"), std::string::npos);
}

// As shells complete it, and as seen from within OUT: both are a step of OUT, whose log goes on.
TEST_F(TrainCli, AStepIsInItsFolderHoweverItIsSpelt) {
  ASSERT_EQ(run(with(arguments("out"), {"--steps", "3"})), 0) << read("stderr");
  std::string before = read("out/steps.jsonl");
  int steps = 3;
  const fs::path here = fs::current_path();
  for (const auto& [from, spelling] :
       {std::pair<fs::path, std::string>{here, (folder_ / "out/step-3") + "/"},
        {fs::path(folder_ / "out"), "step-4"},
        {fs::path(folder_ / "out"), "."}}) {
    fs::current_path(from);
    const int status = run({"train", "dflash", "--resume", spelling, "--steps",
                            std::to_string(++steps), "--no-evaluate"});
    fs::current_path(here);
    ASSERT_EQ(status, 0) << spelling << ": " << read("stderr");
    const std::string after = read("out/steps.jsonl");
    EXPECT_TRUE(after.starts_with(before) && after.size() > before.size()) << spelling;
    EXPECT_TRUE(fs::exists(folder_ / fmt::format("out/step-{}", steps))) << spelling;
    EXPECT_TRUE(fs::exists(folder_ / fmt::format("out/trace-{}.json", steps - 3))) << spelling;
    before = after;
  }
}

TEST_F(TrainCli, OneRunAtATimeGoesOnInAFolder) {
  const pid_t pid = start(with(arguments("out"), {"--steps", "100000", "--checkpoint-every", "5"}));
  ASSERT_TRUE(wait_for("out/latest"));
  EXPECT_EQ(run({"train", "dflash", "--resume", folder_ / "out", "--no-evaluate"}), 1);
  EXPECT_NE(read("stderr").find("another run"), std::string::npos) << read("stderr");
  ::kill(pid, SIGKILL);
  wait(pid);
}

TEST_F(TrainCli, TheNumberOfWorkersDoesNotChangeTheWeights) {
  std::set<std::string> hashes;
  for (const std::string workers : {"0", "1", "4"}) {
    ASSERT_EQ(run(with(arguments("out" + workers), {"--steps", "20", "--workers", workers})), 0)
        << read("stderr");
    hashes.insert(hash());
  }
  EXPECT_EQ(hashes.size(), 1u);
}

}  // namespace
}  // namespace headrace
