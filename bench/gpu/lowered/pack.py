#!/usr/bin/env python3
"""Fills DIR for a machine with two GPUs: the lowered baselines, to be run, compared element by element and measured beside the
host-driven ones they came from.
  bench/gpu/lowered/pack.py DIR [--size quick]      needs nvcc and this build's sculler and sculler-eval
There, in one call: sh DIR/run.sh                   prints a row a program; verdicts in DIR/spool"""
import argparse
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAMS = [("gemm_allgather", "nccl"), ("gemm_allgather", "nccl_sym"), ("gemm_allgather", "nccl_overlap"),
            ("ring_exchange", "nccl"), ("all_to_all", "nccl"), ("all_reduce", "nccl"), ("ring_attention", "nccl")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "build" / "ci" / "bin")
    parser.add_argument("--size", default="quick")
    parser.add_argument("--profile", default=str(ROOT / "profiles" / "h200x2.toml"))
    parser.add_argument("--correct-only", action="store_true", help="no measurement")
    a = parser.parse_args()
    lines = ""
    with tempfile.TemporaryDirectory() as temporary:
        for task, baseline in PROGRAMS:
            folder = ROOT / "tasks" / "workloads" / task
            out = pathlib.Path(temporary) / f"{task}_{baseline}.cu"
            ran = subprocess.run([a.programs / "sculler", "lower", folder / "baselines" / f"{baseline}.cu", "-o", out],
                                 capture_output=True, text=True)
            if ran.returncode != 0:
                print(ran.stderr, file=sys.stderr)
                return 1
            job = {"version": 1, "task": str(folder), "target": "cuda", "profile": a.profile, "n_ranks": 2,
                   "candidate": {"files": [{"name": "candidate.cu", "text": out.read_text()}], "defines": {}},
                   "size": a.size, "seed": 1, "compare": [baseline],
                   "stages": ["lint", "compile", "run", "stress"] + ([] if a.correct_only else ["bench"])}
            job["job"] = hashlib.sha256(json.dumps(job, sort_keys=True).encode()).hexdigest()
            lines += json.dumps(job) + "\n"
    return subprocess.run([a.programs / "sculler-eval", "--pack", a.folder], input=lines, text=True).returncode


if __name__ == "__main__":
    sys.exit(main())
