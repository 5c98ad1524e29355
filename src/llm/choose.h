// Which model is asked: by weights, or by what it was worth and what it costs. All state is by the
// models' names, so a changed list of models keeps what is known of those that stayed.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace sculler::llm {

struct Arm {
  int64_t asked = 0;    // questions begun
  int64_t rewards = 0;  // proposals judged
  double worth = 0;     // sum of the rewards, each in [0, 1]
  double usd = 0;
};

class Chooser {
 public:
  struct Option {
    std::string_view name;
    double weight = 1;
  };
  Chooser(bool ucb, int64_t seed) : ucb_(ucb), seed_(seed) {}
  void restore(std::string_view name, const Arm& arm);

  // Index into `options` (not empty). Weights: a function of (seed, question) alone. UCB: the
  // largest of mean + 0.5·sqrt(ln(1+N)/(1+n)) - 0.2·cost, where n counts the model's questions, N
  // all, `cost` is its USD a question in parts of the dearest option's, and the mean is that of
  // the worths with one of 0.5 before them; ties go to the larger weight, then to the order.
  [[nodiscard]] std::size_t choose(const std::vector<Option>& options, std::string_view question);
  void reward(std::string_view name, double worth);
  void paid(std::string_view name, double usd);
  [[nodiscard]] Arm arm(std::string_view name) const;

 private:
  const bool ucb_;
  const int64_t seed_;
  mutable std::mutex mutex_;
  std::map<std::string, Arm, std::less<>> arms_;
};

}  // namespace sculler::llm
