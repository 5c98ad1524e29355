// SHA-256's compression of one block: the processor's instructions for it where it has them.
#pragma once

#include <cstdint>

namespace sculler {

// 64 bytes are taken into `state` (8 words).
void sha256_block(uint32_t* state, const uint8_t* block);
// The same in plain C++, for machines without these instructions and for the test.
void sha256_block_plain(uint32_t* state, const uint8_t* block);

}  // namespace sculler
