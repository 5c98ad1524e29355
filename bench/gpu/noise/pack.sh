#!/bin/sh
# Fills DIR for a machine with two GPUs: AA (200) comparisons of a program with itself, PLANTED (50) with
# a planted 1.5 %, one pair of runner groups for 25 of them; at most SECONDS (440) of measuring. A pair
# takes 35 s to start at this size: 200 need 480 s, so the two parts are two runs (AA=0, PLANTED=0).
#   [AA=200] [PLANTED=50] bench/gpu/noise/pack.sh DIR [SECONDS]    with sculler in PATH or in build/*/bin
# There, in DIR: NCCL_NVLS_ENABLE=0 bin/sculler-eval --noise JOB.json --cache CACHE
set -eu
dir=$1
seconds=${2:-440}
sculler=$(command -v sculler || ls -t "$(dirname "$0")"/../../../build/*/bin/sculler | head -n 1)
exec "$sculler" bench noise --target cuda --task gemm_allgather --file tile_store --size default \
  --profile h200x2 --calibrate 12 --aa "${AA:-200}" --planted 0.015 --planted-n "${PLANTED:-50}" --per-pair 25 \
  --seconds "$seconds" --pack "$dir"
