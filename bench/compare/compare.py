"""What orchestration costs: Sculler beside openevolve and shinka-evolve on one task that does nothing.

    python3 bench/compare/compare.py [cost|rate|faults|all] [--build build/ci] [--repeat 3] [--out FILE]
    python3 bench/compare/compare.py table FILE...

Needs preset ci (or release with SCULLER_BENCH) built, and the network once, for the two packages.
"""

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import urllib.request

import systems
import tables

DELAY_MS = 1000
CALLS_COST, CALLS_RATE = 2, 64
LIMIT_S = 600
FAULT_LIMIT_S = 180
FAULT_PROPOSALS, FAULT_AT, DIE_AFTER = 24, 6, 10


@contextlib.contextmanager
def endpoint(build, *words):
    process = subprocess.Popen(
        [str(build / "bin" / "compare_endpoint"), *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        yield process.stdout.readline().strip(), process
    finally:
        process.kill()
        process.wait()


def seen(url):
    try:
        with urllib.request.urlopen(url + "/seen", timeout=10) as reply:
            return json.load(reply)
    except OSError:
        return None


def measured(command, folder, environment, limit_s):
    """One run under measure.py. Proxies are not for an endpoint on this machine."""
    env = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
    env.update(environment)
    done = subprocess.run(
        [sys.executable, str(systems.HERE / "measure.py"), str(limit_s), str(folder / "log.txt"), "--", *command],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return json.loads(done.stdout)


def one_run(system, build, proposals, calls, delay_ms):
    with tempfile.TemporaryDirectory(prefix="compare_") as name, endpoint(build, delay_ms) as (url, _):
        folder = pathlib.Path(name)
        command = system.prepare(folder, url, proposals, calls)
        run = measured(command, folder, system.environment(), LIMIT_S)
        at = seen(url)
        finished, statuses = system.finished(folder)
        if not finished or not at["first_ns"]:
            print(last_lines(folder, 15), file=sys.stderr)
            raise SystemExit(f"{system.name} made no proposal")
        span = (at["last_ns"] - at["first_ns"]) / 1e9
        return {
            "system": system.name,
            "asked_for": proposals,
            "calls": calls,
            "endpoint_ms": delay_ms,
            "proposals": finished,
            "evaluations": statuses,
            "questions": at["questions"],
            "cpu_ms_a_proposal": 1e3 * run["cpu_s"] / finished,
            "first_call_s": (at["first_ns"] - run["start_ns"]) / 1e9,
            "proposals_a_second": finished / span,
            "questions_a_second": at["questions"] / span,
            **{k: run[k] for k in ("seconds", "cpu_s", "peak_pss_mib", "most_processes", "exit", "left")},
        }


def cost_plan(build):
    sculler, openevolve = systems.Sculler(build), systems.OpenEvolve()
    return [
        (sculler, 200),
        (openevolve, 200),
        (systems.Shinka(), 20),
        (sculler, 1000),
        (openevolve, 1000),
        (sculler, 3000),
        (systems.Sculler(build, summaries=True), 1000),
        (systems.Sculler(build, real=True), 12),
    ]


def rate_plan(build):
    openevolve = systems.OpenEvolve()
    return [
        (systems.Sculler(build), 1500, CALLS_RATE),
        (openevolve, 80, 8),
        (openevolve, 400, CALLS_RATE),
        (systems.Shinka(), 10, CALLS_RATE),
        (systems.Sculler(build, summaries=True), 1500, CALLS_RATE),
    ]


def last_lines(folder, n):
    text = (folder / "log.txt").read_text(errors="replace")
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace(str(folder), "FOLDER").replace(str(systems.ROOT), "SCULLER")
    lines = [line.rstrip()[:300] for part in text.splitlines() for line in [part.split("\r")[-1]] if line.strip()]
    return "\n".join(lines[-n:])


def telling_lines(folder, n=6):
    """Lines of the output that speak of what went wrong, each kind once, and the last ones."""
    everything = last_lines(folder, 100_000).splitlines()
    kinds, out = set(), []
    for line in everything:
        kind = re.sub(r"\d+", "#", line.split(" - ", 2)[-1])[:60]
        if re.search(r"error|fail|timed? ?out|crash|broken|abrupt|terminat|kill|down|retr", line, re.I) and kind not in kinds:
            kinds.add(kind)
            out.append(line)
    return {"about_it": out[:n], "last": everything[-4:]}


def fault_run(system, build, fault):
    if fault == "endpoint":
        words = (50, DIE_AFTER)
    else:
        words = (0, 0, FAULT_AT, systems.FAULTS[system.language][fault])
    with tempfile.TemporaryDirectory(prefix="compare_") as name, endpoint(build, *words) as (url, _):
        folder = pathlib.Path(name)
        command = system.prepare(folder, url, FAULT_PROPOSALS, CALLS_COST)
        environment = {**system.environment(), "COMPARE_RUNS_PROGRAMS": "1"}
        run = measured(command, folder, environment, FAULT_LIMIT_S)
        finished, statuses = system.finished(folder)
        at = seen(url)
        return {
            "system": system.name,
            "fault": fault,
            "asked_for": FAULT_PROPOSALS,
            "proposals": finished,
            "evaluations": statuses,
            "answers": at["answers"] if at else DIE_AFTER,
            **telling_lines(folder),
            **{k: run[k] for k in ("seconds", "cpu_s", "exit", "left")},
        }


def header(build):
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo", encoding="ascii") if "model name" in line), "")
    return {
        "date": datetime.datetime.now().strftime("%Y-%m-%d %H:%M"),
        "machine": f"{os.cpu_count()} cores ({model}), {platform.system()} {platform.release()}",
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "sculler": systems.Sculler(build, real=True).version(),
        "openevolve": systems.OpenEvolve().version(),
        "shinka-evolve": systems.Shinka().version(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["install", "cost", "rate", "faults", "all", "table"])
    parser.add_argument("files", nargs="*")
    parser.add_argument("--build", default=str(systems.ROOT / "build" / "ci"))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", default="", help="a system's name, for trying out")
    parser.add_argument("--out", help="JSON lines are added to it")
    args = parser.parse_args()
    if args.what == "table":
        rows = [json.loads(line) for file in args.files for line in open(file, encoding="utf-8")]
        print(tables.text(rows))
        return
    build = pathlib.Path(args.build).resolve()
    systems.install()
    if args.what == "install":
        return
    for program in ("bin/sculler", "bin/sculler-eval", "bin/compare_endpoint", "compare/stub/sculler-eval"):
        if not (build / program).exists():
            raise SystemExit(f"{build / program} is missing: cmake --build --preset ci")
    rows = []

    def keep(row):
        rows.append(row)
        print(json.dumps(row), flush=True)
        if args.out:
            pathlib.Path(args.out).parent.mkdir(parents=True, exist_ok=True)
            with open(args.out, "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")

    keep(header(build))
    # In turn, so that what else the machine does falls on all of them.
    for repeat in range(args.repeat):
        if args.what in ("cost", "all"):
            for system, proposals in cost_plan(build):
                if args.only in ("", system.name):
                    keep({"measures": "cost", "repeat": repeat, "load": os.getloadavg()[0], **one_run(system, build, proposals, CALLS_COST, 0)})
        if args.what in ("rate", "all"):
            for system, proposals, calls in rate_plan(build):
                if args.only in ("", system.name):
                    keep({"measures": "rate", "repeat": repeat, "load": os.getloadavg()[0], **one_run(system, build, proposals, calls, DELAY_MS)})
    if args.what in ("faults", "all"):
        for fault in ("exit", "exit, hidden", "endpoint", "hang"):
            # What a dead endpoint does has nothing to do with evaluations.
            sculler = systems.Sculler(build, real=fault != "endpoint")
            for system in (sculler, systems.OpenEvolve(), systems.Shinka()):
                if args.only in ("", system.name) and (fault == "endpoint" or fault in systems.FAULTS[system.language]):
                    keep({"measures": "fault", **fault_run(system, build, fault)})
    print(tables.text(rows))


if __name__ == "__main__":
    main()
