"""Several processes that train one model: started by torchrun, each with its share of every batch."""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from typing import Any, NamedTuple

import torch
from torch import Tensor, distributed

PATIENCE = timedelta(minutes=30)
"""How long a process waits for the others: they may be evaluating."""


class Team(NamedTuple):
    """One process among all that train together."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        return self.rank == 0

    def add(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by the sum over all processes."""
        if self.size == 1:
            return
        tensors = list(tensors)
        flat = torch.cat([tensor.flatten() for tensor in tensors])
        distributed.all_reduce(flat)
        for tensor, summed in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(summed.view_as(tensor))

    def total(self, *numbers: float) -> list[float]:
        """Each number's sum over all processes."""
        if self.size == 1:
            return list(numbers)
        summed = torch.tensor(numbers, dtype=torch.float64)
        distributed.all_reduce(summed)
        return summed.tolist()

    def gather(self, data: bytes) -> list[bytes]:
        """What each process gave, in the order of their ranks."""
        if self.size == 1:
            return [data]
        lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
        distributed.all_gather(lengths, torch.tensor([len(data)]))
        longest = max(int(length) for length in lengths)
        mine = torch.frombuffer(bytearray(data.ljust(longest, b"\0")), dtype=torch.uint8) if longest else torch.empty(0)
        all_data = [torch.empty(longest, dtype=torch.uint8) for _ in range(self.size)]
        if longest:
            distributed.all_gather(all_data, mine)
        return [part[: int(length)].numpy().tobytes() for part, length in zip(all_data, lengths, strict=True)]

    def share(self, make: Callable[[], Any]) -> Any:
        """What the first process makes, handed on as JSON."""
        if self.size == 1:
            return make()
        made = json.dumps(make()) if self.leads else ""
        return json.loads(self.gather(made.encode())[0])

    def merge(self, answers: list[list[Any]]) -> list[Any]:
        """The dataclasses of all processes, in order: of each batch, rank r had every size-th from r on."""
        if self.size == 1:
            return [answer for found in answers for answer in found]
        data = self.gather(json.dumps([[asdict(answer) for answer in found] for found in answers]).encode())
        if not self.leads:
            return []
        kind = type(answers[0][0])  # there are examples, and the first process has the first one
        return [
            kind(**rows[index % self.size][index // self.size])
            for rows in zip(*map(json.loads, data), strict=True)
            for index in range(sum(map(len, rows)))
        ]

    def agree(self, *, stop: bool) -> bool:
        """Whether any process wants to stop."""
        return self.total(float(stop))[0] > 0


SERIAL_LIMIT = Team()


@contextmanager
def join() -> Iterator[Team]:
    """The team of this process: as torchrun's environment says, or alone."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1 or "RANK" not in os.environ:
        yield SERIAL_LIMIT
        return
    distributed.init_process_group("gloo", timeout=PATIENCE)
    try:
        yield Team(distributed.get_rank(), distributed.get_world_size())
    finally:
        distributed.destroy_process_group()
