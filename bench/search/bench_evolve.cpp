// Cost of strategy evolve with models and evaluator stubbed: CPU a proposal over the life of a run,
// memory, time to the first question, proposals a second with a slow model.
//   bench_evolve [proposals] [calls] [model's ms] [bytes of the source]      one JSON line
// Prompts are those of a run (prompts/ and knowledge/ of SCULLER_HOME, else of the source tree);
// what is asked and answered is kept in the store as in a run.
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "base/process.h"
#include "base/sha256.h"
#include "base/strings.h"
#include "cpu.h"
#include "llm/tape.h"
#include "search/evolve/evolve.h"
#include "search/run.h"
#include "store/calls.h"

namespace {

using namespace sculler;

class Stub final : public search::Evaluator {
 public:
  Status submit(const std::string& id, std::string) override {
    queue_.push_back(id);
    return {};
  }
  Result<std::optional<search::Answer>> next(int64_t) override {
    if (queue_.empty()) return std::optional<search::Answer>();
    std::string id = std::move(queue_.front());
    queue_.pop_front();
    const double us = 500.0 + static_cast<double>((++count_ * 7919) % 100'003) / 1000.0;
    std::string verdict =
        "{\"version\":1,\"job\":\"" + id +
        "\",\"status\":\"PASSED\",\"stage\":\"emulate\",\"target\":\"emu\","
        "\"latency_us\":{\"median\":" +
        std::to_string(us) +
        ",\"low\":1,\"high\":2,\"kind\":\"predicted\",\"size\":\"default\"},\"percent_sol\":50}";
    return std::optional<search::Answer>(search::Answer{std::move(id), std::move(verdict)});
  }

 private:
  std::deque<std::string> queue_;
  int64_t count_ = 0;
};

// Answers with a new value; what was asked and answered is kept as in a run.
class StubProvider final : public llm::Provider {
 public:
  StubProvider(store::Calls& calls, int64_t delay_ms) : calls_(calls), delay_ms_(delay_ms) {}
  llm::Reply ask(const llm::Request& request) override {
    int64_t none = 0;
    if (first_ns.compare_exchange_strong(none, real_clock().now_ns())) {
      for (const auto& message : request.messages) prompt_bytes += message.text.size();
    }
    if (delay_ms_ > 0) std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms_));
    llm::Answer answer;
    answer.model = "stub";
    answer.text = "What holds: nothing.";
    if (request.role == "mutator") {
      const auto& user = request.messages[1].text;
      const auto at = user.find("int value = ", user.find("## The program"));
      const std::string line = user.substr(at, user.find('\n', at) - at);
      answer.text = "Another value.\n<<<<<<< SEARCH\n" + line +
                    "\n=======\nint value = " + std::to_string(1'000'000 + request.index) +
                    ";\n>>>>>>> REPLACE\n";
    }
    store::LlmCall call;
    call.role = request.role;
    call.model = answer.model;
    call.question = request.name();
    call.prompt = llm::prompt_text(request);
    call.prompt_sha = sha256_hex(call.prompt);
    call.answer = answer.text;
    call.outcome = "ok";
    if (auto ok = calls_.add(call); !ok) return llm::fault(llm::Fault::kSetup, ok.error().text());
    return answer;
  }
  void stop() override {}
  void reward(std::string_view model, double worth) override {
    (void)calls_.add_reward(model, worth);
  }
  [[nodiscard]] llm::Usage usage() const override { return {}; }
  [[nodiscard]] std::vector<std::string> models() const override { return {"stub"}; }

  std::atomic<int64_t> first_ns{0};
  uint64_t prompt_bytes = 0;

 private:
  store::Calls& calls_;
  int64_t delay_ms_;
};

