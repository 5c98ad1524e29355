// Right and wrong uses of GIN: NCCL's own device code, one kernel a case. Every rank puts to the next one of a ring.
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>

// In the window: what is sent at 0, what arrives at kArrives.
constexpr size_t kArrives = 4096;

struct Place {
  int next, previous;
  ncclTeam world;
};
__device__ Place place_of(const ncclDevComm& comm) {
  const ncclTeam world = ncclTeamWorld(comm);
  return {(world.rank + 1) % world.nRanks, (world.rank + world.nRanks - 1) % world.nRanks, world};
}
__device__ unsigned* words(ncclWindow_t window, size_t offset) {
  return static_cast<unsigned*>(ncclGetLocalPointer(window, offset));
}
__device__ void fill(ncclWindow_t window, int n, unsigned value) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) words(window, 0)[i] = value + i;
  __syncthreads();
}
__device__ void read(ncclWindow_t window, int n, unsigned* out) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = words(window, kArrives)[i];
}

// Right: data, signal, wait; source reusable by flush.
extern "C" __global__ void exchange(ncclDevComm comm, ncclWindow_t window, int n, unsigned value, unsigned* out) {
  ncclGin gin(comm, 1);
  const Place at = place_of(comm);
  fill(window, n, value);
  if (threadIdx.x == 0) gin.put(at.world, at.next, window, kArrives, window, 0, n * 4, ncclGin_SignalInc{0});
  gin.waitSignal(ncclCoopCta(), 0, 1);
  read(window, n, out);
  gin.flush(ncclCoopCta());
  fill(window, n, 7);
}
// Right: two puts with a counter each time, the source is used again behind the counter; the signal is added to.
extern "C" __global__ void counted(ncclDevComm comm, ncclWindow_t window, int n, unsigned value, unsigned* out) {
  ncclGin gin(comm, 0);
  const Place at = place_of(comm);
  for (int k = 0; k < 2; ++k) {
    fill(window, n, value + k);
    if (threadIdx.x == 0) {
      gin.put(at.world, at.next, window, kArrives + k * n * 4, window, 0, n * 4, ncclGin_SignalAdd{1, 5},
              ncclGin_CounterInc{1});
    }
    gin.waitCounter(ncclCoopCta(), 1, k + 1);
  }
  gin.waitSignal(ncclCoopCta(), 1, 10);
  read(window, 2 * n, out);
  if (threadIdx.x == 0) out[2 * n] = static_cast<unsigned>(gin.readSignal(1) + 100 * gin.readCounter(1));
}
// Right: a value of each size, told of by one signal behind them all.
extern "C" __global__ void values(ncclDevComm comm, ncclWindow_t window, unsigned* out) {
  ncclGin gin(comm, 2);
  const Place at = place_of(comm);
  if (threadIdx.x == 0) {
    gin.putValue(at.world, at.next, window, kArrives, uint8_t{0x12});
    gin.putValue(at.world, at.next, window, kArrives + 4, 0x3456789au);
    gin.putValue(at.world, at.next, window, kArrives + 8, 0x0123456789abcdefull);
    gin.signal(at.world, at.next, ncclGin_SignalInc{1});
  }
  gin.waitSignal(ncclCoopCta(), 1, 1);
  if (threadIdx.x == 0) {
    const unsigned* w = words(window, kArrives);
    out[0] = w[0] & 0xff;
    out[1] = w[1];
    out[2] = w[2];
    out[3] = w[3];
  }
}
// Right: barriers of the world order the resets of signals and counters, and shadows that count along.
extern "C" __global__ void resets(ncclDevComm comm, ncclWindow_t window, int n, unsigned value, unsigned* out, int rounds) {
  ncclGin gin(comm, 0);
  const Place at = place_of(comm);
  ncclBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), ncclTeamTagWorld(), gin, 0);
  for (int k = 0; k < rounds; ++k) {
    fill(window, n, value + k);
    if (threadIdx.x == 0) {
      gin.put(at.world, at.next, window, kArrives, window, 0, n * 4, ncclGin_SignalInc{0}, ncclGin_CounterInc{0});
      gin.increaseSignalShadow(0, 1);
    }
    __syncthreads();
    gin.waitSignalMeetShadow(ncclCoopCta(), 0);
    read(window, n, out + k * n);
    gin.waitCounter(ncclCoopCta(), 0, 1);
    __syncthreads();
    if (threadIdx.x == 0) {
      gin.resetSignal(0);
      gin.resetCounter(0);
    }
    __syncthreads();
    barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
  }
}
// Right: a barrier of the rail behind puts to the rail.
extern "C" __global__ void rails(ncclDevComm comm, ncclWindow_t window, int n, unsigned value, unsigned* out) {
  ncclGin gin(comm, 3);
  const ncclTeam rail = ncclTeamRail(comm);
  fill(window, n, value);
  if (threadIdx.x == 0)
    gin.put(rail, (rail.rank + 1) % rail.nRanks, window, kArrives, window, 0, n * 4);
  __syncthreads();
  ncclGinBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), gin, ncclTeamTagRail(), 1);
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
  read(window, n, out);
  gin.flush(ncclCoopCta());
}

