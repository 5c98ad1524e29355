"""Where a correct program can be broken so that one status is the truth: pattern, mutation, and why it is a defect.

A site is a place in a seed's text that matches with enough context. Where programs have no natural place, a small
construct is put into a kernel or before the launches of sculler_run. Seeds: tasks/workloads/gemm_allgather/seeds.
"""
import re
from dataclasses import dataclass, field


@dataclass
class Site:
    seed: str
    line: int         # of the planted text
    what: str
    text: str         # the whole program, planted
    says: str = ""    # the message must match


@dataclass
class Edit:
    """In every match of `pattern` in seeds whose name matches `seeds`: a site a replacement."""
    what: str
    pattern: str
    to: object                     # replacement (re template), or several
    seeds: str = r".*"
    which: slice = field(default_factory=lambda: slice(None))
    also: tuple = ()               # further (pattern, replacement), once each, that the defect needs
    says: str = ""

    def sites(self, name, text):
        if not re.fullmatch(self.seeds, name):
            return
        for match in list(re.finditer(self.pattern, text, re.M))[self.which]:
            for to in (self.to,) if isinstance(self.to, str) else self.to:
                planted = text[:match.start()] + match.expand(to) + text[match.end():]
                line = text.count("\n", 0, match.start() + len(match.group(0)) - len(match.group(0).lstrip())) + 1
                for pattern, replacement in self.also:
                    planted, n = re.subn(pattern, replacement, planted, count=1, flags=re.M)
                    if n != 1:
                        raise ValueError(f"{name}: '{self.what}' needs /{pattern}/")
                yield Site(name, line, self.what, planted, self.says)


LAST = slice(-1, None)
FIRST = slice(0, 1)
TILED = r"tile_store|kernel_fused"
LSA = r"tile_store|kernel_fused|split_phase|odd_rows"

# The harness orders the start of an iteration, so only the last barrier of a kernel closes it.
CLOSING = r"^( *)barrier\.sync\(ncclCoopCta\(\), cuda::memory_order_acq_rel\);"

BARRIER = [
    Edit("__syncthreads() removed", r"^ *__syncthreads\(\);", "", TILED),
    Edit("closing barrier removed", CLOSING, "", LSA, LAST),
    Edit("cp.async wait removed", r"^ *asm volatile\(\"cp\.async\.wait_group %0;.*$", "", TILED),
    Edit("cp.async waits for one group too few", r"\"n\"\(STAGES - 2\)", '"n"(STAGES - 1)', TILED),
    Edit("wait for the counter removed", r"^( *)wait_for\(&counters.*$", r"\1;", "kernel_fused"),
    Edit("copy does not wait for its chunk", r"^ *GA_TRY\(cudaStreamWaitEvent\(st->side\[d\], st->computed\[i\], 0\)\);$", "",
         "copy_engine_pipeline"),
    Edit("sign does not wait for the copies", r"^ *GA_TRY\(cudaStreamWaitEvent\(main_stream, st->sent\[d\], 0\)\);$", "",
         "copy_engine_pipeline"),
]

# A closing barrier that only releases is no defect here: the kernel's end is a fence after the relaxed polls.
RELAXED = [
    Edit("closing barrier relaxed", CLOSING, r"\1barrier.sync(ncclCoopCta(), cuda::memory_order_relaxed);", LSA, LAST),
    Edit("closing barrier only acquires", CLOSING, r"\1barrier.sync(ncclCoopCta(), cuda::memory_order_acquire);", LSA, LAST),
    Edit("count relaxed", r"(count\.fetch_add\(1, cuda::memory_order_)(?:acq_rel|release)", r"\1relaxed", TILED),
    Edit("count does not release", r"(count\.fetch_add\(1, cuda::memory_order_)acq_rel", r"\1acquire", "tile_store"),
    Edit("count does not acquire", r"(count\.fetch_add\(1, cuda::memory_order_)acq_rel", r"\1release", "tile_store"),
    Edit("poll relaxed", r"count\.load\(cuda::memory_order_acquire\)", "count.load(cuda::memory_order_relaxed)",
         "kernel_fused"),
]

