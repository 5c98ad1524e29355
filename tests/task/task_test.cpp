#include "task/task.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "task/fixture.h"

namespace sculler::task {
namespace {

const std::string kFolder = "/home/tasks/workloads/gemm_allgather";
const std::vector<std::string> kRoots = {"/home/tasks"};

Result<Task> load(const std::string& text) {
  MemoryFiles files;
  put_gemm(files, text);
  return load_task(files, kFolder);
}

std::string error_of(std::string_view from, std::string_view to) {
  auto task = load(replaced(gemm_text(), from, to));
  return task ? "no error" : task.error().text();
}

TEST(Task, LoadsTheWorkload) {
  auto loaded = load(gemm_text());
  ASSERT_TRUE(loaded) << loaded.error().text();
  const Task& task = *loaded;
  EXPECT_EQ(task.name, "gemm_allgather");
  EXPECT_EQ(task.default_ranks, 2);
  EXPECT_EQ(task.size_names().front(), "emu");
  EXPECT_EQ(task.baseline_path("nccl_sym", "cuda"), "baselines/nccl_sym.cu");
  EXPECT_EQ(task.baseline_path("nccl_sym", "emu"), "baselines/nccl_sym.cu");
  EXPECT_EQ(task.baseline_path("nccl_sym", "cpu"), "");
  EXPECT_EQ(task.baseline_path("none", "cuda"), "");
  auto problem = task.problem("emu", 4);
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->dims, (std::vector<int64_t>{1024, 256, 512}));
  auto buffers = task.buffers(*problem);
  ASSERT_TRUE(buffers);
  EXPECT_EQ((*buffers)[0].bytes, 1024 / 4 * 256 * 2);
  EXPECT_EQ((*buffers)[2].elements, 1024 * 512);
  EXPECT_EQ((*buffers)[2].row_elements, 512);
  EXPECT_TRUE((*buffers)[2].replicated);
  EXPECT_EQ((*buffers)[2].role, Role::kOutput);
  auto work = task.work(*problem);
  ASSERT_TRUE(work);
  EXPECT_DOUBLE_EQ(work->flops, 2.0 * 256 * 256 * 512);
  EXPECT_DOUBLE_EQ(work->link_bytes, 2.0 * 256 * 512 * 3);
  EXPECT_NEAR(task.tolerance(*problem)->relative_l2, 0.0041, 1e-9);
  EXPECT_EQ(task.sha256.size(), 64u);
}

TEST(Task, HashFollowsTheFiles) {
  MemoryFiles files;
  put_gemm(files, gemm_text());
  const std::string before = load_task(files, kFolder)->sha256;
  ASSERT_TRUE(files.write_atomic(kFolder + "/README.md", "words"));
  EXPECT_EQ(load_task(files, kFolder)->sha256, before);
  ASSERT_TRUE(files.write_atomic(kFolder + "/reference.cpp", "changed"));
  EXPECT_NE(load_task(files, kFolder)->sha256, before);
}

TEST(Task, HiddenSizesStayInTheirRangesAndFollowTheSeed) {
  auto task = load(gemm_text());
  ASSERT_TRUE(task);
  std::set<std::vector<int64_t>> seen;
  for (int index = 0; index < 50; ++index) {
    auto drawn = task->draw_hidden(7, index, 4);
    ASSERT_TRUE(drawn);
    EXPECT_EQ(drawn->dims, task->draw_hidden(7, index, 4)->dims);
    EXPECT_GE(drawn->dims[0], 512);
    EXPECT_LE(drawn->dims[0], 2048);
    EXPECT_EQ(drawn->dims[0] % 512, 0);
    EXPECT_EQ(drawn->dims[1] % 64, 0);
    EXPECT_TRUE(task->check(*drawn));
    seen.insert(drawn->dims);
  }
  EXPECT_GT(seen.size(), 20u);
  EXPECT_NE(task->draw_hidden(8, 0, 4)->dims, task->draw_hidden(7, 0, 4)->dims);
}

// The error that a change makes, with the file cut to "LINE: ", LINE being relative to the changed
// line where it differs.
std::string placed_error(std::string_view from, std::string_view to) {
  const std::string text = gemm_text();
  const auto at = static_cast<std::ptrdiff_t>(text.find(from));
  const auto line = std::count(text.begin(), text.begin() + at, '\n') + 1;
  std::string error = error_of(from, to);
  const std::string prefix = kFolder + "/task.toml:" + std::to_string(line) + ": ";
  return error.starts_with(prefix) ? "HERE: " + error.substr(prefix.size()) : error;
}

TEST(Task, ErrorsNameFileLineKeyAndCure) {
  EXPECT_EQ(placed_error("K = 256\n", "KK = 256\n"),
            "HERE: sizes.emu.KK: is not a known key (did you mean K?)");
  EXPECT_EQ(placed_error("\"256 * R\"", "\"256 * Q\""),
            "HERE: sizes.emu.S: \"256 * Q\" uses Q, which is not defined here; known: R");
  EXPECT_EQ(placed_error("\"256 * R\"", "\"256 * \""),
            "HERE: sizes.emu.S: \"256 * \" ends too early (correct the formula)");
  EXPECT_EQ(placed_error("dtype = \"bf16\"", "dtype = \"bf61\""),
            "HERE: buffer[0].dtype: \"bf61\" is unknown (did you mean bf16?)");
  EXPECT_NE(
      error_of("role = \"output\"", "role = \"scratch\"").find(": buffer: no buffer is an output"),
      std::string::npos);
  EXPECT_EQ(placed_error("kind = \"workload\"", "kind = \"workloads\""),
            "HERE: kind: \"workloads\" is unknown (did you mean workload?)");
  EXPECT_EQ(placed_error("version = 1", "version = 2"),
            "HERE: version: format 2 is not known here (use a task of format 1)");
  EXPECT_EQ(placed_error("\"reference.cpp\"", "\"../reference.cpp\""),
            "HERE: files.reference: \"../reference.cpp\" must lie below the task's folder");
  EXPECT_NE(error_of("\"reference.cpp\"", "\"other.cpp\"").find("other.cpp does not exist"),
            std::string::npos);
  EXPECT_EQ(placed_error("row_elements = \"K\"", "row_elements = \"K + 1\""),
            "HERE: buffer[0].row_elements: 257 does not divide 65536 elements at size emu");
  auto broken = load(replaced(gemm_text(), "sets = 8", "sets = = 8"));
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().key, "sets");
  EXPECT_NE(broken.error().file.find("/task.toml:"), std::string::npos);
}

