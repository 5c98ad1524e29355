#include "steer/maker.h"

#include <algorithm>

#include "base/random.h"
#include "base/strings.h"

namespace sculler::steer {

namespace {

using Made = Result<std::optional<Decision>>;

class None final : public DecisionMaker {
 public:
  Made decide(const Situation& /*now*/, const std::string& /*text*/) override {
    return std::optional<Decision>();
  }
};

class Fixed final : public DecisionMaker {
 public:
  explicit Fixed(uint64_t interval) : interval_(interval) {}
  Made decide(const Situation& now, const std::string& /*text*/) override {
    if (now.minibatch < last_ + interval_) return std::optional<Decision>();
    last_ = now.minibatch;
    Decision d;
    d.replace = true;
    return std::optional<Decision>(std::move(d));
  }

 private:
  uint64_t interval_, last_ = 0;
};

// Two thresholds on the window's hit rate against the best one since the last change: a fall of
// five points means that the accesses have changed, so counts decay until it is stable again.
// Replacement goes on at twice the distance after one that did not pay, at half after one that did.
class Heuristic final : public DecisionMaker {
 public:
  Made decide(const Situation& now, const std::string& /*text*/) override {
    const double rate = now.window.hit_rate(), cost = now.window.communication();
    Decision d;
    bool change = false;
    // The score rule's decay is another thing: it says when a row is stale, and 1 says never.
    const bool counts = !now.policy.starts_with("rudder") && !now.policy.starts_with("massivegnn");
    best_ = std::max(best_, rate);
    if (counts && !forgetting_ && rate < best_ - 0.05) {
      forgetting_ = change = true;
      since_ = now.minibatch;
      d.decay = 0.98;
    } else if (counts && forgetting_ && now.minibatch - since_ >= 4 * now.window.minibatches) {
      forgetting_ = false;
      change = true;
      best_ = rate;
      d.decay = 1.0;
    }
    if (now.policy.starts_with("rudder") && now.minibatch >= next_) {
      if (replaced_) {
        distance_ = cost < cost_before_ ? std::max<uint64_t>(distance_ / 2, 4)
                                        : std::min<uint64_t>(distance_ * 2, 512);
      }
      cost_before_ = cost;
      replaced_ = change = d.replace = true;
      next_ = now.minibatch + distance_;
    }
    if (!change) return std::optional<Decision>();
    return std::optional<Decision>(std::move(d));
  }

 private:
  double best_ = 0, cost_before_ = 0;
  bool forgetting_ = false, replaced_ = false;
  uint64_t since_ = 0, next_ = 16, distance_ = 16;
};

class ByChance final : public DecisionMaker {
 public:
  explicit ByChance(uint64_t seed) : random_(seed) {}
  Made decide(const Situation& /*now*/, const std::string& /*text*/) override {
    constexpr Direction kAny[] = {Direction::kIncrease, Direction::kDecrease, Direction::kStagnant};
    Decision d;
    d.replace = random_.below(2) == 1;
    if (random_.below(4) == 0) d.rows = 1 + random_.below(10'000);
    if (random_.below(4) == 0) d.decay = 0.9 + 0.1 * random_.unit();
    if (random_.below(4) == 0) d.buffer = 0.5 + 0.5 * random_.unit();
    d.hit_rate = kAny[random_.below(3)];
    d.communication = kAny[random_.below(3)];
    return std::optional<Decision>(std::move(d));
  }

 private:
  Random random_;
};

class Asking final : public DecisionMaker {
 public:
  explicit Asking(AskText ask) : ask_(std::move(ask)) {}
  [[nodiscard]] bool wants_text() const override { return true; }
  Made decide(const Situation& /*now*/, const std::string& text) override {
    auto answer = ask_(text);
    if (!answer) return fail(answer.error());
    auto decision = parse_answer(*answer);
    if (!decision) return fail(decision.error());
    return std::optional<Decision>(std::move(*decision));
  }

 private:
  AskText ask_;
};

}  // namespace

Result<std::unique_ptr<DecisionMaker>> make_maker(std::string_view specification) {
  const auto colon = specification.find(':');
  const auto name = specification.substr(0, colon);
  const bool given = colon != std::string_view::npos;
  const int64_t number = given ? parse_int(specification.substr(colon + 1)).value_or(-1) : -1;
  if (name == "none" && !given) return std::make_unique<None>();
  if (name == "heuristic" && !given) return std::make_unique<Heuristic>();
  if (name == "fixed" && number >= 1) return std::make_unique<Fixed>(static_cast<uint64_t>(number));
  if (name == "random" && number >= 0)
    return std::make_unique<ByChance>(static_cast<uint64_t>(number));
  return fail({ErrorCode::kUsage,
               "is none of none, fixed:N, heuristic, random:SEED",
               {},
               "maker " + std::string(specification),
               {}});
}

std::unique_ptr<DecisionMaker> make_asking(AskText ask) {
  return std::make_unique<Asking>(std::move(ask));
}

}  // namespace sculler::steer
