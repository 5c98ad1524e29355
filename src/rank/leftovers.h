// What the process above the ranks can tell when they have ended: lines on the report descriptor,
// evidence that only ever speaks against the candidate (docs/sandbox.md).
#pragma once

#include <cstdint>

namespace sculler::rank {

// "memory RANK BYTES LIMIT": the peak of a rank that ended badly, where it came close to its limit.
void report_memory(int report_fd, int rank, uint64_t peak_bytes);
// Kills the children that are left (this process is their subreaper): "left COUNT".
void report_leftovers(int report_fd);
// "full PATH" for each of /tmp and /dev/shm where nothing fits any more. For those that are the
// job's own.
void report_full_folders(int report_fd);

}  // namespace sculler::rank
