// Force-included (nvcc --pre-include) where a candidate is built with run-time tunables, so that
// one build serves a sweep. The ladder program exports the function and answers from the
// candidate's line in its arguments.
#pragma once
extern "C" int ladder_tunable(const char* name, int otherwise);

// baselines/copy_engine.cu, baselines/nccl_overlap.cu, seeds/copy_engine_pipeline.cu
#define CHUNKS ladder_tunable("CHUNKS", 8)
// seeds/cutlass_hybrid.cu, seeds/cutlass_store.cu
#define PLAIN_CHUNKS ladder_tunable("PLAIN_CHUNKS", 8)
#define SHRINK ladder_tunable("SHRINK", 100)
#define FUSED_WAVES ladder_tunable("FUSED_WAVES", 1)
#define GEMM_STREAMS ladder_tunable("GEMM_STREAMS", 2)
#define GRAPH ladder_tunable("GRAPH", 1)
#define PLAIN_CUBLAS ladder_tunable("PLAIN_CUBLAS", 0)
#define RASTER ladder_tunable("RASTER", 1)
#define SWIZZLE ladder_tunable("SWIZZLE", 1)
