// Where the trainer is.
#pragma once

#include <string>

#include "base/error.h"

namespace sculler::gnn {

// The path of sculler-gnn-train beside this program; kNotFound says what to install.
[[nodiscard]] Result<std::string> trainer_program();

}  // namespace sculler::gnn
