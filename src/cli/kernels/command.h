// sculler bench kernels.
#pragma once

#include "cli/app.h"

namespace sculler::cli {

void add_bench_kernels(CLI::App& bench, App& app, Action& action);

}  // namespace sculler::cli
