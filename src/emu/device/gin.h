// The network of GIN: what NCCL 2.28.9's proxy and the fabric behind it do for the device code in
// nccl_device/gin/proxy. That code puts descriptors of 64 bytes into a queue a context and peer,
// which lies in its rank's memory; here they are taken out, carried out piece by piece, and told of
// in the words that the device code waits for.
//
// A put goes in steps that the schedule draws: its source is read, that is told on its own side
// (consumer index, counter), its payload is written, its signal is added. Payloads arrive in any
// order, and a local completion may come long before the arrival. What is promised is kept: a
// signal comes after the payloads of its own put and of those before it in its queue; local
// completions of one queue come in order.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "emu/device/random.h"
#include "emu/device/types.h"

namespace sculler::emu {

class Gin {
 public:
  // `window`: rank's window of that number, null where it has none.
  using FindWindow = std::function<const WindowInfo*(int rank, uint64_t id)>;
  using OnFault = std::function<void(MachineFault)>;
  Gin(Engine& engine, FindWindow window, OnFault fault);
  ~Gin();
  Gin(const Gin&) = delete;
  Gin& operator=(const Gin&) = delete;

  // A device communicator of `world` (ranks of the job), whose members know it by their `windows`.
  Status create(const std::vector<int>& world, const std::vector<Address>& windows,
                const GinNeeds& needs);
  // Ends what is under way and gives the rank's memory back.
  void destroy(int rank, Address window);
  void drop_rank(int rank);  // its process is gone, or its context is broken
  [[nodiscard]] const GinInfo* info(int rank, Address window) const;

  // Something is posted or under way.
  [[nodiscard]] bool active() const { return !active_.empty(); }
  // One step of one put; `all`: of those too that the schedule holds back until nothing else goes.
  // False where there is none.
  bool step(bool all);
  [[nodiscard]] uint64_t puts() const { return puts_; }

 private:
  struct Put;
  struct Queue;
  struct Endpoint;
  struct Domain;
  enum class Piece : uint8_t { kTake, kRead, kConsumed, kWrite, kSignal };
  struct Choice {
    Queue* queue;
    size_t put;
    Piece piece;
  };
  struct Watch {
    Endpoint* endpoint;
    uint32_t context;
    bool queue;  // else signals
  };

  std::string watched(const WatchedAccess& access);
  Status allocate(Endpoint& endpoint, const GinNeeds& needs);
  void collect(bool all, std::vector<Choice>& out);
  void take(Queue& queue);
  bool parse(const Queue& queue, const uint64_t* words, Put& put, std::string* wrong);
  void carry_out(const Choice& choice);
  void signal(const Queue& queue, const Put& put);
  void settle(Queue& queue);
  void drop(Queue& queue);
  void blame(const Queue& queue, CodeRef code, std::string why);

  Engine& engine_;
  Observer* observer_;
  FindWindow window_;
  OnFault fault_;
  Random random_;
  std::vector<std::shared_ptr<Domain>> domains_;
  std::map<Address, Watch> watches_;  // by the begin of an allocation
  std::vector<Queue*> active_;
  std::vector<Choice> choices_;
  uint32_t next_queue_ = 1;
  uint64_t puts_ = 0;
};

}  // namespace sculler::emu
