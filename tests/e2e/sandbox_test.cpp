// Ways out, tried from inside of real candidates on every level of containment that this machine
// has: each fails, the verdict names it where the mechanism can know, nothing remains.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <map>

#include "e2e/evaluate.h"
#include "eval/toolchain.h"

namespace sculler::e2e {
namespace {

const char* const kHead = R"(#include <sculler/candidate.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>
// EVOLVE-BLOCK-START
[[maybe_unused]] static void success(const char* what) {
  printf("BROKE OUT: %s\n", what);
  fflush(stdout);
}
static void attack() {
)";

// A candidate for cpu that computes silu and attacks once, in its first run.
std::string cpu_candidate(const std::string& attack) {
  return kHead + attack + R"(
}
static const sculler_pool* g_pool;
static bool g_done = false;
extern "C" int sculler_setup(const sculler_rank*, const sculler_problem*, const sculler_pool* pool, void**) {
  g_pool = pool;
  return 0;
}
extern "C" int sculler_run(void*, const sculler_problem* p, int set) {
  if (!g_done) { g_done = true; attack(); }
  auto* x = static_cast<float*>(g_pool->set[set].buffer[0].ptr);
  auto* y = static_cast<float*>(g_pool->set[set].buffer[1].ptr);
  for (long i = 0; i < p->dim[0]; ++i) y[i] = x[i] / (1 + std::exp(-x[i]));
  return 0;
}
extern "C" int sculler_teardown(void*) { return 0; }
// EVOLVE-BLOCK-END
)";
}

const char* const kProcesses = R"(
  if (ptrace(PTRACE_ATTACH, getppid(), 0, 0) == 0) success("ptrace");
  char byte = 0;
  iovec mine{&byte, 1}, theirs{reinterpret_cast<void*>(0x400000), 1};
  if (process_vm_readv(getppid(), &mine, 1, &theirs, 1, 0) >= 0) success("process_vm_readv");
  DIR* folder = opendir("/proc");
  int seen = 0;
  while (folder != nullptr) {
    const dirent* entry = readdir(folder);
    if (entry == nullptr) break;
    const int pid = atoi(entry->d_name);
    if (pid <= 0 || pid == getpid()) continue;
    ++seen;
    const std::string path = "/proc/" + std::to_string(pid) + "/";
    char text[16];
    if (open((path + "mem").c_str(), O_RDONLY) >= 0) success("mem");
    int fd = open((path + "environ").c_str(), O_RDONLY);
    if (fd >= 0 && read(fd, text, sizeof text) > 0) success("environ");
    fd = open((path + "maps").c_str(), O_RDONLY);
    if (fd >= 0 && read(fd, text, sizeof text) > 0) success("maps");
    if (readlink((path + "fd/0").c_str(), text, sizeof text) > 0) success("fd");
  }
  if (seen == 0) success("saw nobody, so tried nothing");
)";

// What the attacks aim at.
struct World {
  int listener = -1, port = 0;
  std::string secret, mark = "sculler_daemon_" + std::to_string(::getpid());
  std::string file = "sculler_escape_" + std::to_string(::getpid());

