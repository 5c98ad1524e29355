// The programs of the islands: MAP-Elites on the directive's cells, parents by weight, failures
// that may be repaired. Plain data and arithmetic: the same calls give the same state.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "search/candidate.h"
#include "search/correction.h"
#include "search/evolve/novelty.h"

namespace sculler::search {

struct Member {
  int64_t program = 0;
  Candidate candidate;
  int island = 0;
  double score = 0;      // measured, or predicted and corrected; 0: it did not pass
  double predicted = 0;  // by the run's own verdict
  std::string status;
  std::shared_ptr<const std::string> verdict;     // the evaluator's line
  std::string line;                               // of it, for people and models
  std::shared_ptr<const std::string> measured{};  // a line from GPUs, where times are predicted
  int64_t children = 0;
  int64_t repairs = 0;     // of a failed program: proposals that tried
  bool confirmed = false;  // passed again on fresh seeds
  std::shared_ptr<const Signature> signature{};

  [[nodiscard]] int cell() const;
};

class Population {
 public:
  // `archive` programs over all islands, at least one an island.
  Population(int islands, int64_t archive, double lambda);

  [[nodiscard]] int islands() const { return static_cast<int>(islands_.size()); }
  // A program that passed (score > 0) joins its island where it is good enough: the best of its
  // cell always, the others by score while there is room. A failed one joins the failures.
  void add(Member member);
  // Takes a program out of every island: it did not pass a second time.
  void remove(int64_t program);
  void confirm(int64_t program, double predicted);
  // It passed on GPUs with this score; all scores are judged anew by it. `line` goes behind its
  // own.
  void measure(int64_t program, double score, std::shared_ptr<const std::string> verdict,
               const std::string& line);

  // p ∝ sigmoid(λ (score − median) / MAD) / (1 + children) (CUCo's published rule). Null where the
  // island is empty. The pointer holds until the next change.
  [[nodiscard]] const Member* parent(int island, Random& random) const;
  // Another one than `program`: of another cell of the island where there is one, else of any
  // island.
  [[nodiscard]] const Member* partner(int island, int64_t program, Random& random) const;
  // The failed program of the island that is repaired next: the latest with fewer than `most`
  // repairs. Failures of the evaluator and of the target are no program's fault.
  [[nodiscard]] const Member* broken(int island, int64_t most) const;
  void count_child(int64_t program);
  void count_repair(int64_t program);

  // The best of each cell over all islands, best first, without `without`; at most `most`.
  [[nodiscard]] std::vector<const Member*> elites(std::size_t most, int64_t without) const;
  // The island's best, best first.
  [[nodiscard]] std::vector<const Member*> best(int island, std::size_t most) const;
  // What the island tried last, newest first, passed or not.
  [[nodiscard]] std::vector<const Member*> recent(int island, std::size_t most) const;
  [[nodiscard]] std::size_t size(int island) const;
  [[nodiscard]] std::size_t cells() const;  // that hold a program, over all islands
  [[nodiscard]] const Member* find(int64_t program) const;
  [[nodiscard]] double best_score() const;

  // Is it too like a program of an archive? `limit` above 1: never; equal tokens are always too
  // like.
  [[nodiscard]] const Member* like(const Signature& signature, double limit) const;

 private:
  struct Island {
    std::vector<Member> archive;  // in order of joining
    std::deque<Member> failures;  // newest last
    std::deque<Member> history;   // newest last, both kinds
  };
  void trim(Island& island) const;
  template <class F>
  void each_of(int64_t program, F&& f);

  std::vector<Island> islands_;
  Correction correction_;
  std::size_t room_;  // of an island
  double lambda_;
};

// The weights that parent() draws by, for tests: in order of `scores`.
[[nodiscard]] std::vector<double> parent_weights(const std::vector<double>& scores,
                                                 const std::vector<int64_t>& children,
                                                 double lambda);

}  // namespace sculler::search
