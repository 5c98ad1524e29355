// A run around a strategy that asks models: store, files and clock of its own, its notes kept, and
// what recording and replaying it needs.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "search/asking.h"
#include "search/evolve_world.h"
#include "search/run.h"

namespace sculler::search {

class AskingTest : public ::testing::Test {
 protected:
  AskingTest(const char* target, const char* size) {
    settings_.frame.task = "/t";
    settings_.frame.task_sha256 = "t";
    settings_.frame.target = target;
    settings_.frame.size = size;
    settings_.frame.stages = search_stages(target);
    settings_.spool = "/spool";
    settings_.stop_at_percent_sol = 0;
    EXPECT_TRUE(files_.mkdirs("/spool"));
    EXPECT_TRUE(files_.mkdirs("/run"));
    store_ = std::move(*store::Store::open(":memory:", clock_));
  }

  AskingRun around(llm::Tape* tape = nullptr) {
    AskingRun out;
    out.budget = settings_.budget;
    out.calls = calls_;
    out.note = [this](const std::string& text) { notes_.push_back(text); };
    out.tape = tape;
    return out;
  }
  // `asking` is at its end afterwards: the provider that it asks ends before this fixture.
  template <class Asking>
  Result<Summary> execute(Asking& asking, Evaluator& evaluator, llm::Tape* tape = nullptr) {
    if (auto ok = asking.restore(); !ok) {
      asking.finish();
      return fail(ok.error());
    }
    Log log(files_, clock_, "/run/log.jsonl");
    search::Run run(*store_, files_, clock_, evaluator, asking, progress_, log, settings_);
    run.tape = tape;
    run.batches = batches_;
    auto summary = run.execute({toy_baseline()});
    asking.finish();
    return summary;
  }
  int notes_with(const std::string& word) const {
    return static_cast<int>(std::count_if(
        notes_.begin(), notes_.end(),
        [&](const std::string& note) { return note.find(word) != std::string::npos; }));
  }

  MemoryFiles files_;
  FakeClock clock_;
  RecordedProgress progress_;
  std::unique_ptr<store::Store> store_;
  RunSettings settings_;
  int64_t calls_ = 1;
  Batches* batches_ = nullptr;
  std::vector<std::string> notes_;
};

// Puts a reply on the tape.
inline llm::Reply kept(llm::Tape& tape, const llm::Request& request, llm::Reply reply) {
  EXPECT_TRUE(tape.keep(request, reply));
  return reply;
}

// A model that says what is on the tape.
inline auto recorded_by(llm::Tape& tape) {
  return [&tape](const llm::Request& request) -> llm::Reply { return tape.reply(request); };
}

// An evaluator of a replay.
inline std::string nobody(const std::string&, const std::string&) {
  ADD_FAILURE() << "the evaluator is asked in a replay";
  return "{}";
}

}  // namespace sculler::search
