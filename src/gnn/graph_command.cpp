// sculler-gnn graph: a graph to train on, as a folder.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "gnn/app.h"
#include "gnn/dataset.h"

namespace sculler::gnn {

namespace {

struct Options {
  std::string graph, out, name;
  Synthesis how;
  uint64_t seed = 1;
};

Status run(const Options& options, App& app) {
  auto graph = make_graph(options.graph, options.seed);
  if (!graph) return fail(graph.error());
  const auto dataset = synthesise(options.name.empty() ? options.graph : options.name,
                                  std::move(*graph), options.how, options.seed);
  if (auto ok = write_dataset(options.out, dataset); !ok) return ok;
  uint64_t train = 0;
  for (const uint8_t t : dataset.data.train) train += t;
  if (app.json)
    app.print(dump_json({{"graph", options.out},
                         {"nodes", dataset.graph.nodes()},
                         {"edges", dataset.graph.neighbours.size() / 2},
                         {"train", train},
                         {"dim", dataset.data.dim},
                         {"classes", dataset.data.classes}}));
  else
    app.print(fmt::format("{}: {} nodes, {} edges, {} train nodes, {} features, {} classes",
                          options.out, dataset.graph.nodes(), dataset.graph.neighbours.size() / 2,
                          train, dataset.data.dim, dataset.data.classes));
  return {};
}

}  // namespace

void add_graph(CLI::App& cli, App& app, Action& action) {
  auto* command = cli.add_subcommand("graph", "a graph with features and labels, as a folder");
  auto options = std::make_shared<Options>();
  command->add_option("--graph", options->graph, kGraphs)->required();
  command->add_option("--out", options->out, "the folder to write")->required();
  command->add_option("--name", options->name, "what reports call it");
  command->add_option("--dim", options->how.dim, "features a node (64)")
      ->check(CLI::Range(1, 1 << 16));
  command
      ->add_option("--classes", options->how.classes,
                   "classes where the graph has no labels of its own (16)")
      ->check(CLI::Range(1, 4096));
  command->add_option("--train", options->how.train, "share of nodes to train on (0.3)")
      ->check(CLI::Range(0.0, 1.0));
  command
      ->add_option("--signal", options->how.signal, "a class's mean, where the noise is 1 (0.25)")
      ->check(CLI::Range(0.0, 100.0));
  command->add_option("--seed", options->seed, "(1)");
  command->callback(
      [options, &app, &action] { action = [options, &app] { return run(*options, app); }; });
}

}  // namespace sculler::gnn
