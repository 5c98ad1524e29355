"""shinka-evolve's evaluator of the null task, of the standard library alone (its own wrapper costs seconds a
program). It reads the value, and runs the program only where a fault is to be seen."""

import argparse
import importlib.util
import json
import os
import re


def score(value):
    return (value * 7919 % 100003) / 100003


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program_path", required=True)
    parser.add_argument("--results_dir", required=True)
    args = parser.parse_args()
    if os.environ.get("COMPARE_RUNS_PROGRAMS"):
        spec = importlib.util.spec_from_file_location("program", args.program_path)
        program = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(program)
        value = program.main()[0]
    else:
        with open(args.program_path, encoding="utf-8") as file:
            value = int(re.search(r"value = (\d+)", file.read()).group(1))
    os.makedirs(args.results_dir, exist_ok=True)
    metrics = {"combined_score": score(value), "public": {}, "private": {}}
    for name, content in (("metrics", metrics), ("correct", {"correct": True, "error": None})):
        with open(os.path.join(args.results_dir, name + ".json"), "w", encoding="utf-8") as file:
            json.dump(content, file)


if __name__ == "__main__":
    main()
