#include "cli/train/commands.h"
#include "headrace/error.h"
#include "headrace/quantity.h"
#include "train/dflash_options.h"

namespace headrace {

namespace {

// A quantity of bytes, e.g. 2GiB; the error names the switch.
void add_bytes(CLI::App& app, const std::string& name, std::uint64_t& value,
               const std::string& help) {
  app.add_option_function<std::string>(
         name, [&value, name](const std::string& text) { value = parse_bytes(text, name); }, help)
      ->type_name("SIZE");
}

}  // namespace

Action add_dflash(CLI::App& train) {
  auto options = std::make_shared<DflashOptions>();
  DflashOptions& o = *options;
  CLI::App& app =
      *train.add_subcommand("dflash", "Train a DFlash drafter beside a frozen target model");
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);

  app.add_option("--target", o.target,
                 "GGUF model: a path, or a name looked up in HEADRACE_MODELS and .venv");
  app.add_option("--data", o.data, "Text and source files, or folders of them")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--out", o.out, "Folder for checkpoints, trace and report; must not exist (out)");
  app.add_option("--resume", o.resume,
                 "Go on from OUT of an earlier run, or from one of its steps");
  app.add_option("--html", o.html, "Where to write the report (OUT/report.html)");

  app.add_option("--schedule", o.schedule, "lockstep | overlapped | async")->capture_default_str();
  app.add_option(
      "--plan", o.plan_file,
      "A plan file with the stages load, target, drafter and sync, instead of --schedule");
  app.add_option("--device", o.device, "cpu | cuda")->capture_default_str();
  app.add_option("--targets", o.targets, "Target replicas, a device each")->capture_default_str();
  app.add_option("--drafters", o.drafters, "Drafter replicas, a device each")
      ->capture_default_str();
  app.add_option("--depth", o.depth, "Batches of features between a target and a drafter")
      ->capture_default_str();
  app.add_option("--workers", o.workers,
                 "Background threads that read and tokenise (0: the load stage does)")
      ->capture_default_str();
  app.add_option("--replan", o.replan,
                 "Measure so many steps, then deepen the channels where the model predicts a gain "
                 "above 5 % (0: never)");
  add_bytes(app, "--channel-bytes", o.channel_bytes, "Bound on the features in flight (none)");

  app.add_option("--steps", o.steps, "Optimizer steps (one pass over the data)");
  app.add_option("--seconds", o.seconds, "Train for about so many seconds instead of --steps");
  app.add_option("--batch", o.batch, "Rows a batch")->capture_default_str();
  app.add_option("--length", o.length, "Tokens a row")->capture_default_str();
  app.add_option("--anchors", o.anchors, "Blocks a row at most")->capture_default_str();
  app.add_option("--block", o.block, "Tokens a block, the anchor included")->capture_default_str();
  app.add_option("--layers", o.layers, "Drafter layers")->capture_default_str();
  app.add_option("--taps", o.taps, "Target layers that feed the drafter")->capture_default_str();
  app.add_option("--lr", o.learning_rate, "Peak learning rate")->capture_default_str();
  app.add_option("--weight-decay", o.weight_decay, "AdamW's decoupled weight decay")
      ->capture_default_str();
  app.add_option("--gamma", o.gamma, "Decay of the loss over a block's slots")
      ->capture_default_str();
  app.add_option("--dpace", o.dpace,
                 "a of D-PACE weights, which follow what is accepted already (0: weights by gamma)")
      ->capture_default_str();
  app.add_option("--head-tokens", o.head_tokens,
                 "Most frequent tokens in the softmax of training (0: the whole vocabulary)")
      ->capture_default_str();
  app.add_option("--head-drawn", o.head_drawn, "Tokens drawn a step to stand for all others")
      ->capture_default_str();
  app.add_option("--clip", o.clip, "Largest norm of the gradient")->capture_default_str();
  app.add_option("--warmup", o.warmup, "Steps of rising learning rate")->capture_default_str();
  app.add_option("--decay", o.decay, "linear | cosine | wsd: how the learning rate falls")
      ->capture_default_str();
  app.add_option("--start", o.start, "target | random: where the weights start")
      ->capture_default_str();
  app.add_option("--seed", o.seed, "Seed of data order, anchors and start weights")
      ->capture_default_str();
  app.add_option("--grad-delay", o.grad_delay, "0 | 1: steps by which a gradient may be late")
      ->capture_default_str();

  app.add_flag("--compare", o.compare,
               "Run every schedule from one seed and print them side by side");
  app.add_flag("--deterministic", o.deterministic,
               "Refuse whatever could change the weights between two runs");
  add_bytes(app, "--memory", o.memory, "Stay below this much memory, or refuse at the start");
  app.add_option("--checkpoint-every", o.checkpoint_every,
                 "Steps between checkpoints (at the end only)");
  app.add_option("--evaluate-every", o.evaluate_every,
                 "Steps between evaluations (at the end only)");
  app.add_flag("!--no-evaluate", o.evaluate, "Leave out the evaluation at the end");
  app.add_option_function<std::string>(
      "--verify-data",
      [&o](const std::string& how) {
        if (how != "full") fail(ErrorCode::usage, "--verify-data {}: only \"full\" is known", how);
        o.verify_data = true;
      },
      "full: hash whole files above 1 GiB too");
  app.add_flag("--follow", o.follow, "Take up files that were added since the run that is resumed");
  app.add_flag("--dry-run", o.dry_run, "Print plan, memory and time, and train nothing");
  app.add_flag("--json", o.json, "Print one JSON object at the end");
  return [options, &app] {
    for (const CLI::Option* option : app.get_options())
      if (option->count() > 0) options->given.insert(option->get_name());
    return train_dflash(*options);
  };
}

}  // namespace headrace
