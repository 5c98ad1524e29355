#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "data.h"
#include "emu/ptx/parser.h"

namespace sculler::emu::ptx {
namespace {

using Kind = Operand::Kind;

std::unique_ptr<Module> must_parse(std::string source) {
  auto module = parse(std::move(source));
  if (!module) {
    ADD_FAILURE() << module.error().file << ": " << module.error().message;
    return std::make_unique<Module>();
  }
  return std::move(*module);
}

std::unique_ptr<Module> kernel(const std::string& body) {
  return must_parse(
      ".version 9.0\n.target sm_90a\n.address_size 64\n.global .align 4 .b8 sym[64];\n"
      ".visible .entry k(.param .u64 k_param_0)\n{\n.reg .pred %p<9>;\n.reg .b32 %r<99>;\n"
      ".reg .b64 %rd<99>;\n" +
      body + "\n}\n");
}

const Variable& variable(const Module& module, std::string_view name) {
  for (const Variable& one : module.globals) {
    if (one.name == name) return one;
  }
  throw std::out_of_range(std::string(name));
}

// An operand as nvcc writes it, but for the signs of literals.
std::string print(const Operand& operand, const Function& function) {
  const auto join = [&](const std::vector<Operand>& elements, size_t from = 0) {
    std::string text;
    for (size_t i = from; i < elements.size(); ++i)
      text += (i > from ? "," : "") + print(elements[i], function);
    return text;
  };
  const auto offset = [](int64_t imm) {
    return imm == 0 ? std::string{} : "+" + std::to_string(imm);
  };
  const auto name = [&](int32_t reg) {
    return function.registers.at(static_cast<size_t>(reg)).name;
  };
  switch (operand.kind) {
    case Kind::kNone: return "<none>";
    case Kind::kRegister: return (operand.negated ? "!" : "") + name(operand.reg);
    case Kind::kImmediate: {
      if (!operand.is_float) return std::to_string(operand.imm);
      char text[32];
      std::snprintf(text, sizeof text, operand.float_bits == 32 ? "0f%08llX" : "0d%016llX",
                    static_cast<unsigned long long>(operand.imm));
      return text;
    }
    case Kind::kSymbol: return std::string(operand.symbol) + offset(operand.imm);
    case Kind::kAddress: {
      std::string base = operand.reg >= 0 ? name(operand.reg) : std::string(operand.symbol);
      base += base.empty() ? std::to_string(operand.imm) : offset(operand.imm);
      return "[" + base + (operand.elements.empty() ? "" : ",{" + join(operand.elements) + "}") +
             "]";
    }
    case Kind::kVector: return "{" + join(operand.elements) + "}";
    case Kind::kSpecial:
    case Kind::kLabel: return std::string(operand.symbol);
    case Kind::kSink: return "_";
    case Kind::kPair:
      return print(operand.elements.at(0), function) + "|" +
             print(operand.elements.at(1), function);
    case Kind::kList: return "(" + join(operand.elements) + ")";
  }
  return "<bad>";
}

std::string print(const Instruction& instruction, const Function& function) {
  std::string text;
  if (instruction.guard >= 0) {
    text = std::string("@") + (instruction.guard_negated ? "!" : "") +
           function.registers.at(static_cast<size_t>(instruction.guard)).name;
  }
  text += instruction.opcode;
  for (const auto modifier : instruction.modifiers) text += "." + std::string(modifier);
  for (size_t i = 0; i < instruction.operands.size(); ++i) {
    text += (i > 0 ? "," : "") + print(instruction.operands[i], function);
  }
  return text;
}

std::string squeeze(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::isspace(static_cast<unsigned char>(c)) == 0) out += c;
  }
  for (size_t at; (at = out.find("+0]")) != std::string::npos;) out.erase(at, 2);
  return out;
}

class RealOutput : public testing::TestWithParam<const char*> {};

// What was read, written out again, is the text: no operand lost, none confused.
TEST_P(RealOutput, RoundTrips) {
  const auto module = must_parse(read_data(GetParam()));
  size_t instructions = 0;
  for (const Function& function : module->functions) {
    for (const Instruction& instruction : function.code) {
      EXPECT_EQ(print(instruction, function), squeeze(instruction.text(module->source)))
          << "line " << instruction.ptx_line;
      ++instructions;
    }
  }
  // Every line of the text that ends in `;` inside a function and is no directive is one of them or
  // part of one.
  EXPECT_GT(instructions, 100u);
}
INSTANTIATE_TEST_SUITE_P(Nvcc, RealOutput,
                         testing::Values("misc.ptx", "misc_lineinfo.ptx", "lsa_lineinfo.ptx"));

