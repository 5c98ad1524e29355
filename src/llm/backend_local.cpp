// The embedded model: a llama.cpp server of our own, which nobody else can reach.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "base/strings.h"
#include "llm/backends.h"

namespace sculler::llm {
namespace {

constexpr int64_t kStartNs = 120'000'000'000;  // a large model is read from a slow disk
constexpr int64_t kLookNs = 50'000'000;
constexpr int kStarts = 3;

class NoSink final : public HttpSink {
 public:
  void begin(std::string_view) override {}
  bool data(std::string_view) override { return true; }
};

// Starts the server on a thread of its own (children die with the thread that started them) and
// starts it again, a few times, where it ends.
class LocalBackend final : public Backend {
 public:
  LocalBackend(Processes& processes, Files& files, Clock& clock, Http& http, Model model,
               std::string log)
      : processes_(processes),
        files_(files),
        clock_(clock),
        http_(http),
        model_(std::move(model)),
        log_(std::move(log)) {}

  ~LocalBackend() override {
    end_.fire();
    if (keeper_.joinable()) keeper_.join();
  }

  RawReply ask(const Question& question, const Stop& stop) override {
    if (auto ready = wait_ready(question.deadline_ns, stop); !ready)
      return tl::unexpected(ready.error());
    HttpRequest request;
    request.url = "http://localhost/v1/chat/completions";
    request.unix_socket = socket_;
    return ask_over_http(Protocol::kOpenAi, model_, std::move(request), http_, question, stop);
  }

  SchemaMode schema_mode() const override { return SchemaMode::kSchema; }

 private:
  enum class State { kIdle, kStarting, kReady, kFailed };

  tl::expected<void, RawFailure> wait_ready(int64_t deadline_ns, const Stop& stop) {
    std::unique_lock lock(mutex_);
    if (state_ == State::kIdle) {
      state_ = State::kStarting;
      keeper_ = std::thread([this] { keep(); });
    }
    while (state_ == State::kStarting) {
      if (stop.fired()) return raw_fault(Fault::kCancelled, "the run was stopped");
      if (clock_.now_ns() >= deadline_ns)
        return raw_fault(Fault::kTimeout, "the local server did not start in time");
      changed_.wait_for(lock, std::chrono::milliseconds(20));
    }
    if (state_ == State::kFailed) {
      return raw_fault(
          Fault::kSetup, problem_,
          fmt::format("see {}; scripts/local-model builds a server and fetches a model", log_));
    }
    return {};
  }

  void set(State state, std::string problem = {}) {
    {
      const std::lock_guard lock(mutex_);
      state_ = state;
      problem_ = std::move(problem);
    }
    changed_.notify_all();
  }

  void keep() {
    char folder[] = "/tmp/sculler-llm-XXXXXX";
    if (::mkdtemp(folder) == nullptr) {
      set(State::kFailed, "no folder for the socket of the local server");
      return;
    }
    {
      const std::lock_guard lock(mutex_);
      socket_ = std::string(folder) + "/llm.sock";
    }
    std::string problem = "the local server";
    for (int i = 0; i < kStarts && !end_.fired(); ++i) {
      auto ended = serve();
      if (!ended.empty()) problem = std::move(ended);
      set(State::kStarting);
    }
    set(State::kFailed, problem);
    (void)files_.remove_all(folder);
  }

  // From a start to an end; what is to be said about that.
  std::string serve() {
    ::unlink(socket_.c_str());
    const int64_t threads = model_.threads > 0
                                ? model_.threads
                                : std::max<int64_t>(1, std::thread::hardware_concurrency());
    SpawnOptions options;
    options.argv = {model_.server,
                    "--model",
                    model_.path,
                    "--host",
                    socket_,
                    "--threads",
                    std::to_string(threads),
                    "--ctx-size",
                    std::to_string(model_.context > 0 ? model_.context : 8192),
                    "--parallel",
                    "1",
                    "--offline",
                    "--no-webui"};
    options.env = env_subset({"PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "TMPDIR"});
    options.in = Stdio::null();
    options.out = options.err = log_.empty() ? Stdio::null() : Stdio::append(log_);
    auto child = processes_.spawn(options);
    if (!child) return child.error().text();
    const int64_t start = clock_.now_ns();
    bool ready = false;
    for (;;) {
      if (const auto status = (*child)->wait(0); status)
        return fmt::format("{} ended: {}", model_.server, status->text());
      if (!ready && healthy()) {
        ready = true;
        set(State::kReady);
      }
      if (!ready && clock_.now_ns() - start > kStartNs)
        return fmt::format("{} was not ready after {} s", model_.server, kStartNs / 1'000'000'000);
      if (!end_.sleep(clock_, ready ? 4 * kLookNs : kLookNs)) break;
    }
    (*child)->kill_tree();
    return {};
  }

  bool healthy() {
    HttpRequest request;
    request.url = "http://localhost/health";
    request.unix_socket = socket_;
    request.deadline_ns = clock_.now_ns() + 2'000'000'000;
    NoSink sink;
    const auto reply = http_.send(request, sink, end_);
    return reply && reply->status == 200;
  }

  Processes& processes_;
  Files& files_;
  Clock& clock_;
  Http& http_;
  Model model_;
  std::string log_;
  Stop end_;
  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::kIdle;
  std::string problem_, socket_;
  std::thread keeper_;
};

}  // namespace

std::unique_ptr<Backend> make_local_backend(Processes& processes, Files& files, Clock& clock,
                                            Http& http, const Model& model, std::string log) {
  return std::make_unique<LocalBackend>(processes, files, clock, http, model, std::move(log));
}

}  // namespace sculler::llm
