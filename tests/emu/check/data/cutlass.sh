#!/bin/sh -e
# Makes cutlass_store.ptx: the fused kernel of tasks/workloads/gemm_allgather/seeds/cutlass_store.cu as nvcc 13.0.88 compiles it with
# CUTLASS 4.2.0 (folder in $1), under a short name, without the other kernel and debug sections. No text of CUTLASS is in it.
# cutlass_store_params.hex is what cudaLaunchKernelExC gets for it on four ranks at size emu (S 1024, K 256, N 512), addresses zero.
root=$(cd "$(dirname "$0")/../../../.." && pwd)
task=$root/tasks/workloads/gemm_allgather
out=$(mktemp -d); trap 'rm -rf "$out"' EXIT
nvcc -std=c++17 -ptx -gencode arch=compute_90a,code=compute_90a -lineinfo --expt-relaxed-constexpr --expt-extended-lambda \
  -I"$root/include" -I"$task" -I"$1/include" -I"$1/tools/util/include" -o "$out/all.ptx" "$task/seeds/cutlass_store.cu"
python3 - "$out/all.ptx" "$(dirname "$0")/cutlass_store.ptx" <<'PY'
import re, sys
text = open(sys.argv[1]).read()
name = re.search(r"\.entry (_ZN7cutlass\w+)\(", text).group(1)
other = text.index(".entry _ZN49_GLOBAL__N")
files = "\n".join(line for line in text.split("\n") if line.startswith("\t.file"))
files = re.sub(r'"[^"]*/(include/[^"]*)"', r'"/\1"', files)
files = re.sub(r'"[^"]*/gemm_allgather/(?:seeds/)?([^"/]*)"', r'"\1"', files)
out = text[: text.rfind("}", 0, other) + 1].replace(name, "cutlass_store")
out = re.sub(r", function_name \$L__info_string\d+(\+\d+)?", "", out)
out = re.sub(r"\.global \.align 1 \.b8 _ZN47_INTERNAL\S+;\n", "", out)
out = re.sub(r" {2,}", " ", re.sub(r"\n{2,}", "\n", re.sub(r"[ \t]+\n", "\n", out)))
open(sys.argv[2], "w").write(out + "\n" + files + "\n")
PY
