// The task's files: what they declare is consistent, the reference is right, and every program
// compiles.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <toml++/toml.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "problem.h"
#include "sculler/fill.h"
#include "support/temp_folder.h"

namespace {

namespace fs = std::filesystem;

const fs::path kRoot = SCULLER_SOURCE_DIR;
const fs::path kTask = kRoot / "tasks/workloads/gemm_allgather";

std::string slurp(const fs::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<fs::path> programs() {
  std::vector<fs::path> all;
  const auto task = toml::parse_file((kTask / "task.toml").string());
  for (const char* kind : {"baselines", "seeds"})
    for (const auto& file : *task["files"][kind].as_array())
      all.push_back(kTask / *file.value<std::string>());
  return all;
}

int shell(const std::string& command) {
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(GemmAllgather, TaskFileNamesFilesThatExist) {
  const auto task = toml::parse_file((kTask / "task.toml").string());
  const std::vector<std::string> dims = {"S", "K", "N"};
  ASSERT_EQ(task["dims"].as_array()->size(), dims.size());
  for (size_t i = 0; i < dims.size(); ++i) EXPECT_EQ(task["dims"][i].value<std::string>(), dims[i]);
  EXPECT_TRUE(fs::exists(kTask / *task["files"]["reference"].value<std::string>()));
  EXPECT_TRUE(fs::exists(kTask / *task["files"]["expected"].value<std::string>()));
  EXPECT_EQ(programs().size(), 11u);
  for (const auto& program : programs()) EXPECT_TRUE(fs::exists(program)) << program;
}

TEST(GemmAllgather, ProgramsDeclareADirectiveFirst) {
  const std::regex line(R"(^// sculler:directive (\{.*\})\n)");
  for (const auto& program : programs()) {
    const std::string text = slurp(program);
    std::smatch match;
    ASSERT_TRUE(std::regex_search(text, match, line, std::regex_constants::match_continuous))
        << program;
    const auto directive = nlohmann::json::parse(match[1].str());
    const std::vector<std::pair<const char*, std::set<std::string>>> words = {
        {"backend", {"none", "lsa", "gin", "hybrid"}},
        {"issuer", {"thread", "warp", "cta", "copy_engine"}},
        {"placement",
         {"sequential", "stream_overlap", "split_phase", "kernel_fused", "tile_fused"}},
        {"sync", {"global", "peer", "tile"}}};
    for (const auto& [key, allowed] : words)
      EXPECT_TRUE(allowed.contains(directive.at(key).get<std::string>())) << program << " " << key;
    EXPECT_GT(directive.at("granularity").get<int64_t>(), 0) << program;
    EXPECT_FALSE(directive.at("why").get<std::string>().empty()) << program;
  }
}

TEST(GemmAllgather, TunablesStandAboveTheirDefaultsWhichAreAmongThem) {
  const std::regex tune(
      R"(// sculler:tune (\w+) in \{([0-9,]+)\}\n#ifndef (\w+)\n#define (\w+) (\d+)\n#endif\n)");
  for (const auto& program : programs()) {
    const std::string text = slurp(program);
    size_t whole = 0, words = 0;
    for (std::sregex_iterator i(text.begin(), text.end(), tune), end; i != end; ++i, ++whole) {
      const auto& m = *i;
      EXPECT_EQ(m[1], m[3]) << program;
      EXPECT_EQ(m[1], m[4]) << program;
      EXPECT_NE(("," + m[2].str() + ",").find("," + m[5].str() + ","), std::string::npos)
          << program << ": " << m[1] << " = " << m[5];
    }
    for (size_t at = text.find("sculler:tune "); at != std::string::npos;
         at = text.find("sculler:tune ", at + 1))
      ++words;
    EXPECT_EQ(whole, words) << program << ": a tunable without its #ifndef, #define, #endif";
  }
}

TEST(GemmAllgather, EvolveBlocksAreBalancedAndEverySeedHasOneToEvolve) {
  const std::regex marker(R"((^|\n)[ \t]*// EVOLVE-BLOCK-(START|END)\n)");
  for (const auto& program : programs()) {
    const std::string text = slurp(program);
    bool open = false;
    int blocks = 0;
    for (std::sregex_iterator i(text.begin(), text.end(), marker), end; i != end; ++i) {
      EXPECT_EQ((*i)[2] == "START", !open) << program;
      open = (*i)[2] == "START";
      blocks += open ? 1 : 0;
    }
    EXPECT_FALSE(open) << program;
    if (program.string().find("/seeds/") != std::string::npos) { EXPECT_GE(blocks, 1) << program; }
  }
}

// reference.cpp as it is used: built into a shared object, loaded.
class Reference : public ::testing::Test {
 protected:
  void SetUp() override {
    const fs::path object = fs::path(folder_.path("reference.so"));
    ASSERT_EQ(shell("g++ -O3 -shared -fPIC -std=c++20 -Wall -Wextra -Werror -I" +
                    (kRoot / "include").string() + " -I" + kTask.string() + " -o " +
                    object.string() + " " + (kTask / "reference.cpp").string()),
              0);
    void* library = dlopen(object.c_str(), RTLD_NOW);
    ASSERT_NE(library, nullptr) << dlerror();
    run_ = reinterpret_cast<Function*>(dlsym(library, "sculler_reference"));
    ASSERT_NE(run_, nullptr);
  }

  void make(int64_t s, int64_t k, int64_t n, int ranks, uint32_t family = SCULLER_NORMAL) {
    problem_ = {SCULLER_ABI_VERSION, GA_N_DIMS, {s, k, n}};
    data_.clear();
    inputs_.clear();
    for (int r = 0; r < ranks; ++r)
      for (uint32_t j = 0; j < 2; ++j) {
        const uint64_t key = sculler_fill_key(5, 1, j == GA_B ? 0 : static_cast<uint32_t>(r), j);
        data_.emplace_back(static_cast<size_t>(j == GA_A ? s / ranks * k : n * k));
        for (size_t i = 0; i < data_.back().size(); ++i)
          data_.back()[i] = static_cast<uint16_t>(
              sculler_element(key, i, static_cast<uint64_t>(k), family, SCULLER_BF16));
      }
    for (const auto& part : data_) inputs_.push_back(part.data());
  }
  double naive(int64_t row, int64_t column, int64_t rows_a_rank) const {
    const int64_t k = problem_.dim[GA_DIM_K];
    const auto& a = data_[static_cast<size_t>(row / rows_a_rank) * 2];
    double sum = 0;
    for (int64_t i = 0; i < k; ++i)
      sum += static_cast<double>(
                 sculler_from_bf16(a[static_cast<size_t>(row % rows_a_rank * k + i)])) *
             static_cast<double>(sculler_from_bf16(data_[1][static_cast<size_t>(column * k + i)]));
    return sum;
  }

  using Function = int(const sculler_problem*, int, int, const void* const*, void* const*,
                       const int64_t*, int64_t);
  sculler::test::TempFolder folder_{"sculler_tasks"};
  Function* run_ = nullptr;
  sculler_problem problem_{};
  std::vector<std::vector<uint16_t>> data_;
  std::vector<const void*> inputs_;
};

TEST_F(Reference, AllRowsOfRaggedSizesEqualTheNaiveSum) {
  for (const uint32_t family : {SCULLER_NORMAL, SCULLER_LARGE_LATE, SCULLER_DENORMAL}) {
    make(21, 37, 130, 3, family);
    std::vector<double> c(21 * 130);
    void* out[] = {c.data()};
    ASSERT_EQ(run_(&problem_, 3, 2, inputs_.data(), out, nullptr, 0), SCULLER_OK);
    for (int64_t row = 0; row < 21; ++row)
      for (int64_t column = 0; column < 130; ++column)
        ASSERT_DOUBLE_EQ(c[static_cast<size_t>(row * 130 + column)], naive(row, column, 7));
  }
}

TEST_F(Reference, ListedRowsComeInTheOrderAskedFor) {
  make(16, 24, 63, 2);
  const int64_t rows[] = {15, 0, 8, 7, 15};
  std::vector<double> c(5 * 63);
  void* out[] = {c.data()};
  ASSERT_EQ(run_(&problem_, 2, 0, inputs_.data(), out, rows, 5), SCULLER_OK);
  for (int64_t i = 0; i < 5; ++i)
    for (int64_t column = 0; column < 63; ++column)
      ASSERT_DOUBLE_EQ(c[static_cast<size_t>(i * 63 + column)], naive(rows[i], column, 8));
}

TEST_F(Reference, RefusesRowsOutsideAndSizesThatDoNotDivide) {
  make(16, 8, 8, 2);
  std::vector<double> c(16 * 8);
  void* out[] = {c.data()};
  const int64_t outside = 16;
  EXPECT_EQ(run_(&problem_, 2, 0, inputs_.data(), out, &outside, 1), SCULLER_ERROR);
  problem_.dim[GA_DIM_S] = 15;
  EXPECT_EQ(run_(&problem_, 2, 0, inputs_.data(), out, nullptr, 0), SCULLER_UNSUPPORTED_PROBLEM);
}

// One compilation each to PTX, and on to machine code, as the evaluator does it.
TEST(GemmAllgather, EveryProgramCompiles) {
  if (shell("nvcc --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "no nvcc";
  const sculler::test::TempFolder folder("sculler_tasks");
  const char* cutlass = std::getenv("SCULLER_CUTLASS_HOME");
  auto files = programs();
  files.push_back(kTask / "expected.cu");
  int compiled = 0;
  for (const auto& program : files) {
    std::string flags;
    if (slurp(program).find("// sculler:requires cutlass") != std::string::npos) {
      if (!cutlass) continue;
      flags = " --expt-relaxed-constexpr -I" + std::string(cutlass) + "/include -I" + cutlass +
              "/tools/util/include";
    }
    EXPECT_EQ(shell("nvcc -shared -cudart shared -O3 -std=c++17 -gencode "
                    "'arch=compute_90a,code=[compute_90a,sm_90a]' --no-compress -Xcompiler "
                    "-fPIC,-fno-gnu-unique -I" +
                    (kRoot / "include").string() + " -I" + kTask.string() + flags + " -o " +
                    folder.path("out.so") + " " + program.string() + " -lnccl -lcublas"),
              0)
        << program;
    ++compiled;
  }
  EXPECT_GE(compiled, 10);
}

}  // namespace
