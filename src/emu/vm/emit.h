// Decoding of one PTX instruction into an Op. Each family of instructions registers its decoders in
// a table by opcode; a decoder consumes every modifier and operand or calls unsupported().
#pragma once

#include <array>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "emu/ptx/ir.h"
#include "emu/vm/program.h"

namespace sculler::emu::vm {

// A reference to a virtual register that register allocation will replace.
struct Fixup {
  uint32_t op;
  uint8_t slot;  // 0-4: Op::o; kGuardSlot; kListSlot: Program::refs[index]
  uint8_t kind;  // 0: 32-bit row, 1: 64-bit row, 2: predicate, 3: 128-bit (two 64-bit rows)
  bool is_dst;
  uint32_t index;  // of Program::refs
  uint32_t vreg;
};
inline constexpr uint8_t kGuardSlot = 5, kListSlot = 6;

struct FunctionDraft {
  const ptx::Function* source = nullptr;
  std::vector<uint8_t> kinds;  // by virtual register
  std::vector<uint16_t> bits;
  std::vector<Fixup> fixups;      // in order of ops
  std::vector<bool> overlapping;  // ops whose destinations must not share rows with their sources
  std::unordered_map<std::string_view, FunctionCode::Slot> frame;  // .local and .param variables
  int scratch[4] = {-1, -1, -1, -1};                               // sink registers by kind
};

class Emit {
 public:
  Emit(Program& p, std::deque<FunctionDraft>& all, FunctionDraft& f, FunctionCode& c,
       const ptx::Instruction& i, uint32_t at)
      : program(p), drafts(all), draft(f), code(c), in(i), at_(at) {}

  Program& program;
  std::deque<FunctionDraft>& drafts;
  FunctionDraft& draft;
  FunctionCode& code;
  const ptx::Instruction& in;
  Op op{};

  // ---- Modifiers, consumed in order.
  bool take(std::string_view name);
  [[nodiscard]] std::string_view peek() const {
    return mod_ < in.modifiers.size() ? in.modifiers[mod_] : std::string_view{};
  }
  std::optional<ptx::Type> type();
  // Index of the next modifier in `names`, -1 where it is none of them.
  template <size_t N>
  int choice(const std::array<std::string_view, N>& names) {
    for (size_t k = 0; k < N; ++k)
      if (peek() == names[k]) {
        ++mod_;
        return static_cast<int>(k);
      }
    return -1;
  }
  [[nodiscard]] bool modifiers_done() const { return mod_ == in.modifiers.size(); }

  // ---- Operands.
  [[nodiscard]] size_t count() const { return in.operands.size(); }
  [[nodiscard]] bool operands(size_t n);  // exactly n, else unsupported
  [[nodiscard]] const ptx::Operand& operand(size_t k) const { return in.operands[k]; }
  // `slot` of Op::o. A register of another width is an error.
  void dst(size_t slot, const ptx::Operand& o, unsigned bits);
  void src(size_t slot, const ptx::Operand& o, unsigned bits, bool is_float = false);
  void pred_dst(size_t slot, const ptx::Operand& o);
  void pred_src(size_t slot, const ptx::Operand& o);
  void dst(size_t slot, size_t k, unsigned bits) { dst(slot, operand(k), bits); }
  void src(size_t slot, size_t k, unsigned bits, bool is_float = false) {
    src(slot, operand(k), bits, is_float);
  }
  // Register or sink of any width up to 64 (ld, st, cvt); the width.
  unsigned dst_any(size_t slot, const ptx::Operand& o, unsigned at_least);
  unsigned src_any(size_t slot, const ptx::Operand& o, unsigned at_least, bool is_float = false);
  // Appends to op.list.
  void list_dst(const ptx::Operand& o, unsigned bits);
  void list_src(const ptx::Operand& o, unsigned bits, bool is_float = false);
  void list_inout(const ptx::Operand& o, unsigned bits);  // read, then written
  unsigned list_dst_any(const ptx::Operand& o, unsigned at_least);
  unsigned list_src_any(const ptx::Operand& o, unsigned at_least, bool is_float = false);
  [[nodiscard]] unsigned bits_of(const ptx::Operand& o) const;  // of a register; 0 for others
  // The immediate as an integer; false where the operand is none.
  bool immediate(const ptx::Operand& o, int64_t* value) const;
  Ref constant(uint64_t value, bool wide);
  Ref symbol(std::string_view name, int64_t addend, bool wide);
  Ref special(Special::Kind kind);
  [[nodiscard]] const FunctionCode::Slot* frame_slot(std::string_view name) const;
  [[nodiscard]] const FunctionCode::Slot* entry_param(std::string_view name) const;

  // Renames the operand of one slot to another.
  void move_to(uint8_t from, uint8_t to);
  // Index in Program::functions of a .func with a body, which will be decoded as well; nullopt
  // where there is none.
  std::optional<uint32_t> callee(std::string_view name);

  // Destinations of this op are written while sources are still needed.
  void no_overlap() { draft.overlapping[at_] = true; }
  void unsupported(std::string why = {});
  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] const std::string& why() const { return why_; }
  void guard();

 private:
  Ref resolve(const ptx::Operand& o, unsigned bits, bool is_float, uint8_t slot, bool is_dst,
              uint32_t index);
  Ref vreg(uint32_t reg, uint8_t slot, bool is_dst, uint32_t index);
  uint32_t sink(uint8_t kind);
  void start_list();
  bool know_symbol(std::string_view name);
  uint32_t at_;
  size_t mod_ = 0;
  bool failed_ = false, listing_ = false;
  std::string why_;
};

// Adds a function to the program: frame, registers. Its code is decoded later.
uint32_t add_function(Program& program, std::deque<FunctionDraft>& drafts,
                      const ptx::Function& source);

using Decode = void (*)(Emit&);
using DecodeTable = std::map<std::string_view, Decode>;

void register_integer(DecodeTable&);
void register_bits(DecodeTable&);
void register_float(DecodeTable&);
void register_compare(DecodeTable&);
void register_convert(DecodeTable&);
void register_move(DecodeTable&);
void register_memory(DecodeTable&);
void register_atomic(DecodeTable&);
void register_warp(DecodeTable&);
void register_control(DecodeTable&);
void register_matrix(DecodeTable&);
void register_async(DecodeTable&);
void register_cluster(DecodeTable&);
void register_wgmma(DecodeTable&);

// Operand bits of an instruction type as registers hold them.
[[nodiscard]] inline bool is_float(const ptx::Type& t) {
  return t.letter == 'f' || t.letter == 'h' || t.letter == 'H';
}

}  // namespace sculler::emu::vm
