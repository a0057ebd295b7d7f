"""What a decoder says of a memory: by a search of its own, and where it is told the true symbols one by one."""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from seqloom.data.batch import Padded
from seqloom.decoding.beam import Beam
from seqloom.decoding.search import Hypothesis, Search
from seqloom.layers.layer import Memory, coverage
from seqloom.models.decoder import Decoder, step


def generate(
    decoder: Decoder,
    memory: Memory,
    search: Search,
    *,
    end: int,  # also the symbol before the first one
    lengths: Tensor | int,  # (B,), the most symbols of each row, the end symbol included
    never: tuple[int, ...] = (),  # symbols that are not chosen
) -> list[list[Hypothesis]]:
    """The hypotheses of each row of the memory, the best first."""
    mask = memory.mask
    start = mask.new_full((len(mask),), end, dtype=torch.int64)
    follow = partial(step, decoder)
    if not (isinstance(search, Beam) and search.coverage):
        return search(follow, decoder.start(memory, len(mask)), start, end, lengths=lengths, never=never)

    def beside(tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """The mask of the source goes with the state, since padding is not to be covered."""
        scores, inner = follow(tokens, state[0])
        return scores, (inner, state[1])

    def covered(state: Any) -> Tensor | None:
        found = coverage(state[0])
        return None if found is None else found.masked_fill(~state[1], 1)

    begin = (decoder.start(memory, len(mask), coverage=True), mask)
    return search(beside, begin, start, end, lengths=lengths, never=never, coverage=covered)


def before(target: Padded, end: int) -> Tensor:  # (B, T)
    """The symbol before each of the target's: the end of what came before, then the target itself."""
    return torch.cat([torch.full_like(target.values[:, :1], end), target.values[:, :-1]], dim=1)


def forced(decoder: Decoder, memory: Memory, target: Padded, *, end: int) -> list[tuple[list[float], list[bool]]]:
    """Of each row, the log-probabilities of the true symbols, and whether they are the most probable ones."""
    said, real = target
    features, _ = decoder.features(before(target, end), decoder.start(memory, len(said)), mask=real)
    values, right = decoder.judge(features[real], said[real])
    counts = real.sum(dim=1).tolist()
    return [
        (own.tolist(), found.tolist()) for own, found in zip(values.split(counts), right.split(counts), strict=True)
    ]
