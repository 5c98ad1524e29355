"""Include directions, file sizes and what no tracked file may say. Run by scripts/lint; exit 1 on a finding."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# A module may include itself and what stands on its line (docs/internals.md, design: dependencies point downwards).
ALLOWED = {
    "base": [],
    "steer": ["base"],
    "task": ["base"],
    "directive": ["base"],
    "source": ["base", "directive"],
    "analyze": ["base", "directive", "source"],
    "store": ["base"],
    "llm": ["base"],
    "agent": ["base", "task", "directive", "source", "llm"],
    "rank": ["base"],
    "verify": ["base", "rank"],
    "emu": ["base", "task", "rank", "verify"],
    "eval": ["base", "task", "directive", "source", "rank", "verify"],
    "search": ["base", "task", "directive", "source", "store", "llm", "agent"],
    "gnn": ["base", "steer"],
    "cli": ["base", "task", "directive", "source", "analyze", "store", "llm", "agent", "search", "eval"],
}
# Within emu: the order of its rooms.
EMU = {
    "check": [],
    "ptx": [],
    "vm": ["check", "ptx"],
    "wire": [],
    "device": ["check", "vm"],
    "predict": ["check", "vm", "device"],
    "client": ["wire", "vm"],
    "dropin": ["wire", "client", "vm"],
    "server": ["wire", "check", "vm", "ptx", "device", "predict"],
}
# check/report and check/deadlock speak of the VM's states, through its header alone.
EMU["check"] = ["vm"]
HEAVY = re.compile(r'#include\s*[<"](nlohmann/json\.hpp|toml\+\+|toml\.hpp|spdlog/|httplib|CLI/|torch/)')
INCLUDE = re.compile(r'^\s*#\s*include\s*"([a-z_]+)/(?:([a-z_]+)/)?[^"]*"', re.M)
LINES = 600

findings = []


def tracked(*patterns):
    out = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / line for line in out.splitlines() if (ROOT / line).is_file()]


for path in tracked("src/*.h", "src/*.cpp", "src/*.cu", "src/*.cuh", "src/*.c"):
    parts = path.relative_to(ROOT).parts
    module = parts[1]
    text = path.read_text(errors="replace")
    name = path.relative_to(ROOT)
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        target, room = match.group(1), match.group(2)
        if target in ALLOWED and target != module and target not in ALLOWED.get(module, []):
            findings.append(f"{name}:{number}: {module} may not include {target} (scripts/check_structure.py)")
        if module == "emu" and target == "emu" and len(parts) > 3:
            if room in EMU and room != parts[2] and room not in EMU.get(parts[2], []):
                findings.append(f"{name}:{number}: emu/{parts[2]} may not include emu/{room}")
    if path.suffix == ".h" and HEAVY.search(text):
        findings.append(f"{name}: a heavy header in a header; include it in the .cpp")

for path in tracked("src/*", "tests/*.cpp", "tests/*.h", "include/*", "bench/*.cpp"):
    if path.suffix in (".h", ".cpp", ".cu", ".c", ".py", ".cuh"):
        lines = path.read_bytes().count(b"\n")
        if lines > LINES:
            findings.append(f"{path.relative_to(ROOT)}: {lines} lines, more than {LINES}: one concept a file")

machine = re.compile(rb"(?<![A-Za-z0-9_.])/(work|root)/")
for path in tracked("*"):
    if path.suffix in (".ptx", ".json", ".svg", ".jsonl", ".bin") or path.name == "check_structure.py":
        continue
    data = path.read_bytes()
    match = machine.search(data)
    if match:
        line = data[: match.start()].count(b"\n") + 1
        findings.append(f"{path.relative_to(ROOT)}:{line}: names a path of one machine")

print("\n".join(findings) if findings else f"structure: {len(tracked('src/*'))} source files, no finding")
sys.exit(1 if findings else 0)
