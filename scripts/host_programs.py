#!/usr/bin/env python3
"""Random host-driven NCCL programs, lowered and judged on the emulator (docs/fast-path.md).

Writes a task whose size picks the program, the programs (host calls in random order, with offsets, data types, in-place
forms and nested groups) and a reference that does the same on plain arrays; lowers each with `sculler lower`; asks one
evaluator for the verdicts of the host-driven and of the lowered form. Exit codes: 0 all passed, 1 some did not, 2 usage,
77 nothing could be judged here (no nvcc).
"""
import argparse
import hashlib
import json
import pathlib
import random
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(__file__).resolve().parent.parent / "build"
TYPES = {"f32": ("float", "ncclFloat32", 4), "bf16": ("__nv_bfloat16", "ncclBfloat16", 2),
         "f16": ("__half", "ncclFloat16", 2), "i32": ("int32_t", "ncclInt32", 4)}
NAMES = list(TYPES)
CAPACITY = 3  # blocks of N elements a rank, times the number of ranks, in each buffer

TASK = """version = 1
name = "host_programs"
kind = "workload"
summary = "random host programs"
dims = ["P", "N"]
ranks = { default = 2, supported = [2, 3, 4] }
timeouts_s = { compile = 300, emulate = 120, run = 20 }
sets = 2
families = ["normal"]

[precision]
input = "f32"
accumulate = "f32"
output = "f32"
"""

REFERENCE = """// Does on arrays of doubles what the program does on the devices.
#include <cstdint>
#include <cstring>
#include <cmath>
#include <vector>
#include "sculler/candidate.h"
namespace {
using Ranks = std::vector<std::vector<double>>;
double from_f16(uint16_t h) {
  const int e = (h >> 10) & 31, m = h & 1023;
  const double v = e == 0 ? std::ldexp(m, -24) : std::ldexp(1024 + m, e - 25);
  return h & 0x8000 ? -v : v;
}
double from_bf16(uint16_t h) {
  const uint32_t w = static_cast<uint32_t>(h) << 16;
  float f;
  std::memcpy(&f, &w, 4);
  return f;
}
struct World {
  int R;
  int64_t n;
  Ranks at[4][3];  // type; X, Y, S
  using P = const Ranks&;
  // Offsets: o for all ranks, or o + m * rank.
  void gather(int t, int from, int64_t o, int64_t m, int to, int64_t d, int64_t c) {
    const Ranks old = at[t][from];
    for (int r = 0; r < R; ++r)
      for (int q = 0; q < R; ++q)
        for (int64_t i = 0; i < c; ++i) at[t][to][r][d + q * c + i] = old[q][o + m * q + i];
  }
  double join(int op, double a, double b) { return op == 0 ? a + b : op == 1 ? std::fmax(a, b) : std::fmin(a, b); }
  void reduce(int t, int op, int from, int64_t o, int to, int64_t d, int64_t c, int root) {
    const Ranks old = at[t][from];
    for (int64_t i = 0; i < c; ++i) {
      double v = old[0][o + i];
      for (int q = 1; q < R; ++q) v = join(op, v, old[q][o + i]);
      for (int r = 0; r < R; ++r)
        if (root < 0 || r == root) at[t][to][r][d + i] = v;
    }
  }
  void reduce_scatter(int t, int op, int from, int64_t o, int to, int64_t d, int64_t m, int64_t c) {
    const Ranks old = at[t][from];
    for (int r = 0; r < R; ++r)
      for (int64_t i = 0; i < c; ++i) {
        double v = old[0][o + r * c + i];
        for (int q = 1; q < R; ++q) v = join(op, v, old[q][o + r * c + i]);
        at[t][to][r][d + m * r + i] = v;
      }
  }
  void broadcast(int t, int from, int64_t o, int to, int64_t d, int64_t c, int root) {
    const std::vector<double> old = at[t][from][root];
    for (int r = 0; r < R; ++r)
      for (int64_t i = 0; i < c; ++i) at[t][to][r][d + i] = old[o + i];
  }
  void all_to_all(int t, int from, int64_t o, int to, int64_t d, int64_t c) {
    const Ranks old = at[t][from];
    for (int r = 0; r < R; ++r)
      for (int q = 0; q < R; ++q)
        for (int64_t i = 0; i < c; ++i) at[t][to][r][d + q * c + i] = old[q][o + r * c + i];
  }
  void shift(int t, int from, int64_t o, int to, int64_t d, int64_t c, int by) {
    const Ranks old = at[t][from];
    for (int r = 0; r < R; ++r)
      for (int64_t i = 0; i < c; ++i) at[t][to][r][d + i] = old[(r + R - by % R) % R][o + i];
  }
};
}  // namespace
extern "C" int sculler_reference(const sculler_problem* problem, int n_ranks, int rank, const void* const* inputs,
                                 void* const* outputs, const int64_t*, int64_t) {
  World w;
  w.R = n_ranks;
  const int64_t n = w.n = problem->dim[1], all = CAPACITY * n_ranks * n;
  (void)n;
  const int R = n_ranks;
  (void)R;
  for (int t = 0; t < 4; ++t) {
    Ranks x;
    for (int r = 0; r < n_ranks; ++r) {
      std::vector<double> v(static_cast<size_t>(all));
      const void* in = inputs[r * 4 + t];
      for (int64_t i = 0; i < all; ++i)
        v[i] = t == 0   ? static_cast<const float*>(in)[i]
               : t == 1 ? from_bf16(static_cast<const uint16_t*>(in)[i])
               : t == 2 ? from_f16(static_cast<const uint16_t*>(in)[i])
                        : static_cast<const int32_t*>(in)[i];
      x.push_back(v);
    }
    for (auto& buffer : w.at[t]) buffer = x;
  }
  switch (problem->dim[0]) {
BODY    default: return SCULLER_ERROR;
  }
  for (int t = 0; t < 4; ++t)
    std::memcpy(outputs[t], w.at[t][1][rank].data(), static_cast<size_t>(all) * sizeof(double));
  return SCULLER_OK;
}
"""

