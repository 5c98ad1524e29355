// The language models of a run, from its settings.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "cli/app.h"
#include "cli/settings.h"
#include "llm/make.h"
#include "llm/tape.h"
#include "store/store.h"

namespace sculler::cli {

// In order of dependence: what stands below uses what stands above.
struct Models {
  std::unique_ptr<llm::Tape> tape{};      // null: neither llm.record nor llm.replay
  std::unique_ptr<store::Calls> calls{};  // null where there is no run folder
  std::unique_ptr<llm::CallLog> log{};
  std::unique_ptr<llm::Provider> provider{};
  int64_t at_once = 1;  // questions that are worth asking at the same time
};

// Calls are kept in `store`, where there is one; beside a run, `run_folder` is empty.
[[nodiscard]] Result<Models> open_models(const App& app, const Settings& settings,
                                         const std::string& run_folder, store::Store* store);

// Ends the questions of a provider when the user interrupts.
class InterruptWatch {
 public:
  InterruptWatch(llm::Provider& provider, const std::atomic<bool>* interrupted);
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

 private:
  std::atomic<bool> done_{false};
  std::thread thread_;
};

// $XDG_CACHE_HOME/sculler or ~/.cache/sculler; empty where neither is known.
[[nodiscard]] std::string cache_folder();

}  // namespace sculler::cli
