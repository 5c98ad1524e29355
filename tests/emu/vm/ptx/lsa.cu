// NCCL's own device header: LSA barriers, peer pointers, LL all-to-all, between ranks.
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>
#ifndef ORDER
#define ORDER cuda::memory_order_acq_rel
#endif
// Every rank writes its buffer, then sums all ranks' buffers.
extern "C" __global__ void exchange(ncclDevComm dc, ncclWindow_t w, size_t off, int n) {
  ncclLsaBarrierSession<ncclCoopCta> bar{ncclCoopCta(), dc, ncclTeamLsa(dc), dc.lsaBarrier, blockIdx.x};
  float* me = (float*)ncclGetLocalPointer(w, off);
  for (int i = threadIdx.x + blockIdx.x * blockDim.x; i < n; i += blockDim.x * gridDim.x) me[i] = float(dc.rank + 1) * i;
  bar.sync(ncclCoopCta(), ORDER);
  for (int i = threadIdx.x + blockIdx.x * blockDim.x; i < n; i += blockDim.x * gridDim.x) {
    float acc = 0;
    for (int p = 0; p < dc.lsaSize; p++) acc += ((float*)ncclGetLsaPointer(w, off, p))[i];
    me[n + i] = acc;
  }
}
extern "C" __global__ void barriers(ncclDevComm dc, int rounds) {
  ncclLsaBarrierSession<ncclCoopCta> bar{ncclCoopCta(), dc, ncclTeamLsa(dc), dc.lsaBarrier, blockIdx.x};
  for (int r = 0; r < rounds; ++r) bar.sync(ncclCoopCta(), ORDER);
}
extern "C" __global__ void all_to_all(ncclDevComm dc, ncclLLA2AHandle h, float* out, int n) {
  ncclLLA2ASession<ncclCoopCta> s{ncclCoopCta(), dc, ncclTeamLsa(dc), h, blockIdx.x, 1024};
  for (int p = threadIdx.x; p < n; p += blockDim.x) s.send(p, dc.rank, (float)(10 * dc.rank + p));
  for (int p = threadIdx.x; p < n; p += blockDim.x) out[p] = s.recv<float>(p);
  s.endEpoch(ncclCoopCta());
}