PROGRAM = """// Host program NUMBER: written by scripts/host_programs.py.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <nccl.h>

#include "sculler/candidate.h"

#define TRY(expression) \\
  do { \\
    if (static_cast<int>(expression) != 0) return SCULLER_ERROR; \\
  } while (0)

namespace {
struct State {
  sculler_rank rank;
  const sculler_pool* pool;
SCRATCH};
}  // namespace

extern "C" int sculler_setup(const sculler_rank* rank, const sculler_problem* problem, const sculler_pool* pool,
                             void** state) {
  auto* st = new State{*rank, pool};
  const size_t all = CAPACITY * static_cast<size_t>(rank->n_ranks) * static_cast<size_t>(problem->dim[1]);
ALLOCATE  *state = st;
  return SCULLER_OK;
}

extern "C" int sculler_run(void* state, const sculler_problem* problem, int set) {
  auto* st = static_cast<State*>(state);
  const sculler_buffer* buffer = st->pool->set[set].buffer;
  const auto comm = static_cast<ncclComm_t>(st->rank.comm);
  const auto stream = static_cast<cudaStream_t>(st->rank.stream);
  const int R = st->rank.n_ranks, me = st->rank.rank;
  const size_t n = static_cast<size_t>(problem->dim[1]);
  const size_t all = CAPACITY * R * n;
  (void)me;
POINTERSSTEPS  return SCULLER_OK;
}

extern "C" int sculler_teardown(void* state) {
  auto* st = static_cast<State*>(state);
  TRY(cudaDeviceSynchronize());
FREE  delete st;
  return SCULLER_OK;
}
"""


def pick_place(rng, blocks_needed):
    """An offset in elements, as text, that leaves room for that many blocks of n (times R where it says so)."""
    left = CAPACITY - blocks_needed
    return rng.choice(["0"] + (["n", "n / 3", "7 % n"] if left >= 1 else []) + (["R * n - 1", "2 * n"] if left >= 2 else []))


def count_of(rng):
    return rng.choice(["n", "n / 2 + 1", "n - n / 3", "(n + 1) / 2"])


