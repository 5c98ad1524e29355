#!/bin/sh
# Runs the ladder in FOLDER (made by build.sh) with the libraries of this machine; the other arguments go to the program.
#   bench/gpu/ladder/run.sh FOLDER --size 16384,2048,8192 nccl=FOLDER/nccl.so ...
set -eu
folder=${1:?usage: run.sh FOLDER ARGUMENTS}
shift
# NVLink multicast can put a shared host's GPUs out of service: off before anything loads NCCL.
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1
export CUDA_MODULE_LOADING=EAGER CUDA_DEVICE_MAX_CONNECTIONS=32
if [ -z "${SCULLER_LIBRARIES:-}" ]; then
  # NCCL 2.28.9 lies beside PyTorch where that is installed; the system's own may be older.
  site=$(python3 -c 'import nvidia, os; print(list(nvidia.__path__)[0])' 2>/dev/null || true)
  SCULLER_LIBRARIES="$site/nccl/lib:$site/cu13/lib:$site/cublas/lib:$site/cuda_runtime/lib:/usr/local/cuda/lib64"
fi
export LD_LIBRARY_PATH="$SCULLER_LIBRARIES${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
exec "$folder/ladder" "$@"
