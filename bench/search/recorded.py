#!/usr/bin/env python3
"""A search that was recorded, as the repository keeps it.

  recorded.py keep RUN --home HOME --cassette run.jsonl --sculler BIN --out FOLDER
      makes FOLDER from a run's folder: record.tar.xz (cassette, settings, task and profile as they were), programs.jsonl
      (every program, verdict and proposal, in the order in which they were asked for) and best.cu
  recorded.py figure FOLDER
      draws best-so-far.svg from programs.jsonl: the predicted latency of each program and the best until then
  recorded.py table FOLDER
      prints a Markdown table of the proposals: what was asked of the model, what became of it, the best until then
  recorded.py compare FOLDER... --figure FILE.svg [--check PAGE.md]
      several runs on one task, each named by its folder: draws the best until each proposal, prints a Markdown table;
      with --check writes nothing and fails where the figure or the page's table is not what the records give
"""
import argparse
import io
import json
import math
import pathlib
import re
import sqlite3
import statistics
import subprocess
import sys
import tarfile

# Of the machine that recorded; a replay names its own.
LOCAL = {"cache": '""', "record": '""', "model": '"files:prompts"'}


def export(sculler, run):
    """Programs and attempts of a run, as `sculler export` gives them."""
    text = subprocess.run([str(sculler), "export", str(run)], capture_output=True, text=True, check=True, timeout=60).stdout
    return [json.loads(line) for line in text.splitlines()]


def decisions(run):
    """What the search decided: proposals (with the program that became of each), migrations, summaries."""
    with sqlite3.connect(f"file:{run / 'store.sqlite'}?mode=ro", uri=True) as store:
        events = [(kind, json.loads(text)) for kind, text in store.execute("select kind, json from event order by id")]
    programs = {event["index"]: event.get("program") for kind, event in events if kind == "proposal_end"}
    out = []
    for kind, event in events:
        if kind == "proposal":
            out.append({"kind": kind, **event, "program": programs.get(event["index"])})
        elif kind == "migration":
            out.append({"kind": kind, **event})
    return out


def stage(attempt):
    """What an attempt was for."""
    if attempt["target"] == "cuda":
        return "batch"
    return "confirm" if "confirm" in attempt["stages"].split() else "search"


def reduced(exported, run):
    """What a replay must come to again: programs by hash, verdicts by status and latency, decisions."""
    out = []
    for line in exported:
        if line["kind"] == "program":
            keys = ("kind", "id", "parent", "name", "origin", "defines", "source_sha256", "directive", "plan")
            out.append({key: line[key] for key in keys if key in line})
            continue
        one = {"kind": "verdict", "program": line["program"], "for": stage(line), "baseline": line["baseline"], "job": line["job"]}
        verdict = line.get("verdict")
        one["status"] = verdict["status"] if verdict else "open"
        if verdict and verdict.get("latency_us"):
            one[verdict["latency_us"]["kind"] + "_us"] = verdict["latency_us"]["median"]
        out.append(one)
    return out + decisions(run)


def read(folder):
    return [json.loads(line) for line in (folder / "programs.jsonl").read_text().splitlines()]


def run_settings(text, evaluations):
    """The effective settings, without the recording machine's paths and with its number of evaluations at once."""
    if evaluations:
        text = re.sub(r"(?m)^(\[eval\]\n)parallel = 0", rf"\1parallel = {evaluations}", text)
    for key, value in LOCAL.items():
        text = re.sub(rf'(?m)^{key} = "[^"]*"', f"{key} = {value}", text)
    return text


def keep(run, home, cassette, sculler, out, evaluations):
    out.mkdir(parents=True, exist_ok=True)
    settings = run_settings((run / "run.toml").read_text(), evaluations)
    task = re.search(r'(?m)^task = "([^"]+)"', settings).group(1)
    profile = re.search(r'(?m)^profile = "([^"]+)"', settings).group(1)
    with tarfile.open(out / "record.tar.xz", "w:xz", preset=9) as archive:
        def add(name, data):
            entry = tarfile.TarInfo(name)  # no times, owners or modes of a machine
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
        add("run.toml", settings.encode())
        add("run.jsonl", cassette.read_bytes())
        folder = next(f for f in (home / "tasks").glob(f"*/{task}"))
        for path in sorted(p for p in folder.rglob("*") if p.is_file()) + [home / "profiles" / f"{profile}.toml"]:
            add(f"home/{path.relative_to(home)}", path.read_bytes())
    (out / "programs.jsonl").write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in reduced(export(sculler, run), run)))
    best = run / "best" / "candidate.cu"
    if best.is_file():  # a run that was ended early has none
        (out / "best.cu").write_bytes(best.read_bytes())


