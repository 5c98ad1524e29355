#include "gnn/train/prefetch.h"

#include <algorithm>
#include <cstring>

#include "steer/replay.h"

namespace sculler::gnn {

namespace {

Status checked(sculler_steer_status status) {
  if (status == SCULLER_STEER_OK) return {};
  const ErrorCode code = status == SCULLER_STEER_USAGE       ? ErrorCode::kUsage
                         : status == SCULLER_STEER_BAD_INPUT ? ErrorCode::kBadInput
                         : status == SCULLER_STEER_IO        ? ErrorCode::kIo
                                                             : ErrorCode::kInternal;
  return fail({code, sculler_steer_error(), {}, {}, {}});
}

}  // namespace

Traffic operator-(const Traffic& a, const Traffic& b) {
  return {a.remote - b.remote, a.hits - b.hits, a.fetched - b.fetched, a.extra - b.extra,
          a.bytes - b.bytes};
}

RowFetch::RowFetch(Net& net, const PartBook& book)
    : net_(net), book_(book), of_owner_(book.parts(), UINT32_MAX) {}

void RowFetch::clear() {
  for (const auto& request : requests_) of_owner_[request.owner] = UINT32_MAX;
  requests_.clear();
  places_.clear();
}

void RowFetch::want(uint64_t id) {
  const uint32_t owner = book_.owner(id);
  if (of_owner_[owner] == UINT32_MAX) {
    of_owner_[owner] = static_cast<uint32_t>(requests_.size());
    requests_.push_back({owner, {}, {}});
  }
  RowRequest& request = requests_[of_owner_[owner]];
  places_.push_back({of_owner_[owner], request.rows.size()});
  request.rows.push_back(id - book_.begin[owner]);
}

Status RowFetch::run() { return requests_.empty() ? Status{} : net_.fetch(requests_); }

const float* RowFetch::row(size_t i) const {
  const Place& place = places_[i];
  return requests_[place.request].data.data() + place.row * book_.dim;
}

Prefetcher::Prefetcher(Net& net, const PartBook& book, std::span<const float> own)
    : book_(book),
      own_(own),
      first_(book.begin[net.rank()]),
      last_(book.begin[net.rank() + 1]),
      width_(book.dim),
      fetch_(net, book) {}

Prefetcher::~Prefetcher() { sculler_steer_close(steer_); }

Result<std::unique_ptr<Prefetcher>> Prefetcher::make(const PrefetchSettings& settings,
                                                     const steer::TraceHead& head, Net& net,
                                                     const PartBook& book,
                                                     std::span<const float> own) {
  std::unique_ptr<Prefetcher> made(new Prefetcher(net, book, own));
  sculler_steer_settings given{};
  given.size = sizeof given;
  given.policy = settings.policy.c_str();
  given.capacity = settings.capacity;
  char error[512] = {};
  made->steer_ = sculler_steer_open(&given, error, sizeof error);
  if (made->steer_ == nullptr) return fail({ErrorCode::kUsage, error, {}, "--policy", {}});
  made->kept_.resize(settings.capacity * book.dim);
  if (!settings.record.empty()) {
    std::vector<uint64_t> ids, degrees;
    std::vector<float> vip;
    for (const auto& c : head.candidates) {
      ids.push_back(c.id);
      degrees.push_back(c.degree);
      vip.push_back(c.vip);
    }
    if (auto ok = checked(sculler_steer_record(made->steer_, settings.record.c_str(), head.halo,
                                               ids.size(), ids.data(), degrees.data(), vip.data()));
        !ok)
      return fail(ok.error());
    made->recording_ = true;
  }
  if (!settings.decide.empty()) {
    sculler_steer_control_settings control{};
    control.size = sizeof control;
    control.maker = settings.decide.c_str();
    control.mode = SCULLER_STEER_SYNC;
    control.every = settings.every;
    control.graph = book.name.c_str();
    control.nodes = book.nodes();
    control.edges = book.edge_begin.back() / 2;
    control.remote = head.halo;
    if (auto ok = checked(sculler_steer_control(made->steer_, &control)); !ok)
      return fail(ok.error());
  }
  auto first = steer::rows_to_begin_with(head.candidates, settings.policy, settings.capacity);
  if (auto ok = made->preload(first); !ok) return fail(ok.error());
  return made;
}

Status Prefetcher::preload(const std::vector<uint64_t>& ids) {
  if (ids.empty()) return {};
  sculler_steer_plan plan{};
  if (auto ok = checked(sculler_steer_preload(steer_, ids.data(), ids.size(), &plan)); !ok)
    return ok;
  fetch_.clear();
  for (uint64_t i = 0; i < plan.n_extra; ++i) fetch_.want(plan.extra[i]);
  if (auto ok = fetch_.run(); !ok) return ok;
  for (uint64_t i = 0; i < plan.n_extra; ++i)
    std::copy_n(fetch_.row(i), width_, kept_.data() + uint64_t{plan.extra_slot[i]} * width_);
  return {};
}

uint64_t Prefetcher::lookahead() const {
  sculler_steer_state state{};
  return sculler_steer_get_state(steer_, &state) == SCULLER_STEER_OK ? state.lookahead : 0;
}

Status Prefetcher::schedule(const Sample& sample) {
  ids_.clear();
  for (const uint32_t v : sample.nodes)
    if (!mine(v)) ids_.push_back(v);
  return checked(sculler_steer_schedule(steer_, ids_.data(), ids_.size()));
}

void Prefetcher::begin(const Sample& sample, std::vector<float>& rows) {
  rows.resize(sample.nodes.size() * width_);
  ids_.clear();
  places_.clear();
  for (size_t i = 0; i < sample.nodes.size(); ++i) {
    const uint32_t v = sample.nodes[i];
    if (mine(v)) {
      std::copy_n(own_.data() + (v - first_) * width_, width_, rows.data() + i * width_);
    } else {
      ids_.push_back(v);
      places_.push_back(static_cast<uint32_t>(i));
    }
  }
}

Status Prefetcher::fill(const Sample& sample, uint32_t epoch, std::vector<float>& rows) {
  begin(sample, rows);
  const auto place = [&](uint64_t i) { return rows.data() + uint64_t{places_[i]} * width_; };
  const auto slot = [&](uint32_t s) { return kept_.data() + uint64_t{s} * width_; };
  if (auto ok = checked(sculler_steer_set_epoch(steer_, epoch)); !ok) return ok;
  sculler_steer_plan plan{};
  if (auto ok = checked(sculler_steer_minibatch(steer_, ids_.data(), ids_.size(), &plan)); !ok)
    return ok;
  for (uint64_t i = 0; i < plan.ids; ++i)
    if (plan.slot[i] != SCULLER_STEER_NONE) std::copy_n(slot(plan.slot[i]), width_, place(i));
  fetch_.clear();
  for (uint64_t i = 0; i < plan.n_missed; ++i) fetch_.want(ids_[plan.missed[i]]);
  for (uint64_t i = 0; i < plan.n_extra; ++i) fetch_.want(plan.extra[i]);
  if (auto ok = fetch_.run(); !ok) return ok;
  for (uint64_t i = 0; i < plan.n_missed; ++i) {
    std::copy_n(fetch_.row(i), width_, place(plan.missed[i]));
    if (plan.into[i] != SCULLER_STEER_NONE) std::copy_n(fetch_.row(i), width_, slot(plan.into[i]));
  }
  for (uint64_t i = 0; i < plan.n_extra; ++i)
    std::copy_n(fetch_.row(plan.n_missed + i), width_, slot(plan.extra_slot[i]));
  return {};
}

Status Prefetcher::fill_directly(const Sample& sample, std::vector<float>& rows) {
  begin(sample, rows);
  fetch_.clear();
  for (const uint64_t id : ids_) fetch_.want(id);
  if (auto ok = fetch_.run(); !ok) return ok;
  for (size_t i = 0; i < ids_.size(); ++i)
    std::copy_n(fetch_.row(i), width_, rows.data() + uint64_t{places_[i]} * width_);
  return {};
}

Traffic Prefetcher::traffic() const {
  sculler_steer_state state{};
  if (sculler_steer_get_state(steer_, &state) != SCULLER_STEER_OK) return {};
  const auto& all = state.total;
  return {all.ids, all.hits, all.fetched, all.extra, bytes_of(all.fetched, width_)};
}

Status Prefetcher::end() {
  if (!recording_) return {};
  recording_ = false;
  return checked(sculler_steer_record_end(steer_));
}

}  // namespace sculler::gnn
