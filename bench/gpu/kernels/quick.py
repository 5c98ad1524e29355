#!/usr/bin/env python3
"""Fills DIR with many variants of the kernels' seeds and a program that times them on a GPU elsewhere (README.md).
  bench/gpu/kernels/quick.py DIR [--kernels silu,matmul] [--only TILE_N,STAGES] [--most 24]        needs nvcc and g++
There: sh DIR/run.sh        a row a variant, after `plain`; nothing is checked: verdicts of sculler-eval confirm"""
import argparse
import concurrent.futures
import hashlib
import itertools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

import pack

HERE = pathlib.Path(__file__).resolve().parent
INCLUDE = pack.ROOT / "include"


def choices(files, only):
    """Each tunable's values as the source lists them."""
    text = "\n".join(f["text"] for f in files)
    return {name: [v.strip() for v in values.split(",")]
            for name, values in pack.TUNABLE.findall(text) if not only or name in only}


def variants(usual, choices, known, most):
    """Settings beside the usual one: those that pack.py has, then those with one change, with two, and so on."""
    every = [change for change in known if change.keys() <= choices.keys() and any(usual[k] != v for k, v in change.items())]
    for count in range(1, len(choices) + 1):
        for names in itertools.combinations(choices, count):
            others = [[v for v in choices[name] if v != usual[name]] for name in names]
            every += [dict(zip(names, values)) for values in itertools.product(*others)]
    different = {}
    for change in every:
        different.setdefault(tuple(sorted({**usual, **change}.items())), change)
    return [{}] + list(different.values())[:most]


def build(nvcc, folder, files, defines):
    """The program of a source with these tunables, made once: its name in the folder, and what the compiler said."""
    words = [nvcc, "-std=c++17", "-shared", "-cudart", "shared", "-gencode", "arch=compute_90a,code=sm_90a",
             "-Xptxas", "-v", "-Xcompiler", "-fPIC,-fno-gnu-unique", "--expt-relaxed-constexpr", "--expt-extended-lambda", f"-I{INCLUDE}"]
    words += [f"-D{name}={value}" for name, value in sorted(defines.items())]
    digest = hashlib.sha256(repr((files, words)).encode()).hexdigest()[:16]
    out = folder / f"{digest}.so"
    if out.exists():
        return out.name, ""
    place = folder / "sources" / digest
    place.mkdir(parents=True, exist_ok=True)
    for f in files:
        (place / f["name"]).write_text(f["text"])
    done = subprocess.run([*words, "-o", "made.so", files[0]["name"]], cwd=place, capture_output=True, text=True)
    if done.returncode != 0:
        said = [line for line in done.stderr.split("\n") if "error" in line] or [done.stderr.strip()[-200:]]
        return "", said[0]
    (place / "made.so").replace(out)
    serial = re.search(r"C75\d\d", done.stderr)
    spilled = sum(int(count) for count in re.findall(r"(\d+) bytes spill stores", done.stderr))
    return out.name, (f" wgmma serialised ({serial[0]})" if serial else "") + (f" {spilled} bytes spilled" if spilled else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--kernels", default="", help="names, comma between; all where it is missing")
    parser.add_argument("--seeds", default="", help="names of seeds; each kernel's first one where it is missing")
    parser.add_argument("--only", default="", help="tunables that change; all where it is missing")
    parser.add_argument("--most", type=int, default=24, help="variants of a seed")
    parser.add_argument("--size", default="default")
    parser.add_argument("--at-once", type=int, default=os.cpu_count())
    a = parser.parse_args()
    home = pathlib.Path(os.environ.get("SCULLER_CUDA_HOME", "/usr/local/cuda"))
    nvcc, library = str(home / "bin" / "nvcc"), home / "lib64" / "libcudart.so.13"
    for needed in (nvcc, library):
        if not pathlib.Path(needed).exists():
            parser.error(f"there is no {needed}; set SCULLER_CUDA_HOME to a toolkit of CUDA 13")
    split = lambda text: [word for word in text.split(",") if word]
    wanted = pack.chosen(parser, split(a.kernels))
    jobs = []
    for name in wanted:
        task = tomllib.loads((pack.KERNELS / name / "task.toml").read_text())
        dims = pack.dims_of(task, a.size)
        count = lambda expression: int(eval(str(expression), {}, dims))
        letter = lambda b: "o" if b["role"] == "output" else "p" if b.get("positive") else "n"
        numbers = [",".join(str(dims[d]) for d in task["dims"]),
                   ",".join(letter(b) + str(count(b["elements"])) for b in task["buffer"]),
                   str(count(task["work"]["hbm_bytes"])), str(count(task["work"].get("flops", 0)))]
        seeds = [path for path in task["files"]["seeds"] if path.endswith(".cu")]
        if a.seeds:
            seeds = [path for path in seeds if pathlib.Path(path).stem in split(a.seeds)]
        plain = [path for path in task["files"]["baselines"] if path.endswith("plain.cu")]
        for path in plain + (seeds if a.seeds else seeds[:1]):
            files = pack.files_of(pack.KERNELS / name / path)
            usual = pack.usual(files)
            known = pack.VARIANTS.get(pathlib.Path(path).stem, [])
            for change in variants(usual, choices(files, split(a.only)), known, a.most):
                label = ":".join([f"{name}/{pathlib.Path(path).stem}", *(f"{k}={v}" for k, v in change.items())])
                jobs.append((label, files, {**usual, **change}, numbers))
    a.folder.mkdir(parents=True, exist_ok=True)
    (a.folder / "lib").mkdir(exist_ok=True)
    shutil.copy(library, a.folder / "lib")
    subprocess.run(["g++", "-std=c++20", "-O2", f"-I{INCLUDE}", f"-I{home / 'include'}", HERE / "quick.cpp", "-o",
                    a.folder / "quick", library, "-ldl", "-static-libstdc++", "-Wl,-rpath,$ORIGIN/lib"], check=True)
    (a.folder / "run.sh").write_text('#!/bin/sh\n# A row a variant; the list grows as variants are built; argument: another one.\n'
                                     'cd "$(dirname "$0")" && CUDA_MODULE_LOADING=EAGER exec ./quick "${1:-list}"\n')
    lines, refused = [], 0
    with concurrent.futures.ThreadPoolExecutor(a.at_once) as pool:
        made = pool.map(lambda job: build(nvcc, a.folder, job[1], job[2]), jobs)
        for (label, _, _, numbers), (file, said) in zip(jobs, made):
            refused += not file
            print(f"{label}: {file}{said}", flush=True)
            if file:
                lines.append(" ".join([label, f"./{file}", *numbers]))
                (a.folder / "list").write_text("\n".join(lines) + "\n")
    shutil.rmtree(a.folder / "sources", ignore_errors=True)
    print(f"{len(lines)} variants in {a.folder}, {refused} that do not compile; run there: sh run.sh")
    return 0 if lines else 1


if __name__ == "__main__":
    sys.exit(main())
