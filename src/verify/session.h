// The trusted side of a job, the same for every target: order, deadlines, clocks, comparison
// (docs/internals.md, docs/measuring.md). What differs between targets is behind Ranks and Device.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "rank/channel.h"
#include "rank/protocol.h"
#include "verify/host_load.h"
#include "verify/job.h"

namespace sculler::verify {

// The control sockets. On emu, receive() also runs the virtual machine.
class Ranks {
 public:
  struct Event {
    enum class Kind : uint8_t {
      kMessage,
      kClosed,     // this rank's socket is closed
      kMalformed,  // this rank sent something that is no message
      kTimeout,    // the deadline passed
      kStopped,    // the machine under the ranks stopped: `outcome` says why (emu)
    };
    Kind kind = Kind::kTimeout;
    int rank = -1;
    rank::Message message{};
    rank::UniqueFd fd{};
    uint64_t received_ns = 0;  // Device::now_ns' clock, read as soon as the packet was there
    std::optional<Outcome> outcome{};
  };
  virtual ~Ranks() = default;
  virtual Status send(int rank, const rank::Message& message, int fd = -1) = 0;
  // Waits for the next event of any rank until `deadline_ns` of Device::now_ns' clock.
  virtual Event receive(uint64_t deadline_ns) = 0;
};

// The memory of all ranks as the checker sees it, expected outputs and the clock. Everything here
// is trusted. `content` numbers the inputs of a job: element values are those of
// include/sculler/fill.h with set = content.
class Device {
 public:
  virtual ~Device() = default;
  // Takes over a buffer that rank announced: address in the rank, length, descriptor where the
  // target has one. ErrorCode::kProtocol: the announcement is wrong (length, no descriptor, address
  // not an allocation).
  virtual Status adopt(int rank, int set, int buffer, uint64_t address, uint64_t bytes,
                       rank::UniqueFd fd) = 0;
  virtual Status fill(int rank, int set, int buffer, int content) = 0;
  // Every output and scratch buffer of the set gets the poison pattern (sculler_poison).
  virtual Status poison_outputs(int rank, int set) = 0;
  // Waits until every fill and poison has reached memory; called before Run is sent.
  virtual Status settle() { return {}; }
  // All elements of one output buffer against expected(content).
  virtual Result<Comparison> compare(int rank, int set, int buffer, int content) = 0;
  // One output of `set` against that of `other`, which ran on the same content: two runs on one
  // input agree within the tolerance.
  virtual Result<Comparison> repeat(int rank, int set, int other, int buffer, int content) {
    (void)other;
    return compare(rank, set, buffer, content);
  }
  // Number of input elements of this rank that are not what fill() wrote.
  virtual Result<uint64_t> changed_inputs(int rank, int set, int content) = 0;
  // Prepares expected outputs; called before Run, outside of any deadline and of the timed region.
  virtual Status prepare(int content) = 0;
  virtual uint64_t now_ns() = 0;  // CLOCK_MONOTONIC: the ranks run on the same host
  // False on emu: the ranks' times mean nothing there and are not judged.
  [[nodiscard]] virtual bool real_time() const { return true; }
  // Threads a processor that want to run on the ranks' host.
  [[nodiscard]] virtual double crowd() const { return runnable_per_cpu(); }
  // emu: virtual time of the region that just ended, 0 if unknown.
  virtual uint64_t virtual_latency_ns() { return 0; }
  // emu: who is to blame for an element that is wrong, or that nobody wrote (`unwritten`); for an
  // input that was changed, `element` is -1. Asked when the job has failed already.
  struct Blame {
    std::string where;    // "ring.cu:84"; empty where no line is known
    std::string message;  // goes behind the verdict's own
    std::string advice;   // instead of the verdict's own; empty: none
  };
  virtual std::optional<Blame> blame(int rank, int set, int buffer, int64_t element, bool unwritten,
                                     int content) {
    (void)rank, (void)set, (void)buffer, (void)element, (void)unwritten, (void)content;
    return std::nullopt;
  }
  // emu: Run is about to be sent / every Done arrived, nothing is compared yet; a finding ends the
  // job.
  virtual void region_opens(int iteration, int set) { (void)iteration, (void)set; }
  virtual std::optional<Outcome> region_closed(int iteration) {
    (void)iteration;
    return std::nullopt;
  }
};

// A job in steps, for the bench mode; run_session() does them all. After a failure every further
// step returns the same outcome.
class Session {
 public:
  Session(const JobSpec& job, Ranks& ranks, Device& device);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Hello ... Ready. False: see outcome().
  bool open();
  bool iterate(const IterationSpec& iteration);
  // One region that runs all sets that are timed, one after the other, as one graph of fresh
  // captures: latency and region are those of one run, by division (docs/measuring.md). Where the
  // candidate cannot be captured, an ordinary iteration.
  bool iterate_replayed();
  // A set and content drawn from the job's seed; never the set of the previous iteration.
  IterationSpec draw(bool warm_up);
  bool close();
  [[nodiscard]] const Outcome& outcome() const;
  Outcome& outcome();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

Outcome run_session(const JobSpec& job, Ranks& ranks, Device& device);

}  // namespace sculler::verify
