"""Adapter for Triton kernels on one NVIDIA GPU (README.md): torch tensors as buffers, times by CUDA events."""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "shared"))
from sculler_adapter import Adapter, Missing, Refusal, call, load_module, serve, where_of  # noqa: E402

now = time.perf_counter_ns
NAMES = ("candidate.py",)
# Before the events, so that the host is ahead of the device and its launch is not in the time: about 0.2 ms at 2 GHz.
AHEAD_CYCLES = 400_000


def triton_refusal(error):
    """Triton's and CUDA's exceptions as refusals; anything else is the candidate's crash."""
    kind, module = type(error).__name__, type(error).__module__
    text = f"{kind}: {error}"
    where = where_of(error, NAMES)
    if kind == "OutOfResources":
        return Refusal("LAUNCH_ERROR", text, where, "Use smaller blocks or fewer stages: shared memory or registers ran out.")
    if module.startswith("triton"):
        return Refusal("COMPILE_ERROR", text, where, "Correct the kernel: it is compiled at its first launch.")
    if kind in ("OutOfMemoryError",) or "out of memory" in str(error):
        return Refusal("OOM", text, where)
    if "CUDA" in text:
        return Refusal("CRASH", text, where, "Check the indices against the masks: the device reported an error.")
    return Refusal("CRASH", text, where, "The function ended with an exception.")


class Set:
    def __init__(self, torch, dims, buffers):
        self.dims, self.buffers = dims, buffers
        types = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i32": torch.int32}
        self.loaded, self.tensors = {}, {}
        for b in buffers:
            shape = (b.elements // b.row_elements, b.row_elements)
            self.tensors[b.name] = torch.empty(shape, dtype=types[b.dtype], device="cuda")
            if not b.is_input():
                self.loaded[b.name] = torch.frombuffer(bytearray(b.poisoned()), dtype=types[b.dtype]).reshape(shape).cuda()
            else:
                host = torch.frombuffer(bytearray(b.read()), dtype=types[b.dtype]).reshape(shape)
                self.loaded[b.name] = host.cuda()

    def arm(self):
        """Inputs as they were loaded, outputs poisoned; enqueued, not waited for."""
        for b in self.buffers:
            self.tensors[b.name].copy_(self.loaded[b.name])


class TritonAdapter(Adapter):
    name, version = "triton", "0.1.0"
    capabilities = ["benchmark", "profile", "cold"]
    does = ["inputs are restored and outputs poisoned before every run", "work left on other streams is refused",
            "times are between CUDA events on the current stream; the host's launch is ahead of the device and not in them",
            "cold runs write twice the L2 before"]

    def __init__(self, torch, triton):
        self.torch, self.triton = torch, triton
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        properties = torch.cuda.get_device_properties(0)
        self.device = f"{properties.name}, torch {torch.__version__}, triton {triton.__version__}"
        l2 = getattr(properties, "L2_cache_size", 0) or (64 << 20)
        self.flush = torch.empty(2 * l2 // 4, dtype=torch.int32, device="cuda")
        self.start, self.end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        self.programs, self.modules, self.sets = {}, {}, {}

    def compile(self, program, sources, defines, task):
        module = load_module(sources, defines, "launch")
        self.programs[program], self.modules[program] = module.launch, module
        return {}

    def load(self, number, dims, buffers):
        self.sets = {n: s for n, s in self.sets.items() if s.dims == dims}
        self.sets[number] = Set(self.torch, dims, buffers)

    def timed(self, program, number, cold):
        """Microseconds of one run; the device is idle when it returns."""
        # The host is late by 20 to 70 us at times; work on another stream is late every time.
        for _ in range(5):
            us, late_us = self.run_once(program, number, cold)
            if late_us <= 50 + 0.05 * us:
                return us
        raise Refusal("CRASH", f"work went on for {late_us:.0f} us on other streams after the current one was done", "",
                      "Enqueue everything on the current stream.")

    def run_once(self, program, number, cold):
        """A run's microseconds, and for how many the device was not idle after its stream."""
        torch, s = self.torch, self.sets[number]
        launch, tensors, dims = self.programs[program], dict(s.tensors), dict(s.dims)
        try:
            s.arm()
            if cold:
                self.flush.zero_()
            torch.cuda.synchronize()
            torch.cuda._sleep(AHEAD_CYCLES)
            self.start.record()
            launch(tensors, dims)
            self.end.record()
            self.end.synchronize()
            closed = now()
            torch.cuda.synchronize()
            late_us = (now() - closed) / 1e3
        except Exception as error:
            raise triton_refusal(error) from error
        return 1e3 * self.start.elapsed_time(self.end), late_us

    def verify(self, program, number):
        self.timed(program, number, False)

    def benchmark(self, program, order, cold):
        return [self.timed(program, number, cold) for number in order]

    def outputs(self, program, number, folder):
        s = self.sets[number]
        for b in s.buffers:
            if b.is_output():
                b.write(folder, s.tensors[b.name].contiguous().view(self.torch.uint8).cpu().numpy().tobytes())

    def facts(self, program):
        """Registers, spills and shared memory of the largest variant; empty where this Triton keeps them elsewhere."""
        out = {}
        for value in vars(self.modules[program]).values():
            caches = getattr(value, "device_caches", None)
            if not isinstance(value, self.triton.runtime.jit.JITFunction) or not caches:
                continue
            for entry in caches.values():
                kernels = entry[0] if isinstance(entry, tuple) else entry
                for kernel in getattr(kernels, "values", list)():
                    for name, into in (("n_regs", "registers"), ("n_spills", "spills")):
                        out[into] = max(out.get(into, 0), int(getattr(kernel, name, 0) or 0))
                    out["shared"] = max(out.get("shared", 0), int(getattr(getattr(kernel, "metadata", None), "shared", 0) or 0))
        return out

    def profile(self, program, number):
        torch, s = self.torch, self.sets[number]
        us = sorted(self.timed(program, number, False) for _ in range(9))[4]
        moved = sum(b.bytes for b in s.buffers if b.role != "scratch")
        # A copy of the same size is what the memory does.
        source = torch.empty(max(1, moved // 8), dtype=torch.float32, device="cuda")
        target = torch.empty_like(source)
        copies = []
        for _ in range(9):
            torch.cuda.synchronize()
            torch.cuda._sleep(AHEAD_CYCLES)
            self.start.record()
            target.copy_(source)
            self.end.record()
            self.end.synchronize()
            copies.append(1e3 * self.start.elapsed_time(self.end))
        copy_us = sorted(copies)[4]
        share = copy_us / us
        facts = self.facts(program)
        if share >= 0.5:
            bottleneck, why = "memory", f"a copy of the same bytes takes {100 * share:.0f} % of the time"
        elif us < 20:
            bottleneck, why = "latency", f"{us:.1f} us in all; a copy of the same bytes takes {100 * share:.0f} %"
        else:
            bottleneck, why = "compute", f"a copy of the same bytes takes only {100 * share:.0f} % of the time"
        remarks = [f"{facts['spills']} bytes of registers are spilled"] if facts.get("spills") else []
        return {"bottleneck": bottleneck, "why": why, "remarks": remarks, "facts": facts}


def make():
    try:
        import torch
        import triton
    except ImportError as error:
        return Missing("triton", str(error), "Install torch and triton for the interpreter that adapter.toml names.")
    if not torch.cuda.is_available():
        return Missing("triton", "torch sees no CUDA device", "Use a machine with an NVIDIA GPU and its driver.")
    return TritonAdapter(torch, triton)


if __name__ == "__main__":
    serve(make())