std::string source_text(std::size_t bytes, int n) {
  std::string text =
      "// sculler:directive {\"backend\":\"lsa\"}\n// EVOLVE-BLOCK-START\nint value = " +
      std::to_string(n) + ";\n";
  for (int i = 0; text.size() < bytes; ++i)
    text += "__global__ void kernel_" + std::to_string(i) + "(float* x) { x[threadIdx.x] += 1; }\n";
  return text + "// EVOLVE-BLOCK-END\n";
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t proposals = argc > 1 ? std::atol(argv[1]) : 3000;
  const int64_t calls = argc > 2 ? std::atol(argv[2]) : 2;
  const int64_t delay_ms = argc > 3 ? std::atol(argv[3]) : 0;
  const auto bytes = static_cast<std::size_t>(argc > 4 ? std::atol(argv[4]) : 1000);
  const int64_t start_ns = real_clock().now_ns();
  char pattern[] = "/tmp/sculler_bench_XXXXXX";
  const std::string folder = mkdtemp(pattern);
  if (!real_files().mkdirs(folder + "/spool")) return 1;
  auto store = store::Store::open(folder + "/store.sqlite", real_clock());
  auto log_of_calls = store ? (*store)->calls() : fail(store.error());
  std::string home = env_value("SCULLER_HOME");
  if (home.empty()) home = SCULLER_SOURCE_DIR;
  auto library = agent::Library::load(real_files(), {home});
  if (!store || !log_of_calls || !library) {
    std::fprintf(stderr, "no store or no prompts below %s\n", home.c_str());
    return 1;
  }
  search::Brief brief;
  brief.library = *library;
  for (const char* name : {"task_name", "task_summary", "task_readme", "task_header", "target",
                           "hardware", "candidate_header"})
    brief.constants.texts[name] = {"(null task)", {}, 0};
  brief.topology.n_ranks = brief.topology.ranks_per_node = 2;

  StubProvider provider(**log_of_calls, delay_ms);
  search::EvolveSettings settings;
  settings.generations = proposals;
  settings.calls = calls;
  settings.directive_first = false;
  settings.novelty = 2;
  std::vector<std::shared_ptr<const search::Source>> seeds;
  for (int i = 0; i < 2; ++i)
    seeds.push_back(
        *search::make_source("seed" + std::to_string(i), "seed.cu", source_text(bytes, i)));
  search::AskingRun around;
  Stub stub;
  NoProgress progress;
  Log log(real_files(), real_clock(), folder + "/log.jsonl");
  search::RunSettings run_settings;
  run_settings.frame.task = "/tasks/toy";
  run_settings.frame.task_sha256 = "t";
  run_settings.frame.target = "emu";
  run_settings.frame.n_ranks = 2;
  run_settings.frame.size = "emu";
  run_settings.frame.predict_size = "default";
  run_settings.frame.stages = search::search_stages("emu");
  run_settings.budget = 0;
  run_settings.spool = folder + "/spool";
  run_settings.stop_at_percent_sol = 0;
  run_settings.in_flight = 3;
  run_settings.confirm = 0;
  run_settings.show_all = false;
  search::Evolve evolve(std::move(seeds), settings, around, provider, brief, **store);
  if (auto ok = evolve.restore(); !ok) {
    std::fprintf(stderr, "%s\n", ok.error().text().c_str());
    return 1;
  }
  search::Run run(**store, real_files(), real_clock(), stub, evolve, progress, log, run_settings);
  const double before = cpu_ms();
  const int64_t begin_ns = real_clock().now_ns();
  auto summary = run.execute({});
  if (!summary) {
    std::fprintf(stderr, "%s\n", summary.error().text().c_str());
    return 1;
  }
  const double seconds = static_cast<double>(real_clock().now_ns() - begin_ns) * 1e-9;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf(
      "{\"proposals\":%ld,\"evaluated\":%ld,\"calls\":%ld,\"model_ms\":%ld,\"source_bytes\":%zu,"
      "\"prompt_bytes\":%lu,\"cpu_ms_a_proposal\":%.4f,\"proposals_a_second\":%.1f,"
      "\"start_to_first_question_ms\":%.1f,\"peak_mib\":%.1f}\n",
      evolve.proposals(), summary->tally.evaluated, calls, delay_ms, bytes, provider.prompt_bytes,
      (cpu_ms() - before) / static_cast<double>(evolve.proposals()),
      static_cast<double>(evolve.proposals()) / seconds,
      static_cast<double>(provider.first_ns.load() - start_ns) * 1e-6,
      static_cast<double>(usage.ru_maxrss) / 1024);
  evolve.finish();
  return real_files().remove_all(folder) ? 0 : 1;
}