class Program:
    """Source and reference of one program. Buffers: 0 X (read only), 1 Y, 2 scratch."""

    def __init__(self, number, seed):
        self.rng = random.Random(seed * 1000003 + number)
        self.number = number
        self.steps, self.reference = [], []
        self.used = set()
        self.sums = {}
        kinds = ["gather", "reduce", "scatter", "broadcast", "all_to_all", "shift", "pairs", "group", "root", "bcast"]
        wanted = [kinds[number % len(kinds)], kinds[(number * 3 + 1) % len(kinds)]]
        wanted += [self.rng.choice(kinds) for _ in range(self.rng.randint(2, 4))]
        self.rng.shuffle(wanted)
        for kind in wanted:
            lines = self.step(kind, "  ")
            self.steps += lines

    def pointer(self, t, buffer, place):
        name = "xys"[buffer] + "_" + t
        if place == "0":
            return name
        return self.rng.choice([f"{name} + {place}", f"&{name}[{place}]"])

    def stream(self):
        return self.rng.choice(["stream", "stream", "static_cast<cudaStream_t>(st->rank.stream)"])

    def call(self, indent, text):
        if self.rng.random() < 0.3:
            return f"{indent}if ({text} != ncclSuccess) return SCULLER_ERROR;"
        return f"{indent}TRY({text});"

    def operation(self, t):
        # A few sums only: values stay small enough for half precision.
        if self.sums.get(t, 0) < 2 and self.rng.random() < 0.6:
            self.sums[t] = self.sums.get(t, 0) + 1
            return 0
        return self.rng.choice([1, 2])

    def step(self, kind, indent):
        rng, refs = self.rng, self.reference
        t = rng.choice(NAMES)
        ti = NAMES.index(t)
        nccl = TYPES[t][1]
        to = rng.choice([1, 1, 2])
        source = rng.choice([b for b in (0, 1, 2) if b != to])
        c = count_of(rng)
        inplace = rng.random() < 0.35
        self.used |= {(t, b) for b in ((to,) if inplace else (to, source))}
        stream = self.stream()
        ops = ["ncclSum", "ncclMax", "ncclMin"]
        if kind == "gather":
            d = pick_place(rng, 1)
            if inplace:
                refs.append(f"w.gather({ti}, {to}, {d}, {c}, {to}, {d}, {c});")
                return [self.call(indent, f"ncclAllGather({self.pointer(t, to, d)} + me * ({c}), {self.pointer(t, to, d)}, {c}, {nccl}, comm, {stream})")]
            o = pick_place(rng, 1)
            refs.append(f"w.gather({ti}, {source}, {o}, 0, {to}, {d}, {c});")
            return [self.call(indent, f"ncclAllGather({self.pointer(t, source, o)}, {self.pointer(t, to, d)}, {c}, {nccl}, comm, {stream})")]
        if kind in ("reduce", "root"):
            op, d = self.operation(t), pick_place(rng, 1)
            o = d if inplace else pick_place(rng, 1)
            if inplace:
                source = to
            if kind == "reduce":
                refs.append(f"w.reduce({ti}, {op}, {source}, {o}, {to}, {d}, {c}, -1);")
                return [self.call(indent, f"ncclAllReduce({self.pointer(t, source, o)}, {self.pointer(t, to, d)}, {c}, {nccl}, {ops[op]}, comm, {stream})")]
            root = rng.choice(["0", "R - 1"])
            refs.append(f"w.reduce({ti}, {op}, {source}, {o}, {to}, {d}, {c}, {root});")
            return [self.call(indent, f"ncclReduce({self.pointer(t, source, o)}, {self.pointer(t, to, d)}, {c}, {nccl}, {ops[op]}, {root}, comm, {stream})")]
        if kind == "scatter":
            op, o = self.operation(t), pick_place(rng, 1)
            if inplace:
                refs.append(f"w.reduce_scatter({ti}, {op}, {to}, {o}, {to}, {o}, {c}, {c});")
                return [self.call(indent, f"ncclReduceScatter({self.pointer(t, to, o)}, {self.pointer(t, to, o)} + me * ({c}), {c}, {nccl}, {ops[op]}, comm, {stream})")]
            d = pick_place(rng, 1)
            refs.append(f"w.reduce_scatter({ti}, {op}, {source}, {o}, {to}, {d}, 0, {c});")
            return [self.call(indent, f"ncclReduceScatter({self.pointer(t, source, o)}, {self.pointer(t, to, d)}, {c}, {nccl}, {ops[op]}, comm, {stream})")]
        if kind == "bcast":
            d, root = pick_place(rng, 1), rng.choice(["0", "1", "R - 1"])
            self.used.add((t, to))
            refs.append(f"w.broadcast({ti}, {to}, {d}, {to}, {d}, {c}, {root});")
            return [self.call(indent, f"ncclBcast({self.pointer(t, to, d)}, {c}, {nccl}, {root}, comm, {stream})")]
        if kind == "broadcast":
            d, root = pick_place(rng, 1), rng.choice(["0", "1", "R - 1"])
            o = d if inplace else pick_place(rng, 1)
            if inplace:
                source = to
            refs.append(f"w.broadcast({ti}, {source}, {o}, {to}, {d}, {c}, {root});")
            return [self.call(indent, f"ncclBroadcast({self.pointer(t, source, o)}, {self.pointer(t, to, d)}, {c}, {nccl}, {root}, comm, {stream})")]
        self.used |= {(t, source)}
        if kind == "all_to_all":
            o, d = pick_place(rng, 1), pick_place(rng, 1)
            refs.append(f"w.all_to_all({ti}, {source}, {o}, {to}, {d}, {c});")
            return [self.call(indent, f"ncclAlltoAll({self.pointer(t, source, o)}, {self.pointer(t, to, d)}, {c}, {nccl}, comm, {stream})")]
        if kind == "pairs":  # an all-to-all of sends and receives, with or without oneself by hand
            o, d = pick_place(rng, 1), pick_place(rng, 1)
            refs.append(f"w.all_to_all({ti}, {source}, {o}, {to}, {d}, {c});")
            return [f"{indent}TRY(ncclGroupStart());", f"{indent}for (int r = 0; r < R; ++r) {{",
                    self.call(indent + "  ", f"ncclRecv({self.pointer(t, to, d)} + r * ({c}), {c}, {nccl}, r, comm, stream)"),
                    self.call(indent + "  ", f"ncclSend({self.pointer(t, source, o)} + r * ({c}), {c}, {nccl}, r, comm, stream)"),
                    f"{indent}}}", f"{indent}TRY(ncclGroupEnd());"]
        if kind == "shift":
            o, d, by = pick_place(rng, 1), pick_place(rng, 1), rng.choice([1, 1, 2])
            refs.append(f"w.shift({ti}, {source}, {o}, {to}, {d}, {c}, {by});")
            lines = [f"{indent}TRY(ncclGroupStart());",
                     self.call(indent, f"ncclSend({self.pointer(t, source, o)}, {c}, {nccl}, (me + {by}) % R, comm, stream)"),
                     self.call(indent, f"ncclRecv({self.pointer(t, to, d)}, {c}, {nccl}, (me + 2 * R - {by}) % R, comm, stream)"),
                     f"{indent}TRY(ncclGroupEnd());"]
            if rng.random() < 0.5:
                lines[1], lines[2] = lines[2], lines[1]
            return lines
        # Nested groups: collectives of the scratch of one type, and a shift between X and Y of another.
        inner = [f"{indent}TRY(ncclGroupStart());"]
        first, second = rng.sample(NAMES, 2)
        for name, group_kind in ((first, "collective"), (second, "shift")):
            number, typ = NAMES.index(name), TYPES[name][1]
            if group_kind == "collective":
                self.used |= {(name, 2), (name, 0)}
                refs.append(f"w.gather({number}, 0, n / 3, 0, 2, 0, {c});")
                inner.append(self.call(indent, f"ncclAllGather(x_{name} + n / 3, s_{name}, {c}, {typ}, comm, stream)"))
            else:
                self.used |= {(name, 1), (name, 0)}
                refs.append(f"w.shift({number}, 0, n, 1, n / 2, {c}, 1);")
                inner += [f"{indent}TRY(ncclGroupStart());",
                          self.call(indent, f"ncclSend(x_{name} + n, {c}, {typ}, (me + 1) % R, comm, stream)"),
                          self.call(indent, f"ncclRecv(y_{name} + n / 2, {c}, {typ}, (me + R - 1) % R, comm, stream)"),
                          f"{indent}TRY(ncclGroupEnd());"]
        return inner + [f"{indent}TRY(ncclGroupEnd());"]

    def source(self):
        scratch = [t for t in NAMES if (t, 2) in self.used]
        pointers = []
        for i, t in enumerate(NAMES):
            c = TYPES[t][0]
            if (t, 0) in self.used:
                pointers.append(f"  const auto* x_{t} = static_cast<const {c}*>(buffer[{i}].ptr);")
            pointers.append(f"  auto* y_{t} = static_cast<{c}*>(buffer[{4 + i}].ptr);")
            pointers.append(f"  TRY(cudaMemcpyAsync(y_{t}, buffer[{i}].ptr, all * {TYPES[t][2]}, cudaMemcpyDeviceToDevice, stream));")
            if t in scratch:
                pointers.append(f"  auto* s_{t} = static_cast<{c}*>(st->scratch_{t});")
                pointers.append(f"  TRY(cudaMemcpyAsync(s_{t}, buffer[{i}].ptr, all * {TYPES[t][2]}, cudaMemcpyDeviceToDevice, stream));")
        text = PROGRAM.replace("NUMBER", str(self.number)).replace("CAPACITY", str(CAPACITY))
        text = text.replace("SCRATCH", "".join(f"  void* scratch_{t} = nullptr;\n" for t in scratch))
        text = text.replace("ALLOCATE", "".join(f"  TRY(cudaMalloc(&st->scratch_{t}, all * {TYPES[t][2]}));\n" for t in scratch)
                            or "  (void)all;\n")
        text = text.replace("FREE", "".join(f"  TRY(cudaFree(st->scratch_{t}));\n" for t in scratch))
        return text.replace("POINTERS", "\n".join(pointers) + "\n").replace("STEPS", "\n".join(self.steps) + "\n")


