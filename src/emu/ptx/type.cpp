#include "emu/ptx/type.h"

#include <array>

namespace sculler::emu::ptx {
namespace {

constexpr std::array kTypes{
    Type{'b', 32, "b32"},    Type{'b', 64, "b64"},        Type{'b', 8, "b8"},
    Type{'b', 16, "b16"},    Type{'u', 32, "u32"},        Type{'u', 64, "u64"},
    Type{'u', 16, "u16"},    Type{'u', 8, "u8"},          Type{'s', 32, "s32"},
    Type{'s', 64, "s64"},    Type{'s', 16, "s16"},        Type{'s', 8, "s8"},
    Type{'f', 32, "f32"},    Type{'f', 64, "f64"},        Type{'p', 1, "pred"},
    Type{'h', 16, "f16"},    Type{'H', 16, "bf16"},       Type{'x', 32, "f16x2"},
    Type{'x', 32, "bf16x2"}, Type{'b', 128, "b128"},      Type{'x', 8, "e4m3"},
    Type{'x', 8, "e5m2"},    Type{'x', 16, "e4m3x2"},     Type{'x', 16, "e5m2x2"},
    Type{'x', 32, "tf32"},   Type{'x', 32, "u16x2"},      Type{'x', 32, "s16x2"},
    Type{'x', 64, "texref"}, Type{'x', 64, "samplerref"}, Type{'x', 64, "surfref"},
};

}  // namespace

std::optional<Type> type_from(std::string_view spelling) {
  for (const Type& type : kTypes) {
    if (type.name == spelling) return type;
  }
  return std::nullopt;
}

}  // namespace sculler::emu::ptx
