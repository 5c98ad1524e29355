// sculler ask: one question to the models that are configured, as a run would ask it.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/strings.h"
#include "cli/models.h"

namespace sculler::cli {
namespace {

struct Options {
  std::string prompt, run_file, model, schema, system;
  int64_t max_tokens = 0, index = 0;
  double temperature = -1;
  std::vector<std::string> sets;
};

Status ask(App& app, const Options& o) {
  Settings settings;
  if (!o.run_file.empty()) {
    if (auto ok = read_settings(app.files, o.run_file, settings); !ok) return ok;
  }
  if (!o.model.empty()) settings.llm_model = o.model;
  for (const auto& assignment : o.sets) {
    if (auto ok = apply_override(settings, assignment); !ok) return ok;
  }
  llm::Request request;
  if (!o.system.empty()) request.messages.push_back({"system", o.system});
  std::string prompt = o.prompt;
  if (prompt == "-") prompt.assign(std::istreambuf_iterator<char>(std::cin), {});
  if (trim(prompt).empty())
    return fail(ErrorCode::kUsage, "no question", "sculler ask \"QUESTION\", or - for stdin");
  request.messages.push_back({"user", prompt});
  request.role = "ask";
  request.index = o.index;
  request.max_tokens = o.max_tokens;
  if (o.temperature >= 0) request.temperature = o.temperature;
  if (!o.schema.empty()) {
    auto schema = app.files.read(o.schema, 1 << 20);
    if (!schema) return fail(schema.error());
    auto parsed = parse_json(*schema, o.schema, 1 << 20);
    if (!parsed) return fail(parsed.error());
    request.schema = dump_json(*parsed);
  }
  auto models = open_models(app, settings, {}, nullptr);
  if (!models) return fail(models.error());
  llm::Reply reply = llm::fault(llm::Fault::kCancelled, {});
  {
    const InterruptWatch watch(*models->provider, app.interrupted);
    reply = models->provider->ask(request);
  }
  if (!reply) return fail(reply.error().error);
  if (app.json) {
    app.print(dump_json({{"answer", reply->text},
                         {"model", reply->model},
                         {"prompt_tokens", reply->prompt_tokens},
                         {"answer_tokens", reply->answer_tokens},
                         {"estimated", reply->estimated},
                         {"usd", reply->usd},
                         {"latency_s", reply->latency_s},
                         {"finish", reply->finish},
                         {"requests", reply->attempts},
                         {"repaired", reply->repaired},
                         {"recorded", reply->recorded}}));
    return {};
  }
  // What a model writes must not drive a terminal; a file gets it as it is.
  app.print(::isatty(::fileno(app.out)) == 1 ? printable(reply->text, true) : reply->text);
  fmt::print(app.err, "{}: {}{} + {} tokens, ${:.4f}, {:.2f} s, {}{}\n", reply->model,
             reply->estimated ? "about " : "", reply->prompt_tokens, reply->answer_tokens,
             reply->usd, reply->latency_s, reply->finish, reply->recorded ? ", recorded" : "");
  return {};
}

}  // namespace

void add_ask(CLI::App& cli, App& app, Action& action) {
  auto o = std::make_shared<Options>();
  auto* command =
      cli.add_subcommand("ask", "ask a language model one question, as a run would ask it");
  command->add_option("question", o->prompt, "the question; -: from stdin")->required();
  command->add_option("--run-file", o->run_file, "settings (run.toml) with [[model]] tables");
  command->add_option("--model", o->model,
                      "openai:NAME, anthropic:NAME, local, files:FOLDER, command:PROGRAM, or the "
                      "name of a [[model]]");
  command->add_option("--system", o->system, "a system message");
  command->add_option("--schema", o->schema, "file with a JSON schema that the answer must fit");
  command->add_option("--max-tokens", o->max_tokens, "of the answer");
  command->add_option("--temperature", o->temperature, "left out where it is not given");
  command->add_option("--index", o->index, "number of the question (files, cassettes, weights)");
  command->add_option("--set", o->sets, "any setting: key=value")->take_all();
  command->callback([&action, &app, o] { action = [&app, o] { return ask(app, *o); }; });
}

}  // namespace sculler::cli
