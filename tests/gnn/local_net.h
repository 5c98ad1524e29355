// Ranks as threads of one process: what MPI does, without MPI.
#pragma once

#include <barrier>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "gnn/train/net.h"

namespace sculler::test {

class LocalWorld {
 public:
  explicit LocalWorld(uint32_t ranks)
      : meet_(ranks), rows_(ranks), floats_(ranks), doubles_(ranks), ranks_(ranks) {}

  // Runs `body` as each rank, on a thread of its own; what each returned.
  std::vector<Status> run(const std::function<Status(gnn::Net&)>& body) {
    std::vector<Status> out(ranks_);
    std::vector<std::thread> threads;
    for (uint32_t r = 0; r < ranks_; ++r)
      threads.emplace_back([&, r] {
        Rank net(*this, r);
        out[r] = body(net);
      });
    for (auto& t : threads) t.join();
    return out;
  }

 private:
  class Rank final : public gnn::Net {
   public:
    Rank(LocalWorld& world, uint32_t rank) : world_(world), rank_(rank) {}
    [[nodiscard]] uint32_t rank() const override { return rank_; }
    [[nodiscard]] uint32_t size() const override { return world_.ranks_; }
    [[nodiscard]] Status serve(std::span<const float> rows, uint32_t width) override {
      world_.rows_[rank_] = rows;
      width_ = width;
      world_.meet_.arrive_and_wait();
      return {};
    }
    [[nodiscard]] Status fetch(std::vector<gnn::RowRequest>& requests) override {
      for (auto& request : requests)
        if (auto ok =
                gnn::copy_rows(world_.rows_[request.owner], width_, request.rows, request.data);
            !ok)
          return ok;
      return {};
    }
    [[nodiscard]] Status sum(std::span<float> values) override {
      return add(values, world_.floats_);
    }
    [[nodiscard]] Status sum(std::span<double> values) override {
      return add(values, world_.doubles_);
    }
    [[nodiscard]] Status leave() override {
      world_.meet_.arrive_and_wait();
      return {};
    }

   private:
    template <class T>
    Status add(std::span<T> values, std::vector<std::vector<T>>& shared) {
      shared[rank_].assign(values.begin(), values.end());
      world_.meet_.arrive_and_wait();
      std::fill(values.begin(), values.end(), T{});
      for (const auto& part : shared)
        for (size_t i = 0; i < values.size(); ++i) values[i] += part[i];
      world_.meet_.arrive_and_wait();
      return {};
    }
    LocalWorld& world_;
    uint32_t rank_, width_ = 0;
  };

  std::barrier<> meet_;
  std::vector<std::span<const float>> rows_;
  std::vector<std::vector<float>> floats_;
  std::vector<std::vector<double>> doubles_;
  uint32_t ranks_;
};

}  // namespace sculler::test
