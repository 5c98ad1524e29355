// Known schedule: the sampler is deterministic and runs ahead, so the next use of an id within a
// window is known. Of what lies in the buffer and what was fetched anyway, the rows with the
// nearest next use stay (Belady's rule with bypass); ids that are not in the window are ranked by
// their counts, as free admission does. With the whole trace known this is Belady's optimum.
#include <algorithm>
#include <bit>

#include "steer/policies/policies.h"

namespace sculler::steer {
namespace {

class Known final : public Policy {
 public:
  Known(uint64_t capacity, uint64_t lookahead, const Knobs& knobs)
      : lookahead_(lookahead), most_(knobs.rows), key_(capacity, kOut) {}

  [[nodiscard]] Touch touch() const override { return Touch::kAll; }
  [[nodiscard]] uint64_t lookahead() const override { return lookahead_; }

  void schedule(Rows& rows, std::span<const uint64_t> ids) override {
    scheduled_ = std::max(scheduled_, now_) + 1;
    for (const uint64_t id : ids) {
      if (uses_.full()) uses_ = uses_.rebuilt(2 * uses_.most(), [](const Entry&) { return true; });
      Entry& e = uses_.probe(uses_.line_of(id), id);
      const uint32_t use = new_use(scheduled_);
      if (e.id == kNoId) {
        uses_.take(e, id);
        e.slot = use;
        const Entry* row = rows.find(id);
        if (row != nullptr && row->slot != kNone) set_key(row->slot, scheduled_);
      } else {
        use_[std::bit_cast<uint32_t>(e.mark)].next = use;
      }
      e.mark = std::bit_cast<float>(use);
    }
  }
  void minibatch(Rows& rows, Plan& plan) override {
    ++now_;
    wanted_.clear();
    uint32_t miss = 0;
    for (uint64_t i = 0; i < plan.ids(); ++i) {
      const uint32_t slot = plan.slot()[i];
      const uint64_t next = next_use(plan.id(i));
      if (slot != kNone) set_key(slot, next != kUnknown ? next : key_of(rows.mark(slot)));
      else {
        wanted_.push_back({next != kUnknown ? next : key_of(plan.mark(miss)), miss});
        ++miss;
      }
    }
    if (rows.limit() > 0) admit(rows, plan);
  }
  void placed(Rows& rows, uint32_t slot) override {
    const Entry* e = uses_.find(rows.id(slot));
    set_key(slot, e != nullptr ? use_[e->slot].step : key_of(rows.mark(slot)));
  }
  void forgotten(uint32_t slot) override { key_[slot] = kOut; }
  uint32_t victim(Rows& /*rows*/) override { return last()->slot; }
  void adjust(const Knobs& knobs) override { most_ = knobs.rows; }
  [[nodiscard]] uint64_t bytes() const override {
    return key_.bytes() + uses_.bytes() + use_.capacity() * sizeof(Use) +
           heap_.capacity() * sizeof(Keyed) + wanted_.capacity() * sizeof(Wanted);
  }

 private:
  static constexpr uint64_t kUnknown = uint64_t{1} << 63;  // keys from here: by count
  static constexpr uint64_t kOut = UINT64_MAX;
  struct Use {  // of one id: its uses form a list
    uint64_t step;
    uint32_t next;
  };
  struct Keyed {
    uint64_t key;
    uint32_t slot;
    bool operator<(const Keyed& o) const { return key != o.key ? key < o.key : slot < o.slot; }
  };
  struct Wanted {
    uint64_t key;
    uint32_t miss;
  };

  // A use in the window comes before none; without one the higher count comes before the lower.
  static uint64_t key_of(float mark) {
    return kUnknown + (UINT32_MAX - std::bit_cast<uint32_t>(mark));
  }

  uint32_t new_use(uint64_t step) {
    uint32_t use;
    if (free_use_ != kNone) {
      use = free_use_;
      free_use_ = use_[use].next;
    } else {
      use = static_cast<uint32_t>(use_.size());
      use_.emplace_back();
    }
    use_[use] = {step, kNone};
    return use;
  }
  // Forgets the uses of `id` up to now; the step of the next one, or kUnknown.
  uint64_t next_use(uint64_t id) {
    Entry* e = uses_.find(id);
    if (e == nullptr) return kUnknown;
    uint32_t use = e->slot;
    while (use != kNone && use_[use].step <= now_) {
      const uint32_t next = use_[use].next;
      use_[use].next = free_use_;
      free_use_ = use;
      use = next;
    }
    if (use == kNone) {
      uses_.erase(*e);
      return kUnknown;
    }
    e->slot = use;
    return use_[use].step;
  }

  void set_key(uint32_t slot, uint64_t key) {
    if (key_[slot] == key) return;
    key_[slot] = key;
    if (heap_.size() > 2 * key_.size() + 64) {
      std::erase_if(heap_, [&](const Keyed& k) { return key_[k.slot] != k.key; });
      std::make_heap(heap_.begin(), heap_.end());
    }
    heap_.push_back({key, slot});
    std::push_heap(heap_.begin(), heap_.end());
  }
  // The row whose next use is the farthest; null where the buffer is empty.
  const Keyed* last() {
    while (!heap_.empty() && key_[heap_.front().slot] != heap_.front().key) {
      std::pop_heap(heap_.begin(), heap_.end());
      heap_.pop_back();
    }
    return heap_.empty() ? nullptr : &heap_.front();
  }

  void admit(Rows& rows, Plan& plan) {
    std::sort(wanted_.begin(), wanted_.end(), [](const Wanted& a, const Wanted& b) {
      return a.key != b.key ? a.key < b.key : a.miss < b.miss;
    });
    uint64_t left = most_;
    for (const Wanted& w : wanted_) {
      if (left == 0) break;
      if (rows.holds(plan.missed_id(w.miss))) continue;  // twice in the minibatch
      uint32_t slot;
      if (rows.has_room()) {
        slot = rows.free_slot();
      } else {
        const Keyed* worst = last();
        if (worst->key <= w.key) break;
        slot = worst->slot;
      }
      rows.put(plan, w.miss, slot);
      set_key(slot, w.key);
      --left;
    }
  }

  uint64_t lookahead_, most_, now_ = 0, scheduled_ = 0;
  Block<uint64_t> key_;
  std::vector<Keyed> heap_;  // entries whose key is not the slot's are outdated
  Table uses_;               // id → its first use (slot) and its last (mark, as bits)
  std::vector<Use> use_;
  uint32_t free_use_ = kNone;
  std::vector<Wanted> wanted_;
};

}  // namespace
std::unique_ptr<Policy> make_known(uint64_t capacity, uint64_t lookahead, const Knobs& knobs) {
  return std::make_unique<Known>(capacity, lookahead, knobs);
}
}  // namespace sculler::steer