WRONG_PEER = [
    Edit("stores to itself", r"peers\.c\[to\]", "peers.c[shape.rank]", "tile_store"),
    Edit("last peer left out", r"for \(int d = 0; d < shape\.n_ranks; \+\+d\)", "for (int d = 0; d < shape.n_ranks - 1; ++d)",
         "tile_store"),
    Edit("stores to itself", r"peers\.c\[r\]\[", "peers.c[shape.rank][", "odd_rows"),
    Edit("rank 0 left out", r"for \(int r = 0; r < shape\.n_ranks; \+\+r\)", "for (int r = 1; r < shape.n_ranks; ++r)",
         "odd_rows"),
    Edit("peer off by one", r"\(rank \+ 1 \+ job / pieces\)", "(rank + job / pieces)", "split_phase"),
    Edit("peer off by one", r"\(shape\.rank \+ d\) % shape\.n_ranks\] \+", "(shape.rank + d - 1) % shape.n_ranks] +", "kernel_fused"),
    Edit("peer off by one", r"static_cast<size_t>\(shape\.rank\) \+ 1 \+ d\)", "static_cast<size_t>(shape.rank) + d)",
         "copy_engine_pipeline"),
    Edit("own address for every peer", r"static_cast<__nv_bfloat16\*>\(buffers\.c\[r\]\)",
         "static_cast<__nv_bfloat16*>(buffers.c[st->shape.rank])", LSA),
]

# The rank that does not arrive still waits, so that nothing but the deadlock is wrong.
MUTE = r"""\1if ({}) barrier.wait(ncclCoopCta(), cuda::memory_order_acq_rel); else barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);"""
NO_TRAP = (r"^ *if \(clock64\(\) - start > kWaitCycles\) __trap\(\);", "      ;")

SIGNAL = [
    Edit("rank 0 does not arrive", CLOSING, MUTE.format("comm.rank == 0"), LSA, LAST),
    Edit("the last rank does not arrive", CLOSING, MUTE.format("comm.rank == comm.nRanks - 1"), LSA, LAST),
    Edit("block 0 of rank 0 does not arrive", CLOSING, MUTE.format("comm.rank == 0 && blockIdx.x == 0"),
         "split_phase|kernel_fused", LAST),
    Edit("tiles are not counted", r"^( *)count\.fetch_add\(1, cuda::memory_order_release\);", r"\1;", "kernel_fused",
         also=(NO_TRAP,)),
    Edit("tile 0 is not counted", r"^( *)count\.fetch_add\(1, cuda::memory_order_release\);",
         r"\1if (tile != 0) count.fetch_add(1, cuda::memory_order_release);", "kernel_fused", also=(NO_TRAP,)),
    Edit("one count more than comes is awaited", r"static_cast<unsigned long long>\(group_m\) \* tiles_n\);",
         "static_cast<unsigned long long>(group_m) * tiles_n + 1);", "kernel_fused", also=(NO_TRAP,)),
    Edit("rank 0 does not send the sign", r"^( *)GA_TRY\(ncclSend", r"\1if (shape.rank != 0) GA_TRY(ncclSend",
         "copy_engine_pipeline"),
]

# A kernel of its own, launched at the start of sculler_run.
KERNEL_AT = r"^extern \"C\" int sculler_setup"
LAUNCH_AT = r"^( *)const ga_buffers& buffers = st->sets\[static_cast<size_t>\(set\)\];$"


def with_kernel(what, kernel, launch, seeds=r".*", **more):
    """Its line is the kernel's first; static, so that no name can clash with the program's."""
    # A template of re would read the kernel's backslashes, of which there are some in asm.
    kernel, launch = (t.replace("\\", "\\\\") for t in (kernel, launch))
    return Edit(what, KERNEL_AT, kernel + r"\g<0>", seeds, FIRST, also=((LAUNCH_AT, r"\g<0>" + "\n" + launch),), **more)


