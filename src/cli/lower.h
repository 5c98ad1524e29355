// Commands of the fast path.
#pragma once

#include "cli/app.h"

namespace sculler::cli {

void add_lower(CLI::App& cli, App& app, Action& action);

}  // namespace sculler::cli
