// Fundamental types of PTX, by spelling.
#pragma once

#include <optional>
#include <string_view>

#include "emu/ptx/ir.h"

namespace sculler::emu::ptx {

// "b32", "pred", "f16x2", "e4m3x2" ... without the dot; nullopt where no such type exists.
// Type::name points into static storage.
[[nodiscard]] std::optional<Type> type_from(std::string_view spelling);

}  // namespace sculler::emu::ptx
