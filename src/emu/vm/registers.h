// Virtual registers → rows of the banks, by liveness, so that a warp's registers stay in the
// nearest cache.
#pragma once

#include "emu/vm/emit.h"

namespace sculler::emu::vm {

void assign_registers(Program& program, FunctionCode& code, const FunctionDraft& draft);

}  // namespace sculler::emu::vm
