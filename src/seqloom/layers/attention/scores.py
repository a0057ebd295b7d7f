"""How well a query and a key fit, as one number: the scores of attention."""

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn


class Score(nn.Module, ABC):
    """Queries (B, T, Q) and keys (B, S, K) to (B, T, S). What does not depend on the query is computed once."""

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
        """Everything in the score that depends on the keys alone."""

    @abstractmethod
    def forward(
        self,
        query: Tensor,  # (B, T, Q)
        prepared: Tensor,  # (B, S, A)
    ) -> Tensor:  # (B, T, S)
        """The scores of all pairs."""


class Dot(Score):
    """q · k."""

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__(query_size, key_size)
        if query_size != key_size:
            raise ValueError(
                f"query_size is {query_size} and key_size {key_size}: a product needs equal ones, 'multiplicative' and "
                "'additive' do not"
            )

    def prepare(self, keys: Tensor) -> Tensor:
        return keys

    def forward(self, query: Tensor, prepared: Tensor) -> Tensor:
        return query @ prepared.transpose(1, 2)


class Scaled(Dot):
    """q · k / √K (Vaswani et al. 2017): of the same size whatever the width."""

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
        self.together = nn.Linear(size, 1, bias=False)
        for linear in (self.query, self.key, self.together):
            nn.init.xavier_uniform_(linear.weight)
        nn.init.zeros_(self.key.bias)

    # With tanh(a) = 2σ(2a) - 1: of torch's functions, the sigmoid takes a seventh of the time of the tanh.
    def prepare(self, keys: Tensor) -> Tensor:
        prepared: Tensor = 2 * self.key(keys)
        return prepared

    def forward(self, query: Tensor, prepared: Tensor) -> Tensor:
        mixed = torch.sigmoid((2 * self.query(query)).unsqueeze(2) + prepared.unsqueeze(1))  # (B, T, S, A)
        weight = self.together.weight[0]
        scores: Tensor = mixed @ (2 * weight) - weight.sum()
        return scores


SCORES = ("dot", "scaled", "multiplicative", "additive")


def make(
    score: str,
    query_size: int,
    *,
    key_size: int,
    size: int | None = None,  # of the additive score: the width at which query and key meet; None: the query's
) -> Score:
    """A score by its name."""
    if score not in SCORES:
        raise ValueError(f"score is {score!r}, expected one of {', '.join(SCORES)}")
    if score == "additive":
        return Additive(query_size, key_size, size=query_size if size is None else size)
    if size is not None:
        raise ValueError(f"size is {size}, but the score {score!r} has none: only 'additive' has")
    return {"dot": Dot, "scaled": Scaled, "multiplicative": Multiplicative}[score](query_size, key_size)
