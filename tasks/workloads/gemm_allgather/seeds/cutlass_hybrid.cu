// sculler:directive {"backend":"lsa","issuer":"copy_engine","placement":"stream_overlap","sync":"peer","granularity":16777216,"why":"Plain GEMMs of shrinking row chunks whose rows a copy engine sends while the next chunk computes, so that a copy ends about when the next is ready; the last waves store to the peers themselves by TMA, so that no copy is left over when the tensor cores finish."}
// sculler:requires cutlass
//
// Rows are cut on wave boundaries (a wave: the rows whose tiles just fill the multiprocessors). PLAIN_CHUNKS chunks, each
// SHRINK per cent of the one before, are computed by plain GEMMs and sent by copy engines; the last FUSED_WAVES waves by
// the kernel that stores to all ranks. With two GEMM streams the first blocks of a chunk take the multiprocessors that
// the last tiles of the chunk before leave idle.
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "cutlass_gemm.h"
#include "problem.h"

// sculler:tune PLAIN_CHUNKS in {0,2,4,6,8,12,16}
#ifndef PLAIN_CHUNKS
#define PLAIN_CHUNKS 8
#endif
// sculler:tune SHRINK in {70,80,90,100}
#ifndef SHRINK
#define SHRINK 100
#endif
// sculler:tune FUSED_WAVES in {0,1,2,3}
#ifndef FUSED_WAVES
#define FUSED_WAVES 1
#endif
// sculler:tune GEMM_STREAMS in {1,2}
#ifndef GEMM_STREAMS
#define GEMM_STREAMS 2
#endif
// sculler:tune PLAIN_CUBLAS in {0,1}
#ifndef PLAIN_CUBLAS
#define PLAIN_CUBLAS 0
#endif
// Index into ga::ShapeOf: cooperative 128x256 (0), 128x256 with wide clusters (1), 256x128 (2), ping-pong 64x256 (3),
// 128x128 (4).
// sculler:tune SHAPE in {0,1,2,3,4}
#ifndef SHAPE
#define SHAPE 0
#endif
// sculler:tune GRAPH in {0,1}
#ifndef GRAPH
#define GRAPH 1
#endif
// Columns of a piece of a tile that is stored at once.
// sculler:tune STORE_COLUMNS in {32,64,128}
#ifndef STORE_COLUMNS
#define STORE_COLUMNS 64
#endif
// sculler:tune RASTER in {0,1,2}
#ifndef RASTER
#define RASTER 1
#endif
// sculler:tune SWIZZLE in {1,2,4}
#ifndef SWIZZLE
#define SWIZZLE 1
#endif

namespace {
constexpr int kMaxRanks = 8;  // tensor maps are kernel parameters, one a rank
constexpr size_t kWorkspaceBytes = 32u << 20;
using Shape = ga::ShapeOf<SHAPE>;
using Plain = ga::Gemm<0, Shape, STORE_COLUMNS>;
using Fused = ga::Gemm<kMaxRanks, Shape, STORE_COLUMNS>;

struct Chunk {
  int64_t first, rows;  // within this rank's slice
  bool fused;
};

// EVOLVE-BLOCK-START
std::vector<Chunk> cut(const ga_shape& shape, int multiprocessors) {
  // Clusters side by side along N, rows of a cluster, and the rows of clusters that fill the device. A ping-pong block
  // works on two tiles at a time.
  constexpr int64_t kWidth = Shape::kTileN * Shape::kClusterN, kRows = Shape::kTileM * Shape::kClusterM;
  const int64_t clusters_a_row = (shape.n + kWidth - 1) / kWidth;
  const int64_t clusters = multiprocessors / (Shape::kClusterM * Shape::kClusterN) * (Shape::kPingPong ? 2 : 1);
  const int64_t wave = kRows * std::max<int64_t>(1, clusters / clusters_a_row);
  const int64_t waves = (shape.rows + wave - 1) / wave;
  const int64_t fused = PLAIN_CHUNKS == 0 ? waves : std::min<int64_t>(FUSED_WAVES, waves - 1);
  const int64_t plain = waves - fused;
  const int n = static_cast<int>(std::min<int64_t>(PLAIN_CHUNKS, plain));
  std::vector<Chunk> chunks;
  double total = 0.0, weight = 1.0, seen = 0.0;
  for (int i = 0; i < n; ++i, weight *= SHRINK / 100.0) total += weight;
  weight = 1.0;
  int64_t at = 0;
  for (int i = 0; i < n; ++i, weight *= SHRINK / 100.0) {
    seen += weight;
    // At least one wave for this chunk and for each that follows.
    const int64_t end = std::clamp<int64_t>(
        std::llround(static_cast<double>(plain) * seen / total), at + 1, plain - (n - 1 - i));
    const int64_t last_row = std::min(end * wave, shape.rows);
    chunks.push_back({at * wave, last_row - at * wave, false});
    at = end;
  }
  if (fused > 0) chunks.push_back({at * wave, shape.rows - at * wave, true});
  return chunks;
}
// EVOLVE-BLOCK-END

struct State {
  sculler_rank rank;
  ga_shape shape;
  ncclDevComm comm;
  std::vector<ga_buffers> sets;
  std::vector<Chunk> chunks;
  std::vector<std::unique_ptr<Plain>> plain;  // [set * chunks + chunk], null where fused
  std::vector<std::unique_ptr<Fused>> fused;  // the other way round
  std::vector<cudaEvent_t> computed, sent;    // a chunk, a peer
  std::vector<cudaStream_t> side;             // a peer
  cudaEvent_t opened = nullptr, second_done = nullptr;
  cudaStream_t second = nullptr;              // the other GEMM stream
  cublasHandle_t blas = nullptr;
  void* workspace = nullptr;
  std::vector<cudaGraphExec_t> graphs;        // a set
};

__global__ void closing_barrier(ncclDevComm comm) {
  ncclLsaBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), comm, ncclTeamTagLsa(), 0);
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}

