// Answers job lines as sculler-eval does. argv[1]: "answer"; "die N FILE": dies after N answers,
// unless FILE exists (it makes it); "die-always"; "hang"; "noise": says what was not asked.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "answer";
  int left = -1;
  if (mode == "die" && ::access(argv[3], F_OK) != 0) {
    left = std::atoi(argv[2]);
    std::fclose(std::fopen(argv[3], "w"));
  }
  if (mode == "die-always") {
    std::fputs("out of luck\n", stderr);
    return 7;
  }
  for (std::string line; std::getline(std::cin, line);) {
    if (mode == "hang") ::sleep(1000);
    if (left-- == 0) ::_exit(9);
    const auto at = line.find("\"job\":\"");
    const std::string job = mode == "noise" ? std::string(64, 'f') : line.substr(at + 7, 64);
    std::cout << R"({"version":1,"job":")" << job << R"(","status":"PASSED","stage":"emulate"})"
              << std::endl;
  }
}
