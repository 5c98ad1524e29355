// Control messages between a rank (untrusted) and the trusted process of its job: sculler-verify on
// cuda and cpu, sculler-vm on emu. One SOCK_SEQPACKET socket a rank; every message is one packet of
// exactly sizeof(Message) bytes, at most one file descriptor beside it. The trusted side checks
// every field and believes nothing but order and arrival.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace sculler::rank {

inline constexpr uint32_t kMagic = 0x4c554353;  // "SCUL"
inline constexpr uint32_t kProtocolVersion = 1;
inline constexpr std::size_t kTextBytes = 360;

enum class Kind : uint32_t {
  // rank -> trusted
  kHello = 1,     // a = protocol version, b = pid
  kUniqueId = 2,  // rank 0 only: text = the 128 bytes of ncclUniqueId
  kPool = 3,    // a = set, b = buffer, u[0] = address in the rank, u[1] = bytes; descriptor on cuda
                // and cpu
  kReady = 4,   // sculler_setup returned 0 on this rank
  kOpened = 5,  // a = iteration: barrier passed, the host is about to call sculler_run; u[0] =
                // CLOCK_MONOTONIC ns
  kEnqueued = 6,  // a = iteration: sculler_run returned
  kDone =
      7,  // a = iteration: device-wide synchronisation returned; u[0] = opened ns, u[1] = done ns,
          // u[2] = ns between events on the rank's stream; evidence, not truth
  kFault = 8,      // a = FaultCode, b = number the candidate or library returned; text = what
  kBye = 9,        // teardown finished
  kCaptured = 10,  // a = iteration, b = 0: the graph is there; 1: the candidate cannot be captured
  // trusted -> rank
  kWelcome = 32,  // a = rank
  kSetUniqueId = 33,
  kSetup = 34,  // load the candidate and call sculler_setup
  kRun = 35,    // a = iteration, b = set, u[0] = flags (RunFlag), u[1] = delay ns before, u[2] =
                // delay ns inside
  kTeardown = 36,
  kQuit = 37,
  kCapture = 38,  // a = iteration, u[0] = mask of sets: sculler_run of each, in order, becomes one
                  // graph; before the inputs of that iteration are filled
};

enum class FaultCode : int32_t {
  kLoad = 1,    // dlopen, missing entry point, ABI version
  kSetup = 2,   // sculler_setup returned non-zero
  kRun = 3,     // sculler_run returned non-zero
  kLaunch = 4,  // cudaGetLastError or synchronisation after run
  kOutOfMemory = 5,
  kUnsupported =
      6,  // the emulator does not know an instruction or a call; SCULLER_UNSUPPORTED_PROBLEM
  kEnvironment = 7,  // no device, NCCL version, multicast not off: the rank refuses to start
  kTeardown = 8,
};

// kCalibrate: everything but the candidate, which is not loaded yet; `a` is then negative
// (docs/measuring.md).
// kReplay: the captured graph is launched, once, in place of sculler_run.
enum RunFlag : uint64_t { kFlushL2 = 1, kWarmUp = 2, kCalibrate = 4, kReplay = 8 };

struct Message {
  uint32_t magic = kMagic;
  Kind kind = Kind::kHello;
  int32_t a = 0, b = 0;
  uint64_t u[4] = {0, 0, 0, 0};
  uint32_t text_bytes = 0;
  uint32_t reserved = 0;
  char text[kTextBytes] = {};
};
static_assert(std::is_trivially_copyable_v<Message> && sizeof(Message) == 416);

}  // namespace sculler::rank
