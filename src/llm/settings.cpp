#include "llm/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json.h"
#include "base/strings.h"
#include "llm/http.h"

namespace sculler::llm {
namespace {

const std::vector<std::string> kProviders = {"openai", "anthropic", "local",
                                             "files",  "command",   "script"};
const std::vector<std::string> kKeys = {
    "name",   "provider", "model",    "url",        "key_env",          "key_file",
    "roles",  "weight",   "context",  "max_tokens", "max_tokens_field", "temperature",
    "schema", "stream",   "price_in", "price_out",  "headers",          "body",
    "argv",   "env",      "path",     "server",     "threads",          "timeout"};

struct TextKey {
  const char* key;
  std::string Model::* field;
};
const TextKey kTexts[] = {
    {"provider", &Model::provider}, {"model", &Model::model},
    {"url", &Model::url},           {"key_env", &Model::key_env},
    {"key_file", &Model::key_file}, {"max_tokens_field", &Model::max_tokens_field},
    {"schema", &Model::schema},     {"body", &Model::body},
    {"path", &Model::path},         {"server", &Model::server}};
struct NumberKey {
  const char* key;
  double Model::* field;
  double low, high;
};
const NumberKey kNumbers[] = {{"weight", &Model::weight, 0, 1e6},
                              {"price_in", &Model::price_in, 0, 1e6},
                              {"price_out", &Model::price_out, 0, 1e6},
                              {"timeout", &Model::timeout_s, 0.001, 1e7}};
struct IntegerKey {
  const char* key;
  int64_t Model::* field;
  int64_t high;
};
const IntegerKey kIntegers[] = {{"context", &Model::context, 1'000'000'000},
                                {"max_tokens", &Model::max_tokens, 10'000'000},
                                {"threads", &Model::threads, 1024}};

Status one_of(const TomlReader& table, const char* key, const std::string& value,
              const std::vector<std::string>& choices) {
  if (value.empty() || std::find(choices.begin(), choices.end(), value) != choices.end()) return {};
  const auto like = nearest(value, choices);
  return fail(table.error(key, fmt::format("\"{}\" is unknown", printable(shorten(value, 60))),
                          like ? fmt::format("did you mean {}?", *like)
                               : fmt::format("use one of {}", join(choices, ", "))));
}

// A header that carries a key must not stand in a file that is kept with the run.
bool secret_header(std::string_view name) {
  const std::string low = to_lower(name);
  for (const char* word : {"authorization", "key", "token", "secret", "cookie"}) {
    if (low.find(word) != std::string::npos) return true;
  }
  return false;
}

Status read_headers(const TomlReader& table, Model& model) {
  if (!table.has("headers")) return {};
  auto headers = table.table("headers");
  if (!headers) return fail(headers.error());
  for (const auto& [name, node] : headers->node().table) {
    auto value = headers->string(name);
    if (!value) return fail(value.error());
    const auto plain = [](std::string_view text) {
      return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c < 127; });
    };
    if (name.empty() || !plain(name) || name.find_first_of(": ") != std::string::npos ||
        !plain(*value)) {
      return fail(headers->error(name, "is no header of printable characters"));
    }
    if (secret_header(name) && !value->starts_with("env:")) {
      return fail(headers->error(name, "holds a key in the open",
                                 "write \"env:NAME\" and set the environment variable NAME"));
    }
    model.headers.emplace_back(name, *value);
  }
  return {};
}

Status check_model(const TomlReader& table, const Model& model) {
  if (auto ok = one_of(table, "provider", model.provider, kProviders); !ok) return ok;
  if (auto ok =
          one_of(table, "schema", model.schema, {"json_schema", "json_object", "tool", "prompt"});
      !ok) {
    return ok;
  }
  if (auto ok = one_of(table, "max_tokens_field", model.max_tokens_field,
                       {"max_tokens", "max_completion_tokens", "none"});
      !ok) {
    return ok;
  }
  if (!model.url.empty()) {
    if (const auto problem = url_problem(model.url); !problem.empty())
      return fail(
          table.error("url", problem, "write https://HOST/PATH; keys go into key_env or key_file"));
  }
  if (!model.key_env.empty() && !model.key_file.empty())
    return fail(table.error("key_file", "stands beside key_env", "keep one of them"));
  if (!model.body.empty()) {
    auto body = parse_json(model.body, "body", std::size_t{1} << 20);
    if (!body || !body->is_object())
      return fail(table.error("body", "is no JSON object", "write body = '{\"top_p\": 0.9}'"));
  }
  const auto needs = [&](const char* key, bool given) -> Status {
    if (given) return {};
    return fail(table.error(key, fmt::format("is missing; provider {} needs it", model.provider)));
  };
  if (model.provider == "command") return needs("argv", !model.argv.empty());
  if (model.provider == "script") return needs("path", !model.path.empty());
  return {};
}

Result<Model> read_model(const TomlReader& table) {
  if (auto ok = table.only(kKeys); !ok) return fail(ok.error());
  Model model;
  model.where = fmt::format("{}:{}", table.origin(), table.node().line);
  auto name = table.string("name");
  if (!name) return fail(name.error());
  model.name = *name;
  const bool plain = std::all_of(name->begin(), name->end(), [](char c) {
    return c > ' ' && c < 127 && c != '"' && c != '\\';
  });
  if (name->empty() || name->size() > 100 || !plain)
    return fail(table.error("name", "is not 1 to 100 printable characters without blanks"));
  for (const auto& [key, field] : kTexts) {
    auto value = table.string_or(key, "");
    if (!value) return fail(value.error());
    model.*field = *value;
  }
  if (model.provider.empty())
    return fail(table.error("provider", "is missing",
                            fmt::format("use one of {}", join(kProviders, ", "))));
  for (const auto& number : kNumbers) {
    if (!table.has(number.key)) continue;
    auto value = table.number(number.key);
    if (!value) return fail(value.error());
    if (!std::isfinite(*value) || *value < number.low || *value > number.high)
      return fail(table.error(
          number.key, fmt::format("{} is outside {}..{}", *value, number.low, number.high)));
    model.*number.field = *value;
  }
  for (const auto& integer : kIntegers) {
    if (!table.has(integer.key)) continue;
    auto value = table.integer(integer.key, 1, integer.high);
    if (!value) return fail(value.error());
    model.*integer.field = *value;
  }
  for (const auto& [key, field] :
       {std::pair{"temperature", &Model::temperature}, std::pair{"stream", &Model::stream}}) {
    auto value = table.boolean_or(key, true);
    if (!value) return fail(value.error());
    model.*field = *value;
  }
  for (const auto& [key, field] :
       {std::pair{"roles", &Model::roles}, std::pair{"argv", &Model::argv},
        std::pair{"env", &Model::env}}) {
    if (!table.has(key)) continue;
    auto value = table.strings(key);
    if (!value) return fail(value.error());
    model.*field = *value;
  }
  if (auto ok = read_headers(table, model); !ok) return fail(ok.error());
  if (auto ok = check_model(table, model); !ok) return fail(ok.error());
  return model;
}

std::string quoted_list(const std::vector<std::string>& words) {
  std::vector<std::string> quoted;
  for (const auto& word : words) quoted.push_back(toml_quote(word));
  return "[" + join(quoted, ", ") + "]";
}

}  // namespace

