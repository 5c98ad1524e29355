#include "eval/service.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/json.h"
#include "base/strings.h"
#include "eval/machine_lock.h"

namespace sculler::eval {
namespace {

constexpr int64_t kLeastSilence = 5, kMostSeconds = 10'000'000;

struct SlotOption {
  std::string_view word;
  int64_t low, high;
  void (*set)(SlotSettings&, int64_t);
};
constexpr std::array<SlotOption, 6> kSlotOptions{{
    {"--slots", 1, 1024, [](SlotSettings& s, int64_t n) { s.slots = static_cast<int>(n); }},
    {"--requeues", 0, 100, [](SlotSettings& s, int64_t n) { s.requeues = static_cast<int>(n); }},
    {"--slot-silence", kLeastSilence, kMostSeconds,
     [](SlotSettings& s, int64_t n) { s.silence_ms = n * 1000; }},
    {"--slot-start", 0, kMostSeconds, [](SlotSettings& s, int64_t n) { s.start_ms = n * 1000; }},
    {"--slot-answer", 1, kMostSeconds, [](SlotSettings& s, int64_t n) { s.answer_ms = n * 1000; }},
    {"--slot-idle", 0, kMostSeconds, [](SlotSettings& s, int64_t n) { s.idle_ms = n * 1000; }},
}};

const SlotOption* find_slot_option(std::string_view word) {
  for (const auto& option : kSlotOptions) {
    if (option.word == word) return &option;
  }
  return nullptr;
}

}  // namespace

std::string usage() {
  return R"(sculler-eval: turns jobs into verdicts.

  sculler-eval [options]              job lines on stdin, verdict lines on stdout (docs/internals.md)
  sculler-eval --jobs DIR             runs the job files of DIR, verdicts into DIR/spool, a table on stdout
  sculler-eval --pack DIR             job lines on stdin; fills DIR for a GPU machine without compiler or headers; there: sh DIR/run.sh
  sculler-eval --noise FILE           comparisons of a job's candidate with itself (docs/measuring.md)
  sculler-eval --doctor               what this machine has, as JSON

  --spool DIR          verdicts are kept there; a job that has one is answered from it
  --cache DIR          compiled artifacts and expected outputs (default: $XDG_CACHE_HOME/sculler)
  --cache-bytes N      bound of the compile cache, and of the expected outputs (default 8 GiB each)
  --parallel N         jobs at once (default: one a core)
  --gpu-checks N       checks that share the GPUs at once (default: 1); timings never share them
  --arch 90a           --pack: the GPUs' architecture
  --containment LEVEL  auto, no-userns (as where bubblewrap cannot start) or none (no sandbox);
                       every verdict says which level held
  --srun LINE          jobs run in job steps of Slurm that this srun line starts (docs/slurm.md), with
                       --slots N (steps at once), --shared DIR (the nodes see it; what they need is
                       copied there), --slot-programs DIR (of sculler-eval on the nodes), --requeues N (of a job whose step ends), and bounds in seconds, 0 for none:
                       --slot-silence, --slot-start, --slot-answer, --slot-idle
  --slot SECONDS       is such a step: it greets, says that it lives, and ends after so long a silence
  --weak-checker       jobs may leave defences out, to show what each is worth (docs/exploits.md)
  --version  --help
)";
}

