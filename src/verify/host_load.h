// How crowded this host is at this moment.
#pragma once

namespace sculler::verify {

// Threads that run or wait for a processor, a processor of the host; 1 at least, and where /proc
// does not say.
[[nodiscard]] double runnable_per_cpu();

}  // namespace sculler::verify
