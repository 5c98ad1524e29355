// Features of a minibatch: own rows, rows that the buffer keeps, rows of other ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gnn/parts.h"
#include "gnn/sample.h"
#include "gnn/train/net.h"
#include "sculler/steer.h"
#include "steer/trace.h"

namespace sculler::gnn {

// Rows of other ranks by id, all owners at once.
class RowFetch {
 public:
  RowFetch(Net& net, const PartBook& book);
  void clear();
  void want(uint64_t id);
  [[nodiscard]] Status run();
  // The i-th wanted row since clear(), after run().
  [[nodiscard]] const float* row(size_t i) const;
  [[nodiscard]] size_t wanted() const { return places_.size(); }

 private:
  struct Place {
    uint32_t request;
    uint64_t row;
  };
  Net& net_;
  const PartBook& book_;
  std::vector<RowRequest> requests_;  // of the owners that are asked
  std::vector<uint32_t> of_owner_;    // which of them, UINT32_MAX: none
  std::vector<Place> places_;
};

struct PrefetchSettings {
  std::string policy = "free";
  uint64_t capacity = 0;  // rows
  std::string decide;     // a maker of decisions, or empty
  uint64_t every = 1;     // minibatches between two of them
  std::string record;     // a trace, or empty
};

// Since the begin; rows fetched include those that no minibatch asked for.
struct Traffic {
  uint64_t remote = 0, hits = 0, fetched = 0, extra = 0, bytes = 0;
};
[[nodiscard]] Traffic operator-(const Traffic& a, const Traffic& b);

class Prefetcher {
 public:
  // `head`: what the policy ranks rows by; `own`: this rank's rows. All outlive the prefetcher.
  [[nodiscard]] static Result<std::unique_ptr<Prefetcher>> make(const PrefetchSettings& settings,
                                                                const steer::TraceHead& head,
                                                                Net& net, const PartBook& book,
                                                                std::span<const float> own);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // How many minibatches ahead the policy wants to be told.
  [[nodiscard]] uint64_t lookahead() const;
  [[nodiscard]] Status schedule(const Sample& sample);
  // One row a node, in the sample's order.
  [[nodiscard]] Status fill(const Sample& sample, uint32_t epoch, std::vector<float>& rows);
  // The same past the buffer, not counted.
  [[nodiscard]] Status fill_directly(const Sample& sample, std::vector<float>& rows);
  [[nodiscard]] Traffic traffic() const;
  [[nodiscard]] Status end();  // closes the trace

 private:
  Prefetcher(Net& net, const PartBook& book, std::span<const float> own);
  [[nodiscard]] Status preload(const std::vector<uint64_t>& ids);
  // Own rows into place; ids and places of the others.
  void begin(const Sample& sample, std::vector<float>& rows);
  [[nodiscard]] bool mine(uint32_t id) const { return id >= first_ && id < last_; }

  const PartBook& book_;
  std::span<const float> own_;
  uint64_t first_ = 0, last_ = 0;
  uint32_t width_ = 0;
  RowFetch fetch_;
  sculler_steer* steer_ = nullptr;
  std::vector<float> kept_;  // capacity × width
  std::vector<uint64_t> ids_;
  std::vector<uint32_t> places_;
  bool recording_ = false;
};

}  // namespace sculler::gnn
