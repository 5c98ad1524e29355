#include "gnn/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/files.h"
#include "base/hold.h"
#include "base/sha256.h"
#include "gnn/draw.h"
#include "gnn/remote.h"
#include "gnn/train/batches.h"
#include "gnn/train/checkpoint.h"
#include "steer/replay.h"

namespace sculler::gnn {

namespace {

double seconds_since(int64_t begin) {
  return static_cast<double>(real_clock().now_ns() - begin) / 1e9;
}

// One value of each rank, on all of them.
Result<std::vector<double>> gather(Net& net, double mine) {
  std::vector<double> values(net.size());
  values[net.rank()] = mine;
  if (auto ok = net.sum(values); !ok) return fail(ok.error());
  return values;
}

// What a rank holds.
struct Holdings {
  PartBook book;
  Graph graph;
  NodeData data;
  std::vector<uint32_t> train, test;  // ids
};

Result<Holdings> load(const std::string& path, uint32_t rank, uint32_t ranks) {
  Holdings h;
  auto book = read_book(path);
  if (!book) return fail(book.error());
  if (book->parts() != ranks)
    return fail(
        {ErrorCode::kUsage,
         "has " + std::to_string(book->parts()) + " parts, there are " + std::to_string(ranks) +
             " ranks",
         book->path, "num_parts",
         "Start it with mpirun -n " + std::to_string(book->parts()) + ", or cut the graph again."});
  h.book = std::move(*book);
  auto graph = read_topology(h.book);
  if (!graph) return fail(graph.error());
  h.graph = std::move(*graph);
  auto data = read_part(h.book, rank);
  if (!data) return fail(data.error());
  h.data = std::move(*data);
  const auto first = static_cast<uint32_t>(h.book.begin[rank]);
  for (uint32_t i = 0; i < h.data.labels.size(); ++i) {
    if (h.data.labels[i] < 0) continue;  // nothing to learn from
    if (h.data.train[i] != 0) h.train.push_back(first + i);
    if (h.data.test[i] != 0) h.test.push_back(first + i);
  }
  return h;
}

// The losses of an epoch's steps and what else it came to.
struct EpochSums {
  Sha256 losses;
  double loss = 0, right = 0, seeds = 0;
  Traffic traffic;
  double wait_s = 0, compute_s = 0, sum_s = 0;
};

class Trainer {
 public:
  Trainer(const TrainSettings& settings, Net& net, const Report& report)
      : settings_(settings), net_(net), report_(report) {}

  [[nodiscard]] TrainEnd run(const MakeModel& make_model) {
    end_.status = train(make_model);
    return end_;
  }

 private:
  [[nodiscard]] Status train(const MakeModel& make_model);
  [[nodiscard]] Status agree(const Status& mine);
  [[nodiscard]] Status begin(const MakeModel& make_model);
  [[nodiscard]] Status prepare(const MakeModel& make_model);
  [[nodiscard]] Status step(const Prepared& batch, uint64_t epoch, uint64_t number,
                            EpochSums& sums);
  [[nodiscard]] Status end_epoch(uint64_t epoch, EpochSums& sums, double seconds);
  [[nodiscard]] Status test();
  [[nodiscard]] Status save(uint64_t epochs);
  [[nodiscard]] Checkpoint checkpoint(uint64_t epochs) const;
  [[nodiscard]] std::vector<int32_t> labels(const Sample& sample) const;
  void tell(const nlohmann::json& event) const {
    if (net_.rank() == 0) report_(event);
  }

