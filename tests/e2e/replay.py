#!/usr/bin/env python3
"""A search that models answered and the emulator judged, recorded once (bench/results/search), goes the same way again:
the same programs in the same order, the same verdicts, the same best program. Answers and verdicts are the cassette's; no
model, compiler, emulator or GPU takes part. A cassette of which one answer or one verdict was changed must not pass.
A record without best.cu is of a run that was ended early: its replay must come as far, and say that the cassette ends.
  tests/e2e/replay.py FOLDER --programs BIN"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "search"))
import recorded  # noqa: E402


def make_home(home):
    """The task and the profile as they were; what models are told as it is now: it decides nothing in a replay."""
    for name in ("prompts", "knowledge", "include"):
        (home / name).symlink_to(ROOT / name)


class Replay:
    def __init__(self, record, rows, programs, folder):
        self.record, self.rows, self.programs, self.folder = record, rows, programs, folder
        with tarfile.open(record / "record.tar.xz") as archive:
            archive.extractall(folder)
        make_home(folder / "home")
        self.cassette = [json.loads(line) for line in (folder / "run.jsonl").read_text().splitlines()]
        self.number = 0
        self.whole = (record / "best.cu").is_file()

    def run(self, cassette):
        """Exit status, standard error and the run's folder."""
        self.number += 1
        tape, runs = self.folder / f"{self.number}.jsonl", self.folder / f"runs{self.number}"
        tape.write_text("".join(json.dumps(line) + "\n" for line in cassette))
        command = [self.programs / "sculler", "optimize", "--run-file", self.folder / "run.toml", "--runs", runs,
                   "--set", f"llm.replay={tape}", "--set", "llm.replay_prompts=any"]
        ran = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=self.folder, timeout=300,
                             env={**os.environ, "SCULLER_HOME": str(self.folder / "home"),
                                  "XDG_CONFIG_HOME": str(self.folder / "config"), "XDG_CACHE_HOME": str(self.folder / "cache")})
        if ran.returncode == 0 and "answers and verdicts are recorded" not in ran.stdout:
            raise SystemExit(f"the replay does not say what it is:\n{ran.stdout[:600]}")
        return ran.returncode, ran.stderr, next(runs.iterdir()) if runs.is_dir() else None

    def export(self, run):
        return recorded.export(self.programs / "sculler", run)

    def differences(self, exported, run):
        """Programs, verdicts and decisions of a replay that are not the recorded ones, and how many were replayed."""
        was, now = ([{key: value for key, value in row.items() if key != "plan"} for row in rows]  # words for people
                    for rows in (self.rows, recorded.reduced(exported, run)))
        wrong = [f"recorded {a}\nreplayed {b}" for a, b in zip(was, now) if a != b]
        if len(was) != len(now):
            wrong.append(f"{len(was)} programs, verdicts and decisions were recorded, {len(now)} replayed")
        return wrong, sum(1 for line in now if line.get("origin") == "model")

    def same(self):
        code, said, run = self.run(self.cassette)
        if self.whole and code != 0 or not self.whole and "the cassette ends, but the run does not" not in said:
            return [f"exit {code}: {said}"]
        exported = self.export(run)
        wrong, models = self.differences(exported, run)
        for line in exported:
            if line.get("verdict") and line["verdict"].get("recorded") is not True:
                wrong.append(f"the verdict of program {line['program']} is not labelled as recorded")
        told = json.loads(subprocess.run([str(self.programs / "sculler"), "report", str(run), "--json"], capture_output=True, text=True,
                                         check=True, timeout=60).stdout)
        if told["recorded"] != sum(n for status, n in told["evaluations"].items() if status != "open"):
            wrong.append(f"the report does not say that all verdicts are recorded: {told}")
        if self.whole and (run / "best" / "candidate.cu").read_bytes() != (self.record / "best.cu").read_bytes():
            wrong.append("another program is the best")
        if (run / "evaluator.log").exists():
            wrong.append("the evaluator was started")
        if not wrong:
            print(f"{models} programs of models and {told['recorded']} verdicts as recorded, "
                  f"{told['evaluations'].get('open', 0)} owed by batches")
        return wrong

    def refuses(self, what, change, reason):
        """A cassette with one line changed."""
        lines = [json.loads(json.dumps(line)) for line in self.cassette]
        changed = [line for line in lines if change(line)]
        if len(changed) != 1:
            return [f"{what}: {len(changed)} lines were changed"]
        code, said, run = self.run(lines)
        if code == 0:  # nothing came after it that would have gone another way
            wrong, _ = self.differences(self.export(run), run)
            print(f"{what}: seen in {len(wrong)} places")
            return [] if wrong else [f"{what}: passes"]
        print(f"{what}: exit {code}: {said.strip()}")
        return [] if reason in said else [f"{what}: passes, or not for the reason that was expected"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("record", type=pathlib.Path)
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    a = parser.parse_args()
    rows = recorded.read(a.record)
    best = next(line for line in reversed(rows) if line.get("for") == "confirm" and line["status"] == "PASSED")
    judged = next(line for line in rows if line.get("for") == "search" and line["program"] == best["program"])

    proposal = next(line for line in rows if line["kind"] == "proposal" and line["program"] == best["program"])

    def answer(line):  # one digit of the best program: of the last constant that the answer names
        if line.get("kind") != "reply" or line["question"] != f"{proposal['index']:06}-mutator":
            return False
        digit = [found.end() - 1 for found in re.finditer(r"= \d+", line["text"])][-1]
        line["text"] = line["text"][:digit] + str((int(line["text"][digit]) + 1) % 10) + line["text"][digit + 1:]
        return True

    def verdict(line):  # the best program did not pass
        if line.get("kind") != "verdict" or line["job"] != judged["job"]:
            return False
        line["verdict"] = line["verdict"].replace('"status":"PASSED"', '"status":"INCORRECT"')
        return True

    def lost(line):
        if line.get("kind") != "verdict" or line["job"] != judged["job"]:
            return False
        line["job"] = "0" * 64
        return True

    with tempfile.TemporaryDirectory() as temporary:
        replay = Replay(a.record.resolve(), rows, a.programs.resolve(), pathlib.Path(temporary))
        wrong = replay.same()
        wrong += replay.refuses("a changed answer", answer, "this run did not ask for")
        wrong += replay.refuses("a changed verdict", verdict, "this run did not ask for")
        wrong += replay.refuses("a lost verdict", lost, "holds no verdict")
    print("\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
