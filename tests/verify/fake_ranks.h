// Ranks and a device that follow a script: no process, no memory, no waiting.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "verify/session.h"

namespace sculler::verify::test {

using rank::Kind;
using rank::Message;

class FakeDevice final : public Device {
 public:
  uint64_t clock = 1'000'000'000;
  bool real = true;
  std::function<Comparison(int rank, int set, int buffer, int content)> on_compare;
  std::function<uint64_t(int rank)> on_changed;
  std::function<std::optional<Outcome>(int iteration)> on_closed;
  std::map<std::pair<int, int>, int> filled;  // (rank, set) -> content
  std::map<std::pair<int, int>, int> poisoned;
  int compared = 0, adopted = 0;

  Status adopt(int, int, int, uint64_t address, uint64_t, rank::UniqueFd) override {
    ++adopted;
    if (address == 0) return fail(ErrorCode::kProtocol, "a buffer at address 0");
    return {};
  }
  Status fill(int r, int set, int, int content) override {
    filled[{r, set}] = content;
    return {};
  }
  Status poison_outputs(int r, int set) override {
    ++poisoned[{r, set}];
    return {};
  }
  Result<Comparison> compare(int r, int set, int buffer, int content) override {
    ++compared;
    return on_compare ? on_compare(r, set, buffer, content) : Comparison{};
  }
  std::function<Comparison(int rank, int set, int other)> on_repeat;
  int repeated = 0;
  Result<Comparison> repeat(int r, int set, int other, int, int) override {
    ++repeated;
    return on_repeat ? on_repeat(r, set, other) : Comparison{};
  }
  Result<uint64_t> changed_inputs(int r, int, int) override {
    return on_changed ? on_changed(r) : 0;
  }
  Status prepare(int) override { return {}; }
  uint64_t now_ns() override { return clock; }
  bool real_time() const override { return real; }
  double crowd() const override { return 1.0; }
  uint64_t virtual_latency_ns() override { return 4242; }
  std::function<std::optional<Blame>(int rank, int buffer, int64_t element, bool unwritten)>
      on_blame;
  std::optional<Blame> blame(int rank, int, int buffer, int64_t element, bool unwritten,
                             int) override {
    return on_blame ? on_blame(rank, buffer, element, unwritten) : std::nullopt;
  }
  std::optional<Outcome> region_closed(int iteration) override {
    return on_closed ? on_closed(iteration) : std::nullopt;
  }
};

// Honest ranks whose messages can be changed, dropped or multiplied by `edit`.
class FakeRanks final : public Ranks {
 public:
  FakeRanks(const JobSpec& job, FakeDevice& device) : job_(job), device_(device) {
    for (int r = 0; r < job.n_ranks; ++r)
      say(r, Kind::kHello, static_cast<int32_t>(rank::kProtocolVersion));
  }
  // Gets each message of an honest rank; what it returns is sent instead.
  std::function<std::vector<Message>(int rank, Message)> edit;
  bool can_capture = true;
  uint64_t run_ns = 500'000, message_ns = 20'000;
  std::vector<Message> sent;  // by the session

  void say(int r, Message m) {
    std::vector<Message> out = edit ? edit(r, m) : std::vector<Message>{m};
    for (Message& o : out) queue_.push_back({Event::Kind::kMessage, r, o});
  }
  void say(int r, Kind kind, int a = 0, int b = 0) {
    Message m;
    m.kind = kind;
    m.a = a;
    m.b = b;
    say(r, m);
  }
  void close(int r) { queue_.push_back({Event::Kind::kClosed, r, {}}); }
  void push(Event::Kind kind, int r) { queue_.push_back({kind, r, {}}); }

  Status send(int r, const Message& m, int) override {
    sent.push_back(m);
    switch (m.kind) {
      case Kind::kWelcome:
        if (!job_.workload) pools(r);
        else if (r == 0) {
          Message id;
          id.kind = Kind::kUniqueId;
          id.text_bytes = 128;
          say(0, id);
        }
        break;
      case Kind::kSetUniqueId: pools(r); break;
      case Kind::kSetup: say(r, Kind::kReady); break;
      case Kind::kRun:
        runs_.push_back({r, m});
        if (runs_.size() == static_cast<std::size_t>(job_.n_ranks)) run();
        break;
      case Kind::kCapture: say(r, Kind::kCaptured, m.a, can_capture ? 0 : 1); break;
      case Kind::kTeardown: say(r, Kind::kBye); break;
      default: break;
    }
    return {};
  }

  Event receive(uint64_t deadline_ns) override {
    if (queue_.empty()) {
      device_.clock = deadline_ns;
      return {};
    }
    Entry entry = std::move(queue_.front());
    queue_.pop_front();
    Event event;
    event.kind = entry.kind;
    event.rank = entry.rank;
    event.message = entry.message;
    if (entry.at > device_.clock) device_.clock = entry.at;
    event.received_ns = device_.clock;
    return event;
  }

 private:
  struct Entry {
    Event::Kind kind;
    int rank;
    Message message;
    uint64_t at = 0;
  };
  void pools(int r) {
    for (int set = 0; set < job_.n_sets; ++set) {
      for (int b = 0; b < static_cast<int>(job_.buffers.size()); ++b) {
        Message m;
        m.kind = Kind::kPool;
        m.a = set;
        m.b = b;
        m.u[0] = 0x1000;
        m.u[1] = job_.buffers[static_cast<std::size_t>(b)].bytes;
        say(r, m);
      }
    }
  }
  void run() {
    const uint64_t sent_at = device_.clock;
    const bool empty = (runs_[0].second.u[0] & rank::kCalibrate) != 0;
    const uint64_t open = sent_at + message_ns, start = open + 1000,
                   end = start + (empty ? 2000 : run_ns);
    for (const auto& [r, m] : runs_)
      timed(r, Kind::kOpened, m.a, {open, 0, 0, 0}, open + message_ns);
    for (const auto& [r, m] : runs_) timed(r, Kind::kEnqueued, m.a, {}, open + message_ns);
    for (const auto& [r, m] : runs_)
      timed(r, Kind::kDone, m.a, {start, end, end - start, 0}, end + message_ns);
    runs_.clear();
  }
  void timed(int r, Kind kind, int a, std::array<uint64_t, 4> u, uint64_t at) {
    const std::size_t before = queue_.size();
    Message m;
    m.kind = kind;
    m.a = a;
    std::copy(u.begin(), u.end(), m.u);
    say(r, m);
    for (std::size_t i = before; i < queue_.size(); ++i) queue_[i].at = at;
  }

  const JobSpec& job_;
  FakeDevice& device_;
  std::deque<Entry> queue_;
  std::vector<std::pair<int, Message>> runs_;
};

inline JobSpec small_job(int n_ranks = 2) {
  JobSpec job;
  job.job = "test";
  job.task = "t";
  job.n_ranks = n_ranks;
  job.workload = n_ranks > 1;
  job.n_sets = 4;
  job.n_contents = 4;
  job.seed = 7;
  job.tolerance = {1e-3, 0.1};
  BufferSpec in;
  in.name = "X";
  in.elements = in.row_elements = 64;
  in.bytes = 256;
  BufferSpec out = in;
  out.name = "Y";
  out.role = Role::kOutput;
  out.row_elements = 16;
  job.buffers = {in, out};
  job.iterations = {{0, -1, true}, {1}, {2}, {3}, {1}};
  return job;
}

}  // namespace sculler::verify::test
