// PTX comes from a candidate: whatever it says, the answer is an Error or a Fault, never a crash.
#include <random>

#include "emu/vm/harness.h"

namespace sculler::emu {
namespace {

// Loads, decodes and runs every kernel of a text; true where all of it went through.
bool survive(Engine& engine, const std::string& text) {
  auto module = engine.load(0, text);
  if (!module) return false;
  bool all = true;
  for (size_t at = 0; (at = text.find(".entry", at)) != std::string::npos; at += 6) {
    const size_t begin = text.find_first_not_of(" \t\n", at + 6),
                 end = text.find_first_of(" \t\n(", begin);
    if (begin == std::string::npos || end == std::string::npos) break;
    auto kernel = engine.kernel(*module, text.substr(begin, end - begin));
    if (!kernel) {
      all = false;
      continue;
    }
    const KernelInfo& info = engine.info(*kernel);
    LaunchRequest r;
    r.kernel = *kernel;
    r.block = {64, 1, 1};
    r.params.assign(info.param_bytes, 0);
    const Address buffer =
        *engine.memory().allocate(0, 65536, Allocation::Kind::kDevice, "buffer", true);
    for (const auto& p : info.params)
      if (p.bytes == 8) std::memcpy(r.params.data() + p.offset, &buffer, 8);
    if (engine.launch(r)) {
      for (int k = 0; k < 4; ++k)
        if (engine.run(20'000) != Engine::Stop::kGridDone) break;
    }
    engine.kill_rank(0);
    (void)engine.take_finished();
    (void)engine.warps();
    (void)engine.memory().release(0, buffer);
  }
  engine.unload(*module);
  return all;
}

EngineConfig small() {
  EngineConfig c;
  c.limits.memory_bytes = uint64_t{64} << 20;
  return c;
}

TEST(Hostile, DamagedTextNeverCrashes) {
  std::mt19937 rng(11);
  const char* names[] = {"opcodes.ptx", "basic.ptx", "grid.ptx",
                         "gemm.ptx",    "lsa.ptx",   "hopper.ptx"};
  Engine engine(small());
  for (const char* name : names) {
    const std::string good = fixture(name);
    ASSERT_FALSE(good.empty());
    const size_t code = good.find(".entry");
    for (int round = 0; round < 60; ++round) {
      std::string bad = good;
      for (uint32_t n = 1 + rng() % 12; n > 0; --n) {
        const size_t at = code + rng() % (bad.size() - code);
        switch (rng() % 6) {
          case 0: bad[at] = static_cast<char>(rng() % 127 + 1); break;
          case 1: bad.erase(at, rng() % 20); break;
          case 2: bad.insert(at, bad.substr(code + rng() % (bad.size() - code), rng() % 40)); break;
          case 3: {  // another number
            const size_t digit = bad.find_first_of("0123456789", at);
            if (digit != std::string::npos) bad[digit] = static_cast<char>('0' + rng() % 10);
            break;
          }
          case 4: {  // another modifier
            const size_t dot = bad.find('.', at),
                         from = bad.find('.', code + rng() % (bad.size() - code));
            if (dot == std::string::npos || from == std::string::npos) break;
            const size_t end = bad.find_first_of(" .\t;", from + 1),
                         stop = bad.find_first_of(" .\t;", dot + 1);
            if (end == std::string::npos || stop == std::string::npos) break;
            bad.replace(dot, stop - dot, std::string(bad.substr(from, end - from)));
            break;
          }
          default: {  // swap two lines
            const size_t a = bad.find('\n', at),
                         b = a == std::string::npos ? a : bad.find('\n', a + 1);
            const size_t c = b == std::string::npos ? b : bad.find('\n', b + 1);
            if (c == std::string::npos) break;
            const std::string first = bad.substr(a, b - a), second = bad.substr(b, c - b);
            bad.replace(a, c - a, second + first);
          }
        }
      }
      survive(engine, bad);
    }
  }
}

std::string kernel_with(const std::string& body) {
  return ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p) {\n.reg "
         ".b32 %r<9>;\n.reg .b64 %rd<9>;\n"
         ".reg .f32 %f<9>;\n.reg .b16 %h<9>;\n.reg .pred %p<9>;\n.shared .align 16 .b8 "
         "s[64];\nld.param.u64 %rd1, [p];\n" +
         body + "\nret;\n}\n";
}

TEST(Hostile, UnknownInstructionsAreNamed) {
  Engine engine(small());
  const char* bodies[] = {
      "wgmma.mma_async.sync.aligned.m64n12k16.f32.bf16.bf16 {%f1,%f2,%f3,%f4}, %rd1, %rd1, 1, 1, "
      "1, 0, 0;",
      "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.bf16.bf16 {%f1,%f2,%f3,%f4}, %rd1, %rd1, %r1, "
      "0, 1, 1, 1, 0, 0;",
      "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%r1,%r2,%r3,%r4}, %rd1, %rd1, 1;",
      "cp.async.bulk.shared::cluster.shared::cluster.mbarrier::complete_tx::bytes [%r1], [%r2], "
      "16, "
      "[%r3];",
      "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%r1], "
      "[%rd1, {%r1, %r2, %r3}], [%r2], {%h1};",
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, "
      "{%r1}], [%r2];",
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.min.f32 [%rd1], [%r1], 16;",
      "tensormap.replace.tile.global_address.global.b1024.b64 [%rd1], %rd2;",
      "fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;",
      "mbarrier.arrive.shared::cta.b64 %rd1, [%r1], %r2, %r3;",
      "barrier.cluster.sync;",
      "tcgen05.fence::before_thread_sync;",
      "frobnicate.u32 %r1, %r2;",
      "add.u32.extra %r1, %r2, %r3;",
      "add.rp.u32 %r1, %r2, %r3;",
      "ld.global.acquire.banana.u32 %r1, [%rd1];",
      "atom.global.add.u16 %h1, [%rd1], %h2;",
      "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc {%r1,%r2,%r3,%r4}, "
      "{%r1,%r2,%r3,%r4}, {%r1,%r2}, {%r1,%r2,%r3,%r4};",
      "cvt.rn.satfinite.e2m1x2.f32 %h1, %f1, %f2;",
      "multimem.ld_reduce.global.add.f32 %f1, [%rd1];",
      "tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [%rd1, {%f5,%f6}];",
      "add.u32 %r1, %rd1, %r2;",
      "mov.u64 %rd2, nothing;",
      "mov.u32 %r1, %clusterfoo;",
  };
  for (const char* body : bodies) {
    auto module = engine.load(0, kernel_with(body));
    if (!module) continue;  // refused by the parser: as loud
    auto kernel = engine.kernel(*module, "k");
    ASSERT_FALSE(kernel) << body;
    EXPECT_EQ(kernel.error().code, ErrorCode::kUnsupported) << body;
    const std::string opcode(body, std::string_view(body).find_first_of(" ;"));
    EXPECT_NE(kernel.error().message.find(opcode), std::string::npos) << kernel.error().message;
    EXPECT_NE(kernel.error().message.find("ptx:12"), std::string::npos) << kernel.error().message;
  }
}

TEST(Hostile, WildAddressesAreFaults) {
  Engine engine(small());
  const std::pair<const char*, Fault::Kind> bodies[] = {
      {"st.global.u32 [%rd1+65536], %r1;", Fault::Kind::kIllegalAddress},
      {"st.global.u32 [%rd1+2], %r1;", Fault::Kind::kMisaligned},
      {"mov.u64 %rd2, -4; ld.global.u32 %r1, [%rd2];", Fault::Kind::kIllegalAddress},
      {"mov.u64 %rd2, 0x7fffffff0000; ld.u32 %r1, [%rd2];", Fault::Kind::kIllegalAddress},
      {"ld.global.u32 %r1, [%rd1+-4];", Fault::Kind::kIllegalAddress},
      {"mov.u32 %r2, s; ld.shared.u32 %r1, [%r2+64];", Fault::Kind::kIllegalAddress},
      {"ld.shared.u32 %r1, [0];", Fault::Kind::kIllegalAddress},
      {"mov.u32 %r2, -16; ld.shared.v4.u32 {%r1,%r3,%r4,%r5}, [%r2];",
       Fault::Kind::kIllegalAddress},
      {"mov.u64 %rd2, 1000000; ld.local.u32 %r1, [%rd2];", Fault::Kind::kIllegalAddress},
      {"mov.u64 %rd2, 64; ld.param.u32 %r1, [%rd2];", Fault::Kind::kIllegalAddress},
      {"mov.u32 %r2, 17; bar.sync %r2;", Fault::Kind::kIllegalInstruction},
      {"shfl.sync.idx.b32 %r1, %r2, 0, 31, 1;", Fault::Kind::kIllegalInstruction},
      {"trap;", Fault::Kind::kTrap},
  };
  for (const auto& [body, kind] : bodies) {
    auto module = engine.load(0, kernel_with(body));
    ASSERT_TRUE(module) << module.error().message << body;
    auto kernel = engine.kernel(*module, "k");
    ASSERT_TRUE(kernel) << kernel.error().message;
    LaunchRequest r;
    r.kernel = *kernel;
    r.block = {32, 1, 1};
    r.params.assign(8, 0);
    const Address buffer = *engine.memory().allocate(0, 65536, Allocation::Kind::kDevice, "buffer");
    std::memcpy(r.params.data(), &buffer, 8);
    ASSERT_TRUE(engine.launch(r));
    ASSERT_EQ(engine.run(1000), Engine::Stop::kFault) << body;
    EXPECT_EQ(engine.fault().kind, kind) << body << ": " << engine.fault().message;
    EXPECT_NE(engine.locate(engine.fault().code).ptx_line, 0u);
  }
}

TEST(Hostile, EndlessRecursionIsAStackOverflow) {
  const std::string text =
      ".version 9.0\n.target sm_90a\n.address_size 64\n.func f(.param .b32 a) {\n.local .align 4 "
      ".b8 x[64];\n{ .param .b32 q; "
      "call.uni f, (q); }\nret;\n}\n.visible .entry k() {\n{ .param .b32 q; call.uni f, (q); "
      "}\nret;\n}\n";
  Engine engine(small());
  auto module = engine.load(0, text);
  ASSERT_TRUE(module) << module.error().message << module.error().file;
  auto kernel = engine.kernel(*module, "k");
  ASSERT_TRUE(kernel) << kernel.error().message;
  LaunchRequest r;
  r.kernel = *kernel;
  r.block = {32, 1, 1};
  ASSERT_TRUE(engine.launch(r));
  ASSERT_EQ(engine.run(10'000'000), Engine::Stop::kFault);
  EXPECT_NE(engine.fault().message.find("stack overflow"), std::string::npos);
}

TEST(Hostile, EndlessLoopMeetsTheStepLimit) {
  EngineConfig config = small();
  config.step_limit = 100'000;
  Engine engine(config);
  auto module = engine.load(0, kernel_with("L: add.u32 %r1, %r1, 1; bra L;"));
  ASSERT_TRUE(module);
  LaunchRequest r;
  r.kernel = *engine.kernel(*module, "k");
  r.block = {32, 1, 1};
  r.params.assign(8, 0);
  ASSERT_TRUE(engine.launch(r));
  ASSERT_EQ(engine.run(~uint64_t{0}), Engine::Stop::kFault);
  EXPECT_EQ(engine.fault().kind, Fault::Kind::kStepLimit);
}

TEST(Hostile, Launches) {
  Engine engine(small());
  auto module = engine.load(0, kernel_with(""));
  ASSERT_TRUE(module);
  LaunchRequest good;
  good.kernel = *engine.kernel(*module, "k");
  good.block = {32, 1, 1};
  good.params.assign(8, 0);
  const auto refused = [&](auto change) {
    LaunchRequest r = good;
    change(r);
    auto g = engine.launch(r);
    return g ? std::string("launched") : g.error().key;
  };
  EXPECT_EQ(refused([](LaunchRequest& r) { r.grid[1] = 0; }), "cudaErrorInvalidConfiguration");
  EXPECT_EQ(refused([](LaunchRequest& r) { r.block = {1025, 1, 1}; }),
            "cudaErrorInvalidConfiguration");
  EXPECT_EQ(refused([](LaunchRequest& r) { r.block = {65536, 65536, 65536}; }),
            "cudaErrorInvalidConfiguration");
  EXPECT_EQ(refused([](LaunchRequest& r) { r.grid = {1u << 30, 60000, 60000}; }),
            "cudaErrorInvalidConfiguration");
  EXPECT_EQ(refused([](LaunchRequest& r) { r.dynamic_shared = 300000; }), "cudaErrorInvalidValue");
  EXPECT_EQ(refused([](LaunchRequest& r) { r.dynamic_shared = ~0u; }), "cudaErrorInvalidValue");
  EXPECT_EQ(refused([](LaunchRequest& r) { r.params.clear(); }), "cudaErrorInvalidValue");
  EXPECT_EQ(refused([](LaunchRequest&) {}), "launched");
}

}  // namespace
}  // namespace sculler::emu
