#include "steer/policy.h"

#include "base/strings.h"
#include "steer/policies/policies.h"

namespace sculler::steer {

namespace {

constexpr PolicyName kNames[] = {
    {"none", "", "no buffer: every remote row is fetched"},
    {"degree", "", "static: the rows of the highest degrees, fetched once"},
    {"vip", "", "static: the rows most likely to be sampled (SALIENT++), fetched once"},
    {"massivegnn", "minibatches between replacements (32)",
     "scores; starts with the highest degrees, replaces at a fixed interval"},
    {"rudder", "minibatches between replacements (none: a decision)",
     "scores; starts empty, replaces when a decision says so"},
    {"lru", "", "least recently used leaves"},
    {"lfu", "", "least frequently used leaves"},
    {"clock", "", "second chance"},
    {"sieve", "", "SIEVE"},
    {"s3fifo", "", "S3-FIFO"},
    {"free", "decay of counts a minibatch (1)",
     "keeps what was fetched anyway where its count is above the lowest"},
    {"known", "minibatches ahead (64)", "the next uses within the schedule decide"},
    {"belady", "", "the optimum for a trace: all next uses are known"},
};

tl::unexpected<Error> bad(std::string_view specification, std::string message) {
  return fail(
      {ErrorCode::kUsage, std::move(message), {}, "policy " + std::string(specification), {}});
}

}  // namespace

std::span<const PolicyName> policy_names() { return kNames; }

Result<std::unique_ptr<Policy>> make_policy(std::string_view specification, uint64_t capacity,
                                            const Knobs& knobs) {
  const auto colon = specification.find(':');
  const std::string_view name = specification.substr(0, colon);
  const bool given = colon != std::string_view::npos;
  const std::string_view text = given ? specification.substr(colon + 1) : std::string_view();
  const PolicyName* known = nullptr;
  for (const auto& n : kNames)
    if (name == n.name) known = &n;
  if (known == nullptr) {
    std::string all;
    for (const auto& n : kNames) all += (all.empty() ? "" : ", ") + std::string(n.name);
    return bad(specification, "there is no such policy; there are " + all);
  }
  if (given && *known->parameter == 0) return bad(specification, "it takes no parameter");

  if (name == "free") {
    double decay = 1;
    if (given) {
      const auto value = parse_double(text);
      if (!value || !(*value >= 0.01 && *value <= 1))
        return bad(specification, "the decay must be a number from 0.01 to 1");
      decay = *value;
    }
    return make_free(capacity, decay, knobs);
  }
  uint64_t count = name == "massivegnn" ? 32 : name == "known" ? 64 : 0;
  if (given) {
    const auto value = parse_int(text);
    if (!value || *value < 1 || *value > 1'000'000'000)
      return bad(specification, "the number must be a whole one from 1 to 1000000000");
    count = static_cast<uint64_t>(*value);
  }
  if (name == "massivegnn") return make_scores(capacity, count, count, knobs);
  if (name == "rudder") return make_scores(capacity, count, 1, knobs);
  if (name == "known") return make_known(capacity, count, knobs);
  if (name == "belady") return make_known(capacity, UINT64_MAX, knobs);
  if (name == "lru") return make_lru(capacity);
  if (name == "lfu") return make_lfu(capacity);
  if (name == "clock") return make_clock(capacity);
  if (name == "sieve") return make_sieve(capacity);
  if (name == "s3fifo") return make_s3fifo(capacity);
  return make_static();  // none, degree, vip: what is preloaded stays
}

}  // namespace sculler::steer
