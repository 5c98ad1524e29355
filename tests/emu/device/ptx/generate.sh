#!/bin/sh -e
# Compiles the fixture to the PTX that the tests read. Needs nvcc 13 and NCCL 2.28.9's headers. Without the GDAKI
# backend, whose code is thousands of lines a put and never runs here: the seeds of tasks are compiled with it.
cd "$(dirname "$0")"
for f in ${*:-*.cu}; do
  nvcc -std=c++20 -arch=sm_90a -lineinfo -ptx -DNCCL_GIN_GDAKI_ENABLE=0 "$f" -o "${f%.cu}.ptx"
  # Paths of this machine are nobody's business.
  sed -i -E 's|^([[:space:]]*\.file[[:space:]]+[0-9]+[[:space:]]+)".*/([^/"]*)"|\1"\2"|' "${f%.cu}.ptx"
done
