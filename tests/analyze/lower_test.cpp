// The built-in lowering: what it makes, and what it refuses and why.
#include "analyze/lower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "directive/directive.h"
#include "source/blocks.h"
#include "source/lint.h"
#include "source/marks.h"

namespace sculler::analyze {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string read_source(const std::string& path) {
  std::ifstream in(std::string(SCULLER_SOURCE_DIR) + "/tasks/workloads/" + path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_FALSE(text.str().empty()) << path;
  return text.str();
}

// A program whose sculler_run is `body`; st, stream, comm, x, y, n, rank and n_ranks are known
// there.
std::string program(const std::string& body, const std::string& before = {},
                    const std::string& setup = {}) {
  return "#include <nccl.h>\n#include \"problem.h\"\n" + before +
         "struct State { sculler_rank rank; const sculler_pool* pool; float* scratch; };\n"
         "extern \"C\" int sculler_setup(const sculler_rank* rank, const sculler_problem*,\n"
         "                             const sculler_pool* pool, void** state) {\n"
         "  auto* st = new State{*rank, pool, nullptr};\n" +
         setup +
         "  *state = st;\n  return 0;\n}\n"
         "extern \"C\" int sculler_run(void* state, const sculler_problem* problem, int set) {\n"
         "  auto* st = static_cast<State*>(state);\n"
         "  const auto comm = static_cast<ncclComm_t>(st->rank.comm);\n"
         "  const auto stream = static_cast<cudaStream_t>(st->rank.stream);\n"
         "  const int rank = st->rank.rank, n_ranks = st->rank.n_ranks;\n"
         "  auto* x = static_cast<float*>(st->pool->set[set].buffer[0].ptr);\n"
         "  auto* y = static_cast<float*>(st->pool->set[set].buffer[1].ptr);\n"
         "  const size_t n = problem->dim[0];\n" +
         body +
         "  return 0;\n}\n"
         "extern \"C\" int sculler_teardown(void* state) {\n"
         "  auto* st = static_cast<State*>(state);\n  cudaFree(st->scratch);\n  delete st;\n"
         "  return 0;\n}\n";
}

std::string lowered(const std::string& text, Stage stage = Stage::kCollectives) {
  auto out = lower(text, "p.cu", stage);
  EXPECT_TRUE(out) << out.error().text();
  return out ? out->text : std::string();
}

Error refused(const std::string& text) {
  auto out = lower(text, "p.cu", Stage::kCollectives);
  EXPECT_FALSE(out) << out->text;
  return out ? Error{} : out.error();
}

// ---- Golden: the seeds of two tasks are what comes out.

class Golden : public testing::TestWithParam<const char*> {};
TEST_P(Golden, TheSeedIsTheLoweredBaseline) {
  const std::string task = GetParam();
  EXPECT_EQ(lowered(read_source(task + "/baselines/nccl.cu")),
            read_source(task + "/seeds/lowered.cu"));
}
INSTANTIATE_TEST_SUITE_P(Tasks, Golden, testing::Values("all_reduce", "ring_attention"));

// ---- Every baseline: lints, blocks that vanish without a trace, no host call left.

class Baseline : public testing::TestWithParam<const char*> {};
TEST_P(Baseline, BothStagesLintAndTheirMarksVanish) {
  const std::string text = read_source(GetParam());
  for (const Stage stage : {Stage::kInfrastructure, Stage::kCollectives}) {
    auto out = lower(text, GetParam(), stage);
    ASSERT_TRUE(out) << out.error().text();
    source::LintOptions options;
    options.origin = GetParam();
    for (const auto& finding : source::lint(out->text, options))
      ADD_FAILURE() << source::print(finding, GetParam());
    EXPECT_TRUE(source::check_marks(source::without_marks(out->text), out->text, "x"));
    EXPECT_GE(out->n_blocks, 1);
    const auto directive = directive::from_source(out->text, "x");
    ASSERT_TRUE(directive && *directive);
    EXPECT_EQ((*directive)->device_initiated(), stage == Stage::kCollectives);
    if (stage == Stage::kInfrastructure) continue;
    for (const auto& call : out->calls)
      EXPECT_THAT(out->text, Not(HasSubstr(call.name + "("))) << call.line;
    EXPECT_THAT(out->text, Not(HasSubstr("ncclGroupStart(")));
  }
}
INSTANTIATE_TEST_SUITE_P(
    All, Baseline,
    testing::Values("gemm_allgather/baselines/nccl.cu", "gemm_allgather/baselines/nccl_sym.cu",
                    "gemm_allgather/baselines/nccl_overlap.cu", "ring_exchange/baselines/nccl.cu",
                    "all_to_all/baselines/nccl.cu", "all_reduce/baselines/nccl.cu",
                    "ring_attention/baselines/nccl.cu"));

// ---- What the pieces are.

TEST(Lower, ACallKeepsItsArgumentsAndLosesTheCommunicator) {
  const std::string out =
      lowered(program("  if (ncclReduceScatter(x + 4, y, n / 2, ncclHalf, ncclMax, comm, stream) "
                      "!= 0) return 1;\n"));
  EXPECT_THAT(out, HasSubstr("if (lowered::reduce_scatter<__half>(x + 4, y, n / 2, "
                             "lowered::Max(), stream) != 0) return 1;"));
  EXPECT_THAT(out, HasSubstr("#include <cuda_fp16.h>"));
  EXPECT_THAT(out, Not(HasSubstr("all_gather")));  // only what is used is written
}

TEST(Lower, AConstantMayHaveAName) {
  const std::string out =
      lowered(program("  const auto type = ncclInt32;\n  const auto op = ncclProd;\n"
                      "  ncclAllReduce(x, x, n, type, op, comm, stream);\n"));
  EXPECT_THAT(out, HasSubstr("lowered::all_reduce<int32_t>(x, x, n, lowered::Product(), stream)"));
}

TEST(Lower, ScratchBecomesAWindowAndWorkspaceDoesNot) {
  const std::string text = program(
      "  float* from = st->scratch + 8;\n"
      "  ncclAllGather(from, y, n, ncclFloat, comm, stream);\n",
      {},
      "  void* workspace = nullptr;\n  cudaMalloc(&workspace, 1 << 20);\n"
      "  cudaMalloc(&st->scratch, 4096);\n");
  auto out = lower(text, "p.cu", Stage::kInfrastructure);
  ASSERT_TRUE(out) << out.error().text();
  EXPECT_THAT(out->text, HasSubstr("lowered::window_malloc(&st->scratch, 4096)"));
  EXPECT_THAT(out->text, HasSubstr("cudaMalloc(&workspace, 1 << 20)"));
  EXPECT_THAT(out->text, HasSubstr("lowered::window_free(st->scratch)"));
  EXPECT_THAT(out->text, HasSubstr("ncclAllGather(from, y, n, ncclFloat, comm, stream)"));
  ASSERT_EQ(out->scratch.size(), 1u);
  EXPECT_THAT(out->scratch[0], HasSubstr("&st->scratch"));
}

TEST(Lower, SetupGetsNamesForParametersThatHaveNone) {
  std::string text = program("  ncclBcast(y, n, ncclFloat, 0, comm, stream);\n");
  const auto at = text.find("const sculler_pool* pool, void**");
  text.replace(at, 24, "const sculler_pool*");
  const std::string out = lowered(text);
  EXPECT_THAT(out, HasSubstr("const sculler_pool* lowered_pool, void** state"));
  EXPECT_THAT(out, HasSubstr("lowered::setup(rank, lowered_pool)"));
}

TEST(Lower, NestedGroupsEndWithTheirStream) {
  const std::string out =
      lowered(program("  ncclGroupStart();\n  ncclGroupStart();\n"
                      "  for (int r = 0; r < n_ranks; ++r) {\n"
                      "    if (r == rank) continue;\n"
                      "    ncclSend(x + r * n, n, ncclFloat, r, comm, stream);\n"
                      "    ncclRecv(y + r * n, n, ncclFloat, r, comm, stream);\n  }\n"
                      "  ncclGroupEnd();\n  ncclAllGather(x, y, n, ncclFloat, comm, stream);\n"
                      "  ncclGroupEnd();\n"));
  EXPECT_THAT(out, HasSubstr("  lowered::group_end(stream);\n  lowered::all_gather("));
  EXPECT_THAT(out, HasSubstr("lowered::send(x + r * n, n, ncclFloat, r, stream);"));
}

TEST(Lower, SeveralStreamsAreOrdered) {
  const std::string one = lowered(program(
      "  ncclBcast(x, n, ncclFloat, 0, comm, stream);\n"
      "  ncclBcast(y, n, ncclFloat, 0, comm, static_cast<cudaStream_t>(st->rank.stream));\n"));
  EXPECT_THAT(one, Not(HasSubstr("cudaStreamWaitEvent")));
  const std::string two =
      lowered(program("  ncclBcast(x, n, ncclFloat, 0, comm, stream);\n"
                      "  ncclBcast(y, n, ncclFloat, 0, comm, st->side);\n"));
  EXPECT_THAT(two, HasSubstr("cudaStreamWaitEvent(stream, context.done, 0)"));
}

TEST(Lower, BlocksOfTheProgramAreMarkedAnew) {
  auto marked = program("  ncclBcast(x, n, ncclFloat, 0, comm, stream);\n",
                        "// EVOLVE-BLOCK-START\nstatic const int k = 1;\n// EVOLVE-BLOCK-END\n");
  const std::string out = lowered(marked);
  EXPECT_EQ(source::find_blocks(out, "x")->blocks.size(), 2u);
}

// ---- Refusals. Each names the line and the reason.

struct Refusal {
  const char* name;
  std::string text;
  std::string reason;
  int line;  // 0: not checked
};

class Refuses : public testing::TestWithParam<Refusal> {};
TEST_P(Refuses, WithLineAndReason) {
  const Error error = refused(GetParam().text);
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr(GetParam().reason));
  EXPECT_FALSE(error.cure.empty());
  if (GetParam().line > 0) {
    EXPECT_EQ(error.file, "p.cu:" + std::to_string(GetParam().line)) << error.text();
  }
}

constexpr int kFirst = 18;  // line of the first line of sculler_run's body
INSTANTIATE_TEST_SUITE_P(
    Programs, Refuses,
    testing::Values(
        Refusal{
            "split",
            program("  ncclComm_t half;\n  ncclCommSplit(comm, rank / 2, rank, &half, nullptr);\n"
                    "  ncclAllReduce(x, y, n, ncclFloat, ncclSum, half, stream);\n"),
            "ncclCommSplit makes another communicator", kFirst + 1},
        Refusal{"data_dependent_loop",
                program("  int more = 1;\n  while (more) {\n"
                        "    ncclAllReduce(x, y, n, ncclFloat, ncclSum, comm, stream);\n"
                        "    cudaMemcpy(&more, y, 4, cudaMemcpyDeviceToHost);\n  }\n"),
                "depends on data of the device, through a loop", kFirst + 2},
        Refusal{"unmatched_send",
                program("  ncclGroupStart();\n  if (rank == 0) ncclSend(x, n, ncclFloat, 1, comm, "
                        "stream);\n"
                        "  ncclGroupEnd();\n"),
                "sends, but receives nothing", kFirst + 1},
        Refusal{"ungrouped_send", program("  ncclSend(x, n, ncclFloat, 1, comm, stream);\n"),
                "outside of a group", kFirst},
        Refusal{"own_reduction",
                program("  ncclRedOp_t op;\n  ncclRedOpCreatePreMulSum(&op, x, ncclFloat, "
                        "ncclScalarDevice, comm);\n"
                        "  ncclAllReduce(x, y, n, ncclFloat, op, comm, stream);\n"),
                "makes a reduction of its own", kFirst + 1},
        Refusal{"macro",
                program("  GATHER(x, y);\n",
                        "#define GATHER(a, b) ncclAllGather(a, b, n, ncclFloat, comm, stream)\n"),
                "a macro hides ncclAllGather", 3},
        Refusal{"address",
                program("  auto f = &ncclAllGather;\n  f(x, y, n, ncclFloat, comm, stream);\n"),
                "is not called here by its name", kFirst},
        Refusal{"stream_call", program("  ncclBcast(x, n, ncclFloat, 0, comm, pick(n));\n"),
                "the stream pick(n) of ncclBcast cannot be told", kFirst},
        Refusal{"stream_in_group",
                program("  ncclGroupStart();\n  for (auto one : st->streams) {\n"
                        "    ncclSend(x, n, ncclFloat, 0, comm, one);\n"
                        "    ncclRecv(y, n, ncclFloat, 0, comm, one);\n  }\n  ncclGroupEnd();\n"),
                "is not known at the end of its group", 0},
        Refusal{"unknown_comm", program("  ncclBcast(x, n, ncclFloat, 0, world(), stream);\n"),
                "is not that of sculler_rank", kFirst},
        Refusal{
            "rank_condition",
            program("  if (rank == 0) {\n    ncclBcast(x, n, ncclFloat, 0, comm, stream);\n  }\n"),
            "depends on the rank, through a condition", kFirst + 1},
        Refusal{
            "early_exit",
            program("  if (rank > 1) return 0;\n  ncclBcast(x, n, ncclFloat, 0, comm, stream);\n"),
            "some ranks would not come", kFirst},
        Refusal{"count_of_rank",
                program("  ncclAllGather(x, y, n + rank, ncclFloat, comm, stream);\n"),
                "depends on the rank", kFirst},
        Refusal{"place_of_rank",
                program("  ncclAllGather(x, y + rank, n, ncclFloat, comm, stream);\n"),
                "the place y + rank", kFirst},
        Refusal{"allocation_in_run",
                program("  cudaMalloc(&st->scratch, n);\n"
                        "  ncclBcast(st->scratch, n, ncclFloat, 0, comm, stream);\n"),
                "allocated in every iteration", kFirst},
        Refusal{"managed",
                program("  ncclBcast(st->scratch, n, ncclFloat, 0, comm, stream);\n", {},
                        "  cudaMallocManaged(&st->scratch, 64);\n"),
                "memory that no window can hold", 0},
        Refusal{
            "group_across",
            program(
                "  begin();\n  ncclBcast(x, n, ncclFloat, 0, comm, stream);\n  ncclGroupEnd();\n",
                "void begin() { ncclGroupStart(); }\n"),
            "without", 0},
        Refusal{"nothing", program("  cudaMemsetAsync(x, 0, n, stream);\n"), "no host collective",
                0}),
    [](const auto& one) { return std::string(one.param.name); });

TEST(Lower, WhatIsUniformIsNotRefused) {
  // An error that one rank alone meets ends the job anyway; subscripts choose a rank's own copy.
  lowered(program(
      "  if (st->pool->set[set].buffer[0].peer[rank] == nullptr) return SCULLER_ERROR;\n"
      "  for (int r = 0; r < n_ranks; ++r)\n"
      "    ncclBroadcast(st->copies[rank] + r * n, st->copies[rank] + r * n, n, ncclFloat, r, "
      "comm, stream);\n"));
}

}  // namespace
}  // namespace sculler::analyze
