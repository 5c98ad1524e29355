// sculler-gnn trace: the remote ids of one rank by neighbour sampling, without training.
#include "steer/trace.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "gnn/app.h"
#include "gnn/dataset.h"
#include "gnn/remote.h"

namespace sculler::gnn {

namespace {

struct Options {
  std::string graph, out;
  std::vector<uint32_t> fanout{10, 25};
  uint32_t parts = 4;
  TraceSettings trace;
};

Status run(Options options, App& app) {
  auto graph = make_graph(options.graph, options.trace.sampler.seed);
  if (!graph) return fail(graph.error());
  if (options.trace.rank >= options.parts)
    return fail({ErrorCode::kUsage,
                 "there are only " + std::to_string(options.parts) + " parts",
                 {},
                 "--rank",
                 {}});
  options.trace.sampler.fanouts.assign(options.fanout.rbegin(), options.fanout.rend());
  const auto part = partition(*graph, options.parts, options.trace.sampler.seed);
  const auto trace = remote_trace(*graph, part, options.trace);
  auto recorder = steer::TraceRecorder::create(options.out, trace.head);
  if (!recorder) return fail(recorder.error());
  for (uint64_t b = 0; b < trace.minibatches(); ++b)
    if (auto ok = (*recorder)->minibatch(trace.minibatch(b), trace.epoch[b]); !ok) return ok;
  if (auto ok = (*recorder)->close(); !ok) return ok;
  const double cut = cut_share(*graph, part);
  if (app.json)
    app.print(dump_json({{"trace", options.out},
                         {"nodes", graph->nodes()},
                         {"edges", graph->neighbours.size() / 2},
                         {"cut", cut},
                         {"halo", trace.head.halo},
                         {"minibatches", trace.minibatches()},
                         {"ids", trace.ids.size()}}));
  else
    app.print(fmt::format(
        "{}: {} nodes, {} edges, {:.0f} % cut; rank {} of {}: halo {}, {} "
        "minibatches, {} remote ids",
        options.out, graph->nodes(), graph->neighbours.size() / 2, 100 * cut, options.trace.rank,
        options.parts, trace.head.halo, trace.minibatches(), trace.ids.size()));
  return {};
}

}  // namespace

void add_trace(CLI::App& cli, App& app, Action& action) {
  auto* command =
      cli.add_subcommand("trace", "the remote ids of one rank by neighbour sampling, as a trace");
  auto options = std::make_shared<Options>();
  command->add_option("--graph", options->graph, kGraphs)->required();
  command->add_option("--out", options->out, "the file to write")->required();
  command->add_option("--parts", options->parts, "partitions (4)")->check(CLI::Range(1, 4096));
  command->add_option("--rank", options->trace.rank, "whose trace (0)");
  command
      ->add_option("--fanout", options->fanout,
                   "neighbours a layer, as DGL writes it: the last number is the seeds' (10,25)")
      ->delimiter(',')
      ->check(CLI::Range(1, 100000));
  command->add_option("--batch", options->trace.sampler.batch, "seeds a minibatch (1000)")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 31));
  command->add_option("--epochs", options->trace.epochs, "(4)")->check(CLI::Range(1, 1000000));
  command->add_option("--train", options->trace.train, "share of nodes that are seeds (0.3)")
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--seed", options->trace.sampler.seed, "(1)");
  command->add_flag("--drift", options->trace.drift, "other seeds from the middle on");
  command->callback(
      [options, &app, &action] { action = [options, &app] { return run(*options, app); }; });
}

}  // namespace sculler::gnn
