// Whether a text stands in another, blanks aside: models break lines elsewhere.
#pragma once

#include <string>
#include <string_view>

namespace sculler::agent {

// Runs of blanks are one blank, none at the ends.
[[nodiscard]] std::string plain_blanks(std::string_view text);

}  // namespace sculler::agent
