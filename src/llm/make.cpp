#include "llm/make.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/process.h"
#include "base/strings.h"
#include "llm/backends.h"
#include "llm/chat.h"
#include "llm/local.h"
#include "llm/tape.h"

namespace sculler::llm {
namespace {

Error of_model(const Model& model, const std::string& key, Error error) {
  error.file = error.file.empty() ? model.where : error.file;
  if (error.key.empty()) error.key = key;
  error.message = fmt::format("model {}: {}", model.name, error.message);
  return error;
}

// Headers with the key in them; the key becomes one of the secrets.
Result<std::vector<std::pair<std::string, std::string>>> headers_of(const Model& model,
                                                                    Secrets& secrets) {
  std::vector<std::pair<std::string, std::string>> out;
  if (!model.key_env.empty() || !model.key_file.empty()) {
    std::string path = model.key_file;
    if (path.starts_with("~/")) path = join_path(env_value("HOME"), path.substr(2));
    auto key = model.key_env.empty() ? key_from_file(path) : key_from_environment(model.key_env);
    if (!key) return fail(of_model(model, "key_env", key.error()));
    secrets.add(*key);
    if (model.provider == "anthropic") out.emplace_back("x-api-key", *key);
    else out.emplace_back("Authorization", "Bearer " + *key);
  }
  if (model.provider == "anthropic") out.emplace_back("anthropic-version", "2023-06-01");
  for (const auto& [name, value] : model.headers) {
    std::string text = value;
    if (value.starts_with("env:")) {
      auto secret = key_from_environment(value.substr(4));
      if (!secret) return fail(of_model(model, "headers", secret.error()));
      text = *secret;
      secrets.add(text);
    }
    // A header of the user's takes the place of ours.
    std::erase_if(out, [&](const auto& one) { return to_lower(one.first) == to_lower(name); });
    out.emplace_back(name, std::move(text));
  }
  return out;
}

Result<std::unique_ptr<Backend>> backend_of(const Model& model, const Surroundings& around,
                                            Http& http, Secrets& secrets) {
  const auto path = [&](const std::string& text) { return join_path(around.run_folder, text); };
  if (model.provider == "files")
    return make_files_backend(around.files, around.clock, path(model.path));
  if (model.provider == "command")
    return make_command_backend(around.processes, around.clock, model);
  if (model.provider == "script") {
    auto script = make_script_backend(around.files, around.clock, around.seed, model.path);
    if (!script) return fail(of_model(model, "path", script.error()));
    return script;
  }
  if (model.provider == "local") {
    Model found = model;
    if (auto ok = find_local(around.files, around.cache, found); !ok)
      return fail(of_model(model, "server", ok.error()));
    return make_local_backend(around.processes, around.files, around.clock, http, found,
                              around.run_folder.empty() ? std::string() : path("llama-server.log"));
  }
  auto headers = headers_of(model, secrets);
  if (!headers) return fail(headers.error());
  return make_http_backend(model.provider == "anthropic" ? Protocol::kAnthropic : Protocol::kOpenAi,
                           model, std::move(*headers), http);
}

// Of the user's table of prices, then of the one that comes with sculler, then unknown.
Status price(Member& member, const Prices& prices, bool bounded) {
  const Model& model = member.model;
  const auto known = prices.find(model.model);
  if (model.context == 0 && known) member.context = known->context;
  const bool remote = model.provider == "openai" || model.provider == "anthropic";
  if (!remote) {
    member.price_in = std::max(0.0, model.price_in);
    member.price_out = std::max(0.0, model.price_out);
    return {};
  }
  if (known) {
    member.price_in = known->in;
    member.price_out = known->out;
  }
  if (model.price_in >= 0) member.price_in = model.price_in;
  if (model.price_out >= 0) member.price_out = model.price_out;
  if (bounded && !known && (model.price_in < 0 || model.price_out < 0)) {
    return fail(of_model(
        model, "price_in",
        Error{ErrorCode::kModelBudget,
              fmt::format("llm.max_usd is set and the price of {} is unknown", model.model),
              {},
              {},
              "set price_in and price_out (USD a million tokens; 0 where it costs "
              "nothing)"}));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Provider>> make_provider(const Settings& settings,
                                                const Surroundings& around) {
  if (settings.models.empty() && (around.tape == nullptr || !around.tape->replaying())) {
    return fail(Error{ErrorCode::kModel,
                      "no model is configured",
                      {},
                      "model",
                      "add a [[model]] to run.toml, or --set llm.model=… (docs/models.md)"});
  }
  Prices prices;
  const std::string table = settings.prices.empty() ? around.prices : settings.prices;
  if (!table.empty()) {
    auto loaded = Prices::load(around.files, table);
    if (!loaded) return fail(loaded.error());
    prices = std::move(*loaded);
  }
  std::vector<CallLog::Total> before;
  if (around.log != nullptr) {
    auto totals = around.log->totals();
    if (!totals) return fail(totals.error());
    before = std::move(*totals);
  }
  std::unique_ptr<Http> own = around.http == nullptr ? make_curl_http(around.clock) : nullptr;
  Http& http = around.http == nullptr ? *own : *around.http;
  Secrets secrets;
  std::vector<std::unique_ptr<Member>> members;
  for (Model model : settings.models) {
    fill_defaults(model);
    // Replayed, nobody is asked: no key and no server is needed.
    std::unique_ptr<Backend> backend;
    if (around.tape == nullptr || !around.tape->replaying()) {
      auto made = backend_of(model, around, http, secrets);
      if (!made) return fail(made.error());
      backend = std::move(*made);
    }
    auto member = std::make_unique<Member>(model, std::move(backend), settings.stop_after,
                                           static_cast<int64_t>(settings.stop_after_s * 1e9));
    member->context = model.context;
    member->max_tokens = model.max_tokens;
    if (auto ok = price(*member, prices, settings.max_usd > 0); !ok) return fail(ok.error());
    members.push_back(std::move(member));
  }
  return std::unique_ptr<Provider>(std::make_unique<Chat>(
      settings, around, std::move(own), std::move(members), std::move(secrets), before));
}

}  // namespace sculler::llm
