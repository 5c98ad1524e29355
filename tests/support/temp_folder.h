// A folder of a test's own, gone when the test is.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>

namespace sculler::test {

class TempFolder {
 public:
  // Below the machine's folder for temporary files (TMPDIR), or below `base`.
  explicit TempFolder(std::string_view name = "sculler_test",
                      const std::filesystem::path& base = std::filesystem::temp_directory_path()) {
    std::string form = (base / (std::string(name) + "_XXXXXX")).string();
    if (::mkdtemp(form.data()) == nullptr) throw std::runtime_error("no folder at " + form);
    path_ = form;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string path(std::string_view below) const {
    return path_ + "/" + std::string(below);
  }

 private:
  std::string path_;
};

}  // namespace sculler::test
