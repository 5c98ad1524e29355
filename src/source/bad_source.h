// How the errors of this module name their place.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace sculler::source {

// kBadSource at "origin:line"; line 0: at the origin as a whole.
[[nodiscard]] Error bad_source(std::string_view origin, int line, std::string message,
                               std::string cure);

}  // namespace sculler::source