Result<std::vector<Model>> read_models(const TomlReader& root) {
  std::vector<Model> out;
  if (!root.has("model")) return out;
  auto tables = root.tables("model");
  if (!tables) return fail(tables.error());
  std::set<std::string> names;
  for (const auto& table : *tables) {
    auto model = read_model(table);
    if (!model) return fail(model.error());
    if (!names.insert(model->name).second)
      return fail(table.error("name", fmt::format("\"{}\" stands twice", model->name),
                              "give every [[model]] a name of its own"));
    out.push_back(std::move(*model));
  }
  return out;
}

std::string print_models(const std::vector<Model>& models) {
  const Model plain;
  std::string out;
  for (const auto& model : models) {
    out += fmt::format("\n[[model]]\nname = {}\n", toml_quote(model.name));
    for (const auto& [key, field] : kTexts) {
      if (!(model.*field).empty()) out += fmt::format("{} = {}\n", key, toml_quote(model.*field));
    }
    for (const auto& number : kNumbers) {
      if (model.*number.field != plain.*number.field)
        out += fmt::format("{} = {}\n", number.key, model.*number.field);
    }
    for (const auto& integer : kIntegers) {
      if (model.*integer.field != 0)
        out += fmt::format("{} = {}\n", integer.key, model.*integer.field);
    }
    if (!model.temperature) out += "temperature = false\n";
    if (!model.stream) out += "stream = false\n";
    if (!model.roles.empty()) out += fmt::format("roles = {}\n", quoted_list(model.roles));
    if (!model.argv.empty()) out += fmt::format("argv = {}\n", quoted_list(model.argv));
    if (!model.env.empty()) out += fmt::format("env = {}\n", quoted_list(model.env));
    if (!model.headers.empty()) {
      out += "headers = {";
      for (std::size_t i = 0; i < model.headers.size(); ++i)
        out += fmt::format("{}{} = {}", i == 0 ? " " : ", ", toml_quote(model.headers[i].first),
                           toml_quote(model.headers[i].second));
      out += " }\n";
    }
  }
  return out;
}

