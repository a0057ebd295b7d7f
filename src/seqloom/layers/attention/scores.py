"""Attention scores: how well a query matches a key."""

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn


class Score(nn.Module, ABC):
    """Maps queries (B, T, Q) and keys (B, S, K) to (B, T, S). What depends on the keys only is computed once."""

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()
        for name, size in (("query_size", query_size), ("key_size", key_size)):
            if size < 1:
                raise ValueError(f"{name} must be at least 1, got {size}")
        self.query_size = query_size
        self.key_size = key_size

    @abstractmethod
    def prepare(
        self,
        keys: Tensor,  # (B, S, K)
    ) -> Tensor:  # (B, S, A)
        """Compute the part of the score that depends on the keys only."""

    @abstractmethod
    def forward(
        self,
        query: Tensor,  # (B, T, Q)
        prepared: Tensor,  # (B, S, A)
    ) -> Tensor:  # (B, T, S)
        """Return the scores of all pairs."""


class Dot(Score):
    """q · k."""

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__(query_size, key_size)
        if query_size != key_size:
            raise ValueError(
                f"query_size is {query_size} and key_size {key_size}: a dot product needs equal sizes, the scores "
                "'multiplicative' and 'additive' do not"
            )

    def prepare(self, keys: Tensor) -> Tensor:
        return keys

    def forward(self, query: Tensor, prepared: Tensor) -> Tensor:
        return query @ prepared.transpose(1, 2)


class Scaled(Dot):
    """q · k / √K (Vaswani et al. 2017): its variance does not depend on the width."""

    def forward(self, query: Tensor, prepared: Tensor) -> Tensor:
        return super().forward(query / math.sqrt(self.key_size), prepared)


class Multiplicative(Score):
    """q · W k (Luong et al. 2015, "general")."""

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__(query_size, key_size)
        self.key = nn.Linear(key_size, query_size, bias=False)
        nn.init.xavier_uniform_(self.key.weight)

    def prepare(self, keys: Tensor) -> Tensor:
        prepared: Tensor = self.key(keys)
        return prepared

    def forward(self, query: Tensor, prepared: Tensor) -> Tensor:
        return query @ prepared.transpose(1, 2)


class Additive(Score):
    """v · tanh(W q + U k + b) (Bahdanau et al. 2015)."""

    def __init__(self, query_size: int, key_size: int, *, size: int) -> None:
        super().__init__(query_size, key_size)
        if size < 1:
            raise ValueError(f"size must be at least 1, got {size}")
        self.query = nn.Linear(query_size, size, bias=False)
        self.key = nn.Linear(key_size, size)
        self.combine = nn.Linear(size, 1, bias=False)
        for linear in (self.query, self.key, self.combine):
            nn.init.xavier_uniform_(linear.weight)
        nn.init.zeros_(self.key.bias)

    # Uses tanh(a) = 2σ(2a) - 1, because torch's sigmoid takes a seventh of the time of its tanh.
    def prepare(self, keys: Tensor) -> Tensor:
        prepared: Tensor = 2 * self.key(keys)
        return prepared

    def forward(self, query: Tensor, prepared: Tensor) -> Tensor:
        mixed = torch.sigmoid((2 * self.query(query)).unsqueeze(2) + prepared.unsqueeze(1))  # (B, T, S, A)
        weight = self.combine.weight[0]
        scores: Tensor = mixed @ (2 * weight) - weight.sum()
        return scores


SCORES = ("dot", "scaled", "multiplicative", "additive")


def build_score(
    score: str,
    query_size: int,
    *,
    key_size: int,
    size: int | None = None,  # inner width of the additive score; None: query_size
) -> Score:
    """Build a score from its name."""
    if score not in SCORES:
        raise ValueError(f"score is {score!r}, expected one of {', '.join(SCORES)}")
    if score == "additive":
        return Additive(query_size, key_size, size=query_size if size is None else size)
    if size is not None:
        raise ValueError(f"size is {size}, but only the additive score has a size, not {score!r}")
    return {"dot": Dot, "scaled": Scaled, "multiplicative": Multiplicative}[score](query_size, key_size)
