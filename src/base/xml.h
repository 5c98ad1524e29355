// Text within XML.
#pragma once

#include <string>
#include <string_view>

namespace sculler {

// As text or an attribute's value; what XML 1.0 does not allow becomes '?'.
[[nodiscard]] std::string xml_escaped(std::string_view text);

}  // namespace sculler
