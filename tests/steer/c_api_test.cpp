// The shared library through its C interface: what it exports, what it needs, what it refuses.
#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>

#include "sculler/steer.h"
#include "support/temp_folder.h"

extern "C" int64_t sculler_test_steer_from_c(void);

namespace {

sculler_steer* open_buffer(uint64_t capacity, const char* policy = nullptr,
                           uint64_t row_bytes = 0) {
  sculler_steer_settings settings{};
  settings.size = sizeof settings;
  settings.capacity = capacity;
  settings.policy = policy;
  settings.row_bytes = row_bytes;
  return sculler_steer_open(&settings, nullptr, 0);
}

// The dynamic section of a 64-bit ELF file: libraries it needs and symbols it defines.
struct Dynamic {
  std::vector<std::string> needed, defined;
};
Dynamic dynamic_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string file{std::istreambuf_iterator<char>(in), {}};
  Dynamic out;
  const auto at = [&]<class T>(T* to, uint64_t offset) {
    if (offset + sizeof(T) > file.size()) throw std::runtime_error("a short file");
    std::memcpy(to, file.data() + offset, sizeof(T));
  };
  Elf64_Ehdr head;
  at(&head, 0);
  std::vector<Elf64_Shdr> sections(head.e_shnum);
  for (size_t i = 0; i < sections.size(); ++i)
    at(&sections[i], head.e_shoff + i * sizeof(Elf64_Shdr));
  for (const auto& s : sections) {
    if (s.sh_type != SHT_DYNAMIC && s.sh_type != SHT_DYNSYM) continue;
    const char* names = file.data() + sections.at(s.sh_link).sh_offset;
    for (uint64_t o = 0; o < s.sh_size; o += s.sh_entsize) {
      if (s.sh_type == SHT_DYNAMIC) {
        Elf64_Dyn d;
        at(&d, s.sh_offset + o);
        if (d.d_tag == DT_NEEDED) out.needed.emplace_back(names + d.d_un.d_val);
      } else {
        Elf64_Sym symbol;
        at(&symbol, s.sh_offset + o);
        if (symbol.st_shndx != SHN_UNDEF) out.defined.emplace_back(names + symbol.st_name);
      }
    }
  }
  return out;
}

TEST(SteerLibrary, ExportsTheInterfaceAndNeedsTheRuntimeAlone) {
  const auto dynamic = dynamic_of(std::string(SCULLER_BINARY_DIR) + "/lib/libsculler_steer.so");
  EXPECT_THAT(dynamic.defined, testing::Each(testing::StartsWith("sculler_steer_")));
  EXPECT_THAT(dynamic.defined, testing::Contains("sculler_steer_minibatch"));
  for (const auto& library : dynamic.needed)
    EXPECT_THAT(library, testing::ContainsRegex(
                             "^(libc|libm|ld-linux.*|libpthread|libstdc..|libgcc_s)\\.so"));
}

TEST(SteerLibrary, IsUsedFromC) { EXPECT_EQ(sculler_test_steer_from_c(), 2); }

TEST(SteerLibrary, MovesRowsAndCounts) {
  sculler_steer* steer = open_buffer(2, "lru", 8);
  ASSERT_NE(steer, nullptr);
  const uint64_t first[] = {10, 11}, second[] = {11, 12};
  sculler_steer_plan plan;
  const uint64_t warm[] = {10};
  ASSERT_EQ(sculler_steer_preload(steer, warm, 1, &plan), SCULLER_STEER_OK);
  ASSERT_EQ(plan.n_extra, 1U);
  EXPECT_EQ(plan.extra[0], 10U);
  const uint64_t row10 = 1010, row11 = 1111;
  ASSERT_EQ(sculler_steer_store(steer, nullptr, &row10), SCULLER_STEER_OK);
  ASSERT_EQ(sculler_steer_minibatch(steer, first, 2, &plan), SCULLER_STEER_OK);
  uint64_t rows[2] = {0, 0};
  ASSERT_EQ(sculler_steer_gather(steer, rows), SCULLER_STEER_OK);
  EXPECT_EQ(rows[0], row10);
  ASSERT_EQ(plan.n_missed, 1U);
  ASSERT_EQ(sculler_steer_store(steer, &row11, nullptr), SCULLER_STEER_OK);
  ASSERT_EQ(sculler_steer_minibatch(steer, second, 2, &plan), SCULLER_STEER_OK);
  ASSERT_EQ(sculler_steer_gather(steer, rows), SCULLER_STEER_OK);
  EXPECT_EQ(rows[0], row11);
  EXPECT_EQ(plan.evicted, 1U);
  // The fetch of 12 failed: its row must not be served.
  ASSERT_EQ(sculler_steer_invalidate(steer, &second[1], 1), SCULLER_STEER_OK);
  ASSERT_EQ(sculler_steer_minibatch(steer, second, 2, &plan), SCULLER_STEER_OK);
  EXPECT_EQ(plan.slot[1], SCULLER_STEER_NONE);
  sculler_steer_state state;
  ASSERT_EQ(sculler_steer_get_state(steer, &state), SCULLER_STEER_OK);
  EXPECT_EQ(state.total.ids, 6U);
  EXPECT_EQ(state.total.hits, 3U);
  EXPECT_EQ(state.total.fetched, 4U);
  EXPECT_EQ(state.used, 2U);
  sculler_steer_close(steer);
}

