#!/bin/sh
# Builds the ladder, the baselines and the seeds of gemm_allgather for Hopper into OUT.
#   bench/gpu/ladder/build.sh OUT          SCULLER_CUTLASS_HOME: CUTLASS 4.2 sources (include/, tools/); without it those are left out
set -eu
out=${1:?usage: build.sh OUT}
root=$(cd "$(dirname "$0")/../../.." && pwd)
cd "$root"
task=tasks/workloads/gemm_allgather
ladder=bench/gpu/ladder
mkdir -p "$out"
common="-O3 -std=c++17 -cudart shared -gencode arch=compute_90a,code=[compute_90a,sm_90a] --no-compress -I include -I $task"
shared="$common -shared -Xcompiler -fPIC,-fno-gnu-unique"
build() {  # source, name, more flags
  source=$1 name=$2
  shift 2
  nice nvcc $shared "$@" -o "$out/$name.so" "$source" -lnccl -lcublas
  echo "$name"
}
nice nvcc $common -Xcompiler -rdynamic,-Wall $ladder/ladder.cu $task/expected.cu -o "$out/ladder" -lnccl
for name in nccl nccl_sym; do build $task/baselines/$name.cu $name; done
for name in nccl_overlap copy_engine; do
  build $task/baselines/$name.cu $name --pre-include $ladder/tunables.h
done
build $ladder/gemm_only.cu gemm_only
for name in tile_store split_phase kernel_fused odd_rows; do build $task/seeds/$name.cu $name; done
build $task/seeds/tile_store.cu tile_store_256 -DTILE_N=256
build $task/seeds/kernel_fused.cu kernel_fused_256 -DTILE_N=256
build $task/seeds/kernel_fused.cu kernel_fused_8 -DCOPY_CTAS=8
build $task/seeds/kernel_fused.cu kernel_fused_32 -DCOPY_CTAS=32
build $task/seeds/split_phase.cu split_phase_16 -DCOPY_CTAS=16
build $task/seeds/split_phase.cu split_phase_132 -DCOPY_CTAS=132
build $task/seeds/copy_engine_pipeline.cu copy_engine_pipeline --pre-include $ladder/tunables.h
if [ -n "${SCULLER_CUTLASS_HOME:-}" ]; then
  for name in cutlass_store cutlass_hybrid; do
    build $task/seeds/$name.cu $name --pre-include $ladder/tunables.h --expt-relaxed-constexpr \
      -I "$SCULLER_CUTLASS_HOME/include" -I "$SCULLER_CUTLASS_HOME/tools/util/include"
  done
fi
