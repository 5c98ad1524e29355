// sculler-vm: the emulator's trusted process. Device memory and kernels of all ranks live here.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>

#include "base/strings.h"
#include "emu/server/job_mode.h"
#include "emu/server/run_mode.h"

namespace {

constexpr const char* kUsage =
    "usage: sculler-vm JOB.json                       one job of sculler-eval (sockets in "
    "SCULLER_CONTROL_FDS, "
    "SCULLER_VM_FDS)\n"
    "       sculler-vm --run N [options] -- PROGRAM [arguments]\n"
    "                                                 N copies of a CUDA program as N ranks\n"
    "options: --tool race,memory,init,deadlock   checks (default: all)\n"
    "         --schedule KIND[:SEED]             round_robin, random:7, priority:7, "
    "delay_rank:1:7\n"
    "         --profile FILE.toml  --memory BYTES  --step-limit N  --timeout SECONDS\n"
    "         --nodes N                          ranks lie on N nodes, joined by GIN (default 1)\n"
    "         --error-exitcode N                 exit code where something was found (default 1)\n"
    "         --libs DIR                         the drop-in libraries (default ../lib/emu)\n"
    "         --json                             the verdict as one JSON line on stdout\n";

int usage(const std::string& message) {
  std::fprintf(stderr, "sculler-vm: %s\n%s", message.c_str(), kUsage);
  return 2;
}

int run_command(int argc, char** argv) {
  sculler::emu::RunOptions options;
  options.vm.schedule.kind = sculler::emu::ScheduleKind::kRandom;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--") {
      options.command.assign(argv + i + 1, argv + argc);
      break;
    }
    if (word == "--json") {
      options.json = true;
      continue;
    }
    if (i + 1 == argc) return usage(word + " wants a value");
    const std::string value = argv[++i];
    const auto number = sculler::parse_int(value);
    if (word == "--tool") {
      std::vector<std::string> names;
      for (const auto part : sculler::split(value, ',')) names.emplace_back(part);
      if (auto set = sculler::emu::set_checks(options.vm, names); !set)
        return usage(set.error().text());
    } else if (word == "--schedule") {
      auto schedule = sculler::emu::parse_schedule(value);
      if (!schedule) return usage(schedule.error().text());
      options.vm.schedule = *schedule;
    } else if (word == "--profile") {
      options.vm.profile = value;
    } else if (word == "--libs") {
      options.library_dir = value;
    } else if (!number || *number < 0) {
      return usage(word + " " + value + ": unknown option, or not a number");
    } else if (word == "--run") {
      options.n_ranks = static_cast<int>(*number);
    } else if (word == "--nodes") {
      options.vm.nodes = static_cast<int>(std::min<int64_t>(*number, sculler::emu::kMaxRanks));
    } else if (word == "--memory") {
      options.vm.memory_bytes = static_cast<uint64_t>(*number);
    } else if (word == "--step-limit") {
      options.vm.step_limit = static_cast<uint64_t>(*number);
    } else if (word == "--timeout") {
      options.timeout_s = static_cast<uint64_t>(*number);
    } else if (word == "--error-exitcode") {
      options.error_exitcode = static_cast<int>(*number);
    } else {
      return usage("unknown option " + word);
    }
  }
  if (options.command.empty()) return usage("no program after --");
  if (options.n_ranks < 1 || options.n_ranks > static_cast<int>(sculler::emu::kMaxRanks)) {
    return usage("--run takes 1 to " + std::to_string(sculler::emu::kMaxRanks) + " ranks");
  }
  return sculler::emu::run_programs(options);
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  try {
    if (argc == 2 && argv[1][0] != '-') return sculler::emu::run_job(argv[1]);
    if (argc > 2 && std::strcmp(argv[1], "--run") == 0) return run_command(argc, argv);
    if (argc == 2 && (std::strcmp(argv[1], "--help") == 0 || std::strcmp(argv[1], "-h") == 0)) {
      std::printf("%s", kUsage);
      return 0;
    }
    return usage("a job file, or --run N -- PROGRAM");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sculler-vm: %s\n", error.what());
    return 1;
  }
}
