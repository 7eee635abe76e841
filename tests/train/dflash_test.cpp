// Whole runs of `train dflash` beside a small random model: what is trained, under every schedule,
// resumed, refused.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "gguf_writer.h"
#include "headrace/error.h"
#include "headrace/trace_reader.h"
#include "temporary_folder.h"
#include "train/checkpoint.h"
#include "train/dflash_options.h"
#include "train/dflash_run.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;
using testing::RandomLlama;
using testing::TemporaryFolder;

class Dflash : public ::testing::Test {
 protected:
  Dflash() {
    model_ = testing::write_random_llama(folder_.path(), RandomLlama{.layers = 8});
    std::mt19937 random(3);
    for (int file = 0; file < 30; ++file) {
      std::string text;
      for (int line = 0; line < 40; ++line)
        text += fmt::format("def f{}(x):\n    return x + {}\n", random() % 20, random() % 10);
      folder_.write(fmt::format("data/file{}.py", file), text);
    }
  }

  DflashOptions options(const std::string& out) const {
    DflashOptions o;
    o.target = model_;
    o.data = {folder_ / "data"};
    o.out = folder_ / out;
    o.steps = 6;
    o.batch = 2;
    o.length = 48;
    o.anchors = 6;
    o.block = 4;
    o.taps = 3;
    o.layers = 1;
    o.head_tokens = 64;
    o.head_drawn = 32;
    o.dpace = 0.2;
    o.evaluate = false;
    o.json = true;
    return o;
  }

  nlohmann::json train(const DflashOptions& o) const {
    ::testing::internal::CaptureStdout();
    int status = -1;
    try {
      status = train_dflash(o);
    } catch (...) {
      ::testing::internal::GetCapturedStdout();
      throw;
    }
    const std::string text = ::testing::internal::GetCapturedStdout();
    EXPECT_EQ(status, 0);
    return nlohmann::json::parse(text);
  }

  TemporaryFolder folder_;
  std::string model_;
};

TEST_F(Dflash, EveryScheduleAndPlacementTrainsTheSameWeights) {
  for (const std::uint64_t drafters : {1, 2}) {
    std::set<std::string> hashes;
    int run = 0;
    for (const std::string schedule : {"lockstep", "overlapped", "async"})
      for (const std::uint64_t targets : {1, 2, 3}) {
        DflashOptions o = options(fmt::format("out-{}-{}", drafters, run++));
        o.schedule = schedule;
        o.targets = targets;
        o.drafters = drafters;
        hashes.insert(train(o).at("weights_sha256"));
      }
    EXPECT_EQ(hashes.size(), 1u) << drafters;
  }
}

TEST_F(Dflash, TwoDraftersTrainAsOneWithTheDoubleBatch) {
  DflashOptions one = options("one"), two = options("two");
  one.batch = 4;
  two.drafters = 2;
  const double a = train(one).at("loss_last"), b = train(two).at("loss_last");
  EXPECT_NEAR(a, b, 1e-2 * a);
}

TEST_F(Dflash, ResumeGivesTheWeightsOfAnUninterruptedRun) {
  DflashOptions whole = options("whole");
  whole.steps = 9;
  whole.checkpoint_every = 4;
  const std::string expected = train(whole).at("weights_sha256");
  // Kept are step 8 and step 9. Go on from 8, then again from what that run left at its own step 8.
  std::string from = folder_ / "whole/step-8";
  for (const std::string out : {"second", "third"}) {
    DflashOptions resumed;
    resumed.resume = from;
    resumed.out = folder_ / out;
    resumed.evaluate = false;
    resumed.json = true;
    resumed.schedule = out == "second" ? "lockstep" : "async";
    resumed.depth = out == "second" ? 1 : 3;
    resumed.checkpoint_every = 1;
    resumed.given = {"--schedule", "--depth"};
    EXPECT_EQ(train(resumed).at("weights_sha256"), expected) << out;
  }
}