TEST(Parser, ModuleOfARealFile) {
  const auto module = must_parse(read_data("misc.ptx"));
  EXPECT_EQ(module->version_major, 9u);
  EXPECT_EQ(module->version_minor, 0u);
  EXPECT_EQ(module->target, "sm_90a");
  const Function* misc = module->find("_Z4miscPii3BigS0_");
  ASSERT_NE(misc, nullptr);
  EXPECT_TRUE(misc->is_entry);
  EXPECT_EQ(misc->max_threads[0], 256u);
  EXPECT_EQ(misc->min_blocks, 2u);
  ASSERT_EQ(misc->params.size(), 4u);
  EXPECT_EQ(misc->params[2].bytes, 48u);
  EXPECT_EQ(misc->params[2].align, 4u);
  EXPECT_EQ(misc->params[0].bytes, 8u);
  EXPECT_EQ(misc->params[0].align, 8u);
  uint64_t shared = 0, depot = 0;
  for (const Variable& local : misc->locals) {
    if (local.space == Space::kShared) shared += local.bytes;
    if (local.space == Space::kLocal) depot += local.bytes;
    if (local.name == "param0") {
      EXPECT_EQ(local.bytes, 48u) << "param0 is as large as its largest use";
    }
  }
  EXPECT_EQ(shared, 4224u);
  EXPECT_EQ(depot, 72u);
  const Function* vprintf_declaration = module->find("vprintf");
  ASSERT_NE(vprintf_declaration, nullptr);
  EXPECT_TRUE(vprintf_declaration->is_declaration);
  const Function* f1 = module->find("_Z2f1i");
  ASSERT_NE(f1, nullptr);
  EXPECT_FALSE(f1->is_declaration) << "the definition replaces the declaration";
  EXPECT_EQ(f1->returns.size(), 1u);
  const Function* clustered = module->find("_Z9clusteredPfd");
  ASSERT_NE(clustered, nullptr);
  EXPECT_EQ(clustered->cluster[0], 2u);
  EXPECT_TRUE(clustered->explicit_cluster);
}

TEST(Parser, Initialisers) {
  const auto module = must_parse(read_data("misc.ptx"));
  const Variable& table = variable(*module, "table");
  EXPECT_EQ(table.bytes, 24u);
  EXPECT_EQ(table.align, 4u);
  EXPECT_EQ(table.init.size(), 21u);
  EXPECT_EQ(table.init[20], 6);
  const Variable& pointer = variable(*module, "ptr_to");
  ASSERT_EQ(pointer.relocations.size(), 1u);
  EXPECT_EQ(pointer.relocations[0].symbol, "table");
  EXPECT_EQ(pointer.relocations[0].addend, 20);
  EXPECT_TRUE(pointer.relocations[0].generic);
  const Variable& record = variable(*module, "s_init");
  ASSERT_EQ(record.relocations.size(), 1u);
  EXPECT_EQ(record.relocations[0].at, 8u);
  double first = 0;
  std::memcpy(&first, record.init.data(), 8);
  EXPECT_EQ(first, 1.5);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(record.init.data()) + 16, 4), "abcd");
  const Variable& functions = variable(*module, "fns");
  ASSERT_EQ(functions.relocations.size(), 2u);
  EXPECT_EQ(functions.relocations[1].symbol, "_Z2f2i");
  EXPECT_EQ(functions.relocations[1].at, 8u);
  EXPECT_FALSE(functions.relocations[1].generic);
  const Variable& dynamic = variable(*module, "dyn");
  EXPECT_EQ(dynamic.bytes, 0u);
  EXPECT_TRUE(dynamic.is_extern);
  EXPECT_EQ(dynamic.align, 16u);
}

TEST(Parser, NestedInitialisersAlignTheirRows) {
  const auto module = must_parse(
      ".version 9.0\n.target sm_90\n.global .u16 a[2][3] = {{1}, {4, 5, 6}};\n.global .f32 b[] = "
      "{0f3F800000, -1.5};\n"
      ".global .b8 c[8] = {0xFF(a), 0xFF00(a), 0xFF0000(a), 0xFF000000(a), 0xFF00000000(a), "
      "0xFF0000000000(a),"
      "0xFF000000000000(a), 0xFF00000000000000(a)};\n");
  EXPECT_THAT(variable(*module, "a").init,
              testing::ElementsAre(1, 0, 0, 0, 0, 0, 4, 0, 5, 0, 6, 0));
  const Variable& b = variable(*module, "b");
  EXPECT_EQ(b.bytes, 8u);
  float second = 0;
  std::memcpy(&second, b.init.data() + 4, 4);
  EXPECT_EQ(second, -1.5f);
  ASSERT_EQ(variable(*module, "c").relocations.size(), 1u);
  EXPECT_EQ(variable(*module, "c").relocations[0].symbol, "a");
}

