#include "llm/choose.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace sculler::llm {
namespace {

Arm& at(std::map<std::string, Arm, std::less<>>& arms, std::string_view name) {
  const auto found = arms.find(name);
  return found != arms.end() ? found->second : arms[std::string(name)];
}

double usd_a_question(const Arm& arm) {
  return arm.asked > 0 ? arm.usd / static_cast<double>(arm.asked) : 0;
}

}  // namespace

void Chooser::restore(std::string_view name, const Arm& arm) {
  const std::lock_guard lock(mutex_);
  at(arms_, name) = arm;
}

std::size_t Chooser::choose(const std::vector<Option>& options, std::string_view question) {
  const std::lock_guard lock(mutex_);
  std::size_t chosen = 0;
  if (!ucb_) {
    double total = 0;
    for (const auto& option : options) total += option.weight;
    double draw = Random(static_cast<uint64_t>(seed_), question).unit() * total;
    for (std::size_t i = 0; i < options.size(); ++i) {
      if (options[i].weight <= 0) continue;
      chosen = i;
      draw -= options[i].weight;
      if (draw < 0) break;
    }
  } else {
    int64_t all = 0;
    double dearest = 0;
    for (const auto& option : options) {
      all += at(arms_, option.name).asked;
      dearest = std::max(dearest, usd_a_question(at(arms_, option.name)));
    }
    double best = -1e300;
    for (std::size_t i = 0; i < options.size(); ++i) {
      const Arm& arm = at(arms_, options[i].name);
      const double mean = (arm.worth + 0.5) / static_cast<double>(arm.rewards + 1);
      const double wide = 0.5 * std::sqrt(std::log1p(static_cast<double>(all)) /
                                          static_cast<double>(1 + arm.asked));
      const double cost = dearest > 0 ? usd_a_question(arm) / dearest : 0;
      const double value = mean + wide - 0.2 * cost;
      if (value > best + 1e-12 ||
          (value > best - 1e-12 && options[i].weight > options[chosen].weight)) {
        best = std::max(best, value);
        chosen = i;
      }
    }
  }
  ++at(arms_, options[chosen].name).asked;
  return chosen;
}

void Chooser::reward(std::string_view name, double worth) {
  const std::lock_guard lock(mutex_);
  Arm& arm = at(arms_, name);
  ++arm.rewards;
  arm.worth += std::isfinite(worth) ? std::clamp(worth, 0.0, 1.0) : 0;
}

void Chooser::paid(std::string_view name, double usd) {
  const std::lock_guard lock(mutex_);
  at(arms_, name).usd += usd;
}

Arm Chooser::arm(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto found = arms_.find(name);
  return found == arms_.end() ? Arm{} : found->second;
}

}  // namespace sculler::llm