def search_verdicts(lines):
    """Name, origin and predicted latency of every program of the search that passed, in the order of its coming."""
    programs = {line["id"]: line for line in lines if line["kind"] == "program"}
    for line in lines:
        if line["kind"] == "verdict" and line["for"] == "search" and "predicted_us" in line:
            yield programs[line["program"]], line


def axes(width, height, left, right, top, bottom, y, levels, numbers, what):
    """The lines of a figure of predicted latency that its marks come upon: `levels` are µs, `numbers` places and their words."""
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
           'font-family="sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="white"/>']
    for us in levels:
        out.append(f'<line x1="{left}" x2="{width - right}" y1="{y(us):.1f}" y2="{y(us):.1f}" stroke="#e5e5e5"/>')
        out.append(f'<text x="{left - 8}" y="{y(us) + 4:.1f}" text-anchor="end">{us}</text>')
    for at, word in numbers:
        out.append(f'<text x="{at:.1f}" y="{height - bottom + 18}" text-anchor="middle">{word}</text>')
    out.append(f'<text x="{(left + width - right) / 2}" y="{height - 8}" text-anchor="middle">{what}</text>')
    out.append(f'<text transform="translate(16 {(top + height - bottom) / 2}) rotate(-90)" text-anchor="middle">predicted µs</text>')
    return out


def figure(folder):
    """One mark a program, by its number; the step is the best until then, seeds included."""
    rows = list(search_verdicts(read(folder)))
    found = [(p["id"], p["origin"], v["predicted_us"]) for p, v in rows]
    width, height, left, right, top, bottom = 800, 380, 64, 190, 24, 48
    fastest = min(us for _, _, us in found)
    low, high = fastest - 20, 1.75 * fastest
    first, last = 1, max(number for number, _, _ in found)

    def x(number):
        return left + (number - first) / (last - first) * (width - left - right)

    def y(us):
        return top + (high - min(us, high)) / (high - low) * (height - top - bottom)

    color = {"baseline": "#888888", "seed": "#1f77b4", "model": "#d62728"}
    out = axes(width, height, left, right, top, bottom, y, range(50 * math.ceil(low / 50), int(high) + 1, 50),
               [(x(number), number) for number in range(5, last + 1, 5)], "program, in the order of the search")
    for kind in ("baseline", "seed"):  # the best of each
        name, us = min(((p["name"], v["predicted_us"]) for p, v in rows if p["origin"] == kind), key=lambda one: one[1])
        out.append(f'<line x1="{left}" x2="{width - right}" y1="{y(us):.1f}" y2="{y(us):.1f}" stroke="#999999" stroke-dasharray="5 4"/>')
        out.append(f'<text x="{width - right + 8}" y="{y(us) + 4:.1f}" fill="#555555">{name} {us:.0f}</text>')
    best, path = None, []
    for number, origin, us in found:
        if origin == "baseline":
            continue
        if best is None or us < best:
            path += [f"{x(number):.1f},{y(best):.1f}"] if best is not None else []
            best = us
            path.append(f"{x(number):.1f},{y(us):.1f}")
    path.append(f"{x(last):.1f},{y(best):.1f}")
    out.append(f'<polyline points="{" ".join(path)}" fill="none" stroke="#d62728" stroke-width="1.5"/>')
    out.append(f'<text x="{width - right + 8}" y="{y(best) + 4:.1f}" fill="#d62728">best {best:.0f}</text>')
    for number, origin, us in found:
        shape = f'<circle cx="{x(number):.1f}" cy="{y(us):.1f}" r="3.5" fill="{color[origin]}"/>'
        if us > high:
            shape = f'<path d="M{x(number) - 4:.1f} {top + 6} h8 l-4 -8 z" fill="{color[origin]}"><title>{us:.0f} µs</title></path>'
        out.append(shape)
    for i, (origin, fill) in enumerate(color.items()):
        out.append(f'<circle cx="{width - right + 14}" cy="{top + 8 + 18 * i}" r="3.5" fill="{fill}"/>'
                   f'<text x="{width - right + 24}" y="{top + 12 + 18 * i}">{origin}</text>')
    out.append(f'<path d="M{width - right + 10} {top + 66} h8 l-4 -8 z" fill="#888888"/>'
               f'<text x="{width - right + 24}" y="{top + 66}">above {high:.0f} µs</text>')
    (folder / "best-so-far.svg").write_text("\n".join(out + ["</svg>"]) + "\n")


