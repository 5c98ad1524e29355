// Any text: parse() ends in a module or an error; what a module refers to lies within it.
#include <cstdlib>

#include "emu/ptx/parser.h"

namespace {

using namespace sculler::emu::ptx;

void check(bool holds) {
  if (!holds) std::abort();
}

void check_operand(const Operand& operand, const Function& function) {
  check(operand.reg >= -1 && operand.reg < static_cast<int64_t>(function.registers.size()));
  if (operand.kind == Operand::Kind::kLabel) {
    check(operand.imm >= 0 &&
          operand.imm <=
              static_cast<int64_t>(std::max(function.code.size(), function.branch_tables.size())));
  }
  for (const Operand& element : operand.elements) check_operand(element, function);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto module = parse(std::string(reinterpret_cast<const char*>(data), size));
  if (!module) {
    check(!module.error().message.empty());
    return 0;
  }
  for (const Function& function : (*module)->functions) {
    for (const Instruction& instruction : function.code) {
      check(instruction.guard < static_cast<int64_t>(function.registers.size()));
      check(instruction.file < (*module)->files.size() &&
            instruction.at_file < (*module)->files.size());
      check(!instruction.text((*module)->source).empty());
      for (const Operand& operand : instruction.operands) check_operand(operand, function);
    }
    for (const auto& table : function.branch_tables) {
      for (const uint32_t target : table) check(target <= function.code.size());
    }
  }
  for (const Variable& variable : (*module)->globals) {
    check(variable.init.size() <= variable.bytes);
    for (const auto& relocation : variable.relocations)
      check(relocation.at + 8 <= variable.init.size());
  }
  return 0;
}