Result<Options> parse_options(const std::vector<std::string>& arguments) {
  Options o;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "--doctor") {
      o.doctor = true;
      continue;
    }
    if (word == "--weak-checker") {
      o.weak_checker = true;
      continue;
    }
    if (word == "--help" || word == "-h") {
      o.help = true;
      continue;
    }
    if (word == "--version") {
      o.version = true;
      continue;
    }
    const std::array<std::string_view, 14> known{
        "--spool", "--cache", "--cache-bytes",   "--gpu-checks", "--parallel",
        "--arch",  "--jobs",  "--pack",          "--noise",      "--containment",
        "--slot",  "--srun",  "--slot-programs", "--shared"};
    const SlotOption* slot = find_slot_option(word);
    if (slot == nullptr && std::find(known.begin(), known.end(), word) == known.end()) {
      return fail(ErrorCode::kUsage, "unknown option '" + printable(word) + "'",
                  "See sculler-eval --help.");
    }
    if (i + 1 == arguments.size()) {
      return fail(ErrorCode::kUsage, word + " needs a value", "See sculler-eval --help.");
    }
    const std::string& value = arguments[++i];
    const auto number = [&]() { return parse_int(value).value_or(-1); };
    if (word == "--spool") o.spool = absolute_path(value);
    if (word == "--cache") o.cache = absolute_path(value);
    if (word == "--jobs") o.jobs_folder = absolute_path(value);
    if (word == "--noise") o.noise_file = absolute_path(value);
    if (word == "--pack") o.pack_folder = absolute_path(value);
    if (word == "--arch") o.arch = value.starts_with("sm_") ? value.substr(3) : value;
    if (word == "--srun") o.srun = value;
    if (word == "--shared") o.shared = absolute_path(value);
    if (word == "--slot-programs") o.slot_programs = value;
    if (word == "--slot") {
      if (number() < kLeastSilence || number() > kMostSeconds)
        return fail(ErrorCode::kUsage, "--slot needs seconds, 5 or more");
      o.slot_silence_ms = number() * 1000;
    }
    if (slot != nullptr) {
      if (number() < slot->low || number() > slot->high)
        return fail(ErrorCode::kUsage, word + " needs a number from " + std::to_string(slot->low) +
                                           " to " + std::to_string(slot->high));
      slot->set(o.slots, number());
    }
    if (word == "--cache-bytes") {
      if (number() < 1 << 20) return fail(ErrorCode::kUsage, "--cache-bytes needs at least 1 MiB");
      o.cache_bytes = static_cast<uint64_t>(number());
    }
    if (word == "--parallel") {
      if (number() < 1 || number() > 1024)
        return fail(ErrorCode::kUsage, "--parallel needs a number from 1 to 1024");
      o.parallel = static_cast<int>(number());
    }
    if (word == "--gpu-checks") {
      if (number() < 1 || number() > 64)
        return fail(ErrorCode::kUsage, "--gpu-checks needs a number from 1 to 64");
      o.gpu_checks = static_cast<int>(number());
    }
    if (word == "--containment") {
      if (value != "none" && value != "no-userns" && value != "auto")
        return fail(ErrorCode::kUsage, "--containment is auto, no-userns or none");
      o.strictest = value == "none"        ? Containment::kNone
                    : value == "no-userns" ? Containment::kNoUserns
                                           : Containment::kFull;
    }
  }
  if (!o.srun.empty() && (!o.jobs_folder.empty() || !o.pack_folder.empty() ||
                          !o.noise_file.empty() || o.slot_silence_ms > 0)) {
    return fail(ErrorCode::kUsage, "--srun is for job lines on stdin",
                "leave --jobs, --pack, --noise and --slot out, or --srun");
  }
  return o;
}

SlurmOptions slurm_options(const Options& options) {
  SlurmOptions slurm;
  slurm.srun = options.srun;
  slurm.name = steps_name(options.spool);
  const std::string programs =
      options.slot_programs.empty() ? find_installation().programs : options.slot_programs;
  slurm.command = {programs + "/sculler-eval", "--slot",
                   std::to_string(options.slots.silence_ms / 1000), "--parallel", "1"};
  if (!options.cache.empty()) slurm.command.insert(slurm.command.end(), {"--cache", options.cache});
  if (options.strictest != Containment::kFull)
    slurm.command.insert(slurm.command.end(),
                         {"--containment", std::string(containment_name(options.strictest))});
  if (options.weak_checker) slurm.command.emplace_back("--weak-checker");
  return slurm;
}

