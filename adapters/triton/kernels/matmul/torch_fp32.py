"""Y = X W by cuBLAS in float32 (TF32 is off)."""
import torch

# EVOLVE-BLOCK-START


def launch(buffers, dims):
    torch.matmul(buffers["X"], buffers["W"], out=buffers["Y"])


# EVOLVE-BLOCK-END
