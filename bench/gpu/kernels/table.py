#!/usr/bin/env python3
"""A table of verdicts that pack.py's jobs got: times, ratios and % of what the machine reaches.
  bench/gpu/kernels/table.py DIR [--spool DIR/spool] [--rates bench/results/kernels/h200-rates.toml] [--before FOLDER]
--before: a second DIR of earlier jobs; its times stand beside. Reads verdicts only, measures nothing."""
import argparse
import json
import math
import pathlib
import tomllib

import pack


def floor_us(task, size, rates):
    """The longest of bytes, products and other operations at these rates (docs/kernels.md, Ceilings)."""
    work = pack.work_of(task, size)
    products = rates[task.get("precision", {}).get("products", "f32") + "_tflops"]
    return max(work["hbm_bytes"] / rates["memory_gbs"] / 1e3, work.get("flops", 0) / products / 1e6,
               work.get("flops_vec", 0) / rates["vector_tflops"] / 1e6)


def verdicts(folder, spool):
    """Of a folder of jobs: [(job, verdict)] in the jobs' order."""
    found = []
    for path in sorted(folder.glob("*.json")):
        answer = spool / path.name
        if answer.exists():
            verdict = json.loads(answer.read_text())
            found.append((json.loads(path.read_text()), verdict.get("verdict", verdict)))
    return found


def name_of(job):
    """Kernel, and what the job measures: a seed's name or `candidate`."""
    kernel = pathlib.Path(job["task"]).name
    text = job["candidate"]["files"][0]["text"]
    for path in (pack.KERNELS / kernel).glob("seeds/*.cu"):
        if pack.files_of(path)[0]["text"] == text:
            return kernel, path.stem
    return kernel, "candidate"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--spool", type=pathlib.Path)
    parser.add_argument("--before", type=pathlib.Path)
    parser.add_argument("--rates", type=pathlib.Path, default=pack.ROOT / "bench/results/kernels/h200-rates.toml")
    a = parser.parse_args()
    rates = tomllib.loads(a.rates.read_text())
    earlier = {}
    for job, verdict in verdicts(a.before, a.before / "spool") if a.before else []:
        if verdict["status"] == "PASSED":
            earlier.setdefault(pathlib.Path(job["task"]).name, verdict["latency_us"]["median"])
    print("| kernel | program | status | µs | over plain | over cuBLAS | % measured peak | % nominal | plain % |"
          + (" before µs |" if a.before else ""))
    print("|---|---|---|---|---|---|---|---|---|" + ("---|" if a.before else ""))
    best, first = {}, {}
    for job, verdict in verdicts(a.folder, a.spool or a.folder / "spool"):
        kernel, program = name_of(job)
        if not verdict.get("latency_us"):
            print(f"| {kernel} | {program} | {verdict['status']}: {verdict['message'][:60]} |")
            continue
        task = tomllib.loads((pack.KERNELS / kernel / "task.toml").read_text())
        us, ratio = verdict["latency_us"]["median"], verdict.get("ratio") or {}
        share = 100 * floor_us(task, job["size"], rates) / us
        over = lambda name: ratio.get(name, {}).get("median")
        show = lambda name: f"{over(name):.2f} [{ratio[name]['low']:.2f}, {ratio[name]['high']:.2f}]" if over(name) else "–"
        plain = share / over("plain") if over("plain") else None
        bound = " (latency)" if task["work"].get("latency_bound") else ""
        print(f"| {kernel}{bound} | {program} | {verdict['status']} | {us:.1f} | {show('plain')} | {show('cublas')} | {share:.1f} | "
              f"{verdict.get('percent_sol') or math.nan:.1f} | " + (f"{plain:.1f} |" if plain else "– |")
              + (f" {earlier[kernel]:.1f} |" if kernel in earlier else " – |" if a.before else ""))
        if verdict["status"] == "PASSED" and not bound and share > best.get(kernel, 0):
            best[kernel] = share
        if plain and not bound:
            first[kernel] = plain
    mean = lambda values: math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan
    print(f"\nGeomean % of the measured peak over {len(best)} kernels not bound by latency: {mean(best.values()):.1f}; "
          f"of plain over {len(first)}: {mean(first.values()):.1f}")


if __name__ == "__main__":
    main()
