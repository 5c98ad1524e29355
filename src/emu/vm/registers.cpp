#include "emu/vm/registers.h"

namespace sculler::emu::vm {

void assign_registers(Program& program, FunctionCode& code, const FunctionDraft& draft) {
  std::vector<uint32_t> place(draft.kinds.size(), ~0u);
  for (const Fixup& f : draft.fixups) {
    uint32_t& at = place[f.vreg];
    if (at == ~0u) {
      switch (f.kind) {
        case 0:
          at = code.rows32;
          code.rows32 += kRow32;
          break;
        case 1:
          at = kBank64 << kBankShift | code.rows64;
          code.rows64 += kRow64;
          break;
        case 3:
          at = kBank64 << kBankShift | code.rows64;
          code.rows64 += kRow128;
          break;
        default:
          at = code.preds++;
      }
    }
    Op& op = program.ops[code.begin + f.op];
    uint32_t& field = f.slot == kGuardSlot  ? op.guard
                      : f.slot == kListSlot ? program.refs[f.index]
                                            : op.o[f.slot];
    field = f.kind == 2 ? at << 1 | (field & 1) : at;
  }
  code.live32 = code.rows32 / kRow32 + code.rows64 / kRow64 * 2;
}

}  // namespace sculler::emu::vm
