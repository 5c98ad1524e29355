#!/usr/bin/env python3
"""A program that an adapter has loaded shows its functions' source to tools that read it (as Triton's jit does)."""
import inspect
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "adapters" / "shared"))
import sculler_adapter  # noqa: E402

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "candidate.py"
    path.write_text("# sculler:tune WIDTH in {1,2}\nWIDTH = 1\n\n\ndef launch(buffers, dims):\n    return WIDTH\n")
    module = sculler_adapter.load_module([("candidate.py", str(path))], {"WIDTH": "2"}, "launch")
    assert module.launch(None, None) == 2
    lines, first = inspect.getsourcelines(module.launch)
    assert (lines, first) == (["def launch(buffers, dims):\n", "    return WIDTH\n"], 5), (lines, first)
print("seen")
