#!/usr/bin/env python3
"""Plants defects into correct programs of a task and asks sculler-eval (target emu) what it finds.

  scripts/plant.py [--per-class N] [--seed N] [--classes a,b]   a defect of each class at random sites of random seeds
  scripts/plant.py --schedules N                                the seeds as they are, each under N schedules
  scripts/plant.py --list                                       all sites there are

The same --seed and the same sources give the same plants. Exit status: 0 all as wanted, 1 something else was found,
2 usage, 77 nothing could be judged here (no nvcc, no evaluator). docs/emulator-checks.md says what each class is.
"""
import argparse
import hashlib
import json
import os
import random
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import plant_sites  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
SKIPPED = 77


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--task", default="workloads/gemm_allgather", help="folder under tasks/")
    p.add_argument("--seeds-dir", help="correct programs (default: the task's seeds)")
    p.add_argument("--evaluator", help="path of sculler-eval (default: the newest under build/)")
    p.add_argument("--cache", help="compiled artifacts (default: the evaluator's own)")
    p.add_argument("--classes", default=",".join(plant_sites.CLASSES), help="default: all")
    p.add_argument("--per-class", type=int, default=5)
    p.add_argument("--seed", type=int, default=1, help="draws the sites")
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--parallel", type=int, default=os.cpu_count() or 1, help="jobs at once")
    p.add_argument("--timeout", type=float, default=3600, help="seconds for everything")
    p.add_argument("--schedules", type=int, metavar="N", help="run the unchanged seeds under N schedules each")
    p.add_argument("--iterations", type=int, default=10, help="--schedules: of each run, beside its warm-up")
    p.add_argument("--distinct", type=float, default=0.8, help="--schedules: least share of different orders")
    p.add_argument("--keep", help="folder for the planted sources and the verdicts")
    p.add_argument("--list", action="store_true", help="print the sites and judge nothing")
    a = p.parse_args()
    a.classes = [c for c in a.classes.split(",") if c]
    unknown = [c for c in a.classes if c not in plant_sites.CLASSES]
    if unknown:
        p.error(f"unknown class '{unknown[0]}': choose from {', '.join(plant_sites.CLASSES)}")
    if a.per_class < 1 or a.parallel < 1 or (a.schedules is not None and a.schedules < 1):
        p.error("--per-class, --parallel and --schedules need a number of at least 1")
    a.task_dir = ROOT / "tasks" / a.task
    a.seeds_dir = Path(a.seeds_dir) if a.seeds_dir else a.task_dir / "seeds"
    if not a.seeds_dir.is_dir():
        p.error(f"{a.seeds_dir} is no folder")
    return a


def find_evaluator(asked):
    if asked:
        return Path(asked) if os.access(asked, os.X_OK) else None
    found = [f for f in ROOT.glob("build/*/bin/sculler-eval") if (f.parent / "sculler-vm").exists()]
    return max(found, key=lambda f: f.stat().st_mtime, default=None)


def has_nvcc(evaluator):
    answer = subprocess.run([evaluator, "--doctor"], capture_output=True, text=True, timeout=120)
    try:
        return bool(json.loads(answer.stdout)["cuda"]["nvcc"])
    except (ValueError, KeyError, TypeError):
        return False


def size_of(seed):
    """Seeds that need no alignment are run where rows of C have an odd length."""
    return "odd" if seed.startswith("odd_") else "emu"


def job_line(a, seed_name, text, extra=None):
    job = {"version": 1, "task": str(a.task_dir), "target": "emu", "profile": "", "n_ranks": a.ranks,
           "candidate": {"files": [{"name": "candidate.cu", "text": text}], "defines": {}},
           "size": size_of(seed_name), "seed": 1, "stages": ["compile", "emulate", "stress"]}
    job.update(extra or {})
    job["job"] = hashlib.sha256(json.dumps(job, sort_keys=True).encode()).hexdigest()
    return job


