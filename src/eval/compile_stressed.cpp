// nvcc in two halves: what it would run is asked of it, the PTX is rewritten between the front end
// and the assembler.
#include <filesystem>

#include "base/files.h"
#include "base/strings.h"
#include "eval/compile.h"
#include "eval/stress_ptx.h"

namespace sculler::eval {
namespace fs = std::filesystem;

StagedScript split_dryrun(std::string_view output) {
  StagedScript out;
  bool after = false;
  for (const auto line : split(output, '\n')) {
    if (!line.starts_with("#$ ")) continue;
    const auto command = trim(line.substr(3));
    if (command.empty() || command.starts_with("-- ")) continue;
    const auto equals = command.find('=');
    const bool assigns = equals != std::string_view::npos &&
                         command.substr(0, equals).find_first_of(" \"/$") == std::string_view::npos;
    if (assigns) {
      const auto name = command.substr(0, equals);
      // The others hold what the commands spell out themselves.
      if (name != "TOP" && name != "CICC_PATH" && name != "NVVMIR_LIBRARY_DIR" && name != "PATH")
        continue;
      const std::string text =
          "export " + std::string(name) + "='" + std::string(command.substr(equals + 1)) + "'\n";
      out.before += text;
      out.after += text;
      continue;
    }
    if (command.starts_with("rm ")) continue;
    after = after || command.starts_with("ptxas ") || command.starts_with("fatbinary ");
    (after ? out.after : out.before) += std::string(command) + " || exit 1\n";
  }
  return out;
}

Result<CommandResult> ToolCompiler::run_stressed(Confined c, const std::string& work,
                                                 int64_t timeout_ms, int& points) {
  constexpr uint64_t kOutput = uint64_t{1} << 20;
  points = 0;
  for (const char* word : {"--keep", "--keep-dir", ".", "-dryrun"}) c.argv.emplace_back(word);
  auto plan = run_command(processes_, sandbox_.wrap(c), "", timeout_ms, kOutput);
  if (!plan || !plan->status.ok()) return plan;
  const auto script = split_dryrun(plan->err);
  for (const auto& [name, text] :
       {std::pair{"/before.sh", script.before}, std::pair{"/after.sh", script.after}}) {
    if (auto done = real_files().write_atomic(work + name, text); !done) return fail(done.error());
  }
  c.argv = {"/bin/sh", "before.sh"};
  auto front = run_command(processes_, sandbox_.wrap(c), "", timeout_ms, kOutput);
  if (!front || !front->status.ok()) return front;
  std::error_code why;
  for (const auto& entry : fs::directory_iterator(work, why)) {
    if (entry.path().extension() != ".ptx") continue;
    auto text = real_files().read(entry.path().string(), uint64_t{256} << 20);
    if (!text) return fail(text.error());
    auto stressed = stress_ptx(*text);
    points += stressed.points;
    if (auto done = real_files().write_atomic(entry.path().string(), stressed.text); !done)
      return fail(done.error());
  }
  if (points == 0) return front;
  c.argv = {"/bin/sh", "after.sh"};
  return run_command(processes_, sandbox_.wrap(c), "", timeout_ms, kOutput);
}

}  // namespace sculler::eval
