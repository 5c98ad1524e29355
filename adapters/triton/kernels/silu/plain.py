"""y = x * sigmoid(x), as PyTorch does it."""
import torch

# EVOLVE-BLOCK-START


def launch(buffers, dims):
    torch.mul(buffers["X"], torch.sigmoid(buffers["X"]), out=buffers["Y"])


# EVOLVE-BLOCK-END
