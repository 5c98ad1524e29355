// Any bytes as an adapter's answer (first byte: to which request): refused with a reason, or read
// with bounds. The rest of the input also is an adapter.toml.
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "eval/external_message.h"
#include "eval/verdict.h"
#include "task/adapter.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sculler;
  if (size < 2) return 0;
  const auto operation = static_cast<eval::Operation>(data[0] % 8);
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  constexpr std::size_t kTimes = 3;
  const auto answer = eval::parse_answer(text, operation, 7, kTimes);
  if (!answer) {
    if (answer.error().message.empty()) std::abort();
  } else {
    if (!answer->ok && (!eval::is_status(answer->status) || answer->message.empty() ||
                        answer->status == "PASSED" || answer->status == "CHEAT"))
      std::abort();
    if (answer->ok && operation == eval::Operation::kBenchmark && answer->us.size() != kTimes)
      std::abort();
    for (const double us : answer->us)
      if (!std::isfinite(us) || us <= 0) std::abort();
    for (const auto* list : {&answer->capabilities, &answer->does, &answer->remarks})
      if (list->size() > 32) std::abort();
    if (answer->facts.size() > 32) std::abort();
    for (const auto* word : {&answer->message, &answer->advice, &answer->where, &answer->name,
                             &answer->version, &answer->device, &answer->why}) {
      if (word->size() > 4096 || word->find('\n') != std::string::npos) std::abort();
    }
  }
  MemoryFiles files;
  (void)files.mkdirs("/a");
  (void)files.write_atomic("/a/adapter.toml", text);
  const auto adapter = task::load_adapter(files, "/a/adapter.toml");
  if (!adapter && adapter.error().message.empty()) std::abort();
  if (adapter && (adapter->command.empty() || adapter->name.empty())) std::abort();
  return 0;
}
