// Where compilers, headers, programs and drop-in libraries are: found at run time, no path is built
// in.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/process.h"

namespace sculler::eval {

struct Toolchain {
  std::string cuda_home;                     // holds bin/nvcc; empty: none found
  std::string nccl_include;                  // holds nccl_device.h; empty: none found
  int nccl_version = 0;                      // NCCL_VERSION_CODE of those headers, 22809
  std::vector<std::string> cutlass_include;  // empty: none found
  // OpenBLAS with threads of its own; both empty: none found.
  std::string openblas_include, openblas_library;  // folders
  std::string gxx;                                 // absolute path; empty: none found
  std::string addr2line;                           // of binutils; empty: host calls have no lines
  std::string fingerprint;                         // changes whenever one of the tools does
};

// $SCULLER_CUDA_HOME, $CUDA_HOME, /usr/local/cuda, then the private prefix.
[[nodiscard]] Toolchain find_toolchain();

// What belongs to this program itself.
struct Installation {
  std::string programs;  // folder of sculler-rank, sculler-vm, sculler-verify
  std::string dropins;   // folder of the emulator's libcuda.so.1, libnccl.so.2 ...; may not exist
  std::string share;     // holds include/sculler/candidate.h, src/, profiles/; empty: not found
};
// From the folder of this program upwards; $SCULLER_HOME wins for `share`.
[[nodiscard]] Installation find_installation();

// $SCULLER_PREFIX, else $XDG_DATA_HOME/sculler, else ~/.local/share/sculler.
[[nodiscard]] std::string private_prefix();
// $XDG_CACHE_HOME/sculler, else ~/.cache/sculler.
[[nodiscard]] std::string default_cache_folder();

// NCCL_VERSION_CODE as nccl.h defines it; 0 where it does not.
[[nodiscard]] int nccl_version_of(std::string_view header);

// Libraries that ranks preload on cuda, in order, absolute: libcudart, libcublasLt, libcublas,
// libnccl. Missing ones are left out. $SCULLER_NCCL_HOME, next to the headers, the loader's
// folders, Python's nvidia packages.
[[nodiscard]] std::vector<std::string> find_cuda_libraries(const Toolchain& toolchain);
// The emulator's drop-ins, in preload order.
[[nodiscard]] std::vector<std::string> dropin_libraries(const Installation& installation);

}  // namespace sculler::eval
