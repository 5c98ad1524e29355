"""y = x * sigmoid(x): tiles of 128 partitions."""
import neuronxcc.nki.language as nl

# EVOLVE-BLOCK-START
# sculler:tune COLUMNS in {512,2048}
COLUMNS = 2048


def kernel(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    flat = x.reshape((x.shape[0] * x.shape[1],))
    out = y.reshape((x.shape[0] * x.shape[1],))
    n = x.shape[0] * x.shape[1]
    tile = nl.tile_size.pmax * COLUMNS
    for t in nl.affine_range((n + tile - 1) // tile):
        p = nl.arange(nl.tile_size.pmax)[:, None]
        c = nl.arange(COLUMNS)[None, :]
        at = t * tile + p * COLUMNS + c
        value = nl.load(flat[at], mask=(at < n))
        nl.store(out[at], nl.multiply(value, nl.sigmoid(value)), mask=(at < n))
    return y


# EVOLVE-BLOCK-END