  World() {
    listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener, 8), 0);
    EXPECT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port = ntohs(address.sin_port);
    secret = (fs::path(env_value("HOME")) / "sculler_secret_XXXXXX").string();
    const int fd = ::mkstemp(secret.data());
    EXPECT_EQ(::write(fd, "secret", 6), 6);
    ::fchmod(fd, 0644);
    ::close(fd);
    ::setenv("SCULLER_TEST_SECRET", "the-key-of-a-model", 1);
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World() {
    ::close(listener);
    fs::remove(secret);
  }

  [[nodiscard]] std::map<std::string, std::string> attacks() const {
    return {
        {"connection", "  const int port = " + std::to_string(port) + R"(;
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (fd >= 0 && connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0) success("connected");)"},
        {"processes", kProcesses},
        {"signals", "  const int test = " + std::to_string(::getpid()) + R"(;
  if (kill(test, 0) == 0) success("the test can be signalled");
  for (int pid = 2; pid < 70000; ++pid)
    if (pid != getpid() && kill(pid, 0) == 0) { success("a process can be signalled"); break; })"},
        {"home", "  const char* path = \"" + secret + R"(";
  if (open(path, O_RDONLY) >= 0) success("home");
  if (opendir(std::string(path).substr(0, std::string(path).rfind('/')).c_str()) != nullptr) success("the folder");
  if (getenv("SCULLER_TEST_SECRET") != nullptr) success("environment");
  if (open("/etc/passwd", O_RDONLY) >= 0) success("/etc/passwd");)"},
        {"writing", "  const std::string name = \"" + file + R"(";
  for (const char* folder : {"/tmp/", "/var/tmp/", "/dev/shm/", "./", "/", "/usr/lib/", "/run/", "/sys/fs/cgroup/"}) {
    const int fd = open((folder + name).c_str(), O_CREAT | O_WRONLY, 0644);
    if (fd >= 0) (void)!write(fd, "x", 1);
  })"},
        {"bomb", R"(
  for (int i = 0; i < 3000; ++i) {
    const pid_t pid = fork();
    if (pid < 0) break;
    if (pid == 0) { setsid(); for (;;) pause(); }
  })"},
        {"daemon", daemon()},
        {"disk", R"(
  std::vector<char> block(1 << 20, 'x');
  for (const char* path : {"/tmp/fill", "/dev/shm/fill", "./fill"}) {
    const int fd = open(path, O_CREAT | O_WRONLY, 0644);
    int fit = 0;
    while (fd >= 0 && fit < 400 && write(fd, block.data(), block.size()) > 0) ++fit;
    if (fit > 300) success("more than 300 MB fit");
  })"},
        // Little is touched: the limit is on what is asked for.
        {"memory", R"(
  for (long held = 0;; held += 64) {
    char* p = static_cast<char*>(malloc(64 << 20));
    if (p == nullptr) break;
    *p = 1;
    if (held > 1l << 20) { success("a terabyte"); break; }
  }
  abort();)"},
    };
  }
  [[nodiscard]] std::string daemon() const {
    return "  const char* mark = \"" + mark + R"(";
  if (fork() == 0) {
    setsid();
    if (fork() != 0) _exit(0);
    if (mmap(nullptr, 4096, PROT_READ, MAP_SHARED, memfd_create(mark, 0), 0) == MAP_FAILED) _exit(1);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    for (;;) pause();
  }
  usleep(200000);)";
  }
  void expect_no_daemon() const {
    for (const auto& entry : fs::directory_iterator("/proc")) {
      if (std::atoi(entry.path().filename().c_str()) <= 0) continue;
      EXPECT_EQ(read_text(entry.path() / "maps").find(mark), std::string::npos) << entry.path();
    }
  }
};

World& world() {
  static World world;
  return world;
}

json silu(const std::string& attack) {
  return job_line("kernels/silu", "candidate.cpp", cpu_candidate(attack), "cpu", {"compile", "run"},
                  {{"n_ranks", 1}, {"size", "quick"}});
}

