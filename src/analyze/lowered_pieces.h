// The pieces of lowered_text.h, as CUDA text: windows, device communicator, set-up.
#pragma once

#include <string_view>

namespace sculler::analyze::pieces {

inline constexpr std::string_view kTunables = R"(// sculler:tune LOWERED_CTAS in {4,8,16,32,64}
#ifndef LOWERED_CTAS
#define LOWERED_CTAS 16
#endif
// sculler:tune LOWERED_THREADS in {128,256,512}
#ifndef LOWERED_THREADS
#define LOWERED_THREADS 512
#endif

)";

inline constexpr std::string_view kExchangeTypes =
    R"(// A group of sends and receives is one kernel. A receiver writes a letter about each receive; the sender reads where
// to store. Letters of one pair of ranks are numbered in the order of the calls.
constexpr int kMoves = 48;            // sends, and receives, that one group may hold on a rank
constexpr int kLettersAPair = 16;     // of them between two ranks
constexpr size_t kMostWindows = 1024;

struct Letter {
  uint64_t offset, bytes;
  uint32_t window;  // index into Context::windows: the same memory on every rank
  uint32_t phase;
};
struct Send {
  const void* from;
  uint64_t bytes;
  int32_t to, number;
};
struct Receive {
  uint64_t offset, bytes;
  uint32_t window;
  int16_t from, number;
};
struct Exchange {
  int n_sends, n_receives;
  Send send[kMoves];
  Receive receive[kMoves];
};

)";

inline constexpr std::string_view kContextBegin =
    R"(// Memory that every rank has registered in the same order: index i means the same window on all ranks.
struct Window {
  char* begin;
  size_t bytes;
  ncclWindow_t window;
  size_t offset;  // of `begin` in the window
};

struct Context {
  ncclComm_t host_comm = nullptr;
  ncclDevComm comm{};
  std::vector<Window> windows;
)";
inline constexpr std::string_view kContextGroups =
    R"(  int depth = 0;  // of ncclGroupStart
  std::vector<std::function<ncclResult_t()>> waiting;  // until the outermost group ends
)";
inline constexpr std::string_view kContextStreams =
    R"(  cudaEvent_t done = nullptr;  // after the last collective: the next one follows it, on whatever stream
  cudaStream_t last = nullptr;
  bool any = false;
)";
inline constexpr std::string_view kContextExchange =
    R"(  Exchange exchange{};           // of the group that is open
  std::vector<int> sent, received;  // numbers of letters, a peer
  void* mail = nullptr;             // [CTA][sender][number] letters
  ncclWindow_t mailbox = nullptr;
  ncclWindow_t* table = nullptr;    // windows[i].window, for kernels
  unsigned phase = 0;
)";
inline constexpr std::string_view kContextEnd = R"(};
Context context;

)";

inline constexpr std::string_view kPublish = R"(inline bool publish_windows() {
  if (context.windows.size() > kMostWindows) return false;
  std::vector<ncclWindow_t> handles;
  for (const Window& window : context.windows) handles.push_back(window.window);
  return context.table == nullptr || handles.empty() ||
         cudaMemcpy(context.table, handles.data(), handles.size() * sizeof(ncclWindow_t), cudaMemcpyHostToDevice) ==
             cudaSuccess;
}

)";

inline constexpr std::string_view kRemember =
    R"(inline bool remember(void* begin, size_t bytes, ncclWindow_t window, size_t offset) {
  context.windows.push_back({static_cast<char*>(begin), bytes, window, offset});
  return true;
}

)";
inline constexpr std::string_view kRememberAndPublish =
    R"(inline bool remember(void* begin, size_t bytes, ncclWindow_t window, size_t offset) {
  context.windows.push_back({static_cast<char*>(begin), bytes, window, offset});
  return publish_windows();
}

)";

inline constexpr std::string_view kScratch =
    R"(// cudaMalloc for memory that peers reach: collective, of one size and in one order on all ranks.
