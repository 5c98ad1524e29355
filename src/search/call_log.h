// The run's database as the place where calls of models are kept.
#pragma once

#include <memory>

#include "llm/make.h"
#include "store/calls.h"

namespace sculler::search {

// `calls` must outlive it.
[[nodiscard]] std::unique_ptr<llm::CallLog> make_call_log(store::Calls& calls);

}  // namespace sculler::search
