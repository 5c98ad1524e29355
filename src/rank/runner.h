// One rank: talks to the trusted process, loads backend and candidate, runs. Untrusted: it shares
// its address space with the candidate from Setup on.
#pragma once

#include "rank/spec.h"

namespace sculler::rank {

// Returns the exit code of the process.
int run_rank(const RankSpec& spec, int rank, int control_fd, void* shared_barrier);

}  // namespace sculler::rank
