// No candidate: CUTLASS's GEMM alone in each shape of ga::ShapeOf, without the gather (run as `nocheck:`, SHAPE=0...4).
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <functional>
#include <memory>
#include <vector>

#include "cutlass_gemm.h"
#include "problem.h"

extern "C" int ladder_tunable(const char* name, int otherwise);

namespace {
struct State {
  cudaStream_t stream;
  std::vector<std::function<int(cudaStream_t)>> sets;
};

template <int kIndex>
int prepare(State* st, const ga_shape& shape, const ga_buffers& buffers) {
  auto gemm = std::make_shared<ga::Gemm<0, ga::ShapeOf<kIndex>>>();
  void* slice = static_cast<__nv_bfloat16*>(buffers.c[shape.rank]) + shape.first_row * shape.n;
  GA_TRY(gemm->prepare(shape.rows, shape.n, shape.k, buffers.a, buffers.b, &slice, 1,
                       ladder_tunable("RASTER", 1), ladder_tunable("SWIZZLE", 1), 132));
  st->sets.push_back([gemm](cudaStream_t stream) { return gemm->run(stream); });
  return SCULLER_OK;
}
}  // namespace

extern "C" int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                             const sculler_pool* pool, void** state) {
  auto* st = new State{static_cast<cudaStream_t>(rank->stream), {}};
  ga_shape shape;
  if (int code = ga_shape_of(problem, rank->rank, rank->n_ranks, &shape)) return code;
  for (uint32_t i = 0; i < pool->n_sets; ++i) {
    ga_buffers buffers;
    if (int code = ga_buffers_of(&pool->set[i], rank, 0, &buffers)) return code;
    constexpr decltype(&prepare<0>) kAll[] = {prepare<0>, prepare<1>, prepare<2>, prepare<3>, prepare<4>};
    GA_TRY(kAll[ladder_tunable("SHAPE", 0)](st, shape, buffers));
  }
  *state = st;
  return SCULLER_OK;
}

extern "C" int sculler_run(void* state, const sculler_problem*, int set) {
  auto* st = static_cast<State*>(state);
  GA_TRY(st->sets[static_cast<size_t>(set)](st->stream));
  return SCULLER_OK;
}

extern "C" int sculler_teardown(void* state) {
  delete static_cast<State*>(state);
  return SCULLER_OK;
}
