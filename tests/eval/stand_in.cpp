// A stand-in for the trusted process and for the ranks: what it does stands in job.json or
// rank.json as plain words.
//   answer TEXT   print TEXT           sleep      for ever           spin      use CPU for ever
//   fork          leave a child that sleeps in a session of its own  env       print the
//   environment fds           print which of the announced descriptors are open  echo      answer
//   every input line with itself crash         abort                files      print what can be
//   read of the machine
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

extern char** environ;

namespace {

void print_fds(const char* variable) {
  const char* list = std::getenv(variable);
  if (list == nullptr) return;
  std::stringstream numbers(list);
  for (std::string word; std::getline(numbers, word, ',');) {
    struct stat info{};
    const bool socket = fstat(std::stoi(word), &info) == 0 && S_ISSOCK(info.st_mode);
    std::printf("%s %s %s\n", variable, word.c_str(), socket ? "socket" : "closed");
  }
}

void print_files() {
  for (const char* path :
       {"/etc/passwd", "/etc/hostname", "/root", "/home", "/usr/bin", "/var/log"}) {
    std::printf("%s %s\n", path, access(path, R_OK) == 0 ? "readable" : "hidden");
  }
  const int made = open("/sculler/job/written", O_CREAT | O_WRONLY, 0600);
  std::printf("job-folder %s\n", made >= 0 ? "writable" : "read-only");
  std::printf("tmp %s\n", open("/tmp/x", O_CREAT | O_WRONLY, 0600) >= 0 ? "writable" : "read-only");
  std::ifstream net("/proc/net/dev");
  int interfaces = 0;
  for (std::string line; std::getline(net, line);)
    interfaces += line.find(':') != std::string::npos ? 1 : 0;
  std::printf("interfaces %d\n", interfaces);
  std::printf("uid %d\n", static_cast<int>(getuid()));
}

}  // namespace

int main(int argc, char** argv) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  std::ifstream in(argv[argc - 1]);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("answer ")) std::puts(line.c_str() + 7);
    if (line == "sleep")
      for (;;) pause();
    if (line == "spin")
      for (unsigned i = 0;; ++i) asm volatile("");
    if (line == "crash") std::abort();
    if (line == "env")
      for (char** e = environ; *e != nullptr; ++e) std::puts(*e);
    if (line == "fds") print_fds("SCULLER_CONTROL_FDS"), print_fds("SCULLER_VM_FDS");
    if (line == "files") print_files();
    if (line == "echo")
      for (std::string said; std::getline(std::cin, said);) std::puts(said.c_str());
    if (line == "fork" && fork() == 0) {
      setsid();
      if (fork() != 0) _exit(0);
      for (;;) pause();
    }
  }
  return 0;
}
