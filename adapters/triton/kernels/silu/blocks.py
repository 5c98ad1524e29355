"""y = x * sigmoid(x): one program a block."""
import triton
import triton.language as tl

# EVOLVE-BLOCK-START
# sculler:tune BLOCK in {1024,2048,4096,8192}
BLOCK = 4096
# sculler:tune WARPS in {4,8}
WARPS = 8


@triton.jit
def silu(x_ptr, y_ptr, n, BLOCK_SIZE: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside)
    tl.store(y_ptr + at, x / (1.0 + tl.exp(-x)), mask=inside)


def launch(buffers, dims):
    n = dims["N"]
    silu[(triton.cdiv(n, BLOCK),)](buffers["X"], buffers["Y"], n, BLOCK_SIZE=BLOCK, num_warps=WARPS)


# EVOLVE-BLOCK-END
