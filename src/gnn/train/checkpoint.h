// The state of a training between two epochs, in one file that is replaced whole.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace sculler::gnn {

struct Checkpoint {
  uint64_t epochs = 0;  // done
  // Names and values of the settings that the losses depend on, in order.
  std::vector<std::pair<std::string, std::string>> settings;
  std::vector<float> state;  // of the model
};

// A JSON line, then the floats; the line has their hash.
[[nodiscard]] std::string encode(const Checkpoint& checkpoint);
[[nodiscard]] Result<Checkpoint> decode(std::string_view bytes, const std::string& origin);
// kUsage names the first setting that differs.
[[nodiscard]] Status same_settings(const Checkpoint& checkpoint, const Checkpoint& now,
                                   const std::string& origin);

}  // namespace sculler::gnn
