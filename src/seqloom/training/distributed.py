"""Data-parallel training: processes started by torchrun, each with its share of every batch."""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from typing import Any, NamedTuple

import torch
from torch import Tensor, distributed
from torch.distributed.rendezvous import rendezvous

from seqloom.training.network_interface import set_interface

TIMEOUT = timedelta(minutes=30)
"""How long a process waits for the others, which may be evaluating."""


class ProcessGroup(NamedTuple):
    """The processes that train together, seen from one of them."""

    rank: int = 0
    size: int = 1

    @property
    def is_main(self) -> bool:
        """Whether this process writes the run."""
        return self.rank == 0

    @property
    def is_member(self) -> bool:
        """Whether this process takes part; False for the others after ``main_only``."""
        return self.rank < self.size

    def main_only(self) -> "ProcessGroup":
        """The group of the main process alone."""
        return ProcessGroup(self.rank, 1)

    def sum_tensors(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by its sum over all processes."""
        if self.size == 1:
            return
        tensors = list(tensors)
        flat = torch.cat([tensor.flatten() for tensor in tensors])
        distributed.all_reduce(flat)
        for tensor, summed in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(summed.view_as(tensor))

    def sum(self, *numbers: float) -> list[float]:
        """The sum of each number over all processes."""
        if self.size == 1:
            return list(numbers)
        summed = torch.tensor(numbers, dtype=torch.float64)
        distributed.all_reduce(summed)
        return summed.tolist()

    def any_rank(self, *, flag: bool) -> bool:
        """Whether the flag is set in any process."""
        return self.sum(float(flag))[0] > 0

    def all_gather(self, data: bytes) -> list[bytes]:
        """The bytes of every process, by rank."""
        if self.size == 1:
            return [data]
        lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
        distributed.all_gather(lengths, torch.tensor([len(data)]))
        longest = max(int(length) for length in lengths)
        own = torch.frombuffer(bytearray(data.ljust(longest, b"\0")), dtype=torch.uint8) if longest else torch.empty(0)
        all_data = [torch.empty(longest, dtype=torch.uint8) for _ in range(self.size)]
        if longest:
            distributed.all_gather(all_data, own)
        return [part[: int(length)].numpy().tobytes() for part, length in zip(all_data, lengths, strict=True)]

    def broadcast(self, make: Callable[[], Any]) -> Any:
        """The JSON value that the main process makes, in every process."""
        if self.size == 1:
            return make()
        made = json.dumps(make()) if self.is_main else ""
        return json.loads(self.all_gather(made.encode())[0])

    def gather_rows(self, batches: list[list[Any]]) -> list[Any]:
        """All rows (dataclasses) in order, on the main process: rank r has rows r, r + size, … of each batch."""
        if self.size == 1:
            return [row for rows in batches for row in rows]
        data = self.all_gather(json.dumps([[asdict(row) for row in rows] for rows in batches]).encode())
        if not self.is_main:
            return []
        kind = type(batches[0][0])  # there are examples, and the main process has the first one
        return [
            kind(**shares[index % self.size][index // self.size])
            for shares in zip(*map(json.loads, data), strict=True)
            for index in range(sum(map(len, shares)))
        ]


SINGLE = ProcessGroup()


@contextmanager
def process_group() -> Iterator[ProcessGroup]:
    """The group of this process, as set by torchrun's environment variables; a single process without them."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1 or "RANK" not in os.environ:
        yield SINGLE
        return
    store, rank, size = next(iter(rendezvous("env://", timeout=TIMEOUT)))
    store.set_timeout(TIMEOUT)
    set_interface(store, rank=rank, size=size, master=os.environ["MASTER_ADDR"], port=int(os.environ["MASTER_PORT"]))
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=TIMEOUT)
    try:
        yield ProcessGroup(distributed.get_rank(), distributed.get_world_size())
    finally:
        distributed.destroy_process_group()
