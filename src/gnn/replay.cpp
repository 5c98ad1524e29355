// sculler-gnn replay: policies on a recorded trace, side by side.
#include "steer/replay.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/files.h"
#include "base/json.h"
#include "base/strings.h"
#include "gnn/app.h"

namespace sculler::gnn {

namespace {

struct Options {
  std::string trace;
  std::vector<std::string> policies, buffers{"5%", "25%"};
  std::string decide;  // a maker, or empty
  uint64_t every = 1;
};

constexpr const char* kAll[] = {"none",     "degree",   "vip",  "massivegnn", "rudder:1",
                                "rudder:2", "rudder:8", "lru",  "lfu",        "clock",
                                "sieve",    "s3fifo",   "free", "known",      "belady"};

nlohmann::json json_of(const std::string& policy, const steer::Counts& counts) {
  return {{"policy", policy},          {"hit_rate", counts.hit_rate()},
          {"fetched", counts.fetched}, {"extra", counts.extra},
          {"hits", counts.hits},       {"admitted", counts.admitted},
          {"evicted", counts.evicted}};
}

// A maker of decisions for one policy's replay, asked on the same thread.
Result<std::unique_ptr<steer::Controller>> make_control(const steer::Trace& trace,
                                                        const Options& options) {
  auto maker = steer::make_maker(options.decide);
  if (!maker) return fail(maker.error());
  steer::ControllerSettings settings;
  settings.mode = steer::Mode::kSync;
  settings.every = options.every;
  auto control = std::make_unique<steer::Controller>(
      std::move(*maker), settings, std::make_unique<steer::InlineRunner>(), real_clock());
  steer::RunFacts facts;
  facts.remote = trace.head.halo;
  control->set_facts(facts);
  return control;
}

Status run(const Options& options, App& app) {
  auto trace = steer::read_trace(options.trace);
  if (!trace) return fail(trace.error());
  const uint64_t distinct = trace->distinct();
  nlohmann::json report{{"trace", options.trace},   {"minibatches", trace->minibatches()},
                        {"ids", trace->ids.size()}, {"distinct", distinct},
                        {"halo", trace->head.halo}, {"buffers", nlohmann::json::array()}};
  if (!app.json)
    app.print(fmt::format("trace {}: {} minibatches, {} remote ids, {} different, halo {}",
                          file_name(options.trace), trace->minibatches(), trace->ids.size(),
                          distinct, trace->head.halo));
  for (const auto& buffer : options.buffers) {
    auto capacity = steer::capacity_of(*trace, buffer);
    if (!capacity) return fail(capacity.error());
    nlohmann::json rows = nlohmann::json::array();
    if (!app.json)
      app.print(fmt::format("buffer {} = {} rows\n  {:<16}{:>10}{:>14}{:>10}{:>14}{:>12}", buffer,
                            *capacity, "policy", "hit rate", "rows fetched", "change", "unasked",
                            "evictions"));
    for (const auto& policy : options.policies) {
      std::unique_ptr<steer::Controller> control;
      if (!options.decide.empty()) {
        auto made = make_control(*trace, options);
        if (!made) return fail(made.error());
        control = std::move(*made);
      }
      auto counts = steer::replay(*trace, policy, *capacity, control.get());
      if (!counts) return fail(counts.error());
      rows.push_back(json_of(policy, *counts));
      if (control) {
        const auto c = control->counts();
        rows.back()["decisions"] = {{"asked", c.asked},
                                    {"applied", c.applied},
                                    {"predictions", c.pass.decisions},
                                    {"right", c.pass.right},
                                    {"stagnant", c.pass.stagnant}};
      }
      if (!app.json)
        app.print(fmt::format("  {:<16}{:>9.1f}%{:>14}{:>+9.1f}%{:>14}{:>12}", policy,
                              100 * counts->hit_rate(), counts->fetched,
                              100 * (counts->communication() - (counts->ids > 0 ? 1 : 0)),
                              counts->extra, counts->evicted));
    }
    report["buffers"].push_back({{"buffer", buffer}, {"rows", *capacity}, {"policies", rows}});
  }
  if (app.json) app.print(dump_json(report));
  return {};
}

}  // namespace

void add_replay(CLI::App& cli, App& app, Action& action) {
  auto* command = cli.add_subcommand("replay", "policies on a recorded trace, side by side");
  auto options = std::make_shared<Options>();
  options->policies.assign(std::begin(kAll), std::end(kAll));
  command->add_option("trace", options->trace, "a file of `sculler-gnn trace` or of a training run")
      ->required();
  std::string names;
  for (const auto& n : steer::policy_names())
    names += fmt::format("\n  {:<11} {}{}", n.name, n.what,
                         *n.parameter != 0 ? fmt::format("; :N {}", n.parameter) : "");
  command
      ->add_option("--policies", options->policies, "separated by commas; all by default" + names)
      ->delimiter(',');
  command
      ->add_option("--buffer", options->buffers,
                   "sizes: shares of the halo (5%) or numbers of rows; 5%,25% by default")
      ->delimiter(',');
  command->add_option("--decide", options->decide,
                      "turns the policies' knobs: none, fixed:N, heuristic, random:SEED");
  command->add_option("--every", options->every, "minibatches between two decisions (1)")
      ->check(CLI::Range(1, 1000000000));
  command->callback(
      [options, &app, &action] { action = [options, &app] { return run(*options, app); }; });
}

}  // namespace sculler::gnn
