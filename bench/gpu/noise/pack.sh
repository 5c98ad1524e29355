#!/bin/sh
# Fills DIR for a machine with two GPUs: 200 comparisons of a program with itself, 50 with a planted
# 1.5 %, one pair of runner groups for 25 of them; at most SECONDS (440) of measuring.
#   bench/gpu/noise/pack.sh DIR [SECONDS]       with sculler in PATH or in build/*/bin
# There, in DIR: NCCL_NVLS_ENABLE=0 bin/sculler-eval --noise JOB.json --cache CACHE
set -eu
dir=$1
seconds=${2:-440}
sculler=$(command -v sculler || ls -t "$(dirname "$0")"/../../../build/*/bin/sculler | head -n 1)
exec "$sculler" bench noise --target cuda --task gemm_allgather --file tile_store --size default \
  --profile h200x2 --calibrate 12 --aa 200 --planted 0.015 --planted-n 50 --per-pair 25 \
  --seconds "$seconds" --pack "$dir"
