// Any text as task.toml (files it names are absent): an error with a place, never a crash; formulas
// likewise.
#include <cstdlib>
#include <string_view>

#include "base/files.h"
#include "task/formula.h"
#include "task/task.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sculler;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto formula = task::Formula::parse(text))
    (void)formula->real({{"S", 7}, {"K", -3}, {"R", 2}});
  MemoryFiles files;
  (void)files.mkdirs("/t");
  (void)files.write_atomic("/t/task.toml", text);
  (void)files.write_atomic("/t/reference.cpp", "");
  (void)files.write_atomic("/t/b.cu", "");
  const auto loaded = task::load_task(files, "/t");
  if (!loaded && loaded.error().message.empty()) std::abort();
  return 0;
}
