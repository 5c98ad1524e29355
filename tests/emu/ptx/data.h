#pragma once

#include <fstream>
#include <iterator>
#include <string>

inline std::string read_data(const std::string& name) {
  std::ifstream in(std::string(SCULLER_SOURCE_DIR) + "/tests/emu/ptx/data/" + name,
                   std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