TEST(Parser, LabelsAndRegistersOfScopesShadow) {
  const auto module = kernel(
      "bra OUT;\n"
      "{ .reg .pred P1; .reg .b64 %r1; W: mov.b64 %r1, 1; @P1 bra D; bra W; D: }\n"
      "mov.b32 %r1, 2;\n"
      "{ .reg .pred P1; W: mov.b32 %r1, 1; @!P1 bra D; bra W; D: { bra W; bra OUT; } }\n"
      "OUT: ret;");
  const Function& k = *module->find("k");
  ASSERT_EQ(k.code.size(), 11u);
  EXPECT_EQ(k.code[0].operands[0].kind, Kind::kLabel);
  EXPECT_EQ(k.code[0].operands[0].imm, 10);
  EXPECT_EQ(k.code[2].operands[0].imm, 4) << "D of the first scope";
  EXPECT_EQ(k.code[3].operands[0].imm, 1) << "W of the first scope";
  EXPECT_EQ(k.code[6].operands[0].imm, 8) << "D of the second";
  EXPECT_EQ(k.code[7].operands[0].imm, 5);
  EXPECT_EQ(k.code[8].operands[0].imm, 5) << "the enclosing scope's W";
  EXPECT_TRUE(k.code[6].guard_negated);
  EXPECT_NE(k.code[2].guard, k.code[6].guard);
  EXPECT_EQ(k.registers[static_cast<size_t>(k.code[1].operands[0].reg)].type.bits, 64);
  EXPECT_EQ(k.registers[static_cast<size_t>(k.code[4].operands[0].reg)].type.bits, 32);
  EXPECT_EQ(k.code[4].operands[0].reg, k.code[5].operands[0].reg);
}

TEST(Parser, BranchAndCallTables) {
  const auto module = kernel(
      "$L_brx_0: .branchtargets $A, $B,\n $A;\n"
      "brx.idx %r1, $L_brx_0;\n$A: add.s32 %r1, %r1, -1;\n$B: ret;\n"
      "ct: .calltargets k;\npt: .callprototype (.param .b32 _) _ (.param .b32 _);\ncall %rd1, pt;");
  const Function& k = *module->find("k");
  ASSERT_EQ(k.branch_tables.size(), 1u);
  EXPECT_THAT(k.branch_tables[0], testing::ElementsAre(1, 2, 1));
  EXPECT_EQ(k.branch_table_names[0], "$L_brx_0");
  EXPECT_EQ(k.code[0].operands[1].kind, Kind::kLabel);
  EXPECT_EQ(k.code[0].operands[1].imm, 0);
  EXPECT_EQ(k.code[3].operands[1].kind, Kind::kSymbol);
  EXPECT_EQ(k.code[3].operands[1].symbol, "pt");
}

TEST(Parser, Operands) {
  const auto module = kernel(
      "st.global.v2.f32 [%rd1+-8], {0fBF800000, -0f3F800000};\n"
      "mov.u64 %rd1, sym+12;\n"
      "ld.b32 %r1, [sym+-4];\n"
      "ld.b32 %r1, [4096];\n"
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%r1], [%rd1, {%r2, 0, %r3}], [%r4], %rd2;\n"
      "shfl.sync.bfly.b32 %r1|%p1, %r2, 1, 31, -1;\n"
      "setp.lt.and.s32 %p1|%p2, %r1, 0xFFFFFFFF, !%p3;\n"
      "atom.global.cas.b128 _, [%rd1], 18446744073709551615U, 0b101;\n"
      "mov.u32 %r1, %tid.x; mov.u32 %r1, %laneid; mov.u32 %r1, WARP_SZ;\n"
      "fma.rn.f64 %rd1, %rd2, 0d3FF0000000000000, 0.5;");
  const Function& k = *module->find("k");
  const auto& code = k.code;
  EXPECT_EQ(code[0].operands[0].imm, -8);
  EXPECT_EQ(code[0].operands[1].elements[0].imm, code[0].operands[1].elements[1].imm);
  EXPECT_EQ(code[0].operands[1].elements[0].float_bits, 32);
  EXPECT_EQ(code[1].operands[1].kind, Kind::kSymbol);
  EXPECT_EQ(code[1].operands[1].imm, 12);
  EXPECT_EQ(code[2].operands[1].imm, -4);
  EXPECT_EQ(code[2].operands[1].symbol, "sym");
  EXPECT_EQ(code[3].operands[1].imm, 4096);
  EXPECT_EQ(code[3].operands[1].reg, -1);
  EXPECT_THAT(code[4].modifiers,
              testing::ElementsAre("async", "bulk", "tensor", "3d", "shared::cluster", "global",
                                   "mbarrier::complete_tx::bytes", "L2::cache_hint"));
  ASSERT_EQ(code[4].operands.size(), 4u);
  EXPECT_EQ(code[4].operands[1].elements.size(), 3u);
  EXPECT_EQ(code[5].operands[0].kind, Kind::kPair);
  EXPECT_EQ(code[6].operands[2].imm, 0xFFFFFFFF);
  EXPECT_TRUE(code[6].operands[3].negated);
  EXPECT_EQ(code[7].operands[0].kind, Kind::kSink);
  EXPECT_EQ(code[7].operands[2].imm, -1);
  EXPECT_EQ(code[7].operands[3].imm, 5);
  EXPECT_EQ(code[8].operands[1].symbol, "%tid.x");
  EXPECT_EQ(code[9].operands[1].symbol, "%laneid");
  EXPECT_EQ(code[10].operands[1].kind, Kind::kSpecial);
  EXPECT_EQ(std::bit_cast<double>(code[11].operands[3].imm), 0.5);
}

