// The PTX inside a fat binary as nvcc embeds it. The layout is not documented; what is read here
// was seen in CUDA 12 and 13: a header (magic 0xba55ed50), then entries, each with its own header.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sculler::emu::client {

struct PtxImage {
  std::string text;
  uint32_t arch = 0;  // 90 for sm_90 and sm_90a
};

// All plain PTX texts in the image: a fat binary, its wrapper, or PTX text itself. Empty: `why`
// says what is wrong.
std::vector<PtxImage> find_ptx(const void* image, std::string& why);

}  // namespace sculler::emu::client