def write_task(folder, programs):
    text = TASK
    for role, letter, content in (("input", "X", "per_rank"), ("output", "Y", "per_rank")):
        for t in NAMES:
            text += f'\n[[buffer]]\nname = "{letter}_{t}"\nrole = "{role}"\ndtype = "{t}"\n'
            text += f'elements = "{CAPACITY} * R * N"\ncontent = "{content}"\n'
    for program in programs:
        text += f"\n[sizes.p{program.number}]\nP = {program.number + 1}\nN = {31 + 17 * (program.number % 7)}\n"
    text += "\n[sizes.emu]\nP = 1\nN = 64\n\n[ranges]\nP = { min = 1, max = 1, step = 1 }\nN = { min = 8, max = 64, step = 1 }\n"
    text += '\n[work]\nflops = "0"\nhbm_bytes = "16 * N * R"\nlink_bytes = "16 * N * R"\n'
    # Up to two sums in half precision: some roundings of 2^-9.
    text += '\n[tolerance]\nrelative_l2 = "0.02"\nmax_abs = "4"\n'
    text += '\n[files]\nreference = "reference.cpp"\nbaselines = ["programs/p0.cu"]\nseeds = []\n'
    (folder / "programs").mkdir(parents=True)
    (folder / "task.toml").write_text(text)
    body = ""
    for program in programs:
        (folder / "programs" / f"p{program.number}.cu").write_text(program.source())
        body += f"    case {program.number + 1}:\n" + "".join(f"      {line}\n" for line in program.reference) + "      break;\n"
    (folder / "reference.cpp").write_text(REFERENCE.replace("CAPACITY", str(CAPACITY)).replace("BODY", body))


