// Elements of inputs, many at a time: the bits of sculler/fill.h by the widest vectors that this
// processor has.
#pragma once

#include <cstdint>

#include "verify/job.h"

namespace sculler::verify {

// The bits of elements [begin, end) of a buffer's stream, as sculler_element() gives them, one a
// word.
void generate(const BufferSpec& b, uint64_t key, uint64_t begin, uint64_t end, uint32_t* words);

}  // namespace sculler::verify
