#!/usr/bin/env python3
"""A search that was recorded, as the repository keeps it.

  recorded.py keep RUN --home HOME --cassette run.jsonl --sculler BIN --out FOLDER
      makes FOLDER from a run's folder: record.tar.xz (cassette, settings, task and profile as they were), programs.jsonl
      (every program, verdict and proposal, in the order in which they were asked for) and best.cu
  recorded.py figure FOLDER
      draws best-so-far.svg from programs.jsonl: the predicted latency of each program and the best until then
  recorded.py table FOLDER
      prints a Markdown table of the proposals: what was asked of the model, what became of it, the best until then
"""
import argparse
import io
import json
import math
import pathlib
import re
import sqlite3
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


def reduced(sculler, run):
    """What a replay must come to again: programs by hash, verdicts by status and latency, decisions."""
    out = []
    for line in export(sculler, run):
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
    (out / "programs.jsonl").write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in reduced(sculler, run)))
    (out / "best.cu").write_bytes((run / "best" / "candidate.cu").read_bytes())


def search_verdicts(lines):
    """Name, origin and predicted latency of every program of the search that passed, in the order of its coming."""
    programs = {line["id"]: line for line in lines if line["kind"] == "program"}
    for line in lines:
        if line["kind"] == "verdict" and line["for"] == "search" and "predicted_us" in line:
            yield programs[line["program"]], line


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
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
           'font-family="sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="white"/>']
    for us in range(50 * math.ceil(low / 50), int(high) + 1, 50):
        out.append(f'<line x1="{left}" x2="{width - right}" y1="{y(us):.1f}" y2="{y(us):.1f}" stroke="#e5e5e5"/>')
        out.append(f'<text x="{left - 8}" y="{y(us) + 4:.1f}" text-anchor="end">{us}</text>')
    for number in range(5, last + 1, 5):
        out.append(f'<text x="{x(number):.1f}" y="{height - bottom + 18}" text-anchor="middle">{number}</text>')
    out.append(f'<text x="{(left + width - right) / 2}" y="{height - 8}" text-anchor="middle">program, in the order of the search</text>')
    out.append(f'<text transform="translate(16 {(top + height - bottom) / 2}) rotate(-90)" text-anchor="middle">predicted µs</text>')
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


def table(folder):
    lines = read(folder)
    predicted = {p["id"]: (p["name"], v["predicted_us"]) for p, v in search_verdicts(lines)}
    best = min(us for p, v in search_verdicts(lines) if p["origin"] == "seed" for us in [v["predicted_us"]])
    print("| proposal | island | phase | asked for | parents | program | predicted µs | best until then |")
    print("|---|---|---|---|---|---|---|---|")
    for p in sorted((line for line in lines if line["kind"] == "proposal"), key=lambda line: line["index"]):
        name, us = predicted.get(p["program"], ("-", None))
        parents = ", ".join(str(p[key]) for key in ("parent", "partner") if key in p)
        if us:
            best = min(best, us)
        print(f"| {p['index'] + 1} | {p['island']} | {'explore' if p['explore'] else 'exploit'} | {p['mutation']} | {parents} "
              f"| {p['program']} `{name}` | {us if us else '-'} | {best:.0f} |")


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
    a = parser.parse_args()
    if a.command == "keep":
        keep(a.run, a.home, a.cassette, a.sculler, a.out, a.evaluations)
    elif a.command == "figure":
        figure(a.folder)
    else:
        table(a.folder)


if __name__ == "__main__":
    sys.exit(main())
