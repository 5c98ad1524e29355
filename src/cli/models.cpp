#include "cli/models.h"

#include <algorithm>
#include <chrono>

#include "base/process.h"
#include "search/call_log.h"

namespace sculler::cli {

std::string cache_folder() {
  if (const auto cache = env_value("XDG_CACHE_HOME"); !cache.empty())
    return join_path(cache, "sculler");
  const auto home = env_value("HOME");
  return home.empty() ? std::string() : join_path(home, ".cache/sculler");
}

InterruptWatch::InterruptWatch(llm::Provider& provider, const std::atomic<bool>* interrupted) {
  if (interrupted == nullptr) return;
  thread_ = std::thread([this, &provider, interrupted] {
    while (!done_ && !*interrupted) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (*interrupted) provider.stop();
  });
}

InterruptWatch::~InterruptWatch() {
  done_ = true;
  if (thread_.joinable()) thread_.join();
}

Result<Models> open_models(const App& app, const Settings& settings, const std::string& run_folder,
                           store::Store* store) {
  auto home = app.home();
  if (!home) return fail(home.error());
  auto llm = effective_llm(settings);
  if (!llm) return fail(llm.error());
  Models out;
  if (!settings.llm_record.empty() && !settings.llm_replay.empty()) {
    return fail(
        Error{ErrorCode::kUsage, "stands beside llm.record", {}, "llm.replay", "keep one of them"});
  }
  if (!settings.llm_record.empty() || !settings.llm_replay.empty()) {
    auto tape = settings.llm_replay.empty() ? llm::Tape::record(app.files, settings.llm_record)
                                            : llm::Tape::replay(app.files, settings.llm_replay);
    if (!tape) return fail(tape.error());
    out.tape = std::move(*tape);
    if (settings.llm_replay_prompts == "any") out.tape->take_any_prompt();
  }
  if (store != nullptr) {
    auto calls = store->calls();
    if (!calls) return fail(calls.error());
    out.calls = std::move(*calls);
    out.log = search::make_call_log(*out.calls);
  }
  // A local server answers one question after another, and those that wait run out of time.
  const bool local = std::all_of(llm->models.begin(), llm->models.end(),
                                 [](const llm::Model& m) { return m.provider == "local"; });
  const auto models = static_cast<int64_t>(llm->models.size());
  out.at_once = local && models > 0 ? std::min(llm->parallel, models) : llm->parallel;
  llm::Surroundings around{app.files, app.clock, app.processes};
  around.log = out.log.get();
  around.tape = out.tape.get();
  around.seed = settings.seed;
  around.run_folder = run_folder;
  around.cache = cache_folder();
  around.prices = join_path(home->root, "knowledge/prices.toml");
  if (!app.files.exists(around.prices)) around.prices.clear();
  auto provider = llm::make_provider(*llm, around);
  if (!provider) return fail(provider.error());
  out.provider = std::move(*provider);
  return out;
}

}  // namespace sculler::cli
