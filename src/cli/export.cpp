// sculler export RUN
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "cli/app.h"
#include "cli/settings.h"
#include "store/store.h"

namespace sculler::cli {
namespace {

// One line a program with source, and one an attempt with its verdict.
Status export_run(App& app, const std::string& run, const std::string& traces) {
  const std::string path = join_path(absolute_path(run), "store.sqlite");
  if (!app.files.exists(path))
    return fail(Error{ErrorCode::kNotFound,
                      "is no run folder: store.sqlite is not there",
                      absolute_path(run),
                      {},
                      "give the folder that sculler optimize made"});
  auto store = store::Store::open(path, app.clock);
  if (!store) return fail(store.error());
  std::FILE* out = app.out;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(nullptr, &std::fclose);
  if (!traces.empty()) {
    file.reset(std::fopen(traces.c_str(), "w"));
    if (!file) return fail(Error{ErrorCode::kIo, "cannot be written", traces, {}, {}});
    out = file.get();
  }
  int64_t lines = 0;
  bool failed = false;
  const auto write = [&](const nlohmann::json& object) {
    const std::string line = dump_json(object) + "\n";
    failed = failed || std::fwrite(line.data(), 1, line.size(), out) != line.size();
    ++lines;
  };
  Status inner;
  auto ok = (*store)->each_program(0, [&](const store::Program& p) {
    auto source = (*store)->source(p.source_sha256);
    if (!source) {
      inner = fail(source.error());
      return;
    }
    nlohmann::json object{{"kind", "program"},    {"id", p.id},
                          {"name", p.name},       {"origin", p.origin},
                          {"defines", p.defines}, {"source_sha256", p.source_sha256},
                          {"source", *source}};
    if (p.parent > 0) object["parent"] = p.parent;
    if (!p.plan.empty()) object["plan"] = p.plan;
    if (auto directive = parse_json(p.directive, "directive")) object["directive"] = *directive;
    write(object);
  });
  if (!ok) return ok;
  if (!inner) return inner;
  ok = (*store)->each_attempt([&](const store::Attempt& a, const store::Evaluation* e) {
    nlohmann::json object{{"kind", "evaluation"}, {"job", a.job},          {"program", a.program},
                          {"target", a.target},   {"size", a.size},        {"stages", a.stages},
                          {"seed", a.seed},       {"baseline", a.baseline}};
    if (e == nullptr) object["status"] = "open";
    else if (auto verdict = parse_json(e->verdict, "verdict")) object["verdict"] = *verdict;
    write(object);
  });
  if (!ok) return ok;
  if (file && std::fclose(file.release()) != 0) failed = true;
  if (failed)
    return fail(Error{ErrorCode::kDiskFull,
                      "writing failed",
                      traces.empty() ? "standard output" : traces,
                      {},
                      "free space there"});
  if (!traces.empty())
    app.print(app.json ? dump_json({{"lines", lines}, {"file", traces}})
                       : fmt::format("{} lines in {}", lines, traces));
  return {};
}

}  // namespace

void add_export(CLI::App& cli, App& app, Action& action) {
  auto run = std::make_shared<std::string>(), traces = std::make_shared<std::string>();
  auto* command = cli.add_subcommand("export", "programs and verdicts of a run as JSON lines");
  command->add_option("run", *run, "the run's folder")->required();
  command->add_option("--traces", *traces, "file to write (default: standard output)");
  command->callback([&action, &app, run, traces] {
    action = [&app, run, traces] { return export_run(app, *run, *traces); };
  });
}

}  // namespace sculler::cli
