#include "store/shared_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "store/database.h"

namespace sculler::store {
namespace {

constexpr int kVersionOfFile = 1;
constexpr const char* kSchema = R"(
CREATE TABLE IF NOT EXISTS memory_schema(version INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS item(
  id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, target TEXT NOT NULL, text TEXT NOT NULL, t INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS use(
  id INTEGER PRIMARY KEY, key TEXT NOT NULL, run TEXT NOT NULL, plan INTEGER NOT NULL, task TEXT NOT NULL,
  speedup REAL NOT NULL, helped INTEGER NOT NULL, t INTEGER NOT NULL, UNIQUE(key,run,plan));
)";

class SqliteSharedMemory final : public SharedMemory {
 public:
  SqliteSharedMemory(Database database, Clock& clock)
      : database_(std::move(database)), clock_(clock) {}

  Status prepare(const std::string& path) {
    if (auto ok = database_.execute("PRAGMA busy_timeout=60000; PRAGMA journal_mode=WAL; PRAGMA "
                                    "synchronous=NORMAL;");
        !ok)
      return ok;
    if (auto ok = database_.execute(kSchema); !ok) return ok;
    if (auto ok = database_.execute(
            fmt::format("INSERT INTO memory_schema(version) SELECT {} WHERE NOT EXISTS(SELECT 1 "
                        "FROM memory_schema)",
                        kVersionOfFile)
                .c_str());
        !ok)
      return ok;
    auto version = database_.prepare("SELECT version FROM memory_schema");
    if (!version) return fail(version.error());
    auto row = version->begin().step();
    if (!row) return fail(row.error());
    if (!*row || version->integer(0) != kVersionOfFile) {
      return fail(Error{
          ErrorCode::kVersion,
          fmt::format("memory of another format, this program reads format {}", kVersionOfFile),
          path,
          {},
          "name another file"});
    }
    const std::pair<Statement*, const char*> all[] = {
        {&add_, "INSERT OR IGNORE INTO item(key,target,text,t) VALUES(?,?,?,?)"},
        {&use_,
         "INSERT OR IGNORE INTO use(key,run,plan,task,speedup,helped,t) VALUES(?,?,?,?,?,?,?)"},
        {&items_, "SELECT key,target,text FROM item WHERE target=? ORDER BY id"},
        {&uses_,
         "SELECT key,task,count(*),sum(helped),max(CASE WHEN helped THEN speedup ELSE 0 END) FROM "
         "use GROUP BY key,task"}};
    for (const auto& [statement, sql] : all) {
      auto made = database_.prepare(sql);
      if (!made) return fail(made.error());
      *statement = std::move(*made);
    }
    return {};
  }

  Status add(std::string_view key, std::string_view target, std::string_view text) override {
    const std::lock_guard lock(mutex_);
    return add_.begin().bind(key).bind(target).bind(text).bind(clock_.wall_ms()).run();
  }

  Status used(std::string_view key, std::string_view run, int64_t plan, std::string_view task,
              double speedup, bool helped) override {
    const std::lock_guard lock(mutex_);
    return use_.begin()
        .bind(key)
        .bind(run)
        .bind(plan)
        .bind(task)
        .bind(speedup)
        .bind(static_cast<int64_t>(helped ? 1 : 0))
        .bind(clock_.wall_ms())
        .run();
  }

  Result<std::vector<SharedItem>> items(std::string_view target) override {
    const std::lock_guard lock(mutex_);
    std::vector<SharedItem> out;
    std::map<std::string, std::size_t> places;
    for (Statement& s = items_.begin().bind(target);;) {
      auto row = s.step();
      if (!row) return fail(row.error());
      if (!*row) break;
      places[s.text(0)] = out.size();
      out.push_back({s.text(0), s.text(1), s.text(2)});
    }
    for (Statement& s = uses_.begin();;) {
      auto row = s.step();
      if (!row) return fail(row.error());
      if (!*row) break;
      const auto at = places.find(s.text(0));
      if (at == places.end()) continue;
      SharedItem& item = out[at->second];
      item.uses += s.integer(2);
      item.wins += s.integer(3);
      if (s.integer(3) > 0) item.helped[s.text(1)] = s.real(4);
    }
    return out;
  }

 private:
  std::mutex mutex_;
  Database database_;
  Clock& clock_;
  Statement add_, use_, items_, uses_;
};

}  // namespace

Result<std::unique_ptr<SharedMemory>> SharedMemory::open(const std::string& path, Clock& clock) {
  auto database = Database::open(path);
  if (!database) return fail(database.error());
  auto out = std::make_unique<SqliteSharedMemory>(std::move(*database), clock);
  if (auto ok = out->prepare(path); !ok) return fail(ok.error());
  return std::unique_ptr<SharedMemory>(std::move(out));
}

}  // namespace sculler::store
