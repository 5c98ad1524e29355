#!/usr/bin/env python3
"""Fills DIR for a machine with one GPU: the kernels' seeds, each checked and measured beside its baselines (README.md).
  bench/gpu/kernels/pack.py DIR [--kernels silu,matmul] [--variants]      needs nvcc and this build's sculler-eval
There, in one call: sh DIR/run.sh                  prints a row a job, cheapest first; verdicts in DIR/spool"""
import argparse
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[3]
KERNELS = ROOT / "tasks" / "kernels"
HEADING = re.compile(r"// sculler:file (\S+)(?: from (\S+))?\s*$")
TUNABLE = re.compile(r"// sculler:tune (\w+) in \{([^}]*)\}")
# What is measured of a seed beside its usual values where --variants asks for it.
VARIANTS = {"halves": [{"CLUSTER": "1"}, {"JOINT": "0"}, {"JOINT": "1"}, {"DEPTH": "2048"},
                       {"JOINT": "0", "STAGES": "3"}, {"TILE_N": "128", "STAGES": "6"},
                       {"JOINT": "0", "TILE_N": "128", "STAGES": "3", "BLOCKS": "2"}, {"TURNS": "0"}, {"SLOTS": "4"},
                       {"TASKS": "2"}, {"TASKS": "8"}],
            "split": [{"PRODUCT": "0"}, {"STAGES": "2"}, {"STAGES": "4"}, {"TILE_K": "16", "STAGES": "4"},
                      {"TILE_M": "64", "TILE_N": "128"}],
            "flash": [{"KEYS": "64", "STAGES": "1"}, {"WARPS": "4"}],
            "streamed": [{"STORES": "1"}, {"LOADS": "0"}, {"LOADS": "2"}, {"UNROLL": "4"}, {"BACKWARD": "1"}, {"PERSISTENT": "1"}],
            "held": [{"THREADS": "512", "PIECES": "4"}, {"STORES": "1"}, {"LOADS": "2"}, {"BACKWARD": "1"}],
            "chunks": [{"STEPS": "32"}, {"CHANNELS": "8"}, {"CHANNELS": "32"}]}


def files_of(path):
    """A source and the headers that it names, as job lines carry them."""
    files, name, lines = [], "candidate.cu", []
    for line in path.read_text().split("\n"):
        found = HEADING.match(line)
        if not found:
            lines.append(line)
            continue
        files.append({"name": name, "text": "\n".join(lines) + "\n"})
        name, lines = found[1], []
        if found[2]:
            lines = (path.parent / found[2] / name).read_text().rstrip("\n").split("\n")
    files.append({"name": name, "text": "\n".join(lines) + "\n"})
    return files


def usual(files):
    """The tunables' values as the source has them."""
    text = "\n".join(f["text"] for f in files)
    return {name: re.search(rf"#define {name} (\S+)", text)[1] for name, _ in TUNABLE.findall(text)}


def dims_of(task, size):
    """The dims of a size of a task, by name."""
    dims = {}
    for dim in task["dims"]:
        value = task["sizes"][size][dim]
        dims[dim] = value if isinstance(value, int) else eval(value, {}, {"R": 1, **dims})
    return dims


def chosen(parser, wanted):
    """The kernels with these names that run on a GPU, all of those where there are no names."""
    known = sorted(path.parent.name for path in KERNELS.glob("*/task.toml"))
    for name in wanted:
        if name not in known:
            parser.error(f"there is no kernel {name}; there are {', '.join(known)}")
    return [name for name in wanted or known
            if "cuda" in tomllib.loads((KERNELS / name / "task.toml").read_text())["targets"]]


def work_of(task, size):
    """Bytes and operations of a size of a task, by name."""
    dims = dims_of(task, size)
    return {key: eval(value, {}, dims) for key, value in task["work"].items() if isinstance(value, str)}


def microseconds(task, size):
    """A guess that orders the jobs."""
    work = work_of(task, size)
    return max(work.get("flops", 0) / 60e6, work.get("flops_vec", 0) / 30e6, work["hbm_bytes"] / 3e6)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--kernels", default="", help="names, comma between; all where it is missing")
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "build" / "ci" / "bin")
    parser.add_argument("--size", default="default")
    parser.add_argument("--stages", default="lint,compile,run,bench")
    parser.add_argument("--profile", default=str(ROOT / "profiles" / "h200x2.toml"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--variants", action="store_true", help="further values of tunables too, measured alone")
    a = parser.parse_args()
    jobs = []
    for name in chosen(parser, [name for name in a.kernels.split(",") if name]):
        task = tomllib.loads((KERNELS / name / "task.toml").read_text())
        cost = microseconds(task, a.size)
        for seed in (path for path in task["files"]["seeds"] if path.endswith(".cu")):
            files = files_of(KERNELS / name / seed)
            values = usual(files)
            variants = VARIANTS.get(pathlib.Path(seed).stem, []) if a.variants else []
            changes = [{}] + [change for change in variants
                              if change.keys() <= values.keys() and not change.items() <= values.items()]
            for change in changes:
                job = {"version": 1, "task": str(KERNELS / name), "target": "cuda", "profile": a.profile, "n_ranks": 1,
                       "candidate": {"files": files, "defines": {**values, **change}}, "size": a.size, "seed": a.seed,
                       "stages": a.stages.split(",")}
                if change:
                    job["compare"] = []
                jobs.append((bool(change), cost, job))
    jobs.sort(key=lambda one: one[:2])
    lines = ""
    for place, (_, _, job) in enumerate(jobs):
        # Jobs run in the order of their names.
        job["job"] = f"{place:04x}" + hashlib.sha256(json.dumps(job, sort_keys=True).encode()).hexdigest()[4:]
        lines += json.dumps(job) + "\n"
    return subprocess.run([a.programs / "sculler-eval", "--pack", a.folder], input=lines, text=True).returncode


if __name__ == "__main__":
    sys.exit(main())
