"""An estimate of the memory that long sequences need, so that a process ends with a sentence, not by the system."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappush, heappushpop
from pathlib import Path
from typing import Any

from torch import nn

from seqloom.data.batch import MAX_WASTE
from seqloom.data.batch import SMALL as MAX_UNDIVIDED
from seqloom.data.length_limit import TooLong
from seqloom.data.readers.text_files import DataError
from seqloom.training.config import TrainConfig
from seqloom.training.self_trained import SelfTrained

FLOAT = 4  # bytes
INFERENCE = 1.1  # times the activations; measured: 0.5 to 1.06
TRAINING = 1.6  # times the activations, with their gradients; measured: 0.9 to 1.4, most with layer normalisation
NOISE = 1.5  # times that for cells with zoneout or recurrent dropout; measured: 1.4
SMALL = 1 << 26  # bytes that are not worth a check


def available_memory() -> int | None:
    """Bytes that this process can still get; None: unknown."""
    limits = [_meminfo(Path("/proc/meminfo")), _cgroup(Path("/sys/fs/cgroup"))]
    known = [limit for limit in limits if limit is not None]
    return min(known) if known else None


def step_bytes(module: nn.Module, *, training: bool) -> int:
    """Bytes of one time step of one row of a batch: the inputs and the outputs of each weight matrix, and gradients."""
    tables = {id(each.weight) for each in module.modules() if isinstance(each, nn.Embedding)}
    matrices = [each for each in module.parameters() if each.ndim >= 2 and id(each) not in tables]
    values = sum(each.shape[0] + each[0].numel() for each in matrices)
    noise = NOISE if training and any(hasattr(each, "sample_noise") for each in module.modules()) else 1
    return round(FLOAT * values * noise * (TRAINING if training else INFERENCE))


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
    needed = rows * steps * step_bytes(module, training=training)
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


def check_training_memory(
    module: nn.Module,
    train: "LongestExamples",
    dev: Sequence[Any],
    settings: TrainConfig,
    *,
    steps: Callable[[Any], int],  # that the model computes for an example
    too_long: TooLong | None,  # what train.max_length would do; None: it has no effect
) -> None:
    """DataError with the place of the longest example if its batch cannot fit into memory."""
    if settings.device != "cpu" or settings.bptt_steps or isinstance(module, SelfTrained):
        return
    if train.longest is not None:
        rows = 1 if settings.batch_tokens else train.batch_rows()
        length = steps(train.longest)
        for count in sorted({1, rows}):
            check_memory(module, train.longest, steps=length, rows=count, training=True, too_long=too_long)
    if dev:
        longest = max(dev, key=len)
        check_memory(module, longest, steps=steps(longest), training=False)


class LongestExamples:
    """Remembers the longest examples that pass."""

    def __init__(self, settings: TrainConfig) -> None:
        self.rows = max(settings.batch_size // settings.accumulate, 1)  # of a batch
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
        """The rows of the largest batch: examples about as long as the longest one, or a few padded to its length.

        A padded row needs as much memory as any other.
        """
        longest = max(len(self.longest), 1)
        alike = sum(MAX_WASTE * length >= longest for length in self.lengths)
        return max(alike, min(len(self.lengths), MAX_UNDIVIDED // longest))


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
