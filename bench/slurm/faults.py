#!/usr/bin/env python3
"""Evaluations on a real Slurm of four nodes while nodes, daemons, jobs and the evaluator itself are killed under them.

  bench/slurm/faults.py                       500 evaluations with all faults, then the overhead a verdict
  bench/slurm/faults.py --jobs 40 --quick     the same faults, fewer evaluations, no overhead (part of ctest)
  bench/slurm/faults.py --no-faults           the overhead alone

A verdict is lost where a job that was sent has none at the end, twice where a job was answered twice or where its file in the spool says another
thing than the answer. Exit code 0: none of either, all PASSED, all faults happened; 77: no Slurm can be started here, with the reason.
"""
import argparse, collections, datetime, hashlib, json, os, platform, select, shutil, statistics, subprocess, sys, tempfile, time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from cluster import CannotStart, Cluster, below, processes  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


def job_line(number, stages=("lint", "compile", "run"), batch="faults"):
    task = ROOT / "tasks/kernels/silu"
    job = {"version": 1, "task": str(task), "target": "cpu", "profile": "", "n_ranks": 1,
           "candidate": {"files": [{"name": "candidate.cpp", "text": (task / "seeds/blocked.cpp").read_text()}], "defines": {}},
           "size": "quick", "seed": number + 1, "stages": list(stages)}
    job["job"] = hashlib.sha256((batch + json.dumps(job)).encode()).hexdigest()
    return job


