#include "search/batch.h"

#include <algorithm>
#include <chrono>

#include "base/strings.h"

namespace sculler::search {

Batches::Batches(Files& files, BatchSettings settings, Pack pack, std::launch how)
    : files_(files), settings_(std::move(settings)), pack_(std::move(pack)), how_(how) {
  while (files_.exists(join_path(settings_.folder, std::to_string(batches_ + 1)))) ++batches_;
}

Batches::~Batches() {
  if (packing_.valid()) packing_.wait();
}

void Batches::passed(int64_t program, const Candidate& candidate, double score) {
  passed_[program] = {candidate, score};
}

void Batches::failed(int64_t program) { passed_.erase(program); }

bool Batches::due() const {
  return batches_ < std::max<int64_t>(1, settings_.most - 1) && evaluated_ - at_ >= settings_.every;
}

std::vector<Batches::Member> Batches::choose() {
  at_ = evaluated_;
  std::vector<std::pair<double, int64_t>> order;
  for (const auto& [program, passed] : passed_)
    if (given_.count(program) == 0) order.emplace_back(-passed.score, program);
  std::sort(order.begin(), order.end());
  std::vector<Member> out;
  for (const auto& [score, program] : order) {
    if (static_cast<int64_t>(out.size()) >= settings_.programs) break;
    given_.insert(program);
    const Passed& one = passed_[program];
    out.push_back({job_id(settings_.frame, one.candidate), program, one.candidate, one.score});
  }
  return out;
}

std::string Batches::start(const std::vector<Member>& members, bool replaying) {
  ++batches_;
  std::string lines;
  std::string folder = join_path(settings_.folder, std::to_string(batches_));
  for (const auto& member : members) {
    lines += job_line(settings_.frame, member.candidate, member.job) + "\n";
    owed_[member.job] = member;
  }
  if (replaying) return folder;
  if (packing_.valid()) {
    packing_.wait();
    packed();
  }
  packing_folder_ = folder;
  packing_ = std::async(how_, pack_, folder, lines);
  return folder;
}

void Batches::await(Member member) {
  given_.insert(member.program);
  at_ = evaluated_;
  const std::string job = member.job;
  owed_[job] = std::move(member);
}

// Jobs that could not be packed are owed no more.
void Batches::packed() {
  if (!packing_.valid() ||
      packing_.wait_for(std::chrono::seconds(0)) == std::future_status::timeout)
    return;
  Status ok = packing_.get();
  if (ok) return;
  trouble_ = ok.error();
  std::erase_if(owed_, [&](const auto& owed) {
    return !files_.exists(join_path(packing_folder_, owed.first + ".json"));
  });
}

std::optional<Answer> Batches::next() {
  packed();
  for (const auto& [job, member] : owed_) {
    for (int64_t n = 1; n <= batches_; ++n) {
      const std::string path = join_path(
          join_path(join_path(settings_.folder, std::to_string(n)), "spool"), job + ".json");
      if (!files_.exists(path)) continue;
      auto text = files_.read(path, uint64_t{16} << 20);
      if (!text) continue;  // it is just being brought
      return Answer{job, std::string(trim(*text))};
    }
  }
  return std::nullopt;
}

std::optional<Batches::Member> Batches::settle(const std::string& job) {
  const auto at = owed_.find(job);
  if (at == owed_.end()) return std::nullopt;
  Member out = std::move(at->second);
  owed_.erase(at);
  return out;
}

std::optional<Error> Batches::trouble() { return std::exchange(trouble_, std::nullopt); }

}  // namespace sculler::search
