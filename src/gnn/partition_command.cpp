// sculler-gnn partition: a graph cut into parts for so many ranks.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/json.h"
#include "gnn/app.h"
#include "gnn/parts.h"

namespace sculler::gnn {

namespace {

struct Options {
  std::string graph, out, method = "metis";
  uint32_t parts = 4;
  uint64_t seed = 1;
};

Status run(const Options& options, App& app) {
  auto dataset = read_dataset(options.graph);
  if (!dataset) return fail(dataset.error());
  if (options.parts > std::max<uint64_t>(1, dataset->graph.nodes()))
    return fail({ErrorCode::kUsage,
                 "is more than the graph's nodes, " + std::to_string(dataset->graph.nodes()),
                 {},
                 "--parts",
                 {}});
  std::vector<uint32_t> part;
  if (options.method == "metis") {
    auto cut = metis_parts(dataset->graph, dataset->data.train, options.parts, options.seed);
    if (!cut) return fail(cut.error());
    part = std::move(*cut);
  } else {
    part = partition(dataset->graph, options.parts, options.seed);
  }
  auto book = write_parts(options.out, *dataset, part, options.parts, options.method);
  if (!book) return fail(book.error());
  const auto report = cut_report(*dataset, part, options.parts);
  if (app.json) {
    app.print(dump_json({{"parts", book->path},
                         {"cut", report.cut},
                         {"balance", report.balance},
                         {"train_balance", report.train_balance},
                         {"nodes", report.nodes},
                         {"train", report.train},
                         {"halo", report.halo}}));
    return {};
  }
  app.print(
      fmt::format("{}: {} parts by {}, {:.1f} % of {} edges cut; largest part {:.2f} of the "
                  "mean, {:.2f} by train nodes",
                  book->path, options.parts, options.method, 100 * report.cut,
                  dataset->graph.neighbours.size() / 2, report.balance, report.train_balance));
  for (uint32_t p = 0; p < options.parts; ++p)
    app.print(fmt::format("  part {}: {:>9} nodes {:>9} train {:>9} halo", p, report.nodes[p],
                          report.train[p], report.halo[p]));
  return {};
}

}  // namespace

void add_partition(CLI::App& cli, App& app, Action& action) {
  auto* command = cli.add_subcommand("partition", "cuts a graph into parts, one a rank");
  auto options = std::make_shared<Options>();
  command->add_option("graph", options->graph, "folder of a graph (sculler-gnn graph)")->required();
  command->add_option("--out", options->out, "the folder to write")->required();
  command->add_option("--parts", options->parts, "(4)")->check(CLI::Range(1, 4096));
  command->add_option("--method", options->method, "metis (default) or greedy")
      ->check(CLI::IsMember({"metis", "greedy"}));
  command->add_option("--seed", options->seed, "(1)");
  command->callback(
      [options, &app, &action] { action = [options, &app] { return run(*options, app); }; });
}

}  // namespace sculler::gnn
