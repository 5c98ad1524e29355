// A job of the evaluator: the trusted session of verify/ with the emulator under the ranks.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "emu/check/checker.h"
#include "emu/server/options.h"
#include "emu/server/server.h"
#include "verify/host_device.h"
#include "verify/session.h"

namespace sculler::emu {

// Control messages between session and ranks; receive() runs the machine until there is one.
class VmRanks final : public verify::Ranks {
 public:
  VmRanks(const verify::JobSpec& job, Machine& machine, const Observer* observer, Server& server,
          std::vector<rank::UniqueFd> control);
  Status send(int rank, const rank::Message& message, int fd) override;
  Event receive(uint64_t deadline_ns) override;

 private:
  struct Rank {
    rank::UniqueFd socket;
    std::deque<Event> events;  // read and not yet handed out
    bool closed = false;
    int pools = 0;
  };
  void read(int rank);
  void update_waiting(int rank, const rank::Message& message);

  const verify::JobSpec& job_;
  Machine& machine_;
  const Observer* observer_;
  Server& server_;
  std::vector<Rank> ranks_;
};

// The checker's hands in the emulated memory.
class VmDevice final : public verify::HostDevice {
 public:
  // `footprint` is emptied where a region opens; it may be null.
  VmDevice(const verify::JobSpec& job, verify::Reference& reference, Machine& machine,
           Observer* observer, Server& server, Footprint* footprint = nullptr);
  [[nodiscard]] bool real_time() const override { return false; }
  void region_opens(int iteration, int set) override;
  std::optional<verify::Outcome> region_closed(int iteration) override;
  std::optional<Blame> blame(int rank, int set, int buffer, int64_t element, bool unwritten,
                             int content) override;

 protected:
  Result<void*> map(int rank, int set, int buffer, uint64_t address, uint64_t bytes,
                    rank::UniqueFd fd) override;
  void written(int rank, void* data, uint64_t bytes, bool poison) override;

 private:
  std::optional<Blame> blame_input(int rank, int set);
  Blame blame_unwritten(int rank, int set, int buffer, int64_t element);
  // Who wrote that element last, other than the harness.
  bool writer_of(int rank, int set, int buffer, uint64_t element, Finding::Side* writer) const;
  std::string position(int rank, int buffer, int64_t element) const;

  Machine& machine_;
  Observer* observer_;
  const WriteHistory* history_;  // null: not followed
  Server& server_;
  Footprint* footprint_;
  int set_ = 0;  // of the open region
};

// The whole job: reads the file, the inherited sockets, prints the result line. Exit code: 0 where
// a line was written.
int run_job(const std::string& path);

}  // namespace sculler::emu