Result<Model> model_of_word(std::string_view word) {
  const auto colon = word.find(':');
  const std::string kind(trim(word.substr(0, colon)));
  const std::string rest(colon == std::string_view::npos ? std::string_view()
                                                         : trim(word.substr(colon + 1)));
  const auto bad = [&](std::string message, std::string cure) {
    return fail(Error{ErrorCode::kUsage, std::move(message), {}, "llm.model", std::move(cure)});
  };
  if (std::find(kProviders.begin(), kProviders.end(), kind) == kProviders.end()) {
    const auto like = nearest(kind, kProviders);
    return bad(fmt::format("\"{}\" is no provider", printable(shorten(kind, 60))),
               like ? fmt::format("did you mean {}?", *like)
                    : fmt::format("use one of {}", join(kProviders, ", ")));
  }
  Model model;
  model.provider = kind;
  model.name = rest.empty() || kind == "command" || kind == "script" ? kind : rest;
  if (kind == "local" || kind == "files" || kind == "script") {
    model.path = rest;
    model.name = kind;
  }
  if (kind == "command") {
    auto words = split_words(rest);
    if (!words || words->empty())
      return bad("a command is missing, or a quote is not closed", "write command:PROGRAM WORDS");
    model.argv = std::move(*words);
  }
  if ((kind == "openai" || kind == "anthropic" || kind == "script") && rest.empty())
    return bad(fmt::format("what stands behind \"{}:\" is missing", kind),
               kind == "script" ? "write script:FILE" : fmt::format("write {}:MODEL", kind));
  return model;
}

void fill_defaults(Model& model) {
  const auto with = [](std::string& field, const char* value) {
    if (field.empty()) field = value;
  };
  const bool keyless = model.key_env.empty() && model.key_file.empty();
  if (model.provider == "openai" && model.url.empty()) {
    model.url = "https://api.openai.com/v1";
    if (keyless) model.key_env = "OPENAI_API_KEY";
  } else if (model.provider == "anthropic" && model.url.empty()) {
    model.url = "https://api.anthropic.com/v1";
    if (keyless) model.key_env = "ANTHROPIC_API_KEY";
  } else if (model.provider == "local") {
    if (model.context == 0) model.context = 8192;
    if (model.max_tokens == 0) model.max_tokens = 1024;
  } else if (model.provider == "files") {
    with(model.path, "prompts");
    if (model.timeout_s <= 0) model.timeout_s = 86'400;
  }
  with(model.model, model.name.c_str());
  if (model.max_tokens == 0) model.max_tokens = 8192;
}

}  // namespace sculler::llm
