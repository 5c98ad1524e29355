// What the stages of one job share; for the cascade's own sources only.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "eval/cascade.h"
#include "eval/external_job.h"

namespace sculler::eval {

inline bool refuse(Verdict& v, std::string status, std::string message, std::string advice = {}) {
  v.status = std::move(status);
  v.message = std::move(message);
  v.advice = std::move(advice);
  return false;
}

inline bool refuse(Verdict& v, const Error& error) {
  Error plain = error;
  plain.cure.clear();
  return refuse(v, "INTERNAL", plain.text(), error.cure);
}

inline void add_note(Verdict& v, std::string note) {
  if (std::find(v.notes.begin(), v.notes.end(), note) == v.notes.end())
    v.notes.push_back(std::move(note));
}

struct Cascade::Context {
  const Job& job;
  Verdict v{};
  task::Task task{};
  std::optional<task::Profile> profile{};
  std::optional<task::Problem> problem{}, predict{};
  std::string arch = "90a";
  std::string candidate{}, rank_backend{}, verify_backend{}, reference{};
  std::optional<Prediction> predicted{};
  std::vector<std::string> remarks{};          // of the compiler, on the candidate's loops
  std::optional<task::Adapter> adapter{};      // external
  std::unique_ptr<ExternalSession> session{};  // external
  double waited_ms = 0;                        // for the GPUs: not what the stage cost

  [[nodiscard]] uint64_t seed(std::string_view salt) const { return Random(job.seed, salt).next(); }
};

}  // namespace sculler::eval