def proposals_of(lines):
    return sorted((line for line in lines if line["kind"] == "proposal"), key=lambda line: line["index"])


def table(folder):
    lines = read(folder)
    found = list(search_verdicts(lines))
    predicted = {p["id"]: (p["name"], v["predicted_us"]) for p, v in found}
    best = min(v["predicted_us"] for p, v in found if p["origin"] == "seed")
    print("| proposal | island | phase | asked for | parents | program | predicted µs | best until then |")
    print("|---|---|---|---|---|---|---|---|")
    for p in proposals_of(lines):
        name, us = predicted.get(p["program"], ("-", None))
        parents = ", ".join(str(p[key]) for key in ("parent", "partner") if key in p)
        if us:
            best = min(best, us)
        print(f"| {p['index'] + 1} | {p['island']} | {'explore' if p['explore'] else 'exploit'} | {p['mutation']} | {parents} "
              f"| {p['program']} `{name}` | {us if us else '-'} | {best:.0f} |")


class Arm:
    """One run of a comparison: its starting program, and what each proposal came to."""

    def __init__(self, folder):
        lines = read(folder)
        self.name = folder.name
        programs = {line["id"]: line for line in lines if line["kind"] == "program"}
        passed = {p["id"]: v["predicted_us"] for p, v in search_verdicts(lines) if v["status"] == "PASSED"}
        confirmed = {line["program"] for line in lines
                     if line["kind"] == "verdict" and line["for"] == "confirm" and line["status"] == "PASSED"}
        self.baselines = {p["name"]: passed[p["id"]] for p in programs.values() if p["origin"] == "baseline" and p["id"] in passed}
        seeds = [(passed[p["id"]], p) for p in programs.values() if p["origin"] == "seed" and p["id"] in passed]
        self.start, seed = min(seeds, key=lambda one: one[0])
        judged = {line["program"] for line in lines if line["kind"] == "verdict" and line["for"] == "search" and line["status"] != "open"}
        proposals = proposals_of(lines)
        while proposals and proposals[-1]["program"] not in judged:  # what was open when the run was ended
            proposals.pop()
        self.us = [passed.get(p["program"]) for p in proposals]
        self.best = min([us for us in self.us if us is not None] + [self.start])
        self.best_at = self.us.index(self.best) + 1 if self.best in self.us else 0
        self.confirmed = self.best_at > 0 and proposals[self.best_at - 1]["program"] in confirmed
        ways = [programs[p["program"]] if us is not None else None for p, us in zip(proposals, self.us)]
        first = [i for i, program in enumerate([seed] + ways) if program and program["directive"]["backend"] != "none"]
        self.first_device = first[0] if first else None

    def best_until(self):
        """The best of the starting program and the first i proposals, i from 0."""
        out = [self.start]
        for us in self.us:
            out.append(out[-1] if us is None else min(out[-1], us))
        return out

    def within(self, share):
        """Proposals until the best was at most this share above the final best."""
        return next(i for i, us in enumerate(self.best_until()) if us <= self.best * (1 + share))


def compare_table(arms):
    common = min(len(a.us) for a in arms)
    rows = [("starting program, predicted µs", lambda a: f"{a.start:.0f}"),
            ("proposals judged", lambda a: len(a.us)),
            ("of which passed", lambda a: sum(us is not None for us in a.us)),
            ("first correct device-initiated program (0: the starting one)",
             lambda a: "-" if a.first_device is None else a.first_device),
            ("best, predicted µs", lambda a: f"{a.best:.2f}"),
            ("found by proposal", lambda a: a.best_at),
            (f"best of the first {common} proposals", lambda a: f"{a.best_until()[common]:.2f}"),
            ("the best confirmed on fresh inputs and schedules", lambda a: "yes" if a.confirmed else "no"),
            ("ratio over the best baseline", lambda a: f"{min(a.baselines.values()) / a.best:.3f}"),
            ("ratio over its own starting program", lambda a: f"{a.start / a.best:.3f}"),
            ("proposals to within 1 % of its best", lambda a: a.within(0.01)),
            ("median of the programs that passed, predicted µs",
             lambda a: f"{statistics.median(us for us in a.us if us is not None):.1f}")]
    out = ["| | " + " | ".join(f"`{a.name}`" for a in arms) + " |", "|---" * (len(arms) + 1) + "|"]
    return "\n".join(out + [f"| {what} | " + " | ".join(str(value(a)) for a in arms) + " |" for what, value in rows])


