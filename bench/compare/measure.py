"""Runs one command and says what it and everything below it cost: CPU, memory, what it left running.

    measure.py LIMIT_S LOG -- COMMAND...        one JSON object on stdout

This process adopts whatever its descendants leave behind, so that no process escapes the sum; it ends
those that are still there two seconds after the command, and after LIMIT_S the command itself.
"""

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
TICK_S = 0.05
GRACE_S = 2.0


def descendants(root):
    """(pid, name) of every process below root, zombies left out."""
    children = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                text = file.read()
        except OSError:
            continue
        name = text[text.index("(") + 1 : text.rindex(")")]
        fields = text[text.rindex(")") + 2 :].split()
        if fields[0] != "Z":
            children.setdefault(int(fields[1]), []).append((int(entry), name))
    out, todo = [], [root]
    while todo:
        below = children.get(todo.pop(), [])
        out += below
        todo += [pid for pid, _ in below]
    return out


def pss_kib(pids):
    """Proportional set size of all of them together."""
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
                for line in file:
                    if line.startswith("Pss:"):
                        total += int(line.split()[1])
                        break
        except OSError:
            continue
    return total


def reap():
    """Adopted processes that ended."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return
        except ChildProcessError:
            return


def main():
    limit_s, log = float(sys.argv[1]), sys.argv[2]
    command = sys.argv[4:]
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    me = os.getpid()
    peak_kib, most = 0, 0
    with open(log, "wb") as file:
        start_ns = time.monotonic_ns()
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
    timed_out = False
    while True:
        ended = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is not None:
            break
        if time.monotonic_ns() - start_ns > limit_s * 1e9:
            timed_out = True
            break
        below = [pid for pid, _ in descendants(me)]
        peak_kib = max(peak_kib, pss_kib(below))
        most = max(most, len(below))
        time.sleep(TICK_S)
    end_ns = time.monotonic_ns()
    if timed_out:
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.kill()
    child.wait()
    reap()
    give_up = time.monotonic() + GRACE_S
    while descendants(me) and time.monotonic() < give_up:
        time.sleep(TICK_S)
        reap()
    left = descendants(me)
    while descendants(me):
        for pid, _ in descendants(me):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(TICK_S)
        reap()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        json.dumps(
            {
                "start_ns": start_ns,
                "seconds": (end_ns - start_ns) / 1e9,
                "cpu_s": used.ru_utime + used.ru_stime,
                "peak_pss_mib": peak_kib / 1024,
                "most_processes": most,
                "exit": "limit" if timed_out else child.returncode,
                "left": sorted(name for _, name in left),
            }
        )
    )


if __name__ == "__main__":
    main()