class Front:
    """sculler-eval as sculler starts it: job lines in, verdict lines out."""

    def __init__(self, argv, env, log):
        # A session of its own, as a step has one: the kernel shares cores between sessions.
        with open(log, "ab") as errors:
            self.child = subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True)
        os.set_blocking(self.child.stdout.fileno(), False)
        self.rest = b""

    def send(self, job):
        self.child.stdin.write((json.dumps(job) + "\n").encode())
        self.child.stdin.flush()

    def take(self, seconds):
        """Verdicts that come within the time; None where the evaluator ended."""
        if not select.select([self.child.stdout], [], [], seconds)[0]:
            return []
        data = self.child.stdout.read()
        if data == b"":
            return None
        *lines, self.rest = (self.rest + (data or b"")).split(b"\n")
        return [json.loads(line) for line in lines if line.strip()]

    def one(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = self.take(end - time.monotonic())
            if found is None:
                break
            if found:
                return found[0]
        raise SystemExit("the evaluator gave no verdict")

    def close(self):
        self.child.stdin.close()
        try:
            return self.child.wait(30)
        except subprocess.TimeoutExpired:
            self.child.kill()
            return self.child.wait()

DRAINED_S = 40  # that a drained node may keep steps


class Faults:
    """Done in turn, each once so many verdicts are there; what is to be mended is mended later."""

    def __init__(self, cluster, total, note, mend, patience):
        self.cluster, self.note, self.later, self.mend, self.patience = cluster, note, [], mend, patience
        self.front = None
        steps = [self.node_dies, self.controller_dies, self.node_drains, self.job_is_cancelled, self.slurmd_dies, self.slot_dies, self.front_dies]
        self.plan = [(total * (i + 1) // (len(steps) + 2), step) for i, step in enumerate(steps)]
        self.done, self.drained_late = [], []

    def busy_node(self, but=()):
        return next((n for _, n, _ in self.cluster.jobs() if n not in but), None)

    def after(self, seconds, action, text):
        self.later.append((time.monotonic() + seconds, action, text))

    def node_dies(self):
        node = self.busy_node()
        if node is None:
            return False
        count = self.cluster.kill_node(node)
        self.note(f"{node} dies: slurmd and {count} processes of its steps killed")
        self.after(self.mend, lambda: self.cluster.start_slurmd(node), f"slurmd of {node} is started again")
        return True

    def controller_dies(self):
        self.cluster.kill("slurmctld")
        self.note("slurmctld is killed")
        # A step that ends meanwhile cannot be started again until it is back.
        pid = next((p for p, (_, words) in processes().items() if "--slot" in words.split() and words.split()[0].endswith("sculler-eval")), None)
        if pid is not None:
            os.kill(pid, 9)
            self.note("and a slot with it")
        self.after(self.mend, self.cluster.start_slurmctld, "slurmctld is started again")
        return True

    def node_drains(self):
        node = self.busy_node()
        if node is None:
            return False
        self.cluster.command("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=bench")
        if "drain" not in self.cluster.states().get(node, ""):
            return False
        self.note(f"{node} is drained")
        # The evaluator asks for the states of nodes every five seconds; what a slot holds it ends.
        # A step whose end Slurm has not noticed yet (its slurmd was killed) lasts as long as its silence.
        since = time.monotonic()
        self.after(8 + self.mend, lambda: self._resume(node, since), f"{node} is looked at")
        return True

    def _resume(self, node, since):
        left = [j for j, n, _ in self.cluster.jobs() if n == node]
        drained = time.monotonic() - since
        if left and drained < self.patience:
            self.after(2, lambda: self._resume(node, since), f"{node} is looked at again")
            return
        self.drained_late = left
        self.note(f"steps on {node} when it had been drained for {drained:.0f} s: {len(left)}")
        self.cluster.command("scontrol", "update", f"NodeName={node}", "State=RESUME")

    def job_is_cancelled(self):
        jobs = self.cluster.jobs()
        if not jobs:
            return False
        self.cluster.command("scancel", jobs[0][0])
        self.note(f"Slurm job {jobs[0][0]} on {jobs[0][1]} is cancelled from outside")
        return True

    def slurmd_dies(self):
        node = self.busy_node()
        if node is None:
            return False
        self.cluster.kill(node)
        self.note(f"slurmd of {node} is killed, its steps go on")
        self.after(self.mend, lambda: self.cluster.start_slurmd(node), f"slurmd of {node} is started again")
        return True

    def slot_dies(self):
        slots = [p for p, (_, words) in processes().items() if "--slot" in words.split() and words.split()[0].endswith("sculler-eval")]
        if not slots:
            return False
        os.kill(slots[-1], 9)
        self.note("a slot's sculler-eval is killed")
        return True

    def front_dies(self):
        self.front.child.kill()
        self.note("the evaluator itself is killed; the next one goes on with its spool")
        return True

    def step(self, verdicts):
        now = time.monotonic()
        for entry in [e for e in self.later if e[0] <= now]:
            self.later.remove(entry)
            entry[1]()
            self.note(entry[2])
        # One fault at a time: the next begins when the last one is mended.
        if self.plan and verdicts >= self.plan[0][0] and not self.later:
            if self.plan[0][1]():
                self.done.append(self.plan.pop(0)[1].__name__)


def run_faults(args, cluster, work):
    begin = time.monotonic()
    note = lambda text: print(f"{time.monotonic() - begin:7.1f} s  {len(answers):4} verdicts  {text}", flush=True)
    spool, log = work / "spool", work / "front.log"
    jobs = {j["job"]: j for j in (job_line(i) for i in range(args.jobs))}
    answers = collections.defaultdict(list)
    argv = [args.programs + "/sculler-eval", "--spool", str(spool), "--cache", str(work / "cache"), "--shared", str(work / "shared"), "--srun",
            "srun --cpus-per-task=1", "--slots", str(args.slots), "--slot-silence", "6", "--requeues", "5"]
    faults = Faults(cluster, args.jobs, note, 1 if args.quick else 4, 0 if args.quick else DRAINED_S)
    fronts, durable = 0, {}
    deadline = begin + args.seconds
    while len(answers) < len(jobs) and time.monotonic() < deadline:
        # What a resumed run does: verdicts in the spool are imported, the others are asked for.
        front = faults.front = Front(argv, cluster.env, log)
        fronts += 1
        for file in spool.glob("*.json") if spool.exists() else []:
            verdict = json.loads(file.read_text())
            durable[verdict["job"]] = file.stat().st_mtime_ns
            if verdict["job"] not in answers:
                answers[verdict["job"]].append(verdict)
        for job in jobs.values():
            if job["job"] not in answers:
                front.send(job)
        while len(answers) < len(jobs) and time.monotonic() < deadline:
            found = front.take(0.2)
            if found is None:
                break
            for verdict in found:
                answers[verdict["job"]].append(verdict)
            faults.step(len(answers))
        if len(answers) == len(jobs):
            for verdict in front.take(0.5) or []:  # one too many would come now
                answers[verdict["job"]].append(verdict)
        if front.child.poll() is None and time.monotonic() < deadline:
            front.close()
        front.child.wait() if front.child.poll() is not None else front.child.kill()
    seconds = time.monotonic() - begin
    kept = {v["job"]: v for v in (json.loads(f.read_text()) for f in spool.glob("*.json"))}
    lost = [j for j in jobs if not answers[j] or j not in kept]
    twice = [j for j in answers if len(answers[j]) > 1 or (j in kept and kept[j] != answers[j][0])]
    twice += [j for j, when in durable.items() if (spool / f"{j}.json").stat().st_mtime_ns != when]
    status = collections.Counter(v["status"] for list_ in answers.values() for v in list_)
    places, requeues = collections.Counter(), 0
    for list_ in answers.values():
        for text in list_[0].get("notes", []) if list_ else []:
            if text.startswith("ran on "):
                places[text.split()[2].rstrip(",")] += 1
            requeues += text.startswith("requeued: ")
    end = time.monotonic() + 20  # nothing may stay behind
    # Slurm keeps what a killed slurmd ran as COMPLETING until it asks again: it runs no more.
    while (left := [j for j in cluster.all_jobs() if "COMPLETING" not in j]) and time.monotonic() < end:
        time.sleep(0.2)
    print(f"{args.jobs} evaluations in {seconds:.1f} s on {args.slots} slots of {len(cluster.nodes)} nodes; evaluators {fronts}")
    print(f"verdicts {sum(map(len, answers.values()))}, lost {len(lost)}, twice {len(twice)}, requeued {requeues}")
    print(f"status {dict(status)}; by node {dict(sorted(places.items()))}")
    print(f"faults: {', '.join(faults.done)}; Slurm jobs left behind: {len(left)}")
    problems = []
    if lost or twice:
        problems.append("verdicts were lost or came twice")
    if set(status) != {"PASSED"}:
        problems.append("not all passed")
    # A fast machine answers the few jobs of the quick run before all faults had their turn.
    if faults.plan and (not args.quick or len(faults.done) < 3):
        problems.append("did not happen: " + ", ".join(s.__name__ for _, s in faults.plan))
    # How soon Slurm notices that a step is gone depends on its time limits and on the machine's load.
    if faults.drained_late and not args.quick:
        problems.append("a drained node kept its steps")
    if requeues == 0:
        problems.append("nothing was requeued, so nothing was shown")
    if left and not args.quick:
        problems.append(f"left behind: {left}")
    if problems:
        print("FAILED: " + "; ".join(problems))
        print("last lines of the evaluator:\n" + "".join(log.read_text().splitlines(True)[-40:]))
    return not problems


def spread(values):
    q = statistics.quantiles(values, n=4)
    return f"{statistics.median(values):.1f} ms [{q[0]:.1f}, {q[2]:.1f}]"


def overhead(args, cluster, work):
    """Round trips of one job at a time, the two launchers in turn, everything compiled and started before."""
    cache = ["--cache", str(work / "cache")]
    program = args.programs + "/sculler-eval"
    fronts = {"local": Front([program, *cache, "--parallel", "1"], cluster.env, work / "local.log"),
              "slurm": Front([program, *cache, "--srun", "srun --cpus-per-task=1", "--slots", "1"], cluster.env, work / "slurm.log")}
    number = 0
    print(f"overhead a verdict, {args.rounds} round trips each, one at a time, in turn: median [quartiles]")
    for name, stages in (("compiled (cached), not run", ("lint", "compile")), ("kernel run and checked", ("lint", "compile", "run"))):
        times = collections.defaultdict(list)
        for i in range(args.rounds + 2):
            for launcher, front in fronts.items():
                job = job_line(number, stages, launcher)
                number += 1
                begin = time.perf_counter()
                front.send(job)
                verdict = front.one(120)
                if verdict["status"] != "PASSED" or verdict["job"] != job["job"]:
                    raise SystemExit(f"{launcher}: {verdict['status']} {verdict.get('message')}")
                if i >= 2:
                    times[launcher].append(1e3 * (time.perf_counter() - begin))
        pairs = [s - l for s, l in zip(times["slurm"], times["local"])]
        print(f"  {name}: local {spread(times['local'])}, slurm {spread(times['slurm'])}, difference {spread(pairs)}")
    for front in fronts.values():
        front.close()
    steps = []
    for i in range(max(4, args.rounds // 5)):
        begin = time.perf_counter()
        job = job_line(number + i, ("lint", "compile"), "step")
        done = subprocess.run(["srun", "--nodes=1", "--ntasks=1", program, *cache], input=json.dumps(job) + "\n", env=cluster.env, capture_output=True, text=True, timeout=120)
        if json.loads(done.stdout)["status"] != "PASSED":
            raise SystemExit(done.stdout + done.stderr)
        steps.append(1e3 * (time.perf_counter() - begin))
    print(f"  for comparison, a step of its own for each job (compiled, not run): {spread(steps)}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--programs", default=str(ROOT / "build/ci/bin"))
    p.add_argument("--jobs", type=int, default=500)
    p.add_argument("--slots", type=int, default=6)
    p.add_argument("--rounds", type=int, default=40)
    p.add_argument("--seconds", type=float, default=1500, help="bound of the run with faults")
    p.add_argument("--quick", action="store_true", help="no overhead, and only verdicts are judged")
    p.add_argument("--no-faults", action="store_true")
    args = p.parse_args()
    try:
        cluster = Cluster()
    except (CannotStart, OSError) as why:
        print(f"skipped: no Slurm can be started here: {why}")
        return 77
    work = Path(tempfile.mkdtemp(prefix="sculler_faults_"))
    try:
        version = cluster.command("sinfo", "--version").stdout.strip()
        model = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), platform.machine())
        print(f"{datetime.date.today()}, {version}, {os.cpu_count()} x {model}, load {os.getloadavg()[0]:.1f}: {' '.join(sys.argv[1:]) or 'no options'}", flush=True)
        # The caches are filled before anything is counted: here, and in a step with what lies in the shared folder.
        for more in ([], ["--shared", str(work / "shared"), "--srun", "srun"]):
            fill = Front([args.programs + "/sculler-eval", "--cache", str(work / "cache"), *more], cluster.env, work / "fill.log")
            fill.send(job_line(0, batch="fill"))
            if (first := fill.one(300))["status"] != "PASSED":
                raise SystemExit(f"{first['status']} {first.get('message')}")
            fill.close()
        ok = True if args.no_faults else run_faults(args, cluster, work)
        if ok and not args.quick:
            overhead(args, cluster, work)
        return 0 if ok else 1
    finally:
        cluster.stop()
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
