#!/bin/sh -e
# Compiles the fixtures to the PTX that the tests read. Needs nvcc 13.
cd "$(dirname "$0")"
for f in ${*:-*.cu}; do
  nvcc -std=c++20 -arch=sm_90a -lineinfo -ptx "$f" -o "${f%.cu}.ptx"
  # Paths of this machine are nobody's business.
  sed -i -E 's|^([[:space:]]*\.file[[:space:]]+[0-9]+[[:space:]]+)".*/([^/"]*)"|\1"\2"|' "${f%.cu}.ptx"
done