SPIN_FLAG = """static __device__ unsigned planted_flag;
static __global__ void planted_spin() {
  extern __shared__ unsigned char planted_shared[];
  cuda::atomic_ref<unsigned, cuda::thread_scope_device> flag(planted_flag);
  if (threadIdx.x == 0) {
    if (blockIdx.x == gridDim.x - 1) flag.store(1, cuda::memory_order_release);
    else while (flag.load(cuda::memory_order_acquire) == 0) {}
  }
  __syncthreads();
}
"""
SPIN_COUNT = """static __device__ unsigned planted_flag;
static __global__ void planted_spin() {
  cuda::atomic_ref<unsigned, cuda::thread_scope_device> flag(planted_flag);
  if (threadIdx.x == 0) {
    flag.fetch_add(1, cuda::memory_order_acq_rel);
    while (flag.load(cuda::memory_order_acquire) < gridDim.x) {}
  }
  __syncthreads();
}
"""
ATOMIC = (r"^#include <nccl_device\.h>$|^#include <nccl\.h>$", "\\g<0>\n#include <cuda/atomic>")
TWICE = """  {
    int resident = 0, processors = 0;
    GA_TRY(cudaFuncSetAttribute(planted_spin, cudaFuncAttributeMaxDynamicSharedMemorySize, %(shared)s));
    GA_TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, planted_spin, %(threads)s, %(shared)s));
    GA_TRY(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, st->rank.device));
    const unsigned blocks = 2u * static_cast<unsigned>(resident) * static_cast<unsigned>(processors);
    %(launch)s
  }"""
PLAIN = """planted_spin<<<blocks, %(threads)s, %(shared)s, static_cast<cudaStream_t>(st->rank.stream)>>>();
    GA_TRY(cudaGetLastError());"""
COOPERATIVE = """GA_TRY(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(planted_spin), dim3(blocks), dim3(%(threads)s), nullptr,
                                       %(shared)s, static_cast<cudaStream_t>(st->rank.stream)));"""


def spinning(what, kernel, launch, threads, shared, **more):
    values = {"threads": threads, "shared": shared}
    edit = with_kernel(what, kernel, TWICE % {**values, "launch": launch % values}, **more)
    edit.also += (ATOMIC,)
    return edit


RESIDENCY = [
    spinning("twice the residency, flag of the last block", SPIN_FLAG, PLAIN, 32, 200 * 1024),
    spinning("twice the residency, all blocks counted", SPIN_COUNT, PLAIN, 1024, 0),
    spinning("twice the residency, three blocks a multiprocessor", SPIN_FLAG, PLAIN, 64, 70 * 1024),
]
COOPERATIVE_LAUNCH = [
    spinning("cooperative, twice the residency, flag", SPIN_FLAG, COOPERATIVE, 32, 200 * 1024,
             says="(?i)cooperative|too large|720"),
    spinning("cooperative, twice the residency, count", SPIN_COUNT, COOPERATIVE, 1024, 0,
             says="(?i)cooperative|too large|720"),
    spinning("cooperative, three blocks a multiprocessor", SPIN_FLAG, COOPERATIVE, 64, 70 * 1024,
             says="(?i)cooperative|too large|720"),
]

KERNEL_END = r"^( *)(ncclLsaBarrierSession<ncclCoopCta> barrier\(.*)$"
ONE_STORE = """\\1if (blockIdx.x == {block} && threadIdx.x == {thread})
\\1  peers.c[(shape.rank + 1) % shape.n_ranks][{index}] = __float2bfloat16_rn(1.0f);
\\1\\2"""
BOUNDS = [
    Edit("tiles behind the window", r"peers\.c\[to\] \+ shape\.first_row \* shape\.n",
         "peers.c[to] + shape.s * shape.n", "tile_store"),
    Edit("rows behind the window", r"\(shape\.first_row \+ row\) \* shape\.n \+ column\] = value",
         "(shape.s + row) * shape.n + column] = value", "odd_rows"),
    Edit("last element one too far", r"\(shape\.first_row \+ row\) \* shape\.n \+ column\] = value",
         "(shape.first_row + row) * shape.n + column + (row == shape.rows - 1 && column == shape.n - 1 && shape.rank == "
         "shape.n_ranks - 1)] = value", "odd_rows"),
    Edit("tiles far behind the window", r"peers\.c\[to\] \+ shape\.first_row \* shape\.n",
         "peers.c[to] + 3 * shape.s * shape.n / 2", "tile_store"),
    Edit("slice behind the window", r"(reinterpret_cast<uint4\*>\(peers\.c\[peer\]\) \+ first_unit)", r"\1 + units * (n_ranks - rank)",
         "split_phase"),
    Edit("rows behind the window", r"^( *)shape\.first_row \* shape\.n\);", r"\1shape.s * shape.n);",
         "kernel_fused"),
    Edit("one element behind the window", KERNEL_END, ONE_STORE.format(block="3", thread=77, index="shape.s * shape.n"),
         "kernel_fused"),
    Edit("one element before the window", KERNEL_END, ONE_STORE.format(block="0", thread=5, index="-1"), "kernel_fused"),
    Edit("one element behind the window", r"^( *)(__shared__ bool last;)$",
         ONE_STORE.format(block="gridDim.x - 1", thread=31, index="shape.s * shape.n"), "tile_store"),
    Edit("one element before the window", r"^( *)(__shared__ bool last;)$",
         ONE_STORE.format(block="0", thread=255, index="-1"), "tile_store"),
]

