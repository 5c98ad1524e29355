"""Y = X W: tiles with three TF32 products for one of float32, which the task's tolerance allows and one alone does not meet."""
import triton
import triton.language as tl

# EVOLVE-BLOCK-START
# sculler:tune TILE_M in {64,128}
TILE_M = 128
# sculler:tune TILE_N in {64,128}
TILE_N = 128
# sculler:tune TILE_K in {32,64}
TILE_K = 32
# sculler:tune STAGES in {2,3,4}
STAGES = 3


@triton.jit
def product(x_ptr, w_ptr, y_ptr, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for begin in range(0, k, BK):
        at = begin + inner
        x = tl.load(x_ptr + rows[:, None].to(tl.int64) * k + at[None, :],
                    mask=(rows[:, None] < m) & (at[None, :] < k), other=0.0)
        w = tl.load(w_ptr + at[:, None].to(tl.int64) * n + columns[None, :],
                    mask=(at[:, None] < k) & (columns[None, :] < n), other=0.0)
        total = tl.dot(x, w, total, input_precision="tf32x3")
    tl.store(y_ptr + rows[:, None].to(tl.int64) * n + columns[None, :], total,
             mask=(rows[:, None] < m) & (columns[None, :] < n))


def launch(buffers, dims):
    m, n, k = dims["M"], dims["N"], dims["K"]
    grid = (triton.cdiv(m, TILE_M), triton.cdiv(n, TILE_N))
    product[grid](buffers["X"], buffers["W"], buffers["Y"], m, n, k, BM=TILE_M, BN=TILE_N, BK=TILE_K,
                  num_warps=8, num_stages=STAGES)


# EVOLVE-BLOCK-END
