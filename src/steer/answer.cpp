#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/strings.h"
#include "steer/decision.h"
#include "steer/policy.h"

namespace sculler::steer {

namespace {

constexpr size_t kMaxAnswer = size_t{1} << 16;

constexpr std::string_view kSchema = R"({
  "type": "object",
  "properties": {
    "replace": {"type": "boolean", "description": "replace stale rows now"},
    "rows": {"type": "integer", "minimum": 1, "maximum": 2147483648, "description": "most rows admitted or replaced a minibatch"},
    "decay": {"type": "number", "minimum": 0.01, "maximum": 1, "description": "of counts a minibatch; 1 forgets nothing"},
    "buffer": {"type": "number", "minimum": 0, "maximum": 1, "description": "share of the buffer that is used"},
    "policy": {"type": "string", "maxLength": 40, "description": "none, massivegnn, rudder, lru, lfu, clock, sieve, s3fifo, free or known"},
    "explanation": {"type": "string", "maxLength": 400},
    "expected_impact": {
      "type": "object",
      "properties": {
        "hitrate": {"enum": ["increase", "decrease", "stagnant"]},
        "comm_volume": {"enum": ["increase", "decrease", "stagnant"]}
      },
      "required": ["hitrate", "comm_volume"],
      "additionalProperties": false
    }
  },
  "required": ["replace", "explanation", "expected_impact"],
  "additionalProperties": false
})";

tl::unexpected<Error> wrong(std::string key, std::string message) {
  return fail({ErrorCode::kModel, std::move(message), "answer", std::move(key), {}});
}

Result<Direction> direction(const nlohmann::json& impact, const char* key) {
  const auto* value = find_member(impact, key);
  if (value != nullptr && value->is_string())
    for (const auto d : {Direction::kIncrease, Direction::kDecrease, Direction::kStagnant})
      if (value->get_ref<const std::string&>() == direction_word(d)) return d;
  return wrong(std::string("expected_impact.") + key, "must be increase, decrease or stagnant");
}

Status only(const nlohmann::json& object, std::initializer_list<std::string_view> known,
            const char* where) {
  for (const auto& [key, value] : object.items())
    if (std::find(known.begin(), known.end(), key) == known.end())
      return wrong(where + key.substr(0, 40), "is not a member of the answer");
  return {};
}

Result<std::optional<double>> number(const nlohmann::json& object, const char* key, double low) {
  const auto* value = find_member(object, key);
  if (value == nullptr) return std::optional<double>();
  const double found = value->is_number() ? value->get<double>() : -1;
  if (!(found >= low && found <= 1))
    return wrong(key, low > 0 ? "must be a number from 0.01 to 1" : "must be a number from 0 to 1");
  return std::optional<double>(found);
}

// The policies that may be chosen in mid-training: the static ones have nothing to rank by, and
// nobody knows a whole schedule, nor may an answer have a caller keep one.
bool selectable(std::string_view policy) {
  const auto name = policy.substr(0, policy.find(':'));
  constexpr int64_t kMostAhead = 64;  // the default
  if (name == "known" && name != policy &&
      parse_int(policy.substr(name.size() + 1)).value_or(INT64_MAX) > kMostAhead)
    return false;
  return name != "degree" && name != "vip" && name != "belady";
}

}  // namespace

std::string_view answer_schema() { return kSchema; }

std::string_view direction_word(Direction direction) {
  switch (direction) {
    case Direction::kIncrease: return "increase";
    case Direction::kDecrease: return "decrease";
    case Direction::kStagnant: break;
  }
  return "stagnant";
}

Direction direction_of(double change) {
  constexpr double kStill = 0.005;
  if (change >= kStill) return Direction::kIncrease;
  return change <= -kStill ? Direction::kDecrease : Direction::kStagnant;
}

Result<Decision> parse_answer(std::string_view text) {
  if (text.size() > kMaxAnswer) return wrong({}, "is longer than 65536 bytes");
  const auto begin = text.find('{');
  if (begin == std::string_view::npos) return wrong({}, "holds no JSON object");
  const size_t length = json_end(text.substr(begin));
  if (length == std::string_view::npos) return wrong({}, "holds a JSON object that does not end");
  auto parsed = parse_json(text.substr(begin, length), "answer", kMaxAnswer, 8);
  if (!parsed) return wrong({}, parsed.error().message);
  const nlohmann::json& object = *parsed;
  if (!object.is_object()) return wrong({}, "must be a JSON object");
  if (auto ok = only(
          object,
          {"replace", "rows", "decay", "buffer", "policy", "explanation", "expected_impact"}, "");
      !ok)
    return fail(ok.error());

  Decision decision;
  const auto* replace = find_member(object, "replace");
  if (replace == nullptr || !replace->is_boolean())
    return wrong("replace", "must be true or false");
  decision.replace = replace->get<bool>();
  if (const auto* rows = find_member(object, "rows"); rows != nullptr) {
    const bool whole =
        rows->is_number_unsigned() || (rows->is_number_integer() && rows->get<int64_t>() >= 0);
    if (!whole || rows->get<uint64_t>() < 1 || rows->get<uint64_t>() > kMaxRows)
      return wrong("rows", "must be a whole number from 1 to 2147483648");
    decision.rows = rows->get<uint64_t>();
  }
  auto decay = number(object, "decay", 0.01);
  if (!decay) return fail(decay.error());
  decision.decay = *decay;
  auto buffer = number(object, "buffer", 0);
  if (!buffer) return fail(buffer.error());
  decision.buffer = *buffer;
  if (const auto* policy = find_member(object, "policy"); policy != nullptr) {
    if (!policy->is_string() || policy->get_ref<const std::string&>().size() > 40)
      return wrong("policy", "must be a name of at most 40 bytes");
    decision.policy = policy->get<std::string>();
    if (auto made = make_policy(decision.policy, 0, {}); !made)
      return wrong("policy", made.error().message);
    if (!selectable(decision.policy))
      return wrong("policy", "cannot be chosen while training runs");
  }
  const auto* explanation = find_member(object, "explanation");
  if (explanation == nullptr || !explanation->is_string())
    return wrong("explanation", "must be a text");
  decision.explanation =
      shorten(printable(explanation->get_ref<const std::string&>()), Decision::kMaxExplanation);
  const auto* impact = find_member(object, "expected_impact");
  if (impact == nullptr || !impact->is_object())
    return wrong("expected_impact", "must be an object");
  if (auto ok = only(*impact, {"hitrate", "comm_volume"}, "expected_impact."); !ok)
    return fail(ok.error());
  const auto hit_rate = direction(*impact, "hitrate");
  if (!hit_rate) return fail(hit_rate.error());
  const auto communication = direction(*impact, "comm_volume");
  if (!communication) return fail(communication.error());
  decision.hit_rate = *hit_rate;
  decision.communication = *communication;
  return decision;
}

}  // namespace sculler::steer
