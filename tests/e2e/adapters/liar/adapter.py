"""The adapter in plain Python, with one lie."""
import os
import re
import sys
import time

root = os.path.dirname(os.path.abspath(__file__))
for _ in range(4):
    root = os.path.dirname(root)
sys.path.insert(0, os.path.join(root, "adapters", "python"))
from adapter import PythonAdapter, serve  # noqa: E402
import sculler_adapter  # noqa: E402


class Liar(PythonAdapter):
    name = "liar"
    lie = ""

    def compile(self, program, sources, defines, task):
        if program == "candidate":
            with open(sources[0][1], encoding="utf-8") as file:
                found = re.search(r"# lie: (\w+)", file.read())
            self.lie = found.group(1) if found else ""
        return super().compile(program, sources, defines, task)

    def benchmark(self, program, order, cold):
        us = super().benchmark(program, order, cold)
        if program != "candidate":
            return us
        if self.lie == "faster":  # by a claim alone: both take the same time
            return [0.25 * t for t in us]
        return {"fast": [1e-9] * len(us), "long": [1e9] * len(us), "nan": [float("nan")] * len(us),
                "negative": [-1.0] * len(us), "few": us[:-1], "words": ["fast"] * len(us)}.get(self.lie, us)

    def outputs(self, program, number, folder):
        path = os.path.join(folder, "Y.bin")
        if self.lie == "symlink":
            os.symlink("/etc/passwd", path)
        elif self.lie == "fifo":
            os.mkfifo(path)
        elif self.lie == "short":
            open(path, "wb").write(b"1234")
        elif self.lie != "nothing":
            super().outputs(program, number, folder)


def answer(adapter, request, honest=sculler_adapter.answer):
    lie = adapter.lie if request["op"] == "verify" else ""
    if lie == "die":
        os._exit(3)
    if lie == "sleep":
        time.sleep(60)
    reply = honest(adapter, request)
    if lie == "other":
        request["id"] += 1
    if lie == "flood":
        reply["text"] = "x" * (2 << 20)
    if lie == "verdict":
        raise sculler_adapter.Refusal("PASSED", "believe me")
    if request["op"] == "benchmark" and adapter.lie == "missing":
        reply.pop("us")
    return reply


if __name__ == "__main__":
    sculler_adapter.answer = answer
    serve(Liar())
