// ptx::Module → Program.
#pragma once

#include <memory>
#include <string_view>

#include "base/error.h"
#include "emu/vm/program.h"

namespace sculler::emu::vm {

// kUnsupported names every instruction of the kernel, and of the functions it calls, that is not
// known, with its place; kNotFound where the module has no such entry; kBadInput where the text
// contradicts itself.
Result<std::shared_ptr<Program>> decode(std::shared_ptr<const ptx::Module> module,
                                        std::string_view entry);

}  // namespace sculler::emu::vm