TEST(SteerLibrary, RefusesWhatIsWrongAndSaysWhat) {
  char error[200] = "";
  sculler_steer_settings settings{};
  EXPECT_EQ(sculler_steer_open(&settings, error, sizeof error), nullptr) << "no size";
  EXPECT_THAT(error, testing::HasSubstr("size"));
  settings.size = sizeof settings;
  settings.policy = "magic";
  EXPECT_EQ(sculler_steer_open(&settings, error, sizeof error), nullptr);
  EXPECT_THAT(error, testing::AllOf(testing::HasSubstr("magic"), testing::HasSubstr("s3fifo")));
  char tiny[4] = "";
  EXPECT_EQ(sculler_steer_open(&settings, tiny, sizeof tiny), nullptr);
  EXPECT_EQ(std::strlen(tiny), 3U);

  sculler_steer* steer = open_buffer(3);
  const uint64_t wrong = (uint64_t{1} << 63) + 1;
  sculler_steer_plan plan;
  EXPECT_EQ(sculler_steer_minibatch(steer, &wrong, 1, &plan), SCULLER_STEER_BAD_INPUT);
  EXPECT_THAT(sculler_steer_error(), testing::HasSubstr("2^63"));
  EXPECT_EQ(sculler_steer_set_policy(steer, "lru:9"), SCULLER_STEER_USAGE);
  EXPECT_EQ(sculler_steer_set_policy(steer, nullptr), SCULLER_STEER_USAGE);
  EXPECT_EQ(sculler_steer_set_knobs(steer, 7.0, 0), SCULLER_STEER_BAD_INPUT);
  EXPECT_EQ(sculler_steer_gather(steer, nullptr), SCULLER_STEER_USAGE);
  EXPECT_EQ(sculler_steer_minibatch(nullptr, nullptr, 0, nullptr), SCULLER_STEER_USAGE);
  EXPECT_EQ(sculler_steer_minibatch(steer, nullptr, 0, &plan), SCULLER_STEER_OK);
  EXPECT_STREQ(sculler_steer_error(), "");
  sculler_steer_close(steer);
  sculler_steer_close(nullptr);
}

TEST(SteerLibrary, ListsItsPolicies) {
  const char *name = nullptr, *what = nullptr;
  uint64_t n = 0;
  for (; sculler_steer_policy_name(n, &name, nullptr, &what) != 0; ++n) {
    sculler_steer* steer = open_buffer(2, name);
    EXPECT_NE(steer, nullptr) << name;
    EXPECT_STRNE(what, "");
    sculler_steer_close(steer);
  }
  EXPECT_GE(n, 13U);
}

// Under TSan this is the test of the lock.
TEST(SteerLibrary, CallsOfSeveralThreadsAreSerialised) {
  sculler_steer* steer = open_buffer(50);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 3; ++t)
    threads.emplace_back([steer, t] {
      std::vector<uint64_t> ids(20);
      for (uint64_t b = 0; b < 200; ++b) {
        for (uint64_t i = 0; i < ids.size(); ++i) ids[i] = (b * 7 + t * 13 + i * 3) % 120;
        sculler_steer_minibatch(steer, ids.data(), ids.size(), nullptr);
        if (b % 50 == 49) sculler_steer_set_limit(steer, 10 + b % 40);
        sculler_steer_state state;
        sculler_steer_get_state(steer, &state);
      }
    });
  for (auto& thread : threads) thread.join();
  sculler_steer_state state;
  ASSERT_EQ(sculler_steer_get_state(steer, &state), SCULLER_STEER_OK);
  EXPECT_EQ(state.total.ids, 3U * 200 * 20);
  sculler_steer_close(steer);
}

