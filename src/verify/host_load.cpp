#include "verify/host_load.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace sculler::verify {

double runnable_per_cpu() {
  std::FILE* file = std::fopen("/proc/loadavg", "re");
  if (file == nullptr) return 1.0;
  double one = 0, five = 0, fifteen = 0;
  int runnable = 0;
  const int fields = std::fscanf(file, "%lf %lf %lf %d/", &one, &five, &fifteen, &runnable);
  std::fclose(file);
  const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
  if (fields != 4 || cpus < 1) return 1.0;
  return std::max(1.0, static_cast<double>(runnable) / static_cast<double>(cpus));
}

}  // namespace sculler::verify
