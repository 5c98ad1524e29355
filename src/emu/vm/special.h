// Special registers: names, and their rows for a warp.
#pragma once

#include <optional>
#include <string_view>

#include "emu/vm/program.h"
#include "emu/vm/state.h"

namespace sculler::emu::vm {

// "%tid.x" ... those that do not change while a warp lives; nullopt for others (clocks,
// activemask).
[[nodiscard]] std::optional<Special::Kind> special_from(std::string_view spelling);
// Fills warp.specials for the program's list.
void fill_specials(Warp& warp, const Block& block, const Grid& grid);

}  // namespace sculler::emu::vm
