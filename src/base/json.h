// JSON that others wrote: parsed with bounds, read with getters that name the key and the file.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace sculler {

// Bounded: at most `max_bytes` of text and `max_depth` nested brackets. `origin` is a path or a
// word for the sender; it becomes Error.file ("origin:line"). Duplicate keys: the last one wins, as
// nlohmann does.
[[nodiscard]] Result<nlohmann::json> parse_json(std::string_view text, std::string_view origin,
                                                std::size_t max_bytes = std::size_t{64} << 20,
                                                int max_depth = 64);

// The end of the bracket that `text` begins with, strings respected; npos where it is not closed
// within `most` bytes. Only the brackets of `open` and `close` count.
[[nodiscard]] std::size_t json_end(std::string_view text, std::string_view open = "{[",
                                   std::string_view close = "}]",
                                   std::size_t most = std::string_view::npos);

// One line, invalid UTF-8 replaced (never throws).
[[nodiscard]] std::string dump_json(const nlohmann::json& value);
// Indented by two.
[[nodiscard]] std::string pretty_json(const nlohmann::json& value);

// What a program says of an error where --json was given: message, exit code, and what of file, key
// and cure there is.
[[nodiscard]] nlohmann::json error_json(const Error& error);

// Required members of an object; the error names origin, key, what was expected and what was found.
[[nodiscard]] Result<std::string> get_string(const nlohmann::json& object, std::string_view key,
                                             std::string_view origin);
[[nodiscard]] Result<int64_t> get_int(const nlohmann::json& object, std::string_view key,
                                      std::string_view origin, int64_t low = INT64_MIN,
                                      int64_t high = INT64_MAX);
[[nodiscard]] Result<double> get_number(const nlohmann::json& object, std::string_view key,
                                        std::string_view origin);
[[nodiscard]] Result<bool> get_bool(const nlohmann::json& object, std::string_view key,
                                    std::string_view origin);
// A pointer into `object`, which must outlive it.
[[nodiscard]] Result<const nlohmann::json*> get_object(const nlohmann::json& object,
                                                       std::string_view key,
                                                       std::string_view origin);
[[nodiscard]] Result<const nlohmann::json*> get_array(const nlohmann::json& object,
                                                      std::string_view key,
                                                      std::string_view origin);

// Optional members: `fallback` where the key is missing or of another type.
[[nodiscard]] std::string string_or(const nlohmann::json& object, std::string_view key,
                                    std::string_view fallback);
[[nodiscard]] int64_t int_or(const nlohmann::json& object, std::string_view key, int64_t fallback);
[[nodiscard]] double number_or(const nlohmann::json& object, std::string_view key, double fallback);
[[nodiscard]] bool bool_or(const nlohmann::json& object, std::string_view key, bool fallback);
// The strings, or the whole numbers, of an array; none where the key is missing or of another type.
[[nodiscard]] std::vector<std::string> strings_of(const nlohmann::json& object,
                                                  std::string_view key);
[[nodiscard]] std::vector<int64_t> ints_of(const nlohmann::json& object, std::string_view key);
// Null where it is missing or null.
[[nodiscard]] const nlohmann::json* find_member(const nlohmann::json& object, std::string_view key);

}  // namespace sculler