def evaluate(a, jobs, on_verdict):
    """Sends the jobs to one evaluator; calls on_verdict(job id, verdict) as answers arrive."""
    argv = [str(a.evaluator), "--parallel", str(a.parallel)]
    if a.cache:
        argv += ["--cache", a.cache]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            # The evaluator reads ahead of what it works on, so writing all first cannot block for good.
            lines = "".join(json.dumps(job) + "\n" for job in jobs)

            def feed():
                try:
                    process.stdin.write(lines)
                    process.stdin.close()
                except BrokenPipeError:
                    pass
            feeder = threading.Thread(target=feed, daemon=True)
            feeder.start()
            alarm = threading.Timer(a.timeout, process.kill)
            alarm.start()
            for line in process.stdout:
                verdict = json.loads(line)
                on_verdict(verdict.get("job"), verdict)
            alarm.cancel()
            feeder.join(timeout=5)
        finally:
            if process.poll() is None and not process.stdout.closed:
                process.stdin.close()


def print_table(rows, heads):
    widths = [max(len(str(row[i])) for row in [heads, *rows]) for i in range(len(heads) - 1)]
    for row in [heads, *rows]:
        print("  ".join([str(cell).ljust(width) for cell, width in zip(row, widths)] + [str(row[-1])]), flush=True)


def lacks(verdict):
    """What the verdict should say and does not."""
    missing = []
    if verdict.get("rank", -1) < 0:
        missing.append("rank")
    if not re.match(r"[^:]+:[1-9][0-9]*\b", verdict.get("where", "")):
        missing.append("line")
    if len(verdict.get("message", "").split()) < 3:
        missing.append("message")
    if len(verdict.get("advice", "").split()) < 3 or verdict["advice"] == "see the message":
        missing.append("advice")
    return missing


def judge(plant, wanted, verdict):
    """(is it as wanted, in words)"""
    if verdict["status"] != wanted:
        return False, "WRONG"
    if plant.says and not re.search(plant.says, verdict.get("message", "")):
        return False, f"does not say /{plant.says}/"
    missing = lacks(verdict)
    if missing:
        return False, "lacks " + ", ".join(missing)
    return True, "ok"


def draw(a, sources):
    plants = []
    for cls in a.classes:
        wanted, by_seed = plant_sites.CLASSES[cls].status, {}
        for name, text in sources.items():
            sites = plant_sites.sites_of(cls, name, text)
            if sites:
                by_seed[name] = sites
        dice = random.Random(f"{a.seed} {cls}")
        total = sum(len(sites) for sites in by_seed.values())
        if total < a.per_class:
            print(f"plant.py: only {total} sites of class {cls} in {a.seeds_dir}", file=sys.stderr)
        for _ in range(min(a.per_class, total)):
            name = dice.choice(sorted(n for n, sites in by_seed.items() if sites))
            plant = by_seed[name].pop(dice.randrange(len(by_seed[name])))
            plants.append((cls, wanted, plant))
    return plants


def run_plants(a, sources):
    plants = draw(a, sources)
    jobs, by_id, verdicts = [], {}, {}
    for cls, wanted, plant in plants:
        job = job_line(a, plant.seed, plant.text)
        jobs.append(job)
        by_id[job["job"]] = (cls, wanted, plant)
    begin = time.monotonic()

    def take(job_id, verdict):
        verdicts[job_id] = verdict
        cls, _, plant = by_id[job_id]
        stem = f"{cls}-{plant.seed}-{plant.line}-{job_id[:6]}"
        print(f"{len(verdicts)} of {len(jobs)}: {stem} {verdict['status']}", file=sys.stderr)
        if a.keep:
            folder = Path(a.keep)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{stem}.cu").write_text(plant.text)
            (folder / f"{stem}.json").write_text(json.dumps(verdict, indent=1))
    evaluate(a, jobs, take)
    rows, bad = [], 0
    for (cls, wanted, plant), job in zip(plants, jobs):
        v = verdicts.get(job["job"], {"status": "none", "message": "the evaluator gave no verdict"})
        ok, words = judge(plant, wanted, v)
        bad += not ok
        rows.append((cls, f"{plant.seed}:{plant.line}", plant.what, wanted, v["status"], words, v.get("rank", -1),
                     v.get("where") or "-", v.get("message", "") + " | advice: " + (v.get("advice", "") or "-")))
    print_table(rows, ("class", "site", "what", "wanted", "got", "", "rank", "where", "message"))
    print(f"{len(rows)} plants, {len(rows) - bad} as wanted, {bad} not; seed {a.seed}, {time.monotonic() - begin:.0f} s")
    return 1 if bad or not rows else 0