TEST(Parser, SourceLinesLeadOutOfInlinedCode) {
  const auto module = must_parse(read_data("lsa_lineinfo.ptx"));
  size_t inlined = 0, own = 0;
  for (const Function& function : module->functions) {
    for (const Instruction& instruction : function.code) {
      if (instruction.line == 0) continue;
      ASSERT_LT(instruction.file, module->files.size());
      if (instruction.at_line != 0) {
        EXPECT_EQ(module->files[instruction.at_file], "lsa.cu")
            << "ptx line " << instruction.ptx_line;
        ++inlined;
      } else {
        EXPECT_EQ(module->files[instruction.file], "lsa.cu") << "ptx line " << instruction.ptx_line;
        ++own;
      }
    }
  }
  EXPECT_GT(inlined, 40u);
  EXPECT_GT(own, 20u);
}

// A kernel of a library names what its user put in, else the first file behind its outermost one.
TEST(Parser, SourceLinesOfLibrariesKernels) {
  const auto module = must_parse(
      ".version 8.8\n.target sm_90a\n.address_size 64\n"
      ".entry k() { .reg .b32 %r<4>;\n"
      ".loc 1 123 3\n mov.u32 %r1, 1;\n"
      ".loc 2 847 9, function_name $L0, inlined_at 1 123 3\n mov.u32 %r1, 2;\n"
      ".loc 3 424 15, function_name $L0, inlined_at 2 847 9\n mov.u32 %r1, 3;\n"
      ".loc 4 87 7, function_name $L0, inlined_at 2 900 1\n"
      ".loc 2 900 1, function_name $L0, inlined_at 1 123 3\n"
      ".loc 4 87 7, function_name $L0, inlined_at 2 900 1\n mov.u32 %r1, 4;\n"
      ".loc 3 424 15, function_name $L0, inlined_at 4 87 7\n mov.u32 %r1, 5;\n"
      "ret; }\n"
      ".file 1 \"/lib/include/lib/kernel.h\"\n.file 2 \"/lib/include/lib/loop.hpp\"\n"
      ".file 3 \"/lib/include/lib/barrier.h\"\n.file 4 \"/task/mine.h\"\n"
      ".section .debug_str { $L0: .b8 0 }\n");
  const auto& code = module->functions[0].code;
  EXPECT_EQ(code[0].at_line, 0u);
  EXPECT_EQ(code[1].at_file, 2u);
  EXPECT_EQ(code[1].at_line, 847u);
  EXPECT_EQ(code[2].at_file, 2u);
  EXPECT_EQ(code[2].at_line, 847u);
  EXPECT_EQ(code[2].file, 3u);
  EXPECT_TRUE(code[2].from_library);
  EXPECT_EQ(code[3].at_file, 4u);
  EXPECT_EQ(code[4].at_file, 4u);
  EXPECT_EQ(code[4].at_line, 87u);
}

TEST(Parser, RegisterParametersAndPragmas) {
  const auto module = must_parse(
      ".version 8.8\n.target sm_90, debug\n.address_size 64\n"
      ".weak .func (.reg .b32 out) twice(.reg .b32 in, .param .u64 .ptr .global .align 16 "
      "p)\n.noreturn\n"
      "{ .pragma \"nounroll\"; add.s32 out, in, in; ret; }\n");
  const Function& twice = *module->find("twice");
  EXPECT_TRUE(twice.is_noreturn);
  EXPECT_EQ(twice.code[0].operands[0].kind, Kind::kRegister);
  EXPECT_EQ(twice.params[1].align, 8u);
  EXPECT_EQ(module->version_minor, 8u);
}

}  // namespace
}  // namespace sculler::emu::ptx