// Wrong: what was flushed has not arrived; another context's signal says nothing of it.
extern "C" __global__ void flushed(ncclDevComm comm, ncclWindow_t window, int n, unsigned value, unsigned* out) {
  ncclGin gin(comm, 0), other(comm, 1);
  const Place at = place_of(comm);
  fill(window, n, value);
  if (threadIdx.x == 0) gin.put(at.world, at.next, window, kArrives, window, 0, n * 4);
  gin.flush(ncclCoopCta());
  if (threadIdx.x == 0) other.signal(at.world, at.next, ncclGin_SignalInc{0});
  other.waitSignal(ncclCoopCta(), 0, 1);
  read(window, n, out);
}
// Wrong: signals that were counted to `before` and stay satisfy a shadow that starts at 0.
extern "C" __global__ void void_wait(ncclDevComm comm, ncclWindow_t window, int n, unsigned value, unsigned* out, int before) {
  ncclGin gin(comm, 0);
  const Place at = place_of(comm);
  for (int k = 0; k < before; ++k) {
    if (threadIdx.x == 0) gin.signal(at.world, at.next, ncclGin_SignalInc{0});
  }
  gin.waitSignal(ncclCoopCta(), 0, before);
  fill(window, n, value);
  if (threadIdx.x == 0) {
    gin.put(at.world, at.next, window, kArrives, window, 0, n * 4, ncclGin_SignalInc{0});
    gin.increaseSignalShadow(0, 1);
  }
  __syncthreads();
  gin.waitSignalMeetShadow(ncclCoopCta(), 0);
  read(window, n, out);
}
// Wrong: nothing says that the put has read what is overwritten.
extern "C" __global__ void overwritten(ncclDevComm comm, ncclWindow_t window, int n, unsigned value, unsigned* out) {
  ncclGin gin(comm, 0);
  const Place at = place_of(comm);
  fill(window, n, value);
  if (threadIdx.x == 0) gin.put(at.world, at.next, window, kArrives, window, 0, n * 4, ncclGin_SignalInc{0});
  fill(window, n, 7);
  gin.waitSignal(ncclCoopCta(), 0, 1);
  read(window, n, out);
}
// Wrong: the other threads' words need not be there when one thread puts them.
extern "C" __global__ void early(ncclDevComm comm, ncclWindow_t window, int n, unsigned value, unsigned* out) {
  ncclGin gin(comm, 0);
  const Place at = place_of(comm);
  for (int i = threadIdx.x; i < n; i += blockDim.x) words(window, 0)[i] = value + i;
  if (threadIdx.x == 0) gin.put(at.world, at.next, window, kArrives, window, 0, n * 4, ncclGin_SignalInc{0});
  gin.waitSignal(ncclCoopCta(), 0, 1);
  read(window, n, out);
}
// Wrong: no such signal, no such counter, beyond the window.
extern "C" __global__ void signal_index(ncclDevComm comm, ncclWindow_t window, unsigned signal) {
  ncclGin gin(comm, 0);
  const Place at = place_of(comm);
  if (threadIdx.x == 0) gin.signal(at.world, at.next, ncclGin_SignalInc{signal});
  (void)window;
}
extern "C" __global__ void wait_index(ncclDevComm comm, unsigned signal) {
  ncclGin gin(comm, 0);
  gin.waitSignal(ncclCoopCta(), signal, 1);
}
extern "C" __global__ void counter_index(ncclDevComm comm, ncclWindow_t window, unsigned counter) {
  ncclGin gin(comm, 0);
  const Place at = place_of(comm);
  if (threadIdx.x == 0)
    gin.put(at.world, at.next, window, kArrives, window, 0, 4, ncclGin_None{}, ncclGin_CounterInc{counter});
}
extern "C" __global__ void beyond(ncclDevComm comm, ncclWindow_t window, size_t offset, size_t bytes) {
  ncclGin gin(comm, 0);
  const Place at = place_of(comm);
  if (threadIdx.x == 0) gin.put(at.world, at.next, window, offset, window, 0, bytes);
}
// Wrong: both kinds of actions on one signal.
extern "C" __global__ void mixed(ncclDevComm comm, ncclWindow_t window) {
  ncclGin gin(comm, 0);
  const Place at = place_of(comm);
  if (threadIdx.x == 0) {
    gin.signal(at.world, at.next, ncclGin_SignalInc{1});
    gin.signal(at.world, at.next, ncclGin_SignalAdd{1, 2});
  }
  gin.waitSignal(ncclCoopCta(), 1, 3);
  (void)window;
}
// Wrong: a signal is cleared while the other half of the block waits for it.
extern "C" __global__ void reset_in_use(ncclDevComm comm, ncclWindow_t window) {
  ncclGin gin(comm, 0);
  const Place at = place_of(comm);
  if (threadIdx.x < 32) {
    if (threadIdx.x == 0) gin.signal(at.world, at.next, ncclGin_SignalInc{1});
    gin.waitSignal(ncclCoopWarp(), 1, 1);
  } else if (threadIdx.x == 32) {
    gin.resetSignal(1);
  }
  (void)window;
}
// Wrong: a peer of another node has no address.
extern "C" __global__ void across_nodes(ncclDevComm comm, ncclWindow_t window, int peer) {
  if (threadIdx.x == 0) *static_cast<unsigned*>(ncclGetPeerPointer(window, kArrives, peer)) = 1;
  (void)comm;
}