TEST_F(Dflash, OnePassTrainsEveryRowOnceAndEndsWithThePartialStep) {
  DflashOptions o = options("pass");
  o.steps = 0;
  o.batch = 5;
  o.drafters = 2;
  const nlohmann::json result = train(o);
  DflashOptions small = options("pass-small");
  small.steps = 0;
  small.batch = 1;
  const nlohmann::json one_by_one = train(small);
  EXPECT_EQ(result.at("tokens"), one_by_one.at("tokens"));
  const auto rows = one_by_one.at("steps").get<std::uint64_t>();
  EXPECT_EQ(result.at("steps").get<std::uint64_t>(), (rows + 9) / 10);
}

TEST_F(Dflash, SharesAddUpAndTheTraceSaysTheSame) {
  const nlohmann::json result = train(options("out"));
  for (const auto& device : result.at("devices")) {
    double sum = 0;
    for (const char* key :
         {"busy", "starved", "back_pressured", "synchronising", "host", "startup", "tail"})
      sum += device.at(key).get<double>();
    EXPECT_NEAR(sum, 1, 1e-9);
  }
  EXPECT_EQ(result.at("devices").size(), 2u);
  EXPECT_GT(result.at("bound_seconds").get<double>(), 0);
  EXPECT_TRUE(fs::exists(folder_ / "out/report.html"));
  EXPECT_TRUE(fs::exists(folder_ / "out/plan.yaml"));
}

