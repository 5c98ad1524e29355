// Calls over a connection that somebody else has opened; for this module's sources only.
#pragma once

#include <memory>

#include "store/calls.h"
#include "store/database.h"

namespace sculler::store {

[[nodiscard]] Result<std::unique_ptr<Calls>> calls_on(std::shared_ptr<Connection> connection,
                                                      Clock& clock);

}  // namespace sculler::store
