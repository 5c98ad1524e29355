#include "gnn/train/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/json.h"
#include "steer/policy.h"

namespace sculler::gnn {

Result<TrainOptions> parse_train_options(const std::vector<std::string>& arguments) {
  TrainOptions out;
  TrainSettings& s = out.settings;
  std::vector<uint32_t> fanout{10, 25};
  CLI::App cli{
      "Trains on a partitioned graph, a rank a part: mpirun -n 4 sculler-gnn train FOLDER.",
      "sculler-gnn train"};
  cli.add_option("parts", s.parts, "folder of sculler-gnn partition")->required();
  cli.add_option("--model", s.model.kind, "sage (default) or gat");
  cli.add_option("--hidden", s.model.hidden, "width of the hidden layers (64)")
      ->check(CLI::Range(1, 1 << 16));
  cli.add_option("--heads", s.model.heads, "heads of gat's hidden layers (4)")
      ->check(CLI::Range(1, 1024));
  cli.add_option("--lr", s.model.learning_rate, "Adam's rate (0.003)")
      ->check(CLI::Range(0.0, 10.0));
  cli.add_option("--fanout", fanout,
                 "neighbours a layer, as DGL writes it: the last number is the seeds' (10,25)")
      ->delimiter(',')
      ->check(CLI::Range(1, 100000));
  s.sampler.batch = 256;
  cli.add_option("--batch", s.sampler.batch, "seeds a minibatch and rank (256)")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 31));
  cli.add_option("--epochs", s.epochs, "(10)")->check(CLI::Range(1, 1000000));
  cli.add_option("--seed", s.sampler.seed, "(1)");
  std::string names;
  for (const auto& n : steer::policy_names())
    names += std::string(names.empty() ? "" : ", ") + n.name;
  cli.add_option("--policy", s.prefetch.policy, "of the buffer (free): " + names);
  cli.add_option("--buffer", s.buffer, "its rows: a share of the halo, or a number (25%)");
  cli.add_option("--decide", s.prefetch.decide,
                 "turns the policy's knobs: none, fixed:N, heuristic, random:SEED");
  cli.add_option("--every", s.prefetch.every, "minibatches between two decisions (1)")
      ->check(CLI::Range(1, 1000000000));
  cli.add_option("--record", s.prefetch.record, "a trace a rank: FILE.0, FILE.1 …");
  cli.add_option("--checkpoint", s.checkpoint, "the file that keeps the training");
  cli.add_option("--checkpoint-every", s.checkpoint_every, "epochs between two (1)")
      ->check(CLI::Range(1, 1000000));
  cli.add_flag("--resume", s.resume, "goes on from the checkpoint");
  cli.add_flag("--no-test{false}", s.test, "no accuracy on the test nodes at the end");
  cli.add_flag("--steps", s.steps, "the loss of every step");
  cli.add_option("--timeout", s.timeout_s, "seconds that a rank waits for another (300)")
      ->check(CLI::Range(1.0, 1e6));
  cli.add_flag("--json", out.json, "JSON lines (docs/training.md)");
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    cli.parse(reversed);
  } catch (const CLI::Success& success) {
    std::ostringstream text, ignored;
    (void)cli.exit(success, text, ignored);
    out.help = text.str();
    return out;
  } catch (const CLI::ParseError& error) {
    return fail({ErrorCode::kUsage, error.what(), {}, {}, "See sculler-gnn train --help."});
  }
  if (s.resume && s.checkpoint.empty())
    return fail({ErrorCode::kUsage,
                 "says nothing of which file",
                 {},
                 "--resume",
                 "Add --checkpoint FILE."});
  s.sampler.fanouts.assign(fanout.rbegin(), fanout.rend());
  return out;
}

std::string event_text(const nlohmann::json& event) {
  const std::string kind = string_or(event, "event", "");
  const auto number = [&](const char* key) { return number_or(event, key, 0); };
  if (kind == "begin")
    return fmt::format(
        "{}: {} nodes, {} edges; {} ranks, {} of {} parameters, policy {}, buffer {}; {} steps an "
        "epoch\n{:>5} {:>9} {:>9} {:>9} {:>8} {:>12} {:>10} {:>9} {:>9}  {}",
        string_or(event, "graph", ""), int_or(event, "nodes", 0), int_or(event, "edges", 0),
        int_or(event, "ranks", 0), string_or(event, "model", ""), int_or(event, "parameters", 0),
        string_or(event, "policy", ""), string_or(event, "buffer", ""), int_or(event, "steps", 0),
        "epoch", "loss", "accuracy", "seconds", "waited", "rows fetched", "hit rate", "MB",
        "summed", "losses");
  if (kind == "step")
    return fmt::format("{:>5} step {}: loss {:.6f}", int_or(event, "epoch", 0),
                       int_or(event, "step", 0), number("loss"));
  if (kind == "epoch")
    return fmt::format(
        "{:>5} {:>9.5f} {:>8.2f}% {:>9.2f} {:>8.2f} {:>12} {:>9.1f}% {:>9.1f} "
        "{:>9.2f}  {}",
        int_or(event, "epoch", 0), number("loss"), 100 * number("accuracy"), number("seconds"),
        number("wait_s"), int_or(event, "fetched", 0), 100 * number("hit_rate"),
        number("bytes") / 1e6, number("sum_s"), string_or(event, "losses", ""));
  if (kind == "test")
    return fmt::format("test: {:.2f}% of {} nodes", 100 * number("accuracy"),
                       int_or(event, "nodes", 0));
  return {};
}

}  // namespace sculler::gnn
