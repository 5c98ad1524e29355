// Parts of `sculler calibrate` that need no GPU.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace sculler::cli {

// "key value" lines of the measuring program; comments and nonsense are left out.
[[nodiscard]] std::vector<std::pair<std::string, double>> parse_rates(std::string_view text);
// The profile's text with these keys of [measured] replaced, everything else byte for byte.
[[nodiscard]] Result<std::string> with_rates(
    std::string_view profile, const std::vector<std::pair<std::string, double>>& rates,
    std::string_view origin);

}  // namespace sculler::cli
