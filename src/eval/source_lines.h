// Calls in a candidate's host code as its source lines. The emulator names such a call by where it
// stands in the shared object, "candidate.so+0x1a2b+0x2c3d" (return addresses, innermost first), as
// the rank told it; the line comes from the line table of the artifact that was compiled here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/process.h"
#include "eval/outcome.h"
#include "eval/sandbox.h"
#include "eval/toolchain.h"

namespace sculler::eval {

// Offsets in the artifact.
using HostSite = std::vector<uint32_t>;

class SourceLines {
 public:
  virtual ~SourceLines() = default;
  // Beside `sites`: "candidate.cu:88" of the first place that lies in one of the files `sources`
  // (plain names); empty where there is none, or nothing can be asked here.
  [[nodiscard]] virtual std::vector<std::string> find(const std::string& artifact,
                                                      const std::vector<std::string>& sources,
                                                      const std::vector<HostSite>& sites) = 0;
};

// addr2line of binutils, in the compilers' sandbox: a line table is made from hostile text.
class ToolLines final : public SourceLines {
 public:
  ToolLines(Processes& processes, const Sandbox& sandbox, const Toolchain& toolchain)
      : processes_(processes), sandbox_(sandbox), toolchain_(toolchain) {}
  [[nodiscard]] std::vector<std::string> find(const std::string& artifact,
                                              const std::vector<std::string>& sources,
                                              const std::vector<HostSite>& sites) override;

 private:
  Processes& processes_;
  const Sandbox& sandbox_;
  const Toolchain& toolchain_;
};

// What `addr2line -a -i` printed for all offsets of all sites, in order.
[[nodiscard]] std::vector<std::string> read_lines(std::string_view output,
                                                  const std::vector<std::string>& sources,
                                                  const std::vector<HostSite>& sites);
// Puts lines in the place of such calls, in all that the result says; "host code" where a line is
// not known. `lines` may be null.
void name_host_calls(RunResult& result, SourceLines* lines, const std::string& artifact,
                     const std::vector<std::string>& sources);

}  // namespace sculler::eval
