// Text of PTX -> Module. Knows the grammar of everything that nvcc 13 emits for sm_90a, with or
// without -lineinfo, and of inline assembly (scoped registers and labels); knows no opcode.
#pragma once

#include <memory>
#include <string>

#include "base/error.h"
#include "emu/ptx/ir.h"

namespace sculler::emu::ptx {

// Limits on hostile input.
inline constexpr uint32_t kMaxSource = 256u << 20;           // bytes of text
inline constexpr uint32_t kMaxRegisters = 1u << 20;          // of a module
inline constexpr uint32_t kMaxNesting = 64;                  // scopes and initialiser braces
inline constexpr uint64_t kMaxVariable = uint64_t{1} << 36;  // bytes
inline constexpr uint32_t kMaxFiles = 1u << 16;

// Errors: ErrorCode::kBadInput with file "ptx:LINE" and what is wrong there, or what is not
// supported.
Result<std::unique_ptr<Module>> parse(std::string source);

}  // namespace sculler::emu::ptx