template <class T>
cudaError_t window_malloc(T** pointer, size_t bytes) {
  void* memory = nullptr;
  ncclWindow_t window = nullptr;
  if (bytes == 0) bytes = 1;
  if (ncclMemAlloc(&memory, bytes) != ncclSuccess) return cudaErrorMemoryAllocation;
  if (ncclCommWindowRegister(context.host_comm, memory, bytes, &window, NCCL_WIN_COLL_SYMMETRIC) != ncclSuccess ||
      !remember(memory, bytes, window, 0))
    return cudaErrorMemoryAllocation;
  *pointer = static_cast<T*>(memory);
  return cudaSuccess;
}

// cudaFree for what window_malloc gave, and for all else.
inline cudaError_t window_free(void* pointer) {
  for (Window& window : context.windows) {
    if (pointer == nullptr || window.begin != pointer) continue;
    window.begin = nullptr;  // its index stays taken
    window.bytes = 0;
    if (ncclCommWindowDeregister(context.host_comm, window.window) != ncclSuccess ||
        ncclMemFree(pointer) != ncclSuccess)
      return cudaErrorInvalidValue;
    return cudaSuccess;
  }
  return cudaFree(pointer);
}

)";

inline constexpr std::string_view kRegisters = R"(// ncclCommWindowRegister that remembers.
inline ncclResult_t window_register(ncclComm_t comm, void* pointer, size_t bytes, ncclWindow_t* window, int flags) {
  const ncclResult_t code = ncclCommWindowRegister(comm, pointer, bytes, window, flags);
  if (code != ncclSuccess) return code;
  return remember(pointer, bytes, *window, 0) ? ncclSuccess : ncclSystemError;
}

)";

inline constexpr std::string_view kSetupBegin =
    R"(// Collective. Windows of the pool first, set by set; then what the program allocates for itself.
inline int setup(const sculler_rank* rank, const sculler_pool* pool) {
  if (rank->lsa_size != rank->n_ranks) return SCULLER_UNSUPPORTED_PROBLEM;  // peers are reached by load and store
  context = Context{};
  context.host_comm = static_cast<ncclComm_t>(rank->comm);
  for (uint32_t s = 0; s < pool->n_sets; ++s) {
    for (uint32_t b = 0; b < pool->set[s].n_buffers; ++b) {
      const sculler_buffer& buffer = pool->set[s].buffer[b];
      if (buffer.window != nullptr &&
          !remember(buffer.ptr, buffer.bytes, static_cast<ncclWindow_t>(buffer.window), buffer.offset))
        return SCULLER_ERROR;
    }
  }
  ncclDevCommRequirements requirements{};
  requirements.lsaBarrierCount = LOWERED_CTAS;
  if (ncclDevCommCreate(context.host_comm, &requirements, &context.comm) != ncclSuccess) return SCULLER_ERROR;
  (void)cudaGetLastError();  // ncclDevCommCreate can leave a stale error behind
)";
inline constexpr std::string_view kSetupExchange =
    R"(  context.sent.assign(static_cast<size_t>(rank->n_ranks), 0);
  context.received = context.sent;
  const size_t mail = LOWERED_CTAS * static_cast<size_t>(rank->n_ranks) * kLettersAPair * sizeof(Letter);
  if (ncclMemAlloc(&context.mail, mail) != ncclSuccess || cudaMemset(context.mail, 0, mail) != cudaSuccess ||
      cudaDeviceSynchronize() != cudaSuccess ||
      ncclCommWindowRegister(context.host_comm, context.mail, mail, &context.mailbox, NCCL_WIN_COLL_SYMMETRIC) !=
          ncclSuccess ||
      cudaMalloc(&context.table, kMostWindows * sizeof(ncclWindow_t)) != cudaSuccess || !publish_windows())
    return SCULLER_ERROR;
)";
inline constexpr std::string_view kSetupEnd = R"(  return SCULLER_OK;
}

inline void teardown() {
  (void)cudaDeviceSynchronize();
  (void)ncclDevCommDestroy(context.host_comm, &context.comm);
)";
inline constexpr std::string_view kTeardownExchange =
    R"(  (void)ncclCommWindowDeregister(context.host_comm, context.mailbox);
  (void)ncclMemFree(context.mail);
  (void)cudaFree(context.table);
  context.table = nullptr;
)";
inline constexpr std::string_view kTeardownEnd = "}\n";

}  // namespace sculler::analyze::pieces
