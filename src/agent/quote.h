// Whether a text stands in another, blanks aside: models break lines elsewhere.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace sculler::agent {

// Runs of blanks are one blank, none at the ends.
[[nodiscard]] std::string plain_blanks(std::string_view text);

// Of a list of strings those that stand in `text`, from the begin of a word to the end of one and
// of at least eight bytes; the others are added to `cut`.
[[nodiscard]] std::vector<std::string> quotes_of(const nlohmann::json& list, std::string_view text,
                                                 int& cut);

}  // namespace sculler::agent
