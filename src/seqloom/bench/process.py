"""What has to be measured in a process of its own: peak memory, and the first use of a cell."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from seqloom.bench.measure import Result

MEMORY = """
import re, resource, sys, torch
from pathlib import Path
from torch import nn

def peak():
    # What getrusage says of a process may still be its parent's peak.
    status = Path("/proc/self/status")
    if status.exists():
        return int(re.search(r"VmHWM:\\s+(\\d+) kB", status.read_text())[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20

torch.set_num_threads(2)
time, batch, input_size, hidden_size = map(int, sys.argv[2:])
if sys.argv[1] == "ours":
    from seqloom.cells import LSTM
    from seqloom.layers.recurrent.recurrent import Recurrent
    layer, shape = Recurrent(LSTM(input_size, hidden_size)), (batch, time)
else:
    layer, shape = nn.LSTM(input_size, hidden_size), (time, batch)
x = torch.randn(*shape, input_size, requires_grad=True)
weight = torch.randn(*shape, hidden_size)
layer(x[:2, :2])[0].sum().backward()
before = peak()
for _ in range(5):
    layer(x)[0].backward(weight)
print(peak() - before)
"""

FIRST_USE = """
import sys, time, torch
from torch import nn
torch.set_num_threads(1)
x = torch.randn(8, 10, 32)
nn.LSTM(32, 64)(x)[0].sum().backward()
start = time.perf_counter()
from seqloom import cells
from seqloom.layers.recurrent.recurrent import Recurrent
Recurrent(getattr(cells, sys.argv[1])(32, 64))(x)[0].sum().backward()
print(time.perf_counter() - start)
"""


def child(program: str, *arguments: object, cache_folder: str | None = None) -> float:
    """The number that a program prints, run in a process of its own."""
    environment = dict(os.environ) | ({"SEQLOOM_CACHE": cache_folder} if cache_folder else {})
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)  # noqa: S603
    return float(done.stdout)


def memory(shape: tuple[int, int, int, int]) -> Result:
    """How much memory training adds at its peak."""
    ours, peer = child(MEMORY, "ours", *shape), child(MEMORY, "nn.LSTM", *shape)
    return Result(
        case=f"LSTM training memory {shape}",
        unit="MB",
        threads=2,
        ours=ours,
        peer=peer,
        peer_name="nn.LSTM",
        ratio=peer / ours,
        goal=1 / 1.1,
        limit=None,
        ours_best=ours,
        peer_best=peer,
    )


def first_use() -> Iterator[Result]:
    """Seconds from the import of the library to the first gradient: all kernels compiled, or found on disk."""
    for name in ("LSTM", "LayerNormLSTM"):
        with tempfile.TemporaryDirectory() as folder:
            for kind, goal in (("empty", 5.0), ("warm", 0.3)):
                runs = [child(FIRST_USE, name, cache_folder=folder) for _ in range(1 if kind == "empty" else 5)]
                found = sorted(runs)[len(runs) // 2]
                yield Result(
                    case=f"{name} first use, {kind} cache",
                    unit="s",
                    threads=1,
                    ours=found,
                    peer=goal,
                    peer_name="the goal",
                    ratio=goal / found,
                    goal=1.0,
                    limit=None,
                    ours_best=min(runs),
                    peer_best=goal,
                )
