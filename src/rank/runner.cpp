#include "rank/runner.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <optional>
#include <string>

#include "base/files.h"
#include "rank/backend.h"
#include "rank/backend_cpu.h"
#include "rank/channel.h"
#include "rank/multicast.h"

namespace sculler::rank {
namespace {

uint64_t monotonic_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

void sleep_ns(uint64_t ns) {
  if (ns == 0) return;
  timespec t{static_cast<time_t>(ns / 1'000'000'000u), static_cast<long>(ns % 1'000'000'000u)};
  while (nanosleep(&t, &t) != 0) {}
}

class Runner {
 public:
  Runner(const RankSpec& spec, int rank, int control, void* shared)
      : spec_(spec), rank_(rank), control_(control), shared_(shared) {}

  int run() {
    if (!say(Kind::kHello, static_cast<int32_t>(kProtocolVersion), getpid())) return 1;
    if (!expect(Kind::kWelcome)) return 1;
    if (!start()) return 1;
    for (;;) {
      Packet packet = receive_message(control_, false);
      if (packet.kind != Packet::Kind::kMessage) return 1;
      const Message& m = packet.message;
      bool good = false;
      switch (m.kind) {
        case Kind::kSetup: good = setup(); break;
        case Kind::kRun: good = iterate(m); break;
        case Kind::kCapture: good = capture(m); break;
        case Kind::kTeardown: good = teardown(); break;
        case Kind::kQuit: return 0;
        default: return 1;
      }
      if (!good) return 1;
    }
  }

 private:
  using Setup = int (*)(const sculler_rank*, const sculler_problem*, const sculler_pool*, void**);
  using Run = int (*)(void*, const sculler_problem*, int);
  using Teardown = int (*)(void*);

  bool say(const Message& message, int fd = -1) {
    return send_message(control_, message, fd).has_value();
  }
  bool say(Kind kind, int32_t a = 0, int32_t b = 0) {
    Message m;
    m.kind = kind;
    m.a = a;
    m.b = b;
    return say(m);
  }
  std::optional<Message> expect(Kind kind) {
    Packet packet = receive_message(control_, false);
    if (packet.kind != Packet::Kind::kMessage || packet.message.kind != kind) return std::nullopt;
    return packet.message;
  }
  // Always false, so that callers can return it.
  bool fault(FaultCode code, int32_t number, std::string_view text) {
    Message m;
    m.kind = Kind::kFault;
    m.a = static_cast<int32_t>(code);
    m.b = number;
    set_text(m, text);
    std::fprintf(stderr, "rank %d: %.*s\n", rank_, static_cast<int>(text.size()), text.data());
    say(m);
    return false;
  }
  bool fault(const sculler_backend_error& error) {
    return fault(static_cast<FaultCode>(error.fault), error.number,
                 std::string_view(error.text, strnlen(error.text, sizeof error.text)));
  }

