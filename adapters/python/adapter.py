"""Adapter for candidates in plain Python (README.md). Buffers are array.array('f') or ('i'); times are time.perf_counter_ns around the call."""
import array
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "shared"))
from sculler_adapter import Adapter, Refusal, call, load_module, serve  # noqa: E402

CODE = {"f32": "f", "i32": "i"}
now = time.perf_counter_ns


class Set:
    def __init__(self, dims, buffers):
        self.dims, self.buffers = dims, buffers
        self.inputs, self.values = {}, {}
        for b in buffers:
            if b.dtype not in CODE:
                raise Refusal("UNSUPPORTED", f"buffer {b.name} is {b.dtype}; plain Python has f32 and i32")
            if b.is_input():
                self.inputs[b.name] = array.array(CODE[b.dtype])
                self.inputs[b.name].frombytes(b.read())

    def arm(self):
        """Inputs as they were loaded, outputs poisoned, everything at a fresh address."""
        for b in self.buffers:
            if b.is_input():
                self.values[b.name] = array.array(CODE[b.dtype], self.inputs[b.name])
            else:
                self.values[b.name] = array.array(CODE[b.dtype])
                self.values[b.name].frombytes(b.poisoned())


class PythonAdapter(Adapter):
    name, version = "python", "0.1.0"
    device = f"CPython {sys.version.split()[0]} on the host"
    capabilities = ["benchmark", "profile"]
    does = ["inputs are restored and outputs poisoned before every run"]

    def __init__(self):
        self.programs, self.sets = {}, {}

    def compile(self, program, sources, defines, task):
        self.programs[program] = load_module(sources, defines, "run").run
        return {}

    def load(self, number, dims, buffers):
        self.sets = {n: s for n, s in self.sets.items() if s.dims == dims}
        self.sets[number] = Set(dims, buffers)

    def timed(self, program, number):
        s = self.sets[number]
        s.arm()
        run, values, dims = self.programs[program], s.values, dict(s.dims)
        start = now()
        call(run, values, dims)
        return (now() - start) / 1e3

    def verify(self, program, number):
        self.timed(program, number)

    def benchmark(self, program, order, cold):
        return [self.timed(program, number) for number in order]

    def outputs(self, program, number, folder):
        s = self.sets[number]
        for b in s.buffers:
            if not b.is_output():
                continue
            data = s.values[b.name]
            if not isinstance(data, array.array) or data.typecode != CODE[b.dtype] or len(data) != b.elements:
                raise Refusal("CRASH", f"output {b.name} was replaced by something else", "",
                              "Write into the buffer: buffers[name][i] = ... or buffers[name][:] = array(...).")
            b.write(folder, data.tobytes())

    def profile(self, program, number):
        s = self.sets[number]
        us = self.timed(program, number)
        elements = sum(b.elements for b in s.buffers if b.is_output())
        return {"bottleneck": "compute", "why": f"the interpreter: {1e3 * us / max(1, elements):.0f} ns an output element",
                "facts": {"ns_per_output": round(1e3 * us / max(1, elements))}}


if __name__ == "__main__":
    serve(PythonAdapter())
