"""openevolve's evaluator of the null task. It reads the value, and runs the program only where a fault is to be seen."""

import importlib.util
import os
import re


def score(value):
    return (value * 7919 % 100003) / 100003


def evaluate(program_path):
    if os.environ.get("COMPARE_RUNS_PROGRAMS"):
        spec = importlib.util.spec_from_file_location("program", program_path)
        program = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(program)
        return {"combined_score": score(program.main()[0])}
    with open(program_path, encoding="utf-8") as file:
        return {"combined_score": score(int(re.search(r"value = (\d+)", file.read()).group(1)))}
