"""Y = X W: the three loops."""

# EVOLVE-BLOCK-START


def run(buffers, dims):
    x, w, y = buffers["X"], buffers["W"], buffers["Y"]
    m, n, k = dims["M"], dims["N"], dims["K"]
    for i in range(m):
        for j in range(n):
            total = 0.0
            for l in range(k):
                total += x[i * k + l] * w[l * n + j]
            y[i * n + j] = total


# EVOLVE-BLOCK-END