def evaluate(a, jobs):
    argv = [str(a.programs / "sculler-eval")] + (["--cache", a.cache] if a.cache else [])
    lines = "".join(json.dumps(job) + "\n" for job in jobs)
    ran = subprocess.run(argv, input=lines, capture_output=True, text=True, timeout=a.timeout)
    verdicts = {}
    for line in ran.stdout.splitlines():
        if line.startswith("{"):
            verdict = json.loads(line)
            verdicts[verdict.get("job")] = verdict
    return verdicts


def analyze(a, folder, program, ranks):
    """What `sculler analyze` says of a program; the text of what is wrong with it, or None."""
    path = folder / "programs" / f"p{program.number}.cu"
    argv = [a.programs / "sculler", "analyze", path, "--json", "--ranks", str(ranks), "--size", f"p{program.number}"]
    ran = subprocess.run(argv + (["--cache", a.cache] if a.cache else []), capture_output=True, text=True, timeout=a.timeout)
    if ran.returncode != 0:
        return f"exit code {ran.returncode}: {ran.stdout.strip()[:300]} {ran.stderr.strip()[:300]}"
    found = json.loads(ran.stdout)
    operations = {op["id"]: op for op in found["operations"]}
    collectives = [op for op in operations.values() if op["kind"] == "collective"]
    if found["truncated"] or found["n_ranks"] != ranks or not collectives:
        return f"{len(collectives)} collectives on {found['n_ranks']} ranks, truncated: {found['truncated']}"
    for op in collectives:
        if not op.get("at", "").startswith(f"p{program.number}.cu:") or not op.get("calls"):
            return f"operation {op['id']} has no line or no calls"
        for way, key in (("send", "reads"), ("recv", "writes")):
            for call in op["calls"]:
                # What a call names was touched by its operation, but for roots that alone send or receive.
                b = call.get(way)
                touched = b is None or any(r["space"] == b["space"] and r["begin"] < b["end"] and b["begin"] < r["end"]
                                           for r in op.get(key, []))
                if not touched and call["name"] not in ("ncclBroadcast", "ncclReduce"):
                    return f"operation {op['id']}: {call['name']} does not touch what it {way}s"
    if {op["id"] for op in collectives} - {t["op"] for t in found["transfers"]}:
        return "a collective is no transfer"
    for edge in found["edges"]:
        for b in edge.get("bytes", []):
            if not 0 <= b["begin"] < b["end"] <= found["spaces"][b["space"]]["bytes"]:
                return f"an edge outside of its buffer: {edge}"
    carried = {(e["from"], e["to"]) for e in found["edges"] if e["kind"] == "carry"}
    if not carried or any(operations[f]["rank"] == operations[t]["rank"] for f, t in carried):
        return "nothing is carried between ranks"
    h = found.get("headroom")
    if not h or not 0 < h["bound_us"] <= h["pieces_us"] + 0.02 or h["pieces_us"] > h["now_us"] + 0.02:
        return f"headroom: {h}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--programs", type=pathlib.Path, default=BUILD / "ci" / "bin", help="folder of sculler and sculler-eval")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--cache", default="")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the task, the programs and what they became")
    parser.add_argument("--generate", action="store_true", help="only write them to --keep, lowered")
    parser.add_argument("--analyze", action="store_true", help="also run sculler analyze on each, with each number of ranks")
    parser.add_argument("--only-analyze", action="store_true", help="that alone")
    parser.add_argument("--timeout", type=float, default=3000)
    a = parser.parse_args()
    if a.generate and not a.keep:
        parser.error("--generate needs --keep")
    doctor = subprocess.run([a.programs / "sculler-eval", "--doctor"], capture_output=True, text=True)
    if not a.generate and not json.loads(doctor.stdout)["cuda"]["nvcc"]:
        print("host_programs.py: no nvcc here", file=sys.stderr)
        return 77
    with tempfile.TemporaryDirectory() as temporary:
        folder = a.keep if a.keep else pathlib.Path(temporary) / "host_programs"
        programs = [Program(i, a.seed) for i in range(a.count)]
        write_task(folder, programs)
        jobs, about, failed = [], {}, 0
        if a.analyze or a.only_analyze:
            asked = [(program, ranks) for program in programs for ranks in map(int, a.ranks.split(","))]
            for program, ranks in asked:
                if wrong := analyze(a, folder, program, ranks):
                    failed += 1
                    print(f"p{program.number} analyzed, {ranks} ranks: {wrong}")
            print(f"{len(programs)} programs, {len(asked) - failed} of {len(asked)} analyzed (ranks {a.ranks})")
            if a.only_analyze:
                return 1 if failed else 0
        for program in programs:
            path = folder / "programs" / f"p{program.number}.cu"
            out = folder / "programs" / f"p{program.number}_lowered.cu"
            ran = subprocess.run([a.programs / "sculler", "lower", path, "-o", out], capture_output=True, text=True)
            if ran.returncode != 0:
                print(f"p{program.number}: {ran.stderr.strip()}")
                failed += 1
                continue
            for ranks in map(int, a.ranks.split(",")):
                for form, source in (("host", path), ("lowered", out)):
                    job = {"version": 1, "task": str(folder.resolve()), "target": "emu", "profile": "", "n_ranks": ranks,
                           "candidate": {"files": [{"name": "candidate.cu", "text": source.read_text()}], "defines": {}},
                           "size": f"p{program.number}", "seed": a.seed, "stages": ["compile", "emulate"]}
                    if form == "host":
                        job["baseline_of"] = "p0"
                    else:
                        job["stages"] = ["lint"] + job["stages"]
                    job["job"] = hashlib.sha256(json.dumps(job, sort_keys=True).encode()).hexdigest()
                    jobs.append(job)
                    about[job["job"]] = (program.number, form, ranks)
        if a.generate:
            return 1 if failed else 0
        verdicts = evaluate(a, jobs)
        # INTERNAL says that this machine failed (too slow to start, say): asked once more.
        again = [job for job in jobs if verdicts.get(job["job"], {}).get("status", "INTERNAL") == "INTERNAL"]
        if again:
            verdicts.update(evaluate(a, again))
        passed = 0
        for job in jobs:
            number, form, ranks = about[job["job"]]
            v = verdicts.get(job["job"], {"status": "none", "message": "no verdict"})
            if v["status"] == "PASSED":
                passed += 1
                continue
            failed += 1
            print(f"p{number} {form} {ranks} ranks: {v['status']} {v.get('where', '')} {v.get('message', '')[:300]}")
        print(f"{len(programs)} programs, {passed} of {len(jobs)} verdicts PASSED (host-driven and lowered, ranks {a.ranks})")
        return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