int gemm_by_cublas(State* st, const ga_buffers& buffers, const Chunk& chunk, cudaStream_t stream) {
  const ga_shape& shape = st->shape;
  const float one = 1.0f, zero = 0.0f;
  GA_TRY(cublasSetStream(st->blas, stream));
  GA_TRY(cublasSetWorkspace(st->blas, st->workspace, kWorkspaceBytes));
  GA_TRY(cublasGemmEx(
      st->blas, CUBLAS_OP_T, CUBLAS_OP_N, static_cast<int>(shape.n), static_cast<int>(chunk.rows),
      static_cast<int>(shape.k), &one, buffers.b, CUDA_R_16BF, static_cast<int>(shape.k),
      static_cast<const __nv_bfloat16*>(buffers.a) + chunk.first * shape.k, CUDA_R_16BF,
      static_cast<int>(shape.k), &zero,
      static_cast<__nv_bfloat16*>(buffers.c[shape.rank]) +
          (shape.first_row + chunk.first) * shape.n,
      CUDA_R_16BF, static_cast<int>(shape.n), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
  return SCULLER_OK;
}
// EVOLVE-BLOCK-START
int enqueue(State* st, int set) {
  const ga_buffers& buffers = st->sets[static_cast<size_t>(set)];
  const ga_shape& shape = st->shape;
  const auto main_stream = static_cast<cudaStream_t>(st->rank.stream);
  // cuBLAS's workspace serves one stream.
  const bool two_streams = GEMM_STREAMS == 2 && !PLAIN_CUBLAS && st->chunks.size() > 1;
  if (two_streams) {
    GA_TRY(cudaEventRecord(st->opened, main_stream));
  }
  for (size_t i = 0; i < st->chunks.size(); ++i) {
    const Chunk& chunk = st->chunks[i];
    const size_t index = static_cast<size_t>(set) * st->chunks.size() + i;
    const cudaStream_t stream = two_streams && i % 2 == 1 ? st->second : main_stream;
    if (stream == st->second && i == 1) GA_TRY(cudaStreamWaitEvent(st->second, st->opened, 0));
    if (chunk.fused) {
      GA_TRY(st->fused[index]->run(stream));
      continue;
    }
    if (PLAIN_CUBLAS) {
      GA_TRY(gemm_by_cublas(st, buffers, chunk, stream));
    } else {
      GA_TRY(st->plain[index]->run(stream));
    }
    GA_TRY(cudaEventRecord(st->computed[i], stream));
    const int64_t offset = (shape.first_row + chunk.first) * shape.n;
    for (size_t d = 0; d < st->side.size(); ++d) {
      const size_t peer = (static_cast<size_t>(shape.rank) + 1 + d) % static_cast<size_t>(shape.n_ranks);
      GA_TRY(cudaStreamWaitEvent(st->side[d], st->computed[i], 0));
      GA_TRY(cudaMemcpyAsync(static_cast<__nv_bfloat16*>(buffers.c[peer]) + offset,
                             static_cast<__nv_bfloat16*>(buffers.c[shape.rank]) + offset,
                             static_cast<size_t>(chunk.rows * shape.n) * 2,
                             cudaMemcpyDeviceToDevice, st->side[d]));
    }
  }
  if (two_streams) {
    GA_TRY(cudaEventRecord(st->second_done, st->second));
    GA_TRY(cudaStreamWaitEvent(main_stream, st->second_done, 0));
  }
  // Without a plain chunk nothing was sent by a side stream, and none is part of the capture.
  for (size_t d = 0; d < st->side.size() && !st->chunks.front().fused; ++d) {
    GA_TRY(cudaEventRecord(st->sent[d], st->side[d]));
    GA_TRY(cudaStreamWaitEvent(main_stream, st->sent[d], 0));
  }
  closing_barrier<<<1, 32, 0, main_stream>>>(st->comm);
  GA_TRY(cudaGetLastError());
  return SCULLER_OK;
}
// EVOLVE-BLOCK-END
}  // namespace

extern "C" int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                             const sculler_pool* pool, void** state) {
  ga_shape shape;
  if (int code = ga_shape_of(problem, rank->rank, rank->n_ranks, &shape)) return code;
  if (rank->n_ranks > kMaxRanks || shape.k % 8 != 0 || shape.n % 8 != 0)
    return SCULLER_UNSUPPORTED_PROBLEM;
  int multiprocessors = 0;
  GA_TRY(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, rank->device));
  auto* st = new State;
  st->rank = *rank;
  st->shape = shape;
  st->chunks = cut(shape, multiprocessors);
  for (uint32_t i = 0; i < pool->n_sets; ++i) {
    ga_buffers buffers;
    if (int code = ga_buffers_of(&pool->set[i], rank, 1, &buffers)) return code;
    st->sets.push_back(buffers);
    for (const Chunk& chunk : st->chunks) {
      void* destination[kMaxRanks];
      for (int d = 0; d < rank->n_ranks; ++d)  // own copy first; ranks start with different peers
        destination[d] = static_cast<__nv_bfloat16*>(buffers.c[(rank->rank + d) % rank->n_ranks]) +
                         (shape.first_row + chunk.first) * shape.n;
      const auto* a = static_cast<const __nv_bfloat16*>(buffers.a) + chunk.first * shape.k;
      st->plain.emplace_back();
      st->fused.emplace_back();
      if (chunk.fused) {
        st->fused.back() = std::make_unique<Fused>();
        GA_TRY(st->fused.back()->prepare(chunk.rows, shape.n, shape.k, a, buffers.b, destination,
                                         rank->n_ranks, RASTER, SWIZZLE, multiprocessors));
      } else {
        st->plain.back() = std::make_unique<Plain>();
        GA_TRY(st->plain.back()->prepare(chunk.rows, shape.n, shape.k, a, buffers.b, destination, 1,
                                         RASTER, SWIZZLE, multiprocessors));
      }
    }
  }
  ncclDevCommRequirements requirements{};
  requirements.lsaBarrierCount = 1;
  GA_TRY(ncclDevCommCreate(static_cast<ncclComm_t>(rank->comm), &requirements, &st->comm));
  (void)cudaGetLastError();  // DevCommCreate can leave a stale error behind
  st->computed.resize(st->chunks.size());
  st->side.resize(static_cast<size_t>(rank->n_ranks - 1));
  st->sent.resize(st->side.size());
  for (auto& stream : st->side) GA_TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  GA_TRY(cudaStreamCreateWithFlags(&st->second, cudaStreamNonBlocking));
  for (auto* events : {&st->computed, &st->sent})
    for (auto& event : *events) GA_TRY(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  for (auto* event : {&st->opened, &st->second_done})
    GA_TRY(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
  if (PLAIN_CUBLAS) {
    GA_TRY(cudaMalloc(&st->workspace, kWorkspaceBytes));
    GA_TRY(cublasCreate(&st->blas));
  }
  if (GRAPH) {
    const auto stream = static_cast<cudaStream_t>(rank->stream);
    for (uint32_t i = 0; i < pool->n_sets; ++i) {
      cudaGraph_t graph;
      GA_TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
      GA_TRY(enqueue(st, static_cast<int>(i)));
      GA_TRY(cudaStreamEndCapture(stream, &graph));
      st->graphs.emplace_back();
      GA_TRY(cudaGraphInstantiate(&st->graphs.back(), graph, 0));
      GA_TRY(cudaGraphDestroy(graph));
      GA_TRY(cudaGraphUpload(st->graphs.back(), stream));
    }
  }
  *state = st;
  return SCULLER_OK;
}

extern "C" int sculler_run(void* state, const sculler_problem*, int set) {
  auto* st = static_cast<State*>(state);
  if (!GRAPH) return enqueue(st, set);
  GA_TRY(cudaGraphLaunch(st->graphs[static_cast<size_t>(set)],
                         static_cast<cudaStream_t>(st->rank.stream)));
  return SCULLER_OK;
}

extern "C" int sculler_teardown(void* state) {
  auto* st = static_cast<State*>(state);
  GA_TRY(cudaDeviceSynchronize());
  GA_TRY(ncclDevCommDestroy(static_cast<ncclComm_t>(st->rank.comm), &st->comm));
  for (auto graph : st->graphs) GA_TRY(cudaGraphExecDestroy(graph));
  if (st->blas) {
    GA_TRY(cublasDestroy(st->blas));
    GA_TRY(cudaFree(st->workspace));
  }
  for (auto* events : {&st->computed, &st->sent})
    for (auto event : *events) GA_TRY(cudaEventDestroy(event));
  GA_TRY(cudaEventDestroy(st->opened));
  GA_TRY(cudaEventDestroy(st->second_done));
  for (auto stream : st->side) GA_TRY(cudaStreamDestroy(stream));
  GA_TRY(cudaStreamDestroy(st->second));
  delete st;
  return SCULLER_OK;
}
