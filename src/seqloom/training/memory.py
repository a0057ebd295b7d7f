"""An estimate of the memory that long sequences need, so that a process ends with a sentence, not by the system."""

from collections.abc import Iterable, Iterator
from heapq import heappush, heappushpop
from pathlib import Path
from typing import Any

from torch import nn

from seqloom.data.batch import MAX_WASTE
from seqloom.data.length_limit import TooLong
from seqloom.data.readers.text_files import DataError

FLOAT = 4  # bytes
TRAINING = 2  # times the forward pass: the gradient of each activation
RESERVE = 1.1  # times the estimate
SMALL = 1 << 26  # bytes that are not worth a check


def available_memory() -> int | None:
    """Bytes that this process can still get; None: unknown."""
    limits = [_meminfo(Path("/proc/meminfo")), _cgroup(Path("/sys/fs/cgroup"))]
    known = [limit for limit in limits if limit is not None]
    return min(known) if known else None


def step_bytes(module: nn.Module) -> int:
    """Bytes of the activations of one time step: an output for each row of each weight matrix."""
    tables = {id(each.weight) for each in module.modules() if isinstance(each, nn.Embedding)}
    rows = sum(each.shape[0] for each in module.parameters() if each.ndim >= 2 and id(each) not in tables)
    return FLOAT * rows


def check_memory(
    module: nn.Module,
    example: Any,
    *,
    steps: int,
    rows: int = 1,
    training: bool,
    too_long: TooLong | None = None,  # what train.max_length would do; None: it has no effect
) -> None:
    """DataError if a batch of ``rows`` inputs, of which the example is the longest, needs more memory than there is."""
    needed = round(RESERVE * rows * steps * step_bytes(module) * (TRAINING if training else 1))
    if needed < SMALL:
        return
    available = available_memory()
    if available is None or needed <= available:
        return
    what = f"an input of {steps:,} steps needs" if rows == 1 else f"{rows} inputs of up to {steps:,} steps need"
    remedies = ["divide the input into shorter ones"]
    if training:
        if too_long:
            remedies = [f"set train.max_length below {len(example):,} to {too_long} it", *remedies]
        remedies = ["set train.batch_tokens or a smaller train.batch_size", *remedies] if rows > 1 else remedies
    raise DataError(
        example.location,
        f"{what} about {needed / 1e9:.1f} GB of memory, but {available / 1e9:.1f} GB are available; "
        + ", or ".join(remedies),
    )


class LongestExamples:
    """Remembers the longest examples that pass."""

    def __init__(self, *, rows: int) -> None:
        self.rows = rows
        self.longest: Any = None
        self.lengths: list[int] = []  # of the ``rows`` longest ones, a heap

    def watch(self, examples: Iterable[Any]) -> Iterator[Any]:
        """The same examples, noted as they pass."""
        for example in examples:
            length = len(example)
            if self.longest is None or length > len(self.longest):
                self.longest = example
            if len(self.lengths) < self.rows:
                heappush(self.lengths, length)
            else:
                heappushpop(self.lengths, length)
            yield example

    def batch_rows(self) -> int:
        """The examples of the largest batch: those that are about as long as the longest one."""
        return sum(MAX_WASTE * length >= len(self.longest) for length in self.lengths)


def _meminfo(path: Path) -> int | None:
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)


def _cgroup(folder: Path) -> int | None:
    """What the control group of a container leaves."""
    try:
        limit = (folder / "memory.max").read_text(encoding="ascii").strip()
        used = int((folder / "memory.current").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return max(int(limit) - used, 0) if limit.isdecimal() else None
