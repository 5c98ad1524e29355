// Strategy `evolve` (CUCo's slow path, arXiv 2603.02376): islands, an archive on the directive's
// cells, proposals written by language models while others are being evaluated. Every choice is a
// function of the run's seed, the proposal's index and what came before it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "search/asking.h"
#include "search/evolve/journal.h"
#include "search/evolve/population.h"
#include "search/evolve/proposer.h"
#include "search/pool.h"
#include "search/strategy.h"

namespace sculler::search {

class Evolve final : public Strategy {
 public:
  Evolve(std::vector<std::shared_ptr<const Source>> seeds, EvolveSettings settings, AskingRun run,
         llm::Provider& provider, Brief brief, store::Store& store);
  ~Evolve() override;

  // Reads what the store knows of this run; before anything else. kBadInput where a prompt is
  // wrong.
  [[nodiscard]] Status restore();

  [[nodiscard]] std::vector<Candidate> propose(std::size_t limit) override;
  void told(const Outcome& outcome) override;
  [[nodiscard]] bool exhausted() const override;
  void begin(const std::map<std::string, double>& baseline_us) override;
  [[nodiscard]] Status advance() override;
  [[nodiscard]] bool waiting() const override { return asked_ > 0; }
  [[nodiscard]] Result<bool> take(int64_t timeout_ms, std::string_view name) override;
  [[nodiscard]] int wake_fd() const override { return pool_->wake_fd(); }
  [[nodiscard]] double usd() const override { return provider_.usage().usd; }
  [[nodiscard]] std::string why() const override { return why_; }

  void finish() override;
  [[nodiscard]] std::optional<Error> stopped_by() const override { return stopped_by_; }
  [[nodiscard]] int64_t proposals() const { return next_; }
  [[nodiscard]] const Population& population() const { return population_; }

 private:
  // What is remembered of a program until its verdict is there.
  struct Born {
    int island = 0;
    int64_t proposal = -1, parent = 0;
    std::string model;
    std::shared_ptr<const Signature> signature;
  };

  [[nodiscard]] bool more() const;
  [[nodiscard]] int64_t planned() const;
  [[nodiscard]] std::shared_ptr<Proposal> decide(int64_t index);
  [[nodiscard]] std::shared_ptr<Proposal> decide_again(const Journal::Decided& decided);
  void issue_summary();
  void start_migration();
  void migrate(const Member& member);
  void told_measured(const Outcome& outcome);
  [[nodiscard]] Status accept(Made made);
  void reward(const Born& made, double score);
  void note(const std::string& text) const;
  void refresh_standing();
  [[nodiscard]] std::string history_of(const std::vector<const Member*>& members) const;
  [[nodiscard]] Member member_of(int64_t program);
  void stop(const llm::Failure& failure);
  void deal_seeds();

  EvolveSettings settings_;
  AskingRun run_;
  llm::Provider& provider_;
  store::Store& store_;
  Journal journal_;
  std::unique_ptr<Proposer> proposer_;
  std::unique_ptr<Pool<Proposal, Made>> pool_;
  Population population_;

  std::vector<std::shared_ptr<const Source>> seeds_;
  std::map<std::string, std::vector<int>> seed_islands_;  // by hash of the text
  std::size_t seeds_proposed_ = 0, seeds_told_ = 0;
  bool dealt_ = false;  // every island has a program, or none can

  int64_t next_ = 0;            // index of the next proposal
  int64_t candidates_ = 0;      // that came of proposals and seeds
  int64_t unusable_ = 0;        // proposals one after another
  int64_t summaries_ = 0;       // index of the next summary
  int64_t summarized_at_ = 0;   // proposals when it was asked for
  bool summary_asked_ = false;  // and not there yet
  std::size_t asked_ = 0;       // not taken yet
  std::deque<Candidate> ready_;
  std::deque<Journal::Decided> again_;      // decided in an earlier life, not answered
  std::unordered_map<int64_t, Born> made_;  // by program
  std::set<int64_t> programs_;              // of this run, each proposed once
  std::multimap<int64_t, int> migrations_;  // program → island, of an earlier life
  std::map<int64_t, int> emigrants_;        // program → island it goes to once it is confirmed
  std::map<std::string, double> baseline_us_;
  std::shared_ptr<const Standing> standing_ = std::make_shared<Standing>();
  std::string why_ = "space used up";
  std::optional<Error> stopped_by_;
  bool stopping_ = false;
};

}  // namespace sculler::search
