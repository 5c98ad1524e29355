// Any text as run.toml: an error that names a place, or settings that print and read back the same.
#include <cstdlib>
#include <string_view>

#include "base/files.h"
#include "cli/settings.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sculler;
  MemoryFiles files;
  (void)files.mkdirs("/r");
  (void)files.write_atomic("/r/run.toml",
                           std::string_view(reinterpret_cast<const char*>(data), size));
  cli::Settings settings;
  if (auto read = cli::read_settings(files, "/r/run.toml", settings); !read) {
    if (read.error().message.empty()) std::abort();
    return 0;
  }
  const std::string text = cli::print_settings(settings);
  (void)files.write_atomic("/r/run.toml", text);
  cli::Settings again;
  if (!cli::read_settings(files, "/r/run.toml", again)) std::abort();
  if (cli::print_settings(again) != text) std::abort();
  return 0;
}
