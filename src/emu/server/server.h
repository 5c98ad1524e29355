// The ranks' sockets around one Machine: reads requests, serves one at a time in an order that the
// seed fixes, answers blocked calls when the machine brings them about. Everything a rank sends is
// hostile: a rank that breaks the protocol is dropped and the others go on.
//
// Order: nothing is served before every live rank has settled, that is has a request queued, is
// blocked in a call, or waits outside (control socket). Then the schedule picks what comes next, a
// request or a quantum of device work. So the order is a function of the seed and of what the
// programs do, not of the host's scheduler. A rank that computes for longer than `patience_ms`, or
// sleeps outside of the VM, is left out until it speaks again; the run is then flagged.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "emu/device/machine.h"
#include "emu/wire/message.h"
#include "emu/wire/socket.h"
#include "rank/channel.h"

struct pollfd;

namespace sculler::emu {

struct ServerConfig {
  Schedule schedule{};
  uint32_t patience_ms = 10000;
  bool sleepers_settle = false;  // a rank that sleeps outside of the VM counts as settled (programs
                                 // with their own MPI)
  bool multicast_allowed = false;
};

// What a rank or its libraries reported, for the verdict.
struct RankReport {
  std::vector<std::string> unsupported;  // "cudaFoo: why"
  std::string host_access;     // of device memory, with the allocation's name; then the rank dies
  std::string broken;          // it broke the wire's protocol
  std::string launch_error;    // the sentence behind the last launch that failed
  int launch_code = 0;         // its cudaError, 0: none failed
  KernelId launch_kernel = 0;  // what it was to launch
  uint32_t launch_site = 0;    // and where (Machine::host_site)
  std::string failed_call;     // the sentence behind the candidate's last call that failed at once
  uint32_t failed_site = 0;
};

class Server {
 public:
  Server(Machine& machine, const ServerConfig& config, int n_ranks);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  void attach(int rank, rank::UniqueFd socket, int pid = 0);
  // The rank waits for its control socket, or no more.
  void set_waiting_outside(int rank, bool waiting) {
    ranks_[static_cast<std::size_t>(rank)].outside = waiting;
  }
  // Makes the following order independent of what came before: called where all ranks start an
  // iteration together.
  void reseed(uint64_t salt);

  enum class Step : uint8_t {
    kProgress,  // something was served or ran: call again
    kInput,     // waited for the ranks (or `others`) for at most `wait_ms`
    kStuck,     // every live rank is blocked or waits outside, and no device work can help
    kGone,      // no rank is connected any more
  };
  // Does one thing. Where there is nothing to do, polls the sockets and `others` for at most
  // `wait_ms`.
  Step step(int wait_ms, std::span<pollfd> others = {});

  [[nodiscard]] bool settled() const;                // all live ranks
  [[nodiscard]] bool connected(int rank) const;      // its main connection is open
  [[nodiscard]] bool was_connected(int rank) const;  // it said hello
  [[nodiscard]] bool any_blocked() const;
  [[nodiscard]] const RankReport& report(int rank) const {
    return ranks_[static_cast<std::size_t>(rank)].report;
  }
  [[nodiscard]] bool deterministic() const { return deterministic_; }
  [[nodiscard]] uint64_t served() const { return served_; }
  void drop(int rank, std::string why);

 private:
  struct Channel {
    enum class State : uint8_t { kRunning, kQueued, kBlocked, kHelper, kClosed };
    rank::UniqueFd socket;
    wire::Inbox inbox;
    State state = State::kRunning;
    wire::Header header;        // of the request that is queued or blocked
    std::vector<uint8_t> body;  // its fields; while blocked: the reply's, as known so far
    bool wants_data = false;    // the reply's bytes come with the completion
  };
  struct Rank {
    std::vector<std::unique_ptr<Channel>> channels;  // [0] is the main one
    bool hello = false, outside = false, left_out = false;
    int pid = 0;
    uint64_t heard_ns = 0;
    std::unordered_set<KernelId> kernels;
    std::vector<HostCall> host_calls;           // due, no helper free yet
    std::unordered_set<uint64_t> host_running;  // handed to a helper
    RankReport report;
  };
  struct Answer {
    Outcome outcome;
    std::vector<uint8_t> body;
    bool wants_data = false;
    bool malformed = false;
    bool silent = false;  // helper: answered later
    int fd = -1;
  };
  struct ServeMemory;  // one member function a message (serve_memory.h, dispatch.cpp)
  struct Serve;

  void read(int rank, uint32_t thread);
  bool parse(int rank, uint32_t thread);
  void serve(int rank, uint32_t thread);
  void reply(int rank, uint32_t thread, int status, std::span<const uint8_t> body, int fd = -1);
  Answer dispatch(Host host, const wire::Header& header, std::span<const uint8_t> body);
  void deliver();
  bool run_device(uint64_t budget);  // true: something happened
  [[nodiscard]] bool settled(const Rank& rank) const;
  void look_for_sleepers();
  uint64_t draw();

  Machine& machine_;
  ServerConfig config_;
  std::vector<Rank> ranks_;
  std::map<Ticket, Host> tickets_;
  uint64_t random_ = 0;
  uint64_t served_ = 0;
  std::size_t turn_ = 0;  // round robin
  bool device_busy_ = false;
  bool deterministic_ = true;
};

}  // namespace sculler::emu
