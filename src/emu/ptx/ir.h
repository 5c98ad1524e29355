// PTX as parsed: structure only. The parser knows the grammar (directives, operands, labels, .loc)
// and no opcode; what an instruction means is decided by vm/decode, so an unknown opcode is found
// when a kernel that holds it is decoded.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sculler::emu::ptx {

enum class Space : uint8_t { kNone, kReg, kGlobal, kShared, kLocal, kParam, kConst };

// A fundamental type: letter and width. b8 u16 s32 f64 pred bf16 f16x2 bf16x2 e4m3 ... `name` keeps
// the spelling.
struct Type {
  char letter = 'b';   // b u s f; 'p' pred; 'h' f16; 'H' bf16; 'x' other, see name
  uint16_t bits = 32;  // of one element as stored: f16x2 and bf16x2 are 32
  std::string_view name{};
};

// A register as declared: `.reg .b32 %r<10>` declares ten. Ids are dense a function.
struct Register {
  std::string name;
  Type type;
};

struct Operand {
  enum class Kind : uint8_t {
    kNone,
    kRegister,   // reg; negated for `!%p`
    kImmediate,  // imm: two's complement, or the bits of an f32 / f64 literal (is_float,
                 // float_bits)
    kSymbol,     // symbol (a variable's or function's name), imm = offset from `sym+8`
    kAddress,    // [reg+imm], [symbol+imm] or [imm]
    kVector,     // {a, b, ...}: elements; `_` is kSink
    kSpecial,    // %tid.x, %laneid, %clock64 ...: symbol holds the spelling
    kLabel,  // branch target: symbol holds the name, imm its instruction index (code.size() for a
             // label behind the last one); of a .branchtargets list (brx.idx): imm its index in
             // Function::branch_tables
    kSink,   // _
    kPair,   // p|q in a destination: elements[0], elements[1]
    kList,   // (a, b) of a call: elements
  };
  Kind kind = Kind::kNone;
  bool negated = false;
  bool is_float = false;
  uint8_t float_bits = 0;  // 32 or 64 where is_float
  int32_t reg = -1;
  int64_t imm = 0;
  std::string_view symbol{};      // points into Module::source
  std::vector<Operand> elements;  // of kAddress too: coordinates of a tensor copy, [map, {x, y, z}]
};

struct Instruction {
  std::string_view opcode;  // "ld", "mma", "cp", "bar" ...: the part before the first dot
  std::vector<std::string_view> modifiers;  // the rest, in order: "global", "v4", "u32", "sync" ...
  std::vector<Operand> operands;            // destination first, as written
  int32_t guard = -1;                       // predicate register, -1 for none
  bool guard_negated = false;
  uint32_t ptx_line = 0;        // 1-based line in the PTX text
  uint32_t file = 0, line = 0;  // from .loc: index into Module::files, 1-based line; 0 = unknown
  // Where .loc had inlined_at: `file`/`line` are the innermost place; at_* is the innermost one in
  // the file of the outermost, code that nobody inlined: the kernel author's own line. Reports name
  // at_* where it is set.
  uint32_t at_file = 0, at_line = 0;
  bool from_library = false;                             // nobody's code but a library's inlined it
  std::string_view text(std::string_view source) const;  // the instruction as written
  uint32_t begin = 0, end = 0;                           // bytes in the source
};

// A variable: .global, .const, .shared, .local or .param, with its initial bytes if it has any.
struct Variable {
  std::string_view name;
  Space space = Space::kNone;
  Type type;
  uint32_t align = 1;
  uint64_t bytes = 0;  // 0 for `extern .shared x[]`
  bool is_extern = false, is_weak = false, is_visible = false;
  std::vector<uint8_t> init;  // the first bytes, init.size() <= bytes; the rest is zero
  struct Relocation {
    uint64_t at;
    std::string_view symbol;
    int64_t addend;
    bool generic;
  };
  std::vector<Relocation> relocations;  // initialisers that hold addresses
};

struct Function {
  std::string_view name;
  bool is_entry = false;
  bool is_declaration = false;  // a prototype: vprintf, __assertfail ...
  bool is_noreturn = false;
  std::vector<Variable> params;   // offsets follow from order and alignment
  std::vector<Variable> returns;  // .func only
  std::vector<Variable>
      locals;  // .local and .shared declared inside; .param of calls, one entry a name
  std::vector<Register> registers;
  std::vector<Instruction> code;
  std::vector<std::vector<uint32_t>> branch_tables;  // .branchtargets: instruction indices
  std::vector<std::string_view> branch_table_names;
  uint32_t max_threads[3] = {0, 0, 0};       // .maxntid, 0 = not said
  uint32_t required_threads[3] = {0, 0, 0};  // .reqntid
  uint32_t min_blocks = 0;                   // .minnctapersm
  uint32_t max_registers = 0;                // .maxnreg
  uint32_t cluster[3] = {0, 0, 0};           // .reqnctapercluster
  bool explicit_cluster = false;
};

// Owns the text; every string_view points into it (or to a static name of a type). Not to be moved.
struct Module {
  Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  std::string source;
  uint32_t version_major = 0, version_minor = 0;
  std::string_view target;  // "sm_90a"
  uint32_t address_size = 64;
  std::vector<std::string> files;  // [0] is empty; index as in .file
  std::vector<Variable> globals;
  std::vector<Function> functions;
  [[nodiscard]] const Function* find(std::string_view name) const;
};

}  // namespace sculler::emu::ptx
