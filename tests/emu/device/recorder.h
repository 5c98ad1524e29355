// An Observer that keeps what it was told and answers whether two accesses are ordered, by plain
// vector clocks.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "emu/check/observer.h"

namespace sculler::emu::test {

class Recorder : public Observer {
 public:
  struct Touch {
    ActorId actor;
    Access access;
    Address begin;
    uint64_t bytes;
    std::map<ActorId, uint64_t> clock;
  };

  ActorId add_host(int) override { return next(); }
  ActorId add_stream(int) override { return next(); }
  GridId begin_grid(const GridInfo& info) override {
    const GridId grid = ++grids_;
    grid_stream_[grid] = info.stream;
    return grid;
  }
  ActorId begin_block(GridId, uint32_t, Address, uint64_t) override {
    const ActorId first = next_;
    next_ += 64;
    return first;
  }
  void end_block(GridId, uint32_t) override {}
  void end_grid(GridId) override {}
  void access(const WarpAccess& a) override {
    touches.push_back(Touch{a.actor, a.access, a.address[0], a.bytes, tick(a.actor)});
    // By address: a release is joined by every later acquire.
    if (a.order == Order::kRelease || a.order == Order::kAcqRel)
      join(released_[a.address[0]], clocks_[a.actor]);
    if (a.order == Order::kAcquire || a.order == Order::kAcqRel)
      join(clocks_[a.actor], released_[a.address[0]]);
  }
  void range(const RangeAccess& a) override {
    touches.push_back(Touch{a.actor, a.access, a.begin, a.bytes, tick(a.actor)});
  }
  void fence(ActorId, Order, Scope) override {}
  void barrier(const ActorId*, uint32_t, const ActorId*, uint32_t) override {}
  void edge(ActorId from, ActorId to) override {
    tick(from);
    join(clocks_[to], clocks_[from]);
  }
  void allocated(int, Address, uint64_t, bool) override {}
  void freed(Address, uint64_t) override {}
  void finding(Finding finding) override { found.push_back(std::move(finding)); }
  const std::vector<Finding>& findings() const override { return found; }
  uint64_t sync_hash() const override { return 0; }

  // Pairs of conflicting overlapping accesses with no order between them.
  [[nodiscard]] size_t races() const {
    size_t n = 0;
    for (size_t i = 0; i < touches.size(); ++i) {
      for (size_t j = i + 1; j < touches.size(); ++j) {
        const Touch& a = touches[i];
        const Touch& b = touches[j];
        if (a.access == Access::kLoad && b.access == Access::kLoad) continue;
        if (a.begin + a.bytes <= b.begin || b.begin + b.bytes <= a.begin) continue;
        const auto seen = b.clock.find(a.actor);
        if (seen == b.clock.end() || seen->second < a.clock.at(a.actor)) ++n;
      }
    }
    return n;
  }

  std::vector<Touch> touches;
  std::vector<Finding> found;

 private:
  using Clock = std::map<ActorId, uint64_t>;
  ActorId next() { return next_++; }
  Clock tick(ActorId actor) {
    ++clocks_[actor][actor];
    return clocks_[actor];
  }
  static void join(Clock& into, const Clock& from) {
    for (const auto& [actor, time] : from) {
      uint64_t& mine = into[actor];
      mine = std::max(mine, time);
    }
  }
  ActorId next_ = 1;
  GridId grids_ = 0;
  std::map<ActorId, Clock> clocks_;
  std::map<Address, Clock> released_;
  std::map<GridId, ActorId> grid_stream_;
};

}  // namespace sculler::emu::test
