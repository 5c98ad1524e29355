// A kernel decoded for execution: one Op a PTX instruction, in the same order, so that an op's
// index is its place in the text. Operands are resolved to byte offsets into a warp's banks;
// constants are broadcast over 32 lanes beforehand.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "emu/ptx/ir.h"

namespace sculler::emu::vm {

struct Warp;
struct Op;

// What the warp loop does after an op.
enum class Act : uint8_t {
  kNext,    // on to pc + 1
  kBranch,  // lanes in warp.exec go to op.target, the others of the group go on
  kSplit,   // lanes have been given their own targets (brx.idx): warp.lane_target
  kCall,
  kReturn,
  kExit,
  kWait,    // the group waits (warp.wait says for what); it goes on behind this op when released
  kRetry,   // not possible yet: run this op again when the group is scheduled next
  kYield,   // on to pc + 1, but let others run first
  kArrive,  // on to pc + 1; a block barrier may be complete now
  kClusterArrive,  // on to pc + 1; the cluster's barrier may be complete now
  kClusterWait,    // run this op again when the cluster's barrier is complete
  kFault,
};
using Handler = Act (*)(Warp&, const Op&);

// Where 32 lanes of a value lie: bank in the top two bits, byte offset below.
using Ref = uint32_t;
enum Bank : uint32_t { kBank32 = 0, kBank64 = 1, kConstants = 2, kSpecials = 3 };
inline constexpr uint32_t kBankShift = 30;
inline constexpr Ref kOffsetMask = (1u << kBankShift) - 1;
inline constexpr uint32_t kRow32 = 128, kRow64 = 256, kRow128 = 512;

// A predicate operand: slot << 1 | negated.
using PredRef = uint32_t;
inline constexpr PredRef kAlways = ~0u;

struct Op {
  Handler run = nullptr;
  int64_t imm = 0;  // address offset, shift, bytes
  PredRef guard = kAlways;
  uint32_t list = 0;            // first of this op's refs in Program::refs
  Ref o[5] = {};                // destination, then sources; predicates where the opcode says so
  uint32_t target = 0;          // branch: op index; call: function
  uint8_t n = 0;                // vector elements, list length
  uint8_t a = 0, b = 0, c = 0;  // modifiers, the handler's own
  uint16_t flops = 0;           // a lane
  uint8_t order = 0, scope = 0, space = 0, bytes = 0;  // of memory operations
};
static_assert(sizeof(Op) == 64);

struct Special {
  enum Kind : uint8_t {
    kTidX,
    kTidY,
    kTidZ,
    kNtidX,
    kNtidY,
    kNtidZ,
    kCtaidX,
    kCtaidY,
    kCtaidZ,
    kNctaidX,
    kNctaidY,
    kNctaidZ,
    kLaneid,
    kWarpid,
    kNwarpid,
    kSmid,
    kNsmid,
    kLanemaskEq,
    kLanemaskLe,
    kLanemaskLt,
    kLanemaskGe,
    kLanemaskGt,
    kClusteridX,
    kClusteridY,
    kClusteridZ,
    kNclusteridX,
    kNclusteridY,
    kNclusteridZ,
    kClusterCtaidX,
    kClusterCtaidY,
    kClusterCtaidZ,
    kClusterNctaidX,
    kClusterNctaidY,
    kClusterNctaidZ,
    kClusterCtarank,
    kClusterNctarank,
    kTotalSmem,
    kDynamicSmem,
    kReservedSmemBegin,
    kReservedSmemEnd,
    kReservedSmemCap,
    kEnvreg1,
    kEnvreg2,
    kEnvregOther,
    kGridid,
    kCount,
  };
};

// A broadcast constant; with a symbol, its address in the module's rank is added when the kernel is
// bound to a rank.
struct Constant {
  uint64_t value = 0;
  std::string_view symbol{};
  uint32_t offset = 0;  // of the row in the constant bank
  bool wide = false;    // 64-bit lanes
  bool is_128 = false;
};

struct FunctionCode {
  const ptx::Function* source = nullptr;
  uint32_t begin = 0, end = 0;                 // ops
  uint32_t rows32 = 0, rows64 = 0, preds = 0;  // of a frame, in bytes, bytes, slots
  uint32_t frame_bytes = 0;                    // .local variables and .param storage, a lane
  struct Slot {
    uint32_t offset, bytes;
  };
  std::vector<Slot> params, returns;  // in the frame; unused for the entry
  uint32_t live32 = 0;                // most 32-bit registers live at once
};

struct CallSite {
  uint32_t callee = 0;
  std::vector<FunctionCode::Slot> arguments, results;  // in the caller's frame
};

// Operands of a bulk copy: refs by their place in Program::refs.
struct BulkSite {
  struct Part {
    uint32_t index = ~0u;  // ~0u: there is none
    int64_t imm = 0;
    bool wide = false;
  };
  Part to, from, barrier, size, mask;  // from or to: the tensor map, where there is one
  Part coordinates[5];
  uint8_t dims = 0;
  bool to_global = false, from_global = false;
  enum Reduce : uint8_t { kCopy, kAdd, kMin, kMax, kInc, kDec, kAnd, kOr, kXor } reduce = kCopy;
  enum Element : uint8_t {
    kU32,
    kS32,
    kU64,
    kS64,
    kF16,
    kBf16,
    kF32,
    kF64,
    kNoElement
  } element = kNoElement;
};

// Immutable after decoding, shared by all ranks that loaded the same text.
struct Program {
  std::shared_ptr<const ptx::Module> module;
  std::string name;
  std::vector<Op> ops;
  std::vector<Ref> refs;
  std::deque<FunctionCode> functions;  // [0] the entry
  std::vector<CallSite> calls;
  std::vector<BulkSite> bulks;
  std::vector<Constant> constants;
  std::vector<std::vector<uint32_t>> branch_tables;
  uint32_t constant_bytes = 0;
  std::vector<Special::Kind> specials;  // rows of the special bank, in order
  struct SharedSymbol {
    std::string_view name;
    const ptx::Variable* variable;
    uint32_t offset;
  };
  std::vector<SharedSymbol> shared_symbols;
  uint32_t static_shared = 0;  // bytes behind the reserved part
  uint32_t dynamic_align = 16;
  std::vector<FunctionCode::Slot> params;  // of the entry
  uint32_t param_bytes = 0;
  uint32_t registers = 0;  // estimate a thread
  uint32_t code_base = 0;  // CodeRef::function of functions[0]
};

}  // namespace sculler::emu::vm
