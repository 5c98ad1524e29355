#include "search/asking.h"

#include <algorithm>

namespace sculler::search {

int64_t calls_of(int64_t settings, const AskingRun& run) {
  return std::clamp<int64_t>(settings > 0 ? settings : run.calls, 1, 1024);
}

const char* why_of(llm::Fault fault) {
  return fault == llm::Fault::kBudget     ? "the models' budget"
         : fault == llm::Fault::kDown     ? "models that are down"
         : fault == llm::Fault::kMismatch ? "a cassette of another run"
                                          : "models that cannot be asked";
}

double worth_of(double gain) { return 0.25 + 0.75 * std::clamp((gain - 0.9) / 0.2, 0.0, 1.0); }

}  // namespace sculler::search
