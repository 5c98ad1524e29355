#include "store/store.h"

#include <fmt/format.h>

#include <array>
#include <mutex>

#include "base/hold.h"
#include "base/sha256.h"
#include "store/calls_on.h"
#include "store/database.h"

namespace sculler::store {
namespace {

constexpr const char* kSchema = R"(
CREATE TABLE IF NOT EXISTS schema(version INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS run(name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS source(sha256 TEXT PRIMARY KEY, text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS program(
  id INTEGER PRIMARY KEY, parent INTEGER, name TEXT NOT NULL, origin TEXT NOT NULL, plan TEXT NOT NULL, directive TEXT NOT NULL,
  defines TEXT NOT NULL, source_sha256 TEXT NOT NULL, identity TEXT NOT NULL UNIQUE, t INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS attempt(
  id INTEGER PRIMARY KEY, job TEXT NOT NULL UNIQUE, program INTEGER NOT NULL, target TEXT NOT NULL, size TEXT NOT NULL,
  stages TEXT NOT NULL, seed INTEGER NOT NULL, baseline INTEGER NOT NULL, t INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS evaluation(
  id INTEGER PRIMARY KEY, job TEXT NOT NULL UNIQUE, program INTEGER NOT NULL, status TEXT NOT NULL, stage TEXT NOT NULL,
  latency_us REAL, ratio REAL, percent_sol REAL, verdict TEXT NOT NULL, t INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS event(id INTEGER PRIMARY KEY, kind TEXT NOT NULL, json TEXT NOT NULL, t INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS llm_call(
  id INTEGER PRIMARY KEY, role TEXT NOT NULL, model TEXT NOT NULL, question TEXT NOT NULL, tokens_in INTEGER NOT NULL,
  tokens_out INTEGER NOT NULL, usd REAL NOT NULL, prompt TEXT NOT NULL, prompt_sha TEXT NOT NULL, answer TEXT NOT NULL,
  outcome TEXT NOT NULL, t INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS llm_call_question ON llm_call(question);
CREATE TABLE IF NOT EXISTS llm_reward(id INTEGER PRIMARY KEY, model TEXT NOT NULL, worth REAL NOT NULL, t INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS memory_item(
  id INTEGER PRIMARY KEY, kind TEXT NOT NULL, slow INTEGER NOT NULL, fast INTEGER NOT NULL, text TEXT NOT NULL, t INTEGER NOT NULL);
)";

// In the order of kSql.
enum Query : std::size_t {
  kBegin,
  kCommit,
  kRollback,
  kAddSource,
  kAddProgram,
  kFindProgram,
  kProgramById,
  kPrograms,
  kSourceText,
  kAddAttempt,
  kAttemptByJob,
  kOpenAttempts,
  kAttempts,
  kAddEvaluation,
  kEvaluationByJob,
  kAddEvent,
  kEvents,
  kAddMemory,
  kMemory,
  kSetFact,
  kFact,
  kCounts,
  kQueries
};

constexpr std::array<const char*, kQueries> kSql = {
    "BEGIN IMMEDIATE",
    "COMMIT",
    "ROLLBACK",
    "INSERT OR IGNORE INTO source(sha256,text) VALUES(?,?)",
    "INSERT OR IGNORE INTO "
    "program(parent,name,origin,plan,directive,defines,source_sha256,identity,t) "
    "VALUES(?,?,?,?,?,?,?,?,?)",
    "SELECT id FROM program WHERE identity=?",
    "SELECT id,parent,name,origin,plan,directive,defines,source_sha256 FROM program WHERE id=?",
    "SELECT id,parent,name,origin,plan,directive,defines,source_sha256 FROM program WHERE id>? "
    "ORDER BY id",
    "SELECT text FROM source WHERE sha256=?",
    "INSERT OR IGNORE INTO attempt(job,program,target,size,stages,seed,baseline,t) "
    "VALUES(?,?,?,?,?,?,?,?)",
    "SELECT job,program,target,size,stages,seed,baseline FROM attempt WHERE job=?",
    "SELECT a.job,a.program,a.target,a.size,a.stages,a.seed,a.baseline FROM attempt a LEFT JOIN "
    "evaluation e ON e.job=a.job "
    "WHERE e.job IS NULL ORDER BY a.id",
    "SELECT "
    "a.job,a.program,a.target,a.size,a.stages,a.seed,a.baseline,e.job,e.program,e.status,e.stage,e."
    "latency_us,e.ratio,e.percent_sol,"
    "e.verdict FROM attempt a LEFT JOIN evaluation e ON e.job=a.job ORDER BY a.id",
    "INSERT INTO evaluation(job,program,status,stage,latency_us,ratio,percent_sol,verdict,t) "
    "VALUES(?,?,?,?,?,?,?,?,?) ON CONFLICT(job) DO UPDATE SET program=excluded.program,"
    "status=excluded.status,stage=excluded.stage,latency_us=excluded.latency_us,"
    "ratio=excluded.ratio,percent_sol=excluded.percent_sol,verdict=excluded.verdict,t=excluded.t "
    "WHERE evaluation.status='INTERNAL'",
    "SELECT job,program,status,stage,latency_us,ratio,percent_sol,verdict FROM evaluation WHERE "
    "job=?",
    "INSERT INTO event(kind,json,t) VALUES(?,?,?)",
    "SELECT kind,json FROM event ORDER BY id",
    "INSERT INTO memory_item(kind,slow,fast,text,t) VALUES(?,?,?,?,?)",
    "SELECT kind,slow,fast,text FROM memory_item ORDER BY id",
    "INSERT OR IGNORE INTO run(name,value) VALUES(?,?)",
    "SELECT value FROM run WHERE name=?",
    "SELECT (SELECT count(*) FROM program),(SELECT count(*) FROM attempt),(SELECT count(*) FROM "
    "evaluation),(SELECT count(*) FROM event)",
};

Program program_of(const Statement& s) {
  return {s.integer(0), s.integer(1), s.text(2), s.text(3),
          s.text(4),    s.text(5),    s.text(6), s.text(7)};
}
Attempt attempt_of(const Statement& s) {
  return {s.text(0), s.integer(1), s.text(2),        s.text(3),
          s.text(4), s.integer(5), s.integer(6) != 0};
}
std::optional<double> maybe(const Statement& s, int column) {
  if (s.null(column)) return std::nullopt;
  return s.real(column);
}
Evaluation evaluation_of(const Statement& s, int first) {
  return {s.text(first),       s.integer(first + 1), s.text(first + 2),   s.text(first + 3),
          maybe(s, first + 4), maybe(s, first + 5),  maybe(s, first + 6), s.text(first + 7)};
}

}  // namespace

// The only kind of store; Store hides SQLite from the headers.
class SqliteStore final : public Store {
 public:
  SqliteStore(Database database, Clock& clock)
      : connection_(std::make_shared<Connection>(std::move(database))),
        database_(connection_->database),
        clock_(clock) {}

  Status prepare(const std::string& path) {
    // WAL with synchronous NORMAL: a crash of the machine may lose the last commits, never the
    // file's integrity; a crash of a process loses nothing. What must survive a power cut lies in
    // the spool, which is synced.
    if (auto ok = database_.execute(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-16384; PRAGMA "
            "temp_store=MEMORY; PRAGMA wal_autocheckpoint=4000;");
        !ok) {
      return ok;
    }
    if (auto ok = check_version(path); !ok) return ok;
    // One transaction: a run folder has all of its tables or none, and is there at once.
    if (auto ok = database_.execute(
            fmt::format("BEGIN IMMEDIATE;{}INSERT INTO schema(version) SELECT {} WHERE NOT "
                        "EXISTS(SELECT 1 FROM schema);COMMIT;",
                        kSchema, kSchemaVersion)
                .c_str());
        !ok) {
      return ok;
    }
    for (std::size_t i = 0; i < kQueries; ++i) {
      auto statement = database_.prepare(kSql[i]);
      if (!statement) return fail(statement.error());
      statements_[i] = std::move(*statement);
    }
    return {};
  }

  Statement& use(Query query) { return statements_[query].begin(); }
  Database& database() { return database_; }
  [[nodiscard]] int64_t now() const { return clock_.wall_ms(); }
  [[nodiscard]] std::unique_lock<std::recursive_mutex> hold() {
    return std::unique_lock(connection_->mutex);
  }
  Result<std::unique_ptr<Calls>> make_calls() { return calls_on(connection_, clock_); }

  Status enter() {
    connection_->mutex.lock();
    if (depth_ == 0) {
      broken_ = false;
      if (auto ok = use(kBegin).run(); !ok) {
        connection_->mutex.unlock();
        return ok;
      }
    }
    ++depth_;
    return {};
  }
  // Of the outermost: to the file, or taken back.
  Status leave(bool keep) {
    Status done;
    if (!keep) broken_ = true;
    if (--depth_ == 0) {
      if (!broken_) done = use(kCommit).run();
      if (broken_ || !done) (void)use(kRollback).run();
      if (keep && broken_)
        done = fail(ErrorCode::kInternal, "a transaction inside of this one was taken back");
    }
    connection_->mutex.unlock();
    return done;
  }

 private:
  Status check_version(const std::string& path) {
    auto tables = database_.prepare(
        "SELECT count(*), sum(name='schema') FROM sqlite_master WHERE type='table'");
    if (!tables) return fail(tables.error());
    auto row = tables->step();
    if (!row) return fail(row.error());
    if (tables->integer(0) == 0) return {};  // new
    int64_t found = 0;
    if (tables->integer(1) > 0) {
      auto version = database_.prepare("SELECT max(version) FROM schema");
      if (!version) return fail(version.error());
      if (auto stepped = version->step(); !stepped) return fail(stepped.error());
      found = version->integer(0);
    }
    if (found == kSchemaVersion) return {};
    return fail(Error{ErrorCode::kVersion,
                      fmt::format("this run folder has format {}, this program reads format {}",
                                  found, kSchemaVersion),
                      path,
                      {},
                      found > kSchemaVersion ? "use the newer sculler that made it"
                                             : "use the sculler that made it, or start a new run"});
  }

  std::shared_ptr<Connection> connection_;
  Database& database_;
  Clock& clock_;
  int depth_ = 0;  // of transactions
  bool broken_ = false;
  std::array<Statement, kQueries> statements_;
};

namespace {
SqliteStore& self(Store* store) { return *static_cast<SqliteStore*>(store); }
}  // namespace

Store::~Store() = default;

Result<std::unique_ptr<Store>> Store::open(const std::string& path, Clock& clock) {
  auto database = Database::open(path);
  if (!database) return fail(database.error());
  auto store = std::make_unique<SqliteStore>(std::move(*database), clock);
  if (auto ok = store->prepare(path); !ok) return fail(ok.error());
  return std::unique_ptr<Store>(std::move(store));
}

Result<Transaction> Store::begin() {
  if (auto ok = self(this).enter(); !ok) return fail(ok.error());
  return Transaction(self(this));
}

Status Transaction::commit() {
  if (store_ == nullptr) return {};
  return std::exchange(store_, nullptr)->leave(true);
}

Transaction::~Transaction() {
  if (store_ != nullptr) (void)store_->leave(false);
}

Result<std::unique_ptr<Calls>> Store::calls() { return self(this).make_calls(); }

Result<int64_t> Store::add_program(const Program& program, std::string_view source) {
  const auto held = self(this).hold();
  auto& s = self(this);
  const std::string identity = Sha256().field(program.source_sha256).field(program.defines).hex();
  if (auto ok = s.use(kAddProgram)
                    .bind(program.parent)
                    .bind(program.name)
                    .bind(program.origin)
                    .bind(program.plan)
                    .bind(program.directive)
                    .bind(program.defines)
                    .bind(program.source_sha256)
                    .bind(identity)
                    .bind(s.now())
                    .run();
      !ok) {
    return fail(ok.error());
  }
  if (s.database().changes() > 0) {
    const int64_t id = s.database().last_id();
    if (auto ok = s.use(kAddSource).bind(program.source_sha256).bind(source).run(); !ok)
      return fail(ok.error());
    return id;
  }
  Statement& found = s.use(kFindProgram).bind(identity);
  auto row = found.step();
  if (!row) return fail(row.error());
  const int64_t id = found.integer(0);
  found.begin();
  return id;
}

Result<std::optional<Program>> Store::program(int64_t id) {
  const auto held = self(this).hold();
  Statement& s = self(this).use(kProgramById).bind(id);
  auto row = s.step();
  if (!row) return fail(row.error());
  if (!*row) return std::optional<Program>();
  auto out = std::optional<Program>(program_of(s));
  s.begin();
  return out;
}

Result<std::string> Store::source(std::string_view sha256) {
  const auto held = self(this).hold();
  Statement& s = self(this).use(kSourceText).bind(sha256);
  auto row = s.step();
  if (!row) return fail(row.error());
  if (!*row)
    return fail(ErrorCode::kNotFound,
                fmt::format("the run holds no source {}", sha256.substr(0, 12)));
  std::string text = s.text(0);
  s.begin();
  return text;
}

Status Store::each_program(int64_t after, const std::function<void(const Program&)>& visit) {
  const auto held = self(this).hold();
  Statement& s = self(this).use(kPrograms).bind(after);
  for (;;) {
    auto row = s.step();
    if (!row) return fail(row.error());
    if (!*row) return {};
    visit(program_of(s));
  }
}

Status Store::add_attempt(const Attempt& a) {
  const auto held = self(this).hold();
  auto& s = self(this);
  return s.use(kAddAttempt)
      .bind(a.job)
      .bind(a.program)
      .bind(a.target)
      .bind(a.size)
      .bind(a.stages)
      .bind(a.seed)
      .bind(int64_t{a.baseline})
      .bind(s.now())
      .run();
}

Result<std::optional<Attempt>> Store::attempt(std::string_view job) {
  const auto held = self(this).hold();
  Statement& s = self(this).use(kAttemptByJob).bind(job);
  auto row = s.step();
  if (!row) return fail(row.error());
  if (!*row) return std::optional<Attempt>();
  auto out = std::optional<Attempt>(attempt_of(s));
  s.begin();
  return out;
}

Result<std::vector<Attempt>> Store::open_attempts() {
  const auto held = self(this).hold();
  Statement& s = self(this).use(kOpenAttempts);
  std::vector<Attempt> out;
  for (;;) {
    auto row = s.step();
    if (!row) return fail(row.error());
    if (!*row) return out;
    out.push_back(attempt_of(s));
  }
}

Status Store::each_attempt(const std::function<void(const Attempt&, const Evaluation*)>& visit) {
  const auto held = self(this).hold();
  Statement& s = self(this).use(kAttempts);
  for (;;) {
    auto row = s.step();
    if (!row) return fail(row.error());
    if (!*row) return {};
    const Attempt attempt = attempt_of(s);
    if (s.null(7)) {
      visit(attempt, nullptr);
    } else {
      const Evaluation evaluation = evaluation_of(s, 7);
      visit(attempt, &evaluation);
    }
  }
}

Result<bool> Store::add_evaluation(const Evaluation& e) {
  const auto held = self(this).hold();
  auto& s = self(this);
  if (auto ok = s.use(kAddEvaluation)
                    .bind(e.job)
                    .bind(e.program)
                    .bind(e.status)
                    .bind(e.stage)
                    .bind(e.latency_us)
                    .bind(e.ratio)
                    .bind(e.percent_sol)
                    .bind(e.verdict)
                    .bind(s.now())
                    .run();
      !ok) {
    return fail(ok.error());
  }
  return s.database().changes() > 0;
}

Result<std::optional<Evaluation>> Store::evaluation(std::string_view job) {
  const auto held = self(this).hold();
  Statement& s = self(this).use(kEvaluationByJob).bind(job);
  auto row = s.step();
  if (!row) return fail(row.error());
  if (!*row) return std::optional<Evaluation>();
  auto out = std::optional<Evaluation>(evaluation_of(s, 0));
  s.begin();
  return out;
}

Status Store::add_event(std::string_view kind, std::string_view json) {
  const auto held = self(this).hold();
  auto& s = self(this);
  return s.use(kAddEvent).bind(kind).bind(json).bind(s.now()).run();
}

Status Store::each_event(
    const std::function<void(const std::string& kind, const std::string& json)>& visit) {
  const auto held = self(this).hold();
  Statement& s = self(this).use(kEvents);
  for (;;) {
    auto row = s.step();
    if (!row) return fail(row.error());
    if (!*row) return {};
    visit(s.text(0), s.text(1));
  }
}

Status Store::add_memory_item(std::string_view kind, int64_t slow, int64_t fast,
                              std::string_view text) {
  const auto held = self(this).hold();
  auto& s = self(this);
  return s.use(kAddMemory).bind(kind).bind(slow).bind(fast).bind(text).bind(s.now()).run();
}

Status Store::each_memory_item(
    const std::function<void(const std::string& kind, int64_t slow, int64_t fast,
                             const std::string& text)>& visit) {
  const auto held = self(this).hold();
  Statement& s = self(this).use(kMemory);
  for (;;) {
    auto row = s.step();
    if (!row) return fail(row.error());
    if (!*row) return {};
    visit(s.text(0), s.integer(1), s.integer(2), s.text(3));
  }
}

Status Store::set_fact(std::string_view name, std::string_view value) {
  const auto held = self(this).hold();
  return self(this).use(kSetFact).bind(name).bind(value).run();
}

Result<std::string> Store::fact(std::string_view name) {
  const auto held = self(this).hold();
  Statement& s = self(this).use(kFact).bind(name);
  auto row = s.step();
  if (!row) return fail(row.error());
  if (!*row) return fail(ErrorCode::kNotFound, fmt::format("the run holds no {}", name));
  std::string value = s.text(0);
  s.begin();
  return value;
}

Result<Counts> Store::counts() {
  const auto held = self(this).hold();
  Statement& s = self(this).use(kCounts);
  auto row = s.step();
  if (!row) return fail(row.error());
  Counts out{s.integer(0), s.integer(1), s.integer(2), s.integer(3)};
  s.begin();
  return out;
}

Result<Imported> import_spool(
    Store& store, Files& files, const std::string& spool,
    const std::function<Result<Evaluation>(const std::string&, const std::string&)>& convert) {
  Imported out;
  auto names = files.list(spool);
  if (!names) {
    if (names.error().code == ErrorCode::kNotFound) return out;
    return fail(names.error());
  }
  auto transaction = store.begin();
  if (!transaction) return fail(transaction.error());
  for (const auto& name : *names) {
    if (name.size() != 64 + 5 || !name.ends_with(".json"))
      continue;  // temporary files of a writer that died
    const std::string job = name.substr(0, 64);
    auto known = store.evaluation(job);
    if (!known) return fail(known.error());
    if (*known && (*known)->status != kNotFinal) {
      ++out.known;
      continue;
    }
    auto attempt = store.attempt(job);
    if (!attempt) return fail(attempt.error());
    if (!*attempt) {
      ++out.unknown;
      continue;
    }
    auto text = files.read(join_path(spool, name), uint64_t{16} << 20);
    auto evaluation = text ? convert(job, *text) : Result<Evaluation>(fail(text.error()));
    if (!evaluation || evaluation->job != job) {
      ++out.damaged;
      continue;
    }
    evaluation->program = (*attempt)->program;
    auto added = store.add_evaluation(*evaluation);
    if (!added) return fail(added.error());
    ++out.added;
  }
  hold_point("import");
  if (auto ok = transaction->commit(); !ok) return fail(ok.error());
  return out;
}

}  // namespace sculler::store
