"""Y = X W: columns of W are gathered once, rows meet them in sum(map(mul))."""
import array
import operator

# EVOLVE-BLOCK-START


def run(buffers, dims):
    x, w, y = buffers["X"], buffers["W"], buffers["Y"]
    m, n, k = dims["M"], dims["N"], dims["K"]
    columns = [w[j::n].tolist() for j in range(n)]
    mul = operator.mul
    for i in range(m):
        row = x[i * k : (i + 1) * k].tolist()
        y[i * n : (i + 1) * n] = array.array("f", [sum(map(mul, row, column)) for column in columns])


# EVOLVE-BLOCK-END
