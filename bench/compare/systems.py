"""How each of the three systems is set on the null task: its folder, its command, what it counts."""

import json
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TASK = HERE / "null_task"
PACKAGES = ROOT / "build" / "compare"
PINNED = {"openevolve": "0.4.1", "shinka-evolve": "0.0.7"}
# A candidate that ends its process, and one that never ends.
FAULTS = {
    "python": {"exit": '__import__("os")._exit(7)', "hang": "next(i for i in iter(int, 1) if i)"},
    "c++": {
        "exit": "(_exit(7), 1)",
        # The lint names the call above; this is the same by the system call itself.
        "exit, hidden": '[] { asm volatile("syscall" : : "a"(231), "D"(7) : "rcx", "r11", "memory"); return 1; }()',
        "hang": "[] { for (volatile int spin = 1; spin != 0;) {} return 1; }()",
    },
}
EVALUATION_S = 10


class Sculler:
    """The orchestrator beside an evaluator that does nothing, or (real) beside the sandboxed one."""

    language = "c++"

    def __init__(self, build, real=False, summaries=False):
        self.summaries = summaries
        self.name = "sculler, real evaluation" if real else "sculler, summaries" if summaries else "sculler"
        self.programs = build / "bin"
        if not real:
            # The evaluator is looked for beside the orchestrator.
            self.programs = build / "compare" / "stub"
            own = self.programs / "sculler"
            own.unlink(missing_ok=True)
            shutil.copy2(build / "bin" / "sculler", own)

    def version(self):
        text = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
        return text.stdout.strip()

    def prepare(self, folder, url, proposals, calls):
        (folder / "run.toml").write_text(
            f"""version = 1
task = "{TASK}"
target = "cpu"
size = "quick"
strategy = "evolve"

[budget]
candidates = 0
stop_at_percent_sol = 0

[evolve]
generations = {proposals}
summary_every = {8 if self.summaries else 0}

[eval]
confirm = 0
cache = "{folder / "cache"}"

[llm]
parallel = {calls}
retries = 3

[[model]]
name = "null"
provider = "openai"
url = "{url}/v1"
price_in = 0
price_out = 0
"""
        )
        return [str(self.programs / "sculler"), "optimize", "--run-file", str(folder / "run.toml"), "--runs", str(folder)]

    def environment(self):
        return {"SCULLER_HOME": str(ROOT)}

    def finished(self, folder):
        """Proposals with a program, by the run's own record; and the statuses of the evaluations."""
        store = next(folder.glob("*/store.sqlite"), None)
        if store is None:
            return 0, {}
        with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as database:
            programs = database.execute(
                "SELECT count(*) FROM event WHERE kind='proposal_end' AND json LIKE '%\"program\"%'"
            ).fetchone()[0]
            statuses = dict(database.execute("SELECT status, count(*) FROM evaluation GROUP BY status").fetchall())
        return programs, statuses


class OpenEvolve:
    name = "openevolve"
    language = "python"

    def __init__(self):
        self.python = PACKAGES / "openevolve"

    def version(self):
        return package_version(self.python, "openevolve")

    def prepare(self, folder, url, proposals, calls):
        config = {
            "max_iterations": proposals,
            "random_seed": 42,
            "diff_based_evolution": True,
            "llm": {"api_base": f"{url}/v1", "api_key": "none", "timeout": 60, "models": [{"name": "null", "weight": 1.0}]},
            "evaluator": {
                "parallel_evaluations": calls,
                "cascade_evaluation": False,
                "timeout": EVALUATION_S,
            },
        }
        # YAML reads JSON.
        (folder / "config.yaml").write_text(json.dumps(config))
        shutil.copy(TASK / "initial.py", folder / "initial.py")
        shutil.copy(HERE / "peers" / "openevolve_evaluator.py", folder / "evaluator.py")
        return [
            str(self.python / "bin" / "openevolve-run"),
            str(folder / "initial.py"),
            str(folder / "evaluator.py"),
            "--config",
            str(folder / "config.yaml"),
            "--output",
            str(folder / "out"),
        ]

    def environment(self):
        return {}

    def finished(self, folder):
        log = folder / "log.txt"
        text = log.read_text(errors="replace") if log.exists() else ""
        return len(set(re.findall(r"Iteration (\d+): Program", text))), {}


class Shinka:
    name = "shinka-evolve"
    language = "python"

    def __init__(self):
        self.python = PACKAGES / "shinka-evolve"

    def version(self):
        return package_version(self.python, "shinka-evolve")

    def prepare(self, folder, url, proposals, calls):
        task = folder / "task"
        task.mkdir()
        shutil.copy(TASK / "initial.py", task / "initial.py")
        shutil.copy(HERE / "peers" / "shinka_evaluate.py", task / "evaluate.py")
        settings = {
            "evo.llm_models": json.dumps([f"local/null@{url}/v1"]),
            "evo.llm_dynamic_selection": "none",
            "evo.llm_kwargs": json.dumps({"temperatures": [0.0], "max_tokens": 4096}),
            "evo.patch_types": json.dumps(["diff"]),
            "evo.patch_type_probs": json.dumps([1.0]),
            "evo.embedding_model": "none",
            "evo.meta_rec_interval": "none",
            "job.time": f"00:00:{EVALUATION_S:02d}",
        }
        command = [
            str(self.python / "bin" / "shinka_run"),
            "--task-dir",
            str(task),
            "--results_dir",
            str(folder / "out"),
            "--num_generations",
            str(proposals + 1),
            "--max-evaluation-jobs",
            str(calls),
            "--max-proposal-jobs",
            str(calls),
        ]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        return command

    def environment(self):
        return {"LOCAL_OPENAI_API_KEY": "none", "PYTHONUNBUFFERED": "1"}

    def finished(self, folder):
        store = next((folder / "out").glob("*.sqlite"), None)
        if store is None:
            return 0, {}
        with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as database:
            rows = database.execute("SELECT correct, count(*) FROM programs WHERE generation > 0 GROUP BY correct").fetchall()
        by = {("correct" if correct else "failed"): n for correct, n in rows}
        return sum(by.values()), by


def package_version(python, package):
    text = subprocess.run(
        [str(python / "bin" / "python"), "-c", f"import importlib.metadata as m; print(m.version('{package}'))"],
        capture_output=True,
        text=True,
    )
    return text.stdout.strip() or "not installed"


def install():
    """Each package at its pinned version, in a virtual environment of its own."""
    for package, version in PINNED.items():
        place = PACKAGES / package
        if package_version(place, package) == version:
            continue
        print(f"installing {package} {version} into {place}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        subprocess.run([str(place / "bin" / "pip"), "install", "--quiet", f"{package}=={version}"], check=True)
