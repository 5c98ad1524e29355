// Every symbol that the real library exports (symbols.inc) as a weak function that says so to the
// VM and answers "not supported"; the functions that are written elsewhere in the library are
// strong and win.
#include "emu/client/client.h"
#include "library.inc"  // SCULLER_NOT_SUPPORTED: the library's own code

#define SCULLER_SYMBOL(name)                                                          \
  extern "C" __attribute__((weak, visibility("default"))) int name() {                \
    sculler::emu::client::unsupported(#name, "the emulator does not know this call"); \
    return SCULLER_NOT_SUPPORTED;                                                     \
  }
#include "symbols.inc"
