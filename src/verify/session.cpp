#include "verify/session.h"

#include "verify/session_impl.h"

namespace sculler::verify {

Session::Session(const JobSpec& job, Ranks& ranks, Device& device)
    : impl_(std::make_unique<Impl>(job, ranks, device)) {}
Session::~Session() = default;
bool Session::open() { return impl_->open(); }
bool Session::iterate_replayed() { return impl_->iterate_replayed(); }
bool Session::iterate(const IterationSpec& iteration) { return impl_->iterate(iteration); }
IterationSpec Session::draw(bool warm_up) { return impl_->draw(warm_up); }
bool Session::close() { return impl_->close(); }
const Outcome& Session::outcome() const { return impl_->outcome; }
Outcome& Session::outcome() { return impl_->outcome; }

Outcome run_session(const JobSpec& job, Ranks& ranks, Device& device) {
  Session session(job, ranks, device);
  if (session.open()) {
    bool good = true;
    for (const IterationSpec& iteration : job.iterations) {
      good = session.iterate(iteration);
      if (!good) break;
    }
    if (good) session.close();
  }
  return std::move(session.outcome());
}

}  // namespace sculler::verify
