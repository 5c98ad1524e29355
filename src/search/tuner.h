// No model: seeds by directive first, then their tunables by successive halving. In each round
// every source that is left gets the same number of points (neighbours of its best along one axis,
// then random ones); the better half goes on.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "search/strategy.h"

namespace sculler::search {

struct TunerSettings {
  uint64_t seed = 1;
  int64_t budget = 40;       // candidates in all, seeds included; 0: until the spaces are used up
  int64_t round_points = 8;  // points of a source in one round at most
};

class Tuner final : public Strategy {
 public:
  // Sources of the same directive cell are interleaved: each cell's first source comes before any
  // cell's second.
  Tuner(std::vector<std::shared_ptr<const Source>> seeds, TunerSettings settings);
  [[nodiscard]] std::vector<Candidate> propose(std::size_t limit) override;
  void told(const Outcome& outcome) override;
  [[nodiscard]] bool exhausted() const override;

 private:
  using Choice = std::vector<std::size_t>;
  struct Arm {
    std::shared_ptr<const Source> source;
    Choice best;
    double score = 0;
    int64_t best_program = 0;
    int failures = 0;      // since the last pass
    bool alive = true;     // takes part in the rounds
    bool used_up = false;  // every point of its space was proposed
    std::set<Choice> seen;
    std::unique_ptr<Random> random;
  };
  struct Pending {
    std::size_t arm;
    Choice choice;
    bool told = false, passed = false;
    double score = 0;
    int64_t program = 0;
    std::string status;
  };

  void start_round();
  void end_round();
  void fill(std::size_t arm, int64_t points);
  void queue(std::size_t arm, Choice choice);
  [[nodiscard]] bool random_choice(Arm& arm, Choice& out);
  [[nodiscard]] static std::string key(const Candidate& candidate);

  TunerSettings settings_;
  std::vector<Arm> arms_;
  std::vector<Pending> round_;  // of the current round, in order of proposal
  std::size_t next_ = 0;        // first of the round that was not proposed
  std::size_t told_ = 0;
  int64_t proposed_ = 0;
  bool seeded_ = false, done_ = false;
  std::map<std::string, std::size_t> index_;  // of the round, by key
};

}  // namespace sculler::search
