// Any bytes as a run's database, and any bytes as the verdicts of its spool: an error, never a
// crash. Input: a first byte; odd: the rest is the database file; even: the rest are statements
// (as an older or a meddled-with version would have left them), then the store opens what they
// made.
#include <sqlite3.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/files.h"
#include "search/verdict.h"
#include "store/store.h"
#include "support/temp_folder.h"

namespace {

const std::string& folder() {
  static const sculler::test::TempFolder folder("fuzz_store");
  return folder.path();
}

void use(sculler::store::Store& store) {
  using namespace sculler;
  (void)store.counts();
  (void)store.fact("task");
  int64_t id = 0;
  (void)store.each_program(0, [&](const store::Program& p) { id = p.id; });
  (void)store.program(id);
  (void)store.open_attempts();
  (void)store.each_attempt([](const store::Attempt&, const store::Evaluation*) {});
  store::Program program;
  program.name = "p";
  if (const auto added = store.add_program(program, "text")) {
    store::Attempt attempt;
    attempt.job = std::string(64, 'a');
    attempt.program = *added;
    (void)store.add_attempt(attempt);
  }
  store::Evaluation evaluation;
  evaluation.job = std::string(64, 'a');
  (void)store.add_evaluation(evaluation);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sculler;
  if (size == 0) return 0;
  const std::string path = folder() + "/store.sqlite";
  for (const char* end : {"", "-wal", "-shm", "-journal"}) ::unlink((path + end).c_str());
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 1) {
    if (std::FILE* file = std::fopen(path.c_str(), "wb")) {
      (void)std::fwrite(rest.data(), 1, rest.size(), file);
      std::fclose(file);
    }
  } else {
    {
      auto fresh = store::Store::open(path, real_clock());
      if (!fresh) std::abort();
      use(**fresh);
    }
    sqlite3* raw = nullptr;
    if (sqlite3_open(path.c_str(), &raw) == SQLITE_OK) {
      sqlite3_limit(raw, SQLITE_LIMIT_LENGTH, 1 << 16);
      // No recursion without end: statements are data here, not what is tested.
      int steps = 0;
      sqlite3_progress_handler(
          raw, 1000, [](void* count) { return ++*static_cast<int*>(count) > 50 ? 1 : 0; }, &steps);
      sqlite3_exec(raw, "PRAGMA trusted_schema=0; PRAGMA max_page_count=256", nullptr, nullptr,
                   nullptr);
      sqlite3_limit(raw, SQLITE_LIMIT_ATTACHED,
                    0);  // neither ATTACH nor VACUUM INTO: no other file
      sqlite3_exec(raw, std::string(rest).c_str(), nullptr, nullptr, nullptr);
    }
    sqlite3_close_v2(raw);
  }
  auto store = store::Store::open(path, real_clock());
  if (!store) {
    if (store.error().message.empty()) std::abort();
    return 0;
  }
  use(**store);
  // A spool whose one file is the input.
  const std::string spool = folder() + "/spool", job(64, 'a');
  (void)real_files().mkdirs(spool);
  (void)real_files().write_atomic(spool + "/" + job + ".json", rest);
  (void)store::import_spool(
      **store, real_files(), spool,
      [](const std::string& id, const std::string& text) -> Result<store::Evaluation> {
        auto v = search::parse_verdict(text, id);
        if (!v) return fail(v.error());
        store::Evaluation e;
        e.job = id;
        e.status = v->status;
        e.verdict = text;
        return e;
      });
  return 0;
}