def compare_figure(arms):
    """Steps: the best until each proposal. Small marks: each program. What lies above the scale is a triangle at its top."""
    width, height, left, right, top, bottom = 800, 400, 64, 200, 24, 48
    baseline, base_us = min(arms[0].baselines.items(), key=lambda one: one[1])
    low = 10 * math.floor((min(a.best for a in arms) - 5) / 10)
    high = 10 * math.ceil((base_us + 5) / 10)
    last = max(len(a.us) for a in arms)
    colors = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9")

    def x(number):
        return left + 12 + number / last * (width - left - right - 24)

    def y(us):
        return top + (high - min(us, high)) / (high - low) * (height - top - bottom)

    out = axes(width, height, left, right, top, bottom, y, range(low, high + 1, 10),
               [(x(number), number or "start") for number in range(last + 1)], "proposal")
    out.append(f'<line x1="{left}" x2="{width - right}" y1="{y(base_us):.1f}" y2="{y(base_us):.1f}" stroke="#999999" stroke-dasharray="5 4"/>')
    out.append(f'<text x="{width - right + 8}" y="{y(base_us) + 4:.1f}" fill="#555555">{baseline} {base_us:.0f}, best baseline</text>')
    for i, (arm, color) in enumerate(zip(arms, colors)):
        aside = 4 * (i - (len(arms) - 1) / 2)  # marks of one proposal beside each other
        until, path = arm.best_until(), []
        for number, us in enumerate(until):
            path += [f"{x(number):.1f},{y(until[number - 1]):.1f}"] if number else []
            path.append(f"{x(number):.1f},{y(us):.1f}")
        out.append(f'<polyline points="{" ".join(path)}" fill="none" stroke="{color}" stroke-width="1.8"/>')
        for number, us in enumerate([arm.start] + arm.us):
            cx = x(number) + aside
            if us is None:
                out.append(f'<text x="{cx:.1f}" y="{height - bottom - 6}" text-anchor="middle" fill="{color}">×</text>')
            elif us > high:
                out.append(f'<path d="M{cx - 4:.1f} {top + 6} h8 l-4 -8 z" fill="{color}"><title>{us:.0f} µs</title></path>')
            else:
                out.append(f'<circle cx="{cx:.1f}" cy="{y(us):.1f}" r="3" fill="{color}" fill-opacity="0.55"><title>{us:.2f} µs</title></circle>')
        row = 120 + 40 * i
        out.append(f'<line x1="{width - right + 10}" x2="{width - right + 30}" y1="{row}" y2="{row}" stroke="{color}" stroke-width="1.8"/>')
        out.append(f'<text x="{width - right + 36}" y="{row + 4}">{arm.name}: best {arm.best:.1f}</text>')
        out.append(f'<text x="{width - right + 36}" y="{row + 19}" fill="#555555">start {arm.start:.0f}, {len(arm.us)} proposals</text>')
    out.append(f'<path d="M{width - right + 10} {126 + 40 * len(arms)} h8 l-4 -8 z" fill="#888888"/>'
               f'<text x="{width - right + 24}" y="{126 + 40 * len(arms)}">above {high} µs</text>')
    if any(us is None for arm in arms for us in arm.us):
        out.append(f'<text x="{width - right + 10}" y="{146 + 40 * len(arms)}">× did not pass</text>')
    return "\n".join(out + ["</svg>"]) + "\n"


def compare(folders, file, page):
    arms = [Arm(folder.resolve()) for folder in folders]
    rows, drawn = compare_table(arms), compare_figure(arms)
    print(rows)
    if page is None:
        file.write_text(drawn)
        return 0
    wrong = ([] if file.read_text() == drawn else [f"{file}: not what the records give"]) + \
            ([] if rows in page.read_text() else [f"{page}: its table is not what the records give"])
    print("\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("keep")
    one.add_argument("run", type=pathlib.Path)
    for name in ("home", "cassette", "sculler", "out"):
        one.add_argument(f"--{name}", type=pathlib.Path, required=True)
    one.add_argument("--evaluations", type=int, default=0, help="at once, where the run file leaves it to the machine's cores")
    for name in ("figure", "table"):
        commands.add_parser(name).add_argument("folder", type=pathlib.Path)
    one = commands.add_parser("compare")
    one.add_argument("folders", type=pathlib.Path, nargs="+")
    one.add_argument("--figure", type=pathlib.Path, required=True)
    one.add_argument("--check", type=pathlib.Path, metavar="PAGE.md")
    a = parser.parse_args()
    if a.command == "keep":
        keep(a.run, a.home, a.cassette, a.sculler, a.out, a.evaluations)
    elif a.command == "figure":
        figure(a.folder)
    elif a.command == "compare":
        return compare(a.folders, a.figure, a.check)
    else:
        table(a.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