TEST(Task, InputsMayBeScaledAndPositive) {
  const std::string key = "row_elements = \"K\"\n";
  auto task = load(replaced(replaced(gemm_text(), key, key + "scale = 0.05\npositive = true\n"),
                            "[work]\n", "[work]\nflops_vec = \"3 * K\"\nlatency_bound = true\n"));
  ASSERT_TRUE(task) << task.error().text();
  const auto problem = task->problem("emu", 2);
  ASSERT_TRUE(problem);
  const auto buffers = task->buffers(*problem);
  ASSERT_TRUE(buffers);
  EXPECT_EQ((*buffers)[0].scale_milli, 50);
  EXPECT_TRUE((*buffers)[0].positive);
  EXPECT_EQ((*buffers)[1].scale_milli, 0);
  EXPECT_FALSE((*buffers)[1].positive);
  EXPECT_DOUBLE_EQ(task->work(*problem)->flops_vec, 3.0 * 256);
  EXPECT_TRUE(task->latency_bound);
  EXPECT_EQ(placed_error(key, "scale = 0.0001\n" + key),
            "HERE: buffer[0].scale: must lie between 0.001 and 60");
}

TEST(Task, SizesAndRanksAreChecked) {
  auto task = load(gemm_text());
  ASSERT_TRUE(task);
  EXPECT_EQ(task->problem("defualt", 2).error().cure, "did you mean default?");
  EXPECT_EQ(task->problem("emu", 3).error().message, "gemm_allgather does not run on 3 ranks");
  EXPECT_EQ(task->problem("emu", 3).error().cure, "choose one of 2, 4, 8");
  auto odd = task->problem("emu", 2);
  odd->dims[1] = 7;
  EXPECT_EQ(task->check(*odd).error().code, ErrorCode::kUnsupported);
}

TEST(Task, FindsByNameOrFolderAndNamesTheNearest) {
  MemoryFiles files;
  put_gemm(files, gemm_text());
  EXPECT_EQ(find_task(files, kRoots, "gemm_allgather"), kFolder);
  EXPECT_EQ(find_task(files, kRoots, kFolder), kFolder);
  auto unknown = find_task(files, kRoots, "gem_allgather");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::kUnknownTask);
  EXPECT_EQ(unknown.error().text(), "unknown task gem_allgather (did you mean gemm_allgather?)");
  EXPECT_EQ(find_task(files, kRoots, "xyzzy").error().text(),
            "unknown task xyzzy (known: gemm_allgather)");
  const auto listed = list_tasks(files, kRoots);
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0].kind, "workload");
  EXPECT_EQ(listed[0].summary, "row-split GEMM, result gathered on all ranks");
}

}  // namespace
}  // namespace sculler::task
