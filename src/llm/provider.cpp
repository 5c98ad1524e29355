#include "llm/provider.h"

#include <fmt/format.h>

namespace sculler::llm {

std::string Request::name() const {
  return step == 0 ? fmt::format("{:06}-{}", index, role)
                   : fmt::format("{:06}-{}-{}", index, role, step);
}

std::string_view fault_name(Fault fault) {
  switch (fault) {
    case Fault::kTimeout: return "timeout";
    case Fault::kCancelled: return "cancelled";
    case Fault::kUnreachable: return "unreachable";
    case Fault::kRateLimited: return "rate_limited";
    case Fault::kServer: return "server";
    case Fault::kRefused: return "refused";
    case Fault::kRejected: return "rejected";
    case Fault::kTooLong: return "too_long";
    case Fault::kTooBig: return "too_big";
    case Fault::kHalf: return "half";
    case Fault::kEncoding: return "encoding";
    case Fault::kMalformed: return "malformed";
    case Fault::kSchema: return "schema";
    case Fault::kBudget: return "budget";
    case Fault::kDown: return "down";
    case Fault::kMismatch: return "mismatch";
    case Fault::kSetup: return "setup";
  }
  return "unknown";
}

namespace {
ErrorCode code_of(Fault kind) {
  switch (kind) {
    case Fault::kTimeout: return ErrorCode::kTimeout;
    case Fault::kBudget: return ErrorCode::kModelBudget;
    case Fault::kMismatch: return ErrorCode::kBadInput;
    case Fault::kCancelled: return ErrorCode::kTimeout;
    default: return ErrorCode::kModel;
  }
}
}  // namespace

tl::unexpected<Failure> fault(Fault kind, std::string message, std::string cure) {
  return tl::unexpected<Failure>(
      Failure{kind, Error{code_of(kind), std::move(message), {}, {}, std::move(cure)}});
}

Reply FakeProvider::ask(const Request& request) {
  if (stopped_) return fault(Fault::kCancelled, "the run was stopped");
  {
    const std::lock_guard lock(mutex_);
    asked_.push_back(request);
    ++usage_.asked;
    ++usage_.sent;
    ++usage_.in_flight;
  }
  Reply reply = script_(request);
  const std::lock_guard lock(mutex_);
  --usage_.in_flight;
  if (reply) {
    ++usage_.answered;
    usage_.prompt_tokens += reply->prompt_tokens;
    usage_.answer_tokens += reply->answer_tokens;
    usage_.usd += reply->usd;
    if (reply->model.empty()) reply->model = "fake";
  } else {
    ++usage_.faults[static_cast<std::size_t>(reply.error().fault)];
  }
  return reply;
}

void FakeProvider::reward(std::string_view model, double worth) {
  const std::lock_guard lock(mutex_);
  rewards_.emplace_back(model, worth);
}

Usage FakeProvider::usage() const {
  const std::lock_guard lock(mutex_);
  return usage_;
}

std::vector<Request> FakeProvider::asked() const {
  const std::lock_guard lock(mutex_);
  return asked_;
}

std::vector<std::pair<std::string, double>> FakeProvider::rewards() const {
  const std::lock_guard lock(mutex_);
  return rewards_;
}

}  // namespace sculler::llm
