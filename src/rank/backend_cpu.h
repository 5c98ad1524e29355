#pragma once

#include <cstddef>

#include "rank/backend.h"

namespace sculler::rank {

const sculler_backend_api* cpu_backend();
// What ranks of one job share: to be made before they are forked. Null where that fails.
void* make_shared_barrier(int n_ranks);

}  // namespace sculler::rank
