// sculler-gnn train: hands over to sculler-gnn-train, which needs MPI and libtorch; this program
// needs neither.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/files.h"
#include "gnn/app.h"
#include "gnn/trainer_program.h"

namespace sculler::gnn {

Result<std::string> trainer_program() {
  std::string self(4096, '\0');
  const auto n = ::readlink("/proc/self/exe", self.data(), self.size());
  self.resize(n < 0 ? 0 : static_cast<size_t>(n));
  const std::string path = join_path(parent_path(self), "sculler-gnn-train");
  if (real_files().exists(path)) return path;
  return fail({ErrorCode::kNotFound,
               "is not there: it is built where MPI and libtorch are",
               path,
               {},
               "Install libopenmpi-dev, openmpi-bin and libtorch-dev, and build again."});
}

namespace {

Status run(std::vector<std::string> arguments) {
  auto program = trainer_program();
  if (!program) return fail(program.error());
  arguments.insert(arguments.begin(), "sculler-gnn-train");
  std::vector<char*> pointers;
  for (auto& a : arguments) pointers.push_back(a.data());
  pointers.push_back(nullptr);
  // The ranks are the threads: BLAS starts none of its own, which would also change the order of
  // sums.
  for (const char* name : {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"})
    ::setenv(name, "1", 1);
  ::execv(program->c_str(), pointers.data());
  return fail({ErrorCode::kIo,
               std::string("cannot be started: ") + std::strerror(errno),
               *program,
               {},
               {}});
}

}  // namespace

void add_train(CLI::App& cli, App& /*app*/, Action& action) {
  auto* command = cli.add_subcommand(
      "train", "trains on a partitioned graph: mpirun -n 4 sculler-gnn train FOLDER; --help");
  command->prefix_command();
  command->set_help_flag();
  command->callback(
      [command, &action] { action = [rest = command->remaining()] { return run(rest); }; });
}

}  // namespace sculler::gnn
