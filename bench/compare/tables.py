"""Tables of what compare.py kept."""

import statistics


def spread(values, digits):
    values = sorted(values)
    middle = f"{statistics.median(values):.{digits}f}"
    if len(values) == 1:
        return middle
    return f"{middle} ({values[0]:.{digits}f}–{values[-1]:.{digits}f})"


def groups(rows, measures):
    out = {}
    for row in rows:
        if row.get("measures") == measures:
            out.setdefault((row["system"], row["asked_for"], row["calls"]), []).append(row)
    return out


def table(head, lines):
    out = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(out + ["| " + " | ".join(line) + " |" for line in lines])


def of(rows, key, digits):
    return spread([row[key] for row in rows], digits)


def cost(rows):
    lines = []
    for (system, proposals, _), runs in groups(rows, "cost").items():
        lines.append(
            [
                system,
                str(proposals),
                of(runs, "cpu_ms_a_proposal", 2),
                of(runs, "peak_pss_mib", 0),
                of(runs, "first_call_s", 2),
                of(runs, "proposals_a_second", 1),
                str(max(run["most_processes"] for run in runs)),
            ]
        )
    return table(
        ["system", "proposals", "CPU ms a proposal", "peak MiB", "s to the first call", "proposals/s", "processes at most"], lines
    )


def rate(rows):
    lines = []
    for (system, proposals, calls), runs in groups(rows, "rate").items():
        lines.append(
            [
                system,
                str(calls),
                str(proposals),
                of(runs, "proposals_a_second", 1),
                of(runs, "questions_a_second", 1),
                of(runs, "cpu_ms_a_proposal", 2),
                of(runs, "peak_pss_mib", 0),
            ]
        )
    return table(["system", "calls at once", "proposals", "proposals/s", "questions/s", "CPU ms a proposal", "peak MiB"], lines)


def faults(rows):
    lines = []
    for row in rows:
        if row.get("measures") != "fault":
            continue
        said = row["about_it"][0] if row["about_it"] else row["last"][-1] if row["last"] else ""
        lines.append(
            [
                row["fault"],
                row["system"],
                f"{row['proposals']} of {row['asked_for']}",
                str(row["exit"]),
                f"{row['seconds']:.0f}",
                f"{row['cpu_s']:.1f}",
                ", ".join(row["left"]) or "nothing",
                "`" + said.replace("|", "/").replace("`", "'")[:160] + "`",
            ]
        )
    return table(["fault", "system", "proposals", "exit", "s", "CPU s", "left running", "what it says"], lines)


def text(rows):
    parts = []
    for title, make, measures in (
        ("Endpoint that answers at once", cost, "cost"),
        ("Endpoint that takes 1 s", rate, "rate"),
        ("Faults", faults, "fault"),
    ):
        if any(row.get("measures") == measures for row in rows):
            parts.append(f"{title}\n\n{make(rows)}\n")
    return "\n".join(parts)