int Service::workers() const {
  return options.parallel > 0 ? options.parallel
                              : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

std::string Service::machine_key(Target target) const {
  if (target != Target::kCuda) return cpu_key(real_files(), machine.n_threads);
  const std::string name = gpus.gpus.empty() ? "no GPU" : printable(shorten(gpus.gpus[0].name, 80));
  return std::to_string(gpus.gpus.size()) + " x " + name + ", driver " +
         std::to_string(gpus.driver);
}

Result<std::unique_ptr<Service>> Service::make(const Options& options) {
  GpuReport gpus;
  if (options.doctor || real_files().exists("/dev/nvidiactl")) gpus = probe_gpus();
  (void)become_subreaper();
  const Installation installation = find_installation();
  std::unique_ptr<Service> s(new Service(Sandbox::detect(real_processes(), options.strictest,
                                                         installation.programs + "/sculler-rank")));
  s->options = options;
  s->gpus = std::move(gpus);
  s->installation = installation;
  s->toolchain = find_toolchain();
  s->cache_folder = options.cache.empty() ? default_cache_folder() : options.cache;
  s->cache = std::make_unique<ArtifactCache>(s->cache_folder, options.cache_bytes);
  if (auto done = s->cache->open(); !done) return fail(done.error());
  s->cache->trim();
  auto scratch = Scratch::make();
  if (!scratch) return fail(scratch.error());
  s->scratch = std::move(*scratch);
  s->machine.weak_checker = options.weak_checker;
  s->machine.gpu_checks = options.gpu_checks;
  s->machine.lock_folder = MachineLock::folder();
  s->machine.containment = containment_name(s->sandbox.level());
  s->machine.containment_why = s->sandbox.why();
  s->machine.dropins = dropin_libraries(s->installation);
  s->machine.cuda_libraries = find_cuda_libraries(s->toolchain);
  s->machine.cuda_arch = gpu_arch(s->gpus);
  s->machine.gpus = static_cast<int>(s->gpus.gpus.size());
  s->machine.nccl_version = s->toolchain.nccl_version;
  s->machine.n_threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  s->machine.expected_cache = s->cache_folder + "/expected";
  s->machine.expected_bytes = options.cache_bytes;
  if (auto done = real_files().mkdirs(s->machine.expected_cache); !done) return fail(done.error());
  s->machine.clocks = &s->clocks;
  s->lines = std::make_unique<ToolLines>(real_processes(), s->sandbox, s->toolchain);
  s->machine.lines = s->lines.get();
  for (const Target target : {Target::kCpu, Target::kCuda}) {
    const auto known = load_spread(real_files(), s->cache_folder, s->machine_key(target), target);
    if (known) s->machine.spreads[target] = known->fraction;
  }
  s->compiler =
      std::make_unique<ToolCompiler>(real_processes(), s->sandbox, s->toolchain, *s->cache);
  s->launcher = std::make_unique<LocalLauncher>(real_processes(), s->sandbox, s->installation,
                                                s->scratch->folder());
  s->external = std::make_unique<LocalExternalHost>(real_processes(), s->sandbox, s->installation,
                                                    s->scratch->folder());
  s->machine.external = s->external.get();
  s->cascade = std::make_unique<Cascade>(real_files(), s->linter, *s->compiler, s->toolchain,
                                         s->installation.share, *s->launcher, s->machine);
  return s;
}

std::string doctor_json(Service& s) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& g : s.gpus.gpus) {
    list.push_back({{"name", g.name},
                    {"compute_capability", std::to_string(g.major) + "." + std::to_string(g.minor)},
                    {"sms", g.sms},
                    {"bytes", g.bytes}});
  }
  nlohmann::json programs = nlohmann::json::object();
  for (const char* name : {"sculler-rank", "sculler-verify", "sculler-vm"}) {
    programs[name] = real_files().exists(s.installation.programs + "/" + name);
  }
  std::string nvcc_version;
  if (!s.toolchain.cuda_home.empty()) {
    SpawnOptions ask;
    ask.argv = {s.toolchain.cuda_home + "/bin/nvcc", "--version"};
    ask.env = {{"PATH", "/usr/bin:/bin"}};
    auto answer = run_command(real_processes(), ask, "", 10'000, 4096);
    if (answer && answer->status.ok()) {
      const auto at = answer->out.find(", V");
      if (at != std::string::npos)
        nvcc_version =
            std::string(trim(answer->out.substr(at + 3, answer->out.find('\n', at) - at - 3)));
    }
  }
  const nlohmann::json report{
      {"version", 1},
      {"containment",
       {{"level", s.machine.containment},
        {"why", s.machine.containment_why},
        {"cure", s.sandbox.cure()},
        {"parts", s.sandbox.parts()}}},
      {"cuda", {{"home", s.toolchain.cuda_home}, {"nvcc", nvcc_version}}},
      {"nccl", {{"include", s.toolchain.nccl_include}, {"version", s.toolchain.nccl_version}}},
      {"cutlass", s.toolchain.cutlass_include},
      {"openblas",
       {{"library", s.toolchain.openblas_library}, {"include", s.toolchain.openblas_include}}},
      {"gxx", s.toolchain.gxx},
      {"gpus", list},
      {"gpu_problem", s.gpus.problem},
      {"driver", s.gpus.driver},
      {"cuda_libraries", s.machine.cuda_libraries},
      {"emulator_libraries", s.machine.dropins},
      {"programs", programs},
      {"share", s.installation.share},
      {"cache", s.cache_folder},
      {"cores", s.machine.n_threads}};
  return pretty_json(report);
}

bool LineReader::next(std::string& line) {
  for (;;) {
    if (const auto end = buffer_.find('\n'); end != std::string::npos) {
      line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      if (skipping_) {
        skipping_ = false;
        continue;
      }
      return true;
    }
    if (buffer_.size() > limit_) {
      if (!skipping_) {
        skipping_ = true;
        line = buffer_.substr(0, limit_);
        buffer_.clear();
        return true;
      }
      buffer_.clear();
    }
    if (ended_) {
      line = std::move(buffer_);
      buffer_.clear();
      return !line.empty() && !skipping_;
    }
    std::array<char, 65536> chunk;
    const auto n = ::read(fd_, chunk.data(), chunk.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      ended_ = true;
    } else {
      buffer_.append(chunk.data(), static_cast<std::size_t>(n));
    }
  }
}

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const auto n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

}  // namespace sculler::eval