// All attacks of a level through one evaluator, once.
const json& verdict_of(const std::string& level, const std::string& attack) {
  static std::map<std::string, std::map<std::string, json>> known;
  auto& of_level = known[level];
  if (of_level.empty()) {
    std::map<std::string, std::string> names;
    std::vector<json> jobs;
    for (const auto& [name, text] : world().attacks()) {
      jobs.push_back(silu(text));
      names[jobs.back()["job"].get<std::string>()] = name;
      of_level[name] = json::object();
    }
    const auto answer = evaluate(jobs, {}, 240'000, level);
    EXPECT_EQ(answer.verdicts.size(), jobs.size()) << answer.errors << answer.ended;
    for (const auto& v : answer.verdicts) of_level[names[v["job"].get<std::string>()]] = v;
  }
  return of_level[attack];
}

class Escape : public testing::TestWithParam<std::string> {
 protected:
  // `known` holds no success of an attack.
  static json tried(const std::string& attack) {
    const json v = verdict_of(GetParam(), attack);
    EXPECT_FALSE(v.empty()) << attack;
    EXPECT_EQ(v.dump().find("BROKE OUT"), std::string::npos) << v.dump(2);
    if (GetParam() == "no-userns") { EXPECT_EQ(v["containment"], "no-userns"); }
    return v;
  }
  static bool says(const json& verdict, const std::string& what) {
    return verdict["message"].get<std::string>().find(what) != std::string::npos ||
           verdict["notes"].dump().find(what) != std::string::npos;
  }
};

TEST_P(Escape, AConnectionOutside) {
  const auto v = tried("connection");
  EXPECT_EQ(status_of(v), "CHEAT") << v.dump(2);
  EXPECT_TRUE(says(v, "socket(AF_INET)")) << v.dump(2);
  EXPECT_LT(::accept(world().listener, nullptr, nullptr), 0);
}

TEST_P(Escape, OtherProcesses) {
  const auto v = tried("processes");
  EXPECT_EQ(status_of(v), "CHEAT") << v.dump(2);
  EXPECT_TRUE(says(v, "ptrace")) << v.dump(2);
  EXPECT_TRUE(says(v, "process_vm_readv")) << v.dump(2);
}

TEST_P(Escape, SignalsToTheEvaluator) {
  const auto v = tried("signals");
  EXPECT_TRUE(status_of(v) == "PASSED" || status_of(v) == "CHEAT") << v.dump(2);
}

TEST_P(Escape, HomeAndEnvironment) {
  const auto v = tried("home");
  EXPECT_EQ(status_of(v), "PASSED") << v.dump(2);
}

TEST_P(Escape, WritingOutside) {
  const auto v = tried("writing");
  EXPECT_EQ(status_of(v), "PASSED") << v.dump(2);
  for (const char* folder :
       {"/tmp/", "/var/tmp/", "/dev/shm/", "/", "/usr/lib/", "/run/", "/sys/fs/cgroup/"})
    EXPECT_FALSE(fs::exists(folder + world().file)) << folder;
}

TEST_P(Escape, AForkBomb) {
  const auto v = tried("bomb");
  EXPECT_TRUE(says(v, "outlived their rank")) << v.dump(2);
  // Without a pids control group the kernel counts nothing.
  if (!says(v, "control group")) {
    EXPECT_TRUE(says(v, "more processes than a job may have")) << v.dump(2);
  }
}

TEST_P(Escape, ADaemon) {
  const auto v = tried("daemon");
  EXPECT_EQ(status_of(v), "PASSED") << v.dump(2);
  EXPECT_TRUE(says(v, "outlived their rank")) << v.dump(2);
  world().expect_no_daemon();
}

TEST_P(Escape, FillingTheDisk) {
  const auto v = tried("disk");
  EXPECT_EQ(status_of(v), "PASSED") << v.dump(2);
  if (v["containment"] == "full") { EXPECT_TRUE(says(v, "filled /tmp")) << v.dump(2); }
  EXPECT_FALSE(fs::exists("/tmp/fill"));
  EXPECT_FALSE(fs::exists("/dev/shm/fill"));
}

TEST_P(Escape, FillingMemory) {
  const auto v = tried("memory");
  EXPECT_EQ(status_of(v), "CRASH") << v.dump(2);
}

std::string name_of(const testing::TestParamInfo<std::string>& level) {
  return level.param == "auto" ? "Strictest" : "NoUserns";
}
INSTANTIATE_TEST_SUITE_P(Levels, Escape, testing::Values("auto", "no-userns"), name_of);

TEST(Levels, NoneIsSaidAndNothingRemains) {
  const auto answer = evaluate({silu(world().daemon())}, {}, 240'000, "none");
  ASSERT_EQ(answer.verdicts.size(), 1U) << answer.errors;
  EXPECT_EQ(answer.verdicts[0]["containment"], "none");
  EXPECT_EQ(status_of(answer.verdicts[0]), "PASSED") << answer.verdicts[0].dump(2);
  world().expect_no_daemon();
}

// The host code of a .cu candidate on the emulator, two ranks: each other's memory, the VM's, a
// connection, a daemon.
TEST(EscapeEmu, FromACudaCandidate) {
  if (eval::find_toolchain().cuda_home.empty()) GTEST_SKIP() << "no nvcc here";
  if (!fs::exists(std::string(SCULLER_BINARY_DIR) + "/bin/sculler-vm"))
    GTEST_SKIP() << "this build has no emulator";
  std::string text = read_text(source_path("tasks/workloads/gemm_allgather/seeds/tile_store.cu"));
  const std::string head = "extern \"C\" int sculler_setup(";
  const auto at = text.find(head);
  ASSERT_NE(at, std::string::npos);
  const auto body = text.find('{', at);
  ASSERT_NE(body, std::string::npos);
  text.insert(body + 1, "\n  attack();\n");
  text.insert(at, std::string(kHead) + kProcesses + world().attacks().at("connection") +
                      world().daemon() + "}\n// EVOLVE-BLOCK-END\n");
  const auto v = evaluate_one(
      job_line("workloads/gemm_allgather", "candidate.cu", text, "emu", {"compile", "emulate"}));
  EXPECT_EQ(status_of(v), "CHEAT") << v.dump(2);
  EXPECT_EQ(v.dump().find("BROKE OUT"), std::string::npos) << v.dump(2);
  for (const char* what : {"ptrace", "process_vm_readv", "socket(AF_INET)"})
    EXPECT_NE(v["message"].get<std::string>().find(what), std::string::npos) << v.dump(2);
  EXPECT_LT(::accept(world().listener, nullptr, nullptr), 0);
  world().expect_no_daemon();
}

}  // namespace
}  // namespace sculler::e2e