// Memory keeps the newest spans, the file all: what is printed is of all.
TEST_F(Dflash, SharesAreOfTheWholeTraceWhereMemoryDroppedSpans) {
  DflashOptions o = options("unused");
  o.steps = 60;
  const DflashSession session = open_session(o);
  DflashTrainer trainer(session, load_training_target(session), 1);
  const std::string path = folder_ / "trace.json";
  // Steps are faster than the file is written: now and then they wait until it has grown.
  std::uintmax_t written = 0;
  const auto wait_for_file = [&](const StepLog& log) {
    for (int i = 0; log.step % 10 == 9 && fs::file_size(path) <= written && i < 6000; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    written = fs::file_size(path);
    return true;
  };
  const DflashRun run = run_plan(
      wanted_plan(session.options, session.feature_bytes()), trainer,
      {.name = "async", .until = 60, .trace_path = path, .trace_capacity = 200}, wait_for_file);
  EXPECT_GT(run.header.dropped, 0u);
  const Trace trace = read_trace(path);
  EXPECT_GT(trace.spans.size(), run.spans.size());
  const Accounting expected = account(trace.header, trace.spans);
  ASSERT_EQ(run.accounting.devices.size(), expected.devices.size());
  EXPECT_EQ(run.accounting.host_span_ns(), expected.host_span_ns());
  for (std::size_t i = 0; i < expected.devices.size(); ++i)
    EXPECT_EQ(run.accounting.devices[i].busy_ns, expected.devices[i].busy_ns);
}

// A folder is where the trace should be.
TEST_F(Dflash, ATraceThatCannotBeCreatedStopsNothing) {
  const std::string expected = train(options("whole")).at("weights_sha256");
  folder_.write("out/trace.json/in-the-way", "x");
  folder_.write("out/steps.jsonl", "");
  EXPECT_EQ(train(options("out")).at("weights_sha256"), expected);
}

TEST_F(Dflash, ReplanningChangesNoWeightAndIsReported) {
  DflashOptions plain = options("plain"), replanned = options("replanned");
  plain.steps = replanned.steps = 40;
  replanned.depth = 1;
  replanned.replan = 4;
  const nlohmann::json expected = train(plain), result = train(replanned);
  EXPECT_EQ(result.at("weights_sha256"), expected.at("weights_sha256"));
  EXPECT_FALSE(expected.contains("replan"));
  EXPECT_GE(result.at("replan").at("measured_steps").get<int>(), 4);
}

// Steps of absurd length end in a gradient that is no number. The step before is what is saved.
TEST_F(Dflash, AStepThatFailsHasNotHappened) {
  DflashOptions o = options("out");
  o.learning_rate = 9e8;
  o.warmup = 0;
  o.steps = 50;
  EXPECT_THROW(train(o), Error);
  const CheckpointFiles files = open_checkpoint(folder_ / "out", [](const std::string&) {});
  const std::string log = folder_.read("out/steps.jsonl");
  const auto last = nlohmann::json::parse(log.substr(log.rfind('\n', log.size() - 2) + 1));
  EXPECT_EQ(last.at("step"), files.step);
  EXPECT_EQ(last.at("tokens"), files.state.at("tokens"));
  EXPECT_EQ(last.at("batch"), files.state.at("position").at("batch"));
  EXPECT_EQ(files.state.at("position").at("batch"), files.step);
}

TEST_F(Dflash, AComparisonThatWasStoppedIsRepeatedAndOneThatEndedIsKept) {
  DflashOptions o = options("compared");
  o.compare = true;
  folder_.write("compared/steps.jsonl", "");
  folder_.write("compared/trace-lockstep.json", "[");
  train(o);
  EXPECT_THROW(train(o), Error);
}

TEST_F(Dflash, ADelayedGradientIsAnotherRun) {
  DflashOptions delayed = options("delayed");
  delayed.grad_delay = 1;
  EXPECT_NE(train(delayed).at("weights_sha256"), train(options("prompt")).at("weights_sha256"));
}

TEST_F(Dflash, TheLossFalls) {
  DflashOptions o = options("falls");
  o.steps = 60;
  o.learning_rate = 3e-3;
  const nlohmann::json result = train(o);
  EXPECT_LT(result.at("loss_last").get<double>(), 0.8 * result.at("loss_first").get<double>());
}

TEST_F(Dflash, EvaluationReportsTauBesideBigrams) {
  DflashOptions o = options("evaluated");
  o.evaluate = true;
  o.evaluate_every = 4;
  const nlohmann::json result = train(o);
  EXPECT_GE(result.at("tau").get<double>(), 1);
  EXPECT_GE(result.at("tau_bigram").at("trained").get<double>(), 1);
  EXPECT_EQ(result.at("curve").size(), 2u);
  EXPECT_EQ(result.at("curve").back().at("step"), 6);
  EXPECT_EQ(result.at("acceptance").size(), 3u);
  EXPECT_GT(result.at("data").at("bytes").get<std::uint64_t>(), 0u);
}

TEST_F(Dflash, CompareRunsEveryScheduleToTheSameWeights) {
  DflashOptions o = options("compared");
  o.compare = true;
  o.deterministic = true;
  const nlohmann::json result = train(o);
  ASSERT_EQ(result.at("runs").size(), 4u);
  EXPECT_TRUE(result.at("same_weights").get<bool>());
  EXPECT_LE(result.at("placement_distance").get<double>(), 1e-4);
  for (const auto& run : result.at("runs")) {
    EXPECT_EQ(run.at("steps"), 6);
    EXPECT_GT(run.at("step_seconds_p50").get<double>(), 0);
    EXPECT_EQ(run.contains("predicted_seconds"), run.at("schedule") != "lockstep_allcores");
  }
  EXPECT_GE(result.at("slowdown").get<double>(), 1);
}

TEST_F(Dflash, ARunIsExtendedByStepsOrBySeconds) {
  train(options("first"));
  DflashOptions more;
  more.resume = folder_ / "first";
  more.evaluate = false;
  more.json = true;
  more.steps = 9;
  more.given = {"--steps"};
  EXPECT_EQ(train(more).at("steps"), 3);
  more.steps = 0;
  more.seconds = 0.5;
  more.given = {"--seconds"};
  EXPECT_GT(train(more).at("steps").get<int>(), 0);
}

TEST_F(Dflash, AStepsFolderMayBeRenamed) {
  DflashOptions whole = options("whole");
  whole.steps = 9;
  whole.checkpoint_every = 4;
  const std::string expected = train(whole).at("weights_sha256");
  fs::rename(folder_ / "whole/step-8", folder_ / "kept");
  DflashOptions resumed;
  resumed.resume = folder_ / "kept";
  resumed.out = folder_ / "again";
  resumed.evaluate = false;
  resumed.json = true;
  EXPECT_EQ(train(resumed).at("weights_sha256"), expected);
}

TEST_F(Dflash, APlanFileMayChangeDevicesButNotTheWiring) {
  train(options("first"));
  std::ifstream file(folder_ / "first/plan.yaml");
  const std::string plan{std::istreambuf_iterator<char>(file), {}};
  folder_.write("good.yaml", plan);
  DflashOptions o = options("planned");
  o.plan_file = folder_ / "good.yaml";
  EXPECT_EQ(train(o).at("steps"), 6);
  std::string unwired = plan;
  const auto at = unwired.find(", after: [\"sync@n-1\"]");
  ASSERT_NE(at, std::string::npos) << plan;
  unwired.erase(at, std::string(", after: [\"sync@n-1\"]").size());
  folder_.write("bad.yaml", unwired);
  o.plan_file = folder_ / "bad.yaml";
  o.out = folder_ / "refused-plan";
  EXPECT_THROW(train(o), Error);
}

// Each case: a change to good options, and words that the message must hold.
struct Refusal {
  const char* name;
  std::function<void(DflashOptions&, const TemporaryFolder&)> change;
  std::vector<std::string> words;
};

TEST_F(Dflash, BadInputIsRefusedWithItsNameBeforeAnythingIsWritten) {
  folder_.write("used/file", "x");
  folder_.write("empty/.hidden", "x");
  folder_.write("notamodel.gguf", "GGUF but not really");
  const std::vector<Refusal> refusals = {
      {"out exists", [](auto& o, auto& f) { o.out = f / "used"; }, {"used", "exists"}},
      {"no data", [](auto& o, auto& f) { o.data = {f / "nowhere"}; }, {"nowhere"}},
      {"no text", [](auto& o, auto& f) { o.data = {f / "empty"}; }, {"empty"}},
      {"no model", [](auto& o, auto&) { o.target = "nosuchmodel.gguf"; }, {"nosuchmodel.gguf"}},
      {"not a model",
       [](auto& o, auto& f) { o.target = f / "notamodel.gguf"; },
       {"notamodel.gguf"}},
      {"too long", [](auto& o, auto&) { o.length = 4096; }, {"--length", "4096", "256"}},
      {"too many taps", [](auto& o, auto&) { o.taps = 9; }, {"--taps", "9"}},
      {"memory", [](auto& o, auto&) { o.memory = 1 << 20; }, {"--memory", "1 MiB", "lower"}},
      {"schedule", [](auto& o, auto&) { o.schedule = "fast"; }, {"--schedule", "fast", "async"}},
      {"html", [](auto& o, auto& f) { o.html = f / "nowhere/report.html"; }, {"--html", "nowhere"}},
      {"seconds",
       [](auto& o, auto&) {
         o.steps = 0;
         o.seconds = 1;
         o.deterministic = true;
       },
       {"--deterministic", "--steps"}},
      {"compare",
       [](auto& o, auto&) { o.compare = true, o.replan = 4; },
       {"--compare", "--replan"}},
      {"resume", [](auto& o, auto& f) { o.resume = f / "empty"; }, {"empty", "checkpoint"}},
  };
  for (const Refusal& refusal : refusals) {
    DflashOptions o = options("refused");
    refusal.change(o, folder_);
    try {
      train(o);
      ADD_FAILURE() << refusal.name;
    } catch (const Error& e) {
      for (const std::string& word : refusal.words)
        EXPECT_NE(std::string(e.what()).find(word), std::string::npos)
            << refusal.name << ": " << e.what();
    }
    EXPECT_FALSE(fs::exists(folder_ / "refused")) << refusal.name;
  }
}

TEST_F(Dflash, ACheckpointOfAnotherModelOrOtherDataIsRefused) {
  train(options("first"));
  const std::string other =
      testing::write_random_llama(folder_ / "other", RandomLlama{.layers = 8}, 2);
  DflashOptions o;
  o.resume = folder_ / "first";
  o.target = other;
  o.steps = 12;
  o.given = {"--target", "--steps"};
  EXPECT_THROW(
      {
        try {
          train(o);
        } catch (const Error& e) {
          EXPECT_NE(std::string(e.what()).find("another target"), std::string::npos) << e.what();
          throw;
        }
      },
      Error);
  folder_.write("data/file3.py", "print('changed')\n");
  o.target = model_;
  EXPECT_THROW(
      {
        try {
          train(o);
        } catch (const Error& e) {
          EXPECT_NE(std::string(e.what()).find("file3.py"), std::string::npos) << e.what();
          throw;
        }
      },
      Error);
}

}  // namespace
}  // namespace headrace
