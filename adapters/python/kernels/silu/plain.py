"""y = x * sigmoid(x), one element after the other."""
import math

# EVOLVE-BLOCK-START


def run(buffers, dims):
    x, y = buffers["X"], buffers["Y"]
    for i in range(dims["N"]):
        v = x[i]
        if v >= 0:
            y[i] = v / (1.0 + math.exp(-v))
        else:
            e = math.exp(v)
            y[i] = v * e / (1.0 + e)


# EVOLVE-BLOCK-END
