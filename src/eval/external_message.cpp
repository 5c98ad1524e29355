#include "eval/external_message.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/status_words.h"
#include "base/strings.h"
#include "sculler/fill.h"

namespace sculler::eval {
namespace {

constexpr std::string_view kOrigin = "adapter";
constexpr std::size_t kMessage = 800, kPart = 200, kWord = 64, kList = 32;
constexpr std::array<std::string_view, 8> kNames{"hello",     "compile", "load",    "verify",
                                                 "benchmark", "outputs", "profile", "bye"};
// What an adapter may say of a candidate. Right or wrong, races and cheats are the evaluator's.
constexpr std::array<std::string_view, 8> kStatuses{
    status::kCompileError, status::kLaunchError, status::kUnsupported, status::kOom,
    status::kCrash,        status::kHang,        status::kTimeout,     status::kInternal};
constexpr std::array<std::string_view, 3> kBottlenecks{"memory", "compute", "latency"};

tl::unexpected<Error> broken(Operation operation, std::string_view key, std::string message) {
  return fail(Error{
      ErrorCode::kProtocol,
      "answer to " + std::string(operation_name(operation)) + ": " + std::move(message),
      std::string(kOrigin), std::string(key), "docs/external.md has the members of every answer"});
}

std::string text_of(const nlohmann::json& object, std::string_view key, std::size_t width) {
  return printable(shorten(string_or(object, key, ""), width));
}

// A list of at most kList strings; what is longer or no string is left out.
std::vector<std::string> texts_of(const nlohmann::json& object, std::string_view key,
                                  std::size_t width) {
  std::vector<std::string> out;
  const auto* list = find_member(object, key);
  if (list == nullptr || !list->is_array()) return out;
  for (const auto& entry : *list) {
    if (out.size() == kList) break;
    if (entry.is_string()) out.push_back(printable(shorten(entry.get<std::string>(), width)));
  }
  return out;
}

std::map<std::string, int64_t> facts_of(const nlohmann::json& object) {
  std::map<std::string, int64_t> out;
  const auto* facts = find_member(object, "facts");
  if (facts == nullptr || !facts->is_object()) return out;
  for (const auto& [name, value] : facts->items()) {
    if (out.size() == kList) break;
    if (value.is_number_integer()) out[printable(shorten(name, kWord))] = value.get<int64_t>();
  }
  return out;
}

nlohmann::json request(Operation operation, int64_t id) {
  return {{"op", operation_name(operation)}, {"id", id}};
}

}  // namespace

std::string_view operation_name(Operation operation) {
  return kNames[static_cast<std::size_t>(operation)];
}

bool AdapterAnswer::can(std::string_view capability) const {
  return std::find(capabilities.begin(), capabilities.end(), capability) != capabilities.end();
}

Result<AdapterAnswer> parse_answer(std::string_view line, Operation operation, int64_t id,
                                   std::size_t expected) {
  auto parsed = parse_json(line, kOrigin, kAdapterLine, 8);
  if (!parsed || !parsed->is_object())
    return broken(operation, "", "no JSON object: " + printable(shorten(line, 120)));
  const nlohmann::json& object = *parsed;
  const auto* number = find_member(object, "id");
  if (number == nullptr || !number->is_number_integer())
    return broken(operation, "id", "is missing or no integer");
  if (!(*number == id))
    return broken(
        operation, "id",
        "it answers request " + shorten(number->dump(), 30) + ", asked was " + std::to_string(id));
  const auto* ok = find_member(object, "ok");
  if (ok == nullptr || !ok->is_boolean())
    return broken(operation, "ok", "is missing or no truth value");
  AdapterAnswer out;
  out.ok = ok->get<bool>();
  if (!out.ok) {
    out.status = string_or(object, "status", "");
    if (std::find(kStatuses.begin(), kStatuses.end(), out.status) == kStatuses.end())
      return broken(operation, "status",
                    "'" + printable(shorten(out.status, 40)) + "' is no status of an adapter");
    out.message = text_of(object, "message", kMessage);
    if (out.message.empty()) return broken(operation, "message", "a refusal says why");
    out.advice = text_of(object, "advice", kMessage);
    out.where = text_of(object, "where", kPart);
    return out;
  }
  switch (operation) {
    case Operation::kHello: {
      if (int_or(object, "protocol", 0) != kAdapterProtocol)
        return broken(operation, "protocol",
                      "is not " + std::to_string(kAdapterProtocol) + ", which is spoken here");
      out.name = text_of(object, "name", kWord);
      out.version = text_of(object, "version", kWord);
      if (out.name.empty() || out.version.empty())
        return broken(operation, "name", "name and version are needed");
      out.device = text_of(object, "device", kPart);
      out.capabilities = texts_of(object, "capabilities", kWord);
      out.does = texts_of(object, "does", kPart);
      break;
    }
    case Operation::kCompile: out.facts = facts_of(object); break;
    case Operation::kBenchmark: {
      const auto* times = find_member(object, "us");
      if (times == nullptr || !times->is_array())
        return broken(operation, "us", "is missing or no list");
      if (times->size() != expected)
        return broken(operation, "us",
                      std::to_string(times->size()) + " times for " + std::to_string(expected) +
                          " iterations");
      for (const auto& time : *times) {
        const double us = time.is_number() ? time.get<double>() : std::nan("");
        if (!(us > 0 && us < 1e12))
          return broken(operation, "us",
                        "'" + printable(shorten(time.dump(), 30)) + "' is no time in microseconds");
        out.us.push_back(us);
      }
      break;
    }
    case Operation::kProfile: {
      out.bottleneck = string_or(object, "bottleneck", "");
      if (std::find(kBottlenecks.begin(), kBottlenecks.end(), out.bottleneck) == kBottlenecks.end())
        return broken(operation, "bottleneck", "is none of memory, compute, latency");
      out.why = text_of(object, "why", kMessage);
      out.remarks = texts_of(object, "remarks", kPart);
      out.facts = facts_of(object);
      break;
    }
    case Operation::kLoad:
    case Operation::kVerify:
    case Operation::kOutputs:
    case Operation::kBye: break;
  }
  return out;
}

std::string hello_request(int64_t id, const std::string& task, std::string_view containment) {
  auto out = request(Operation::kHello, id);
  out["protocol"] = kAdapterProtocol;
  out["task"] = task;
  out["containment"] = containment;
  return dump_json(out);
}

std::string compile_request(int64_t id, const std::string& program, const std::string& folder,
                            const std::vector<std::string>& files,
                            const std::vector<std::pair<std::string, std::string>>& defines,
                            const std::string& task) {
  auto out = request(Operation::kCompile, id);
  out["program"] = program;
  out["folder"] = folder;
  out["files"] = files;
  out["task"] = task;
  out["defines"] = nlohmann::json::object();
  for (const auto& [name, value] : defines) out["defines"][name] = value;
  return dump_json(out);
}

std::string load_request(int64_t id, int set, const std::string& folder,
                         const std::vector<std::string>& dim_names, const task::Problem& problem,
                         const std::vector<task::Buffer>& buffers) {
  auto out = request(Operation::kLoad, id);
  out["set"] = set;
  out["dims"] = nlohmann::json::object();
  for (std::size_t d = 0; d < problem.dims.size() && d < dim_names.size(); ++d)
    out["dims"][dim_names[d]] = problem.dims[d];
  out["buffers"] = nlohmann::json::array();
  for (const auto& b : buffers) {
    nlohmann::json buffer{{"name", b.name},
                          {"role", task::role_name(b.role)},
                          {"dtype", task::dtype_name(b.dtype)},
                          {"elements", b.elements},
                          {"row_elements", b.row_elements},
                          {"bytes", b.bytes}};
    if (b.role == task::Role::kInput || b.role == task::Role::kInOut)
      buffer["file"] = folder + "/" + b.name + ".bin";
    else buffer["poison"] = sculler_poison(static_cast<uint32_t>(b.dtype));
    out["buffers"].push_back(std::move(buffer));
  }
  return dump_json(out);
}

std::string run_request(Operation operation, int64_t id, const std::string& program, int set,
                        const std::string& folder) {
  auto out = request(operation, id);
  out["program"] = program;
  out["set"] = set;
  if (!folder.empty()) out["folder"] = folder;
  return dump_json(out);
}

std::string benchmark_request(int64_t id, const std::string& program, const std::vector<int>& order,
                              bool cold) {
  auto out = request(Operation::kBenchmark, id);
  out["program"] = program;
  out["order"] = order;
  out["cold"] = cold;
  return dump_json(out);
}

std::string bye_request(int64_t id) { return dump_json(request(Operation::kBye, id)); }

}  // namespace sculler::eval
