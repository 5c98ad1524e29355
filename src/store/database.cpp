#include "store/database.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <utility>

namespace sculler::store {

Statement::~Statement() { sqlite3_finalize(handle_); }
Statement::Statement(Statement&& other) noexcept { *this = std::move(other); }
Statement& Statement::operator=(Statement&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(database_, other.database_);
  std::swap(next_, other.next_);
  return *this;
}

Statement& Statement::begin() {
  sqlite3_reset(handle_);
  next_ = 1;
  return *this;
}
Statement& Statement::bind(int64_t value) {
  sqlite3_bind_int64(handle_, next_++, value);
  return *this;
}
Statement& Statement::bind(double value) {
  sqlite3_bind_double(handle_, next_++, value);
  return *this;
}
// The text must live until the statement ran; run() and the callers of step() keep it so.
Statement& Statement::bind(std::string_view value) {
  sqlite3_bind_text64(handle_, next_++, value.data() == nullptr ? "" : value.data(), value.size(),
                      SQLITE_STATIC, SQLITE_UTF8);
  return *this;
}
Statement& Statement::bind_null() {
  sqlite3_bind_null(handle_, next_++);
  return *this;
}
Statement& Statement::bind(const std::optional<int64_t>& value) {
  return value ? bind(*value) : bind_null();
}
Statement& Statement::bind(const std::optional<double>& value) {
  return value ? bind(*value) : bind_null();
}

Result<bool> Statement::step() {
  const int code = sqlite3_step(handle_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) {
    sqlite3_reset(handle_);
    return false;
  }
  Error error = database_->error("using the run's database");
  sqlite3_reset(handle_);
  return fail(std::move(error));
}

Status Statement::run() {
  auto stepped = step();
  if (!stepped) return fail(stepped.error());
  sqlite3_reset(handle_);
  sqlite3_clear_bindings(handle_);
  return {};
}

int64_t Statement::integer(int column) const { return sqlite3_column_int64(handle_, column); }
double Statement::real(int column) const { return sqlite3_column_double(handle_, column); }
bool Statement::null(int column) const {
  return sqlite3_column_type(handle_, column) == SQLITE_NULL;
}
std::string Statement::text(int column) const {
  const void* text = sqlite3_column_text(handle_, column);
  if (text == nullptr) return {};
  return {static_cast<const char*>(text),
          static_cast<std::size_t>(sqlite3_column_bytes(handle_, column))};
}

Database::~Database() { sqlite3_close_v2(handle_); }
Database::Database(Database&& other) noexcept { *this = std::move(other); }
Database& Database::operator=(Database&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(path_, other.path_);
  return *this;
}

Result<Database> Database::open(const std::string& path) {
  Database database;
  database.path_ = path;
  if (sqlite3_open_v2(path.c_str(), &database.handle_,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                      nullptr) != SQLITE_OK) {
    return fail(database.error("opening it"));
  }
  sqlite3_busy_timeout(database.handle_, 10'000);
  return database;
}

Status Database::execute(const char* sql) {
  if (sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr) != SQLITE_OK)
    return fail(error("using the run's database"));
  return {};
}

Result<Statement> Database::prepare(const char* sql) {
  Statement statement;
  statement.database_ = this;
  if (sqlite3_prepare_v3(handle_, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement.handle_,
                         nullptr) != SQLITE_OK) {
    return fail(error("preparing a statement"));
  }
  return statement;
}

int64_t Database::last_id() const { return sqlite3_last_insert_rowid(handle_); }
int Database::changes() const { return sqlite3_changes(handle_); }

Error Database::error(std::string_view what) const {
  const int code = handle_ == nullptr ? SQLITE_NOMEM : sqlite3_errcode(handle_);
  Error error{
      ErrorCode::kIo,
      fmt::format("{}: {}", what, handle_ == nullptr ? "out of memory" : sqlite3_errmsg(handle_)),
      path_,
      {},
      {}};
  switch (code & 0xff) {
    case SQLITE_FULL:
      error.code = ErrorCode::kDiskFull;
      error.message = "no room left on the disk while writing it";
      error.cure = "free space there, then sculler resume";
      break;
    case SQLITE_NOTADB:
      error.code = ErrorCode::kVersion;
      error.message = "is no database of a run";
      error.cure = "give the folder of a run";
      break;
    case SQLITE_CORRUPT:
      error.cure = "start a new run; what the spool holds can be imported";
      break;
    case SQLITE_BUSY:
      error.message = "another process uses this run";
      error.cure = "end it first";
      break;
    default: break;
  }
  return error;
}

}  // namespace sculler::store