TEST(SteerLibrary, RecordsATraceThatOnlyAnEndCompletes) {
  const sculler::test::TempFolder folder("steer_record");
  const std::string path = folder.path("t");
  const auto size = [&] {
    std::ifstream in(path, std::ios::binary);
    return std::string{std::istreambuf_iterator<char>(in), {}};
  };
  sculler_steer* steer = open_buffer(4);
  const uint64_t ids[] = {1, 2, 3}, degree[] = {3, 4, 5};
  EXPECT_EQ(sculler_steer_record_end(steer), SCULLER_STEER_USAGE);
  EXPECT_EQ(sculler_steer_record(steer, "/nowhere/t", 0, 0, nullptr, nullptr, nullptr),
            SCULLER_STEER_IO);
  const float wrong[] = {0.5F, 2.0F, 0.0F};
  EXPECT_EQ(sculler_steer_record(steer, path.c_str(), 9, 3, ids, degree, wrong),
            SCULLER_STEER_BAD_INPUT);
  ASSERT_EQ(sculler_steer_record(steer, path.c_str(), 9, 3, ids, degree, nullptr),
            SCULLER_STEER_OK);
  ASSERT_EQ(sculler_steer_set_epoch(steer, 2), SCULLER_STEER_OK);
  ASSERT_EQ(sculler_steer_minibatch(steer, ids, 3, nullptr), SCULLER_STEER_OK);
  EXPECT_FALSE(size().ends_with("SCULTEND"));
  sculler_steer_close(steer);  // ends it
  EXPECT_TRUE(size().starts_with("SCULTRC1"));
  EXPECT_TRUE(size().ends_with("SCULTEND"));
}

int ask(void* user, const char* context, char* answer, size_t bytes) {
  *static_cast<std::string*>(user) = context;
  const std::string text =
      R"({"replace":true,"buffer":0.5,"explanation":"c","expected_impact":{"hitrate":"increase","comm_volume":"increase"}})";
  if (text.size() + 1 > bytes) return 1;
  std::memcpy(answer, text.c_str(), text.size() + 1);
  return 0;
}
int ask_without_end(void* /*user*/, const char* /*context*/, char* answer, size_t bytes) {
  std::memset(answer, '{', bytes);
  return 0;
}

TEST(SteerLibrary, AsksACallbackAndAppliesItsAnswer) {
  sculler_steer* steer = open_buffer(8, "rudder");
  std::string context;
  sculler_steer_control_settings settings{};
  EXPECT_EQ(sculler_steer_control(steer, &settings), SCULLER_STEER_USAGE) << "no size";
  settings.size = sizeof settings;
  EXPECT_EQ(sculler_steer_control(steer, &settings), SCULLER_STEER_USAGE) << "nobody to ask";
  sculler_steer_control_counts counts;
  EXPECT_EQ(sculler_steer_get_control(steer, &counts), SCULLER_STEER_USAGE);
  settings.ask = ask;
  settings.user = &context;
  settings.mode = SCULLER_STEER_SYNC;
  settings.graph = "a graph";
  ASSERT_EQ(sculler_steer_control(steer, &settings), SCULLER_STEER_OK);
  const uint64_t ids[] = {1, 2, 3, 4, 5, 6};
  for (int i = 0; i < 3; ++i)
    ASSERT_EQ(sculler_steer_minibatch(steer, ids, 6, nullptr), SCULLER_STEER_OK);
  EXPECT_THAT(context, testing::HasSubstr("graph: a graph"));
  sculler_steer_state state;
  ASSERT_EQ(sculler_steer_get_state(steer, &state), SCULLER_STEER_OK);
  EXPECT_EQ(state.limit, 4U);
  EXPECT_EQ(state.used, 4U);
  ASSERT_EQ(sculler_steer_get_control(steer, &counts), SCULLER_STEER_OK);
  EXPECT_EQ(counts.asked, 2U);
  EXPECT_EQ(counts.applied, 2U);
  settings.ask = ask_without_end;
  ASSERT_EQ(sculler_steer_control(steer, &settings), SCULLER_STEER_OK);
  ASSERT_EQ(sculler_steer_minibatch(steer, ids, 6, nullptr), SCULLER_STEER_OK);
  ASSERT_EQ(sculler_steer_get_control(steer, &counts), SCULLER_STEER_OK);
  EXPECT_EQ(counts.invalid, 1U);
  settings.maker = "fixed:2";
  EXPECT_EQ(sculler_steer_control(steer, &settings), SCULLER_STEER_USAGE) << "two to ask";
  settings.ask = nullptr;
  EXPECT_EQ(sculler_steer_control(steer, &settings), SCULLER_STEER_OK);
  EXPECT_THAT(sculler_steer_answer_schema(), testing::HasSubstr("expected_impact"));
  sculler_steer_close(steer);
}

}  // namespace
