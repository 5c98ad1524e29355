// libcublasLt: exported so that programs load; no call of it is known.
#include "emu/client/client.h"

#define SCULLER_SYMBOL(name)                                                              \
  extern "C" __attribute__((visibility("default"))) int name() {                          \
    sculler::emu::client::unsupported(#name, "the emulator has no cuBLASLt; use cuBLAS"); \
    return 15; /* CUBLAS_STATUS_NOT_SUPPORTED */                                          \
  }
#include "lt_symbols.inc"
