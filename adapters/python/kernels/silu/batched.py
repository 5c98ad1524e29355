"""y = x * sigmoid(x), whole pieces through one generator expression."""
import array
import math

# EVOLVE-BLOCK-START
# sculler:tune PIECE in {256,1024,4096}
PIECE = 1024


def run(buffers, dims):
    x, y = buffers["X"], buffers["Y"]
    exp = math.exp
    for begin in range(0, dims["N"], PIECE):
        part = x[begin : begin + PIECE]
        y[begin : begin + PIECE] = array.array(
            "f", [v / (1.0 + exp(-v)) if v > -700.0 else 0.0 for v in part])


# EVOLVE-BLOCK-END
