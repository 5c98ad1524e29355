// The run's database: append-only facts. Killing any process at any instant loses at most the work
// in flight.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "store/calls.h"

namespace sculler::store {

// The schema's number. A store of another number is refused (kVersion).
inline constexpr int kSchemaVersion = 2;

// The status that says that the evaluator or the machine failed, not the candidate: kept, but the
// next verdict of the job takes its place.
inline constexpr std::string_view kNotFinal = "INTERNAL";

struct Program {
  int64_t id = 0;             // given by the store, from 1, in order of insertion
  int64_t parent = 0;         // 0: none
  std::string name;           // "tile_store"
  std::string origin;         // "seed", "baseline", "tuner", "model"
  std::string plan;           // why it was made; may be empty
  std::string directive;      // JSON, may be empty
  std::string defines;        // "TILE_M=128 STAGES=3", in order of declaration
  std::string source_sha256;  // of the text; texts are kept once each
};

struct Attempt {
  std::string job;  // 64 hex
  int64_t program = 0;
  std::string target, size, stages;
  int64_t seed = 0;
  bool baseline = false;
};

struct Evaluation {
  std::string job;
  int64_t program = 0;
  std::string status, stage;
  std::optional<double> latency_us, ratio,
      percent_sol;      // ratio: to the best baseline at the time of writing
  std::string verdict;  // the JSON line as the evaluator wrote it
};

struct Counts {
  int64_t programs = 0, attempts = 0, evaluations = 0, events = 0;
};

class SqliteStore;

// What is written between Store::begin and commit becomes durable at once; without a commit it is
// taken back. One begun inside of another becomes durable with the outer one. Other threads wait
// with what they write, so do not wait for them in between. Of the thread that began it.
class Transaction {
 public:
  explicit Transaction(SqliteStore& store) : store_(&store) {}
  ~Transaction();
  Transaction(Transaction&& other) noexcept : store_(std::exchange(other.store_, nullptr)) {}
  Transaction& operator=(Transaction&&) = delete;
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  [[nodiscard]] Status commit();

 private:
  SqliteStore* store_;  // null: committed, or moved away
};

// Thread-safe.
class Store {
 public:
  // Makes the database where it is missing. `path` ":memory:" keeps nothing.
  [[nodiscard]] static Result<std::unique_ptr<Store>> open(const std::string& path, Clock& clock);
  virtual ~Store();

  // What is written outside of transactions commits by itself.
  [[nodiscard]] Result<Transaction> begin();
  // On this store's connection; may outlive the store.
  [[nodiscard]] Result<std::unique_ptr<Calls>> calls();

  // The text is stored once a hash. Gives `program.id`. A program with the same source and defines
  // is not added twice: its id comes back.
  [[nodiscard]] Result<int64_t> add_program(const Program& program, std::string_view source);
  [[nodiscard]] Result<std::optional<Program>> program(int64_t id);
  [[nodiscard]] Result<std::string> source(std::string_view sha256);
  // In order of ids, those above `after`.
  [[nodiscard]] Status each_program(int64_t after,
                                    const std::function<void(const Program&)>& visit);

  // Written before a job is sent. The same job twice is no error and adds nothing.
  [[nodiscard]] Status add_attempt(const Attempt& attempt);
  [[nodiscard]] Result<std::optional<Attempt>> attempt(std::string_view job);
  // Attempts without an evaluation, in order of writing.
  [[nodiscard]] Result<std::vector<Attempt>> open_attempts();
  // Attempts in order of writing, with the evaluation where there is one.
  [[nodiscard]] Status each_attempt(
      const std::function<void(const Attempt&, const Evaluation*)>& visit);

  // True where it was new: a job has one verdict, the first that is final.
  [[nodiscard]] Result<bool> add_evaluation(const Evaluation& evaluation);
  [[nodiscard]] Result<std::optional<Evaluation>> evaluation(std::string_view job);

  [[nodiscard]] Status add_event(std::string_view kind, std::string_view json);
  // In order of writing.
  [[nodiscard]] Status each_event(
      const std::function<void(const std::string& kind, const std::string& json)>& visit);
  [[nodiscard]] Status add_memory_item(std::string_view kind, int64_t slow, int64_t fast,
                                       std::string_view text);
  // In order of writing.
  [[nodiscard]] Status each_memory_item(
      const std::function<void(const std::string& kind, int64_t slow, int64_t fast,
                               const std::string& text)>& visit);

  // Facts about the run itself (name, value); the first write of a name stays.
  [[nodiscard]] Status set_fact(std::string_view name, std::string_view value);
  [[nodiscard]] Result<std::string> fact(std::string_view name);

  [[nodiscard]] Result<Counts> counts();

 protected:
  Store() = default;
};

// Reads every SPOOL/<job>.json, in order of names, whose job the store knows as an attempt without
// a final evaluation. Damaged files are left alone and counted. `convert` makes an evaluation of
// the verdict's text.
struct Imported {
  int added = 0, known = 0, unknown = 0, damaged = 0;
};
[[nodiscard]] Result<Imported> import_spool(
    Store& store, Files& files, const std::string& spool,
    const std::function<Result<Evaluation>(const std::string& job, const std::string& text)>&
        convert);

}  // namespace sculler::store