READ = """static __global__ void planted_read(const float* from, float* to) {{
  {body}
}}
"""
ALLOCATE = """  {
    static float* planted = nullptr;
    if (planted == nullptr) GA_TRY(cudaMalloc(reinterpret_cast<void**>(&planted), 4096));
    planted_read<<<1, 64, 0, static_cast<cudaStream_t>(st->rank.stream)>>>(planted, planted + 512);
    GA_TRY(cudaGetLastError());
  }"""
UNINITIALISED = [
    Edit("tile of A is not loaded", r"^ *load_tile<TILE_M>\(to, .*;$", "", TILED),
    Edit("tile of B is not loaded", r"^ *load_tile<TILE_N>\(to .*,\n.*;$", "", TILED),
    Edit("counter is not cleared", r"^ *GA_TRY\(cudaMemset\(st->(?:counters|finished), 0, .*$", "", TILED),
    with_kernel("scratch read, never written", READ.format(body="to[threadIdx.x] = 2.0f * from[threadIdx.x];"), ALLOCATE,
                "split_phase|odd_rows|copy_engine_pipeline"),
    with_kernel("shared memory read, never written", READ.format(
        body="__shared__ volatile float planted[64];\n  if (threadIdx.x < 32) planted[threadIdx.x] = 1.0f;\n"
             "  __syncthreads();\n  to[threadIdx.x] = planted[threadIdx.x] + (from == to ? 1.0f : 0.0f);"), ALLOCATE,
        "split_phase|odd_rows|copy_engine_pipeline"),
]

# Valid PTX that no candidate needs; what the emulator learns has to leave this list.
UNKNOWN = {
    "fns.b32": r'unsigned planted; asm volatile("fns.b32 %0, %1, 0, 1;" : "=r"(planted) : "r"(threadIdx.x));',
    "szext.wrap.s32": r'int planted; asm volatile("szext.wrap.s32 %0, %1, 7;" : "=r"(planted) : "r"(threadIdx.x));',
    "vadd4.u32": r'unsigned planted; asm volatile("vadd4.u32.u32.u32 %0, %1, %1, %1;" : "=r"(planted) : "r"(threadIdx.x));',
    "multimem.red": r'asm volatile("multimem.red.relaxed.sys.global.add.u32 [%0], %1;" :: "l"(0ull), "r"(1) : "memory");',
}
KERNEL_OPENS = r"^__global__[^;{]*?\{$"
UNKNOWN_OPCODE = [Edit(f"{name} in a kernel", KERNEL_OPENS, r"\g<0>" + "\n  { " + code + " }", says=re.escape(name))
                  for name, code in UNKNOWN.items()]
UNKNOWN_OPCODE += [with_kernel(f"{name} in a kernel of its own",
                               "static __global__ void planted_unknown() {\n  " + code + "\n}\n",
                               "  planted_unknown<<<1, 32, 0, static_cast<cudaStream_t>(st->rank.stream)>>>();",
                               "copy_engine_pipeline|split_phase", says=re.escape(name))
                   for name, code in UNKNOWN.items()]


@dataclass
class Class:
    status: str
    edits: list


CLASSES = {
    "barrier": Class("RACE", BARRIER),
    "relaxed": Class("RACE", RELAXED),
    "peer": Class("INCORRECT", WRONG_PEER),
    "signal": Class("DEADLOCK", SIGNAL),
    "residency": Class("DEADLOCK", RESIDENCY),
    "cooperative": Class("LAUNCH_ERROR", COOPERATIVE_LAUNCH),
    "bounds": Class("OUT_OF_BOUNDS", BOUNDS),
    "uninitialised": Class("UNINITIALISED", UNINITIALISED),
    "opcode": Class("UNSUPPORTED", UNKNOWN_OPCODE),
}


def sites_of(cls, seed, text):
    """All sites of a class in a seed, in the order of the lists above."""
    return [site for edit in CLASSES[cls].edits for site in edit.sites(seed, text)]
