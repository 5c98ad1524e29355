// A thin owner of an SQLite connection and of its prepared statements.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

struct sqlite3;
struct sqlite3_stmt;

namespace sculler::store {

class Database;

// A prepared statement, reset when it goes out of use. Parameters are bound from 1 in order of the
// calls.
class Statement {
 public:
  Statement() = default;
  ~Statement();
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&& other) noexcept;
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& begin();  // reset, next parameter is 1
  Statement& bind(int64_t value);
  Statement& bind(double value);
  Statement& bind(std::string_view value);
  Statement& bind_null();
  Statement& bind(const std::optional<int64_t>& value);
  Statement& bind(const std::optional<double>& value);

  // True: a row is there. False: done.
  [[nodiscard]] Result<bool> step();
  // For statements without rows.
  [[nodiscard]] Status run();

  [[nodiscard]] int64_t integer(int column) const;
  [[nodiscard]] double real(int column) const;
  [[nodiscard]] std::string text(int column) const;
  [[nodiscard]] bool null(int column) const;

 private:
  friend class Database;
  sqlite3_stmt* handle_ = nullptr;
  const Database* database_ = nullptr;
  int next_ = 1;
};

class Database {
 public:
  Database() = default;
  ~Database();
  Database(Database&& other) noexcept;
  Database& operator=(Database&& other) noexcept;
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  [[nodiscard]] static Result<Database> open(const std::string& path);
  [[nodiscard]] Status execute(const char* sql);
  [[nodiscard]] Result<Statement> prepare(const char* sql);
  [[nodiscard]] int64_t last_id() const;
  [[nodiscard]] int changes() const;
  // The last failure as an error: kDiskFull, kVersion for a file that is no database, else kIo.
  [[nodiscard]] Error error(std::string_view what) const;

 private:
  sqlite3* handle_ = nullptr;
  std::string path_;
};

// A database that several owners of statements share: one page cache, and no lock of the file
// between them. Hold `mutex` from a statement's begin to its last row, and through a transaction.
struct Connection {
  explicit Connection(Database opened) : database(std::move(opened)) {}
  Database database;
  std::recursive_mutex mutex;
};

}  // namespace sculler::store