def schedule_of(a, i):
    """Mostly random ones: every seed of a delayed rank gives about the same order."""
    kind = "round_robin" if i == 0 else "delay_rank" if i % 12 == 1 else ("random", "priority")[i % 2]
    return {"kind": kind, "seed": i + 1, "delayed_rank": i // 12 % a.ranks, "iterations": a.iterations}


def schedule_text(s):
    """As verdicts print it."""
    return {"round_robin": "round_robin", "delay_rank": f"delay_rank:{s['delayed_rank']}:{s['seed']}"}.get(
        s["kind"], f"{s['kind']}:{s['seed']}")


def run_schedules(a, sources):
    rows, failed = [], False
    for name, text in sources.items():
        begin = time.monotonic()
        verdicts, wanted = [], {}

        def job_of(i, seed):
            schedule = schedule_of(a, i)
            job = job_line(a, name, text, {"seed": seed, "emu": {"schedule": schedule}, "stages": ["compile", "emulate"]})
            wanted[job["job"]] = schedule_text(schedule)
            return job

        def take(job_id, verdict):
            verdict["asked"] = wanted.get(job_id)
            verdicts.append(verdict)
        # The first alone: the compiler runs once, and it shows whether this evaluator takes schedules. One that does
        # not draws them from the job's seed.
        evaluate(a, [job_of(0, 1)], take)
        takes = bool(verdicts) and verdicts[0].get("schedule") == verdicts[0]["asked"]
        evaluate(a, [job_of(i, 1 if takes else i + 1) for i in range(1, a.schedules)], take)
        honoured = sum(v.get("schedule") == v["asked"] for v in verdicts)
        bad = [v for v in verdicts if v["status"] != "PASSED" or v.get("findings")]
        orders = {v["sync_hash"] for v in verdicts if v.get("sync_hash")}
        few = len(orders) < a.distinct * a.schedules
        failed = failed or bool(bad) or few or len(verdicts) != a.schedules
        first = f"{bad[0]['status']} {bad[0].get('schedule', '')}: {bad[0].get('message', '')}" if bad else ""
        rows.append((name, size_of(name), len(verdicts), honoured, len(bad), len(orders),
                     "FEW ORDERS" if few else "", f"{time.monotonic() - begin:.0f} s", first))
        print(f"{name}: {len(bad)} findings, {len(orders)} orders", file=sys.stderr)
    print_table(rows, ("seed", "size", "runs", "as asked", "findings", "orders", "", "took", "first finding"))
    return 1 if failed or not rows else 0


def main():
    a = parse_arguments()
    sources = {}
    for path in sorted(a.seeds_dir.glob("*.cu")):
        text = path.read_text()
        if re.search(r"^// sculler:requires ", text, re.M):
            print(f"plant.py: {path.name} needs more than the emulator has, left out", file=sys.stderr)
            continue
        sources[path.stem] = text
    if a.list:
        rows = [(cls, s.seed, s.line, s.what) for cls in a.classes for name, text in sources.items()
                for s in plant_sites.sites_of(cls, name, text)]
        print_table(rows, ("class", "seed", "line", "what"))
        return 0
    a.evaluator = find_evaluator(a.evaluator)
    if a.evaluator is None:
        print("plant.py: no sculler-eval: build it, or name it with --evaluator", file=sys.stderr)
        return SKIPPED
    if not has_nvcc(a.evaluator):
        print("plant.py: no nvcc here: run ./quickstart, or set SCULLER_CUDA_HOME", file=sys.stderr)
        return SKIPPED
    print(f"plant.py: {a.evaluator}", file=sys.stderr)
    return run_schedules(a, sources) if a.schedules else run_plants(a, sources)


if __name__ == "__main__":
    sys.exit(main())
