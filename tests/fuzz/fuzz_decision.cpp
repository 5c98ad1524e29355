// What a model answers: refused with a sentence, or a decision within its bounds.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "steer/decision.h"
#include "steer/policy.h"

namespace {
void check(bool ok) {
  if (!ok) std::abort();
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sculler;
  using namespace sculler::steer;
  const auto d = parse_answer({reinterpret_cast<const char*>(data), size});
  if (!d) {
    check(d.error().code == ErrorCode::kModel && !d.error().message.empty());
    return 0;
  }
  check(d->hit_rate && d->communication);
  check(!d->rows || (*d->rows >= 1 && *d->rows <= kMaxRows));
  check(!d->decay || (*d->decay >= 0.01 && *d->decay <= 1));
  check(!d->buffer || (*d->buffer >= 0 && *d->buffer <= 1));
  check(d->policy.empty() || make_policy(d->policy, 2, {}).has_value());
  for (const char c : d->explanation) check(static_cast<unsigned char>(c) >= 0x20);
  return 0;
}