  bool load_libraries() {
    if (spec_.target == Target::kCpu) {
      api_ = cpu_backend();
      return true;
    }
    if (!spec_.multicast_allowed) {
      if (auto off = require_multicast_off(); !off)
        return fault(FaultCode::kEnvironment, 0, off.error().text());
      set_multicast_off();
    }
    // Kernels that wait for each other must not meet a lazy module load.
    ::setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    // Whose calls the emulator's libraries name by their place (src/emu/client/site.cpp).
    ::setenv("SCULLER_CANDIDATE", absolute_path(spec_.candidate).c_str(), 1);
    for (const std::string& path : spec_.libraries) {
      if (::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr)
        return fault(FaultCode::kEnvironment, 0, dl_error(path));
    }
    if (!spec_.multicast_allowed && spec_.target == Target::kCuda) {
      if (auto refused = refuse_multicast_calls(); !refused) {
        return fault(FaultCode::kEnvironment, 0,
                     "multicast cannot be refused: " + refused.error().text());
      }
    }
    void* library = ::dlopen(absolute_path(spec_.backend).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return fault(FaultCode::kEnvironment, 0, dl_error(spec_.backend));
    auto entry = reinterpret_cast<sculler_backend_entry>(::dlsym(library, "sculler_rank_backend"));
    if (entry == nullptr)
      return fault(FaultCode::kEnvironment, 0, spec_.backend + " exports no sculler_rank_backend");
    api_ = entry();
    if (api_ == nullptr || api_->version != kBackendVersion) {
      return fault(FaultCode::kEnvironment, 0,
                   spec_.backend + " is of another build: remove it from the cache");
    }
    return true;
  }
  static std::string dl_error(const std::string& path) {
    const char* why = ::dlerror();
    return why != nullptr ? why : path + " cannot be loaded";
  }

  bool start() {
    if (!load_libraries()) return false;
    std::vector<uint64_t> bytes;
    for (const auto& b : spec_.buffers) bytes.push_back(b.bytes);
    sculler_backend_spec request{};
    request.rank = rank_;
    request.n_ranks = spec_.n_ranks;
    request.n_threads = spec_.n_threads;
    request.workload = spec_.workload ? 1 : 0;
    request.export_handles = spec_.target == Target::kCuda ? 1 : 0;
    request.expect_nccl = spec_.expect_nccl;
    request.n_sets = spec_.n_sets;
    request.n_buffers = static_cast<int32_t>(bytes.size());
    request.bytes = bytes.data();
    request.shift = spec_.shift;
    request.shared = shared_;
    sculler_backend_error error{};
    if (api_->open(&request, &backend_, &error) != 0) return fault(error);
    Message id;
    if (spec_.workload) {
      if (rank_ == 0) {
        id.kind = Kind::kUniqueId;
        id.text_bytes = 128;
        if (api_->unique_id(backend_, id.text, &error) != 0) return fault(error);
        if (!say(id)) return false;
      }
      auto answer = expect(Kind::kSetUniqueId);
      if (!answer) return false;
      id = *answer;
    }
    if (api_->connect(backend_, spec_.workload ? id.text : nullptr, &error) != 0)
      return fault(error);
    for (int32_t set = 0; set < spec_.n_sets; ++set) {
      for (int32_t b = 0; b < request.n_buffers; ++b) {
        Message m;
        m.kind = Kind::kPool;
        m.a = set;
        m.b = b;
        int32_t fd = -1;
        if (api_->buffer(backend_, set, b, &m.u[0], &m.u[1], &fd, &error) != 0) return fault(error);
        const UniqueFd owned(fd);
        if (!say(m, fd)) return false;
      }
    }
    return true;
  }

  template <class Function>
  bool entry_point(void* library, const char* name, Function& into) {
    into = reinterpret_cast<Function>(::dlsym(library, name));
    return into != nullptr ||
           fault(FaultCode::kLoad, 0, std::string("the candidate exports no ") + name);
  }

  bool setup() {
    void* library = ::dlopen(absolute_path(spec_.candidate).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return fault(FaultCode::kLoad, 0, dl_error(spec_.candidate));
    if (!entry_point(library, "sculler_setup", setup_) ||
        !entry_point(library, "sculler_run", run_) ||
        !entry_point(library, "sculler_teardown", teardown_)) {
      return false;
    }
    const int code = setup_(api_->rank(backend_), &spec_.problem, api_->pool(backend_), &state_);
    if (code != SCULLER_OK)
      return fault(FaultCode::kSetup, code, "sculler_setup returned " + std::to_string(code));
    sculler_backend_error error{};
    uint64_t event_ns = 0;
    // An error that setup left behind must not be blamed on the first run.
    if (api_->synchronize(backend_, &event_ns, &error) != 0) {
      return fault(FaultCode::kSetup, error.number,
                   std::string("after sculler_setup: ") + error.text);
    }
    return say(Kind::kReady);
  }

  // Nothing runs here: a graph of one run a set of the mask. What cannot be captured is said, and
  // is run as it is.
  bool capture(const Message& order) {
    if (run_ == nullptr) return false;
    sculler_backend_error error{};
    bool refused = api_->capture_begin == nullptr || api_->capture_begin(backend_, &error) != 0;
    for (int set = 0; !refused && set < spec_.n_sets; ++set) {
      if ((order.u[0] >> set & 1) == 0) continue;
      const int code = run_(state_, &spec_.problem, set);
      refused = code != SCULLER_OK;
    }
    if (api_->capture_end != nullptr && api_->capture_end(backend_, &error) != 0) refused = true;
    captured_ = !refused;
    return say(Kind::kCaptured, order.a, refused ? 1 : 0);
  }

  bool iterate(const Message& order) {
    const bool empty = (order.u[0] & kCalibrate) != 0;
    const bool replay = (order.u[0] & kReplay) != 0;
    if (replay && !captured_) return false;
    if (order.b < 0 || order.b >= spec_.n_sets || (!empty && run_ == nullptr)) return false;
    sculler_backend_error error{};
    sleep_ns(order.u[1]);
    if (api_->barrier(backend_, (order.u[0] & kFlushL2) != 0 ? 1 + order.b : 0, &error) != 0)
      return fault(error);
    Message opened;
    opened.kind = Kind::kOpened;
    opened.a = order.a;
    opened.u[0] = monotonic_ns();
    if (!say(opened)) return false;

    Message done;
    done.kind = Kind::kDone;
    done.a = order.a;
    done.u[0] = monotonic_ns();
    sleep_ns(order.u[2]);
    if (api_->begin(backend_, &error) != 0) return fault(error);
    if (replay && api_->replay(backend_, &error) != 0) return fault(error);
    const int code = empty || replay ? 0 : run_(state_, &spec_.problem, order.b);
    captured_ = false;
    if (api_->synchronous != 0) done.u[1] = monotonic_ns();
    if (code != SCULLER_OK)
      return fault(FaultCode::kRun, code, "sculler_run returned " + std::to_string(code));
    if (api_->end(backend_, &error) != 0) return fault(error);
    if (!say(Kind::kEnqueued, order.a)) return false;
    if (api_->synchronize(backend_, &done.u[2], &error) != 0) return fault(error);
    if (api_->synchronous == 0) done.u[1] = monotonic_ns();
    return say(done);
  }

  bool teardown() {
    if (teardown_ == nullptr) return false;
    const int code = teardown_(state_);
    if (code != SCULLER_OK)
      return fault(FaultCode::kTeardown, code, "sculler_teardown returned " + std::to_string(code));
    return say(Kind::kBye);
  }

  const RankSpec& spec_;
  int rank_;
  int control_;
  void* shared_;
  const sculler_backend_api* api_ = nullptr;
  sculler_backend* backend_ = nullptr;
  Setup setup_ = nullptr;
  Run run_ = nullptr;
  Teardown teardown_ = nullptr;
  void* state_ = nullptr;
  bool captured_ = false;
};

}  // namespace

int run_rank(const RankSpec& spec, int rank, int control_fd, void* shared_barrier) {
  return Runner(spec, rank, control_fd, shared_barrier).run();
}

}  // namespace sculler::rank