  const TrainSettings& settings_;
  Net& net_;
  const Report& report_;
  Holdings own_;
  steer::TraceHead head_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Prefetcher> prefetcher_;
  uint64_t steps_ = 0, done_ = 0;
  uint64_t capacity_ = 0;
  std::vector<float> gradient_;
  TrainEnd end_;
};

// Whether all ranks are well; where one is not, all end with the error of the first.
Status Trainer::agree(const Status& mine) {
  std::vector<double> codes(net_.size());
  if (!mine) codes[net_.rank()] = static_cast<double>(mine.error().code);
  if (auto ok = net_.sum(codes); !ok) return ok;
  for (uint32_t r = 0; r < net_.size(); ++r) {
    if (codes[r] == 0) continue;
    end_.together = true;
    end_.rank = r;
    if (r == net_.rank()) return mine;
    return fail({static_cast<ErrorCode>(static_cast<int>(codes[r])),
                 "rank " + std::to_string(r) + " cannot go on",
                 {},
                 {},
                 {}});
  }
  return {};
}

Checkpoint Trainer::checkpoint(uint64_t epochs) const {
  Checkpoint out;
  out.epochs = epochs;
  std::string fanouts;
  for (const uint32_t f : settings_.sampler.fanouts)
    fanouts = std::to_string(f) + (fanouts.empty() ? "" : "," + fanouts);
  const auto& m = settings_.model;
  out.settings = {{"graph", own_.book.name},
                  {"nodes", std::to_string(own_.book.nodes())},
                  {"ranks", std::to_string(net_.size())},
                  {"model", m.kind},
                  {"hidden", std::to_string(m.hidden)},
                  {"heads", std::to_string(m.heads)},
                  {"lr", fmt::format("{}", m.learning_rate)},
                  {"fanout", fanouts},
                  {"batch", std::to_string(settings_.sampler.batch)},
                  {"seed", std::to_string(settings_.sampler.seed)}};
  out.state = model_->save();
  return out;
}

// What can go wrong on one rank alone.
Status Trainer::prepare(const MakeModel& make_model) {
  auto loaded = load(settings_.parts, net_.rank(), net_.size());
  if (!loaded) return fail(loaded.error());
  own_ = std::move(*loaded);
  ModelSettings model = settings_.model;
  model.dim = own_.book.dim;
  model.classes = own_.book.classes;
  model.layers = static_cast<uint32_t>(settings_.sampler.fanouts.size());
  model.weight = [seed = settings_.sampler.seed](uint64_t tensor, uint64_t element) {
    return 2 * unit(draw(seed, Use::kWeight, tensor, element)) - 1;
  };
  auto made = make_model(model);
  if (!made) return fail(made.error());
  model_ = std::move(*made);
  gradient_.resize(model_->parameters());

  std::vector<bool> mine(own_.book.nodes());
  for (uint64_t v = own_.book.begin[net_.rank()]; v < own_.book.begin[net_.rank() + 1]; ++v)
    mine[v] = true;
  head_ = trace_head(own_.graph, mine, own_.train, settings_.sampler);
  auto capacity = steer::capacity_of(head_.halo, settings_.buffer);
  if (!capacity) return fail(capacity.error());
  capacity_ = std::min<uint64_t>(*capacity, own_.book.nodes() - own_.book.size(net_.rank()));

  if (settings_.resume) {
    auto bytes = real_files().read(settings_.checkpoint, uint64_t{1} << 40);
    if (!bytes) return fail(bytes.error());
    auto read = decode(*bytes, settings_.checkpoint);
    if (!read) return fail(read.error());
    if (auto ok = same_settings(*read, checkpoint(0), settings_.checkpoint); !ok) return ok;
    if (auto ok = model_->load(read->state); !ok) {
      Error error = ok.error();
      error.file = settings_.checkpoint;
      return fail(error);
    }
    done_ = read->epochs;
  }
  return {};
}

Status Trainer::begin(const MakeModel& make_model) {
  if (auto ok = agree(prepare(make_model)); !ok) return ok;
  auto train = gather(net_, static_cast<double>(own_.train.size()));
  auto halo = gather(net_, static_cast<double>(head_.halo));
  auto capacity = gather(net_, static_cast<double>(capacity_));
  if (!train || !halo || !capacity) return fail((!train ? train : !halo ? halo : capacity).error());
  const double most = *std::max_element(train->begin(), train->end());
  if (most == 0)
    return agree(fail({ErrorCode::kBadInput,
                       "no node is trained on",
                       own_.book.path,
                       {},
                       "Mark nodes with a label in train.npy and cut the graph again."}));
  const uint64_t batch = settings_.sampler.batch;
  steps_ = (static_cast<uint64_t>(most) + batch - 1) / batch;
  if (auto ok = net_.serve(own_.data.features, own_.book.dim); !ok) return ok;

  PrefetchSettings prefetch = settings_.prefetch;
  prefetch.capacity = capacity_;
  if (!prefetch.record.empty()) prefetch.record += "." + std::to_string(net_.rank());
  auto made = Prefetcher::make(prefetch, head_, net_, own_.book, own_.data.features);
  const Status status = made ? Status{} : fail(made.error());
  if (auto ok = agree(status); !ok) return ok;
  prefetcher_ = std::move(*made);
  tell({{"event", "begin"},
        {"graph", own_.book.name},
        {"nodes", own_.book.nodes()},
        {"edges", own_.book.edge_begin.back() / 2},
        {"ranks", net_.size()},
        {"model", settings_.model.kind},
        {"parameters", model_->parameters()},
        {"policy", settings_.prefetch.policy},
        {"buffer", settings_.buffer},
        {"capacity", *capacity},
        {"halo", *halo},
        {"train", *train},
        {"steps", steps_},
        {"epochs", settings_.epochs},
        {"done", done_}});
  return {};
}

std::vector<int32_t> Trainer::labels(const Sample& sample) const {
  std::vector<int32_t> out;
  for (uint32_t i = 0; i < sample.seeds; ++i)
    out.push_back(own_.data.labels[sample.nodes[i] - own_.book.begin[net_.rank()]]);
  return out;
}

Status Trainer::step(const Prepared& batch, uint64_t epoch, uint64_t number, EpochSums& sums) {
  const int64_t begin = real_clock().now_ns();
  Outcome outcome;
  std::fill(gradient_.begin(), gradient_.end(), 0.0F);
  if (batch.sample.seeds > 0) {
    const auto of_seeds = labels(batch.sample);
    outcome =
        model_->learn({batch.sample, batch.features.data(), of_seeds.data()}, gradient_.data());
  }
  sums.compute_s += seconds_since(begin);
  const int64_t summing = real_clock().now_ns();
  std::array<double, 3> all{outcome.loss, static_cast<double>(outcome.right),
                            static_cast<double>(batch.sample.seeds)};
  if (auto ok = net_.sum(all); !ok) return ok;
  if (auto ok = net_.sum(gradient_); !ok) return ok;
  sums.sum_s += seconds_since(summing);
  const int64_t stepping = real_clock().now_ns();
  const auto seeds = static_cast<float>(all[2]);
  for (float& g : gradient_) g /= seeds;
  model_->step(gradient_.data());
  sums.compute_s += seconds_since(stepping);
  const double loss = all[0] / all[2];
  sums.losses.update(&loss, sizeof loss);
  sums.loss += all[0];
  sums.right += all[1];
  sums.seeds += all[2];
  sums.traffic.remote += batch.traffic.remote;
  sums.traffic.hits += batch.traffic.hits;
  sums.traffic.fetched += batch.traffic.fetched;
  sums.traffic.extra += batch.traffic.extra;
  sums.traffic.bytes += batch.traffic.bytes;
  if (settings_.steps)
    tell({{"event", "step"}, {"epoch", epoch}, {"step", number}, {"loss", loss}});
  return {};
}

Status Trainer::end_epoch(uint64_t epoch, EpochSums& sums, double seconds) {
  const Traffic& t = sums.traffic;
  std::array<double, 5> moved{static_cast<double>(t.remote), static_cast<double>(t.hits),
                              static_cast<double>(t.fetched), static_cast<double>(t.extra),
                              static_cast<double>(t.bytes)};
  if (auto ok = net_.sum(moved); !ok) return ok;
  // The slowest rank's times.
  std::array<double, 4> times{seconds, sums.wait_s, sums.compute_s, sums.sum_s};
  for (double& time : times) {
    auto all = gather(net_, time);
    if (!all) return fail(all.error());
    time = *std::max_element(all->begin(), all->end());
  }
  tell({{"event", "epoch"},
        {"epoch", epoch},
        {"loss", sums.loss / sums.seeds},
        {"accuracy", sums.right / sums.seeds},
        {"losses", sums.losses.hex().substr(0, 16)},
        {"seconds", times[0]},
        {"wait_s", times[1]},
        {"compute_s", times[2]},
        {"sum_s", times[3]},
        {"remote", static_cast<uint64_t>(moved[0])},
        {"hits", static_cast<uint64_t>(moved[1])},
        {"hit_rate", moved[0] > 0 ? moved[1] / moved[0] : 0.0},
        {"fetched", static_cast<uint64_t>(moved[2])},
        {"extra", static_cast<uint64_t>(moved[3])},
        {"bytes", static_cast<uint64_t>(moved[4])}});
  return {};
}

Status Trainer::save(uint64_t epochs) {
  Status saved;
  if (net_.rank() == 0)
    saved = real_files().write_atomic(settings_.checkpoint, encode(checkpoint(epochs)));
  return agree(saved);
}

// Accuracy on the test nodes, with neighbours drawn as in training.
Status Trainer::test() {
  Sampler sampler(own_.graph, settings_.sampler);
  std::array<double, 2> all{};
  Status status;
  uint64_t number = 0;
  std::vector<float> features;
  for (const auto& seeds : sampler.epoch(own_.test, UINT64_MAX)) {
    const Sample sample = sampler.sample(seeds, UINT64_MAX, number++);
    if (status = prefetcher_->fill_directly(sample, features); !status) break;
    const auto of_seeds = labels(sample);
    const auto outcome = model_->judge({sample, features.data(), of_seeds.data()});
    all[0] += static_cast<double>(outcome.right);
    all[1] += sample.seeds;
  }
  if (auto ok = agree(status); !ok) return ok;
  if (auto ok = net_.sum(all); !ok) return ok;
  if (all[1] > 0)
    tell({{"event", "test"},
          {"nodes", static_cast<uint64_t>(all[1])},
          {"accuracy", all[0] / all[1]}});
  return {};
}

Status Trainer::train(const MakeModel& make_model) {
  const int64_t begun = real_clock().now_ns();
  if (auto ok = begin(make_model); !ok) return ok;
  {
    BatchSource source(own_.graph, settings_.sampler, own_.train, steps_);
    Pipeline pipeline(source, *prefetcher_, done_ * steps_,
                      std::max(done_, settings_.epochs) * steps_);
    for (uint64_t epoch = done_; epoch < settings_.epochs; ++epoch) {
      EpochSums sums;
      const int64_t start = real_clock().now_ns();
      for (uint64_t number = 0; number < steps_; ++number) {
        const int64_t waiting = real_clock().now_ns();
        auto batch = pipeline.take();
        if (!batch) return fail(batch.error());
        sums.wait_s += seconds_since(waiting);
        if (auto ok = step(*batch, epoch, number, sums); !ok) return ok;
      }
      if (auto ok = end_epoch(epoch, sums, seconds_since(start)); !ok) return ok;
      const bool last = epoch + 1 == settings_.epochs;
      if (!settings_.checkpoint.empty() &&
          (last || (epoch + 1) % settings_.checkpoint_every == 0)) {
        if (auto ok = save(epoch + 1); !ok) return ok;
        hold_point("checkpoint");
      }
    }
  }
  if (auto ok = agree(prefetcher_->end()); !ok) return ok;
  if (settings_.test)
    if (auto ok = test(); !ok) return ok;
  if (auto ok = net_.leave(); !ok) return ok;
  tell({{"event", "end"}, {"seconds", seconds_since(begun)}});
  return {};
}

}  // namespace

TrainEnd train(const TrainSettings& settings, Net& net, const MakeModel& make_model,
               const Report& report) {
  return Trainer(settings, net, report).run(make_model);
}

}  // namespace sculler::gnn
