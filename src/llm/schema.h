// JSON answers: found in a model's text, and checked against the part of JSON Schema that prompts
// use.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

namespace sculler::llm {

// The JSON value in an answer: the text itself, what stands in the first ``` fence, or the first
// balanced {…} or […]. Bounded by the text.
[[nodiscard]] Result<nlohmann::json> find_json(std::string_view answer);

// type (one or a list), enum, const, properties, required, additionalProperties (false or a
// schema), items, minItems, maxItems, minLength, maxLength (code points), minimum, maximum,
// exclusiveMinimum, exclusiveMaximum, anyOf, oneOf, allOf. Other keywords say nothing. The error
// is "at /path: what"; `key` is the path.
[[nodiscard]] Status check_schema(const nlohmann::json& schema, const nlohmann::json& value);

// The value where an answer is nothing else, at most a mebibyte, and fits; `what` is its name in
// errors.
[[nodiscard]] Result<nlohmann::json> parse_by_schema(std::string_view schema,
                                                     std::string_view answer,
                                                     std::string_view what);

// find_json and check_schema; the value printed on one line.
[[nodiscard]] Result<std::string> answer_by_schema(std::string_view schema,
                                                   std::string_view answer);

}  // namespace sculler::llm
