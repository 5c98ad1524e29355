#include "gnn/train/mpi_net.h"

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "base/clock.h"

namespace sculler::gnn {

namespace {

constexpr int kAsk = 1, kAnswer = 2;
constexpr uint64_t kMostFloats = uint64_t{1} << 26;  // a message; counts of MPI are ints

Error mpi_error(int code, const char* what) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  return {ErrorCode::kIo,
          std::string(what) + ": " + text,
          {},
          "MPI",
          "See what the other ranks say; resume from the checkpoint."};
}

// The first turns only yield; then naps grow to 100 µs.
class Patience {
 public:
  void wait() {
    if (++turns_ <= 20) {
      std::this_thread::yield();
      return;
    }
    const long us = std::min<long>(100, 5 * (turns_ - 20));
    const timespec nap{0, us * 1000};
    nanosleep(&nap, nullptr);
  }
  void reset() { turns_ = 0; }

 private:
  long turns_ = 0;
};

class MpiNet final : public Net {
 public:
  MpiNet(MPI_Comm rows, MPI_Comm sums, double timeout_s)
      : rows_comm_(rows), sums_comm_(sums), timeout_s_(timeout_s) {
    MPI_Comm_rank(rows, &rank_);
    MPI_Comm_size(rows, &size_);
    MPI_Comm_set_errhandler(rows, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(sums, MPI_ERRORS_RETURN);
  }
  ~MpiNet() override {
    stop_server();
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (finalized != 0) return;
    MPI_Comm_free(&rows_comm_);
    MPI_Comm_free(&sums_comm_);
  }
  MpiNet(const MpiNet&) = delete;
  MpiNet& operator=(const MpiNet&) = delete;

  [[nodiscard]] uint32_t rank() const override { return static_cast<uint32_t>(rank_); }
  [[nodiscard]] uint32_t size() const override { return static_cast<uint32_t>(size_); }

  [[nodiscard]] Status serve(std::span<const float> rows, uint32_t width) override {
    served_ = rows;
    width_ = width;
    server_ = std::thread([this] { serve_all(); });
    return barrier();
  }

  [[nodiscard]] Status fetch(std::vector<RowRequest>& requests) override {
    std::vector<MPI_Request> pending;
    std::vector<Piece> pieces;  // one a receive, in the order of `pending`'s first half
    const uint64_t most = std::max<uint64_t>(1, kMostFloats / std::max(1U, width_));
    for (auto& request : requests) {
      request.data.resize(request.rows.size() * width_);
      for (uint64_t at = 0; at < request.rows.size(); at += most)
        pieces.push_back({&request, at, std::min<uint64_t>(most, request.rows.size() - at)});
    }
    pending.resize(2 * pieces.size(), MPI_REQUEST_NULL);
    for (size_t i = 0; i < pieces.size(); ++i) {
      const Piece& p = pieces[i];
      const int owner = static_cast<int>(p.request->owner);
      int code =
          MPI_Irecv(p.request->data.data() + p.at * width_, static_cast<int>(p.rows * width_),
                    MPI_FLOAT, owner, kAnswer, rows_comm_, &pending[i]);
      if (code == MPI_SUCCESS)
        code = MPI_Isend(p.request->rows.data() + p.at, static_cast<int>(p.rows), MPI_UINT64_T,
                         owner, kAsk, rows_comm_, &pending[pieces.size() + i]);
      if (code != MPI_SUCCESS) return fail(mpi_error(code, "rows cannot be asked for"));
    }
    std::vector<MPI_Status> statuses(pending.size());
    if (auto ok = wait_all(pending, statuses, "rows"); !ok) return ok;
    for (size_t i = 0; i < pieces.size(); ++i) {
      int floats = 0;
      MPI_Get_count(&statuses[i], MPI_FLOAT, &floats);
      if (static_cast<uint64_t>(floats) != pieces[i].rows * width_)
        return fail({ErrorCode::kProtocol,
                     "rank " + std::to_string(pieces[i].request->owner) +
                         " does not have the rows that it was asked for" + server_fault(),
                     {},
                     {},
                     "All ranks must read the same partition."});
    }
    return {};
  }

  [[nodiscard]] Status sum(std::span<float> values) override { return sum_of(values, MPI_FLOAT); }
  [[nodiscard]] Status sum(std::span<double> values) override { return sum_of(values, MPI_DOUBLE); }

  [[nodiscard]] Status leave() override {
    if (auto ok = barrier(); !ok) return ok;
    stop_server();
    return {};
  }

 private:
  struct Piece {
    RowRequest* request;
    uint64_t at, rows;
  };

  [[nodiscard]] Status wait_all(std::vector<MPI_Request>& pending,
                                std::vector<MPI_Status>& statuses, const char* what) const {
    Patience patience;
    const int64_t begin = real_clock().now_ns();
    while (true) {
      int done = 0;
      const int code =
          MPI_Testall(static_cast<int>(pending.size()), pending.data(), &done, statuses.data());
      if (code != MPI_SUCCESS) return fail(mpi_error(code, what));
      if (done != 0) return {};
      if (static_cast<double>(real_clock().now_ns() - begin) > timeout_s_ * 1e9)
        return fail({ErrorCode::kTimeout,
                     "rank " + std::to_string(rank_) + " has waited " +
                         std::to_string(static_cast<int64_t>(timeout_s_)) + " s for " + what +
                         " of other ranks",
                     {},
                     "--timeout",
                     "See whether a rank is gone or stopped; resume from the checkpoint."});
      patience.wait();
    }
  }
  [[nodiscard]] Status wait_one(MPI_Request request, const char* what) const {
    std::vector<MPI_Request> pending{request};
    std::vector<MPI_Status> statuses(1);
    return wait_all(pending, statuses, what);
  }
  [[nodiscard]] Status barrier() const {
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = MPI_Ibarrier(sums_comm_, &request);
    if (code != MPI_SUCCESS) return fail(mpi_error(code, "the ranks cannot meet"));
    return wait_one(request, "a meeting");
  }

  // Chunk p goes to rank p, is added there in the order of ranks, and comes back.
  template <class T>
  [[nodiscard]] Status sum_of(std::span<T> values, MPI_Datatype type) const {
    const size_t ranks = static_cast<size_t>(size_), me = static_cast<size_t>(rank_);
    std::vector<int> count(ranks), at(ranks), mine(ranks), mine_at(ranks);
    const auto first = [&](size_t p) { return static_cast<int>(values.size() * p / ranks); };
    for (size_t p = 0; p < ranks; ++p) {
      at[p] = first(p);
      count[p] = first(p + 1) - first(p);
    }
    const auto n = static_cast<size_t>(count[me]);
    for (size_t p = 0; p < ranks; ++p) {
      mine[p] = count[me];
      mine_at[p] = static_cast<int>(p * n);
    }
    std::vector<T> parts(ranks * n), total(n);
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_Ialltoallv(values.data(), count.data(), at.data(), type, parts.data(),
                              mine.data(), mine_at.data(), type, sums_comm_, &request);
    if (code != MPI_SUCCESS) return fail(mpi_error(code, "gradients cannot be sent"));
    if (auto ok = wait_one(request, "gradients"); !ok) return ok;
    for (size_t p = 0; p < ranks; ++p)
      for (size_t i = 0; i < n; ++i) total[i] += parts[p * n + i];
    code = MPI_Iallgatherv(total.data(), count[me], type, values.data(), count.data(), at.data(),
                           type, sums_comm_, &request);
    if (code != MPI_SUCCESS) return fail(mpi_error(code, "gradients cannot be sent"));
    return wait_one(request, "gradients");
  }

  // The server's thread: a request is row numbers, the answer rows; none where one is out of range.
  void serve_all() {
    std::vector<uint64_t> wanted;
    std::vector<float> answer;
    Patience patience;
    while (!stop_) {
      int there = 0;
      MPI_Message message;
      MPI_Status status;
      if (MPI_Improbe(MPI_ANY_SOURCE, kAsk, rows_comm_, &there, &message, &status) != MPI_SUCCESS)
        return;
      if (there == 0) {
        patience.wait();
        continue;
      }
      patience.reset();
      int n = 0;
      MPI_Get_count(&status, MPI_UINT64_T, &n);
      wanted.resize(static_cast<size_t>(n));
      if (MPI_Mrecv(wanted.data(), n, MPI_UINT64_T, &message, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        return;
      if (auto ok = copy_rows(served_, width_, wanted, answer); !ok) {
        answer.clear();
        const std::lock_guard lock(mutex_);
        fault_ = ok.error().message;
      }
      MPI_Request request = MPI_REQUEST_NULL;
      if (MPI_Isend(answer.data(), static_cast<int>(answer.size()), MPI_FLOAT, status.MPI_SOURCE,
                    kAnswer, rows_comm_, &request) != MPI_SUCCESS)
        return;
      // The asker's error names a rank that does not take its answer.
      if (!wait_one(request, "an answer's way")) return;
    }
  }
  void stop_server() {
    stop_ = true;
    if (server_.joinable()) server_.join();
  }
  [[nodiscard]] std::string server_fault() {
    const std::lock_guard lock(mutex_);
    return fault_.empty() ? "" : " (here: " + fault_ + ")";
  }

  MPI_Comm rows_comm_, sums_comm_;
  double timeout_s_;
  int rank_ = 0, size_ = 1;
  std::span<const float> served_;
  uint32_t width_ = 0;
  std::thread server_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::string fault_;
};

class World final : public MpiWorld {
 public:
  World() {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    rank_ = static_cast<uint32_t>(rank);
  }
  ~World() override { MPI_Finalize(); }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  [[nodiscard]] Result<std::unique_ptr<Net>> net(double timeout_s) override {
    MPI_Comm rows = MPI_COMM_NULL, sums = MPI_COMM_NULL;
    int code = MPI_Comm_dup(MPI_COMM_WORLD, &rows);
    if (code == MPI_SUCCESS) code = MPI_Comm_dup(MPI_COMM_WORLD, &sums);
    if (code != MPI_SUCCESS) return fail(mpi_error(code, "no communicator"));
    return std::make_unique<MpiNet>(rows, sums, timeout_s);
  }
  [[nodiscard]] uint32_t rank() const override { return rank_; }
  [[noreturn]] void abort(int code) override {
    MPI_Abort(MPI_COMM_WORLD, code);
    std::_Exit(code);
  }

 private:
  uint32_t rank_ = 0;
};

}  // namespace

Result<std::unique_ptr<MpiWorld>> MpiWorld::start(int* argc, char*** argv) {
  int provided = 0;
  const int code = MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided);
  if (code != MPI_SUCCESS) return fail(mpi_error(code, "MPI does not start"));
  if (provided < MPI_THREAD_MULTIPLE) {
    MPI_Finalize();
    return fail({ErrorCode::kUnsupported,
                 "this MPI cannot be called from several threads",
                 {},
                 "MPI_THREAD_MULTIPLE",
                 "Use an MPI that was built with threads."});
  }
  return std::make_unique<World>();
}

}  // namespace sculler::gnn
