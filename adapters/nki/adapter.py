"""Adapter for NKI kernels on AWS Trainium (README.md): nki.baremetal for results, nki.benchmark for times, nki.simulate_kernel without a device."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "shared"))
from sculler_adapter import Adapter, Missing, Refusal, load_module, serve, where_of  # noqa: E402

NAMES = ("candidate.py",)
PERCENTILES = (0, 1, 10, 25, 50, 90, 99, 100)  # those that nki.benchmark has


def nki_refusal(error):
    text, where = f"{type(error).__name__}: {error}", where_of(error, NAMES)
    module = type(error).__module__
    if module.startswith("neuronxcc") or isinstance(error, (SyntaxError, TypeError, AssertionError)):
        return Refusal("COMPILE_ERROR", text, where, "Correct the kernel: it is traced and compiled at its first call.")
    if isinstance(error, MemoryError):
        return Refusal("OOM", text, where)
    return Refusal("CRASH", text, where)


def quantiles(latency, n):
    """n times between the percentiles that a LatencyStats has: its distribution, not single runs."""
    known = [float(latency.get_latency_percentile(p)) for p in PERCENTILES]
    out = []
    for i in range(n):
        want = 100.0 * (i + 0.5) / n
        for low in range(len(PERCENTILES) - 1):
            begin, end = PERCENTILES[low], PERCENTILES[low + 1]
            if want <= end:
                out.append(known[low] + (known[low + 1] - known[low]) * (want - begin) / (end - begin))
                break
    return out


class NkiAdapter(Adapter):
    name, version = "nki", "0.1.0"

    def __init__(self, numpy, nki, compiler, device):
        self.numpy, self.nki = numpy, nki
        self.real = device
        self.device = ("NeuronCore" if device else "NKI's simulator, no device") + f", neuronxcc {compiler}"
        self.capabilities = ["benchmark"] if device else []
        self.does = ["times are nki.benchmark's nc_latency: its percentiles, spread over the runs that were asked for",
                     "results come from nki.baremetal" if device else "results come from nki.simulate_kernel",
                     "every run gets fresh copies of the inputs"]
        self.programs, self.sets, self.results = {}, {}, {}

    def compile(self, program, sources, defines, task):
        self.programs[program] = load_module(sources, defines, "kernel").kernel
        return {}

    def load(self, number, dims, buffers):
        self.sets = {n: s for n, s in self.sets.items() if s[0] == dims}
        types = {"f32": self.numpy.float32, "f16": self.numpy.float16, "i32": self.numpy.int32}
        inputs = []
        for b in buffers:
            if b.role == "inout" or b.dtype not in types:
                raise Refusal("UNSUPPORTED", f"buffer {b.name} is {b.role} {b.dtype}; this adapter takes f32, f16, i32 inputs and outputs")
            if b.is_input():
                inputs.append(self.numpy.frombuffer(b.read(), dtype=types[b.dtype]).reshape(-1, b.row_elements))
        self.sets[number] = (dims, buffers, inputs, types)

    def run(self, program, number):
        kernel, inputs = self.programs[program], [a.copy() for a in self.sets[number][2]]
        try:
            if self.real:
                got = self.nki.baremetal(kernel)(*inputs)
            else:
                got = self.nki.simulate_kernel(self.nki.jit(kernel), *inputs)
        except Exception as error:
            raise nki_refusal(error) from error
        self.results[program, number] = got if isinstance(got, (tuple, list)) else (got,)

    def verify(self, program, number):
        self.run(program, number)

    def benchmark(self, program, order, cold):
        inputs = [a.copy() for a in self.sets[order[0]][2]]
        try:
            measured = self.nki.benchmark(warmup=2, iters=len(order))(self.programs[program])
            measured(*inputs)
            us = quantiles(measured.benchmark_result.nc_latency, len(order))
        except Exception as error:
            raise nki_refusal(error) from error
        for number in set(order):
            self.results.pop((program, number), None)  # nki.benchmark hands back no outputs
        return us

    def outputs(self, program, number, folder):
        if (program, number) not in self.results:
            self.run(program, number)
        _, buffers, _, types = self.sets[number]
        outputs = [b for b in buffers if b.is_output()]
        got = self.results[program, number]
        if len(got) != len(outputs):
            raise Refusal("CRASH", f"the kernel returned {len(got)} arrays, the task has {len(outputs)} outputs", "",
                          "Return the outputs in the task's order.")
        for b, array in zip(outputs, got):
            array = self.numpy.ascontiguousarray(self.numpy.asarray(array).astype(types[b.dtype], copy=False))
            if array.size != b.elements:
                raise Refusal("CRASH", f"output {b.name} has {array.size} elements, not {b.elements}")
            b.write(folder, array.tobytes())


def make():
    try:
        import numpy
        from neuronxcc import __version__ as compiler
        from neuronxcc import nki
    except ImportError as error:
        return Missing("nki", str(error), "Install neuronxcc (AWS Neuron SDK) for the interpreter that adapter.toml names.")
    return NkiAdapter(numpy, nki, compiler, os.path.exists("/dev/neuron0"))


if __name__ == "__main__":
    serve(make())
