#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "llm/wire.h"

namespace sculler::llm {
namespace {

using nlohmann::json;
constexpr const char* kTool = "answer";

std::string server_name(const Model& model) {
  return model.model.empty() ? model.name : model.model;
}

Result<json> schema_of(const Question& question) {
  return parse_json(question.request->schema, "schema", std::size_t{1} << 20);
}

Result<json> openai(const Model& model, const Question& question) {
  const Request& request = *question.request;
  json body{{"model", server_name(model)}, {"messages", json::array()}};
  for (const auto& message : request.messages)
    body["messages"].push_back({{"role", message.role}, {"content", message.text}});
  if (model.temperature && request.temperature) body["temperature"] = *request.temperature;
  const std::string field = model.max_tokens_field.empty() ? "max_tokens" : model.max_tokens_field;
  if (field != "none") body[field] = question.max_tokens;
  if (model.stream) {
    body["stream"] = true;
    body["stream_options"] = {{"include_usage", true}};
  }
  if (question.schema == SchemaMode::kObject) body["response_format"] = {{"type", "json_object"}};
  if (question.schema == SchemaMode::kSchema) {
    auto schema = schema_of(question);
    if (!schema) return fail(schema.error());
    body["response_format"] = {{"type", "json_schema"},
                               {"json_schema", {{"name", kTool}, {"schema", std::move(*schema)}}}};
  }
  if (question.schema == SchemaMode::kTool) {
    auto schema = schema_of(question);
    if (!schema) return fail(schema.error());
    body["tools"] =
        json::array({{{"type", "function"},
                      {"function", {{"name", kTool}, {"parameters", std::move(*schema)}}}}});
    body["tool_choice"] = {{"type", "function"}, {"function", {{"name", kTool}}}};
  }
  return body;
}

Result<json> anthropic(const Model& model, const Question& question) {
  const Request& request = *question.request;
  json body{{"model", server_name(model)},
            {"max_tokens", question.max_tokens},
            {"messages", json::array()}};
  std::string system;
  for (const auto& message : request.messages) {
    if (message.role == "system") {
      if (!system.empty()) system += "\n\n";
      system += message.text;
    } else {
      body["messages"].push_back({{"role", message.role}, {"content", message.text}});
    }
  }
  if (!system.empty()) body["system"] = system;
  if (model.temperature && request.temperature) body["temperature"] = *request.temperature;
  if (model.stream) body["stream"] = true;
  if (question.schema == SchemaMode::kTool || question.schema == SchemaMode::kSchema) {
    auto schema = schema_of(question);
    if (!schema) return fail(schema.error());
    body["tools"] = json::array({{{"name", kTool},
                                  {"description", "gives the answer in the form that is asked for"},
                                  {"input_schema", std::move(*schema)}}});
    body["tool_choice"] = {{"type", "tool"}, {"name", kTool}};
  }
  return body;
}

}  // namespace

Result<std::string> request_body(Protocol protocol, const Model& model, const Question& question) {
  auto body = protocol == Protocol::kOpenAi ? openai(model, question) : anthropic(model, question);
  if (!body) return fail(body.error());
  if (!model.body.empty()) {
    auto extra = parse_json(model.body, "body", std::size_t{1} << 20);
    if (!extra) return fail(extra.error());
    for (const auto& [key, value] : extra->items()) {
      if (value.is_null()) body->erase(key);
      else (*body)[key] = value;
    }
  }
  return dump_json(*body);
}

}  // namespace sculler::llm
